//! Uploads objects: small ones at once, others in parts. The store checks each body by its SHA-256, and shows
//! the object only when it is complete.

use std::collections::VecDeque;
use std::io::{self, Read};

use data_encoding::BASE64;
use http::header::ETAG;
use http::{HeaderName, Method};
use quick_xml::de::from_reader;
use quick_xml::escape::escape;
use serde::Deserialize;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use verisum_digest::{Digest, DigestStream, Output};
use verisum_files::Timestamp;
use verisum_files::place::{FileIdentity, FileState};

use crate::client::{Client, Request, SharedClient, text};
use crate::error::RequestError;
use crate::google::{self, no_md5};
use crate::listing::{encoded, identity, version_of};
use crate::replaced::Upload;
use crate::store::Store;

/// The shortest part but the last; what is not longer is written at once.
pub(crate) const PART: u64 = 16 << 20;
/// The most parts of an object, as S3 has them.
const MOST_PARTS: u64 = 10_000;
/// How many parts are under way.
const AT_ONCE: usize = 3;

const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-checksum-sha256");
const CHECKSUM_ALGORITHM: HeaderName = HeaderName::from_static("x-amz-checksum-algorithm");

/// Why an object is not written.
#[derive(Debug)]
pub(crate) enum UploadError {
    /// The content cannot be read.
    Content(io::Error),
    Request(RequestError),
}

impl From<RequestError> for UploadError {
    fn from(error: RequestError) -> UploadError {
        UploadError::Request(error)
    }
}

/// A part that the store has.
pub(crate) struct WrittenPart {
    pub(crate) number: u64,
    pub(crate) etag: String,
    pub(crate) checksum: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Begun {
    upload_id: String,
}

#[derive(Deserialize)]
struct Completed {
    #[serde(rename = "ETag")]
    etag: Option<String>,
}

/// Why no object can have a key of this form.
const IS_VERSION: &str =
    "its name ends as the address of a version of an object does (?versionId=), and versions are only read";

/// Fails if no new object may have this key. Listings are XML at most stores, and tell only its characters: one key with
/// others can make a bucket that nobody can list.
pub(crate) fn require_name(store: &Store, key: &[u8]) -> Result<(), RequestError> {
    let is_of_xml = |c: char| c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}') || "\t\n\r".contains(c);
    match std::str::from_utf8(key) {
        Err(_) => Err(RequestError::Name("it is not UTF-8")),
        Ok(text) if !text.chars().all(is_of_xml) => {
            Err(RequestError::Name("it has characters that lists of keys cannot have"))
        }
        Ok(_) if matches!(store, Store::Azure { .. }) && key.contains(&b'\\') => {
            Err(RequestError::Name("it makes / of \\"))
        }
        Ok(_) if matches!(store, Store::S3 { .. }) && version_of(key).1.is_some() => {
            Err(RequestError::Version(IS_VERSION))
        }
        Ok(_) => Ok(()),
    }
}

/// Writes an object with this content, which has about this length and this time, in the place of what was seen at its
/// key. Returns which version it is, if the store tells that.
pub(crate) fn write(
    client: &SharedClient,
    runtime: &Runtime,
    key: &[u8],
    content: &mut dyn Read,
    about: &FileState,
    previous: Option<&FileState>,
) -> Result<Option<FileIdentity>, UploadError> {
    if previous.is_none() || matches!(client.store, Store::Azure { .. }) {
        require_name(&client.store, key)?;
    }
    let part = about.size.unwrap_or(0).div_ceil(MOST_PARTS - 1).next_multiple_of(1 << 20).max(PART);
    let first = piece(content, part)?;
    let original = about.modified.map(|modified| modified.time);
    let upload = runtime.block_on(client.upload(key, original, previous))?;
    if (first.len() as u64) < part {
        return Ok(runtime.block_on(client.put(&upload, first))?);
    }
    if let Store::Google { upload: url, .. } = &client.store {
        return google::resumable((client, url), runtime, &upload, first, content);
    }
    let number = runtime.block_on(client.begin(&upload))?;
    let mut whole = Whole::new(&client.store)?;
    let written = parts((client, runtime), key, &number, first, (content, part), &mut whole);
    let ended = written.and_then(|parts| {
        let md5 = whole.md5()?;
        runtime.block_on(client.complete(&upload, &number, &parts, md5)).map_err(UploadError::from)
    });
    if ended.is_err() {
        // Stores keep the parts of uploads that nobody ends, and ask money for them.
        let _ = runtime.block_on(client.abort(key, &number));
    }
    ended
}

