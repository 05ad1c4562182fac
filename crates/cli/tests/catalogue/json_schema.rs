//! What every command prints with `--json`, judged by docs/json.schema.json: on a tree with rot, missing files and
//! errors, so that each definition is met by a real object.

use crate::common;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

use common::webhook::answering;
use common::{Ended, VERISUM, change_and_restore_time, command, data_file, repository, with_pipe};
use serde_json::Value;
use tempfile::TempDir;
use verisum_testkit::{require_tool, skip};

const SCHEMA: &str = "docs/json.schema.json";

/// Reads lines of a definition, a tab and an object; prints what is wrong with the first objects that are.
const JUDGE: &str = r##"
import json, sys
try:
    from jsonschema import Draft202012Validator
except ImportError:
    sys.exit(77)
schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
wrong = 0
for line in sys.stdin:
    name, text = line.split("\t", 1)
    judge = Draft202012Validator({"$defs": schema["$defs"], "$ref": "#/$defs/" + name})
    for error in judge.iter_errors(json.loads(text)):
        wrong += 1
        if wrong <= 20:
            print(name, error.json_path, error.message[:300], text)
"##;

/// Definitions that are met by no object here: tests of buckets print `costs`, tests of the Python package run
/// verisum-fleet.
const ELSEWHERE: [&str; 3] = ["costs", "fleet.fleet", "fleet.comparison"];

/// A folder with trees, and the objects that commands printed in it.
struct Trial {
    folder: TempDir,
    schema: Value,
    /// Lines with their definitions.
    objects: Vec<(String, String)>,
}

impl Trial {
    fn new() -> Trial {
        let trial = Trial { folder: tempfile::tempdir().unwrap(), schema: schema(), objects: Vec::new() };
        fs::create_dir_all(trial.path("tree/below")).unwrap();
        for number in 0..6 {
            fs::write(trial.path(&format!("tree/f{number}")), format!("content {number}")).unwrap();
        }
        fs::write(trial.path("tree/below").join(OsStr::from_bytes(b"\xff")), "no text").unwrap();
        fs::write(trial.path("config.toml"), "threads = 2\n[scrub]\nmax-age = '90d'\n").unwrap();
        trial
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = command(VERISUM);
        command.args(words.split(' ')).current_dir(self.folder.path());
        command.env("XDG_STATE_HOME", self.path("state")).env("HOME", self.folder.path());
        command.env("VERISUM_CONFIG", self.path("config.toml"));
        command
    }

    fn run(&self, words: &str) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    /// Runs a command; the definitions of its objects begin with this, or the first word of it.
    #[track_caller]
    fn take(&mut self, definitions: &str, words: &str, code: i32) {
        let ended = self.run(words);
        assert_eq!(ended.code, Some(code), "{words}: {}", ended.stderr);
        assert!(!ended.stdout.is_empty(), "{words}: {}", ended.stderr);
        self.keep(definitions, ended.out());
    }

    #[track_caller]
    fn keep(&mut self, definitions: &str, out: &str) {
        for line in out.lines() {
            let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let kind = object["type"].as_str().unwrap_or_else(|| panic!("no type: {line}"));
            let family = definitions.split('-').next().unwrap();
            let names = [definitions, family].map(|first| format!("{first}.{kind}"));
            let name = names.iter().find(|name| !self.schema["$defs"][name.as_str()].is_null());
            let name = name.unwrap_or_else(|| panic!("no definition of {names:?}: {line}"));
            self.objects.push((name.clone(), line.to_string()));
        }
    }

    /// Changes a file behind everybody's back.
    fn rot(&self, name: &str) {
        let content = fs::read_to_string(self.path(name)).unwrap();
        change_and_restore_time(&self.path(name), &content.replace("content", "CONTENT"));
    }

    /// Rot, a missing file, one that was written to, a renamed one and a new one.
    fn damage(&self) {
        self.rot("tree/f0");
        self.rot("tree/f5");
        fs::remove_file(self.path("tree/f1")).unwrap();
        fs::write(self.path("tree/f2"), "written to").unwrap();
        fs::rename(self.path("tree/f3"), self.path("tree/moved")).unwrap();
        fs::write(self.path("tree/new"), "new").unwrap();
    }

