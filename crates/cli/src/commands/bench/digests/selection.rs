//! Chooses the digests and programs to measure.

use verisum::digest::{ALGORITHMS, Algorithm};
use verisum_bench::digests::{self, CKSUM, DigestCall, PROGRAMS, SUM};

use super::style::{HISTORICAL, HISTORICAL_PROGRAMS, SECOND};
use super::{BenchDigestsArgs, OURS, USUAL_INSIDE, USUAL_PROGRAMS};
use crate::ui::failure::Failure;
use crate::ui::kernel;

/// What was chosen of digests and programs.
pub(super) struct ChosenDigests {
    pub(super) inside: Vec<&'static Algorithm>,
    pub(super) ways: Vec<DigestCall>,
    /// Digests that our own program computes for comparison.
    pub(super) ours: Vec<&'static str>,
    pub(super) programs: Vec<&'static str>,
    /// Digests that programs which were asked for by name do not have.
    pub(super) lacking: Vec<(&'static str, &'static str)>,
    /// The programs, each with all digests that were chosen: the first table of the experiment.
    pub(super) pairs: Vec<(&'static str, &'static str)>,
    /// Whether the second and third table of the experiment are wanted, too.
    pub(super) further: bool,
}

impl ChosenDigests {
    pub(super) fn of(arguments: &BenchDigestsArgs) -> Result<ChosenDigests, Failure> {
        let known: Vec<&'static str> = ALGORITHMS.iter().map(|row| row.id).chain([CKSUM, SUM]).collect();
        let mut named = Vec::new();
        for name in &arguments.algorithm {
            match name.as_str() {
                "all" => named.extend(known.iter().copied().filter(|id| *id != "null")),
                CKSUM => named.push(CKSUM),
                SUM => named.push(SUM),
                // Errors with hints as elsewhere.
                name => match Algorithm::find(name) {
                    Some(row) => named.push(row.id),
                    None => {
                        crate::ui::digests::find(name, &kernel::policy()?)?;
                    }
                },
            }
        }
        let mut seen = Vec::new();
        named.retain(|id| {
            !seen.contains(id) && {
                seen.push(*id);
                true
            }
        });
        let programs: Vec<&'static str> = PROGRAMS.iter().map(|program| program.name).chain([OURS]).collect();
        let mut chosen = Vec::new();
        for name in &arguments.program {
            let found = programs.iter().find(|program| *program == name);
            chosen.push(*found.ok_or_else(|| {
                Failure::value("--program", name, format!("must be one of {}", programs.join(", ")))
            })?);
        }
        if chosen.is_empty() {
            chosen = match arguments.style {
                Some(_) => HISTORICAL_PROGRAMS.to_vec(),
                None => programs,
            };
        }
        let or = |usual: &[&'static str]| if named.is_empty() { usual.to_vec() } else { named.clone() };
        let historical = arguments.style.is_some();
        let of_programs = or(if historical { &HISTORICAL } else { &USUAL_PROGRAMS });
        let further = historical && named.is_empty() && arguments.program.is_empty();
        let second = |way: &DigestCall| further && SECOND.contains(&(way.program, way.digest));
        let mut ways = digests::ways();
        ways.retain(|way| {
            chosen.contains(&way.program) && (of_programs.contains(&way.digest) || second(way))
        });
        let ours = match chosen.contains(&OURS) {
            true => of_programs.iter().copied().filter(|id| Algorithm::find(id).is_some()).collect(),
            false => Vec::new(),
        };
        let has = |program: &str, digest: &str| {
            (program == OURS && Algorithm::find(digest).is_some())
                || ways.iter().any(|way| (way.program, way.digest) == (program, digest))
        };
        let asked = chosen.iter().filter(|program| arguments.program.iter().any(|name| name == *program));
        let lacking = asked
            .flat_map(|&program| of_programs.iter().map(move |&digest| (program, digest)))
            .filter(|(program, digest)| !historical && !has(program, digest))
            .collect();
        let inside = or(&USUAL_INSIDE).iter().filter_map(|id| Algorithm::find(id)).collect();
        let all = |&program| of_programs.iter().map(move |&digest| (program, digest));
        let pairs = chosen.iter().flat_map(all).collect();
        Ok(ChosenDigests { inside, ways, ours, programs: chosen, lacking, pairs, further })
    }

    /// The digests that programs are compared by, in the order of the table.
    pub(super) fn digests(&self) -> Vec<&'static str> {
        let mut found: Vec<&'static str> = self.ways.iter().map(|way| way.digest).collect();
        found.extend(&self.ours);
        let mut seen = Vec::new();
        found.retain(|id| {
            !seen.contains(id) && {
                seen.push(*id);
                true
            }
        });
        found
    }
}
