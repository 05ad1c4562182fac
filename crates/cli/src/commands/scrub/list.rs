//! `verisum catalog list`: lists files that are recorded, bad, missing, stale or duplicates. Reads no file.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use verisum::catalog::store::{
    Catalog, CatalogPass, ListedRecord, Moment, RecordFinding, Repair, Root, Seen, State,
};
use verisum::digest::Output as DigestValue;
use verisum::files::FUTURE;
use verisum_bench::export::csv_text;

use super::report::{differences, state};
use crate::ui::bad_file::{self, BadFile};
use crate::ui::catalog::{CatalogArgs, here_or_remote, with_name};
use crate::ui::digests;
use crate::ui::exit::Exit;
use crate::ui::fact_line::FactLine;
use crate::ui::failure::Failure;
use crate::ui::names::{self, Name};
use crate::ui::parity::Beside;
use crate::ui::progress::ProgressArgs;
use crate::ui::repair_commands::RepairCommands;
use crate::ui::sizes::human;
use crate::ui::values::{self, counted, written};
use crate::ui::{Output, repair_commands};

/// What `verisum catalog list` takes.
#[derive(Args, Debug)]
pub(crate) struct CatalogListArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    #[command(flatten)]
    pub(super) progress: ProgressArgs,

    /// List files that are bad, could not be compared, or wait to be accepted
    #[arg(long)]
    bad: bool,

    /// List files that are missing, also if they were bad or held before
    #[arg(long)]
    missing: bool,

    /// List files whose last verification is older than this, stalest first: 90d
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["bad", "missing"])]
    stale: Option<String>,

    /// List groups of files with the same content, the largest first, with an empty line after each group
    #[arg(long, conflicts_with_all = ["bad", "missing", "stale", "tree"])]
    duplicates: bool,

    /// List the repairs of files, the latest first: the time, the verdict before, the source and the blocks
    #[arg(long, conflicts_with_all = ["bad", "missing", "stale", "duplicates", "csv"])]
    repaired: bool,

    /// List files below this directory only
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    tree: Option<PathBuf>,

    /// Print a line of JSON for each file
    #[arg(long)]
    json: bool,

    /// Print CSV with a line for each file, for spreadsheets
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

impl CatalogListArgs {
    /// The passes that it makes over all records.
    pub(super) fn passes(&self) -> &'static [CatalogPass] {
        use CatalogPass::{ByPath, Complete, Copies, Duplicates, Stale, Survey};
        match self {
            _ if self.duplicates => &[Complete, Duplicates],
            _ if self.repaired => &[Complete],
            _ if self.stale.is_some() => &[Complete, Stale],
            _ if self.bad => &[Complete, Survey, Copies],
            _ if self.missing => &[Complete, Copies],
            _ => &[Complete, ByPath],
        }
    }
}

/// The columns of CSV; those of [`PrintedList::csv`].
const CSV: [&str; 14] = [
    "outcome",
    "path",
    "since",
    "verified",
    "size",
    "algorithm",
    "digest",
    "found size",
    "found digest",
    "error",
    "copy",
    "mend",
    "parity",
    "advice",
];

