//! `verisum repair`: gives bad and missing files their recorded content again, from other copies.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use verisum::catalog::store::{Catalog, State, Trouble};
use verisum::files::place::LocalPlace;
use verisum::files::{Class, Stop, Verdict};
use verisum::mend::repair::{self, Options, Outcome, Repaired, Source, Summary};
use verisum::remote::{Address, Host};

use crate::ui::Output;
use crate::ui::catalog::{CatalogArgs, absolute, absolute_name, with_name};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HOSTS, HostArgs};
use crate::ui::names::{self, Name};
use crate::ui::signals::Ending;
use crate::ui::sizes::human;
use crate::ui::values::{self, counted};

/// What `verisum repair` takes.
#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    /// A copy of PATH: a directory or file, HOST:PATH or ssh://HOST/PATH. Can be given several times
    #[arg(long, value_name = "PLACE", value_hint = ValueHint::AnyPath)]
    from: Vec<OsString>,

    /// Show what could be repaired and from where, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Move bad files to this directory instead of removing them; it must be on the same file system
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    keep_bad: Option<PathBuf>,

    /// Leave missing files missing
    #[arg(long)]
    except_missing: bool,

    /// Also repair files on file systems that are mounted below a tree
    #[arg(long)]
    cross_file_systems: bool,

    /// Print only what could not be repaired
    #[arg(short, long)]
    quiet: bool,

    /// Print a line of JSON for each file, and one with the totals
    #[arg(long)]
    json: bool,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,

    /// A directory or file of this machine that the catalogue has
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    path: PathBuf,
}

/// Repairs files.
pub(crate) fn run(arguments: &RepairArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (_lock, catalog) = arguments.catalog.open_existing()?;
    let named = absolute_name(&arguments.path)?;
    let path = if catalog.root_of(&named)?.is_some() { named } else { absolute(&arguments.path)? };
    let mut sources = sources(arguments, &catalog, &path)?;
    let ending = Ending::new()?;
    let options = Options {
        dry: arguments.dry_run,
        keep_bad: arguments.keep_bad.as_deref().map(absolute).transpose()?,
        leaves_missing: arguments.except_missing,
        enters: arguments.cross_file_systems,
        stop: Arc::new(Stop::when(ending.asked().clone())),
        now: values::now(),
    };
    let mut telling = Telling { arguments, output, worst: Exit::Clean, printed: Ok(()) };
    let summary = repair::repair(&catalog, &path, &mut sources, &options, &mut |file| telling.file(file))?;
    let Telling { worst, printed, .. } = telling;
    output.found(worst);
    printed?;
    if arguments.json {
        output.json(&summary_line(&summary))?;
    } else if !arguments.quiet {
        output.line(&summary_text(&summary, arguments.dry_run))?;
    }
    output.flush()?;
    ending.obey();
    Ok(worst)
}

/// The copies that were named; without any, all trees of the catalogue. The tree itself may have copies under other
/// names, and comes last.
fn sources(arguments: &RepairArgs, catalog: &Catalog, path: &Path) -> Result<Vec<Source<'static>>, Failure> {
    let remote = arguments.from.iter().filter(|text| hosts::is_remote(text)).count();
    let reached = arguments.hosts.hosts(remote)?;
    let mut sources: Vec<Source> = Vec::new();
    for text in &arguments.from {
        let (address, place) = hosts::tree(text, &reached)?;
        let (shown, root) = match address.host {
            Host::Local => {
                let shown = absolute(Path::new(OsStr::from_bytes(&address.path)))?;
                let root = shown.as_os_str().as_bytes().to_vec();
                (shown, root)
            }
            _ => (OsString::from_vec(address.address()).into(), address.path),
        };
        sources.push(Source { address: shown, place, root, is_counterpart: true });
    }
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
            match Address::of_address(tree.as_os_str().as_bytes()) {
                Some(address) => {
                    let place = Box::new(hosts::place(&reached, &address.host)?);
                    sources.push(Source { address: tree, place, root: address.path, is_counterpart: false });
                    continue;
                }
                None => Box::new(LocalPlace::default()),
            };
        sources.push(Source { is_counterpart: false, ..Source::new(&tree, place) });
    }
    Ok(sources)
}

/// Prints what became of each file, and keeps the worst of it.
struct Telling<'a, 'o> {
    arguments: &'a RepairArgs,
    output: &'o mut Output,
    worst: Exit,
    printed: Result<(), Failure>,
}

