//! Takes the requested digests that a store has recorded for an object.

use verisum_digest::{Digest, Output, part_length};
use verisum_files::place::{FileState, RecordedDigest};

use crate::client::Client;
use crate::error::RequestError;
use crate::store::Store;

/// What is wanted of an object.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Names of digests.
    pub(crate) digests: Vec<String>,
    /// What the first should be, for askers who know.
    pub(crate) expected: Option<Output>,
}

/// What was found of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownRecord {
    /// In the order in which they are wanted.
    pub(crate) digests: Vec<Output>,
    pub(crate) seen: FileState,
}

impl Client {
    /// The wanted digests, if the store recorded all of them; none where the object must be read.
    pub(crate) async fn known(
        &self,
        key: &[u8],
        wanted: &Wanted,
    ) -> Result<Option<KnownRecord>, RequestError> {
        if !matches!(self.store, Store::S3 { .. }) {
            let record = self.plain_record(key).await?;
            return Ok(wanted.of(&record.digests, record.of));
        }
        let (mut head, seen) = self.headers(key).await?;
        let seen = FileState { size: head.size, ..seen };
        if let Some(known) = wanted.of(&head.digests(), seen) {
            return Ok(Some(known));
        }
        if !head.has_parts() || !wanted.may_be_of_parts() {
            return Ok(None);
        }
        self.add_parts(key, &mut head).await?;
        if let Some(known) = wanted.of(&head.digests(), seen) {
            return Ok(Some(known));
        }
        // Stores that tell only the length of the first part are asked for the others, if that makes the record certain.
        let Some(lengths) = head.take_equal_parts() else { return Ok(None) };
        let known = wanted.of(&head.digests(), seen);
        let is_so = known.is_some() && self.are_parts(key, &lengths, head.etag.as_deref()).await;
        Ok(known.filter(|_| is_so))
    }
}

impl Wanted {
    /// Whether what stores keep of the parts of an object could tell it.
    fn may_be_of_parts(&self) -> bool {
        self.digests.iter().all(|name| part_length(name).is_some() || name.starts_with("crc"))
    }

    /// Finds all of them among those that are recorded.
    fn of(&self, recorded: &[RecordedDigest], seen: FileState) -> Option<KnownRecord> {
        let size = seen.size?;
        let one = |name: &String| {
            let mut found: Vec<&RecordedDigest> =
                recorded.iter().filter(|recorded| is_one(&recorded.algorithm, name, size)).collect();
            found.sort_by_key(|recorded| !recorded.is_certain);
            let found = found.first()?;
            // An ETag may be no digest of the content: only where it is as expected it tells anything.
            let is_expected = self.digests.len() == 1 && self.expected == Some(found.digest);
            (found.is_certain || is_expected).then_some(found.digest)
        };
        let digests = self.digests.iter().map(one).collect::<Option<Vec<Output>>>()?;
        Some(KnownRecord { digests, seen })
    }
}

/// Whether a recorded digest has the value of this one, for an object of this length.
fn is_one(recorded: &str, name: &str, size: u64) -> bool {
    // Where the object is one part, its ETag is its MD5.
    let is_one_part = name.starts_with("s3-etag:")
        && recorded == "md5"
        && part_length(name).is_some_and(|part| size <= part);
    is_one_part || Digest::find(recorded).is_ok_and(|digest| digest.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(name: &str, is_certain: bool) -> RecordedDigest {
        let digest = Digest::find("md5").unwrap().hash(name.as_bytes()).unwrap();
        RecordedDigest { algorithm: name.to_string(), digest, is_certain }
    }

    #[test]
    fn what_proves_nothing_counts_only_where_it_is_expected() {
        let seen = FileState { size: Some(20 << 20), ..FileState::default() };
        let etag = recorded("md5", false);
        let of = |names: &[&str], expected: Option<Output>, recorded: &[RecordedDigest]| {
            let digests = names.iter().map(ToString::to_string).collect();
            Wanted { digests, expected }.of(recorded, seen).map(|known| known.digests)
        };
        let found = Some(vec![etag.digest]);
        assert_eq!(of(&["md5"], None, std::slice::from_ref(&etag)), None);
        assert_eq!(of(&["md5"], Some(etag.digest), std::slice::from_ref(&etag)), found);
        let other = Some(recorded("x", true).digest);
        assert_eq!(of(&["md5"], other, std::slice::from_ref(&etag)), None);
        // A checksum that the store verified tells of another content.
        let certain = RecordedDigest { is_certain: true, ..etag.clone() };
        assert_eq!(of(&["md5"], other, &[etag.clone(), certain.clone()]), found);
        // All, or it is read.
        assert_eq!(of(&["md5", "sha256"], None, std::slice::from_ref(&etag)), None);
        let both = [certain, recorded("sha256", true)];
        assert_eq!(of(&["md5", "sha256"], None, &both).map(|found| found.len()), Some(2));
        let both = [etag.clone(), recorded("sha256", true)];
        assert_eq!(of(&["md5", "sha256"], Some(etag.digest), &both), None);
        // A part as long as the object, or longer.
        let expected = Some(etag.digest);
        assert_eq!(of(&["s3-etag:20M"], expected, std::slice::from_ref(&etag)), found);
        assert_eq!(of(&["s3-etag:8M"], expected, std::slice::from_ref(&etag)), None);
        let parts = recorded("s3-etag:8388608", false);
        assert!(of(&["s3-etag:8M"], Some(parts.digest), &[parts]).is_some());
    }
}
