//! Every command of the documentation runs.

mod common;

use std::path::{Path, PathBuf};
use std::time::Instant;

use common::{Ended, VERISUM, command};

/// A block of commands.
struct Block {
    /// The page and the line where it begins.
    place: String,
    script: String,
}

/// The blocks marked `sh` of a page.
fn blocks(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let mut found: Vec<Block> = Vec::new();
    let mut inside = None;
    for (number, line) in text.lines().enumerate() {
        match inside {
            None if line.starts_with("```") => {
                inside = Some(line == "```sh");
                if line == "```sh" {
                    let place = format!("{}:{}", page.display(), number + 1);
                    found.push(Block { place, script: String::new() });
                }
            }
            Some(_) if line == "```" => inside = None,
            Some(true) => {
                let block = found.last_mut().expect("a block was begun");
                block.script.push_str(line);
                block.script.push('\n');
            }
            _ => {}
        }
    }
    assert!(inside.is_none(), "{}: a block without an end", page.display());
    found
}

/// README.md and the pages of docs/.
fn pages() -> Vec<PathBuf> {
    let root = common::repository();
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(root.join("docs")).unwrap().map(|page| page.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

#[test]
fn every_block_of_commands_runs_in_an_empty_folder() {
    let programs = Path::new(VERISUM).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let blocks: Vec<Block> = pages().iter().flat_map(|page| blocks(page)).collect();
    assert!(blocks.len() >= 5, "README.md has its examples");
    for block in blocks {
        let folder = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let output = command("bash")
            .args(["-eu", "-o", "pipefail", "-c", &block.script])
            .current_dir(folder.path())
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("VERISUM", common::repository())
            .output()
            .unwrap();
        let ended = Ended::of(output);
        assert_eq!(ended.code, Some(0), "{}\n{}\n{}", block.place, ended.out(), ended.stderr);
        let seconds = started.elapsed().as_secs();
        // Quiet, the longest takes some seconds: this is a guard beside much other work.
        assert!(seconds < 300, "{}: {seconds} s is too long for an example", block.place);
    }
}
