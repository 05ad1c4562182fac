//! Reads objects side by side, and hashes them in the order of the requests, many small ones as one batch.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use verisum_digest::{Batch, Digest, DigestError, DigestStream, Output};
use verisum_files::place::{
    ContentEvidence, FileAnswer, FileRead, FileRequest, PlaceError, PlaceEvent, Reason, Sink,
};

use verisum_files::{Stop, text};

use crate::checksum_report::ReportChecksums;
use crate::claim::{Claim, Claims, ComparedClaims};
use crate::client::{Part, SharedClient};
use crate::content::ObjectContent;
use crate::error::RequestError;
use crate::keys::{key, machine, reason};
use crate::recorded::{KnownRecord, Wanted};
use crate::split::{LargeError, SplitObject};

/// How much of an object is asked for at once. No more than twice as many of these are in memory as requests may be under
/// way.
pub(crate) const PIECE: u64 = 2 << 20;
/// A batch is hashed when it has so many objects, or so many bytes.
const MOST_OBJECTS: usize = 64;
const MOST_BYTES: usize = 4 << 20;

/// How often who waits looks whether all is to end.
const LOOK: Duration = Duration::from_millis(50);

/// The store is given up when it fails for more objects in a row.
pub(crate) const MOST_WRONG: u32 = 8;

/// A request that is under way; it ends when nobody waits for it any more.
pub(crate) struct Fetch<T>(pub(crate) JoinHandle<T>);

impl<T> Fetch<T> {
    /// What came of it, unless all is to end before: a limit may let a request wait for minutes.
    pub(crate) fn wait_unless(mut self, runtime: &Runtime, stop: &Stop) -> Result<Option<T>, RequestError> {
        let ended = unless_stopped(runtime, stop, &mut self.0).transpose();
        ended.map_err(|error| RequestError::Network(error.to_string()))
    }
}

/// What comes of work, or none if all is to end before.
pub(crate) fn unless_stopped<T>(runtime: &Runtime, stop: &Stop, work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    runtime.block_on(async {
        loop {
            match tokio::time::timeout(LOOK, &mut work).await {
                Ok(done) => return Some(done),
                Err(_) if stop.is_due() => return None,
                Err(_) => {}
            }
        }
    })
}

impl<T> Drop for Fetch<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What comes of an object first.
enum First {
    /// The digests, which the store recorded.
    Known(KnownRecord),
    /// Its first bytes, and a digest that the store recorded of all.
    Part(Box<(Part, Option<Claim>)>),
}

/// An object that was read at once.
struct Small {
    request: FileRequest,
    bytes: Vec<u8>,
    claims: Claims,
}

/// Reads and hashes objects.
pub(crate) struct Queue<'a> {
    client: SharedClient,
    runtime: &'a Runtime,
    stop: Arc<Stop>,
    digests: &'a [Digest],
    batches: Vec<Batch>,
    /// The same for digests that the store recorded, by their names.
    claim_batches: HashMap<&'static str, Batch>,
    sink: Sink<'a>,
    /// Whether objects are not read whose digests the store recorded.
    takes_records: bool,
    /// Whether the store lists the objects meanwhile.
    is_listed: bool,
    /// What else it says of objects.
    report: Option<Arc<ReportChecksums>>,
    /// The first parts of objects, in order.
    fetched: VecDeque<(FileRequest, Fetch<Result<First, RequestError>>)>,
    /// Small objects that wait to be hashed.
    small: Vec<Small>,
    small_bytes: usize,
    /// For so many objects in a row it failed.
    wrong: u32,
    /// Whether it was said that a checksum is none.
    has_said: bool,
}

