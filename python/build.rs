//! Takes the texts of Python's `help` from the stubs, so that they are written once.

use std::{env, fs, io, path::Path};

const STUBS: &str = "verisum/_native.pyi";

/// What has a text.
const NAMED: [&str; 25] = [
    "def new",
    "def hash_many",
    "def hash_files",
    "def compare",
    "def scrub",
    "def accept",
    "def rehash",
    "def create_bag",
    "def tag",
    "def verify",
    "def untag",
    "def list_tags",
    "def retag",
    "def adopt",
    "def status",
    "def repair",
    "def copy",
    "class Parity",
    "def check",
    "def image_sum",
    "def image_repair",
    "def overview",
    "class BlockMap",
    "class Catalog",
    "class Hosts",
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={STUBS}");
    let stubs = fs::read_to_string(STUBS)?;
    let folder = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    for named in NAMED {
        let text =
            text_of(&stubs, named).ok_or_else(|| io::Error::other(format!("{STUBS}: no text of {named}")))?;
        let name = named.split(' ').next_back().unwrap_or(named);
        fs::write(Path::new(&folder).join(name), text)?;
    }
    Ok(())
}

/// The text in quotes after the line that begins so, without its indentation.
fn text_of(stubs: &str, named: &str) -> Option<String> {
    let at = ["(", ":"].iter().find_map(|end| stubs.find(&format!("\n{named}{end}")))?;
    let (_, after) = stubs[at..].split_once("\"\"\"")?;
    let (text, _) = after.split_once("\"\"\"")?;
    let lines = text.lines().map(|line| line.strip_prefix("    ").unwrap_or(line));
    Some(lines.collect::<Vec<_>>().join("\n").trim_end().to_string())
}
