//! `verisum dirhash attack --real`: measures what names with one hash do to a mounted ext4.

use std::time::Duration;

use verisum_bench::export::{Cell, Table};
use verisum_bench::stats::{self, RankedPair};
use verisum_dirhash::htree::Geometry;
use verisum_dirhash::names::Names;
use verisum_dirhash::workload::Act;
use verisum_dirhash::{Hashing, attack};

use super::bakeoff_real::{kind, length, perform};
use super::options;
use super::volume::{self, FileSystemKind, Volume};
use crate::ui::failure::Failure;
use crate::ui::signals::Ending;

/// Names to try on one hash.
pub(super) struct Attack {
    pub(super) hashing: Hashing,
    pub(super) names: Vec<Vec<u8>>,
}

/// Says what is missing, before names are searched for.
pub(super) fn require(hashings: &[Hashing], geometry: Geometry) -> Result<(), Failure> {
    let kinds = hashings.iter().map(|hashing| kind(hashing, geometry)).collect::<Result<Vec<_>, _>>()?;
    if let Some(place) = kinds.iter().position(|kind| !matches!(kind, FileSystemKind::Ext4 { .. })) {
        return Err(Failure::value(
            "--hash",
            hashings[place].hash.id,
            "with --real, must be one of legacy, half_md4, tea",
        ));
    }
    volume::require(&kinds)
}

/// One directory: which names, under which seed.
struct Case {
    label: &'static str,
    hashing: Hashing,
    names: Names,
}

/// What was seen of one.
#[derive(Default)]
struct Seen {
    create: Vec<f64>,
    lookup: Vec<f64>,
    names: u64,
    blocks: u64,
    full: bool,
}

/// Creates and looks up, in turns; ordinary names of the same lengths are what all is compared with.
pub(super) fn run(
    attacks: &[Attack],
    geometry: Geometry,
    rounds: u32,
) -> Result<(Table, Option<String>), Failure> {
    let stop = Ending::new()?;
    let result = table(attacks, geometry, rounds, &stop);
    stop.obey();
    result
}

fn table(
    attacks: &[Attack],
    geometry: Geometry,
    rounds: u32,
    stop: &Ending,
) -> Result<(Table, Option<String>), Failure> {
    let mut table = Table::new(
        format!(
            "On mounted ext4: medians of {rounds} rounds in turns, against ordinary names, processor time"
        ),
        "hash; names; seed; created; blocks; model (blocks); model reads (leaves a lookup); create (µs); \
         create ratio; create from; create to; creates are; lookup (µs); lookup ratio; lookup from; \
         lookup to; lookups are",
    );
    let mut all = Vec::new();
    for attack in attacks {
        let cases = cases(attack);
        let mut seen: Vec<Seen> = cases.iter().map(|_| Seen::default()).collect();
        for round in 0..rounds as usize {
            for place in 0..cases.len() {
                let place = (place + round) % cases.len();
                one(&cases[place], geometry, stop, &mut seen[place])?;
            }
        }
        all.push((cases, seen));
    }
    let groups: Vec<Vec<Vec<f64>>> = all
        .iter()
        .flat_map(|(_, seen)| {
            [
                seen.iter().map(|it| it.create.clone()).collect(),
                seen.iter().map(|it| it.lookup.clone()).collect(),
            ]
        })
        .collect();
    let pairs = stats::beside_first(&groups);
    for ((cases, seen), pairs) in all.iter().zip(pairs.chunks_exact(2)) {
        for (place, (case, it)) in cases.iter().zip(seen).enumerate() {
            let Names::List(names) = &case.names else { continue };
            let model = attack::damage(case.hashing, names, geometry);
            let beside = |act: usize| place.checked_sub(1).map(|place| &pairs[act][place]);
            let ratio = |act, of: fn(&RankedPair) -> f64| {
                beside(act).map_or(Cell::Missing, |pair| Cell::Number(of(pair), 2))
            };
            let verdict = |act| beside(act).map_or(Cell::Missing, |pair| Cell::text(pair.verdict.name()));
            table.row([
                Cell::text(case.hashing.hash.id),
                Cell::text(if place % 2 == 0 { "ordinary" } else { "colliding" }),
                Cell::text(case.label),
                Cell::text(format!("{}{}", it.names, if it.full { " (index full)" } else { "" })),
                Cell::Count(it.blocks),
                Cell::Count(model.blocks),
                Cell::Number(model.leaves_read, 2),
                Cell::Number(stats::median(&it.create), 2),
                ratio(0, |pair| pair.ratio.median),
                ratio(0, |pair| pair.ratio.low),
                ratio(0, |pair| pair.ratio.high),
                verdict(0),
                Cell::Number(stats::median(&it.lookup), 2),
                ratio(1, |pair| pair.ratio.median),
                ratio(1, |pair| pair.ratio.low),
                ratio(1, |pair| pair.ratio.high),
                verdict(1),
            ]);
        }
    }
    let comparisons = pairs.iter().map(Vec::len).sum();
    Ok((table, options::too_few(rounds as usize, comparisons)))
}

/// Ordinary and colliding names with the attacked seed, then with another one; the legacy hash is tried
/// with another seed too, which changes nothing.
fn cases(attack: &Attack) -> Vec<Case> {
    let ordinary: Vec<Vec<u8>> = attack
        .names
        .iter()
        .enumerate()
        .map(|(number, name)| format!("{number:0width$}", width = name.len()).into_bytes())
        .collect();
    let other = Hashing { seed: attack::other_seed(&attack.hashing.seed), ..attack.hashing };
    [("attacked", attack.hashing), ("another", other)]
        .into_iter()
        .flat_map(|(label, hashing)| {
            [&ordinary, &attack.names].map(|names| Case { label, hashing, names: Names::List(names.clone()) })
        })
        .collect()
}

fn one(case: &Case, geometry: Geometry, stop: &Ending, seen: &mut Seen) -> Result<(), Failure> {
    let count = case.names.count().unwrap_or(0);
    let kind = kind(&case.hashing, geometry)?;
    let mut volume = Volume::new(kind, count)?;
    let folder = volume.path().join("d");
    let failed = |operation| {
        let name = folder.clone();
        move |error| Failure::File { name, operation, error }
    };
    std::fs::create_dir(&folder).map_err(failed("create"))?;
    let create = perform(&folder, Act::Create, &case.names, 0..count, stop)?;
    seen.blocks = length(&folder, kind)?.0.unwrap_or(0);
    // The kernel forgets which names it has seen; then the blocks are read, but no name is looked up.
    volume.unmount()?;
    volume.mount()?;
    for entry in std::fs::read_dir(&folder).map_err(failed("list"))? {
        entry.map_err(failed("list"))?;
    }
    let lookup = perform(&folder, Act::Stat, &case.names, 0..create.names, stop)?;
    volume.remove()?;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / create.names.max(1) as f64;
    seen.create.push(each(create.spent.processor));
    seen.lookup.push(each(lookup.spent.processor));
    seen.names = create.names;
    seen.full = create.full;
    Ok(())
}
