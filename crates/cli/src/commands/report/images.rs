//! Disk images that have block maps: their state when the map was made, and whether somebody wrote to them
//! since. Reads nothing of an image.

use std::path::{Path, PathBuf};

use verisum::blockhash::BlockMap;
use verisum::catalog::overview::Overview;
use verisum::catalog::store::Moment;
use verisum::image::FORMATS;
use verisum::mend::image::is_map;
use verisum_bench::export::{Cell, Table};

use super::{bytes, moment, path};
use crate::ui::exit::Exit;
use crate::ui::failure::{self, Failure};
use crate::ui::shell;
use crate::ui::sizes::human;
use crate::ui::values::counted;
use crate::ui::{kernel, names};
use verisum::catalog::overview::OverviewOptions;

/// How the names of images end.
fn endings() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().flat_map(|format| format.endings.iter().copied())
}

/// How the name of a map ends that is found beside its image.
const MAP: &str = "map";

/// How an image stands to its map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Not written to since.
    Mapped,
    Written,
    /// There is none beside the map.
    Missing,
}

/// An image and its map.
#[derive(Debug)]
pub(super) struct MappedImage {
    image: PathBuf,
    map: PathBuf,
    standing: Standing,
    /// When the map was made.
    made: Moment,
    length: u64,
    algorithm: String,
    block_size: u32,
    digest: String,
}

/// The map that is meant by a name: the file itself, or the map beside an image.
pub(super) fn map_of(named: &Path) -> Option<PathBuf> {
    if is_map(named) {
        return Some(named.to_path_buf());
    }
    let mut longer = named.as_os_str().to_os_string();
    longer.push(format!(".{MAP}"));
    [PathBuf::from(longer), named.with_extension(MAP)].into_iter().find(|beside| is_map(beside))
}

/// Whether a file that is there has a name as images have.
pub(super) fn is_named_like_one(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str());
    end.is_some_and(|end| endings().any(|known| end.eq_ignore_ascii_case(known))) && path.is_file()
}

/// Reads a map, and looks at the image that was named or is beside it.
pub(super) fn read(named: &Path, map: &Path) -> Result<MappedImage, Failure> {
    let failed = |error| Failure::file(map, "read", error);
    let found = BlockMap::open(map, &kernel::policy()?)
        .map_err(|error| failed(std::io::Error::other(names::plain(&error.to_string()))))?;
    let made = std::fs::metadata(map).and_then(|about| about.modified()).map_err(failed)?;
    let image = if named == map { image_of(map) } else { named.to_path_buf() };
    let standing = match std::fs::metadata(&image).and_then(|about| about.modified()) {
        Ok(written) if written <= made => Standing::Mapped,
        Ok(_) => Standing::Written,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Standing::Missing,
        Err(error) => {
            let why = failure::cause(&error);
            return Err(Failure::file(&image, "look at", std::io::Error::other(why)));
        }
    };
    let since = made.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(MappedImage {
        image,
        map: map.to_path_buf(),
        standing,
        made: Moment::of_milliseconds(0) + since,
        length: found.length(),
        algorithm: found.params().digest().name().to_string(),
        block_size: found.params().block_bytes(),
        digest: found.root().to_string(),
    })
}

/// The image beside a map, by its name.
fn image_of(map: &Path) -> PathBuf {
    let stem = map.with_extension("");
    let with = |end: &str| {
        let mut name = stem.clone().into_os_string();
        name.push(format!(".{end}"));
        PathBuf::from(name)
    };
    let mut names = std::iter::once(stem.clone()).chain(endings().map(with));
    names.find(|name| name.is_file()).unwrap_or(stem)
}

impl MappedImage {
    fn is_stale(&self, options: &OverviewOptions) -> bool {
        options.is_stale(self.made)
    }
}

/// Has the images in what is told of ages and digests.
pub(super) fn add(images: &[MappedImage], overview: &mut Overview, options: &OverviewOptions) {
    for image in images {
        let name = format!("{} of blocks of {}", image.algorithm, human(image.block_size.into()));
        let digests = overview.digests.entry(name).or_default();
        let mut amounts = vec![digests];
        // Nobody knows what is in one that was written to since.
        if image.standing == Standing::Mapped {
            amounts.push(&mut overview.ages[options.age_class(image.made)]);
        }
        for amount in amounts {
            amount.files += 1;
            amount.bytes = amount.bytes.saturating_add(image.length);
        }
    }
}

/// The first lines about images.
pub(super) fn lines(images: &[MappedImage], options: &OverviewOptions) -> Vec<String> {
    let count = |standing| images.iter().filter(|image| image.standing == standing).count() as u64;
    let image = |number| counted(number, "image");
    let mut lines = Vec::new();
    let (missing, written) = (count(Standing::Missing), count(Standing::Written));
    if missing > 0 {
        lines.push(format!(
            "MISSING: {} not beside the block map. If an image is elsewhere, verify it there: \
             `verisum image verify --map MAP IMAGE`.",
            image(missing)
        ));
    }
    if written > 0 {
        lines.push(format!("UNCHECKED: {} written to after the block map was made.", image(written)));
    }
    let stale = images.iter().filter(|image| image.is_stale(options)).count() as u64;
    if stale > 0 {
        lines.push(format!("LATE: the block maps of {} are older than permitted.", image(stale)));
    }
    if lines.is_empty() && !images.is_empty() {
        let bytes = images.iter().map(|image| image.length).sum();
        let all = image(images.len() as u64);
        lines.push(format!(
            "{all} ({}) {} recorded.",
            human(bytes),
            if images.len() == 1 {
                "has the time of modification that its block map"
            } else {
                "have the times of modification that their block maps"
            },
        ));
    }
    lines
}

/// What the images say of a report's end.
pub(super) fn exit(images: &[MappedImage], options: &OverviewOptions) -> Exit {
    let is_fine = |image: &MappedImage| image.standing == Standing::Mapped && !image.is_stale(options);
    if images.iter().all(is_fine) { Exit::Clean } else { Exit::Unchecked }
}

pub(super) fn table(images: &[MappedImage]) -> Table {
    let mut table = Table::new(
        "Disk images",
        "image; state; block map; made; size; block hash; digest of blocks; block size; check with",
    );
    for one in images {
        let word = |path: &Path| shell::word(path.as_os_str().as_encoded_bytes());
        table.row([
            path(&one.image),
            Cell::text(match one.standing {
                Standing::Mapped => "not written to since",
                Standing::Written => "written to since",
                Standing::Missing => "missing",
            }),
            path(&one.map),
            moment(one.made),
            bytes(one.length),
            Cell::text(one.digest.clone()),
            Cell::text(one.algorithm.clone()),
            bytes(one.block_size.into()),
            match one.standing {
                Standing::Missing => {
                    Cell::Command(format!("verisum image verify --map {} IMAGE", word(&one.map)))
                }
                _ => Cell::Command(format!(
                    "verisum image verify --map {} {}",
                    word(&one.map),
                    word(&one.image)
                )),
            },
        ]);
    }
    table.blocks_below(120).note(
        "By the times of the files: no image was read. The command in the last column reads it, and prints the command \
         that repairs it.",
    )
}
