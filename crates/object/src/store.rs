//! The kinds of stores: how to open a URL, how to sign requests, and other differences.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use data_encoding::BASE64;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, ETAG};
use http::{HeaderName, HeaderValue, Method};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredentialProvider};
use object_store::azure::{
    AzureAuthorizer, AzureConfigKey, AzureCredential, AzureCredentialProvider, MicrosoftAzureBuilder,
};
use object_store::client::HttpRequest;
use object_store::gcp::{GcpCredentialProvider, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, RetryConfig};

use crate::client::{client_options, connector, plain_endpoint};
use crate::error::{BucketUrlError, OpenError, RequestError, without_credentials};
use crate::listing;
use crate::options::StoreOptions;
use crate::process::ProcessProvider;

/// What Azure answers with an error, also where there is no body.
pub(crate) const AZURE_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");

/// Which kind of store it is. Without credentials requests are not signed.
pub(crate) enum Store {
    /// Amazon S3 and S3-compatible stores.
    S3 { credentials: Option<AwsCredentialProvider>, region: String },
    /// Google Cloud Storage, with the URLs that list and that take uploads.
    Google { credentials: Option<GcpCredentialProvider>, list: String, upload: String },
    /// Azure Blob Storage.
    Azure { credentials: Option<AzureCredentialProvider>, account: String },
    /// A server of the web: it lists nothing, and takes nothing.
    Web,
}

/// A store, and the URL of the bucket.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) url: String,
}

/// A setting that has a value.
type Setting<'a> = Option<&'a str>;

impl Opened {
    pub(crate) fn of(url: &str, options: &StoreOptions) -> Result<Opened, OpenError> {
        let (scheme, name) = url.split_once("://").ok_or(BucketUrlError::NoUrl)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._$".contains(&byte);
        let is_web = matches!(scheme, "https" | "http");
        if !is_web && (name.is_empty() || name.starts_with('.') || !name.bytes().all(is_plain)) {
            return Err(BucketUrlError::Characters.into());
        }
        let region = options.region.iter().map(|region| ("the region", &region[..]));
        if let Some((name, _)) = options
            .settings_of("")
            .chain(region)
            .find(|(_, value)| value.chars().any(char::is_control))
            .filter(|_| !is_web)
        {
            return Err(OpenError::Characters(name.to_string()));
        }
        match scheme {
            "s3" => s3(name, options),
            "gs" => google(name, options),
            "az" => azure(name, options),
            "http" | "https" => Ok(Opened { store: Store::Web, url: plain_endpoint(url)?.to_string() }),
            _ => Err(BucketUrlError::OtherScheme.into()),
        }
    }
}

fn wrong(error: object_store::Error) -> OpenError {
    OpenError::Setting(error.into())
}

/// Requests for credentials are made once more at most.
fn retry_of_credentials(options: &StoreOptions) -> RetryConfig {
    let retry_timeout = options.timeout;
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 1, retry_timeout }
}

fn s3(bucket: &str, options: &StoreOptions) -> Result<Opened, OpenError> {
    let mut builder = AmazonS3Builder::new();
    for (name, value) in options.settings_of("AWS_") {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let setting = |key| builder.get_config_value(&key);
    let [has_id, has_key] = [AmazonS3ConfigKey::AccessKeyId, AmazonS3ConfigKey::SecretAccessKey]
        .map(|key| setting(key).is_some());
    if !options.unsigned && options.credential_process.is_none() && has_id != has_key {
        return Err(if has_id { OpenError::NoSecret } else { OpenError::NoKeyId });
    }
    let region = options.region.clone().or_else(|| setting(AmazonS3ConfigKey::Region));
    let region = region.or_else(|| setting(AmazonS3ConfigKey::DefaultRegion));
    let region = region.unwrap_or_else(|| "us-east-1".to_string());
    if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(OpenError::Characters("the region".to_string()));
    }
    let endpoint = options.endpoint.clone().or_else(|| setting(AmazonS3ConfigKey::Endpoint));
    let url = match &endpoint {
        Some(endpoint) => format!("{}/{bucket}", plain_endpoint(endpoint)?),
        // Certificates of AWS do not cover names of buckets with points.
        None if bucket.contains('.') => format!("https://s3.{region}.amazonaws.com/{bucket}"),
        None => format!("https://{bucket}.s3.{region}.amazonaws.com"),
    };
    let credentials = match options.unsigned {
        true => None,
        false => {
            let builder = builder.with_bucket_name(bucket).with_region(&region);
            let builder = builder.with_http_connector(connector(options));
            let builder = builder
                .with_client_options(client_options(&url, options))
                .with_retry(retry_of_credentials(options));
            let builder = match &options.credential_process {
                Some(command) => builder
                    .with_credentials(Arc::new(ProcessProvider::new(command, connector(options).timeout))),
                None => builder,
            };
            Some(builder.build().map_err(wrong)?.credentials().clone())
        }
    };
    Ok(Opened { store: Store::S3 { credentials, region }, url })
}

