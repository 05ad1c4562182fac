//! `verisum report`: writes one page about the state of catalogues, of trees with tags, and of images with
//! block maps.

mod charts;
mod files;
mod images;
mod runs;
mod tables;
mod tagged;
mod verdict;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use rustix::termios::isatty;
use verisum::catalog::overview::{Overview, OverviewOptions, TreeOverview};
use verisum::catalog::store::{Catalog, CatalogPass, Moment};
use verisum::files::store::xattr::Family;
use verisum_bench::export::{Cell, Report};

use crate::ui::catalog::{CatalogArgs, absolute, refuse_own};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::refuse_urls;
use crate::ui::progress::{self, ProgressArgs};
use crate::ui::repair_commands::{self, Remedies, Remedy, RepairCommands};
use crate::ui::sizes::human;
use crate::ui::{Output, config, export, names, values};

use images::MappedImage;
use tagged::{Tagged, TaggedTree};

/// What `verisum report` takes.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// Write the page to this file, which only its owner can read, and print only its first lines.
    /// Without -o, --csv or --json, the page goes to standard output, which must not be a terminal
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Also write each table as a CSV file in this directory; make the directory if it does not exist
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    csv: Option<PathBuf>,

    /// No verification may be older than this: 35d
    #[arg(long, value_name = "DURATION")]
    max_age: Option<String>,

    /// Print the tables as one JSON value
    #[arg(long)]
    json: bool,

    /// The attribute format of tags
    #[arg(long, value_enum, default_value_t)]
    family: Family,

    /// A catalogue, the same as CATALOGUE; may be given several times
    #[arg(long = "catalog", value_name = "FILE", value_hint = ValueHint::FilePath)]
    more: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) progress: ProgressArgs,

    /// Catalogues, directories whose files have tags, and block maps or the images beside them; without one, the
    /// catalogue verisum/catalog.db in $XDG_STATE_HOME or ~/.local/state
    #[arg(value_name = "CATALOGUE", value_hint = ValueHint::AnyPath)]
    catalogs: Vec<PathBuf>,
}

impl ReportArgs {
    /// All that is told of. What the configuration names is for who names nothing.
    fn named(&self) -> Vec<PathBuf> {
        let is_typed = self.catalogs.is_empty() || !config::is_untyped("--catalog");
        let more = self.more.iter().filter(|_| is_typed);
        self.catalogs.iter().chain(more).cloned().collect()
    }
}

/// The passes that it makes over all records of each catalogue.
pub(crate) const PASSES: [CatalogPass; 2] = [CatalogPass::Survey, CatalogPass::Overview];

/// After how many rows a page folds those of a long table away.
const FOLDED: usize = 20;

/// What is told, and how it is called.
struct Subject {
    overview: Overview,
    options: OverviewOptions,
    /// The paths of the catalogues, if they were named.
    named: Vec<Option<PathBuf>>,
    /// The trees of the last catalogue, which is one of tags, if there are any.
    tagged: Vec<TaggedTree>,
    images: Vec<MappedImage>,
    /// What mends each tree.
    remedies: Vec<Option<Remedy>>,
}

/// Reads the catalogues and writes the report.
pub(crate) fn run(arguments: &ReportArgs, output: &mut Output) -> Result<Exit, Failure> {
    let is_printed = arguments.output.is_none() && arguments.csv.is_none() && !arguments.json;
    if is_printed && isatty(rustix::stdio::stdout()) {
        return Err(Failure::Usage("a terminal shows no page: name a file by -o FILE".to_string()));
    }
    let mut options = OverviewOptions::new(Moment::now());
    options.max_age = values::optional_duration("--max-age", &arguments.max_age)?;
    let inputs = ReportInputs::of(&arguments.named())?;
    let (mut catalogs, named) = open(&inputs)?;
    let mut images = Vec::new();
    for (image, map) in &inputs.images {
        images.push(images::read(image, map)?);
    }
    let tagged = match inputs.directories.is_empty() {
        true => None,
        false => {
            refuse_twice(&inputs.directories, &catalogs)?;
            let (tagged, catalog) = Tagged::read(&inputs.directories, arguments.family)?;
            progress::count_steps_of(&catalog);
            catalogs.push(catalog);
            Some(tagged)
        }
    };
    let targets = arguments.output.iter().chain(&arguments.csv);
    for (catalog, target) in catalogs.iter().flat_map(|catalog| targets.clone().map(move |to| (catalog, to)))
    {
        refuse_own(catalog.path(), target)?;
    }
    let mut overview = Overview::of(&catalogs, &options)?;
    images::add(&images, &mut overview, &options);
    let (trees, scratch) = match tagged {
        Some(mut tagged) => (std::mem::take(&mut tagged.trees), Some(tagged)),
        None => (Vec::new(), None),
    };
    let mut subject = Subject { overview, options, named, tagged: trees, images, remedies: Vec::new() };
    subject.remedies = subject.remedies(&catalogs)?;
    let report = report(&subject, &catalogs);
    drop(catalogs.split_off(subject.named.len()));
    scratch.map_or(Ok(()), Tagged::remove)?;
    // What cannot be written keeps nobody from hearing that something is bad.
    output.found(verdict::exit(&subject));
    if let Some(folder) = &arguments.csv {
        write_tables(folder, &report, &catalogs)?;
    }
    if let Some(path) = &arguments.output {
        export::write_private(path, || report.to_html())?;
    }
    if arguments.json {
        output.report(&report.to_json())?;
    } else if is_printed {
        output.text(&report.to_html())?;
    } else {
        for line in &report.lines {
            output.sentence(line)?;
        }
    }
    Ok(verdict::exit(&subject))
}

