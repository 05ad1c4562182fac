//! Sends signed requests to one bucket, with limits on their number, their time and their answers.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_MATCH, LAST_MODIFIED, RANGE};
use http::{HeaderMap, HeaderName, Method, Uri};
use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody, HttpResponse};
use reqwest::Url;
use tokio::time::Instant;
use verisum_files::place::{FileState, KnownState, Modified};
use verisum_files::{Limits, Timestamp};

use crate::attributes::Attributes;
use crate::connect::{Connector, WHOLE};
use crate::error::{EndpointError, OpenError, RequestError, is_region};
use crate::listing::{self, Page};
use crate::meter::{Meter, RequestClass};
use crate::options::StoreOptions;
use crate::store::{AZURE_CODE, Opened, Store};

/// Asks S3 for checksums beside the bytes of an object.
const CHECKSUM_MODE: HeaderName = HeaderName::from_static("x-amz-checksum-mode");

/// How often a request is sent until it is given up.
const ATTEMPTS: u32 = 5;
/// How long to wait after the first failure; twice as long after each other.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest answer that is no object: a page of keys, or an error.
const MOST_TEXT: u64 = 16 << 20;
/// The longest object that is read in one answer because nothing names its content.
const MOST_NAMELESS: u64 = 32 << 20;
/// The longest body of an error that is read for its code.
const MOST_ERROR: u64 = 64 << 10;
/// An answer that brings fewer bytes a second, measured over the time in which a store must answer, is given up.
const SLOWEST: u64 = 1 << 10;
/// Where S3 says which region a bucket is in.
const REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");
/// Where S3 says which version of an object it is.
const VERSION: HeaderName = HeaderName::from_static("x-amz-version-id");

/// A bucket, and how to ask for what is in it.
pub(crate) struct Client {
    http: HttpClient,
    pub(crate) store: Store,
    /// The URL of the bucket, without a slash at its end.
    pub(crate) url: String,
    meter: Arc<Meter>,
    pace: Option<Pace>,
    pub(crate) limits: Option<Arc<Limits>>,
    /// How many requests are under way at most.
    pub(crate) at_once: usize,
    /// Whether ETags are known to be digests of contents, where they have the form of such: those of Amazon are, and those
    /// of a store in which one was found to be. Others may be anything.
    pub(crate) etags_tell: AtomicBool,
    /// Whether the store knows the credentials, as an answer with a body has shown. Before, one without a body that says
    /// that there is no object may be about them.
    knows_us: AtomicBool,
    /// How long after its first attempt a request may be sent again.
    whole: Duration,
}

/// A rate of requests: when the next one may be sent, and how long after it another.
struct Pace {
    next: Mutex<Instant>,
    between: Duration,
}

impl Pace {
    fn new(requests_per_second: f64) -> Pace {
        Pace { next: Mutex::new(Instant::now()), between: Duration::from_secs_f64(1.0 / requests_per_second) }
    }

    /// Waits for the turn of a request.
    async fn wait(&self) {
        let turn = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = Instant::now().max(*next);
            *next = turn + self.between;
            turn
        };
        tokio::time::sleep_until(turn).await;
    }
}

/// A part of an object.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    /// The length of the whole object, and when it was written.
    pub(crate) seen: FileState,
    pub(crate) size: u64,
    /// When the file was modified that it was uploaded from.
    pub(crate) original: Option<Modified>,
    /// What names this content of the object.
    pub(crate) etag: Option<String>,
    /// The version of the object, where a bucket keeps versions.
    pub(crate) version: Option<String>,
    /// What came with it of what the store recorded of the object.
    pub(crate) recorded: Attributes,
}

impl Part {
    /// Whether it must be read at once, as further ranges may be of different content, and is short enough for that.
    pub(crate) fn is_nameless(&self) -> bool {
        (self.bytes.len() as u64) < self.size && !self.has_name() && self.size <= MOST_NAMELESS
    }

    /// Whether anything tells its content from another of the same length.
    pub(crate) fn has_name(&self) -> bool {
        self.etag.is_some() || self.version.is_some() || self.seen.modified.is_some()
    }
}

/// What is asked for.
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) key: &'a [u8],
    pub(crate) query: String,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: HttpRequestBody,
    /// The longest body that may come.
    pub(crate) most: u64,
}

