//! The report about a bad file, for somebody who must act at once: what is wrong and since when, when the
//! file was last good, what it was then, where the good content is, and the command that repairs it. Text,
//! JSON, mail and Nagios have the same facts.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use verisum::catalog::store::{
    Catalog, CatalogError, CatalogRecord, ListedRecord, Moment, RecordFinding, Root, State, is_address,
};
use verisum::digest::Output as DigestValue;
use verisum::files::{Entry, Excludes, Stat};

use crate::ui::catalog::{CatalogArgs, with_name};
use crate::ui::failure::Failure;
use crate::ui::names::{self, Name};
use crate::ui::parity::Beside;
use crate::ui::repair_commands::RepairCommands;
use crate::ui::sizes::human;
use crate::ui::values::written;
use crate::ui::{self, Output, digests, log, repair_commands, shell};

/// How many bad files are told of in full; a disk that dies has as many as files.
pub(crate) const NAMED: usize = 10;

/// A bad file.
pub(crate) struct BadFile {
    pub(crate) path: PathBuf,
    /// What is wrong.
    pub(crate) outcome: &'static str,
    /// Since when that is known.
    pub(crate) since: Option<Moment>,
    /// When it was last verified to be good, likewise; 0 for never. None if nothing says.
    pub(crate) last_good: Option<Moment>,
    /// What it was then.
    pub(crate) size: Option<u64>,
    pub(crate) algorithm: String,
    pub(crate) digest: Option<DigestValue>,
    /// A sound file with that content, as the catalogue says.
    pub(crate) copy: Option<PathBuf>,
    /// Parity beside it, looked for where no copy is known.
    pub(crate) parity: Option<PathBuf>,
    /// What mends it.
    pub(crate) mend: BadFileRepair,
    /// What records that it is gone, if it is missing.
    pub(crate) accept: Option<String>,
}

/// A command that mends a file, without the place to mend it from.
pub(crate) enum BadFileRepair {
    /// There is none.
    Nothing,
    /// There is none, as lines of a list have different digests of it.
    Contradicted,
    /// There is none, for this reason.
    Unfit(&'static str),
    /// There is none as long as the directory of all the files is not there.
    Unmounted(PathBuf),
    /// It finds the copies that the catalogue or the list knows.
    File(String),
    /// Nothing tells the good content: it takes the file as it is.
    Accept(String),
    /// It takes the good content from any copy.
    FromCopy(String),
    /// It mends what is bad in a directory from a copy of that, where the file is at the same path.
    Directory { command: String, below: PathBuf },
}

impl BadFile {
    /// Whether a copy or parity is known, or none is needed.
    pub(crate) fn is_mendable(&self) -> bool {
        self.copy.is_some() || self.parity.is_some() || self.needs_none()
    }

    /// Whether the file is to be empty: then its repair needs no copy. One by a list or tags asks for a source.
    pub(crate) fn needs_none(&self) -> bool {
        let digest = self.digest.as_ref();
        matches!(self.mend, BadFileRepair::File(_))
            && digest.is_some_and(|digest| repair_commands::is_empty(&self.algorithm, self.size, digest))
    }

    /// How much it helps to mend the file.
    pub(crate) fn helpfulness(&self) -> (bool, bool) {
        (self.is_mendable(), self.command().is_some())
    }

    /// The command as it is to be typed.
    pub(crate) fn command(&self) -> Option<String> {
        match (&self.mend, &self.copy) {
            (
                BadFileRepair::Nothing
                | BadFileRepair::Contradicted
                | BadFileRepair::Unfit(_)
                | BadFileRepair::Unmounted(_),
                _,
            ) => None,
            (BadFileRepair::Accept(command), _) | (BadFileRepair::File(command), Some(_)) => {
                Some(command.clone())
            }
            (
                BadFileRepair::File(command)
                | BadFileRepair::FromCopy(command)
                | BadFileRepair::Directory { command, .. },
                None,
            ) if self.parity.is_some() || self.needs_none() => Some(command.clone()),
            (BadFileRepair::FromCopy(command), Some(copy)) => {
                Some(repair_commands::with_source(command, copy))
            }
            (
                BadFileRepair::File(command)
                | BadFileRepair::FromCopy(command)
                | BadFileRepair::Directory { command, .. },
                None,
            ) => Some(format!("{command} --from PLACE")),
            (BadFileRepair::Directory { command, .. }, Some(_)) => {
                Some(repair_commands::with_source(command, self.source()?))
            }
        }
    }

