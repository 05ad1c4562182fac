//! Scrubs a tree of this machine. One engine hashes the bad files, the files of the walk and the stalest
//! files; its threads judge them, and one thread writes to the catalogue.

use std::path::Path;
use std::sync::mpsc;

use verisum_digest::Digest;

use super::jobs::{Jobs, Outcome};
use super::judge::Token;
use super::run::{Passage, Work};
use super::writer::Writer;
use super::{Scope, ScrubError, ScrubOptions, tree_guard};
use crate::store::Catalog;
use verisum_files::{Operation, Plan, hash_wanted};

/// How many results may wait to be written: several batches, so that nobody waits while one is. They are fewer than
/// [`Jobs`] remembers.
const BEHIND: usize = 1 << 14;

/// A tree of this machine.
pub(super) struct LocalTree;

impl Passage for LocalTree {
    fn scope(&self, catalog: &Catalog, path: &Path, options: &ScrubOptions) -> Result<Scope, ScrubError> {
        tree_guard::scope(catalog, path, options)
    }

    fn rehashes(&self) -> bool {
        true
    }

    fn go<'w>(&mut self, work: &Work, mut writer: Writer<'w>) -> Result<(Writer<'w>, Outcome), ScrubError> {
        let judge = &work.judge;
        let (sender, receiver) = mpsc::sync_channel(BEHIND);
        let mut jobs = Jobs::new(writer.catalog.again()?, work, sender.clone())?;
        let written = std::thread::scope(|threads| {
            let write = move || {
                writer.begin(work)?;
                writer.run(receiver).map(|()| writer)
            };
            let writing = match std::thread::Builder::new().spawn_scoped(threads, write) {
                Ok(writing) => writing,
                Err(error) => {
                    let path = &work.scope.path;
                    return Ok(Err(verisum_files::FileError::io(path, Operation::Hash, error).into()));
                }
            };
            // Files are taken in heaps, and wait for their turn where there are limits: it is asked again then.
            let wanted = |token: &Token| judge.why_not_read(token.device, token.is_known_bad).is_none();
            hash_wanted(&engine(work), &mut jobs, &wanted, &|hashed| judge.judge(hashed, &sender));
            drop(sender);
            jobs.close();
            writing.thread().unpark();
            writing.join()
        });
        let writer = written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((writer, jobs.outcome()?))
    }
}

/// How files are read.
fn engine(work: &Work) -> Plan {
    let options = work.options;
    let target = Some(&options.digest).filter(|_| work.is_rehashed);
    let sets = work.judge.digests.sets.iter().map(|digest| -> Vec<Digest> {
        let target = target.filter(|target| target.name() != digest.name());
        [digest].into_iter().chain(target).cloned().collect()
    });
    let sets = sets.collect();
    let plan = Plan {
        hard_links_once: true,
        settles: true,
        limits: options.limits.clone(),
        stop: options.stop.clone(),
        progress: options.progress.clone(),
        ..Plan::new(sets, options.threads)
    };
    if options.budget.is_some() { plan.for_some_time() } else { plan }
}
