//! Completions as the shells give them: trees of the catalogue and places of the configuration among them.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, VERISUM, command, verisum};
use tempfile::TempDir;
use verisum_testkit::require_tool;

/// A machine with two trees in its catalogue, another one in a second catalogue, and two places.
struct Machine {
    folder: TempDir,
}

const CONFIG: &str = "[places.offsite]\naddress = 's3://backup/data'\n[places.nas]\naddress = 'nas:/srv'\n";

impl Machine {
    fn new() -> Machine {
        let machine = Machine { folder: tempfile::tempdir().unwrap() };
        for tree in ["archive", "my photos", "other"] {
            fs::create_dir(machine.path(tree)).unwrap();
            fs::write(machine.path(tree).join("a"), tree).unwrap();
        }
        fs::write(machine.path("verisum.toml"), CONFIG).unwrap();
        fs::create_dir(machine.path("state")).unwrap();
        machine.run(&["scrub", "archive", "my photos"]);
        machine.run(&["scrub", "--catalog", "other.db", "other"]);
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let programs = Path::new(VERISUM).parent().unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(programs.to_path_buf()).chain(std::env::split_paths(&path));
        command.current_dir(self.folder.path()).env("PATH", std::env::join_paths(path).unwrap());
        command.env("VERISUM_CONFIG", self.path("verisum.toml")).env("HOME", self.folder.path());
        command.env("XDG_STATE_HOME", self.path("state")).env_remove("XDG_CONFIG_HOME")
    }

    fn run(&self, words: &[&str]) -> String {
        let ended = Ended::of(self.set(command(VERISUM).args(words)).output().unwrap());
        assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.stderr);
        ended.out().to_string()
    }

    /// What the last of these words may become, each without the folder of this machine.
    fn complete(&self, words: &[&str]) -> Vec<String> {
        self.found(&self.run(&[&["complete", "--"], words].concat()))
    }

    fn found(&self, lines: &str) -> Vec<String> {
        let folder = format!("{}/", self.folder.path().display());
        let mut found: Vec<String> = lines.lines().map(|line| line.replace(&folder, "")).collect();
        found.sort();
        found
    }

    /// What a shell says after the completions for it.
    fn shell(&self, shell: &str, script: &str) -> Option<Vec<String>> {
        let program = require_tool(shell)?;
        fs::write(self.path("script"), verisum(["completions", shell]).clean()).unwrap();
        let ended = self.set(Command::new(program).arg("-c").arg(script)).output().unwrap();
        let ended = Ended::of(ended);
        assert_eq!(ended.stderr, "", "{script}");
        Some(self.found(ended.out()))
    }
}

#[test]
fn words_that_are_trees_or_places() {
    let machine = Machine::new();
    let trees = ["archive", "my photos"];
    let here = ["archive", "my photos", "nas:/srv", "s3://backup/data"];
    for (words, found) in [
        (&["verisum", "scrub", ""][..], &here[..]),
        (&["verisum", "accept", ""], &here),
        (&["verisum", "scrub", "--archive", "-q", "archive", "s3:"], &here[3..]),
        (&["verisum", "copy", "--limit", "1M", "nas"], &here[2..3]),
        (&["verisum", "verify", ""], &trees),
        (&["verisum", "repair", "--from", ""], &here),
        (&["verisum", "repair", "--from=s3"], &["--from=s3://backup/data"]),
        (&["verisum", "catalog", "export", "--tree", ""], &trees),
        (&["verisum", "catalog", "forget", ""], &trees),
        (&["verisum", "scrub", "--catalog", "other.db", ""], &["nas:/srv", "other", "s3://backup/data"]),
        (&["verisum", "scrub", "--catalog=other.db", "--", "n"], &["nas:/srv"]),
        // Other kinds of words.
        (&["verisum", "scrub", "--max-age", ""], &[]),
        (&["verisum", "scrub", "-a", ""], &[]),
        (&["verisum", "scrub", "--keep-bad", ""], &[]),
        (&["verisum", "scrub", "-"], &[]),
        (&["verisum", "bench", "scale", ""], &[]),
        (&["verisum", "catalog", ""], &[]),
        (&["verisum", ""], &[]),
        (&["verisum"], &[]),
        (&[], &[]),
    ] {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(machine.complete(&words), found, "{words:?}");
    }
    // A line, as bash has it, and a path that begins where the tree is.
    let begin = machine.path("my p");
    let line = format!("cd /tmp; nice verisum scrub -q '{}", begin.display());
    assert_eq!(machine.found(&machine.run(&["complete", "--line", &line])), ["my photos"]);
    // The catalogue has records of trees elsewhere, which its commands take, and others do not.
    let export = machine.run(&["catalog", "export"]);
    let moved = export.replace(&machine.path("archive").display().to_string(), "ssh://nas/srv/archive");
    fs::write(machine.path("export"), moved).unwrap();
    machine.run(&["catalog", "import", "--catalog", "far.db", "export"]);
    let far =
        |words: &[&str]| machine.complete(&[&["verisum"], words, &["--catalog", "far.db", ""]].concat());
    assert_eq!(far(&["catalog", "forget"]), ["my photos", "ssh://nas/srv/archive"]);
    assert_eq!(far(&["verify"]), ["my photos"]);
    // What cannot be read has no candidates, and nothing is said or logged of that.
    fs::write(machine.path("verisum.toml"), format!("log-file = 'log'\ncatalog = 'none.db'\n{CONFIG}"))
        .unwrap();
    assert_eq!(machine.complete(&["verisum", "verify", ""]), [""; 0]);
    fs::write(machine.path("verisum.toml"), "log-file = 'log'\n[scrub]\ncatalog = 'other.db'\n").unwrap();
    assert_eq!(machine.complete(&["verisum", "scrub", ""]), ["other"]);
    assert!(!machine.path("log").exists());
}

