//! The digests that a store recorded for an object, whole or composed from those of its parts, and its ETag.
//!
//! One request tells them (`GetObjectAttributes`). Stores and keys that do not have it are asked for the headers that the
//! same things come in.

use data_encoding::{BASE64, HEXLOWER};
use http::header::{CONTENT_LENGTH, ETAG, IF_MATCH, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, Method};
use quick_xml::de::from_reader;
use serde::Deserialize;
use verisum_digest::{Digest, Output, combine_crcs, part_length};
use verisum_files::place::{FileRecord, FileState, RecordedDigest};

use crate::claim::Claim;
use crate::client::{Client, Part, Request, text};
use crate::error::RequestError;
use crate::listing::time_of_header;
use crate::store::Store;

/// The digests of which stores keep checksums: the names that stores have for them, and ours.
pub(crate) const CHECKSUMS: [(&str, &str); 10] = [
    ("crc32", "crc32"),
    ("crc32c", "crc32c"),
    ("crc64nvme", "crc64-nvme"),
    ("sha1", "sha1"),
    ("sha256", "sha256"),
    ("md5", "md5"),
    ("sha512", "sha512"),
    ("xxhash64", "xxh64"),
    ("xxhash3", "xxh3-64"),
    ("xxhash128", "xxh3-128"),
];

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
const WANTED: HeaderName = HeaderName::from_static("x-amz-object-attributes");
const AFTER: HeaderName = HeaderName::from_static("x-amz-part-number-marker");
const TYPE: HeaderName = HeaderName::from_static("x-amz-checksum-type");
const ENCRYPTION: HeaderName = HeaderName::from_static("x-amz-server-side-encryption");
const STORED: HeaderName = HeaderName::from_static("x-goog-stored-content-encoding");
const CUSTOMER: HeaderName = HeaderName::from_static("x-amz-server-side-encryption-customer-algorithm");

/// The most parts that an object has.
const MOST_PARTS: usize = 10_000;

