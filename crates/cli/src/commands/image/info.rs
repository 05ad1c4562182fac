//! `verisum image info`: what an image or a block map is.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum_blockhash::{BlockMap, Params};
use verisum_digest::Digest;
use verisum_image::{ExtentKind, Image, Layer, Opened};

use super::map;
use super::options::OpenOptions;
use super::sum::Name;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::{self, Input};
use crate::kernel;
use crate::render::{Output, names};
use crate::sizes::human;

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
    let input = Input::new(arguments.image);
    if let Input::Named(name) = &input
        && arguments.open.detects()
        && map::is_map(Path::new(name))
    {
        let map = MapRecord::new(&input, &map::open(Path::new(name))?);
        return print(&map, &map.rows(), arguments.json, output);
    }
    // Nothing is hashed.
    let digest = Digest::find_with("sha256", &kernel::policy()?).map_err(Failure::Digest)?;
    let Opened::Image(image) = input::open(&input, &arguments.open.how(Params::new(digest)))? else {
        return Err(Failure::File {
            name: input.path(),
            operation: "info",
            error: std::io::Error::other("nothing is known of a pipe before it is read"),
        });
    };
    let record = ImageRecord::new(&input, &*image)?;
    print(&record, &record.rows(), arguments.json, output)
}

/// Lines of `name: value`, or one of JSON.
fn print(
    record: &impl Serialize,
    rows: &[(String, String)],
    json: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    if json {
        output.json(record)?;
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
    length: u64,
    blocks: u64,
    data_blocks: u64,
    file_length: u64,
    digest: String,
}

impl MapRecord {
    fn new(input: &Input, map: &BlockMap) -> MapRecord {
        MapRecord {
            name: Name::new(input.name()),
            format: "block map",
            algorithm: map.params().digest().name().to_string(),
            block_size: map.params().block_bytes(),
            length: map.length(),
            blocks: map.blocks(),
            data_blocks: map.data_blocks(),
            file_length: map.file_length(),
            digest: map.root().to_string(),
        }
    }

    fn rows(&self) -> Vec<(String, String)> {
        vec![
            row("format", self.format),
            row("digest", self.algorithm.clone()),
            row("block size", bytes(self.block_size.into())),
            row("image length", bytes(self.length)),
            row("blocks", self.blocks.to_string()),
            row("zero blocks", (self.blocks - self.data_blocks).to_string()),
            row("file size", bytes(self.file_length)),
            row("root", self.digest.clone()),
        ]
    }
}

#[derive(Serialize)]
struct ImageRecord {
    #[serde(flatten)]
    name: Name,
    /// Length in bytes of what a guest sees.
    length: u64,
    /// How many of them are zeros after the end of a raw file, up to a whole sector.
    padded: u64,
    /// How many are stored as they are, compressed, and known to be zeros.
    data: u64,
    compressed: u64,
    zero: u64,
    layers: Vec<LayerRecord>,
}

#[derive(Serialize)]
struct LayerRecord {
    #[serde(flatten)]
    name: Name,
    /// The name in a line of text.
    #[serde(skip)]
    shown: String,
    format: &'static str,
    length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_size: Option<u64>,
    properties: BTreeMap<&'static str, String>,
    warnings: Vec<String>,
}

impl ImageRecord {
    fn new(input: &Input, image: &dyn Image) -> Result<ImageRecord, Failure> {
        let [mut data, mut compressed, mut zero] = [0; 3];
        let mut extents = Vec::new();
        let mut position = 0;
        while position < image.length() {
            extents.clear();
            image.extents(position..image.length(), &mut extents)?;
            for extent in &extents {
                let sum = match extent.kind {
                    ExtentKind::Data => &mut data,
                    ExtentKind::Compressed => &mut compressed,
                    ExtentKind::Zero => &mut zero,
                };
                *sum += extent.range.end - extent.range.start;
                position = extent.range.end;
            }
        }
        Ok(ImageRecord {
            name: Name::new(input.name()),
            length: image.length(),
            padded: image.padded_by(),
            data,
            compressed,
            zero,
            layers: image.layers().into_iter().map(LayerRecord::new).collect(),
        })
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        if let Some(first) = self.layers.first() {
            rows.push(row("format", first.format));
        }
        rows.push(row("virtual size", bytes(self.length)));
        if self.padded > 0 {
            rows.push(row("padding", bytes(self.padded)));
        }
        rows.push(row("data", bytes(self.data)));
        if self.compressed > 0 {
            rows.push(row("compressed", bytes(self.compressed)));
        }
        rows.push(row("zero", bytes(self.zero)));
        for (depth, layer) in self.layers.iter().enumerate() {
            if depth > 0 {
                rows.push(row(format!("backing file {depth}"), layer.shown.clone()));
                rows.push(row("  format", layer.format));
                rows.push(row("  virtual size", bytes(layer.length)));
            }
            layer.rows(if depth > 0 { "  " } else { "" }, &mut rows);
        }
        rows
    }
}

impl LayerRecord {
    fn new(layer: Layer) -> LayerRecord {
        LayerRecord {
            name: Name::new(&layer.name),
            shown: names::quoted(&layer.name),
            format: layer.format,
            length: layer.length,
            file_length: layer.file_length,
            stored: layer.stored,
            cluster_size: layer.cluster_size,
            properties: layer.properties.into_iter().collect(),
            warnings: layer.warnings,
        }
    }

    fn rows(&self, indent: &str, rows: &mut Vec<(String, String)>) {
        let mut add = |name: &str, value: String| rows.push(row(format!("{indent}{name}"), value));
        if let Some(length) = self.file_length {
            add("file size", bytes(length));
        }
        if let Some(stored) = self.stored {
            add("allocated", bytes(stored));
        }
        if let Some(size) = self.cluster_size {
            add("cluster size", bytes(size));
        }
        for (name, value) in &self.properties {
            add(name, names::plain(value));
        }
        for warning in &self.warnings {
            add("warning", names::plain(warning));
        }
    }
}