    /// Asserts that every object is as the schema says, and that every definition was met.
    fn judge(self, parts: &[&str]) {
        let Some(python) = require_tool("python3") else { return };
        let lines: String = self.objects.iter().map(|(name, line)| format!("{name}\t{line}\n")).collect();
        let mut judge = Command::new(python);
        let ended = with_pipe(judge.args(["-c", JUDGE]).arg(repository().join(SCHEMA)), lines.as_bytes());
        match ended.code {
            Some(77) => skip("python3-jsonschema is not installed"),
            code => assert_eq!((code, ended.out(), &*ended.stderr), (Some(0), "", "")),
        }
        let wanted: BTreeSet<String> = objects(&self.schema).filter(|name| is_part(name, parts)).collect();
        let met: BTreeSet<String> = self.objects.into_iter().map(|(name, _)| name).collect();
        assert_eq!(met, wanted);
    }
}

fn schema() -> Value {
    serde_json::from_slice(&fs::read(repository().join(SCHEMA)).unwrap()).unwrap()
}

/// The definitions of whole objects.
fn objects(schema: &Value) -> impl Iterator<Item = String> {
    let all = schema["anyOf"].as_array().unwrap();
    all.iter().map(|one| one["$ref"].as_str().unwrap().trim_start_matches("#/$defs/").to_string())
}

fn is_part(name: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| name.split(['.', '-']).next() == Some(part))
}

/// The first words of definitions, by the test that meets them.
const LISTS: [&str; 6] = ["sum", "check", "compare", "copy", "tags", "status"];
const RECORDS: [&str; 7] = ["parity", "scrub", "repair", "accept", "catalog", "notify", "bag"];
const OTHERS: [&str; 7] = ["image", "digests", "bench", "recommend", "report", "dirhash", "config"];

#[test]
fn all_definitions_are_tried_and_all_fields_told_of() {
    let schema = schema();
    let parts = [&LISTS[..], &RECORDS, &OTHERS].concat();
    let rest: Vec<String> = objects(&schema).filter(|name| !is_part(name, &parts)).collect();
    assert_eq!(rest, ELSEWHERE);
    let pages = ["json", "measuring", "recommend", "directory-hashes"];
    let page = |name| fs::read_to_string(repository().join(format!("docs/{name}.md"))).unwrap();
    let pages = pages.map(page).concat();
    let mut fields = BTreeSet::new();
    collect(&schema["$defs"], &mut fields);
    let lacking: Vec<_> = fields.iter().filter(|name| !pages.contains(&format!("`{name}`"))).collect();
    assert!(lacking.is_empty(), "no page tells of {lacking:?}");
}

/// The names of all fields.
fn collect<'a>(schema: &'a Value, fields: &mut BTreeSet<&'a str>) {
    for (key, value) in schema.as_object().into_iter().flatten() {
        match value.as_object().filter(|_| key == "properties") {
            Some(properties) => {
                fields.extend(properties.keys().map(String::as_str));
                properties.values().for_each(|field| collect(field, fields));
            }
            None => collect(value, fields),
        }
    }
    schema.as_array().into_iter().flatten().for_each(|value| collect(value, fields));
}