/// What is wrong with the credentials of Google: of their own words some repeat what is in the file.
fn of_google(error: object_store::Error, options: &StoreOptions) -> OpenError {
    let variable = "GOOGLE_APPLICATION_CREDENTIALS";
    let Some(path) = options.setting(variable).map(PathBuf::from) else { return wrong(error) };
    let why = match File::open(&path) {
        Ok(_) => "it has no credentials of Google".to_string(),
        Err(error) => verisum_files::text::of_system(&error),
    };
    OpenError::CredentialsFile { variable, path, why }
}

fn google(bucket: &str, options: &StoreOptions) -> Result<Opened, OpenError> {
    const USUAL: &str = "https://storage.googleapis.com";
    // The variable that Google's own tools and libraries know for a server of tests.
    let emulator = options.setting("STORAGE_EMULATOR_HOST").map(|host| match host.contains("://") {
        true => host.to_string(),
        false => format!("http://{host}"),
    });
    let is_emulated = emulator.is_some() && options.endpoint.is_none();
    let endpoint = options.endpoint.clone().or(emulator).unwrap_or_else(|| USUAL.to_string());
    let endpoint = plain_endpoint(&endpoint)?;
    let credentials = match options.unsigned || is_emulated {
        true => None,
        false => {
            let mut builder = GoogleCloudStorageBuilder::new();
            for (name, value) in options.settings_of("GOOGLE_") {
                if let Ok(key) = name.to_ascii_lowercase().parse::<GoogleConfigKey>() {
                    builder = builder.with_config(key, value);
                }
            }
            let builder = builder.with_bucket_name(bucket).with_retry(retry_of_credentials(options));
            let builder = builder.with_http_connector(connector(options));
            let builder = builder.with_client_options(client_options(USUAL, options));
            let built = builder.build().map_err(|error| of_google(error, options))?;
            Some(built.credentials().clone())
        }
    };
    let [list, upload] = ["storage", "upload/storage"].map(|api| format!("{endpoint}/{api}/v1/b/{bucket}/o"));
    Ok(Opened { url: format!("{endpoint}/{bucket}"), store: Store::Google { credentials, list, upload } })
}

