//! `verisum sum` of files on hosts and in buckets.

use verisum::digest::Digest;
use verisum::files::place::{Choice, FileRequest, Files};
use verisum::files::store::manifest::ListFormat;

use super::SumArgs;
use super::inputs::NameSource;
use super::report::{Source, SumLines};
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, Evidences, ObjectReading, OnHost};

impl SumArgs {
    /// Prints the digests of the files on hosts, after those of this machine if it `is_here_too`.
    pub(super) fn sum_in_places(
        &self,
        (is_here_too, hosts): (bool, &[OnHost]),
        digests: &[Digest],
        lines: &SumLines,
    ) -> Result<(), Failure> {
        let limits = self.reading.limits()?;
        let at_once = self.threads.number()?;
        let reading = ObjectReading { limits: limits.clone(), at_once };
        let reached = self.hosts.hosts_reading(hosts.len(), reading)?;
        let prefixed = self.many.names_hosts(is_here_too, hosts);
        let json = (self.format() == ListFormat::Json).then_some(digests);
        let excludes = self.reading.excludes()?;
        let counts = Evidences::default();
        hosts::each(hosts, self.many.at_once(), &|on: &OnHost| {
            // Buckets keep to the limits themselves.
            let limits = limits.clone().filter(|_| !on.is_bucket());
            let choice = Choice { excludes: excludes.clone(), limits, ..Choice::default() };
            let Some((mut place, way)) = hosts::open(&reached, &on.host, digests, &lines.report) else {
                return;
            };
            for address in &on.places {
                let (relative, recorded, counts) = (self.relative, self.recorded, &counts);
                let source = Source { address, way, json, relative, prefixed, recorded, counts };
                let sink = |event| lines.answered(&source, event);
                let hashed = match &self.files0_from {
                    None if choice.is_everything() => {
                        let mut roots = std::iter::once(address.path.clone());
                        self.recorded.hash(&mut *place, digests, Files::Trees(&mut roots), &sink)
                    }
                    None => match hosts::place(&reached, &on.host) {
                        Ok(mut lister) => choice.hash(&mut *lister, &address.path, &sink, |files| {
                            self.recorded.hash(&mut *place, digests, files, &sink)
                        }),
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
}
