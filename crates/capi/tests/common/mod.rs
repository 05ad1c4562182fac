//! Building C programs against the shared library that cargo has just built.
#![allow(dead_code)] // Each test file uses a part of it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use verisum_testkit::require_tool;

/// A file or folder of this crate.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The shared library. Cargo puts it beside the tests, in the folder of everything that they need, and
/// builds it before them.
pub fn shared_library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libblkhash.so");
    assert!(library.is_file(), "{} was not built", library.display());
    library
}

/// The names of the functions that the header declares, in alphabetical order.
pub fn declared() -> Vec<String> {
    let header = fs::read_to_string(source("include/blkhash.h")).unwrap();
    let mut names: Vec<String> = header
        .lines()
        .filter(|line| line.ends_with(");") && !line.starts_with([' ', '/']))
        .filter_map(|line| line[..line.find('(')?].rsplit([' ', '*']).next())
        .map(str::to_string)
        .collect();
    names.sort_unstable();
    names
}

/// A folder with the library under the names that an installation gives it, and programs.
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    /// `None`, loudly, where there is no C compiler.
    pub fn new() -> Option<Bench> {
        require_tool("cc")?;
        let folder = tempfile::tempdir().unwrap();
        for name in ["libblkhash.so", "libblkhash.so.0"] {
            symlink(shared_library(), folder.path().join(name)).unwrap();
        }
        Some(Bench { folder })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a program of this crate.
    pub fn compile(&self, file: &str) -> PathBuf {
        let program = self.path(Path::new(file).file_stem().unwrap().to_str().unwrap());
        let mut command = Command::new("cc");
        command
            .args(["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-g", "-pthread"])
            .arg("-I")
            .arg(source("include"))
            .arg("-o")
            .arg(&program)
            .arg(source(file))
            .arg("-L")
            .arg(self.folder.path())
            .arg("-lblkhash");
        succeed(&mut command);
        program
    }

    /// A command that finds the library.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.folder.path());
        command
    }

    /// Writes the chosen vectors in the form that vectors.c reads; returns the file and their number.
    pub fn write_vectors(&self, name: &str, choice: impl Fn(&Vector) -> bool) -> (PathBuf, usize) {
        let chosen: Vec<Vector> = vectors().into_iter().filter(choice).collect();
        assert!(!chosen.is_empty());
        let lines: String = chosen.iter().map(|vector| vector.line.clone() + "\n").collect();
        fs::write(self.path(name), lines).unwrap();
        (self.path(name), chosen.len())
    }
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a command that must succeed, and gives what it printed.
pub fn text(command: &mut Command) -> String {
    String::from_utf8(succeed(command).stdout).unwrap()
}

/// A vector of vectors/blockhash.json.
pub struct Vector {
    pub digest: String,
    pub block_size: u64,
    pub length: u64,
    /// Too long to be held in memory.
    pub sparse: bool,
    line: String,
}

pub fn vectors() -> Vec<Vector> {
    let path = source("../../vectors/blockhash.json");
    let file: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut vectors = Vec::new();
    for (list, sparse) in [("vectors", false), ("sparse", true)] {
        for vector in file[list].as_array().unwrap() {
            let text = |key: &str| vector[key].as_str().unwrap().to_string();
            let number = |value: &Value| value.as_u64().unwrap();
            let (digest, block_size) = (text("digest"), number(&vector["block_size"]));
            let hex = Some(text("hex")).filter(|hex| !hex.is_empty()).unwrap_or("-".into());
            let mut line = format!("{digest} {block_size} {hex}");
            for run in vector["runs"].as_array().unwrap() {
                let kind = if run["kind"] == "data" { 'd' } else { 'z' };
                line += &format!(" {kind}{}", number(&run["length"]));
            }
            let length = number(&vector["length"]);
            vectors.push(Vector { digest, block_size, length, sparse, line });
        }
    }
    assert!(vectors.len() > 1000);
    vectors
}