#[test]
fn what_lists_and_tags_say() {
    let mut trial = Trial::new();
    fs::write(trial.path("SUMS"), trial.run("sum -r tree").stdout).unwrap();
    let sized = trial.run("sum --format hashdeep -a md5,sha256 tree/f4").out().replace("\n9,", "\n8,");
    fs::write(trial.path("sized"), sized).unwrap();
    trial.take("sum", "sum -r --json -a sha256,s3-etag:8M tree", 0);
    let here = trial.path("").display().to_string();
    trial.take("sum", &format!("sum --json local:{here}tree"), 0);
    trial.take("tags", "tag --json --dry-run tree", 0);
    trial.take("tags", "tag --json --verbose tree", 0);
    trial.take("copy", "copy --json --verbose tree other", 0);
    trial.run("scrub --quiet tree").clean();

    trial.damage();
    trial.take("check", "check --json --strict-tree tree SUMS", 1);
    trial.take("check", "check --json sized", 1);
    trial.take("check", &format!("check --json SUMS local:{here}"), 1);
    // A directory in the place of a file cannot be read.
    fs::create_dir(trial.path("tree/f1")).unwrap();
    trial.take("check", "check --json SUMS", 1);
    fs::remove_dir(trial.path("tree/f1")).unwrap();
    trial.take("compare", "compare --json other tree", 1);
    trial.run("copy --quiet other like-other").clean();
    trial.take("compare", "compare --json other tree like-other", 1);
    trial.take("compare", "compare --json --verbose other tree", 1);
    trial.take("tags", "verify --json tree", 1);
    trial.take("tags-list", "tags list --json --verbose tree", 0);
    trial.take("status", "status --json tree", 0);
    trial.take("status", "status --json --older-than 1d tree", 0);
    trial.take("copy", "copy --json --allow-bad --verbose tree third", 1);
    trial.take("tags", "retag --json --verbose --from sha256 --to md5 tree", 1);
    trial.take("tags", "untag --json --verbose tree", 0);
    trial.judge(&LISTS);
}