impl<'a> Queue<'a> {
    pub(crate) fn new(
        client: &SharedClient,
        runtime: &'a Runtime,
        stop: &Arc<Stop>,
        digests: &'a [Digest],
        sink: Sink<'a>,
    ) -> Result<Queue<'a>, PlaceError> {
        let batches = digests.iter().map(Digest::batch).collect::<Result<_, _>>();
        let batches = batches.map_err(|error| PlaceError::Digest(error.into()))?;
        let (fetched, small) = (VecDeque::new(), Vec::new());
        let (client, takes_records) = (client.clone(), false);
        Ok(Queue {
            client,
            runtime,
            stop: stop.clone(),
            digests,
            batches,
            claim_batches: HashMap::new(),
            sink,
            takes_records,
            is_listed: false,
            report: None,
            fetched,
            small,
            small_bytes: 0,
            wrong: 0,
            has_said: false,
        })
    }

    /// Takes the digests that the store recorded, where it has them.
    pub(crate) fn taking_records(self, takes_records: bool) -> Queue<'a> {
        Queue { takes_records, ..self }
    }

    /// Reads what the store lists meanwhile, of which little can be gone already.
    pub(crate) fn of_listing(&mut self) {
        self.is_listed = true;
    }

    /// Compares what is read with this report too.
    pub(crate) fn beside(self, report: Option<Arc<ReportChecksums>>) -> Queue<'a> {
        Queue { report, ..self }
    }

    /// Reads one more object. False when nothing more is wanted.
    pub(crate) fn add(&mut self, request: FileRequest) -> Result<bool, PlaceError> {
        // With a limit the store is no faster by more, and whoever has a time budget waits for all that was begun.
        if self.stop.is_due() {
            return Ok(false);
        }
        let most = if self.client.limits.is_some() { 1 } else { self.client.at_once };
        if self.fetched.len() >= most && !self.take()? {
            return Ok(false);
        }
        let fetch = self.first(&request);
        self.fetched.push_back((request, fetch));
        Ok(true)
    }

    /// Ends what was begun.
    pub(crate) fn end(mut self) -> Result<(), PlaceError> {
        while !self.fetched.is_empty() {
            if !self.take()? {
                return Ok(());
            }
        }
        self.flush().map(drop)
    }

    fn first(&self, request: &FileRequest) -> Fetch<Result<First, RequestError>> {
        let (client, key) = (self.client.clone(), key(&request.path).to_vec());
        let digests = self.digests.iter().map(|digest| digest.name().to_string()).collect();
        let listed = request.seen;
        let wanted = self.takes_records.then_some(Wanted { digests, expected: request.expected });
        Fetch(self.runtime.spawn(async move {
            if let Some(wanted) = wanted
                // Whoever reads the object hears why nothing is told of it.
                && let Ok(Some(known)) = client.known(&key, &wanted).await
            {
                return Ok(First::Known(known));
            }
            client.admit(listed.size.unwrap_or_default().min(PIECE), 1).await;
            let part = client.listed_part(&key, 0..PIECE, &listed).await?;
            let claim = client.claim(&key, &part).await;
            if listed.size.is_none() {
                // Only now is it known how much there was.
                client.admit(part.bytes.len() as u64, 0).await;
            }
            Ok(First::Part(Box::new((part, claim))))
        }))
    }

    /// Takes the object that was asked for first.
    fn take(&mut self) -> Result<bool, PlaceError> {
        let Some((mut request, fetch)) = self.fetched.pop_front() else { return Ok(true) };
        let first = match fetch.wait_unless(self.runtime, &self.stop) {
            Ok(None) => return Ok(false),
            Ok(Some(first)) => first,
            Err(error) => Err(error),
        };
        match first {
            Ok(First::Known(KnownRecord { digests, seen })) => {
                self.wrong = 0;
                request.seen = seen;
                let evidence = ContentEvidence::Recorded(seen.modified);
                Ok(self.flush()? && self.tell(request, FileRead { digests, evidence, ..FileRead::default() }))
            }
            Ok(First::Part(first)) => {
                let (part, claim) = *first;
                if let Some(name) = part.recorded.malformed().filter(|_| !self.has_said) {
                    self.has_said = true;
                    let key = text::printable(&String::from_utf8_lossy(key(&request.path)));
                    let why = "is none, and counts for nothing; others are not named";
                    (self.sink)(PlaceEvent::Note(format!("{key}: what the store tells as {name} {why}")));
                }
                let part = match self.whole(&request, part) {
                    Ok(None) => return Ok(false),
                    Ok(Some(part)) => part,
                    Err(error) => return Ok(self.flush()? && self.failed(request, &error)?),
                };
                self.wrong = 0;
                request.seen = part.seen;
                let claims = self.claims(&request, claim);
                if part.size > PIECE {
                    return Ok(self.flush()? && self.large(request, part, claims)?);
                }
                self.small_bytes += part.bytes.len();
                self.small.push(Small { request, bytes: part.bytes, claims });
                match self.small.len() >= MOST_OBJECTS || self.small_bytes >= MOST_BYTES {
                    true => self.flush(),
                    false => Ok(true),
                }
            }
            Err(error) => {
                // What came before it is told before it.
                if !self.flush()? {
                    return Ok(false);
                }
                self.failed(request, &error)
            }
        }
    }

    /// All of an object where nothing would tell whether a further range is of the same content: one such at a time is in
    /// memory. None if all is to end.
    fn whole(&self, request: &FileRequest, part: Part) -> Result<Option<Part>, RequestError> {
        if !part.is_nameless() {
            return Ok(Some(part));
        }
        let (client, key) = (self.client.clone(), key(&request.path).to_vec());
        let fetch = async move { client.whole(&key, part).await };
        Fetch(self.runtime.spawn(fetch)).wait_unless(self.runtime, &self.stop)?.transpose()
    }

    /// Says that an object was not read. An error of the whole store ends the work, and so do many in a row that may be.
    fn failed(&mut self, request: FileRequest, error: &RequestError) -> Result<bool, PlaceError> {
        if error.is_of_all() {
            return Err(machine(error));
        }
        let why = reason(&self.client, (self.runtime, &self.stop), key(&request.path), error);
        // That what is listed is not there, or never the same, is as wrong as an answer that makes no sense.
        let is_contradiction = error.is_elusive() && (self.is_listed || matches!(why, Reason::Failed(_)));
        self.wrong = if error.may_be_of_object() || is_contradiction { self.wrong + 1 } else { 0 };
        let is_of_object = error.is_of_object() && !is_contradiction;
        if !is_of_object && !(1..=MOST_WRONG).contains(&self.wrong) {
            let key = text::printable(&String::from_utf8_lossy(key(&request.path)));
            let why = if let Reason::Failed(why) = why { why } else { error.to_string() };
            let others = format!("; the {MOST_WRONG} objects before it failed too");
            let others = if self.wrong > MOST_WRONG { &*others } else { "" };
            return Err(PlaceError::Machine(format!("{key}: {why}{others}").into()));
        }
        Ok((self.sink)(PlaceEvent::Answer(FileAnswer::failed(request, why))))
    }

    /// Hashes the small objects as one batch.
    fn flush(&mut self) -> Result<bool, PlaceError> {
        let small = std::mem::take(&mut self.small);
        self.small_bytes = 0;
        if small.is_empty() {
            return Ok(true);
        }
        let messages: Vec<&[u8]> = small.iter().map(|small| &small.bytes[..]).collect();
        let mut sums = vec![Vec::with_capacity(self.digests.len()); small.len()];
        for (digest, batch) in self.digests.iter().zip(&mut self.batches) {
            let mut out = vec![0; messages.len() * digest.len()];
            batch.hash(&messages, &mut out).map_err(|error| PlaceError::Digest(error.into()))?;
            for (place, sums) in sums.iter_mut().enumerate() {
                let mut output = Output::zeroed(digest.len());
                output.as_mut_bytes().copy_from_slice(&out[place * digest.len()..][..digest.len()]);
                sums.push(output);
            }
        }
        let claimed = self.claimed(&small)?;
        let compared = small.into_iter().zip(sums).enumerate().map(|(place, (small, digests))| {
            let Small { request, bytes, claims } = small;
            let compared = claims.compared(|claim| {
                let batched = || claimed.get(&(place, claim.of_content()?)).copied();
                let asked = found(claim, self.digests, &digests);
                asked.or_else(batched).or_else(|| claim.hash(&bytes).ok())
            });
            compared.note(&self.client.etags_tell);
            (request, digests, compared)
        });
        let compared: Vec<_> = compared.collect();
        let mut is_wanted = true;
        for (request, digests, compared) in compared {
            let read = FileRead { digests, ..self.told(&request, compared) };
            is_wanted = is_wanted && self.tell(request, read);
        }
        Ok(is_wanted)
    }

    /// The digests that are claimed of small objects, by their places and names, as one batch for each name. What is asked for
    /// is computed already.
    fn claimed(&mut self, small: &[Small]) -> Result<HashMap<(usize, &'static str), Output>, PlaceError> {
        let mut groups: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
        for (place, small) in small.iter().enumerate() {
            for name in small.claims.0.iter().filter_map(Claim::of_content) {
                if !self.digests.iter().any(|digest| digest.name() == name) {
                    groups.entry(name).or_default().push(place);
                }
            }
        }
        let failed = |error: DigestError| PlaceError::Digest(error.into());
        let mut found = HashMap::new();
        for (name, places) in groups {
            let digest = Digest::find(name).map_err(failed)?;
            let batch = match self.claim_batches.entry(name) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(digest.batch().map_err(failed)?),
            };
            let messages: Vec<&[u8]> = places.iter().map(|place| &small[*place].bytes[..]).collect();
            let mut out = vec![0; messages.len() * digest.len()];
            batch.hash(&messages, &mut out).map_err(failed)?;
            let outputs = out.chunks(digest.len()).filter_map(Output::from_bytes);
            found.extend(places.into_iter().map(|place| (place, name)).zip(outputs));
        }
        Ok(found)
    }

    /// What is said of an object that was read.
    fn claims(&self, request: &FileRequest, claim: Option<Claim>) -> Claims {
        let reported = self.report.as_ref().and_then(|report| report.digest(request));
        Claims(claim.into_iter().chain(reported.and_then(Claim::whole)).collect())
    }

    /// Hashes a large object. What is claimed is computed beside, unless it is asked for.
    fn large(&mut self, request: FileRequest, first: Part, claims: Claims) -> Result<bool, PlaceError> {
        let is_beside =
            |claim: &&Claim| !self.digests.iter().any(|digest| digest.name() == claim.recorded.algorithm);
        let beside: Vec<&Claim> = claims.0.iter().filter(is_beside).collect();
        let named = beside.iter().map(|claim| claim.digest()).collect::<Option<Vec<Digest>>>();
        let all = named.map(|named| [self.digests, &named].concat());
        let object = ObjectContent::new(&self.client, key(&request.path), first);
        let hashed = match all.and_then(|all| SplitObject::parts_of(&all)) {
            Some(parts) => SplitObject::new(object, parts).hash(self.runtime, &self.stop),
            None => self.hash_in_order(object, &beside),
        };
        let mut digests = match hashed {
            Ok(digests) => digests,
            Err(LargeError::Stopped) => return Ok(false),
            Err(LargeError::Request(error)) => return self.failed(request, &error),
            Err(LargeError::Digest(error)) => return Err(PlaceError::Digest(error.into())),
        };
        let others = digests.split_off(self.digests.len());
        let others: Vec<(Claim, Output)> = beside.into_iter().cloned().zip(others).collect();
        let compared = claims.compared(|claim| {
            let other = || others.iter().find(|(other, _)| other == claim).map(|(_, digest)| *digest);
            found(claim, self.digests, &digests).or_else(other)
        });
        compared.note(&self.client.etags_tell);
        let read = FileRead { digests, ..self.told(&request, compared) };
        Ok(self.tell(request, read))
    }

    /// Hashes an object piece by piece, with what is claimed of it; the next ones are under way meanwhile.
    fn hash_in_order(&self, mut object: ObjectContent, claims: &[&Claim]) -> Result<Vec<Output>, LargeError> {
        let digests = self.digests.iter().map(|digest| Ok((digest.stream()?, Output::zeroed(digest.len()))));
        let claims = claims.iter().map(|claim| Ok((claim.stream()?, claim.recorded.digest)));
        let mut streams: Vec<(Box<dyn DigestStream>, Output)> =
            digests.chain(claims).collect::<Result<_, DigestError>>()?;
        streams.iter_mut().try_for_each(|(stream, _)| stream.expect(object.size))?;
        let mut under_way = VecDeque::new();
        let mut bytes = std::mem::take(&mut object.head);
        let mut starts = (bytes.len() as u64..object.size).step_by(PIECE as usize);
        let object = Arc::new(object);
        loop {
            while under_way.len() < self.client.at_once
                && let Some(start) = starts.next()
            {
                let object = object.clone();
                let fetch = async move { object.fetch_in_turn(start..start + PIECE).await };
                under_way.push_back(Fetch(self.runtime.spawn(fetch)));
            }
            streams.iter_mut().try_for_each(|(stream, _)| stream.update(&bytes))?;
            let Some(next) = under_way.pop_front() else { break };
            bytes = next.wait_unless(self.runtime, &self.stop)?.ok_or(LargeError::Stopped)??;
        }
        let finish = |(mut stream, mut sum): (Box<dyn DigestStream>, Output)| {
            stream.finish(sum.as_mut_bytes()).map(|()| sum)
        };
        Ok(streams.into_iter().map(finish).collect::<Result<_, _>>()?)
    }

    /// What the claims on an object say. The store is asked for the lengths of its parts only before they accuse it.
    fn told(&self, request: &FileRequest, compared: ComparedClaims) -> FileRead {
        let are_parts = |lengths: &[u64]| {
            let (client, key, lengths) = (self.client.clone(), key(&request.path).to_vec(), lengths.to_vec());
            let asked =
                Fetch(self.runtime.spawn(async move { client.are_parts(&key, &lengths, None).await }));
            matches!(asked.wait_unless(self.runtime, &self.stop), Ok(Some(true)))
        };
        compared.told(&self.client.etags_tell, are_parts)
    }

    fn tell(&self, request: FileRequest, read: FileRead) -> bool {
        (self.sink)(PlaceEvent::Answer(FileAnswer { request, result: Ok(read) }))
    }
}

/// What is claimed among what was computed.
fn found(claim: &Claim, digests: &[Digest], computed: &[Output]) -> Option<Output> {
    let at = digests.iter().position(|digest| digest.name() == claim.recorded.algorithm)?;
    computed.get(at).copied()
}
