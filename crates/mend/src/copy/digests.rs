//! Sets of digests that are computed together, and small messages hashed side by side.

use std::ops::Range;
use std::sync::{Arc, RwLock};

use verisum_digest::{Batch, Digest, Output, Policy};

/// Digests that are computed of a file in one read.
#[derive(Debug)]
pub(super) struct Set {
    number: usize,
    pub(super) digests: Vec<Digest>,
}

/// All sets that occurred so far.
pub(super) struct Sets {
    policy: Policy,
    known: RwLock<Vec<Arc<Set>>>,
}

/// The digests of a file.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    pub(super) set: Arc<Set>,
    pub(super) outputs: Vec<Output>,
}

impl Sums {
    /// Each with its digest.
    pub(super) fn pairs(&self) -> Vec<(Digest, Output)> {
        self.set.digests.iter().cloned().zip(self.outputs.iter().copied()).collect()
    }

    /// That of a name.
    pub(super) fn find(&self, name: &str) -> Option<&Output> {
        let at = self.set.digests.iter().position(|digest| digest.name() == name)?;
        self.outputs.get(at)
    }
}

impl Sets {
    pub(super) fn new(policy: Policy) -> Sets {
        Sets { policy, known: RwLock::default() }
    }

    /// The set of these digests, in this order.
    pub(super) fn of(&self, names: &[&str]) -> Result<Arc<Set>, verisum_digest::DigestError> {
        let is_it = |set: &&Arc<Set>| set.digests.iter().map(Digest::name).eq(names.iter().copied());
        let find = |known: &[Arc<Set>]| known.iter().find(is_it).cloned();
        if let Some(set) = find(&self.known.read().unwrap_or_else(|e| e.into_inner())) {
            return Ok(set);
        }
        let digests = names.iter().map(|name| Digest::find_with(name, &self.policy));
        let digests: Vec<Digest> = digests.collect::<Result<_, _>>()?;
        let mut known = self.known.write().unwrap_or_else(|e| e.into_inner());
        if let Some(set) = find(&known) {
            return Ok(set);
        }
        let set = Arc::new(Set { number: known.len(), digests });
        known.push(set.clone());
        Ok(set)
    }
}

/// What one thread hashes batches with.
#[derive(Default)]
pub(super) struct Batches(Vec<Option<Vec<Batch>>>);

impl Batches {
    /// Hashes messages in a buffer, those of one set side by side.
    pub(super) fn hash(
        &mut self,
        buffer: &[u8],
        messages: &[(Arc<Set>, Range<usize>)],
    ) -> Result<Vec<Sums>, verisum_digest::DigestError> {
        let mut sums: Vec<Sums> = messages
            .iter()
            .map(|(set, _)| Sums { set: set.clone(), outputs: Vec::with_capacity(set.digests.len()) })
            .collect();
        let mut numbers: Vec<usize> = messages.iter().map(|(set, _)| set.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let members: Vec<usize> =
                (0..messages.len()).filter(|index| messages[*index].0.number == number).collect();
            let slices: Vec<&[u8]> =
                members.iter().map(|&index| &buffer[messages[index].1.clone()]).collect();
            let set = &messages[members[0]].0;
            if self.0.len() <= number {
                self.0.resize_with(number + 1, || None);
            }
            let batches = match &mut self.0[number] {
                Some(batches) => batches,
                empty => empty.insert(set.digests.iter().map(Digest::batch).collect::<Result<_, _>>()?),
            };
            for (digest, batch) in set.digests.iter().zip(batches) {
                let mut bytes = vec![0; digest.len() * members.len()];
                batch.hash(&slices, &mut bytes)?;
                for (place, &index) in members.iter().enumerate() {
                    let mut output = Output::zeroed(digest.len());
                    let from = &bytes[place * digest.len()..][..digest.len()];
                    output.as_mut_bytes().copy_from_slice(from);
                    sums[index].outputs.push(output);
                }
            }
        }
        Ok(sums)
    }
}
