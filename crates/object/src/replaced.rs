//! What an upload replaces: an object that nobody may have written since, and what stays of it besides its content.

use data_encoding::BASE64;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, IF_MATCH,
    IF_NONE_MATCH,
};
use http::{HeaderMap, HeaderName, Method};
use verisum_files::Timestamp;
use verisum_files::place::{FileIdentity, FileState, RecordedDigest};

use crate::client::{Client, Request, StoreAnswer, text};
use crate::error::RequestError;
use crate::listing::{self, encoded};
use crate::store::Store;

/// What else than the content stores send with it, by the header that says it.
const KEPT: [HeaderName; 5] =
    [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_DISPOSITION, CACHE_CONTROL];

/// Metadata in which other tools keep digests of the content, which is another one now.
const OF_CONTENT: [&str; 2] = ["md5chksum", "s3cmd-attrs"];

/// Where the time of the file is.
const TIME: &str = "mtime";

/// An upload to a key.
pub(crate) struct Upload<'k> {
    pub(crate) key: &'k [u8],
    /// The time of the file that is uploaded.
    pub(crate) original: Option<Timestamp>,
    pub(crate) replaced: Replaced,
    /// What stays of the object.
    pub(crate) kept: Kept,
}

/// What an upload may replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// Nothing may have the key.
    Nothing,
    /// The object that the store knows by this ETag or generation.
    Version(String),
    /// The store tells no version.
    Unknown,
}

/// What stays of an object that is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Headers that say how to take its content.
    pub(crate) headers: Vec<(HeaderName, String)>,
    /// Metadata of users, by names without the store's prefix.
    pub(crate) metadata: Vec<(String, String)>,
}

impl Kept {
    fn of(headers: &HeaderMap, prefix: &str) -> Kept {
        let named = |name: &HeaderName| Some((name.clone(), text(headers, name)?.to_string()));
        let metadata = headers.iter().filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix(prefix)?;
            let is_kept = name != TIME && !OF_CONTENT.contains(&name);
            is_kept.then_some((name.to_string(), value.to_str().ok()?.to_string()))
        });
        Kept { headers: KEPT.iter().filter_map(named).collect(), metadata: metadata.collect() }
    }
}

impl<'k> Upload<'k> {
    /// The headers of a request that uploads.
    pub(crate) fn headers(&self, client: &Client) -> Vec<(HeaderName, String)> {
        let store = &client.store;
        let kept = self.kept.headers.iter().map(|(name, value)| (store.content_header(name), value.clone()));
        let metadata = self.kept.metadata.iter().filter_map(|(name, value)| {
            let name = HeaderName::try_from(format!("{}{name}", store.metadata_prefix()?)).ok()?;
            Some((name, value.clone()))
        });
        kept.chain(metadata).chain(client.original_header(self.original)).collect()
    }

    /// The header of the request that shows the object: it fails if somebody else wrote it meanwhile.
    pub(crate) fn condition(&self) -> Option<(HeaderName, String)> {
        match &self.replaced {
            Replaced::Nothing => Some((IF_NONE_MATCH, "*".to_string())),
            Replaced::Version(etag) => Some((IF_MATCH, etag.clone())),
            Replaced::Unknown => None,
        }
    }
}

impl Client {
    /// The version of an object that was uploaded, if the answer tells it.
    pub(crate) fn written(&self, key: &[u8], answer: &StoreAnswer) -> Option<FileIdentity> {
        self.seen(key, None, &answer.headers).identity
    }

