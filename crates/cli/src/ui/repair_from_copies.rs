//! Repairs files from other copies, for the commands: finds the copies, and prints the results.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use verisum::catalog::store::{Catalog, State, Trouble};
use verisum::files::place::{LocalPlace, join};
use verisum::files::{Stop, VerdictClass};
use verisum::mend::repair::{self, Finished, RepairOutcome, RepairSummary, Repaired, Source, SourceCatalog};
use verisum::remote::{Address, Host};

use crate::ui::catalog::{absolute, open_shared, with_name};
use crate::ui::exit::Exit;
use crate::ui::fact_line::FactLine;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HostArgs};
use crate::ui::names::{self, Name};
use crate::ui::repair_commands::RepairCommands;
use crate::ui::sizes::human;
use crate::ui::values::counted;
use crate::ui::{self, Output, PROGRAM, digests, progress};

/// The copies that were named; without any, all trees of the catalogue that knows the path. The tree itself may have copies under other
/// names, and comes last.
pub(crate) fn sources(
    from: &[OsString],
    hosts: &HostArgs,
    known: Option<(&Catalog, &Path)>,
) -> Result<Vec<Source<'static>>, Failure> {
    let remote = from.iter().filter(|text| hosts::is_remote(text)).count();
    let reached = hosts.hosts(remote)?;
    let mut sources: Vec<Source> = Vec::new();
    let names = names_in_copies(known)?;
    for text in from {
        let (address, mut place) = hosts::tree(text, &reached)?;
        let is_local = matches!(address.host, Host::Local);
        let shown = match is_local {
            true => absolute(Path::new(OsStr::from_bytes(&address.path)))?,
            false => OsString::from_vec(address.address()).into(),
        };
        let root = if is_local { shown.as_os_str().as_bytes().to_vec() } else { address.path };
        let mut is_there = |name: &&PathBuf| match is_local {
            true => shown.join(name).is_file(),
            false => place.state(&join(&root, name.as_os_str().as_bytes())).is_ok(),
        };
        let (shown, root) = match names.iter().find(|name| is_there(name)) {
            Some(name) => (shown.join(name), join(&root, name.as_os_str().as_bytes())),
            None => (shown, root),
        };
        sources.push(Source { root, ..Source::new(&shown, place) });
    }
    let Some((catalog, path)) = known else { return Ok(sources) };
    let own = catalog.root_of(path)?.map(|root| root.path);
    let known = match sources.is_empty() {
        true => catalog
            .roots()?
            .into_iter()
            .map(|root| root.path)
            .filter(|root| Some(root) != own.as_ref())
            .collect(),
        false => Vec::new(),
    };
    for tree in known.into_iter().chain(own) {
        let place: Box<dyn verisum::files::place::Place> =
            match Address::from_recorded(tree.as_os_str().as_bytes()) {
                Some(address) => {
                    let place = hosts::place(&reached, &address.host)?;
                    let root = address.path;
                    sources.push(Source { root, is_counterpart: false, ..Source::new(&tree, place) });
                    continue;
                }
                None => Box::new(LocalPlace::default()),
            };
        sources.push(Source { is_counterpart: false, ..Source::new(&tree, place) });
    }
    Ok(sources)
}

/// Repairs the files of a path, in whichever place its tree is.
pub(crate) fn repair_wherever(
    catalog: &Catalog,
    path: &Path,
    (sources, hosts): (&mut [Source], &HostArgs),
    options: &repair::RepairOptions,
    telling: &mut RepairReport,
) -> Result<RepairSummary, Failure> {
    let report = &mut |file: &Repaired| telling.file(file);
    let root = catalog.root_of(path)?;
    // How many are below a directory nobody knows before.
    if let Some(root) = root.as_ref().filter(|root| root.path == path) {
        let troubles = catalog.recorded_troubles(root.id)?;
        let wanted = troubles.iter().filter(|(state, _)| !options.except_missing || *state != State::MISSING);
        progress::expect_files(wanted.map(|(_, count)| count).sum());
    }
    let address = root.and_then(|root| Address::from_recorded(root.path.as_os_str().as_bytes()));
    let Some(address) = address else {
        return Ok(repair::repair(catalog, path, sources, options, report)?);
    };
    let is_distant = |source: &&Source| source.is_counterpart && !source.place.is_here();
    let reached = hosts.hosts(1 + sources.iter().filter(is_distant).count())?;
    let mut place = hosts::place(&reached, &address.host)?;
    Ok(repair::repair_there(catalog, path, (&mut *place, &address.path), sources, options, report)?)
}

