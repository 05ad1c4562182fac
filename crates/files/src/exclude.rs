//! Exclude patterns of a walk, written as in `.gitignore`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::Kind;
use crate::store::manifest::Listed;

/// Patterns of what a walk leaves out. A later one overrules an earlier one; `!` takes back in; one with a
/// slash at its start or within it is for paths from a root of the walk, any other for names at any depth;
/// a slash at its end is for directories only. What is in a directory that is left out is not looked at.
#[derive(Clone, Debug)]
pub struct Excludes(Gitignore);

/// A pattern that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("{pattern}: {reason}")]
pub struct BadPattern {
    /// As it was given.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Excludes {
    /// Reads patterns: one a line, without comments if they come from a command line.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Excludes, BadPattern> {
        let mut builder = GitignoreBuilder::new("");
        let bad = |pattern: &str, reason: ignore::Error| BadPattern {
            pattern: pattern.to_string(),
            reason: match reason {
                ignore::Error::Glob { err, .. } => err,
                other => other.to_string(),
            },
        };
        for pattern in patterns {
            builder.add_line(None, pattern).map_err(|e| bad(pattern, e))?;
        }
        builder.build().map(Excludes).map_err(|e| bad("", e))
    }

    /// Whether an entry is left out, by its path from a root of the walk.
    pub fn leaves_out(&self, path: &Path, is_directory: bool) -> bool {
        matches!(self.0.matched(path, is_directory), Match::Ignore(_))
    }

    /// Whether a file is left out, by itself or because a directory that it is in is.
    pub fn leaves_out_file(&self, path: &Path) -> bool {
        let folders = path.ancestors().skip(1).filter(|folder| *folder != Path::new(""));
        self.leaves_out(path, false) || folders.into_iter().any(|folder| self.leaves_out(folder, true))
    }

    /// Whether what a list names is left out: its name is a path from where the names of the list begin.
    pub(crate) fn leaves_out_listed(&self, listed: &Listed) -> bool {
        let name = Path::new(OsStr::from_bytes(&listed.name));
        // `.` and `..` are no names that a pattern is for.
        let name: PathBuf = name.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let is_directory = listed.kind == Some(Kind::Directory);
        self.leaves_out_file(&name) || (is_directory && self.leaves_out(&name, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_git() {
        let excludes = Excludes::new(["*.o", "!keep.o", "/top", "a/b", "tmp/", "# comment", ""]).unwrap();
        let out = |path: &str| excludes.leaves_out(Path::new(path), false);
        assert!(out("x.o") && out("a/x.o") && !out("keep.o") && !out("a/keep.o"));
        assert!(out("top") && !out("a/top") && out("a/b") && !out("c/a/b"));
        assert!(!out("tmp") && excludes.leaves_out(Path::new("c/tmp"), true));
        assert!(!out("# comment"));
        let below = |path: &str| excludes.leaves_out_file(Path::new(path));
        assert!(below("c/tmp/d/file") && below("top/file") && below("c/x.o") && !below("c/tmp"));
        assert!(Excludes::new(["[z-a]"]).unwrap_err().to_string().starts_with("[z-a]: "));
    }
}
