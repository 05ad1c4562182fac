//! Why a request to a store failed, in one line without secrets.

use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};

use http::Method;
use object_store::client::{HttpError, HttpErrorKind};
use verisum_files::place::Reason;
use verisum_files::text;

use crate::listing::{VERSION, version_of};

/// Redirections that are not followed: to the same request the answer is the same.
const TO_HTTP: RequestError =
    RequestError::Answer("it redirects from https to http, where everybody can read it");
const TO_NO_END: RequestError = RequestError::Answer("it redirects again and again");

const NO_VERSION: &str = "there is no such version of the object";
const NO_NAME_OF_VERSION: &str =
    "there is no such object, and what follows ?versionId= names no version: letters, digits, and ._-";

/// The longest error code of a store that is shown.
const MOST_CODE: usize = 64;

/// What S3 and Azure say of credentials that they do not know, or that have expired.
const OF_CREDENTIALS: [&str; 6] = [
    "AuthenticationFailed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "TokenRefreshRequired",
];

/// Why a bucket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The address is none of a bucket.
    #[error(transparent)]
    Address(#[from] BucketUrlError),
    /// A setting that no header takes, as a key with a line break is.
    #[error("{0} has characters that it cannot have")]
    Characters(String),
    /// What is wrong with the endpoint.
    #[error("the endpoint {0}")]
    Endpoint(EndpointError),
    /// There is the name of a key for S3 and not the key.
    #[error("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not")]
    NoSecret,
    /// There is a key for S3 and not its name.
    #[error("AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not")]
    NoKeyId,
    /// The key for Azure is no key.
    #[error(
        "the account's key (AZURE_STORAGE_ACCOUNT_KEY, or AccountKey in AZURE_STORAGE_CONNECTION_STRING) is no \
         Base64"
    )]
    AccountKey,
    /// The file that a setting names has no credentials.
    #[error("{variable}: {}: read: {why}", path.display())]
    CredentialsFile {
        /// The name of the setting.
        variable: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Nobody says which account a container of Azure is of.
    #[error("set AZURE_STORAGE_ACCOUNT_NAME, the account that the container is of")]
    NoAccount,
    /// No account of Azure is called so.
    #[error("AZURE_STORAGE_ACCOUNT_NAME is no name of an account")]
    AccountName,
    /// The files of the AWS tools have no profile of this name.
    #[error("there is no profile {0} in the files of the AWS tools")]
    NoProfile(String),
    /// The profile of this name says nothing that requests can be signed with.
    #[error(
        "profile {0} has no keys of its own; `aws configure export-credentials --profile {0} --format env` prints some"
    )]
    NoKeys(String),
    /// A file of the AWS tools cannot be read.
    #[error("{}: read: {}", path.display(), text::of_system(source))]
    Profiles {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// This is no file of profiles.
    #[error("{}: read: it is no file of profiles", .0.display())]
    NoProfiles(PathBuf),
    /// A file of an inventory or of a report cannot be read.
    #[error("read {list} {name}: {why}")]
    Unread {
        /// Which of the two it is of.
        list: &'static str,
        /// Its address.
        name: String,
        /// Why not.
        why: String,
    },
    /// What is wrong with the manifest of an inventory.
    #[error("the inventory's manifest {0}")]
    Manifest(ManifestError),
    /// What is wrong with the manifest of a report of checksums.
    #[error("the report's manifest {0}")]
    Report(ManifestError),
    /// The settings of the store are wrong, or do not fit together.
    #[error("{}", root(&**.0))]
    Setting(Box<dyn Error + Send + Sync>),
    /// The system gives no threads or no TLS.
    #[error("{}", root(&**.0))]
    System(Box<dyn Error + Send + Sync>),
}