impl<'a> Request<'a> {
    /// One without headers and body, whose answer is a text.
    pub(crate) fn new(method: Method, key: &'a [u8], query: impl Into<String>) -> Request<'a> {
        let body = HttpRequestBody::empty();
        Request { method, key, query: query.into(), headers: Vec::new(), body, most: MOST_TEXT }
    }
}

/// An answer with success.
pub(crate) struct StoreAnswer {
    status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// The bucket with this URL.
    pub(crate) fn new(url: &str, options: &StoreOptions) -> Result<Client, OpenError> {
        // Fails where another part of the program chose one before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let Opened { store, url } = Opened::of(url, options)?;
        if url.parse::<Uri>().is_err() || Url::parse(&url).is_err() {
            return Err(OpenError::Endpoint(EndpointError::NoUrl));
        }
        let Connector { timeout, .. } = connector(options);
        let connector = Connector { follows: matches!(store, Store::Web), timeout };
        let http = connector.client(url.starts_with("http://"), timeout);
        let http = HttpClient::new(http.map_err(|error| OpenError::System(error.into()))?);
        let (pace, meter) = (options.requests_per_second.map(Pace::new), options.meter.clone());
        let (limits, at_once) = (options.limits.clone(), options.at_once.max(1));
        let host = url.parse::<Uri>().ok().and_then(|url| Some(url.host()?.to_string())).unwrap_or_default();
        let etags_tell = AtomicBool::new(host.ends_with(".amazonaws.com"));
        let whole = timeout * WHOLE;
        let knows_us = AtomicBool::new(false);
        Ok(Client { http, store, url, meter, pace, limits, at_once, etags_tell, knows_us, whole })
    }

    /// A page of the keys that begin with `prefix`, in the order of their bytes.
    pub(crate) async fn page(
        &self,
        prefix: &[u8],
        next: Option<&str>,
        most: usize,
    ) -> Result<Page, RequestError> {
        let page = self.answered_page(prefix, next, most).await?;
        match page.objects.iter().all(|listed| listed.key.starts_with(prefix)) {
            true => Ok(page),
            false => Err(RequestError::Answer("it lists a key that was not asked for")),
        }
    }

    /// The same, whatever keys the answer has.
    async fn answered_page(
        &self,
        prefix: &[u8],
        next: Option<&str>,
        most: usize,
    ) -> Result<Page, RequestError> {
        match &self.store {
            Store::S3 { .. } => {}
            Store::Google { list, .. } => return self.google_page(list, prefix, (next, most)).await,
            Store::Azure { .. } => return self.azure_page(prefix, (next, most)).await,
            Store::Web if prefix.is_empty() => return Err(RequestError::Answer("only one object has a URL")),
            Store::Web => return Ok(Page { objects: Vec::new(), next: None }),
        }
        let mut query = String::new();
        if let Some(next) = next {
            query = format!("continuation-token={}&", listing::encoded(next.as_bytes(), false));
        }
        let prefix = listing::encoded(prefix, false);
        query.push_str(&format!("encoding-type=url&list-type=2&max-keys={most}&prefix={prefix}"));
        let request = Request::new(Method::GET, b"", query);
        Page::read(&self.ask(&request).await?.body)
    }

    /// What is known of an object besides its content.
    pub(crate) async fn look(&self, key: &[u8]) -> Result<FileState, RequestError> {
        self.look_closely(key).await.map(|known| known.now)
    }

    /// The same, with the time that the uploaded file had.
    pub(crate) async fn look_closely(&self, key: &[u8]) -> Result<KnownState, RequestError> {
        let headers = self.ask_headers(key).await?;
        let now = self.seen(key, length(&headers), &headers);
        Ok(KnownState { now, original: self.original(&headers), ..KnownState::default() })
    }

    /// The same, as a part without bytes.
    pub(crate) async fn no_part(&self, key: &[u8]) -> Result<Part, RequestError> {
        let headers = self.ask_checksums(key).await?;
        let size = length(&headers).ok_or(RequestError::Answer("an object has no length"))?;
        Ok(self.part_of(key, size, &headers, Vec::new()))
    }

