//! `verisum image info`: describes an image or a block map.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum::blockhash::{BlockMap, Params};
use verisum::digest::Digest;
use verisum::files::Timestamp;
use verisum::image::{
    Bitmap, Image, Kept, KeptSnapshot, KnownContent, Layer, OpenOptions as ImageOptions, Opened, Property,
    Role, is_nbd_uri,
};

use super::map;
use super::options::OpenOptions;
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::input::{self, Input};
use crate::ui::kernel;
use crate::ui::names::{self, Name};
use crate::ui::sizes::human;
use crate::ui::{self, Output};

/// What `verisum image info` takes.
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    open: OpenOptions,

    /// Print a line of JSON
    #[arg(long)]
    json: bool,

    /// An image file, block device, NBD address or block map
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: OsString,
}

/// Prints what is known without reading the content.
pub(crate) fn run(arguments: InfoArgs, output: &mut Output) -> Result<Exit, Failure> {
    let input = Input::typed(arguments.image, false)?;
    if let Input::Named(name) = &input
        && arguments.open.detects()
        && map::is_map(Path::new(name))
    {
        let map = MapRecord::new(&input, &map::open(Path::new(name))?);
        return print("map", &map, &map.rows(), arguments.json, output);
    }
    // Nothing is hashed.
    let digest = Digest::find_with("sha256", &kernel::policy()?)?;
    let settings = arguments.open.settings(Params::new(digest));
    let found = match input::open(&input, &settings) {
        Ok(Opened::Image(image)) => ImageRecord::new(&input, &*image),
        Ok(Opened::Stream(_)) => {
            return Err(Failure::file(
                input.path(),
                "info",
                std::io::Error::other("nothing is known of a pipe before it is read"),
            ));
        }
        Err(failure) => Err(failure),
    };
    let mut failures = Vec::new();
    let mut record = match found {
        Ok(record) => record,
        Err(failure) => {
            let Some(record) = ImageRecord::of_unopened(&input, &settings.open_options(&input)) else {
                return Err(failure);
            };
            failures.push(failure);
            record
        }
    };
    if let Some(path) = file_of(&input) {
        match verisum::image::kept(path, &settings.open_options(&input)) {
            Ok(kept) => record.keep(kept),
            Err(error) => failures.push(error.into()),
        }
    }
    record.errors = failures.iter().map(Failure::message).collect();
    print("image", &record, &record.rows(), arguments.json, output)?;
    output.flush()?;
    for failure in &failures {
        ui::say(PROGRAM, &failure.message());
    }
    Ok(failures.iter().map(Failure::exit).max().unwrap_or(Exit::Clean))
}

/// The file or device of this name; nothing for standard input, pipes and servers.
fn file_of(input: &Input) -> Option<&Path> {
    let Input::Named(name) = input else { return None };
    let path = Path::new(name);
    let is_file =
        || path.metadata().is_ok_and(|found| found.is_file() || found.file_type().is_block_device());
    (!is_nbd_uri(name) && is_file()).then_some(path)
}

/// Lines of `name: value`, or one of JSON.
fn print(
    kind: &'static str,
    record: &impl Serialize,
    rows: &[(String, String)],
    json: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    if json {
        output.json(kind, record)?;
    } else {
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) + 2;
        for (name, value) in rows {
            output.line(&format!("{:width$}{value}", format!("{name}:")))?;
        }
    }
    Ok(Exit::Clean)
}

fn row(name: impl Into<String>, value: impl Into<String>) -> (String, String) {
    (name.into(), value.into())
}

/// A number of bytes for people, and exactly.
fn bytes(count: u64) -> String {
    match human(count) {
        text if text.ends_with("bytes") => text,
        text => format!("{text} ({count} bytes)"),
    }
}

#[derive(Serialize)]
struct MapRecord {
    #[serde(flatten)]
    name: Name,
    format: &'static str,
    algorithm: String,
    block_size: u32,
    size: u64,
    blocks: u64,
    data_blocks: u64,
    file_size: u64,
    digest: String,
}

