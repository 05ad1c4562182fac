//! Writes the commands that repair bad files, for users to copy.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use verisum::blockhash::BlockMap;
use verisum::catalog::store::{Catalog, ListedRecord, Root, State, Trouble, is_address};
use verisum::digest::{Digest, Output as DigestValue};
use verisum::files::{Excludes, Verdict};
use verisum::mend::repair::is_of_nothing;

use crate::ui::catalog::absolute;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{HostArgs, Reach};
use crate::ui::input::SECTOR;
use crate::ui::kernel;
use crate::ui::parity::{Beside, NamedParity};
use crate::ui::shell;
use crate::ui::values::counted;

/// What a list with a file in this state ends with.
pub(crate) fn exit(state: State) -> Exit {
    state.class().into()
}

/// Writes the commands that a message prints, with those options of this command that they need, too.
#[derive(Clone, Default)]
pub(crate) struct RepairCommands {
    catalog: String,
    /// The options of hosts that were typed.
    hosts: String,
    /// The trees of other places, and by which options they were last reached.
    reached: Vec<(PathBuf, Reach)>,
    parity: Option<NamedParity>,
}

impl RepairCommands {
    /// The catalogue that was named, if one was.
    pub(crate) fn new(catalog: Option<&Path>) -> RepairCommands {
        RepairCommands { catalog: catalog.map(of_catalog).unwrap_or_default(), ..RepairCommands::default() }
    }

    /// The same with options to reach hosts.
    pub(crate) fn with_hosts(self, hosts: &HostArgs) -> RepairCommands {
        RepairCommands { hosts: hosts.typed(), ..self }
    }

    /// The same with the options by which these trees were last reached: a command without options of its own for hosts
    /// prints those. Of two trees with one path the first counts.
    pub(crate) fn knowing<'r>(mut self, roots: impl IntoIterator<Item = &'r Root>) -> RepairCommands {
        let remote = roots.into_iter().filter(|root| root.is_remote());
        self.reached.extend(remote.map(|root| (root.path.clone(), Reach::of_words(&root.options))));
        self
    }

    /// The same with parity that is not beside its tree.
    pub(crate) fn with_parity(self, parity: Option<NamedParity>) -> RepairCommands {
        RepairCommands { parity, ..self }
    }

    /// Where parity may be.
    pub(crate) fn beside(&self) -> Beside {
        Beside::with(self.parity.clone())
    }

    /// What repairs a file or a tree, from these places if they are known to have the content. If it has parity, it may
    /// be repaired by that alone: by that of its tree, if the place has to be named.
    pub(crate) fn repair_by(&self, parity: Option<&Path>, path: &Path, from: &[&Path]) -> String {
        match self.parity.as_ref().filter(|named| parity == Some(&named.place)) {
            Some(NamedParity { tree, place }) => {
                let place = shell::word(place.as_os_str().as_bytes());
                self.of_path(&format!("repair --parity {place}"), tree, from)
            }
            None => self.of_path("repair", path, from),
        }
    }

    /// The options for what takes only a catalogue, with a space before each.
    pub(crate) fn catalog(&self) -> &str {
        &self.catalog
    }

    /// What repairs a file or a tree.
    pub(crate) fn repair(&self, path: &Path) -> String {
        self.of_path("repair", path, &[])
    }

    /// What takes a file, or the files of a tree, as they are.
    pub(crate) fn accept(&self, path: &Path) -> String {
        self.of_path("accept", path, &[])
    }

    fn of_path(&self, verb: &str, path: &Path, from: &[&Path]) -> String {
        let (catalog, hosts) = (&self.catalog, self.hosts_of(path, from));
        format!("verisum {verb}{catalog}{hosts} {}", shell::word(path.as_os_str().as_bytes()))
    }

    /// The options by which the trees of these paths are reached.
    fn hosts_of(&self, path: &Path, from: &[&Path]) -> String {
        if !self.hosts.is_empty() {
            return self.hosts.clone();
        }
        let mut all = Reach::default();
        for path in std::iter::once(&path).chain(from) {
            if let Some((_, reach)) = self.tree(path) {
                all.add(reach);
            }
        }
        all.text()
    }

    /// The innermost of the trees of other places that holds a path.
    fn tree(&self, path: &Path) -> Option<&(PathBuf, Reach)> {
        let trees = self.reached.iter().rev().filter(|(root, _)| path.starts_with(root));
        trees.max_by_key(|(root, _)| root.components().count())
    }
}

