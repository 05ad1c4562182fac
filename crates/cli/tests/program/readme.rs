//! Every command of the documentation runs.

use crate::common;

use std::path::{Path, PathBuf};

use common::{Ended, VERISUM, command};
use verisum_testkit::{FsKind, Mount};

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

/// What the examples of help texts name: files with a list of them and a copy, an image in two formats, and one of a
/// file system. There is a program that takes mail, too.
const FOLDER: &str = "
    mkdir -p photos/2024 backup
    for name in a.jpg b.jpg 2024/c.jpg; do head -c 100000 /dev/urandom > photos/$name; done
    cp -a photos backup
    truncate -s 8M disk.raw
    printf data | dd of=disk.raw bs=1M seek=1 conv=notrunc status=none
    qemu-img convert -O qcow2 disk.raw disk.qcow2
    mke2fs -q -t ext4 -d photos ext4.img 8M
    mkdir bin
    printf '#!/bin/sh\ncat > mail\n' > bin/sendmail
    chmod +x bin/sendmail
";

/// Runs a script in a folder, with this build's programs and those of its `bin` first on the search path.
fn bash(script: &str, folder: &Path) -> Ended {
    let programs = Path::new(VERISUM).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = command("bash")
        .args(["-eu", "-o", "pipefail", "-c", script])
        .current_dir(folder)
        // Root's programs are not on everybody's path.
        .env(
            "PATH",
            format!("{}:{}:{path}:/usr/sbin:/sbin", programs.display(), folder.join("bin").display()),
        )
        .env("VERISUM", common::repository())
        .output()
        .unwrap();
    Ended::of(output)
}

/// In one folder, as some need what others made.
#[test]
fn every_example_of_help_runs() {
    let examples = common::repository().join("crates/cli/src/ui/examples.txt");
    let text = std::fs::read_to_string(examples).unwrap();
    let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let made = bash(FOLDER, folder.path());
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let typed = |line| str::strip_prefix(line, "  $ ").or(str::strip_prefix(line, "  ! "));
    let lines: Vec<&str> = text.lines().filter_map(typed).collect();
    assert!(lines.len() > 140, "{}", lines.len());
    let mount = Mount::new(FsKind::Ext4, 16 << 20);
    if let Some(mount) = &mount {
        let made = bash(&format!("cp -a photos {}", mount.path().display()), folder.path());
        assert_eq!(made.code, Some(0), "{}", made.stderr);
    }
    for line in lines {
        let line = match (&mount, line.contains("/mnt/ext4")) {
            (Some(mount), true) => &line.replace("/mnt/ext4", &mount.path().display().to_string()),
            // That has been said to be skipped.
            (None, true) => continue,
            (_, false) => line,
        };
        // The other machine is this one.
        let script = format!("export XDG_STATE_HOME=$PWD/state\n{}", line.replace("web1:", "local:"));
        let ended = bash(&script, folder.path());
        assert_eq!(ended.code, Some(0), "{line}\n{}\n{}", ended.out(), ended.stderr);
    }
}

#[test]
fn every_block_of_commands_runs_in_an_empty_folder() {
    let blocks: Vec<Block> = pages().iter().flat_map(|page| blocks(page)).collect();
    assert!(blocks.len() >= 5, "README.md has its examples");
    for block in blocks {
        let folder = tempfile::tempdir().unwrap();
        // A guard: a minute of a processor for each program, as other work may take the time of the clock.
        let ended = bash(&format!("ulimit -t 60\n{}", block.script), folder.path());
        assert_eq!(ended.code, Some(0), "{}\n{}\n{}", block.place, ended.out(), ended.stderr);
    }
}