/// What a store tells of an object, in the forms in which it tells it.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) size: Option<u64>,
    pub(crate) etag: Option<String>,
    /// Whether the ETag says nothing of the content, because of how it is encrypted.
    is_opaque: bool,
    /// By our names, as the store writes them.
    checksums: Vec<(&'static str, String)>,
    is_composite: Option<bool>,
    parts: Vec<PartOf>,
    pub(crate) first_part: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct PartOf {
    size: u64,
    checksums: Vec<(&'static str, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AttributesAnswer {
    #[serde(rename = "ETag")]
    etag: Option<String>,
    object_size: Option<u64>,
    checksum: Option<ObjectChecksums>,
    object_parts: Option<Parts>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parts {
    #[serde(default)]
    is_truncated: bool,
    next_part_number_marker: Option<u32>,
    #[serde(default)]
    part: Vec<ObjectChecksums>,
}

/// The checksums of an object or of a part, which has a length too.
#[derive(Default, Deserialize)]
struct ObjectChecksums {
    #[serde(rename = "Size")]
    size: Option<u64>,
    #[serde(rename = "ChecksumType")]
    kind: Option<String>,
    #[serde(rename = "ChecksumCRC32")]
    crc32: Option<String>,
    #[serde(rename = "ChecksumCRC32C")]
    crc32c: Option<String>,
    #[serde(rename = "ChecksumCRC64NVME")]
    crc64nvme: Option<String>,
    #[serde(rename = "ChecksumSHA1")]
    sha1: Option<String>,
    #[serde(rename = "ChecksumSHA256")]
    sha256: Option<String>,
    #[serde(rename = "ChecksumMD5")]
    md5: Option<String>,
    #[serde(rename = "ChecksumSHA512")]
    sha512: Option<String>,
    #[serde(rename = "ChecksumXXHASH64")]
    xxhash64: Option<String>,
    #[serde(rename = "ChecksumXXHASH3")]
    xxhash3: Option<String>,
    #[serde(rename = "ChecksumXXHASH128")]
    xxhash128: Option<String>,
}

impl ObjectChecksums {
    /// By our names, in the order of the table.
    fn named(self) -> Vec<(&'static str, String)> {
        let found = [
            self.crc32,
            self.crc32c,
            self.crc64nvme,
            self.sha1,
            self.sha256,
            self.md5,
            self.sha512,
            self.xxhash64,
            self.xxhash3,
            self.xxhash128,
        ];
        let named = CHECKSUMS.iter().zip(found).filter_map(|((_, name), value)| Some((*name, value?)));
        named.filter(|(_, value)| !value.is_empty()).collect()
    }
}

impl Client {
    /// What the store recorded of an object. Its headers tell how it is encrypted, and so what its ETag says; of one in
    /// parts the attributes tell the rest.
    pub(crate) async fn record(&self, key: &[u8]) -> Result<FileRecord, RequestError> {
        if !matches!(self.store, Store::S3 { .. }) {
            return self.plain_record(key).await;
        }
        let (mut found, of) = self.headers(key).await?;
        if found.has_parts() {
            self.add_parts(key, &mut found).await?;
        }
        Ok(FileRecord { digests: found.digests(), of: FileState { size: found.size, ..of } })
    }

    /// Adds what is known of the parts of an object to what its headers tell.
    pub(crate) async fn add_parts(&self, key: &[u8], head: &mut Attributes) -> Result<(), RequestError> {
        match self.attributes(key).await {
            Ok((attributes, _)) if attributes.is_of(head) => head.take_parts(attributes),
            // Whoever reads it hears of a change. The right to ask is another one, and not all stores can be asked.
            Ok(_) | Err(RequestError::Refused { .. } | RequestError::Answer(_)) => {}
            Err(error) => return Err(error),
        }
        if head.parts.is_empty() {
            head.first_part = self.part_size(key, 1, head.etag.as_deref()).await?;
        }
        Ok(())
    }

    /// What Google and Azure recorded, which the headers tell: CRC32C and MD5 of the whole object.
    pub(crate) async fn plain_record(&self, key: &[u8]) -> Result<FileRecord, RequestError> {
        let answer = self.ask(&Request { most: 0, ..Request::new(Method::HEAD, key, "") }).await?;
        let found = of_google(&answer.headers);
        // Azure keeps the MD5 that a client gave, also one that it did not check: it proves as little as an ETag.
        let md5 = text(&answer.headers, &CONTENT_MD5).filter(|_| matches!(self.store, Store::Azure { .. }));
        let etag = md5.and_then(|md5| Some(HEXLOWER.encode(&BASE64.decode(md5.as_bytes()).ok()?)));
        let size = text(&answer.headers, &CONTENT_LENGTH).and_then(|size| size.parse().ok());
        let found = Attributes { size, etag, ..found };
        let of = self.seen(key, size, &answer.headers);
        Ok(FileRecord { digests: found.digests(), of })
    }

    async fn attributes(&self, key: &[u8]) -> Result<(Attributes, FileState), RequestError> {
        let (mut found, mut of, mut after) = (Attributes::default(), FileState::default(), None);
        loop {
            let mut headers = vec![(WANTED, "ETag,Checksum,ObjectParts,ObjectSize".to_string())];
            headers.extend(after.map(|after: u32| (AFTER, after.to_string())));
            let request = Request { headers, ..Request::new(Method::GET, key, "attributes=") };
            let answer = self.ask(&request).await?;
            let page: AttributesAnswer = from_reader(&answer.body[..])
                .map_err(|_| RequestError::Answer("no attributes of an object"))?;
            of.modified = text(&answer.headers, &LAST_MODIFIED).and_then(time_of_header);
            found.size = page.object_size;
            found.is_opaque |= is_opaque(&answer.headers);
            found.etag = page.etag;
            let parts = page.object_parts.unwrap_or_default();
            let checksum = page.checksum.unwrap_or_default();
            found.is_composite = checksum.kind.as_deref().map(|kind| kind == "COMPOSITE");
            found.checksums = checksum.named();
            for part in parts.part {
                let size = part.size.ok_or(RequestError::Answer("a part has no length"))?;
                found.parts.push(PartOf { size, checksums: part.named() });
            }
            let next = parts.next_part_number_marker.filter(|next| after.is_none_or(|after| *next > after));
            match next.filter(|_| parts.is_truncated && found.parts.len() < MOST_PARTS) {
                Some(next) => after = Some(next),
                None if parts.is_truncated => {
                    return Err(RequestError::Answer("the parts of an object are cut"));
                }
                None => return Ok((found, of)),
            }
        }
    }

    /// The same as headers tell it.
    pub(crate) async fn headers(&self, key: &[u8]) -> Result<(Attributes, FileState), RequestError> {
        let headers = self.ask_checksums(key).await?;
        let size = text(&headers, &CONTENT_LENGTH).and_then(|text| text.parse().ok());
        Ok((self.of_headers(&headers, size), self.seen(key, None, &headers)))
    }

    fn of_headers(&self, headers: &HeaderMap, size: Option<u64>) -> Attributes {
        let checksum = |(theirs, ours): &(&str, &'static str)| {
            let name = HeaderName::try_from(format!("x-amz-checksum-{theirs}")).ok()?;
            Some((*ours, text(headers, &name)?.to_string()))
        };
        Attributes {
            size,
            etag: text(headers, &ETAG).map(str::to_string),
            // ETags of directory buckets are no MD5s.
            is_opaque: is_opaque(headers) || self.url.contains("--x-s3"),
            checksums: CHECKSUMS.iter().filter_map(checksum).collect(),
            is_composite: text(headers, &TYPE).map(|kind| kind == "COMPOSITE"),
            ..Attributes::default()
        }
    }

    /// What came with the bytes of an object of this length, as the store recorded it.
    pub(crate) fn recorded(&self, headers: &HeaderMap, size: u64) -> Attributes {
        match self.store {
            Store::S3 { .. } => self.of_headers(headers, Some(size)),
            // Google unpacks what was stored packed, and tells the checksum of what is stored.
            Store::Google { .. } if text(headers, &STORED).is_some_and(|how| how != "identity") => {
                Attributes::default()
            }
            Store::Google { .. } => of_google(headers),
            Store::Azure { .. } | Store::Web => Attributes::default(),
        }
    }

    /// A digest of the object of which this part came first, as the store recorded it: a checksum, which it verified, else
    /// its ETag. S3 tells checksums with all of an object, and not with its parts; that of an object in parts tells something
    /// only with their lengths.
    pub(crate) async fn claim(&self, key: &[u8], part: &Part) -> Option<Claim> {
        let is_whole = part.bytes.len() as u64 == part.size;
        let known = part.recorded.claim();
        let is_all = is_whole && !part.recorded.has_parts();
        if known.is_some() || is_all || !matches!(self.store, Store::S3 { .. }) {
            return known.or_else(|| part.recorded.claim_of_etag());
        }
        // Not everybody may ask for it, and who reads on hears of a change.
        let (mut found, seen) = self.headers(key).await.ok()?;
        if seen.identity.is_none() || seen.identity != part.seen.identity {
            return None;
        }
        if found.claim().is_none() && found.has_parts() {
            self.add_parts(key, &mut found).await.ok()?;
        }
        found.claim().or_else(|| found.claim_of_etag()).or_else(|| found.claim_of_other_length())
    }

    /// Whether the parts of an object have these lengths: one request for each but the first. Where the last has another one,
    /// the object is shorter or longer than it was. With an ETag only of that content.
    pub(crate) async fn are_parts(&self, key: &[u8], lengths: &[u64], etag: Option<&str>) -> bool {
        for (number, wanted) in (1..).zip(lengths).skip(1) {
            let is_last = number as usize == lengths.len();
            match self.part_size(key, number, etag).await {
                Ok(Some(length)) if length == *wanted || is_last && length <= lengths[0] => {}
                _ => return false,
            }
        }
        true
    }

    /// The length of a part of an object, counted from 1; with an ETag only of that content.
    async fn part_size(
        &self,
        key: &[u8],
        number: u32,
        etag: Option<&str>,
    ) -> Result<Option<u64>, RequestError> {
        let headers = etag.map(|etag| (IF_MATCH, etag.to_string())).into_iter().collect();
        let query = format!("partNumber={number}");
        let asked = Request { headers, most: 0, ..Request::new(Method::HEAD, key, &query) };
        match self.ask(&asked).await {
            Ok(answer) => Ok(text(&answer.headers, &CONTENT_LENGTH).and_then(|text| text.parse().ok())),
            Err(RequestError::Refused { .. } | RequestError::Range | RequestError::Replaced) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The checksums that Google tells with each answer.
fn of_google(headers: &HeaderMap) -> Attributes {
    let hashes = headers.get_all("x-goog-hash").iter().filter_map(|value| value.to_str().ok());
    let hashes = hashes.flat_map(|value| value.split(',')).filter_map(|hash| hash.trim().split_once('='));
    let known = ["crc32c", "md5"];
    let checksums = hashes
        .filter_map(|(name, value)| Some((*known.iter().find(|known| **known == name)?, value.to_string())));
    Attributes { checksums: checksums.collect(), ..Attributes::default() }
}

fn is_opaque(headers: &HeaderMap) -> bool {
    let by_key = text(headers, &ENCRYPTION).is_some_and(|how| how.starts_with("aws:kms"));
    by_key || headers.contains_key(&CUSTOMER)
}

/// How many parts an ETag is of, if of any.
fn part_count(etag: Option<&str>) -> Option<u64> {
    etag?.trim_matches('"').split_once('-')?.1.parse().ok()
}

/// A checksum as stores write it: Base64, and the number of parts behind that of parts. None if it is no value of the digest.
fn value(name: &str, text: &str) -> Option<(Output, Option<u64>)> {
    let (text, count) = match text.split_once('-') {
        Some((text, count)) => (text, Some(count.parse().ok()?)),
        None => (text, None),
    };
    let output = Output::from_bytes(&BASE64.decode(text.as_bytes()).ok()?)?;
    let len = Digest::find(name).ok()?.len();
    (output.as_bytes().len() == len).then_some((output, count))
}

impl Attributes {
    /// Whether it was written in parts.
    pub(crate) fn has_parts(&self) -> bool {
        self.is_composite == Some(true) || part_count(self.etag.as_deref()).is_some()
    }

    /// The first digest of which the store tells something that is no checksum.
    pub(crate) fn malformed(&self) -> Option<&'static str> {
        let is_wrong = |(name, text): &&(&'static str, String)| value(name, text).is_none();
        self.checksums.iter().find(is_wrong).map(|(name, _)| *name)
    }

    /// Whether both are of one content.
    fn is_of(&self, other: &Attributes) -> bool {
        let [one, other] = [self, other].map(|of| of.etag.as_deref().map(|etag| etag.trim_matches('"')));
        one.is_some() && one == other
    }

    /// What is known of the parts.
    fn take_parts(&mut self, other: Attributes) {
        self.parts = other.parts;
        if self.checksums.is_empty() {
            (self.checksums, self.is_composite) = (other.checksums, other.is_composite);
        }
    }

    /// The digests that can be computed of a file as well.
    pub(crate) fn digests(&self) -> Vec<RecordedDigest> {
        let mut digests = Vec::new();
        let mut add = |algorithm: String, digest, is_certain| {
            digests.push(RecordedDigest { algorithm, digest, is_certain });
        };
        let part = self.part_length();
        for (name, text) in &self.checksums {
            let Some((digest, count)) = value(name, text) else { continue };
            if count.is_none() && self.is_composite != Some(true) {
                add(name.to_string(), digest, true);
            } else if let Some(part) = part.filter(|part| self.fits(*part, count)) {
                add(format!("s3-{name}:{part}"), digest, self.knows_lengths());
            }
            if let Some(whole) = self.whole_crc(name, digest, count) {
                add(name.to_string(), whole, true);
            }
        }
        let etag = self.etag.as_deref().map(|etag| etag.trim_matches('"')).filter(|_| !self.is_opaque);
        let count = part_count(etag);
        let hex = etag.map(|etag| etag.split('-').next().unwrap_or_default());
        let md5 = hex.filter(|hex| hex.len() == 32).and_then(|hex| Output::from_hex(hex.as_bytes()));
        match (md5, count, part) {
            (Some(md5), None, _) => add("md5".to_string(), md5, false),
            (Some(md5), Some(_), Some(part)) if self.fits(part, count) => {
                add(format!("s3-etag:{part}"), md5, false);
            }
            _ => {}
        }
        digests
    }

    /// One that the store verified, and that is quickly computed, if there are several: that of the whole object before
    /// that of its parts. An ETag is none: if it differs, it may be no MD5.
    fn claim(&self) -> Option<Claim> {
        let is_whole = |recorded: &RecordedDigest| part_length(&recorded.algorithm).is_none();
        let certain = self.digests().into_iter().filter(|recorded| recorded.is_certain && is_whole(recorded));
        let whole = certain.min_by_key(|recorded| !recorded.algorithm.starts_with("crc"));
        whole.and_then(Claim::whole).or_else(|| self.claim_of_parts())
    }

    fn claim_of_parts(&self) -> Option<Claim> {
        let lengths = self.part_lengths()?;
        let claim = self.checksums.iter().find_map(|(name, text)| {
            let (digest, count) = value(name, text)?;
            (count == Some(lengths.len() as u64)).then(|| Claim::of_parts(name, digest, lengths.clone()))?
        });
        claim.map(|claim| claim.guessed(!self.knows_lengths()))
    }

    /// Whether the lengths of all parts are known: those of two follow from that of the first.
    fn knows_lengths(&self) -> bool {
        let is_long = |first: u64| self.size.is_some_and(|size| size.div_ceil(2) <= first);
        !self.parts.is_empty() || self.first_part.is_none_or(is_long)
    }

    /// The lengths of all parts, if they are known: where only that of the first is, the others are taken for as long.
    fn part_lengths(&self) -> Option<Vec<u64>> {
        let size = self.size?;
        let lengths: Vec<u64> = match (&self.parts[..], self.first_part.unwrap_or(size)) {
            ([], first) if first > 0 && size.div_ceil(first) <= MOST_PARTS as u64 => {
                (0..size).step_by(first as usize).map(|at| first.min(size - at)).collect()
            }
            (parts, _) => parts.iter().map(|part| part.size).collect(),
        };
        let total = lengths.iter().try_fold(0_u64, |total, length| total.checked_add(*length));
        (total == Some(size)).then_some(lengths)
    }

    /// Takes the parts for as long as the first, if nothing else is known of them. Returns their lengths.
    pub(crate) fn take_equal_parts(&mut self) -> Option<Vec<u64>> {
        let lengths = self.part_lengths().filter(|_| !self.knows_lengths())?;
        self.parts = lengths.iter().map(|size| PartOf { size: *size, checksums: Vec::new() }).collect();
        Some(lengths)
    }

    /// What the ETag says of the content, if it has the form of such a digest.
    fn claim_of_etag(&self) -> Option<Claim> {
        let is_etag = |algorithm: &str| algorithm == "md5" || algorithm.starts_with("s3-etag:");
        let is_it = |recorded: &RecordedDigest| !recorded.is_certain && is_etag(&recorded.algorithm);
        let etag = self.digests().into_iter().find(is_it)?;
        let is_guess = part_length(&etag.algorithm).is_some() && !self.knows_lengths();
        let claim = match part_length(&etag.algorithm) {
            Some(_) => Claim::of_parts("md5", etag.digest, self.part_lengths()?),
            None => Claim::whole(etag),
        };
        claim.map(|claim| claim.uncertain().guessed(is_guess))
    }

    /// What is said of an object whose length does not fit the number of its parts, which are taken to be as long as the
    /// first: bytes of it may be lost.
    fn claim_of_other_length(&self) -> Option<Claim> {
        let (first, size) = (self.first_part.or_else(|| Some(self.parts.first()?.size))?, self.size?);
        let of_checksum = |(name, text): &(&'static str, String)| {
            let (digest, count) = value(name, text)?;
            Some((*name, digest, count?, true))
        };
        let of_etag = || {
            let etag = self.etag.as_deref().filter(|_| !self.is_opaque)?.trim_matches('"');
            let md5 = Output::from_hex(etag.split_once('-')?.0.as_bytes())?;
            Some(("md5", md5, part_count(Some(etag))?, false))
        };
        let (inner, digest, count, is_certain) =
            self.checksums.iter().find_map(of_checksum).or_else(of_etag)?;
        let is_other = first > 0 && count <= MOST_PARTS as u64 && size.div_ceil(first) != count;
        let claim = is_other.then(|| Claim::of_parts(inner, digest, vec![first; count as usize]))??;
        Some(if is_certain { claim } else { claim.uncertain() }.guessed(true))
    }

    /// The length of all parts but the last, which may be shorter, if there is one.
    fn part_length(&self) -> Option<u64> {
        let [first, others @ ..] = &self.parts[..] else { return self.first_part };
        let (last, middle) = others.split_last()?;
        let is_even = middle.iter().all(|part| part.size == first.size) && last.size <= first.size;
        is_even.then_some(first.size)
    }

    /// Whether parts of this length are as many as the store says.
    fn fits(&self, part: u64, count: Option<u64>) -> bool {
        let most = self.size.unwrap_or_default();
        // One part, which is not the file's own digest, has no name.
        part > 0 && part < most && count.is_none_or(|count| count == most.div_ceil(part))
    }

    /// The CRC of the object, of those of its parts, if these fit what the store composed of them.
    fn whole_crc(&self, name: &str, composed: Output, count: Option<u64>) -> Option<Output> {
        count.filter(|count| *count == self.parts.len() as u64)?;
        let total = self.parts.iter().try_fold(0_u64, |total, part| total.checked_add(part.size))?;
        let (mut whole, mut all) = (None, Vec::new());
        for part in &self.parts {
            let (_, text) = part.checksums.iter().find(|(known, _)| *known == name)?;
            let (crc, _) = value(name, text)?;
            all.extend_from_slice(crc.as_bytes());
            whole = Some(match whole {
                None => crc,
                Some(whole) => combine_crcs(name, &whole, &crc, part.size)?,
            });
        }
        let is_of_these = Digest::find(name).ok()?.hash(&all).ok()? == composed;
        whole.filter(|_| is_of_these && Some(total) == self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base64(name: &str, bytes: &[u8]) -> String {
        BASE64.encode(Digest::find(name).unwrap().hash(bytes).unwrap().as_bytes())
    }

    #[test]
    fn crcs_of_odd_parts_make_that_of_the_object() {
        let content: Vec<u8> = (0..100_000_u32).map(|at| (at * 7 % 251) as u8).collect();
        let parts: Vec<&[u8]> = vec![&content[..30_000], &content[30_000..75_000], &content[75_000..]];
        for name in ["crc32", "crc32c", "crc64-nvme"] {
            let digest = Digest::find(name).unwrap();
            let all: Vec<u8> =
                parts.iter().flat_map(|part| digest.hash(part).unwrap().as_bytes().to_vec()).collect();
            let mut found = Attributes {
                size: Some(content.len() as u64),
                checksums: vec![(name, format!("{}-3", base64(name, &all)))],
                is_composite: Some(true),
                ..Attributes::default()
            };
            let part = |part: &&[u8]| PartOf {
                size: part.len() as u64,
                checksums: vec![(name, base64(name, part))],
            };
            found.parts = parts.iter().map(part).collect();
            let whole = digest.hash(&content).unwrap();
            let expected = RecordedDigest { algorithm: name.to_string(), digest: whole, is_certain: true };
            assert_eq!(found.digests(), [expected]);
            // Of parts that are not those of the composed one nothing is known.
            found.parts.swap(0, 1);
            assert_eq!(found.digests(), []);
        }
    }

    #[test]
    fn a_claim_is_of_parts_whose_lengths_are_known() {
        let content: Vec<u8> = (0..100_000_u32).map(|at| (at * 7 % 251) as u8).collect();
        let claim = |parts: &[u64], first_part: Option<u64>, count: &str| {
            let (mut all, mut at) = (Vec::new(), 0);
            for size in parts {
                let part = &content[at..at + *size as usize];
                all.extend_from_slice(Digest::find("sha256").unwrap().hash(part).unwrap().as_bytes());
                at += part.len();
            }
            let checksums = vec![("sha256", format!("{}{count}", base64("sha256", &all)))];
            let (size, is_composite) = (Some(content.len() as u64), Some(true));
            let part = |size: &u64| PartOf { size: *size, checksums: Vec::new() };
            let parts = if first_part.is_none() { parts.iter().map(part).collect() } else { Vec::new() };
            Attributes { size, checksums, is_composite, parts, first_part, ..Attributes::default() }.claim()
        };
        for (parts, first) in [
            (&[30_000, 45_000, 25_000][..], None),
            (&[100_000], None),
            (&[40_000, 40_000, 20_000], None),
            (&[40_000, 40_000, 20_000], Some(40_000)),
        ] {
            let claim = claim(parts, first, &format!("-{}", parts.len())).unwrap();
            assert_eq!(claim.hash(&content).unwrap(), claim.recorded.digest, "{parts:?}");
        }
        // Where their lengths do not make the object, or are not as many as the store says, nothing is known.
        assert_eq!(claim(&[30_000, 45_000], None, "-2"), None);
        assert_eq!(claim(&[40_000, 40_000, 20_000], Some(30_000), "-3"), None);
        assert_eq!(claim(&[50_000, 50_000], None, "-3"), None);
    }

    #[test]
    fn what_is_no_digest_of_the_object_is_none() {
        let etag = Some("\"00112233445566778899aabbccddeeff-3\"".to_string());
        let mut found = Attributes { size: Some(30), etag, first_part: Some(10), ..Attributes::default() };
        assert_eq!(found.digests()[0].algorithm, "s3-etag:10");
        assert!(!found.digests()[0].is_certain);
        for first in [None, Some(0), Some(9), Some(30)] {
            found.first_part = first;
            assert_eq!(found.digests(), [], "{first:?}");
        }
        (found.first_part, found.is_opaque) = (Some(10), true);
        assert_eq!(found.digests(), []);
        for text in ["", "-", "AAAA", "AAAAAA==-x", "AAAAAA==-"] {
            found.checksums = vec![("crc32", text.to_string())];
            assert_eq!(found.digests(), [], "{text}");
        }
    }

    #[test]
    fn answers_are_read() {
        let xml = "<GetObjectAttributesResponse><ETag>x</ETag><Checksum><ChecksumSHA256>abc=</ChecksumSHA256>
            <ChecksumType>FULL_OBJECT</ChecksumType></Checksum><ObjectParts><PartsCount>2</PartsCount>
            <Part><PartNumber>1</PartNumber><Size>5</Size><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part>
            </ObjectParts><ObjectSize>7</ObjectSize></GetObjectAttributesResponse>";
        let answer: AttributesAnswer = from_reader(xml.as_bytes()).unwrap();
        assert_eq!((answer.etag.as_deref(), answer.object_size), (Some("x"), Some(7)));
        let checksum = answer.checksum.unwrap();
        assert_eq!(checksum.kind.as_deref(), Some("FULL_OBJECT"));
        assert_eq!(checksum.named(), [("sha256", "abc=".to_string())]);
        let parts = answer.object_parts.unwrap().part;
        assert_eq!((parts.len(), parts[0].size), (1, Some(5)));
    }
}