/// The option that names a catalogue, as it can be typed in any directory.
pub(crate) fn of_catalog(catalog: &Path) -> String {
    let whole = absolute(catalog).unwrap_or_else(|_| catalog.to_path_buf());
    format!(" --catalog {}", shell::word(whole.as_os_str().as_bytes()))
}

/// A command with the place to repair from.
pub(crate) fn with_source(command: &str, from: &Path) -> String {
    format!("{command} --from {}", shell::word(from.as_os_str().as_bytes()))
}

/// What repairs the files of a directory by their tags.
pub(crate) fn repair_by_tags(directory: &Path) -> String {
    format!("verisum repair --tags {}", shell::word(directory.as_os_str().as_bytes()))
}

/// What repairs the files of a directory by a catalogue, which may not know yet that they are bad.
pub(crate) fn repair_by_scrub(catalog: &Path, directory: &Path) -> String {
    let [catalog, directory] = [of_catalog(catalog), shell::word(directory.as_os_str().as_bytes())];
    format!("verisum scrub{catalog} --repair {directory}")
}

/// What repairs the files of a directory by a list. That does not say whether somebody wrote to a file since, so that
/// what is there is kept.
pub(crate) fn repair_by_list(options: &str, list: &Path, directory: &Path) -> String {
    let keep = keep_bad(Some(directory));
    let [list, directory] = [list, directory].map(|path| shell::word(path.as_os_str().as_bytes()));
    format!("verisum repair{options} --sums {list}{keep} {directory}")
}

/// What repairs a raw image by the block map beside it, if that is of the image with this block hash.
pub(crate) fn repair_image(image: &Path, hash: &DigestValue) -> Option<String> {
    let mut map = image.as_os_str().to_os_string();
    map.push(".map");
    let of_image = BlockMap::open(Path::new(&map), &kernel::policy().ok()?).ok()?;
    // Only a raw one has the length that its guest sees; the guest sees whole sectors.
    let [length, stored] =
        [of_image.length(), image.metadata().ok()?.len()].map(|length| length.next_multiple_of(SECTOR));
    let [map, image] = [&map, image.as_os_str()].map(|path| shell::word(path.as_bytes()));
    (of_image.root() == hash && length == stored).then(|| format!("verisum image repair --map {map} {image}"))
}

/// The option that keeps what a file is now: in a directory beside its tree. What another place has is kept on this
/// machine, where the command is run. What has nothing beside it is the top of all file systems; there the reader has to
/// name one.
pub(crate) fn keep_bad(root: Option<&Path>) -> String {
    let beside = |root: &Path| -> Option<PathBuf> {
        let (parent, mut name) = (root.parent()?, root.file_name()?.to_os_string());
        name.push(".bad");
        Some(if is_address(root) { name.into() } else { parent.join(name) })
    };
    let place = root.and_then(beside);
    let place = place.map_or("DIR".to_string(), |path| shell::word(path.as_os_str().as_bytes()));
    format!(" --keep-bad {place}")
}

/// What repairs a file of a tree whose recorded content is wanted again, from its parity or a copy if one is known. What
/// somebody may have written is kept.
pub(crate) fn mend_command(
    commands: &RepairCommands,
    file: &ListedRecord,
    root: Option<&Path>,
    (parity, copy): (Option<&Path>, Option<&Path>),
) -> Option<String> {
    if !file.wants_content() {
        return None;
    }
    let command = commands.repair_by(parity, &file.path, copy.as_slice());
    Some(if file.record.state.may_be_meant() { command + &keep_bad(root) } else { command })
}

/// Whether a file was empty: no copy is needed to mend it. Without its length its digest tells.
pub(crate) fn is_empty(algorithm: &str, size: Option<u64>, digest: &DigestValue) -> bool {
    let of_nothing = || Digest::find(algorithm).is_ok_and(|of| is_of_nothing(&of, digest));
    size.is_none_or(|size| size == 0) && of_nothing()
}