/// Prints a list.
pub(super) fn run(arguments: &CatalogListArgs, output: &mut Output) -> Result<Exit, Failure> {
    let age = values::optional_duration("--stale", &arguments.stale)?;
    let before = age.map(|age| Moment::now() - age);
    let catalog = arguments.catalog.open_shared()?;
    catalog.at_one_moment(|| {
        catalog.require_complete()?;
        let has_troubles = arguments.bad || arguments.missing;
        let mut list = PrintedList {
            catalog: &catalog,
            copies: None,
            beside: Beside::default(),
            arguments,
            commands: RepairCommands::new(arguments.catalog.catalog.as_deref()).knowing(&catalog.roots()?),
            output,
        };
        if arguments.csv {
            list.output.text(&format!("{}\r\n", CSV.join(",")))?;
        }
        if arguments.duplicates {
            list.duplicates()?;
            return Ok(list.output.worst());
        }
        let (roots, below) = match &arguments.tree {
            Some(path) => {
                let (root, below) = found(&catalog, path)?;
                (vec![root], Some(below))
            }
            None => (catalog.roots()?, None),
        };
        if arguments.repaired {
            for root in &roots {
                list.repairs(root, below.as_deref())?;
            }
            return Ok(Exit::Clean);
        }
        let mut each = |file: ListedRecord| match &below {
            Some(below) if !file.path.starts_with(below) => Ok(()),
            _ => list.file(&file),
        };
        if arguments.bad {
            catalog.each_damaged(&mut each)?;
        }
        for root in &roots {
            match before {
                Some(before) => catalog.each_stale(root, before, Moment::now() + FUTURE, &mut each)?,
                None if has_troubles => {
                    let is_told = |file: &ListedRecord| arguments.bad && file.record.state == State::DAMAGED;
                    let mut other = |file| if is_told(&file) { Ok(()) } else { each(file) };
                    catalog.each_in_trouble(root, arguments.bad, arguments.missing, &mut other)?;
                }
                None => all(&catalog, root, &mut each)?,
            }
        }
        Ok(list.output.worst())
    })
}

/// The tree that holds a path, and that path.
fn found(catalog: &Catalog, path: &Path) -> Result<(Root, PathBuf), Failure> {
    let below = here_or_remote(catalog, path)?;
    catalog.root_of(&below)?.map(|root| (root, below)).ok_or_else(|| {
        let path = names::quoted(path.as_os_str());
        Failure::Usage(format!(
            "--tree: {path}: not in the catalogue (`verisum catalog status` lists what is)"
        ))
    })
}

/// All files of a tree, by path.
fn all(
    catalog: &Catalog,
    root: &Root,
    each: &mut dyn FnMut(ListedRecord) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let algorithms = catalog.algorithms()?;
    catalog.records_by_path(root, &mut |path, record| {
        let algorithm = algorithms.get(&record.algorithm).cloned().unwrap_or_default();
        each(ListedRecord { path: root.path.join(path), directory: 0, algorithm, record: *record })
    })
}

/// A list that is being printed.
struct PrintedList<'a> {
    catalog: &'a Catalog,
    /// Where the recorded content of files in trouble is, too; none until one is met.
    copies: Option<HashMap<(i64, Vec<u8>), PathBuf>>,
    beside: Beside,
    arguments: &'a CatalogListArgs,
    commands: RepairCommands,
    output: &'a mut Output,
}