impl MapRecord {
    fn new(input: &Input, map: &BlockMap) -> MapRecord {
        MapRecord {
            name: Name::new(input.name()),
            format: "block map",
            algorithm: map.params().digest().name().to_string(),
            block_size: map.params().block_bytes(),
            size: map.length(),
            blocks: map.blocks(),
            data_blocks: map.data_blocks(),
            file_size: map.file_length(),
            digest: map.root().to_string(),
        }
    }

    fn rows(&self) -> Vec<(String, String)> {
        vec![
            row("format", self.format),
            row("digest", self.algorithm.clone()),
            row("block size", bytes(self.block_size.into())),
            row("image length", bytes(self.size)),
            row("blocks", self.blocks.to_string()),
            row("zero blocks", (self.blocks - self.data_blocks).to_string()),
            row("file size", bytes(self.file_size)),
            row("root", self.digest.clone()),
        ]
    }
}

#[derive(Serialize)]
struct ImageRecord {
    #[serde(flatten)]
    name: Name,
    /// Length in bytes of what a guest sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// What it consists of, where all of it can be opened.
    #[serde(flatten)]
    content: Option<ContentRecord>,
    layers: Vec<LayerRecord>,
    snapshots: Vec<SnapshotRecord>,
    bitmaps: Vec<BitmapRecord>,
    /// Why some of it is not known.
    errors: Vec<String>,
}

#[derive(Serialize)]
struct ContentRecord {
    /// How many bytes are zeros after the end of a raw file, up to a whole sector.
    padded: u64,
    /// How many are stored as they are, compressed, and known to be zeros.
    data: u64,
    compressed: u64,
    zero: u64,
}

#[derive(Serialize)]
struct SnapshotRecord {
    id: String,
    name: String,
    date: String,
    size: u64,
    state_size: u64,
}

impl From<KeptSnapshot> for SnapshotRecord {
    fn from(snapshot: KeptSnapshot) -> SnapshotRecord {
        let KeptSnapshot { id, name, seconds, length, state_length } = snapshot;
        SnapshotRecord {
            id,
            name,
            date: Timestamp::of_seconds(seconds.cast_signed()).to_rfc3339(),
            size: length,
            state_size: state_length,
        }
    }
}

#[derive(Serialize)]
struct BitmapRecord {
    name: String,
    granularity: u64,
    enabled: bool,
    in_use: bool,
}