/// What was named, by its kind.
#[derive(Default)]
struct ReportInputs {
    catalogs: Vec<PathBuf>,
    directories: Vec<PathBuf>,
    /// What was named, and its map.
    images: Vec<(PathBuf, PathBuf)>,
}

impl ReportInputs {
    fn of(paths: &[PathBuf]) -> Result<ReportInputs, Failure> {
        refuse_urls(paths)?;
        let mut inputs = ReportInputs::default();
        for path in paths {
            let whole = absolute(path)?;
            let is_twice = inputs.catalogs.contains(&whole)
                || inputs.images.iter().any(|(named, map)| *named == whole || *map == whole)
                || inputs
                    .directories
                    .iter()
                    .any(|other| whole.starts_with(other) || other.starts_with(&whole));
            if is_twice {
                let path = names::quoted(whole.as_os_str());
                return Err(Failure::Usage(format!("{path}: named twice: all that it has would be a copy")));
            }
            if whole.is_dir() {
                inputs.directories.push(whole);
            } else if let Some(map) = images::map_of(&whole) {
                inputs.images.push((whole, map));
            } else if images::is_named_like_one(&whole) {
                let why = "it is a disk image without a block map, which `verisum image map` makes";
                return Err(Failure::File {
                    name: path.clone(),
                    operation: "report",
                    error: std::io::Error::other(why),
                });
            } else {
                inputs.catalogs.push(whole);
            }
        }
        Ok(inputs)
    }
}

/// Fails if a directory has files of a tree that a catalogue has: all of them would be copies.
fn refuse_twice(directories: &[PathBuf], catalogs: &[Catalog]) -> Result<(), Failure> {
    for catalog in catalogs {
        for root in catalog.roots()? {
            let is_in = |one: &&PathBuf| one.starts_with(&root.path) || root.path.starts_with(one);
            if let Some(directory) = directories.iter().find(is_in) {
                let [directory, catalog] =
                    [directory, catalog.path()].map(|path| names::quoted(path.as_os_str()));
                let why = "has it too: all that it has would be a copy";
                return Err(Failure::Usage(format!("{directory}: the catalogue {catalog} {why}")));
            }
        }
    }
    Ok(())
}

fn open(inputs: &ReportInputs) -> Result<(Vec<Catalog>, Vec<Option<PathBuf>>), Failure> {
    let paths = &inputs.catalogs;
    if paths.is_empty() && inputs.directories.is_empty() && inputs.images.is_empty() {
        return Ok((vec![CatalogArgs { catalog: None }.open_shared()?], vec![None]));
    }
    let mut catalogs: Vec<Catalog> = Vec::new();
    let mut named = Vec::new();
    for path in paths {
        catalogs.push(CatalogArgs { catalog: Some(path.clone()) }.open_shared()?);
        named.push(Some(path.clone()));
    }
    Ok((catalogs, named))
}

fn write_tables(folder: &Path, report: &Report, catalogs: &[Catalog]) -> Result<(), Failure> {
    let failed = |error| Failure::File { name: folder.to_path_buf(), operation: "create", error };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    for (name, csv) in report.to_csv_files() {
        let path = folder.join(name);
        for catalog in catalogs {
            refuse_own(catalog.path(), &path)?;
        }
        export::write_private(&path, || csv.clone())?;
    }
    Ok(())
}