    /// The headers of an object, at S3 with its checksums.
    pub(crate) async fn ask_checksums(&self, key: &[u8]) -> Result<HeaderMap, RequestError> {
        let mode = matches!(self.store, Store::S3 { .. }).then(|| (CHECKSUM_MODE, "ENABLED".to_string()));
        let headers = mode.into_iter().collect();
        let answer = self.ask(&Request { headers, most: 0, ..Request::new(Method::HEAD, key, "") }).await?;
        Ok(answer.headers)
    }

    pub(crate) async fn ask_headers(&self, key: &[u8]) -> Result<HeaderMap, RequestError> {
        let answer = self.ask(&Request { most: 0, ..Request::new(Method::HEAD, key, "") }).await?;
        Ok(answer.headers)
    }

    /// A part of an object of this length, by the headers of its answer.
    fn part_of(&self, key: &[u8], size: u64, headers: &HeaderMap, bytes: Vec<u8>) -> Part {
        Part {
            bytes,
            seen: self.seen(key, Some(size), headers),
            size,
            original: self.original(headers),
            etag: text(headers, &ETAG).filter(|etag| !etag.is_empty()).map(str::to_string),
            version: text(headers, &VERSION).map(str::to_string),
            recorded: self.recorded(headers, size),
        }
    }

    pub(crate) fn seen(&self, key: &[u8], size: Option<u64>, headers: &HeaderMap) -> FileState {
        let version = text(headers, &self.store.version());
        let identity = version.and_then(|version| listing::identity(key, version));
        FileState { size, modified: modified(headers), identity }
    }

    /// When the file was modified that an object was uploaded from.
    fn original(&self, headers: &HeaderMap) -> Option<Modified> {
        time_of_upload(text(headers, &self.store.original_time()?)?)
    }

    /// A range of an object, which is not empty; with an ETag only of that content. It is shorter where the object
    /// ends.
    pub(crate) async fn part(
        &self,
        key: &[u8],
        range: Range<u64>,
        etag: Option<&str>,
    ) -> Result<Part, RequestError> {
        let mut headers = vec![(RANGE, format!("bytes={}-{}", range.start, range.end - 1))];
        // No server takes a weak one for a match.
        let asked = etag.filter(|etag| !etag.starts_with("W/"));
        headers.extend(asked.map(|etag| (IF_MATCH, etag.to_string())));
        if matches!(self.store, Store::S3 { .. }) && etag.is_none() {
            headers.push((CHECKSUM_MODE, "ENABLED".to_string()));
        }
        let most = range.end - range.start;
        let asked = Request { headers, most, ..Request::new(Method::GET, key, "") };
        let answer = match self.ask(&asked).await {
            // An empty object has no ranges.
            Err(RequestError::Range) if range.start == 0 => {
                let part = self.no_part(key).await?;
                return match part.size {
                    0 => Ok(Part { etag: None, ..part }),
                    _ => Err(RequestError::Answer("it gives no range of an object")),
                };
            }
            answer => answer?,
        };
        let got = answer.body.len() as u64;
        let size = match text(&answer.headers, &CONTENT_RANGE).map(|text| whole(text, range.start, got)) {
            Some(size) => size.ok_or(RequestError::Answer("it is another range"))?,
            // Some stores send an object that is no longer than the range as a whole.
            None if range.start == 0 && answer.status == 200 => got,
            None => return Err(RequestError::Answer("it is no range")),
        };
        if got != most.min(size.saturating_sub(range.start)) {
            return Err(RequestError::Answer("an object is cut"));
        }
        let part = self.part_of(key, size, &answer.headers, answer.body);
        // Not all stores look at what was asked for.
        match (etag, &part.etag) {
            (Some(_), None) => return Err(RequestError::Answer("a part of an object has no ETag")),
            (Some(etag), Some(found)) if etag != found => return Err(RequestError::Replaced),
            _ => {}
        }
        Ok(part)
    }