/// Writes all parts, some at once.
fn parts(
    (client, runtime): (&SharedClient, &Runtime),
    key: &[u8],
    upload: &str,
    first: Vec<u8>,
    (content, part): (&mut dyn Read, u64),
    whole: &mut Whole,
) -> Result<Vec<WrittenPart>, UploadError> {
    let mut under_way = VecDeque::new();
    let sent = send_all((client, runtime), (key, upload), first, (content, part), whole, &mut under_way);
    for part in under_way {
        // The store would keep a part that comes when the upload is no more.
        let _ = runtime.block_on(part);
    }
    sent
}

/// A part that is being sent.
type SentPart = JoinHandle<Result<WrittenPart, RequestError>>;

fn send_all(
    (client, runtime): (&SharedClient, &Runtime),
    (key, upload): (&[u8], &str),
    first: Vec<u8>,
    (content, part): (&mut dyn Read, u64),
    whole: &mut Whole,
    under_way: &mut VecDeque<SentPart>,
) -> Result<Vec<WrittenPart>, UploadError> {
    let mut written = Vec::new();
    let mut next = first;
    loop {
        let is_last = (next.len() as u64) < part;
        // The end may be that of a part.
        let number = (written.len() + under_way.len()) as u64 + 1;
        let (client, key, upload) = (client.clone(), key.to_vec(), upload.to_string());
        if !next.is_empty() {
            whole.add(&next)?;
            let send = async move { client.put_part(&key, &upload, number, next).await };
            under_way.push_back(runtime.spawn(send));
        }
        while under_way.len() >= AT_ONCE || is_last && !under_way.is_empty() {
            let Some(handle) = under_way.pop_front() else { break };
            let ended = runtime.block_on(handle);
            written.push(ended.map_err(|error| RequestError::Network(format!("send a part: {error}")))??);
        }
        if is_last {
            return Ok(written);
        }
        next = piece(content, part)?;
    }
}

/// The MD5 of all parts, where the store keeps what it is told of it.
struct Whole(Option<Box<dyn DigestStream>>);

impl Whole {
    fn new(store: &Store) -> Result<Whole, RequestError> {
        match store {
            Store::Azure { .. } => {
                let stream = Digest::find("md5").and_then(|digest| digest.stream());
                stream.map(|stream| Whole(Some(stream))).map_err(|_| no_md5())
            }
            _ => Ok(Whole(None)),
        }
    }

    fn add(&mut self, part: &[u8]) -> Result<(), RequestError> {
        self.0.as_mut().map_or(Ok(()), |stream| stream.update(part)).map_err(|_| no_md5())
    }

    fn md5(self) -> Result<Option<Output>, RequestError> {
        let Some(mut stream) = self.0 else { return Ok(None) };
        let mut md5 = Output::zeroed(16);
        stream.finish(md5.as_mut_bytes()).map_err(|_| no_md5())?;
        Ok(Some(md5))
    }
}

/// So much of the content, or what is left.
pub(crate) fn piece(content: &mut dyn Read, most: u64) -> Result<Vec<u8>, UploadError> {
    let mut bytes = Vec::new();
    content.take(most).read_to_end(&mut bytes).map_err(UploadError::Content)?;
    Ok(bytes)
}

fn checksum(body: &[u8]) -> Result<String, RequestError> {
    let digest = Digest::find("sha256").and_then(|digest| digest.hash(body));
    let digest = digest.map_err(|_| RequestError::Answer("SHA-256 cannot be computed"))?;
    Ok(BASE64.encode(digest.as_bytes()))
}

/// The checksum of an object of these parts.
fn checksum_of_parts(parts: &[WrittenPart]) -> Result<String, RequestError> {
    let digests = parts.iter().map(|part| BASE64.decode(part.checksum.as_bytes()).unwrap_or_default());
    checksum(&digests.collect::<Vec<_>>().concat())
}