/// The page: what it comes to first, then what is wrong, then all else.
fn report(subject: &Subject, catalogs: &[Catalog]) -> Report {
    let mut report = Report::new("State of the archive");
    report.lines = verdict::lines(subject);
    report.lines.push(format!("This report is of {}.", values::written(subject.options.now)));
    report.tables = vec![
        files::troubled(subject),
        tables::trees(subject),
        tables::ages(subject),
        tables::forecast(subject),
        runs::runs(subject),
        runs::repairs(subject),
        tables::directories(subject),
        tables::stalest(subject),
        tables::growth(subject),
        tables::digests(subject),
        files::copies(subject),
        files::only(subject),
        files::duplicates(subject),
        tables::about(subject, catalogs),
    ];
    // What is not asked for is no empty table.
    if !subject.images.is_empty() {
        report.tables.insert(2, images::table(&subject.images));
    }
    if !subject.tagged.is_empty() {
        report.tables.insert(2, tagged::table(&subject.tagged));
    }
    report.charts = charts::all(subject);
    report
}

impl Subject {
    /// What mends each tree.
    fn remedies(&self, catalogs: &[Catalog]) -> Result<Vec<Option<Remedy>>, Failure> {
        let commands: Vec<RepairCommands> =
            (0..catalogs.len()).map(|number| self.repair_commands(number)).collect();
        let of_catalogs = catalogs.iter().zip(&commands);
        let mut remedies: Vec<Remedies> =
            of_catalogs.map(|(catalog, commands)| Remedies::new(catalog, commands)).collect();
        self.overview.trees.iter().map(|tree| remedies[tree.catalog].of(&tree.root)).collect()
    }

    /// What the commands for a catalogue's files need: also to reach a tree of another one, which may have a copy.
    fn repair_commands(&self, number: usize) -> RepairCommands {
        let trees = self.overview.trees.iter();
        let (own, others): (Vec<_>, Vec<_>) = trees.partition(|tree| tree.catalog == number);
        let roots = own.into_iter().chain(others).map(|tree| &tree.root);
        RepairCommands::new(self.catalog(number)).knowing(roots)
    }

    /// The command that mends a tree, also from where another catalogue knows copies.
    fn command(&self, tree: &TreeOverview, remedy: Option<&Remedy>) -> Option<String> {
        let remedy = remedy?;
        if self.is_of_tags(tree.catalog) {
            let command = repair_commands::repair_by_tags(&tree.root.path);
            // Tags know of no other copies.
            let from = if remedy.with_parity() > 0 { "" } else { " --from PLACE" };
            return Some(format!("{command}{from}{}", remedy.keeps_bad()));
        }
        let mut command = remedy.command(tree.elsewhere > 0);
        // One other catalogue can be named.
        if let Some((other, _)) = tree.sources.first() {
            for (_, source) in tree.sources.iter().filter(|(number, _)| number == other) {
                command = repair_commands::with_source(&command, source);
            }
            if let Some(catalog) = self.catalog(*other) {
                command += &repair_commands::of_catalog(catalog).replacen("--catalog", "--from-catalog", 1);
            }
        }
        Some(command)
    }

    /// How old what was verified at a moment is, for people.
    fn age(&self, verified: Moment) -> String {
        match verified {
            Moment::NEVER => "never verified".to_string(),
            verified => format!("{} ago", values::rough(self.options.now - verified)),
        }
    }

    /// The stalest verification in a cell; programs get the moment.
    fn stalest(&self, verified: Option<Moment>) -> Cell {
        verified.map_or(Cell::Missing, |verified| Cell::told(moment(verified), self.age(verified)))
    }

    /// The tree of a catalogue that something is in.
    fn root_of(&self, catalog: usize, path: &Path) -> Option<&Path> {
        let trees = self.overview.trees.iter().filter(|tree| tree.catalog == catalog);
        let roots = trees.map(|tree| tree.root.path.as_path()).filter(|root| path.starts_with(root));
        roots.max_by_key(|root| root.as_os_str().len())
    }

    /// The catalogue that a tree is in, as it was named.
    fn catalog(&self, number: usize) -> Option<&Path> {
        self.named.get(number)?.as_deref()
    }

    /// Whether the records of a catalogue are those of tags.
    fn is_of_tags(&self, number: usize) -> bool {
        number >= self.named.len()
    }
}

/// A path in a cell.
fn path(path: &Path) -> Cell {
    Cell::text(names::quoted(path.as_os_str()))
}

/// A number of bytes in a cell.
fn bytes(value: u64) -> Cell {
    Cell::Amount { value, shown: human(value) }
}

/// A time that something takes, in a cell; programs get seconds.
fn taken(time: Duration) -> Cell {
    let seconds = (time.as_secs_f64() * 1000.0).round() / 1000.0;
    Cell::told(Cell::Number(seconds, 3), values::rough(time))
}

/// A moment in a cell.
fn moment(moment: Moment) -> Cell {
    match moment {
        Moment::NEVER => Cell::Moment { exact: None, shown: "never".to_string() },
        moment => Cell::Moment { exact: Some(moment.into()), shown: values::written(moment) },
    }
}