/// How many files need no copy, in words.
pub(crate) fn needs_none(count: u64) -> String {
    format!("{count} {} no copy, being empty", if count == 1 { "needs" } else { "need" })
}

/// How many of the files that are wanted again the known copies bring back, in words.
pub(crate) fn from_copies(mendable: u64, wanted: u64) -> String {
    match (mendable, wanted) {
        (1, 1) => "it can be repaired from a known copy".to_string(),
        (1, _) => "1 of them can be repaired from a known copy".to_string(),
        (all, wanted) if all == wanted => "all can be repaired from known copies".to_string(),
        (some, _) => format!("{some} of them can be repaired from known copies"),
    }
}

/// What comes before any repair of a file in this state.
pub(crate) fn storage_advice(outcome: &str) -> Option<&'static str> {
    (outcome == Verdict::IoError.name()).then_some(
        "the storage failed: first copy what can be read to a new disk (verisum copy), and mount that in its place",
    )
}

/// What mends a tree.
pub(crate) struct Remedy {
    /// Files whose recorded content is wanted again.
    wanted: u64,
    /// Those of them that changed when so much did that it may be on purpose.
    held: u64,
    /// Those of them that the catalogue knows a copy of.
    mendable: u64,
    /// Those of the others that have parity beside them.
    with_parity: u64,
    /// Those of the others that are empty, and need neither.
    empty: u64,
    /// What comes before any repair, where storage failed.
    first: Option<&'static str>,
    /// The command that repairs these.
    command: String,
    /// The option in it that keeps what somebody may have written.
    keeps: String,
    /// The command that takes them as they are.
    accept: String,
}

/// Looks for what mends the trees of a catalogue; the copies that it knows are looked for once for all of them.
pub(crate) struct Remedies<'a> {
    catalog: &'a Catalog,
    commands: RepairCommands,
    copies: Option<HashMap<(i64, Vec<u8>), PathBuf>>,
    beside: Beside,
    excludes: Option<&'a Excludes>,
}

impl<'a> Remedies<'a> {
    pub(crate) fn new(catalog: &'a Catalog, commands: &'a RepairCommands) -> Remedies<'a> {
        Remedies {
            catalog,
            commands: commands.clone(),
            copies: None,
            beside: commands.beside(),
            excludes: None,
        }
    }

    /// Counts nothing that the patterns leave out.
    pub(crate) fn without(self, excludes: Option<&'a Excludes>) -> Remedies<'a> {
        Remedies { excludes, ..self }
    }

    /// None if nothing is to be mended in a tree.
    pub(crate) fn of(&mut self, root: &Root) -> Result<Option<Remedy>, Failure> {
        if !self.catalog.recorded_troubles(root.id)?.iter().any(|(state, _)| state.wants_content()) {
            return Ok(None);
        }
        if self.copies.is_none() {
            self.copies = Some(self.catalog.copies_of_troubled()?);
            self.commands = self.commands.clone().knowing(&self.catalog.roots()?);
        }
        let (copies, beside) = (self.copies.as_ref(), &mut self.beside);
        let accept = self.commands.accept(&root.path);
        let mut remedy = Remedy {
            wanted: 0,
            held: 0,
            mendable: 0,
            with_parity: 0,
            empty: 0,
            first: None,
            command: String::new(),
            keeps: String::new(),
            accept,
        };
        let mut from: Vec<&Path> = Vec::new();
        self.catalog.each_in_trouble(root, true, true, &mut |file| {
            let is_out = self.excludes.is_some_and(|excludes| is_left_out(excludes, root, &file.path));
            if file.wants_content() && !is_out {
                let content = (file.record.algorithm, file.record.digest.as_bytes().to_vec());
                let copy = copies.and_then(|copies| copies.get(&content));
                let tree = copy.and_then(|copy| self.commands.tree(copy));
                from.extend(tree.map(|(tree, _)| &**tree).filter(|tree| !from.contains(tree)));
                let has_copy = copy.is_some();
                remedy.wanted += 1;
                remedy.first = remedy.first.or(storage_advice(file.record.state.name()));
                if file.record.state.may_be_meant() && remedy.keeps.is_empty() {
                    remedy.keeps = keep_bad(Some(&root.path));
                }
                remedy.held += u64::from(file.record.state == State::Trouble(Trouble::Held));
                remedy.mendable += u64::from(has_copy);
                if !has_copy && is_empty(&file.algorithm, Some(file.record.size), &file.record.digest) {
                    remedy.empty += 1;
                } else if !has_copy && !root.is_remote() && beside.of(&file.path).is_some() {
                    remedy.with_parity += 1;
                }
            }
            Ok::<_, Failure>(())
        })?;
        // Without it only what lies beside the files is looked for.
        let named = self.commands.parity.as_ref().filter(|_| remedy.with_parity > 0);
        let named = named.map(|named| &*named.place);
        remedy.command = self.commands.repair_by(named, &root.path, &from) + &remedy.keeps;
        Ok((remedy.wanted > 0).then_some(remedy))
    }
}