    /// The copy of the directory that the repair of that directory takes its copy from.
    fn source(&self) -> Option<&Path> {
        let (BadFileRepair::Directory { below, .. }, Some(copy)) = (&self.mend, &self.copy) else {
            return None;
        };
        copy.ancestors().nth(below.components().count()).filter(|_| copy.ends_with(below))
    }

    /// What comes before any repair.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        // Where nothing tells the good content, no repair comes.
        Some(self.outcome)
            .filter(|_| !matches!(self.mend, BadFileRepair::Accept(_)))
            .and_then(repair_commands::storage_advice)
    }

    /// What it was when it was good, in a few words.
    fn then(&self) -> String {
        let mut facts = Vec::new();
        facts.extend(self.size.map(human));
        facts.extend(self.digest().map(|digest| format!("{} {digest}", self.algorithm)));
        facts.join(", ")
    }

    fn digest(&self) -> Option<String> {
        self.digest.map(|digest| digests::shown(&self.algorithm, &digest, self.size))
    }

    fn good(&self) -> Option<String> {
        self.last_good.map(|moment| match moment {
            Moment::NEVER => "never verified".to_string(),
            moment => format!("last good {}", written(moment)),
        })
    }

    /// All in one line.
    pub(crate) fn line(&self) -> String {
        self.line_of(names::quoted(self.path.as_os_str()), &self.remedy(names::quoted, &|command| command))
    }

    /// The same without `|`, which ends what Nagios shows.
    pub(crate) fn line_without_pipes(&self) -> String {
        let quoted = names::quoted_without_pipes;
        let remedy = self.remedy(quoted, &|command| shell::without_pipes(&command));
        self.line_of(quoted(self.path.as_os_str()), &remedy)
    }

    fn line_of(&self, path: String, remedy: &[String]) -> String {
        let mut text = format!("{} {path}", self.outcome);
        if let Some(since) = self.since {
            let _ = write!(text, " since {}", written(since));
        }
        for fact in self.good().into_iter().chain(Some(self.then()).filter(|then| !then.is_empty())) {
            let _ = write!(text, "; {fact}");
        }
        text.push_str("; ");
        text + &remedy.join("; ")
    }

    /// The same as a paragraph, the command on a line of its own.
    fn paragraph(&self, has_command: bool) -> String {
        let since = self.since.map_or(String::new(), |since| format!(" since {}", written(since)));
        let mut text = format!("{}: {}{since}\n", names::quoted(self.path.as_os_str()), self.outcome);
        let facts: Vec<String> =
            self.good().into_iter().chain(Some(self.then()).filter(|then| !then.is_empty())).collect();
        if !facts.is_empty() {
            let _ = writeln!(text, "  {}", facts.join(": "));
        }
        let mut remedy = self.remedy(names::quoted, &|command| command);
        if let Some(last) = remedy.last_mut().filter(|_| !has_command && self.command().is_some()) {
            *last = "the command below mends it".to_string();
        }
        for line in remedy {
            let _ = writeln!(text, "  {line}");
        }
        if let Some(accept) = &self.accept {
            let _ = writeln!(text, "  if it was deleted on purpose: {accept}");
        }
        text
    }

    /// Where the good content is, and what mends the file.
    pub(crate) fn remedy(
        &self,
        quoted: fn(&OsStr) -> String,
        written: &dyn Fn(String) -> String,
    ) -> Vec<String> {
        let command = self.command().map(written);
        let content = match (&self.copy, &self.parity) {
            _ if matches!(self.mend, BadFileRepair::Accept(_) | BadFileRepair::Contradicted) => None,
            (Some(copy), _) => Some(GoodContent::Copy(quoted(copy.as_os_str()))),
            (None, Some(parity)) => Some(GoodContent::Parity(quoted(parity.as_os_str()))),
            (None, None) if self.needs_none() => Some(GoodContent::Empty),
            (None, None) => Some(GoodContent::Unknown),
        };
        let mut lines = remedy_lines(self, content, command);
        match &self.mend {
            BadFileRepair::Unmounted(top) => {
                let before_copy = lines.len().saturating_sub(1);
                lines
                    .insert(before_copy, format!("{} is not there: is it mounted?", quoted(top.as_os_str())));
            }
            _ => lines.extend(self.why_no_command()),
        }
        lines
    }

    /// Why there is no command, where that is no matter of copies.
    fn why_no_command(&self) -> Option<String> {
        match self.mend {
            BadFileRepair::Contradicted => {
                Some("another line has another digest of it: only you know which is right".to_string())
            }
            BadFileRepair::Unfit(why) => Some(format!("no command repairs it: {why}")),
            _ => None,
        }
    }