/// Why a URL is none of a bucket, or none that has what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketUrlError {
    /// It has no scheme.
    #[error("it is no URL of a bucket")]
    NoUrl,
    /// No bucket is called so.
    #[error("the bucket's name has characters that no bucket's name has")]
    Characters,
    /// Its scheme is that of no store.
    #[error("no store has this scheme")]
    OtherScheme,
    /// A bucket of another store has no inventory.
    #[error("inventories are of buckets of S3")]
    NoInventory,
    /// A bucket of another store has no report of checksums.
    #[error("reports are of buckets of S3")]
    NoReport,
}

/// What is wrong with an endpoint, in words that follow its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// It has another scheme, or none.
    #[error("must begin with https:// or http://")]
    Scheme,
    /// It has a user or parameters.
    #[error("must be a URL without a user and without parameters")]
    Parameters,
    /// It cannot be read as a URL.
    #[error("is no URL")]
    NoUrl,
}

/// What is wrong with a manifest, in words that follow its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It cannot be read as a manifest.
    #[error("is none")]
    None,
    /// It is that of another bucket.
    #[error("is of another bucket")]
    OtherBucket,
    /// The files of an inventory lack columns.
    #[error("has no columns Key and Size")]
    NoColumns,
    /// The files of a report have other columns.
    #[error("names other columns than those of a completion report")]
    OtherColumns,
    /// The files are ones that are not read here.
    #[error("names files of another format than CSV and Parquet")]
    OtherFormat,
    /// Whether a file is whole cannot be told.
    #[error("names no MD5 of a data file")]
    NoMd5,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// There is no such object.
    Missing,
    /// There is no such bucket.
    NoBucket,
    /// There is no such version of the object: why not.
    Version(&'static str),
    /// The store refuses the request, with its code. Answers to HEAD have none: then it is told of which key it was.
    Refused { status: u16, code: String, head: Option<String> },
    /// The object is not the one that was begun.
    Replaced,
    /// The range begins behind the object's end.
    Range,
    /// The bucket is in another region.
    Region(String),
    /// No credentials were found: why, and what to do.
    Credentials(String, &'static str),
    /// The store cannot be reached, or answers nothing at all: why.
    Unreachable(String),
    /// The store gives no answer: why.
    Network(String),
    /// The store has no such names.
    Name(&'static str),
    /// The answer is not one of such a store.
    Answer(&'static str),
}

impl RequestError {
    /// The error of an answer that is no success. Of its body only the code is taken: the rest may have
    /// signatures in it.
    pub(crate) fn of_answer(status: u16, body: &[u8]) -> RequestError {
        let body = String::from_utf8_lossy(body);
        let code = code(&body);
        match (status, &code[..]) {
            (400, "AuthorizationHeaderMalformed") if region(&body).is_some() => {
                RequestError::Region(region(&body).unwrap_or_default())
            }
            (404, "NoSuchBucket" | "ContainerNotFound") => RequestError::NoBucket,
            (
                404,
                "" | "NoSuchKey" | "NoSuchVersion" | "NoSuchUpload" | "NotFound" | "BlobNotFound"
                | "ResourceNotFound",
            ) => RequestError::Missing,
            // Nobody asked whether something changed.
            (304, _) => RequestError::Answer("it says that nothing changed"),
            (412, _) | (_, "PreconditionFailed") | (409, "BlobAlreadyExists") => RequestError::Replaced,
            (416, _) => RequestError::Range,
            _ => RequestError::Refused { status, code, head: None },
        }
    }

    /// The same of a request for this key, or for this version of it.
    pub(crate) fn of_request(self, method: &Method, key: &[u8]) -> RequestError {
        let is_head = *method == Method::HEAD;
        match (self, version_of(key)) {
            // The store knows no version that is written so.
            (RequestError::Refused { status: 400, code, .. }, (_, Some(_)))
                if is_head && code.is_empty() || code == "InvalidArgument" =>
            {
                RequestError::Version(NO_VERSION)
            }
            (RequestError::Missing, (_, Some(_))) => RequestError::Version(NO_VERSION),
            (RequestError::Missing, _) if key.windows(VERSION.len()).any(|part| part == VERSION) => {
                RequestError::Version(NO_NAME_OF_VERSION)
            }
            (RequestError::Refused { status, code, .. }, _) if is_head && code.is_empty() => {
                let head = Some(text::printable(&String::from_utf8_lossy(key)));
                RequestError::Refused { status, code, head }
            }
            (error, _) => error,
        }
    }

    /// That a host did not answer.
    pub(crate) fn of_network(host: &str, error: &HttpError) -> RequestError {
        let why = root(error);
        // Of what reqwest says of redirections.
        if why.contains("scheme is not allowed") {
            return TO_HTTP;
        }
        if why.contains("too many redirects") {
            return TO_NO_END;
        }
        // Of what hyper says of heads.
        let is_of_head = ["parsed", "message head"].iter().any(|words| why.contains(words));
        let cause = error.source().and_then(|cause| cause.downcast_ref::<reqwest::Error>());
        if cause.is_some_and(reqwest::Error::is_connect) {
            return RequestError::Unreachable(format!("the store cannot be reached: {host}: {why}"));
        }
        let what = match error.kind() {
            HttpErrorKind::Timeout => "the store does not answer in time",
            _ if is_of_head => "the head of the store's answer is none of HTTP",
            _ => "the store cannot be reached",
        };
        RequestError::Network(format!("{what}: {host}: {why}"))
    }

    /// The error of an answer that had begun well.
    pub(crate) fn of_body(error: &HttpError) -> RequestError {
        RequestError::Answer(match error.kind() {
            HttpErrorKind::Timeout => "it stops in the middle",
            _ => "it breaks off in the middle",
        })
    }

    /// Whether the same request may succeed a moment later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            // S3 says of a request that took too long that it was bad, others say it by the status.
            RequestError::Refused { status, code, .. } => {
                // What a store does not know it will not know then.
                *status >= 500 && *status != 501
                    || matches!(status, 408 | 429)
                    || matches!(&code[..], "RequestTimeout" | "ConditionalRequestConflict")
            }
            RequestError::Unreachable(_) | RequestError::Network(_) => true,
            RequestError::Answer(_) => ![TO_HTTP, TO_NO_END].contains(self),
            _ => false,
        }
    }

    /// Whether it is about this object only: the next one may be read.
    pub(crate) fn is_of_object(&self) -> bool {
        match self {
            RequestError::Name(_) => true,
            RequestError::Refused { code, .. } => {
                matches!(&code[..], "AccessDenied" | "InvalidObjectState" | "BlobArchived")
            }
            other => other.is_elusive(),
        }
    }

    /// Whether the object is not there, or another one than a moment ago.
    pub(crate) fn is_elusive(&self) -> bool {
        matches!(
            self,
            RequestError::Missing | RequestError::Version(_) | RequestError::Replaced | RequestError::Range
        )
    }

    /// Whether it may be about this object only. If others end so too, it is about the store.
    pub(crate) fn may_be_of_object(&self) -> bool {
        match self {
            RequestError::Answer(_) | RequestError::Network(_) => true,
            RequestError::Refused { status, .. } => matches!(status, 300..=399 | 408 | 429 | 500..),
            _ => false,
        }
    }

    /// Whether whatever else is asked for fails so: it is about the endpoint, the credentials or the bucket. Others may be
    /// about one name.
    pub(crate) fn is_of_all(&self) -> bool {
        match self {
            RequestError::NoBucket
            | RequestError::Region(_)
            | RequestError::Credentials(..)
            | RequestError::Unreachable(_) => true,
            RequestError::Refused { status, code, .. } => *status == 401 || OF_CREDENTIALS.contains(&&**code),
            _ => false,
        }
    }

    /// The same in the terms that all places share.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            RequestError::Missing => Reason::Missing,
            RequestError::Refused { code, .. } if code == "AccessDenied" => Reason::Denied,
            other if other.is_elusive() => Reason::Elusive(other.to_string()),
            other => Reason::Failed(other.to_string()),
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Missing => f.write_str("no such object"),
            RequestError::NoBucket => f.write_str("no such bucket"),
            RequestError::Version(why) => f.write_str(why),
            RequestError::Refused { status, code, head } => match (&code[..], head) {
                ("", Some(key)) => {
                    let why = if *status == 403 { "; may these credentials read it?" } else { "" };
                    write!(f, "the store answers {status} to the question what {key} is (HEAD){why}")
                }
                ("", None) => write!(f, "the store answers {status}"),
                (code, _) => write!(f, "the store answers {status} ({code})"),
            },
            RequestError::Replaced => f.write_str("it was replaced while it was read"),
            RequestError::Range => f.write_str("it became shorter while it was read"),
            RequestError::Region(region) => {
                write!(f, "the bucket is in the region {region}: name it by --region or AWS_REGION")
            }
            RequestError::Credentials(why, remedy) => write!(f, "no credentials ({why}): {remedy}"),
            RequestError::Unreachable(why) | RequestError::Network(why) => f.write_str(why),
            RequestError::Name(why) => write!(f, "the store takes no such name: {why}"),
            RequestError::Answer(what) => write!(f, "the store's answer is wrong: {what}"),
        }
    }
}