#[test]
fn bash_offers_trees_beside_files() {
    let machine = Machine::new();
    // Bash takes words apart at `:` and `=`.
    let ask = |line: &str, words: &str, current: usize| {
        let script = format!(
            "compopt() {{ :; }}; source ./script; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({words}); \
             COMP_CWORD={current}; _verisum_values verisum \"${{COMP_WORDS[{current}]}}\" \"${{COMP_WORDS[{current}-1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        machine.shell("bash", &script)
    };
    let Some(found) = ask("verisum scrub ", "verisum scrub ''", 2) else { return };
    for one in ["archive", "my photos", "nas:/srv", "s3://backup/data", "verisum.toml"] {
        assert!(found.iter().any(|found| found == one), "{one}: {found:?}");
    }
    // A tree is offered once, be it typed from here or from the root.
    assert_eq!(found.iter().filter(|one| *one == "archive").count(), 1, "{found:?}");
    let begun = format!("verisum catalog forget {}", machine.path("arch").display());
    assert_eq!(ask(&begun, &begun, 3).unwrap(), ["archive"]);
    assert_eq!(ask("verisum scrub s3://b", "verisum scrub s3 : //b", 4).unwrap(), ["//backup/data"]);
    assert_eq!(ask("verisum scrub s3:", "verisum scrub s3 :", 3).unwrap(), ["//backup/data"]);
    let of_option = ask("verisum repair --from=s3://b", "verisum repair --from = s3 : //b", 6);
    assert_eq!(of_option.unwrap(), ["//backup/data"]);
    let digests = ask("verisum scrub -a sha51", "verisum scrub -a sha51", 3).unwrap();
    assert_eq!(digests, ["sha512", "sha512-224", "sha512-256"]);
    // An option and its value may be one word, of which nothing need be typed.
    let joined = ask("verisum scrub --algorithm=sha51", "verisum scrub --algorithm = sha51", 4).unwrap();
    assert_eq!(joined, digests);
    for (line, words, current) in [
        ("verisum scrub -a ", "verisum scrub -a ''", 3),
        ("verisum scrub --algorithm=", "verisum scrub --algorithm =", 3),
    ] {
        let found = ask(line, words, current).unwrap();
        assert!(
            digests.iter().all(|one| found.contains(one)) && found.contains(&"md5".to_string()),
            "{line}"
        );
    }
    let commands = ask("verisum catalog ", "verisum catalog ''", 2).unwrap();
    assert!(commands.contains(&"export".to_string()) && !commands.concat().contains('-'), "{commands:?}");
    let files = ask("verisum sum ", "verisum sum ''", 2).unwrap();
    assert!(files.contains(&"verisum.toml".to_string()) && !files.concat().contains("--"), "{files:?}");
    let trees = ask("verisum catalog list --tree=", "verisum catalog list --tree =", 4).unwrap();
    assert!(trees.contains(&"my photos".to_string()), "{trees:?}");
}

#[test]
fn fish_offers_trees_and_places() {
    let machine = Machine::new();
    let ask = |line: &str| {
        let found = machine.shell("fish", &format!("source ./script; complete -C '{line}'"))?;
        Some(found.iter().map(|line| line.split('\t').next().unwrap().to_string()).collect::<Vec<_>>())
    };
    let Some(found) = ask("verisum scrub ") else { return };
    for one in ["archive", "my photos", "nas:/srv", "s3://backup/data"] {
        assert!(found.iter().any(|found| found == one), "{one}: {found:?}");
    }
    assert_eq!(ask("verisum repair --from s3").unwrap(), ["s3://backup/data"]);
    let joined = ask("verisum repair --from=s3").unwrap();
    assert!(joined.iter().any(|one| one.ends_with("s3://backup/data")), "{joined:?}");
    assert!(ask("verisum scrub -a sha51").unwrap().iter().any(|one| one == "sha512"));
}

#[test]
fn zsh_offers_trees_and_places() {
    let machine = Machine::new();
    let ask = |words: &str, current: usize| {
        let script = format!(
            "compdef() {{ }}; compadd() {{ shift; print -rl -- \"$@\" }}; _arguments() {{ return 1 }}; source ./script; \
             words=({words}); CURRENT={current}; _verisum; true"
        );
        machine.shell("zsh", &script)
    };
    let Some(found) = ask("verisum scrub ''", 3) else { return };
    assert_eq!(found, ["archive", "my photos", "nas:/srv", "s3://backup/data"]);
    assert_eq!(ask("verisum repair --from s3", 4).unwrap(), ["s3://backup/data"]);
}

#[test]
fn bash_completes_blksum() {
    let Some(bash) = require_tool("bash") else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = verisum(["completions", "--program", "blksum", "bash"]).clean();
    fs::write(folder.path().join("script"), script).unwrap();
    let ask = |words: &str, current: usize| {
        let script = format!(
            "source ./script; COMP_WORDS=({words}); COMP_CWORD={current}; _blksum blksum \
             \"${{COMP_WORDS[{current}]}}\" \"${{COMP_WORDS[{current}-1]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        let mut shell = Command::new(&bash);
        Ended::of(shell.args(["-c", &script]).current_dir(folder.path()).output().unwrap()).clean()
    };
    assert_eq!(ask("blksum --block", 1), "--block-size\n");
    assert_eq!(ask("blksum --ver", 1), "--version\n");
    assert_eq!(ask("blksum --digest sha512-2", 2), "sha512-224 sha512-256\n");
}