    /// The first range that is read of an object that was listed so. It may have been replaced since, but only if the
    /// store says the same once more: else what it sends is not what it has.
    pub(crate) async fn listed_part(
        &self,
        key: &[u8],
        range: Range<u64>,
        listed: &FileState,
    ) -> Result<Part, RequestError> {
        let part = match self.part(key, range, None).await {
            // It ends before the range begins.
            Err(RequestError::Range) => self.no_part(key).await?,
            part => part?,
        };
        let has_its_length = listed.size.is_none_or(|size| size == part.size);
        let has_its_version = listed.identity.is_none_or(|listed| Some(listed) == part.seen.identity);
        match (has_its_length, has_its_version) {
            (true, true) => return Ok(part),
            (false, true) if listed.identity.is_some() => {
                return Err(RequestError::Answer("it has another length than was listed"));
            }
            _ => {}
        }
        let now = self.look(key).await?;
        // What is no store, such as a network's page for logging in, says the same every time, and names no version. Of
        // files that were put behind its back a gateway names none either.
        let is_same = (now.size, now.identity) == (part.seen.size, part.seen.identity);
        let is_store = now.identity.is_some() || listed.identity.is_none() || has_its_length;
        match is_same && is_store {
            true => Ok(part),
            false => Err(RequestError::Answer("it is another object than was listed")),
        }
    }

    /// The same, whole where nothing would tell whether a further range is of the same content.
    pub(crate) async fn beginning(
        &self,
        key: &[u8],
        range: Range<u64>,
        listed: &FileState,
    ) -> Result<Part, RequestError> {
        let is_first = range.start == 0;
        let part = self.listed_part(key, range, listed).await?;
        if is_first && part.is_nameless() { self.whole(key, part).await } else { Ok(part) }
    }

    /// All of an object without a name of which this part came.
    pub(crate) async fn whole(&self, key: &[u8], part: Part) -> Result<Part, RequestError> {
        self.admit(part.size - part.bytes.len() as u64, 1).await;
        self.part(key, 0..part.size, None).await
    }

    /// Waits until so many bytes may be read by so many requests.
    pub(crate) async fn admit(&self, bytes: u64, requests: u64) {
        if let Some(limits) = &self.limits {
            tokio::time::sleep(limits.reserve(bytes, requests)).await;
        }
    }

    /// Sends a request until it succeeds, or must fail.
    pub(crate) async fn ask(&self, request: &Request<'_>) -> Result<StoreAnswer, RequestError> {
        self.ask_at(&self.url, request).await
    }

    /// The same below another URL than that of the bucket.
    pub(crate) async fn ask_at(&self, url: &str, request: &Request<'_>) -> Result<StoreAnswer, RequestError> {
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        let began = Instant::now();
        loop {
            match self.once(url, request).await {
                Err(error) if error.may_pass() && attempt < ATTEMPTS && began.elapsed() < self.whole => {
                    tokio::time::sleep(wait).await;
                }
                Err(error) => return Err(self.explained(url, request, error).await),
                Ok(answer) => return Ok(answer),
            }
            wait *= 2;
            attempt += 1;
        }
    }

    /// Why a request failed in the end. Answers to HEAD have no body, which would say it: where it may be because of the
    /// credentials, the first byte of the object is asked for.
    async fn explained(&self, url: &str, request: &Request<'_>, error: RequestError) -> RequestError {
        if let RequestError::Network(why) = error {
            // It may be so for one object: then the store answers if it is asked for none.
            let is_of_all = request.key.is_empty() && url == self.url || {
                let asked = Request { most: 0, ..Request::new(Method::HEAD, b"", "") };
                let answer = self.once(&self.url, &asked).await;
                matches!(answer, Err(RequestError::Network(_) | RequestError::Unreachable(_)))
            };
            return if is_of_all { RequestError::Unreachable(why) } else { RequestError::Network(why) };
        }
        let may_be_credentials = match &error {
            RequestError::Missing | RequestError::Version(_) => !self.knows_us.load(Ordering::Relaxed),
            RequestError::Refused { status: 400 | 403, head: Some(_), .. } => true,
            _ => false,
        };
        if request.method != Method::HEAD || !may_be_credentials {
            return error;
        }
        let headers = vec![(RANGE, "bytes=0-0".to_string())];
        let asked = Request { headers, most: 1, ..Request::new(Method::GET, request.key, &*request.query) };
        match self.once(url, &asked).await {
            Err(RequestError::Refused { status, code, head }) if !code.is_empty() => {
                RequestError::Refused { status, code, head }
            }
            Err(told @ (RequestError::NoBucket | RequestError::Region(_))) => told,
            _ => error,
        }
    }