    /// The fields of JSON.
    pub(crate) fn json(&self) -> Value {
        let line = json!({
            "outcome": self.outcome,
            "since": self.since.and_then(Moment::known),
            "verified": self.last_good.and_then(Moment::known),
            "algorithm": (!self.algorithm.is_empty()).then_some(&self.algorithm),
            "digest": self.digest(),
            "size": self.size,
            "copy": self.copy.as_deref().map(Name::new),
            "parity": self.parity.as_deref().map(Name::new),
            "advice": self.advice().map(String::from).or_else(|| self.why_no_command()),
            "mend": self.command(),
        });
        with_name(line, &self.path)
    }
}

/// Where the good content of a file is, by names that are shown.
pub(crate) enum GoodContent {
    Copy(String),
    Parity(String),
    /// No copy is needed.
    Empty,
    Unknown,
}

impl GoodContent {
    /// What the report shows in the column for copies where there is none.
    pub(crate) const NEEDLESS: &str = "none is needed: it was empty";
    pub(crate) const NO_COPY: &str = "none is known";
}

/// Where the good content is, and the command that mends the file: the lines of every message.
fn remedy_lines(bad_file: &BadFile, content: Option<GoodContent>, command: Option<String>) -> Vec<String> {
    let advice = bad_file.advice().map(String::from);
    let content = content.map(|content| match content {
        GoodContent::Copy(copy) => format!("a good copy is {copy}"),
        GoodContent::Parity(parity) => format!("parity may mend it: {parity}"),
        GoodContent::Empty => "it was empty: no copy is needed".to_string(),
        GoodContent::Unknown => "no copy is known".to_string(),
    });
    let command =
        command.map(|command| format!("{}: {command}", how(bad_file.outcome, bad_file.is_mendable())));
    advice.into_iter().chain(content).chain(command).collect()
}

/// What the command of a file with this outcome does.
fn how(outcome: &str, is_mendable: bool) -> &'static str {
    match is_mendable {
        _ if outcome == State::DAMAGED.name() => {
            "restore a backup of the catalogue, whose record is damaged, or take the file as it is"
        }
        true => "mend it",
        false => "mend it from a copy",
    }
}

/// Tells of bad files, and how many there are beyond them, which `list` lists: in words on standard error, as findings
/// have standard output.
pub(crate) fn tell(
    bad_files: &[BadFile],
    beyond: u64,
    list: Option<&str>,
    json: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    if json {
        return bad_files.iter().try_for_each(|bad_file| output.json("alarm", &bad_file.json()));
    }
    output.flush()?;
    for (bad_file, paragraph) in bad_files.iter().zip(paragraphs(&bad_files.iter().collect::<Vec<_>>())) {
        log::note(bad_file.line().as_bytes());
        ui::advise(paragraph.trim_end());
    }
    if beyond > 0 {
        let list = list.map_or(String::new(), |list| format!(": `{list}` lists all"));
        ui::advise(&format!("... and {beyond} more{list}"));
    }
    Ok(())
}

/// The paragraphs of bad files. One command may be for several that follow each other: then it stands below the last, and
/// the others say so.
pub(crate) fn paragraphs(bad_files: &[&BadFile]) -> Vec<String> {
    let paragraph = |(number, bad_file): (usize, &&BadFile)| {
        let command = bad_file.command();
        let is_repeated =
            bad_files.get(number + 1).is_some_and(|next| command.is_some() && next.command() == command);
        bad_file.paragraph(!is_repeated)
    };
    bad_files.iter().enumerate().map(paragraph).collect()
}

/// Says the command that mends what was found, on standard error and in the log.
pub(crate) fn advise_mending(what: &str, command: &str) {
    let line = format!("{what}: {command}");
    log::note(line.as_bytes());
    ui::advise(&line);
}

/// Whether its content is to be had again, or somebody has to say that it is not. What is missing may be meant to be
/// gone, unless that `fails`.
fn is_alarming(state: State, missing_fails: bool) -> bool {
    match state {
        State::MISSING => missing_fails,
        state => state.wants_content() || state == State::DAMAGED,
    }
}

