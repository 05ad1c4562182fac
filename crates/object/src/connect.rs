//! Connections to stores. A request signed for one address is sent to no other.

use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService};
use object_store::{ClientConfigKey, ClientOptions, Error};
use reqwest::redirect::Policy;

/// How many redirections are followed where nothing is signed.
const MOST_REDIRECTIONS: usize = 10;
/// A request for credentials takes no longer than so many times the time in which a store must answer, and none is sent
/// again after that time.
pub(crate) const WHOLE: u32 = 10;
/// The longest answer that has credentials.
const MOST_CREDENTIALS: usize = 1 << 20;
/// As `object_store` says it of the machine's own server of credentials, which most machines do not have.
const NEAR: (&str, Duration) = ("1s", Duration::from_secs(1));

/// Makes connections for a store, and for those that give credentials for it.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    /// How long a server may be silent.
    pub(crate) timeout: Duration,
    /// Whether redirections are followed: a signature goes with the request, and holds for one address.
    pub(crate) follows: bool,
}

impl Connector {
    /// A client of HTTP, whose users see to it that no answer takes for ever.
    pub(crate) fn client(&self, allows_http: bool, connect: Duration) -> reqwest::Result<reqwest::Client> {
        self.builder(allows_http, connect).build()
    }

    fn builder(&self, allows_http: bool, connect: Duration) -> reqwest::ClientBuilder {
        let policy = if self.follows { Policy::limited(MOST_REDIRECTIONS) } else { Policy::none() };
        reqwest::Client::builder()
            .user_agent(concat!("verisum/", env!("CARGO_PKG_VERSION")))
            .redirect(policy)
            .referer(false)
            // Bytes are taken as they are, whatever the program that this is in has reqwest built with.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .https_only(!allows_http)
            .connect_timeout(connect)
            .read_timeout(self.timeout)
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let option = |key| options.get_config_value(&key);
        let allows_http = option(ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let is_near = option(ClientConfigKey::ConnectTimeout).as_deref() == Some(NEAR.0);
        let connect = if is_near { NEAR.1.min(self.timeout) } else { self.timeout };
        let client = self.builder(allows_http, connect).timeout(self.timeout.saturating_mul(WHOLE)).build();
        client
            .map(|client| HttpClient::new(Credentials(client)))
            .map_err(|error| Error::Generic { store: "HTTP", source: Box::new(error) })
    }
}

/// Asks those that give credentials. Of their answers neither the bodies of errors are read, which may repeat the request
/// with its secrets, nor more than credentials are: what is cut has none.
#[derive(Debug)]
struct Credentials(reqwest::Client);

impl HttpService for Credentials {
    fn call<'own, 'future>(
        &'own self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'future>>
    where
        'own: 'future,
        Self: 'future,
    {
        Box::pin(async move {
            let (parts, body) = self.0.call(request).await?.into_parts();
            let most = if parts.status.is_success() { MOST_CREDENTIALS } else { 0 };
            let (mut found, mut pieces) = (Vec::new(), body.bytes_stream());
            while found.len() < most
                && let Some(piece) = pieces.next().await
            {
                found.extend_from_slice(&piece?);
            }
            Ok(HttpResponse::from_parts(parts, found.into()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_credentials_on_this_machine_are_asked_for_a_short_time() {
        let options = ClientOptions::new().with_connect_timeout(NEAR.1);
        let found = options.get_config_value(&ClientConfigKey::ConnectTimeout);
        assert_eq!(found.as_deref(), Some(NEAR.0));
    }
}
