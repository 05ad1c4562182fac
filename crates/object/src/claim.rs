//! Compares the checksum that a store recorded of an object with the bytes that were read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use verisum_digest::{Digest, DigestError, DigestStream, Output};
use verisum_files::place::{Contradicted, FileRead, RecordedDigest};

/// A digest that a store recorded of an object and verified when that was written, and how it is made of the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) recorded: RecordedDigest,
    /// The digest of the content, or of each of its parts.
    inner: &'static str,
    /// The lengths of the parts, of whose digests it is the digest; none where it is of the content.
    parts: Vec<u64>,
    /// Whether only the length of the first part is known, and the others are taken to be as long.
    is_guess: bool,
}

impl Claim {
    /// One of the whole content, by a digest of the table.
    pub(crate) fn whole(recorded: RecordedDigest) -> Option<Claim> {
        let inner = Digest::find(&recorded.algorithm).ok()?.algorithm()?.id;
        Some(Claim { recorded, inner, parts: Vec::new(), is_guess: false })
    }

    /// One of the digests of parts of these lengths. Where no name tells how long they are, it is told by their number.
    pub(crate) fn of_parts(inner: &'static str, digest: Output, parts: Vec<u64>) -> Option<Claim> {
        let first = *parts.first().filter(|_| !parts.contains(&0))?;
        let (last, others) = parts.split_last()?;
        let is_even = !others.is_empty() && others.iter().all(|part| *part == first) && *last <= first;
        let named = Digest::find(&format!("s3-{inner}:{first}")).ok().filter(|_| is_even);
        let plural = if parts.len() == 1 { "" } else { "s" };
        let algorithm = named.map_or_else(
            || format!("{inner} of {} part{plural}", parts.len()),
            |digest| digest.name().to_string(),
        );
        let recorded = RecordedDigest { algorithm, digest, is_certain: true };
        Some(Claim { recorded, inner, parts, is_guess: false })
    }

    /// The same, but it may be of something else than the content.
    pub(crate) fn uncertain(mut self) -> Claim {
        self.recorded.is_certain = false;
        self
    }

    /// The same, by lengths of parts that may be others.
    pub(crate) fn guessed(mut self, is_guess: bool) -> Claim {
        self.is_guess = is_guess;
        self
    }

    /// The digest that it is, if it is one of the whole content.
    pub(crate) fn of_content(&self) -> Option<&'static str> {
        self.parts.is_empty().then_some(self.inner)
    }

    /// The digest that computes it, if one of the table does.
    pub(crate) fn digest(&self) -> Option<Digest> {
        Digest::find(&self.recorded.algorithm).ok()
    }

    /// Computes it, in little memory.
    pub(crate) fn stream(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        let inner = Digest::find(self.inner)?;
        if self.parts.is_empty() {
            return inner.stream();
        }
        let mut left: VecDeque<u64> = self.parts.iter().copied().collect();
        let in_part = left.pop_front().unwrap_or(u64::MAX);
        let (part, all) = (inner.stream()?, inner.stream()?);
        Ok(Box::new(PartStream { part, all, digest: Output::zeroed(inner.len()), in_part, left }))
    }

    /// The same of a content.
    pub(crate) fn hash(&self, content: &[u8]) -> Result<Output, DigestError> {
        let mut stream = self.stream()?;
        stream.expect(content.len() as u64)?;
        stream.update(content)?;
        let mut digest = self.recorded.digest;
        stream.finish(digest.as_mut_bytes())?;
        Ok(digest)
    }
}

/// Hashes one part after the other, and the digests of all.
struct PartStream {
    part: Box<dyn DigestStream>,
    all: Box<dyn DigestStream>,
    /// Room for the digest of a part.
    digest: Output,
    /// So many bytes are left of this part.
    in_part: u64,
    /// The lengths of those behind it.
    left: VecDeque<u64>,
}

impl DigestStream for PartStream {
    fn update(&mut self, mut data: &[u8]) -> Result<(), DigestError> {
        while !data.is_empty() {
            let (head, rest) =
                data.split_at(data.len().min(usize::try_from(self.in_part).unwrap_or(usize::MAX)));
            self.part.update(head)?;
            self.in_part -= head.len() as u64;
            if self.in_part == 0 {
                self.part.finish(self.digest.as_mut_bytes())?;
                self.all.update(self.digest.as_bytes())?;
                self.in_part = self.left.pop_front().unwrap_or(u64::MAX);
            }
            data = rest;
        }
        Ok(())
    }

    fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
        self.all.finish(digest)
    }

    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        let PartStream { part, all, digest, in_part, left } = self;
        let (part, all, left) = (part.copy()?, all.copy()?, left.clone());
        Ok(Box::new(PartStream { part, all, digest: *digest, in_part: *in_part, left }))
    }
}

/// What the store recorded of an object, and what a report of the store has of it.
pub(crate) struct Claims(pub(crate) Vec<Claim>);

impl Claims {
    /// Computes them: `found` does.
    pub(crate) fn compared(self, found: impl Fn(&Claim) -> Option<Output>) -> ComparedClaims {
        let all = self.0.into_iter().filter_map(|claim| found(&claim).map(|found| (claim, found)));
        let (agreed, others) = all.partition(|(claim, found)| claim.recorded.digest == *found);
        ComparedClaims { agreed, others }
    }
}

/// What was recorded of an object, with the digests of what was read.
pub(crate) struct ComparedClaims {
    agreed: Vec<(Claim, Output)>,
    others: Vec<(Claim, Output)>,
}

impl ComparedClaims {
    /// Notes that ETags of this store are digests of contents, if this one is.
    pub(crate) fn note(&self, etags_tell: &AtomicBool) {
        if self.agreed.iter().any(|(claim, _)| !claim.recorded.is_certain) {
            etags_tell.store(true, Ordering::Relaxed);
        }
    }

    /// The first that the content is not, with the digest that it has. An ETag counts only where those of the store are
    /// digests of contents, and one that took the parts for equally long only if `are_parts` says that they are.
    pub(crate) fn told(self, etags_tell: &AtomicBool, are_parts: impl Fn(&[u64]) -> bool) -> FileRead {
        let counts = |claim: &Claim| claim.recorded.is_certain || etags_tell.load(Ordering::Relaxed);
        let is_sure = |claim: &Claim| !claim.is_guess || are_parts(&claim.parts);
        let contradicted = self.others.into_iter().find(|(claim, _)| counts(claim) && is_sure(claim));
        let contradicted =
            contradicted.map(|(claim, found)| Contradicted { recorded: claim.recorded, found });
        let is_disputed = contradicted.is_some() && !self.agreed.is_empty();
        FileRead { contradicted, is_disputed, ..FileRead::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_any_lengths_are_hashed_as_stores_do() {
        let content: Vec<u8> = (0..20_000_u32).map(|at| (at * 7 % 251) as u8).collect();
        let sha256 = Digest::find("sha256").unwrap();
        for (lengths, name) in [
            (vec![20_000], "sha256 of 1 part"),
            (vec![8000, 5000, 7000], "sha256 of 3 parts"),
            (vec![5000, 5000, 10_000], "sha256 of 3 parts"),
            (vec![8000, 8000, 4000], "s3-sha256:8000"),
        ] {
            let (mut rest, mut all) = (&content[..], Vec::new());
            for length in &lengths {
                let (part, others) = rest.split_at(*length as usize);
                all.extend_from_slice(sha256.hash(part).unwrap().as_bytes());
                rest = others;
            }
            let digest = sha256.hash(&all).unwrap();
            let claim = Claim::of_parts("sha256", digest, lengths).unwrap();
            assert_eq!(&claim.recorded.algorithm[..], name);
            assert_eq!(claim.hash(&content).unwrap(), digest, "{name}");
            let mut begun = claim.stream().unwrap();
            begun.update(&content[..9000]).unwrap();
            let mut other = begun.copy().unwrap();
            let mut found = Output::zeroed(32);
            other.update(&content[9000..]).unwrap();
            other.finish(found.as_mut_bytes()).unwrap();
            assert_eq!(found, digest, "{name}");
        }
        assert_eq!(Claim::of_parts("sha256", Output::zeroed(32), vec![5, 0]), None);
        assert_eq!(Claim::of_parts("sha256", Output::zeroed(32), Vec::new()), None);
    }
}