/// The first bad files of some trees, the worst first, and how many there are beyond them. What the patterns leave out,
/// by the paths in its tree, is not among them.
pub(crate) fn of_trees(
    catalog: &Catalog,
    commands: &RepairCommands,
    roots: &[&Root],
    (missing_fails, excludes): (bool, Option<&Excludes>),
    most: usize,
) -> Result<(Vec<BadFile>, u64), Failure> {
    let mut files: Vec<ListedRecord> = Vec::new();
    let mut all = 0;
    for root in roots {
        let is_wanted = |file: &ListedRecord| is_alarming(file.record.state, missing_fails);
        let mut worst = catalog.worst(root, if excludes.is_some() { i64::MAX as usize } else { most })?;
        worst.retain(|file| is_wanted(file));
        all += match excludes {
            Some(excludes) => {
                worst.retain(|file| !repair_commands::is_left_out(excludes, root, &file.path));
                worst.len() as u64
            }
            None => {
                let troubles = catalog.troubles(root.id)?;
                let alarming = troubles.iter().filter(|(state, _)| is_alarming(*state, missing_fails));
                alarming.map(|(_, count)| count).sum()
            }
        };
        files.extend(worst);
        files.sort_by_key(|file| (!file.record.state.is_corrupt(), file.record.state == State::MISSING));
        files.truncate(most);
    }
    let bad_files = of_files(catalog, commands, files)?;
    let beyond = all.saturating_sub(bad_files.len() as u64);
    Ok((bad_files, beyond))
}

/// The first files of some trees that are missing, and were not before a moment.
pub(crate) fn of_missing(
    catalog: &Catalog,
    commands: &RepairCommands,
    roots: &[&Root],
    since: Moment,
    most: usize,
) -> Result<Vec<BadFile>, Failure> {
    let mut files = Vec::new();
    for root in roots {
        catalog.each_in_trouble(root, false, true, &mut |file| {
            if files.len() < most {
                let finding = catalog.finding(file.directory, file.path.file_name().unwrap_or_default())?;
                files.extend(Some(file).filter(|_| finding.is_some_and(|finding| finding.since >= since)));
            }
            Ok::<_, Failure>(())
        })?;
    }
    of_files(catalog, commands, files)
}

/// What is to be told of files that are not as recorded.
pub(crate) fn of_files(
    catalog: &Catalog,
    commands: &RepairCommands,
    files: Vec<ListedRecord>,
) -> Result<Vec<BadFile>, Failure> {
    let copies = catalog.copies_of(&files)?;
    let mut beside = commands.beside();
    let commands = commands.clone().knowing(&catalog.roots()?);
    let bad_file = |file: ListedRecord| {
        let content = (file.record.algorithm, file.record.digest.as_bytes().to_vec());
        let finding = catalog.finding(file.directory, file.path.file_name().unwrap_or_default())?;
        let copy = copies.get(&content).cloned();
        let root = catalog.root_of(&file.path)?.map(|root| root.path);
        Ok(of_file(&file, finding.as_ref(), copy, (&commands, root.as_deref()), &mut beside))
    };
    files.into_iter().map(bad_file).collect()
}

/// What is to be told of a file, with a copy if one is known, and the tree that it is in.
pub(crate) fn of_file(
    file: &ListedRecord,
    finding: Option<&RecordFinding>,
    copy: Option<PathBuf>,
    (commands, root): (&RepairCommands, Option<&Path>),
    beside: &mut Beside,
) -> BadFile {
    let state = file.record.state;
    let copy = copy.filter(|_| file.wants_content());
    let may_have_parity = copy.is_none() && file.wants_content() && !is_address(&file.path);
    let parity = if may_have_parity { beside.of(&file.path) } else { None };
    BadFile {
        outcome: state.name(),
        since: finding.map(|finding| finding.since),
        last_good: file.is_recorded().then_some(file.record.verified),
        size: file.is_recorded().then_some(file.record.size),
        digest: file.is_recorded().then_some(file.record.digest),
        mend: match state {
            State::DAMAGED => BadFileRepair::Accept(commands.accept(&file.path)),
            _ => {
                let content = (parity.as_deref(), copy.as_deref());
                let command = repair_commands::mend_command(commands, file, root, content);
                command.map_or(BadFileRepair::Nothing, BadFileRepair::File)
            }
        },
        accept: (state == State::MISSING).then(|| commands.accept(&file.path)),
        copy,
        parity,
        path: file.path.clone(),
        algorithm: if file.is_recorded() { file.algorithm.clone() } else { String::new() },
    }
}