impl PrintedList<'_> {
    fn file(&mut self, file: &ListedRecord) -> Result<(), Failure> {
        self.output.judged(repair_commands::exit(file.record.state));
        let name = file.path.file_name().unwrap_or_default();
        let finding = match file.record.state {
            State::Sound => None,
            _ if file.directory == 0 => None,
            _ => self.catalog.finding(file.directory, name)?,
        };
        let bad_file = self.bad_file(file, finding.as_ref())?;
        if self.arguments.json {
            return self.json(file, finding.as_ref(), bad_file.as_ref());
        }
        if self.arguments.csv {
            return self.csv(file, finding.as_ref(), bad_file.as_ref());
        }
        let state = file.record.state;
        let told = told(file, finding.as_ref(), bad_file.as_ref());
        self.output.told(&told, 0..state.name().len(), state)
    }

    /// What helps to mend a file in trouble. Of a sound one nobody asks, and there may be a million of them.
    fn bad_file(
        &mut self,
        file: &ListedRecord,
        finding: Option<&RecordFinding>,
    ) -> Result<Option<BadFile>, Failure> {
        let state = file.record.state;
        if file.directory == 0 || !(state.wants_content() || state == State::DAMAGED) {
            return Ok(None);
        }
        let copies = match &mut self.copies {
            Some(copies) => copies,
            none => none.insert(self.catalog.copies_of_troubled()?),
        };
        let copy = copies.get(&(file.record.algorithm, file.record.digest.as_bytes().to_vec())).cloned();
        let root = self.catalog.root_of(&file.path)?.map(|root| root.path);
        let of = (&self.commands, root.as_deref());
        Ok(Some(bad_file::of_file(file, finding, copy, of, &mut self.beside)))
    }

    fn csv(
        &mut self,
        file: &ListedRecord,
        finding: Option<&RecordFinding>,
        bad_file: Option<&BadFile>,
    ) -> Result<(), Failure> {
        let record = &file.record;
        let path = |path: Option<&PathBuf>| {
            path.map(|path| csv_text(&names::quoted(path.as_os_str()))).unwrap_or_default()
        };
        let moment = |moment: Moment| moment.known().map_or(String::new(), written);
        let read = finding.and_then(|finding| finding.read.as_ref());
        let recorded = |text: String| if file.is_recorded() { text } else { String::new() };
        let fields = [
            csv_text(record.state.name()),
            csv_text(&names::quoted(file.path.as_os_str())),
            finding.map(|finding| moment(finding.since)).unwrap_or_default(),
            recorded(moment(record.verified)),
            recorded(record.size.to_string()),
            recorded(csv_text(&file.algorithm)),
            recorded(digests::shown(&file.algorithm, &record.digest, Some(record.size))),
            read.map(|read| read.size.to_string()).unwrap_or_default(),
            read.map(|read| digests::shown(&file.algorithm, &read.digest, Some(read.size)))
                .unwrap_or_default(),
            finding
                .and_then(|f| f.detail.as_ref())
                .map(|text| csv_text(&names::plain(text)))
                .unwrap_or_default(),
            path(bad_file.and_then(|bad_file| bad_file.copy.as_ref())),
            bad_file.and_then(BadFile::command).map(|text| csv_text(&text)).unwrap_or_default(),
            path(bad_file.and_then(|bad_file| bad_file.parity.as_ref())),
            bad_file.and_then(BadFile::advice).unwrap_or_default().to_string(),
        ];
        self.output.text(&format!("{}\r\n", fields.join(",")))
    }

    /// The repairs of a tree, or of what is below a path in it.
    fn repairs(&mut self, root: &Root, below: Option<&Path>) -> Result<(), Failure> {
        let catalog = self.catalog;
        let algorithms = catalog.algorithms()?;
        catalog.each_repair(root, &mut |path, repair| {
            if below.is_some_and(|below| !path.starts_with(below)) {
                return Ok(());
            }
            let algorithm = algorithms.get(&repair.algorithm).map_or("", String::as_str);
            match self.arguments.json {
                true => self.output.json("repair", &with_name(repair_json(&repair, algorithm), &path)),
                false => {
                    self.output.told(&told_repair(&path, &repair, algorithm), 0..REPAIRED.len(), Exit::Clean)
                }
            }
        })
    }

    fn duplicates(&mut self) -> Result<(), Failure> {
        let catalog = self.catalog;
        let mut last = None;
        catalog.each_duplicate(&mut |file| {
            let content = (file.record.size, file.record.digest);
            let is_text = !self.arguments.json && !self.arguments.csv;
            if is_text && last.replace(content).is_some_and(|last| last != content) {
                self.output.line("")?;
            }
            match (self.arguments.json, self.arguments.csv) {
                (true, _) => self.json(&file, None, None),
                (_, true) => self.csv(&file, None, None),
                _ => self.output.line(&names::quoted(file.path.as_os_str())),
            }
        })
    }

    fn json(
        &mut self,
        file: &ListedRecord,
        finding: Option<&RecordFinding>,
        bad_file: Option<&BadFile>,
    ) -> Result<(), Failure> {
        let mut line = json!({
            "outcome": file.record.state.name(),
            "algorithm": file.is_recorded().then_some(&file.algorithm),
            "recorded": file.is_recorded().then(|| state(&Seen::of(&file.record), &file.algorithm)),
            "verified": file.record.verified.known().filter(|_| file.is_recorded()),
        });
        if let Some(finding) = finding {
            line["since"] = json!(finding.since.known());
            line["found"] = finding.read.as_ref().map(|seen| state(seen, &file.algorithm)).into();
            line["error"] = finding.detail.clone().into();
            let name = |path: Option<&PathBuf>| json!(path.map(Name::new));
            line["copy"] = name(bad_file.and_then(|bad_file| bad_file.copy.as_ref()));
            line["advice"] = bad_file.and_then(BadFile::advice).into();
            line["mend"] = bad_file.and_then(BadFile::command).into();
            line["parity"] = name(bad_file.and_then(|bad_file| bad_file.parity.as_ref()));
        }
        self.output.json("file", &with_name(line, &file.path))
    }
}