/// Finishes a repair in place that was interrupted, before anything looks at the file. Where it cannot be finished now
/// returns the file, which nothing is to look at meanwhile, and why.
pub(crate) fn finish_in_place(
    catalog: &Catalog,
    commands: &RepairCommands,
    stop: &Stop,
) -> Result<Option<(PathBuf, String)>, Failure> {
    let say =
        |path: &Path, what: &str| ui::say(PROGRAM, &format!("{}: {what}", names::quoted(path.as_os_str())));
    match repair::finish_in_place(catalog, stop)? {
        Some(Finished::Repaired { path, bytes }) => {
            say(&path, &format!("finished an interrupted repair of {}", human(bytes)));
        }
        Some(Finished::Left { path, why }) => {
            say(&path, &format!("an interrupted repair was given up: {why}"));
        }
        Some(Finished::Waits { path, journal, why, is_in_use }) => {
            let command = commands.repair(&path);
            let given_up = names::quoted(journal.as_os_str());
            let what =
                if is_in_use { "finishes it then" } else { "finishes it, or puts a new file in its place" };
            say(&path, &format!("{why} (`{command}` {what}; to give it up, remove {given_up})"));
            return Ok(Some((path, why)));
        }
        _ => {}
    }
    Ok(None)
}

/// Gives copies the catalogue that knows them, in which a renamed one is found: the one that was named, or else one of
/// the others that are there.
pub(crate) fn look_up(
    sources: &mut [Source],
    named: Option<&Path>,
    others: &[PathBuf],
) -> Result<(), Failure> {
    let mut knows_any = named.is_none();
    for source in sources.iter_mut().filter(|source| source.is_counterpart && !source.is_parity) {
        if let Some(path) = named {
            source.catalog = SourceCatalog::of(open_shared(path)?, source)?;
            knows_any |= source.catalog.is_some();
        }
        for path in others {
            if source.catalog.is_some() {
                break;
            }
            // It is not what was asked for: a usual one that cannot be used is passed over.
            match open_shared(path).and_then(|catalog| Ok(SourceCatalog::of(catalog, source)?)) {
                Ok(found) => source.catalog = found,
                Err(failure) => ui::say(PROGRAM, &format!("{}: repairing without it", failure.message())),
            }
        }
    }
    match named {
        Some(path) if !knows_any => {
            let error = std::io::Error::other("it knows none of the copies");
            Err(Failure::file(path.to_path_buf(), "look for copies", error))
        }
        _ => Ok(()),
    }
}

/// Where a single file that is to be repaired may be in a copy of its tree: by its path in the tree, or by its name.
fn names_in_copies(known: Option<(&Catalog, &Path)>) -> Result<Vec<PathBuf>, Failure> {
    let Some((catalog, path)) = known.filter(|(_, path)| !path.is_dir()) else { return Ok(Vec::new()) };
    let Some(root) = catalog.root_of(path)?.filter(|root| root.path != path) else { return Ok(Vec::new()) };
    let below = path.strip_prefix(&root.path).ok();
    Ok(below.into_iter().chain(path.file_name().map(Path::new)).map(Path::to_path_buf).collect())
}

/// Prints what became of each file, and keeps the worst of it.
pub(crate) struct RepairReport<'o> {
    /// What JSON calls the line of a file and that of the totals.
    types: [&'static str; 2],
    json: bool,
    /// Whether only what could not be repaired is printed.
    quiet: bool,
    output: &'o mut Output,
    /// How many records could not be read, and so nothing was compared with them.
    not_compared: u64,
    worst: Exit,
    printed: Result<(), Failure>,
}