/// The innermost cause of an error: the outer ones may name URLs.
pub(crate) fn root(error: &(dyn Error + 'static)) -> String {
    let cause = innermost(error);
    match cause.downcast_ref::<io::Error>() {
        Some(error) => text::of_system(error),
        None => text::printable(&cause.to_string()),
    }
}

fn innermost<'a>(mut cause: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}

/// Why `object_store` has no credentials: its own words have those of who should give them in them, which may be secret.
pub(crate) fn without_credentials(error: &object_store::Error) -> String {
    let cause = innermost(error);
    let why = root(error);
    let status = why.strip_prefix("Server returned non-2xx status code: ").and_then(|rest| rest.get(..3));
    let is_unread = cause.is::<serde_json::Error>() || why.starts_with("Invalid AssumeRole");
    match status {
        Some(status) => format!("the identity service answers {status}"),
        None if is_unread => "the identity service answers without credentials".to_string(),
        None if why.starts_with("'az ") => "`az account get-access-token` fails".to_string(),
        None => why,
    }
}

/// The region in the XML of an error, if it is like one.
fn region(body: &str) -> Option<String> {
    let (region, _) = body.split_once("<Region>")?.1.split_once("</Region>")?;
    is_region(region).then(|| region.to_string())
}

/// Whether a text of a store is like the name of a region.
pub(crate) fn is_region(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MOST_CODE).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The code in the XML of an error: letters and digits only.
fn code(body: &str) -> String {
    let code = body.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let code = code.map_or("", |(code, _)| code);
    let is_plain = code.len() <= MOST_CODE && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain { code.to_string() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_to_http_is_said_to_be_one() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().https_only(true).build().unwrap();
        let refused = client.get("http://127.0.0.1:1/user:hidden").send();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let refused = runtime.block_on(refused).unwrap_err();
        let error = RequestError::of_network("host", &HttpError::new(HttpErrorKind::Connect, refused));
        assert!(error.to_string().contains("from https to http") && !error.to_string().contains("hidden"));
    }

    #[test]
    fn of_an_answer_only_the_code_is_shown() {
        let body =
            b"<Error><Code>SignatureDoesNotMatch</Code><StringToSign>AKIASECRET</StringToSign></Error>";
        let error = RequestError::of_answer(403, body);
        assert_eq!(error.to_string(), "the store answers 403 (SignatureDoesNotMatch)");
        let error = RequestError::of_answer(503, b"<Code>\x1b[2J</Code>");
        assert_eq!(error.to_string(), "the store answers 503");
        assert!(error.may_pass() && !error.is_of_object());
        let elsewhere = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>";
        let error = RequestError::of_answer(400, elsewhere);
        assert!(error.to_string().contains("in the region eu-west-1: "), "{error}");
        let slow = b"<Error><Code>RequestTimeout</Code></Error>";
        assert!(
            RequestError::of_answer(400, slow).may_pass() && !RequestError::of_answer(400, b"").may_pass()
        );
    }
}