impl Client {
    /// When the file was modified, in seconds since 1970 with a fraction, as rclone and s3fs write it.
    pub(crate) fn original_header(&self, time: Option<Timestamp>) -> Option<(HeaderName, String)> {
        Some((self.store.original_time()?, time?.to_string()))
    }

    async fn put(&self, upload: &Upload<'_>, body: Vec<u8>) -> Result<Option<FileIdentity>, RequestError> {
        match &self.store {
            Store::Google { upload: url, .. } => return self.google_put(url, upload, body).await,
            Store::Azure { .. } => return self.azure_put(upload, body).await,
            Store::S3 { .. } | Store::Web => {}
        }
        let checksum = checksum(&body)?;
        let mut headers = vec![(CHECKSUM, checksum.clone())];
        headers.extend(upload.headers(self));
        let request = Request { headers, body: body.into(), ..Request::new(Method::PUT, upload.key, "") };
        let written = self.show(upload, request).await.map(|answer| self.written(upload.key, &answer));
        self.ended(upload, written, &checksum).await
    }

    async fn begin(&self, upload: &Upload<'_>) -> Result<String, RequestError> {
        if let Store::Azure { .. } = self.store {
            // It keeps the parts of an object until they are named, and for a week.
            return Ok(String::new());
        }
        let mut headers = vec![(CHECKSUM_ALGORITHM, "SHA256".to_string())];
        headers.extend(upload.headers(self));
        let request = Request { headers, ..Request::new(Method::POST, upload.key, "uploads=") };
        let answer = self.ask(&request).await?;
        let begun: Begun =
            from_reader(&answer.body[..]).map_err(|_| RequestError::Answer("no number of an upload"))?;
        Ok(begun.upload_id)
    }

    async fn put_part(
        &self,
        key: &[u8],
        upload: &str,
        number: u64,
        body: Vec<u8>,
    ) -> Result<WrittenPart, RequestError> {
        if let Store::Azure { .. } = self.store {
            return self.azure_part(key, number, body).await;
        }
        let checksum = checksum(&body)?;
        let headers = vec![(CHECKSUM, checksum.clone())];
        let query = format!("partNumber={number}&uploadId={}", encoded(upload.as_bytes(), false));
        let request = Request { headers, body: body.into(), ..Request::new(Method::PUT, key, query) };
        let answer = self.ask(&request).await?;
        let etag = text(&answer.headers, &ETAG).ok_or(RequestError::Answer("a part has no ETag"))?;
        Ok(WrittenPart { number, etag: etag.to_string(), checksum })
    }

    async fn complete(
        &self,
        upload: &Upload<'_>,
        number: &str,
        parts: &[WrittenPart],
        md5: Option<Output>,
    ) -> Result<Option<FileIdentity>, RequestError> {
        if let Store::Azure { .. } = self.store {
            return self.azure_complete(upload, parts, md5).await;
        }
        let mut body = "<CompleteMultipartUpload>".to_string();
        for WrittenPart { number, etag, checksum } in parts {
            let etag = escape(etag);
            body += &format!(
                "<Part><ChecksumSHA256>{checksum}</ChecksumSHA256><ETag>{etag}</ETag><PartNumber>{number}</PartNumber></Part>"
            );
        }
        body += "</CompleteMultipartUpload>";
        let query = format!("uploadId={}", encoded(number.as_bytes(), false));
        let body = body.into_bytes().into();
        let request = Request { body, ..Request::new(Method::POST, upload.key, query) };
        let completed = self.show(upload, request).await.and_then(|answer| {
            // It says that it succeeds before it has.
            match String::from_utf8_lossy(&answer.body).contains("<CompleteMultipartUploadResult") {
                true => {
                    let completed = from_reader::<_, Completed>(&answer.body[..]).ok();
                    Ok(completed.and_then(|completed| identity(upload.key, &completed.etag?)))
                }
                false => Err(RequestError::of_answer(500, &answer.body)),
            }
        });
        self.ended(upload, completed, &checksum_of_parts(parts)?).await
    }

    async fn abort(&self, key: &[u8], upload: &str) -> Result<(), RequestError> {
        if let Store::Azure { .. } = self.store {
            return Ok(());
        }
        let query = format!("uploadId={}", encoded(upload.as_bytes(), false));
        self.ask(&Request::new(Method::DELETE, key, query)).await.map(drop)
    }
}