impl Telling<'_, '_> {
    fn file(&mut self, file: &Repaired) {
        let exit = exit(file);
        self.worst = self.worst.max(exit);
        if self.printed.is_err() || self.arguments.quiet && exit == Exit::Clean && !self.arguments.json {
            return;
        }
        self.printed = match self.arguments.json {
            true => self.output.json(&line(file)),
            false => self.output.line(&text(file)),
        };
        if self.printed.is_ok() {
            self.printed = self.output.flush();
        }
    }
}

/// What a file that was to be repaired means for the end of the run.
fn exit(file: &Repaired) -> Exit {
    let is_good =
        matches!(file.outcome, Outcome::Repaired { .. } | Outcome::Mendable { .. } | Outcome::Sound);
    match file.state {
        _ if is_good => Exit::Clean,
        State::Trouble(Trouble::Verdict(verdict)) if verdict.class() == Class::Corrupt => Exit::Mismatch,
        _ => Exit::Unchecked,
    }
}

fn text(file: &Repaired) -> String {
    let shown = |path: &Path| names::quoted(path.as_os_str());
    let mut facts = vec![format!("was {}", file.state.name())];
    match &file.outcome {
        Outcome::Repaired { from, bytes, other_names } => {
            facts.push(format!("from {}", shown(from)));
            facts.push(match bytes {
                0 if file.size > 0 => "linked to another name of it".to_string(),
                bytes => human(*bytes),
            });
            facts.push(format!("{} {} read back", file.algorithm, file.recorded));
            if *other_names > 0 {
                facts.push(format!("{} elsewhere keep the bad content", counted(*other_names, "more name")));
            }
        }
        Outcome::Mendable { from } => {
            facts.push(format!("from {}; {}", shown(from), human(file.size)));
            if matches!(file.state, State::Trouble(Trouble::Held | Trouble::Verdict(Verdict::Suspicious))) {
                facts.push("needs --keep-bad".to_string());
            }
        }
        Outcome::Sound => facts.push("it is as recorded now: the next scrub says so".to_string()),
        Outcome::NoSource { tried } if tried.is_empty() => facts.push("no copy of it is known".to_string()),
        Outcome::NoSource { tried } => {
            facts.extend(tried.iter().map(|(path, why)| format!("{}: {}", shown(path), names::plain(why))));
        }
        Outcome::Refused(why) | Outcome::Failed(why) => facts.push(names::plain(why)),
    }
    format!("{:<12}  {}  ({})", file.outcome.name(), shown(&file.path), facts.join("; "))
}

fn line(file: &Repaired) -> Value {
    let mut line = json!({
        "type": "file",
        "outcome": file.outcome.name(),
        "was": file.state.name(),
        "algorithm": file.algorithm,
        "digest": file.recorded.to_string(),
        "size": file.size,
    });
    match &file.outcome {
        Outcome::Repaired { from, bytes, other_names } => {
            line["from"] = json!(Name::new(from));
            line["bytes"] = (*bytes).into();
            line["other_names"] = (*other_names).into();
        }
        Outcome::Mendable { from } => line["from"] = json!(Name::new(from)),
        Outcome::NoSource { tried } => {
            let tried = tried.iter().map(|(path, why)| with_name(json!({ "error": why }), path));
            line["tried"] = tried.collect();
        }
        Outcome::Refused(why) | Outcome::Failed(why) => line["error"] = why.as_str().into(),
        Outcome::Sound => {}
    }
    with_name(line, &file.path)
}

fn summary_text(summary: &Summary, dry: bool) -> String {
    let mut facts = Vec::new();
    if summary.repaired + summary.mendable > 0 {
        let done = if dry { "could be repaired" } else { "repaired" };
        let files = counted(summary.repaired + summary.mendable, "file");
        facts.push(format!("{files} {done} ({})", human(summary.bytes)));
    }
    let count = |count, what: &str| (count > 0).then(|| format!("{count} {what}"));
    facts.extend(count(summary.sound, "as recorded now"));
    facts.extend(count(summary.without_source, "without a good copy"));
    facts.extend(count(summary.left, "left as they are"));
    if facts.is_empty() {
        facts.push("nothing to repair".to_string());
    }
    if summary.interrupted {
        facts.push("interrupted".to_string());
    }
    facts.join(", ")
}

fn summary_line(summary: &Summary) -> Value {
    json!({
        "type": "summary",
        "repaired": summary.repaired,
        "mendable": summary.mendable,
        "ok": summary.sound,
        "no_source": summary.without_source,
        "left": summary.left,
        "bytes": summary.bytes,
        "interrupted": summary.interrupted,
    })
}