impl From<Bitmap> for BitmapRecord {
    fn from(bitmap: Bitmap) -> BitmapRecord {
        let Bitmap { name, granularity, in_use, enabled } = bitmap;
        BitmapRecord { name, granularity, enabled, in_use }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum PropertyRecord {
    Text(String),
    Number(u64),
    Flag(bool),
}

impl PropertyRecord {
    fn new(property: Property) -> PropertyRecord {
        match property {
            Property::Text(text) => PropertyRecord::Text(text),
            Property::Number(number) => PropertyRecord::Number(number),
            Property::Flag(flag) => PropertyRecord::Flag(flag),
        }
    }

    fn text(&self) -> String {
        match self {
            PropertyRecord::Text(text) => names::plain(text),
            PropertyRecord::Number(number) => number.to_string(),
            PropertyRecord::Flag(true) => "yes".to_string(),
            PropertyRecord::Flag(false) => "no".to_string(),
        }
    }
}

#[derive(Serialize)]
struct LayerRecord {
    /// `image`, `backing file`, `data file` or `extent`.
    role: &'static str,
    #[serde(flatten)]
    name: Name,
    /// The name in a line of text.
    #[serde(skip)]
    shown: String,
    format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_size: Option<u64>,
    properties: BTreeMap<&'static str, PropertyRecord>,
    warnings: Vec<String>,
}

impl ImageRecord {
    fn new(input: &Input, image: &dyn Image) -> Result<ImageRecord, Failure> {
        let KnownContent { data, compressed, zero } = KnownContent::of(image)?;
        Ok(ImageRecord {
            name: Name::new(input.name()),
            size: Some(image.length()),
            content: Some(ContentRecord { padded: image.padded_by(), data, compressed, zero }),
            layers: image.layers().into_iter().map(LayerRecord::new).collect(),
            snapshots: Vec::new(),
            bitmaps: Vec::new(),
            errors: Vec::new(),
        })
    }

    /// What is known of an image that cannot be opened, if anything is.
    fn of_unopened(input: &Input, options: &ImageOptions) -> Option<ImageRecord> {
        let (layers, _) = verisum::image::describe(file_of(input)?, options);
        Some(ImageRecord {
            name: Name::new(input.name()),
            size: layers.first()?.length,
            content: None,
            layers: layers.into_iter().map(LayerRecord::new).collect(),
            snapshots: Vec::new(),
            bitmaps: Vec::new(),
            errors: Vec::new(),
        })
    }

    fn keep(&mut self, kept: Kept) {
        self.snapshots = kept.snapshots.into_iter().map(SnapshotRecord::from).collect();
        self.bitmaps = kept.bitmaps.into_iter().map(BitmapRecord::from).collect();
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        if let Some(first) = self.layers.first() {
            rows.push(row("format", first.format));
        }
        rows.extend(self.size.map(|length| row("virtual size", bytes(length))));
        if let Some(content) = &self.content {
            if content.padded > 0 {
                rows.push(row("padding", bytes(content.padded)));
            }
            rows.push(row("data", bytes(content.data)));
            if content.compressed > 0 {
                rows.push(row("compressed", bytes(content.compressed)));
            }
            rows.push(row("zero", bytes(content.zero)));
        }
        let mut depth = 0;
        for (place, layer) in self.layers.iter().enumerate() {
            if place == 0 {
                layer.rows("", &mut rows);
                self.kept_rows(&mut rows);
                continue;
            }
            let role = match layer.role == Role::BackingFile.name() {
                true => {
                    depth += 1;
                    format!("{} {depth}", layer.role)
                }
                false => layer.role.to_string(),
            };
            rows.push(row(role, layer.shown.clone()));
            rows.push(row("  format", layer.format));
            rows.extend(layer.size.map(|length| row("  virtual size", bytes(length))));
            layer.rows("  ", &mut rows);
        }
        rows
    }

    fn kept_rows(&self, rows: &mut Vec<(String, String)>) {
        for snapshot in &self.snapshots {
            let SnapshotRecord { id, name, date, size, state_size } = snapshot;
            let (id, name) = (names::plain(id), names::quoted(name.as_ref()));
            let state = match state_size {
                0 => String::new(),
                length => format!(", machine state {}", human(*length)),
            };
            rows.push(row(format!("snapshot {id}"), format!("{name}, {date}, {}{state}", human(*size))));
        }
        for bitmap in &self.bitmaps {
            let name = names::quoted(bitmap.name.as_ref());
            let enabled = if bitmap.enabled { "" } else { ", disabled" };
            let in_use = if bitmap.in_use { ", in use: it says nothing" } else { "" };
            let unit = human(bitmap.granularity);
            rows.push(row("bitmap", format!("{name}, a bit for {unit}{enabled}{in_use}")));
        }
    }
}

impl LayerRecord {
    fn new(layer: Layer) -> LayerRecord {
        LayerRecord {
            role: layer.role.name(),
            name: Name::new(&layer.name),
            shown: names::quoted(&layer.name),
            format: layer.format,
            size: layer.length,
            file_size: layer.file_length,
            stored: layer.stored,
            cluster_size: layer.cluster_size,
            properties: layer
                .properties
                .into_iter()
                .map(|(name, property)| (name, PropertyRecord::new(property)))
                .collect(),
            warnings: layer.warnings,
        }
    }

    fn rows(&self, indent: &str, rows: &mut Vec<(String, String)>) {
        let mut add = |name: &str, value: String| rows.push(row(format!("{indent}{name}"), value));
        if let Some(length) = self.file_size {
            add("file size", bytes(length));
        }
        if let Some(stored) = self.stored {
            add("allocated", bytes(stored));
        }
        if let Some(size) = self.cluster_size {
            add("cluster size", bytes(size));
        }
        for (name, value) in &self.properties {
            add(&name.replace('_', " "), value.text());
        }
        for warning in &self.warnings {
            add("warning", names::plain(warning));
        }
    }
}