    async fn once(&self, url: &str, request: &Request<'_>) -> Result<StoreAnswer, RequestError> {
        let (key, version) = match self.store {
            Store::S3 { .. } => listing::version_of(request.key),
            _ => (request.key, None),
        };
        // URLs resolve `..`: such a key would name something outside the bucket.
        if !listing::is_in_url(key) {
            return Err(RequestError::Missing);
        }
        if version.is_some() && !matches!(request.method, Method::GET | Method::HEAD) {
            return Err(RequestError::Name("a version of an object is only read"));
        }
        let version = version.map(|version| format!("versionId={version}"));
        let query = [Some(request.query.clone()).filter(|query| !query.is_empty()), version];
        let query = query.into_iter().flatten().collect::<Vec<_>>().join("&");
        let mut url = format!("{url}{}", self.store.path(key));
        if !query.is_empty() {
            url = format!("{url}?{query}");
        }
        let mut asked = HttpRequest::new(request.body.clone());
        *asked.method_mut() = request.method.clone();
        if Url::parse(&url).is_err() {
            return Err(RequestError::Answer("a key makes no URL"));
        }
        *asked.uri_mut() = url.parse().map_err(|_| RequestError::Answer("a key makes no URL"))?;
        for (name, value) in &request.headers {
            let value = value.parse().map_err(|_| RequestError::Answer("an ETag is no text"))?;
            asked.headers_mut().insert(name, value);
        }
        self.store.sign(&mut asked).await?;
        if let Some(pace) = &self.pace {
            pace.wait().await;
        }
        let class = RequestClass::of(&request.method, &request.query);
        self.meter.request(class, request.body.content_length());
        let host = asked.uri().host().unwrap_or_default().to_string();
        let answer = self.http.execute(asked).await;
        let answer = answer.map_err(|error| RequestError::of_network(&host, &error))?;
        let status = answer.status();
        if let Some(region) = region_of(&answer) {
            return Err(RequestError::Region(region));
        }
        if !status.is_success() {
            // Answers to HEAD have no body.
            let named = text(answer.headers(), &AZURE_CODE).map(str::to_string);
            // What is wrong with the body is of no interest then.
            let body = self.body(answer, MOST_ERROR).await.map(|answer| answer.body).unwrap_or_default();
            let body = named.map_or(body, |code| format!("<Code>{code}</Code>").into_bytes());
            let error = RequestError::of_answer(status.as_u16(), &body);
            if error == RequestError::Missing && !body.is_empty() {
                self.knows_us.store(true, Ordering::Relaxed);
            }
            return Err(match self.store {
                Store::S3 { .. } => error.of_request(&request.method, request.key),
                _ => error,
            });
        }
        self.knows_us.store(true, Ordering::Relaxed);
        let is_ranged = request.headers.iter().any(|(name, _)| *name == RANGE);
        if is_ranged && status == 200 && length(answer.headers()).is_some_and(|length| length > request.most)
        {
            return Err(RequestError::Answer("it gives no ranges of objects"));
        }
        self.body(answer, request.most).await
    }