impl<'o> RepairReport<'o> {
    pub(crate) fn new(
        types: [&'static str; 2],
        json: bool,
        quiet: bool,
        output: &'o mut Output,
    ) -> RepairReport<'o> {
        let (worst, printed) = (Exit::Clean, Ok(()));
        RepairReport { types, json, quiet, output, not_compared: 0, worst, printed }
    }

    /// Takes note of records that could not be read, which were told.
    pub(crate) fn not_compared(&mut self, count: u64) {
        self.not_compared += count;
        if count > 0 {
            self.worst = self.worst.max(Exit::Unchecked);
        }
    }

    pub(crate) fn file(&mut self, file: &Repaired) {
        progress::steps_done(1);
        let exit = exit(file);
        self.worst = self.worst.max(exit);
        if self.printed.is_err() || self.quiet && exit == Exit::Clean && !self.json {
            return;
        }
        self.printed = match self.json {
            true => self.output.json(self.types[0], &line(file)),
            false => self.output.told(&told(file), 0..file.outcome.name().len(), exit),
        };
        if self.printed.is_ok() {
            self.printed = self.output.flush();
        }
    }

    /// Prints the totals, and returns the worst that is left.
    pub(crate) fn end(self, summary: &RepairSummary, dry: bool) -> Result<Exit, Failure> {
        self.output.found(self.worst);
        self.printed?;
        if self.json {
            self.output.json(self.types[1], &summary_line(summary))?;
        } else if !self.quiet {
            self.output.line(&summary_text(summary, self.not_compared, dry))?;
        }
        Ok(self.worst)
    }
}

/// What a file that was to be repaired means for the end of the run.
fn exit(file: &Repaired) -> Exit {
    let is_good = matches!(
        file.outcome,
        RepairOutcome::Repaired { .. }
            | RepairOutcome::Mendable { needs_keep_bad: false, .. }
            | RepairOutcome::Sound
    );
    match file.state {
        _ if is_good => Exit::Clean,
        State::Trouble(Trouble::Verdict(verdict)) if verdict.class() == VerdictClass::Corrupt => {
            Exit::Mismatch
        }
        _ => Exit::Unchecked,
    }
}

fn told(file: &Repaired) -> FactLine {
    let shown = |path: &Path| names::quoted(path.as_os_str());
    let givers = |first: &PathBuf, others: &[PathBuf]| {
        let from: Vec<_> = std::iter::once(first).chain(others).map(|from| shown(from)).collect();
        format!("from {}", from.join(" and "))
    };
    let mut facts = vec![format!("was {}", file.state.name())];
    match &file.outcome {
        RepairOutcome::Repaired { from, bytes, other_names, has_usual_permissions, also_from } => {
            facts.push(givers(from, also_from));
            facts.push(taken(file, *bytes));
            facts.push(format!("{} {} read back", file.algorithm, digest(file)));
            if *has_usual_permissions {
                facts.push("its permissions are those of a new file".to_string());
            }
            if *other_names > 0 {
                facts.push(format!("{} elsewhere keep the bad content", counted(*other_names, "more name")));
            }
            facts.extend(not_kept(file.kept_unread));
        }
        RepairOutcome::Mendable { from, bytes, needs_keep_bad, also_from } => {
            facts.push(givers(from, also_from));
            facts.push(taken(file, *bytes));
            if *needs_keep_bad {
                facts.push("needs --keep-bad".to_string());
            }
        }
        RepairOutcome::Sound => facts.push("it is as recorded now".to_string()),
        RepairOutcome::NoSource { tried } if tried.is_empty() => {
            facts.push("no copy of it is known".to_string())
        }
        RepairOutcome::NoSource { tried } => {
            facts.extend(tried.iter().map(|(path, why)| format!("{}: {}", shown(path), names::plain(why))));
        }
        RepairOutcome::Refused(why) => facts.push(names::plain(&why.to_string())),
        RepairOutcome::Failed(why) => facts.push(names::plain(why)),
    }
    if !file.bad_copies.is_empty() {
        let copies: Vec<_> = file.bad_copies.iter().map(|copy| shown(copy)).collect();
        facts.push(format!("not as recorded either: {}", copies.join(" and ")));
    }
    FactLine { what: format!("{:<12}  {}", file.outcome.name(), shown(&file.path)), facts }
}