/// Whether patterns leave a file of a tree out.
pub(crate) fn is_left_out(excludes: &Excludes, root: &Root, path: &Path) -> bool {
    path.strip_prefix(&root.path).is_ok_and(|below| excludes.leaves_out_file(below))
}

impl Remedy {
    pub(crate) fn text(&self) -> String {
        let Remedy { wanted, held, first, command, accept, .. } = self;
        let are = if *wanted == 1 { "is" } else { "are" };
        let files = counted(*wanted, "file");
        let known = match self.known().as_slice() {
            [] => {
                let and = if first.is_some() { "; " } else { ", and " };
                format!("{and}no copy is known (`{command} --from PLACE` takes one)")
            }
            known => format!("; {}: `{command}`", known.join(", and ")),
        };
        let first = first.map_or(String::new(), |first| format!("; {first}"));
        let (or_held, if_wanted) = match held {
            0 => (" or missing", String::new()),
            _ => (", missing or held", format!("; if that was you: `{accept}` takes the files as they are")),
        };
        format!("{files} {are} bad{or_held}{first}{known}{if_wanted}")
    }

    /// What is known that may mend files, in words.
    fn known(&self) -> Vec<String> {
        let Remedy { wanted, mendable, with_parity, empty, .. } = self;
        let mut known = Vec::new();
        known.extend((*mendable > 0).then(|| from_copies(*mendable, *wanted)));
        known.extend((*with_parity > 0).then(|| format!("parity may mend {with_parity}")));
        known.extend((*empty > 0).then(|| needs_none(*empty)));
        known
    }

    /// The command as it is to be typed, if others than the catalogue know copies or not.
    pub(crate) fn command(&self, is_known_elsewhere: bool) -> String {
        match self.is_known() || is_known_elsewhere {
            true => self.command.clone(),
            false => format!("{} --from PLACE", self.command),
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "files": self.wanted, "mendable": self.mendable, "with_parity": self.with_parity, "empty": self.empty, "command": self.command(false) })
    }

    /// How many files were empty, and need no copy.
    pub(crate) fn empty(&self) -> u64 {
        self.empty
    }

    /// How many files without a known copy have parity beside them.
    pub(crate) fn with_parity(&self) -> u64 {
        self.with_parity
    }

    /// The option that keeps what somebody may have written, if somebody may have.
    pub(crate) fn keeps_bad(&self) -> &str {
        &self.keeps
    }

    /// Whether anything is known that may mend some.
    pub(crate) fn is_known(&self) -> bool {
        self.mendable + self.with_parity + self.empty > 0
    }

    /// Files whose recorded content is wanted again, by what has it.
    pub(crate) fn figures(remedy: Option<&Remedy>) -> [(&'static str, u64); 4] {
        let [wanted, mendable, with_parity, empty] = remedy
            .map_or([0; 4], |remedy| [remedy.wanted, remedy.mendable, remedy.with_parity, remedy.empty]);
        let unknown = wanted.saturating_sub(mendable + with_parity + empty);
        [("copy", mendable), ("parity", with_parity), ("nothing", empty), ("unknown", unknown)]
    }
}
