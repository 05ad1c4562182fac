//! Takes the texts of Python's `help` from the stubs, so that they are written once.

use std::{env, fs, io, path::Path};

const STUBS: &str = "verisum/_native.pyi";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={STUBS}");
    let folder = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let stubs = fs::read_to_string(STUBS)?;
    let lines: Vec<&str> = stubs.lines().collect();
    let (mut class, mut at) = ("", 0);
    while let Some(line) = lines.get(at) {
        let (indent, begins) = (line.len() - line.trim_start().len(), at);
        at += 1;
        let Some((word @ ("class" | "def"), rest)) = line.trim_start().split_once(' ') else { continue };
        let name = &rest[..rest.find(['(', ':', '[']).unwrap_or(rest.len())];
        if indent == 0 {
            class = if word == "class" { name } else { "" };
        }
        // What has a text ends with a colon, and the text is right below.
        let Some(end) = (begins..lines.len()).find(|end| lines[*end].ends_with([':', '.'])) else { break };
        if let Some(text) = lines.get(end + 1).and_then(|line| line.trim_start().strip_prefix("\"\"\"")) {
            let full = if indent == 0 { name.to_string() } else { format!("{class}.{name}") };
            fs::write(Path::new(&folder).join(full), text_of(text, &lines[end + 2..], indent + 4))?;
        }
    }
    Ok(())
}

/// A text in quotes, without them and its indentation, by its first line and what is below.
fn text_of(first: &str, below: &[&str], indent: usize) -> String {
    let mut text = first.to_string();
    for line in below {
        if text.contains("\"\"\"") {
            break;
        }
        text = text + "\n" + line.get(indent..).unwrap_or_default();
    }
    text.split("\"\"\"").next().unwrap_or_default().trim_end().to_string()
}