/// What is not in the copy that is kept of a bad file, if it is not whole.
pub(crate) fn not_kept(unread: u64) -> Option<String> {
    (unread > 0).then(|| {
        let bytes = counted(unread, "byte");
        format!("{bytes} of the kept copy could not be read and are zeros")
    })
}

/// What a file takes from a copy.
fn taken(file: &Repaired, bytes: u64) -> String {
    match bytes {
        0 if file.size != Some(0) => "linked to another name of it".to_string(),
        bytes => human(bytes),
    }
}

/// The recorded digest.
fn digest(file: &Repaired) -> String {
    digests::shown(&file.algorithm, &file.recorded, file.size)
}

fn line(file: &Repaired) -> Value {
    let mut line = json!({
        "outcome": file.outcome.name(),
        "was": file.state.name(),
        "algorithm": file.algorithm,
        "digest": digest(file),
        "size": file.size,
    });
    match &file.outcome {
        RepairOutcome::Repaired { from, bytes, other_names, has_usual_permissions, also_from } => {
            line["also_from"] = also_from.iter().map(|from| json!(Name::new(from))).collect();
            line["usual_permissions"] = (*has_usual_permissions).into();
            line["from"] = json!(Name::new(from));
            line["bytes"] = (*bytes).into();
            line["other_names"] = (*other_names).into();
            line["kept_unread"] = file.kept_unread.into();
        }
        RepairOutcome::Mendable { from, bytes, needs_keep_bad, also_from } => {
            line["also_from"] = also_from.iter().map(|from| json!(Name::new(from))).collect();
            line["needs_keep_bad"] = (*needs_keep_bad).into();
            line["from"] = json!(Name::new(from));
            line["bytes"] = (*bytes).into();
        }
        RepairOutcome::NoSource { tried } => {
            let tried = tried.iter().map(|(path, why)| with_name(json!({ "error": why }), path));
            line["tried"] = tried.collect();
        }
        RepairOutcome::Refused(why) => line["error"] = why.to_string().into(),
        RepairOutcome::Failed(why) => line["error"] = why.as_str().into(),
        RepairOutcome::Sound => {}
    }
    if let RepairOutcome::Repaired { .. } | RepairOutcome::Mendable { .. } = file.outcome {
        line["bad_copies"] = file.bad_copies.iter().map(|copy| json!(Name::new(copy))).collect();
    }
    with_name(line, &file.path)
}

fn summary_text(summary: &RepairSummary, not_compared: u64, dry: bool) -> String {
    let mut facts = Vec::new();
    if summary.repaired + summary.mendable > 0 {
        let done = if dry { "could be repaired" } else { "repaired" };
        let files = counted(summary.repaired + summary.mendable, "file");
        facts.push(format!("{files} {done} ({})", human(summary.bytes)));
    }
    let count = |count, what: &str| (count > 0).then(|| format!("{count} {what}"));
    facts.extend(count(summary.sound, "as recorded now"));
    facts.extend(count(summary.without_source, "without a good copy"));
    facts.extend(count(summary.left, "left alone"));
    facts.extend(count(not_compared, "not compared"));
    if facts.is_empty() {
        facts.push("nothing to repair".to_string());
    }
    if summary.interrupted {
        facts.push("interrupted".to_string());
    }
    facts.join(", ")
}

fn summary_line(summary: &RepairSummary) -> Value {
    json!({
        "repaired": summary.repaired,
        "mendable": summary.mendable,
        "ok": summary.sound,
        "no_source": summary.without_source,
        "left": summary.left,
        "bytes": summary.bytes,
        "interrupted": summary.interrupted,
    })
}
