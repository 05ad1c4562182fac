//! `verisum sum` of files on hosts and in buckets.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use verisum::digest::Digest;
use verisum::files::place::{FileAnswer, FileRequest, Files, Place, PlaceError, PlaceEvent, Sink, below};
use verisum::files::store::manifest::Format;
use verisum::files::{Excludes, Limits, Stop};
use verisum::remote::Address;

use super::SumArgs;
use super::inputs::NameSource;
use super::report::{Source, SumLines};
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, Evidences, ObjectReading, OnHost};
use crate::ui::sizes;

/// So many files are listed before they are read.
const MOST_WAITING: usize = 256;

/// Which files of a tree are read, and how fast.
struct Choice {
    excludes: Option<Arc<Excludes>>,
    limits: Option<Arc<Limits>>,
}

impl Choice {
    /// Whether all are read, as fast as that goes.
    fn is_everything(&self) -> bool {
        self.excludes.is_none() && self.limits.is_none()
    }

    /// Whether a file below a root is read; this waits until it may be.
    fn takes(&self, root: &[u8], request: &FileRequest) -> bool {
        let name = Path::new(OsStr::from_bytes(below(root, &request.path).unwrap_or(&request.path)));
        if self.excludes.as_ref().is_some_and(|excludes| excludes.leaves_out_file(name)) {
            return false;
        }
        if let Some(limits) = &self.limits {
            limits.wait(request.seen.size.unwrap_or_default(), 1, &Stop::default());
        }
        true
    }
}

impl SumArgs {
    /// Prints the digests of the files on hosts.
    pub(super) fn there(
        &self,
        hosts: &[OnHost],
        digests: &[Digest],
        lines: &SumLines,
    ) -> Result<(), Failure> {
        let limits = self.reading.limits()?;
        let at_once = self.threads.as_deref().map(sizes::threads).transpose()?;
        let reading = ObjectReading { limits: limits.clone(), at_once };
        let reached = self.hosts.hosts_reading(hosts.len(), reading)?;
        let prefixed = self.many.names_hosts(hosts);
        let json = (self.format() == Format::Json).then_some(digests);
        let excludes = self.reading.excludes()?;
        let counts = Evidences::default();
        hosts::each(hosts, self.many.at_once(), &|on: &OnHost| {
            // Buckets keep to the limits themselves.
            let limits = limits.clone().filter(|_| !on.is_bucket());
            let choice = Choice { excludes: excludes.clone(), limits };
            let Some((mut place, way)) = hosts::open(&reached, &on.host, digests, &lines.report) else {
                return;
            };
            for address in &on.places {
                let (relative, recorded, counts) = (self.relative, self.recorded, &counts);
                let source = Source { address, way, json, relative, prefixed, recorded, counts };
                let sink = |event| lines.there(&source, event);
                let hashed = match &self.files0_from {
                    None if choice.is_everything() => {
                        let mut roots = std::iter::once(address.path.clone());
                        self.recorded.hash(&mut *place, digests, Files::Trees(&mut roots), &sink)
                    }
                    None => match hosts::place(&reached, &on.host) {
                        Ok(lister) => self.chosen((&mut *place, lister), (address, &choice), digests, &sink),
                        Err(failure) => return lines.report.fail(&on.host, &failure),
                    },
                    Some(list) => match NameSource::listed(list) {
                        Ok(mut inputs) => {
                            let names = inputs.by_ref().filter(|name| !name.is_empty());
                            let mut names = names.map(|name| FileRequest {
                                path: address.join(&name),
                                ..FileRequest::default()
                            });
                            let files = Files::Named(&mut names);
                            let hashed = self.recorded.hash(&mut *place, digests, files, &sink);
                            drop(names);
                            if let Err(failure) = inputs.end() {
                                lines.report.fail(&on.host, &failure);
                            }
                            hashed
                        }
                        Err(failure) => return lines.report.fail(&on.host, &failure),
                    },
                };
                if let Err(error) = hashed {
                    lines.report.failed(&on.host, error.to_string());
                }
            }
        });
        let evidence = self.recorded.counts(&counts);
        self.hosts.say_evidence(&lines.report, (json.is_some(), self.quiet), evidence);
        Ok(())
    }

    /// Hashes some of the files of a tree, which one place lists while another reads them.
    fn chosen(
        &self,
        (place, mut lister): (&mut dyn Place, Box<dyn Place>),
        (address, choice): (&Address, &Choice),
        digests: &[Digest],
        sink: Sink,
    ) -> Result<(), PlaceError> {
        let (give, take) = mpsc::sync_channel(MOST_WAITING);
        thread::scope(|scope| {
            let listing = scope.spawn(move || {
                lister.list(&address.path, &|event| match event {
                    PlaceEvent::Answer(FileAnswer { request, result: Ok(_) }) => give.send(request).is_ok(),
                    other => sink(other),
                })
            });
            let mut chosen = take.into_iter().filter(|request| choice.takes(&address.path, request));
            let hashed = self.recorded.hash(place, digests, Files::Named(&mut chosen), sink);
            // A listing that nobody takes ends.
            drop(chosen);
            let listed = listing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            hashed.and(listed)
        })
    }
}