fn azure(container: &str, options: &StoreOptions) -> Result<Opened, OpenError> {
    let connection = options.setting("AZURE_STORAGE_CONNECTION_STRING").unwrap_or_default();
    let of_connection = |key: &str| -> Setting<'_> {
        let parts = connection.split(';').filter_map(|part| part.split_once('='));
        parts.filter(|(name, _)| *name == key).map(|(_, value)| value).next_back()
    };
    let named = |names: &[&str], key: &str| {
        names.iter().find_map(|name| options.setting(name)).or_else(|| of_connection(key))
    };
    let account = named(&["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"], "AccountName");
    let account = account.ok_or(OpenError::NoAccount)?;
    if account.is_empty() || !account.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(OpenError::AccountName);
    }
    let endpoint = options.endpoint.as_deref();
    let endpoint = endpoint.or_else(|| named(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"], "BlobEndpoint"));
    let suffix = of_connection("EndpointSuffix").unwrap_or("core.windows.net");
    let endpoint = endpoint.map_or_else(|| format!("https://{account}.blob.{suffix}"), str::to_string);
    let url = format!("{}/{container}", plain_endpoint(&endpoint)?);
    let credentials = match options.unsigned {
        true => None,
        false => {
            let mut builder = MicrosoftAzureBuilder::new();
            for (name, value) in options.settings_of("AZURE_") {
                if let Ok(key) = name.to_ascii_lowercase().parse::<AzureConfigKey>() {
                    builder = builder.with_config(key, value);
                }
            }
            if let Some(key) = named(&["AZURE_STORAGE_KEY"], "AccountKey") {
                builder = builder.with_access_key(key);
            }
            if let Some(token) = of_connection("SharedAccessSignature") {
                builder = builder.with_config(AzureConfigKey::SasKey, token);
            }
            let key = builder.get_config_value(&AzureConfigKey::AccessKey);
            if key.is_some_and(|key| BASE64.decode(key.trim().as_bytes()).is_err()) {
                return Err(OpenError::AccountKey);
            }
            let builder = builder.with_account(account).with_container_name(container);
            let builder = builder.with_http_connector(connector(options));
            let builder = builder
                .with_client_options(client_options(&url, options))
                .with_retry(retry_of_credentials(options));
            Some(builder.build().map_err(wrong)?.credentials().clone())
        }
    };
    Ok(Opened { store: Store::Azure { credentials, account: account.to_string() }, url })
}

impl Store {
    /// Whether files can be written there.
    pub(crate) fn takes_files(&self) -> bool {
        !matches!(self, Store::Web)
    }

    /// The header in which an object has the time of the file that it was uploaded from, in seconds since 1970 with a
    /// fraction, as rclone and s3fs write it.
    pub(crate) fn original_time(&self) -> Option<HeaderName> {
        HeaderName::try_from(format!("{}mtime", self.metadata_prefix()?)).ok()
    }

    /// How the headers begin that have the metadata of users.
    pub(crate) fn metadata_prefix(&self) -> Option<&'static str> {
        match self {
            Store::S3 { .. } => Some("x-amz-meta-"),
            Store::Google { .. } => Some("x-goog-meta-"),
            Store::Azure { .. } => Some("x-ms-meta-"),
            Store::Web => None,
        }
    }

    /// The header of an upload that sets this header of the object.
    pub(crate) fn content_header(&self, name: &HeaderName) -> HeaderName {
        let renamed = matches!(self, Store::Azure { .. }).then(|| format!("x-ms-blob-{name}"));
        renamed.and_then(|name| HeaderName::try_from(name).ok()).unwrap_or_else(|| name.clone())
    }

    /// The header that tells a version of an object from others: that listings have too.
    pub(crate) fn version(&self) -> HeaderName {
        match self {
            Store::Google { .. } => HeaderName::from_static("x-goog-generation"),
            Store::S3 { .. } | Store::Azure { .. } | Store::Web => ETAG,
        }
    }

    /// The path of a key in the URL of its bucket, which begins with a slash where it is not nothing.
    pub(crate) fn path(&self, key: &[u8]) -> String {
        match self {
            Store::S3 { .. } => format!("/{}", listing::encoded(key, true)),
            _ if key.is_empty() => String::new(),
            // It was typed as a URL.
            Store::Web => key.iter().fold("/".to_string(), |mut path, byte| {
                match byte {
                    b'!'..=b'~' if !b"\"<>?#\\^`{|}".contains(byte) => path.push(*byte as char),
                    _ => path.push_str(&format!("%{byte:02X}")),
                }
                path
            }),
            Store::Google { .. } | Store::Azure { .. } => format!("/{}", listing::encoded(key, true)),
        }
    }

    /// Signs a request.
    pub(crate) async fn sign(&self, request: &mut HttpRequest) -> Result<(), RequestError> {
        let failed = |error: object_store::Error| {
            RequestError::Credentials(without_credentials(&error), self.remedy())
        };
        match self {
            Store::S3 { credentials: Some(credentials), region } => {
                let credential = credentials.get_credential().await.map_err(failed)?;
                // The key itself goes nowhere.
                let sent = [Some(&credential.key_id), credential.token.as_ref()];
                self.require_plain(sent.into_iter().flatten())?;
                AwsAuthorizer::new(&credential, "s3", region).try_authorize(request, None).map_err(failed)?;
            }
            Store::Google { credentials, .. } => {
                if matches!(*request.method(), Method::GET | Method::HEAD) {
                    // Or it sends another content of what was compressed when it was written.
                    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
                }
                if let Some(credentials) = credentials {
                    let credential = credentials.get_credential().await.map_err(failed)?;
                    let bearer = HeaderValue::from_str(&format!("Bearer {}", credential.bearer));
                    let bearer = bearer.map_err(|_| {
                        RequestError::Credentials("the token is no text".to_string(), self.remedy())
                    })?;
                    request.headers_mut().insert(AUTHORIZATION, bearer);
                }
            }
            Store::Azure { credentials: Some(credentials), account } => {
                // It is part of what is signed.
                let length = request.body().content_length();
                if length > 0 || request.method() == Method::PUT {
                    request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
                }
                let credential = credentials.get_credential().await.map_err(failed)?;
                if let AzureCredential::BearerToken(token) = &*credential {
                    self.require_plain([token].into_iter())?;
                }
                AzureAuthorizer::new(&credential, account).try_authorize(request).map_err(failed)?;
            }
            Store::S3 { .. } | Store::Azure { .. } | Store::Web => {}
        }
        Ok(())
    }

    /// Fails if one of these cannot be sent in a header, as what was pasted with a line's end.
    fn require_plain<'a>(&self, mut sent: impl Iterator<Item = &'a String>) -> Result<(), RequestError> {
        match sent.all(|text| HeaderValue::from_str(text).is_ok()) {
            true => Ok(()),
            false => {
                let why = "the key or the token has characters that none has, such as a line's end";
                Err(RequestError::Credentials(why.to_string(), self.remedy()))
            }
        }
    }

    /// What to do without credentials.
    fn remedy(&self) -> &'static str {
        match self {
            Store::Google { .. } => {
                "set GOOGLE_APPLICATION_CREDENTIALS, run `gcloud auth application-default login`, \
                 or use --no-sign-request for a public bucket"
            }
            Store::Azure { .. } => {
                "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, \
                 or use --no-sign-request for a public container"
            }
            Store::S3 { .. } | Store::Web => {
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile by --profile, \
                 or use --no-sign-request for a public bucket"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(url: &str, settings: &[(&str, &str)]) -> Result<String, String> {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let options = StoreOptions { settings, unsigned: true, ..StoreOptions::default() };
        Opened::of(url, &options).map(|opened| opened.url).map_err(|error| error.to_string())
    }

    #[test]
    fn each_scheme_leads_to_its_store() {
        assert_eq!(opened("s3://b", &[]).unwrap(), "https://b.s3.us-east-1.amazonaws.com");
        assert_eq!(opened("s3://b.c", &[]).unwrap(), "https://s3.us-east-1.amazonaws.com/b.c");
        assert_eq!(opened("gs://b", &[]).unwrap(), "https://storage.googleapis.com/b");
        let emulator = [("STORAGE_EMULATOR_HOST", "localhost:4443")];
        assert_eq!(opened("gs://b", &emulator).unwrap(), "http://localhost:4443/b");
        let account = [("AZURE_STORAGE_ACCOUNT", "acme")];
        assert_eq!(opened("az://c", &account).unwrap(), "https://acme.blob.core.windows.net/c");
        let connection = "AccountName=acme;AccountKey=c2VjcmV0==;BlobEndpoint=http://127.0.0.1:10000/acme;";
        let connection = [("AZURE_STORAGE_CONNECTION_STRING", connection)];
        assert_eq!(opened("az://c", &connection).unwrap(), "http://127.0.0.1:10000/acme/c");
        assert_eq!(opened("https://host:8443", &[]).unwrap(), "https://host:8443");
        assert!(opened("az://c", &[]).unwrap_err().contains("AZURE_STORAGE_ACCOUNT_NAME"));
        for bad in ["b", "ftp://b", "gs://", "gs://a b", "s3://.b", "https://user:secret@host"] {
            let error = opened(bad, &[]).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn urls_of_the_web_stay_as_they_were_typed() {
        assert_eq!(Store::Web.path(b"a%20b/c d~\xff"), "/a%20b/c%20d~%FF");
    }
}