    /// An upload in the place of what was seen at its key: an object, or none.
    pub(crate) async fn upload<'k>(
        &self,
        key: &'k [u8],
        original: Option<Timestamp>,
        previous: Option<&FileState>,
    ) -> Result<Upload<'k>, RequestError> {
        let Some(previous) = previous else {
            return Ok(Upload { key, original, replaced: Replaced::Nothing, kept: Kept::default() });
        };
        let headers = match self.ask_headers(key).await {
            Err(RequestError::Missing) => return Err(RequestError::Replaced),
            headers => headers?,
        };
        let identity = self.seen(key, None, &headers).identity;
        if identity.zip(previous.identity).is_some_and(|(now, before)| now != before) {
            return Err(RequestError::Replaced);
        }
        // No server takes a weak ETag for a match.
        let version = text(&headers, &self.store.version()).filter(|etag| !etag.starts_with("W/"));
        let replaced = version.map_or(Replaced::Unknown, |version| Replaced::Version(version.to_string()));
        let kept = Kept::of(&headers, self.store.metadata_prefix().unwrap_or("\0"));
        Ok(Upload { key, original, replaced, kept })
    }

    /// Sends the request that shows an object, if nobody else wrote it meanwhile. Stores that do not know such requests
    /// get it after a last look, as do those that take a delete marker for an object: they keep versions, so that what
    /// comes meanwhile is not lost.
    pub(crate) async fn show(
        &self,
        upload: &Upload<'_>,
        mut request: Request<'_>,
    ) -> Result<StoreAnswer, RequestError> {
        let plain = request.headers.len();
        request.headers.extend(upload.condition());
        match self.ask(&request).await {
            Err(RequestError::Refused { status, code, .. })
                if request.headers.len() > plain && (status == 501 || code == "NotImplemented") =>
            {
                self.require_as_before(upload).await?;
            }
            Err(error @ RequestError::Replaced) if upload.replaced == Replaced::Nothing => {
                if !self.is_deleted(upload.key).await {
                    return Err(error);
                }
            }
            answer => return answer,
        }
        request.headers.truncate(plain);
        self.ask(&request).await
    }

    /// Whether a store of S3 says that the current version of a key is a delete marker.
    async fn is_deleted(&self, key: &[u8]) -> bool {
        let prefix = encoded(key, false);
        let query = format!("encoding-type=url&max-keys=1&prefix={prefix}&versions=");
        let asked = matches!(self.store, Store::S3 { .. }).then(|| Request::new(Method::GET, b"", query));
        let Some(asked) = asked else { return false };
        self.ask(&asked).await.is_ok_and(|answer| listing::is_deleted(&answer.body, key))
    }

    async fn require_as_before(&self, upload: &Upload<'_>) -> Result<(), RequestError> {
        let now = match self.ask_headers(upload.key).await {
            Ok(headers) => Some(text(&headers, &self.store.version()).unwrap_or_default().to_string()),
            Err(RequestError::Missing) => None,
            Err(error) => return Err(error),
        };
        let is_as_before = match &upload.replaced {
            Replaced::Nothing => now.is_none(),
            Replaced::Version(version) => now.as_ref() == Some(version),
            Replaced::Unknown => true,
        };
        if is_as_before { Ok(()) } else { Err(RequestError::Replaced) }
    }

    /// How an upload of a content with this digest, in Base64, ended: the version that it is now. Where the answer to it was
    /// lost, the same request is refused when it is sent again, because the object is there: one that has the digest is
    /// taken for ours.
    pub(crate) async fn ended(
        &self,
        upload: &Upload<'_>,
        ended: Result<Option<FileIdentity>, RequestError>,
        digest: &str,
    ) -> Result<Option<FileIdentity>, RequestError> {
        let is_ours = |recorded: &RecordedDigest| BASE64.encode(recorded.digest.as_bytes()) == digest;
        let Err(error @ (RequestError::Replaced | RequestError::Missing)) = ended else { return ended };
        match self.record(upload.key).await {
            Ok(record) if record.digests.iter().any(is_ours) => Ok(record.of.identity),
            _ if error == RequestError::Replaced => Err(error),
            // An object that was to be replaced is gone, or it is the upload that is.
            _ => self.require_as_before(upload).await.and(Err(error)),
        }
    }
}