/// Looks in the catalogue for copies of files that lists or tags are of, and for parity beside the others. Without a
/// catalogue, or where it cannot be read, no copy is known.
pub(crate) fn find_copies(catalog: Option<&Path>, bad_files: &mut [BadFile]) {
    find_by_catalog(catalog, bad_files);
    let mut beside = Beside::default();
    let is_open = |bad_file: &&mut BadFile| {
        bad_file.copy.is_none() && matches!(bad_file.mend, BadFileRepair::Directory { .. })
    };
    for bad_file in bad_files.iter_mut().filter(is_open) {
        bad_file.parity = beside.of(&bad_file.path);
    }
}

/// Gives files of which copies are known one command for each directory, as that repairs all that is bad there, and puts
/// those of one command one after the other.
pub(crate) fn join_sources(bad_files: &mut [BadFile]) {
    let mut sources: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for bad_file in bad_files.iter() {
        if let (BadFileRepair::Directory { command, .. }, Some(source)) = (&bad_file.mend, bad_file.source())
        {
            let known = sources.entry(command.clone()).or_default();
            if !known.iter().any(|one| one == source) {
                known.push(source.to_path_buf());
            }
        }
    }
    for bad_file in bad_files.iter_mut() {
        let is_joined = match &bad_file.mend {
            BadFileRepair::Directory { .. } => bad_file.source().is_some() || bad_file.parity.is_some(),
            BadFileRepair::File(_) => bad_file.copy.is_some(),
            _ => false,
        };
        if let BadFileRepair::Directory { command, .. } | BadFileRepair::File(command) = &bad_file.mend
            && is_joined
            && let Some(known) = sources.get(command)
        {
            let start = command.clone();
            let joined = known.iter().fold(start, |all, from| repair_commands::with_source(&all, from));
            bad_file.mend = BadFileRepair::File(joined);
        }
    }
    let commands: Vec<Option<String>> = bad_files.iter().map(BadFile::command).collect();
    bad_files.sort_by_cached_key(|bad_file| {
        let command = bad_file.command();
        commands.iter().position(|one| *one == command)
    });
}

fn find_by_catalog(catalog: Option<&Path>, bad_files: &mut [BadFile]) {
    let named = CatalogArgs { catalog: catalog.map(Path::to_path_buf) };
    let catalog_option = catalog.map(repair_commands::of_catalog);
    let Ok(Some(catalog)) = named.open_if_there() else { return };
    // The catalogue may hold a bad file for sound: it may be older. As text: in a bucket `a//b` and `a/b` are two objects.
    let bad: HashSet<OsString> = bad_files.iter().map(|bad_file| bad_file.path.clone().into()).collect();
    let stat = |path: &Path| Entry::named(path).and_then(|entry| entry.stat()).ok();
    let inode = |stat: Stat| (stat.device, stat.inode);
    let bad_inodes: HashSet<_> =
        bad_files.iter().filter_map(|bad_file| stat(&bad_file.path)).map(inode).collect();
    // It may be gone or changed since, or be another name of the bad file. An imported record knows no time.
    let is_there = |path: &Path, record: &CatalogRecord| {
        is_address(path)
            || stat(path).is_some_and(|stat| {
                let is_same_time = record.inode == 0 || record.mtime == stat.modified.into();
                stat.size == record.size && is_same_time && !bad_inodes.contains(&inode(stat))
            })
    };
    let contents: Vec<(String, Vec<u8>)> = bad_files.iter().filter_map(content).collect();
    let mut found = HashMap::new();
    let looked =
        catalog.each_copy_of_contents(&contents, &mut |ListedRecord { path, record, algorithm, .. }| {
            let content = (algorithm, record.digest.as_bytes().to_vec());
            let may_be = record.state == State::Sound && record.size > 0 && !bad.contains(path.as_os_str());
            if may_be && !found.contains_key(&content) && is_there(&path, &record) {
                found.insert(content, path);
            }
            Ok::<_, CatalogError>(())
        });
    if looked.is_err() {
        return;
    }
    for bad_file in bad_files.iter_mut().filter(|bad_file| bad_file.copy.is_none()) {
        bad_file.copy = content(bad_file).and_then(|content| found.get(&content)).cloned();
        // The repair looks there, as nothing at the path of the file has its content.
        if let (BadFileRepair::Directory { command, below }, Some(copy)) = (&bad_file.mend, &bad_file.copy)
            && !copy.ends_with(below)
            && let Some(name) = copy.file_name()
        {
            let command = format!("{command}{}", catalog_option.as_deref().unwrap_or_default());
            bad_file.mend = BadFileRepair::Directory { command, below: name.into() };
        }
    }
}

fn content(bad_file: &BadFile) -> Option<(String, Vec<u8>)> {
    Some((bad_file.algorithm.clone(), bad_file.digest?.as_bytes().to_vec()))
}