#[test]
fn what_is_said_of_records() {
    let mut trial = Trial::new();
    fs::copy(trial.path("tree/f4"), trial.path("tree/twin")).unwrap();
    trial.run("copy --quiet tree other").clean();
    trial.take("parity-create", "parity create --json tree", 0);
    trial.take("scrub", "scrub --json tree", 0);
    trial.damage();
    trial.take("parity-verify", "parity verify --json tree", 1);
    trial.take("scrub", "scrub --json tree", 1);
    if require_tool("ssh").is_some() {
        trial.take("scrub", "scrub --json ssh://127.0.0.1:1/none", 3);
    } else {
        trial.keep(
            "scrub",
            r#"{"version":1,"type":"failed","path":"ssh://127.0.0.1:1/none","error":"no ssh"}"#,
        );
    }
    trial.take("catalog-list", "catalog list --json", 1);
    trial.take("catalog-list", "catalog list --json --bad --missing", 1);
    trial.take("catalog-list", "catalog list --json --duplicates", 0);
    trial.take("catalog-status", "catalog status --json", 0);
    trial.take("repair", "repair --json --dry-run --from other tree", 1);
    trial.take("accept", "accept --json --dry-run tree", 0);
    let (url, served) = answering("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    fs::write(trial.path("url"), url).unwrap();
    trial.run("notify --webhook-file url --webhook-file none -- sum tree/f0");
    let notice = String::from_utf8(served.join().unwrap().1).unwrap();
    assert!(notice.contains(r#""outcome":"clean""#), "{notice}");
    trial.keep("notify", &notice);
    trial.take("parity-repair", "parity repair --json --dry-run tree", 3);
    trial.take("scrub", "scrub --json --repair --from other tree", 1);
    trial.take("repair", "repair --json tree", 1);
    fs::create_dir(trial.path("kept")).unwrap();
    trial.take("repair", "repair --json --from other --keep-bad kept tree", 0);
    trial.take("catalog-list", "catalog list --json --repaired", 0);

    // A bad file that is mended in place, written to and renamed is remembered.
    trial.rot("tree/f5");
    trial.run("scrub --quiet tree");
    for content in ["content 5", "something new"] {
        fs::write(trial.path("tree/f5"), content).unwrap();
        trial.take("scrub", "scrub --json tree", 0);
    }
    fs::rename(trial.path("tree/f5"), trial.path("tree/renamed")).unwrap();
    trial.take("scrub", "scrub --json tree", 0);
    trial.take("catalog-export", "catalog export", 0);
    trial.take("catalog-export", "catalog export --format parquet --json lake", 0);
    fs::write(trial.path("tree/.verisum-parity/index.copy"), "damaged").unwrap();
    trial.take("parity-verify", "parity verify --json tree", 1);
    trial.take("scrub", "scrub --json tree", 1);
    manage(&mut trial);
    trial.judge(&RECORDS);
}

/// The commands that manage a catalogue, `bag create` and `notify`.
fn manage(trial: &mut Trial) {
    trial.take("catalog-check", "catalog check --json", 0);
    trial.take("catalog-backup", "catalog backup --json backup", 0);
    trial.take("catalog-restore", "catalog restore --json backup", 0);
    fs::write(trial.path("SUMS"), trial.run("sum -r other").stdout).unwrap();
    trial.run("scrub --quiet other").clean();
    trial.take("catalog-import", "catalog import --json --dry-run SUMS", 0);
    trial.take("catalog-import", "catalog import --json SUMS", 0);
    fs::rename(trial.path("other"), trial.path("another")).unwrap();
    trial.take("catalog-relocate", "catalog relocate --json other another", 0);
    trial.take("catalog-rehash", "catalog rehash --json --to md5", 0);
    trial.take("catalog-rehash", "catalog rehash --json --stop", 0);
    trial.take("catalog-forget", "catalog forget --json --dry-run another", 0);
    trial.take("catalog-forget", "catalog forget --json another", 0);
    fs::write(trial.path("damaged"), "SQLite format 3\0 and no more").unwrap();
    trial.take("catalog-check", "catalog check --json --catalog damaged", 1);
    trial.take("catalog-restore", "catalog restore --json damaged", 1);
    fs::create_dir(trial.path("bag")).unwrap();
    fs::write(trial.path("bag/a"), "in a bag").unwrap();
    trial.take("bag-create", "bag create --json bag", 0);
    for (command, code) in [("sum none", 3), ("sum tree/f4", 0)] {
        let notify = "notify --json --sendmail /bin/false --mail nobody@example.org --";
        let ended = trial.run(&format!("{notify} {command}"));
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        // What the command prints comes first.
        trial.keep("notify", ended.out().lines().last().unwrap());
    }
}

#[test]
fn what_is_said_of_images_and_measurements() {
    let mut trial = Trial::new();
    data_file(&trial.path(""), "a.img", 1_000_000);
    trial.take("image-sum", "image sum --json a.img", 0);
    trial.take("image-sum", "image map --json -o a.map a.img", 0);
    trial.take("image-info", "image info --json a.img", 0);
    trial.take("image-info", "image info --json a.map", 0);
    let mut bytes = fs::read(trial.path("a.img")).unwrap();
    bytes[300_000] ^= 1;
    fs::write(trial.path("b.img"), &bytes).unwrap();
    trial.take("image-diff", "image diff --json a.img b.img", 1);
    trial.take("image-diff", "image verify --json --map a.map a.img", 0);
    fs::write(trial.path("ranges"), "262144 65536\n").unwrap();
    trial.take("image-sum", "image update --json --map a.map --ranges ranges -o b.map b.img", 0);
    trial.take("image-repair", "image repair --json --map a.map --from a.img b.img", 0);
    if require_tool("qemu-img").is_some() {
        let script = "qemu-img create -q -f qcow2 -b a.img -F raw q.qcow2 && qemu-img snapshot -c monday q.qcow2 && \
                      qemu-img bitmap --add q.qcow2 changes";
        let made = Command::new("sh").args(["-c", script]).current_dir(trial.path("")).status().unwrap();
        assert!(made.success());
        trial.take("image-info", "image info --json q.qcow2", 0);
    }
    trial.take("config-show", "config show --json", 0);
    trial.take("digests", "digests --json", 0);
    trial.take("digests", "digests --json --measure", 0);
    trial.take("bench", "bench digests --json --only process -a crc32c --message 1k --runs 1", 0);
    trial.take("recommend", "recommend --json --on tree --for 1s", 0);
    trial.run("scrub --quiet tree").clean();
    trial.damage();
    trial.run("scrub --quiet tree");
    trial.take("report", "report --json", 1);
    trial.take("report", "dirhash names --json -n 1000", 0);
    trial.take("dirhash", "dirhash hash --json --hash half_md4 a", 0);
    trial.take("dirhash", "dirhash attack --list --json --hash xfs -n 2", 0);
    trial.judge(&OTHERS);
}