/// What became of a file that was repaired.
const REPAIRED: &str = "repaired";

/// A repair in words.
fn told_repair(path: &Path, repair: &Repair, algorithm: &str) -> FactLine {
    let mut facts = vec![written(repair.repaired), format!("was {}", repair.state.name())];
    facts.push(format!("{} from {}", human(repair.bytes), names::quoted(repair.source.as_os_str())));
    if let Some(ranges) = &repair.ranges {
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        facts.push(format!("{} of it new, in {}", human(bytes), counted(ranges.len() as u64, "place")));
    }
    let shown = |digest: &DigestValue| digests::shown(algorithm, digest, None);
    let before = repair.before.as_ref().map_or("unknown".to_string(), shown);
    facts.push(format!("{algorithm} {}, before {before}", shown(&repair.digest)));
    FactLine { what: format!("{REPAIRED:<12}  {}", names::quoted(path.as_os_str())), facts }
}

fn repair_json(repair: &Repair, algorithm: &str) -> Value {
    let range = |range: &Range<u64>| json!({ "offset": range.start, "length": range.end - range.start });
    json!({
        "outcome": REPAIRED,
        "repaired": repair.repaired.known(),
        "was": repair.state.name(),
        "from": Name::new(&repair.source),
        "bytes": repair.bytes,
        "algorithm": algorithm,
        "before": repair.before.map(|before| digests::shown(algorithm, &before, None)),
        "digest": digests::shown(algorithm, &repair.digest, None),
        "ranges": repair.ranges.as_ref().map(|ranges| ranges.iter().map(range).collect::<Vec<_>>()),
    })
}

/// A file, its state, and what is known of both.
fn told(file: &ListedRecord, finding: Option<&RecordFinding>, bad_file: Option<&BadFile>) -> FactLine {
    let record = &file.record;
    let verified = record.verified.known().map_or("never".to_string(), written);
    let good = if record.state == State::Sound { "verified" } else { "last good" };
    let mut facts: Vec<String> =
        finding.map(|finding| format!("since {}", written(finding.since))).into_iter().collect();
    match finding.and_then(|finding| finding.read.as_ref()) {
        _ if record.state == State::DAMAGED => {}
        _ if !file.is_recorded() => facts.push("never read".to_string()),
        read => {
            facts.extend([format!("{good} {verified}"), human(record.size)]);
            match read {
                Some(read) => facts.extend(differences(&Seen::of(record), read, &file.algorithm)),
                None => {
                    let digest = digests::shown(&file.algorithm, &record.digest, Some(record.size));
                    facts.push(format!("{} {digest}", file.algorithm));
                }
            }
        }
    }
    facts.extend(finding.and_then(|finding| finding.detail.as_ref()).map(|detail| names::plain(detail)));
    facts.extend(
        bad_file.map(|bad_file| bad_file.remedy(names::quoted, &|command| command)).unwrap_or_default(),
    );
    let what = format!("{:<12}  {}", record.state.name(), names::quoted(file.path.as_os_str()));
    FactLine { what, facts }
}