    /// Reads a body, which must not be longer than this, nor come more slowly than stores do.
    async fn body(&self, answer: HttpResponse, most: u64) -> Result<StoreAnswer, RequestError> {
        let (parts, body) = answer.into_parts();
        // What is told of its length may be wrong.
        let mut found = Vec::with_capacity(length(&parts.headers).unwrap_or(0).min(most) as usize);
        let mut pieces = body.bytes_stream();
        let span = self.whole / WHOLE;
        let least = span.as_secs().saturating_mul(SLOWEST) as usize;
        let (mut until, mut enough) = (Instant::now() + span, least);
        loop {
            let piece = match tokio::time::timeout_at(until, pieces.next()).await {
                Ok(Some(piece)) => piece.map_err(|error| RequestError::of_body(&error))?,
                Ok(None) => break,
                Err(_) if found.len() < enough => {
                    return Err(RequestError::Answer("it comes too slowly"));
                }
                Err(_) => {
                    (until, enough) = (Instant::now() + span, found.len() + least);
                    continue;
                }
            };
            self.meter.receive(piece.len());
            if (found.len() + piece.len()) as u64 > most {
                return Err(RequestError::Answer("it is longer than what was asked for"));
            }
            found.extend_from_slice(&piece);
        }
        Ok(StoreAnswer { status: parts.status.as_u16(), headers: parts.headers, body: found })
    }
}

/// The region that a bucket is in, where the store says that it is in another one.
fn region_of(answer: &HttpResponse) -> Option<String> {
    let region = text(answer.headers(), &REGION).filter(|_| answer.status().is_redirection())?;
    is_region(region).then(|| region.to_string())
}

pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A time such as `1700000000.123456789`.
fn time_of_upload(text: &str) -> Option<Modified> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds.strip_prefix('-').unwrap_or(seconds)) || !is_number(fraction) {
        return None;
    }
    let nanoseconds = format!("{fraction:0<9}")[..9].parse().ok()?;
    Some(Modified { time: Timestamp { seconds: seconds.parse().ok()?, nanoseconds }, is_exact: true })
}

fn length(headers: &HeaderMap) -> Option<u64> {
    text(headers, &CONTENT_LENGTH)?.parse().ok()
}

fn modified(headers: &HeaderMap) -> Option<Modified> {
    listing::time_of_header(text(headers, &LAST_MODIFIED)?)
}

/// The length of the whole object in `bytes FIRST-LAST/LENGTH`, if that is the range that begins at `start` and is
/// so long.
fn whole(text: &str, start: u64, length: u64) -> Option<u64> {
    let (range, whole) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, whole) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?, whole.parse().ok()?);
    (start == first && start.checked_add(length)?.checked_sub(1)? == last && last < whole).then_some(whole)
}

/// How those are asked that give credentials.
pub(crate) fn client_options(url: &str, options: &StoreOptions) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(url.starts_with("http://"))
        .with_connect_timeout(connector(options).timeout)
}

/// Who makes them.
pub(crate) fn connector(options: &StoreOptions) -> Connector {
    Connector { timeout: options.timeout, follows: false }
}

/// Whether a text is the URL of a store.
///
/// # Errors
/// [`OpenError::Endpoint`], with what is wrong with it.
pub fn require_endpoint(endpoint: &str) -> Result<(), OpenError> {
    plain_endpoint(endpoint).map(drop)
}

/// The URL of a store, without a slash at its end.
pub(crate) fn plain_endpoint(endpoint: &str) -> Result<&str, OpenError> {
    let Some(rest) = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://")) else {
        return Err(OpenError::Endpoint(EndpointError::Scheme));
    };
    if rest.contains(['@', '?', '#']) {
        return Err(OpenError::Endpoint(EndpointError::Parameters));
    }
    if endpoint.parse::<Uri>().is_err() || Url::parse(endpoint).is_err() {
        return Err(OpenError::Endpoint(EndpointError::NoUrl));
    }
    Ok(endpoint.trim_end_matches('/'))
}

/// Shared between the requests that are under way.
pub(crate) type SharedClient = Arc<Client>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_the_one_that_was_asked_for() {
        assert_eq!(whole("bytes 5-8/20", 5, 4), Some(20));
        for bad in ["bytes 5-9/20", "bytes 4-8/20", "bytes 5-8/*", "bytes 5-8/8", "5-8/20", ""] {
            assert_eq!(whole(bad, 5, 4), None, "{bad}");
        }
        assert_eq!(whole("bytes 0-0/0", 0, 0), None);
    }

    #[test]
    fn endpoints_have_no_secrets() {
        assert_eq!(plain_endpoint("http://localhost:9000/").unwrap(), "http://localhost:9000");
        for (bad, why) in [
            ("localhost:9000", EndpointError::Scheme),
            ("https://key:secret@store", EndpointError::Parameters),
            ("http://key:secret@", EndpointError::Parameters),
            ("https://store?x=y", EndpointError::Parameters),
            ("http://", EndpointError::NoUrl),
        ] {
            let error = plain_endpoint(bad).unwrap_err();
            assert!(matches!(error, OpenError::Endpoint(found) if found == why), "{bad}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
