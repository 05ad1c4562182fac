//! Lists that others wrote: what reading one costs and prints is in proportion to its length.

use crate::common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{Ended, VERISUM, command};
use verisum::files::store::manifest::ListFormat;
use verisum_testkit::require_python;

/// MiB of memory that a run may take for any list here; the longest has 4.
const MEMORY: u64 = 160;

/// Runs programs, and prints of each the most KiB of memory that it took, how many bytes it wrote and its exit code. A
/// line tells a folder and the words of a command, each with a tab behind it.
const MEASURE: &str = "
import os, subprocess, sys
for line in sys.stdin:
    folder, *words = line.split('\\t')[:-1]
    run = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    written = sum(map(len, iter(lambda: run.stdout.read(65536), b'')))
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    run.stdout.close()
    print(usage.ru_maxrss, written, run.returncode, flush=True)
";

/// Measures programs: one interpreter for all, as to start one takes longer than most of what is measured.
struct Meter {
    python: Child,
    told: BufReader<ChildStdout>,
}

impl Meter {
    fn start(python: &Path) -> Meter {
        let mut command = Command::new(python);
        command.args(["-S", "-c", MEASURE]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = command.spawn().unwrap();
        let told = BufReader::new(python.stdout.take().unwrap());
        Meter { python, told }
    }

    /// The most KiB of memory, the bytes written, and the exit code.
    fn measure(&mut self, folder: &Path, arguments: &[String]) -> (u64, usize, i32) {
        let mut line = format!("{}\t{VERISUM}\t", folder.display());
        arguments.iter().for_each(|word| line.extend([word.as_str(), "\t"]));
        line.push('\n');
        self.python.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let mut text = String::new();
        self.told.read_line(&mut text).unwrap();
        let mut words = text.split_whitespace();
        let mut next = || words.next().unwrap_or_else(|| panic!("{text}"));
        (next().parse().unwrap(), next().parse().unwrap(), next().parse().unwrap())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.python.stdin.take());
        let _ = self.python.wait();
    }
}

const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

/// A line that lists a file of this name.
fn line(format: ListFormat, name: &str) -> String {
    match format {
        ListFormat::Gnu | ListFormat::Bagit => format!("{MD5}  {name}\n"),
        ListFormat::Bsd => format!("MD5 ({name}) = {MD5}\n"),
        ListFormat::Sfv => format!("{name} 352441c2\n"),
        ListFormat::Hashdeep => format!("1,{MD5},{name}\n"),
        ListFormat::Mtree => format!("{name} md5={MD5}\n"),
        ListFormat::S3 => format!("{name},1,{MD5}\n"),
        ListFormat::Json => format!("{{\"path\":\"{name}\",\"digests\":{{\"md5\":\"{MD5}\"}}}}\n"),
    }
}

/// What stands before all lines.
fn head(format: ListFormat) -> &'static str {
    match format {
        ListFormat::Hashdeep => "%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n",
        ListFormat::Mtree => "#mtree\n",
        ListFormat::Sfv => "; a list\n",
        ListFormat::S3 => "Key,Size,MD5\n",
        ListFormat::Gnu | ListFormat::Bsd | ListFormat::Bagit | ListFormat::Json => "",
    }
}

/// The shortest things that stand for a character in a name.
fn escape(format: ListFormat) -> &'static str {
    match format {
        ListFormat::Gnu | ListFormat::Bsd | ListFormat::Sfv | ListFormat::Hashdeep => "\\n",
        ListFormat::Mtree => "\\040",
        ListFormat::Bagit | ListFormat::S3 => "%0A",
        ListFormat::Json => "\\u0001",
    }
}

/// Lists that cost much where somebody was careless, each with what it is.
fn hostile(format: ListFormat) -> Vec<(&'static str, String)> {
    let one = |name: &str| line(format, name);
    let mut lists = vec![
        ("short names", one("a").repeat(20_000)),
        ("long names", one(&"n".repeat(60_000)).repeat(20)),
        ("long paths", one(&"d/".repeat(30_000)).repeat(20)),
        ("many escapes", one(&escape(format).repeat(20_000)).repeat(10)),
        ("one long line", one(&"n".repeat(4 << 20))),
        ("no line at all", "n".repeat(4 << 20)),
        ("lines without sense", one("a") + &"x\n".repeat(100_000)),
        ("empty lines", "\n".repeat(1 << 20) + &one("a")),
        ("comments", one("a") + &format!("#{}\n", "c".repeat(1000)).repeat(1000)),
    ];
    match format {
        ListFormat::Mtree => {
            let nested = "d type=dir\n".repeat(100_000);
            let long = format!("{} type=dir\n", "d".repeat(200)).repeat(5000);
            let digests = "md5=900150983cd24fb0d6963f7d28e17f72 ".repeat(2000);
            lists.extend([
                ("nested directories", nested.clone()),
                ("nested directories with files", nested + &one("f").repeat(20_000)),
                ("nested directories of long names", long + &one("f").repeat(2000)),
                (
                    "short names in a deep directory",
                    format!("/set md5={MD5}\n{}", format!("{} type=dir\n", "d".repeat(200)).repeat(20))
                        + &"a\n".repeat(40_000),
                ),
                ("up and down", "d type=dir\n..\n".repeat(50_000)),
                ("many /set", format!("/set md5={MD5} size=1\n").repeat(20_000) + &one("a")),
                ("a long /set", format!("/set {digests}\n") + &"a\n".repeat(20_000)),
                (
                    "a long unknown digest",
                    format!("/set {}digest=1\n", "x".repeat(500_000)) + &"a\n".repeat(5000),
                ),
                ("continued lines", "a \\\n".repeat(200_000) + &one("a")),
            ]);
        }
        ListFormat::Hashdeep => {
            let columns = format!("%%%% size,{}filename\n", "md5,".repeat(50_000));
            lists.extend([
                ("many columns", columns.repeat(5) + &one("a").repeat(1000)),
                ("many heads", head(format).repeat(20_000) + &one("a")),
                ("many commas", one(&",".repeat(60_000)).repeat(20)),
            ]);
        }
        ListFormat::Json => {
            let many = format!("\"md5\":\"{MD5}\",").repeat(20_000);
            let object = format!("{{\"path\":\"a\",\"digests\":{{{many}\"md5\":\"{MD5}\"}}}}\n");
            let nested = |open: &str| one("a") + &format!("{{\"path\":{}\n", open.repeat(100_000)).repeat(5);
            lists.extend([
                ("many digests", object.repeat(4)),
                ("nested arrays", nested("[")),
                ("nested objects", nested("{\"path\":")),
            ]);
        }
        ListFormat::S3 => {
            lists.push(("many columns", format!("Key,Size,{}\n", "MD5,".repeat(50_000)) + &one("a")))
        }
        ListFormat::Gnu | ListFormat::Bsd | ListFormat::Sfv | ListFormat::Bagit => {}
    }
    lists
}

/// Indexes of other tools, each with the name that it has and what it is.
fn hostile_indexes(folder: &Path, python: &Path) -> Vec<(&'static str, &'static str)> {
    let index = |entries: &str| format!("{{\"v\":2,\"idx\":{{{entries}}},\"idx_hash\":\"{MD5}\"}}");
    let entry = |name: &str| format!("\"{name}\":{{\"mod\":1,\"a\":\"md5\",\"h\":\"{MD5}\"}}");
    let files = [
        ("many files", index(&vec![entry("a"); 40_000].join(","))),
        ("long names", index(&vec![entry(&"n".repeat(60_000)); 60].join(","))),
        ("many escapes", index(&vec![entry(&"\\u0001".repeat(10_000)); 60].join(","))),
        ("many digests", index(&format!("\"a\":{{{}\"mod\":1}}", "\"h\":\"00\",".repeat(300_000)))),
        ("nested objects", format!("{{\"v\":2,\"idx\":{}", "{\"a\":".repeat(500_000))),
        ("a long number", format!("{{\"v\":2,\"idx\":{{\"a\":{{\"mod\":{}}}}}}}", "1".repeat(4 << 20))),
    ];
    let mut names = Vec::new();
    for (what, text) in files {
        fs::create_dir(folder.join(what)).unwrap();
        fs::write(folder.join(what).join(".chkbit"), text).unwrap();
        names.push((what, ".chkbit"));
    }
    for (what, rows) in [
        ("many rows", "((str(n), 1, 'a' * 40) for n in range(40000))"),
        ("rows of long paths", "(('n' * 100000 + str(n), 1, 'a' * 40) for n in range(40))"),
        ("rows of long digests", "((str(n), 1, 'a' * 100000) for n in range(40))"),
        ("rows of long times", "((str(n), 'a' * 100000, 'a' * 40) for n in range(40))"),
    ] {
        fs::create_dir(folder.join(what)).unwrap();
        let script = format!(
            "import sqlite3\n\
             base = sqlite3.connect('.bitrot.db')\n\
             base.execute('CREATE TABLE bitrot (path TEXT PRIMARY KEY, mtime INTEGER, hash TEXT, timestamp TEXT)')\n\
             base.executemany('INSERT INTO bitrot VALUES (?, ?, ?, 0)', {rows})\n\
             base.commit()\n"
        );
        let made =
            Command::new(python).current_dir(folder.join(what)).args(["-c", &script]).status().unwrap();
        assert!(made.success(), "{what}");
        names.push((what, ".bitrot.db"));
    }
    names
}

/// The commands that read a list of this name.
fn readers(list: &str) -> [Vec<String>; 3] {
    [
        vec!["check".into(), list.into()],
        vec!["adopt".into(), "--from".into(), list.into(), ".".into()],
        vec!["catalog".into(), "import".into(), "--catalog".into(), "catalog.db".into(), list.into()],
    ]
}

#[test]
fn no_list_costs_more_than_its_length() {
    let Some(python) = require_python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut meter = Meter::start(&python);
    for format in ListFormat::ALL {
        for (what, body) in hostile(format) {
            let name = match format {
                ListFormat::Bagit => "manifest-md5.txt",
                ListFormat::Sfv => "list.sfv",
                _ => "list",
            };
            fs::write(folder.path().join(name), [head(format), &body].concat()).unwrap();
            for reader in readers(name) {
                assert_cost(&mut meter, (folder.path(), name), &reader, &format!("{format}, {what}"));
            }
        }
    }
}

#[test]
fn no_index_costs_more_than_its_length() {
    let Some(python) = require_python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut meter = Meter::start(&python);
    for (what, name) in hostile_indexes(folder.path(), &python) {
        let [_, adopt, import] = readers(name);
        for reader in [adopt, import] {
            assert_cost(&mut meter, (&folder.path().join(what), name), &reader, what);
        }
    }
}

/// Their paths are a hundred times longer than the list.
#[test]
fn bad_files_cost_no_more_than_their_lines() {
    let Some(python) = require_python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut meter = Meter::start(&python);
    let base = vec!["d".repeat(250); 14].join("/");
    let deep = folder.path().join(&base);
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("0"), "bad").unwrap();
    let names = 0..60_000;
    names
        .clone()
        .skip(1)
        .for_each(|name| fs::hard_link(deep.join("0"), deep.join(name.to_string())).unwrap());
    let list: String = names.map(|name| line(ListFormat::Gnu, &name.to_string())).collect();
    fs::write(folder.path().join("list"), list).unwrap();
    let arguments = ["check", "--quiet", "-C", &base, "list"].map(String::from);
    assert_cost(&mut meter, (folder.path(), "list"), &arguments, "bad files");
}

/// Two files in each of a hundred directories, one in the other.
#[test]
fn lists_are_in_proportion_to_the_names_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut deep = folder.path().join("tree");
    let mut names = 0;
    for _ in 0..100 {
        deep.push("dd");
        fs::create_dir_all(&deep).unwrap();
        for name in ["a", "z"] {
            fs::write(deep.join(name), "").unwrap();
            names += deep.join(name).strip_prefix(folder.path()).unwrap().as_os_str().len();
        }
    }
    let run = |words: &[&str]| {
        Ended::of(command(VERISUM).current_dir(folder.path()).args(words).output().unwrap()).clean()
    };
    let assert_length = |words: &[&str]| {
        let list = run(words);
        assert!(list.len() > names, "{words:?}: {}", list.len());
        assert!(list.len() < 2 * names + 200 * 300, "{words:?}: {} bytes of {names}", list.len());
    };
    for format in ListFormat::ALL {
        let digest = if format == ListFormat::Sfv { "crc32" } else { "sha256" };
        assert_length(&["sum", "-r", "-a", digest, "--format", format.name(), "tree"]);
    }
    run(&["scrub", "--catalog", "catalog.db", "tree"]);
    assert_length(&["catalog", "export", "--catalog", "catalog.db", "--format", "mtree", "--tree", "."]);
}

/// Runs the program over a list, and compares what it took with the list's length.
#[track_caller]
fn assert_cost(meter: &mut Meter, (folder, list): (&Path, &str), arguments: &[String], about: &str) {
    let text = fs::read(folder.join(list)).unwrap();
    let _ = fs::remove_file(folder.join("catalog.db"));
    let (memory, written, code) = meter.measure(folder, arguments);
    let length = text.len();
    let about = format!("{about}, {}: {memory} KiB, {written} bytes of {length}, {code}", arguments[0]);
    assert!(memory <= MEMORY << 10, "{about}");
    // A name that is told has up to 4 bytes for one in the list; a line that is none has a message.
    let lines = text.split(|&byte| byte == b'\n').count();
    assert!(written <= 8 * length + 200 * lines + (32 << 20), "{about}");
    assert!((0..=3).contains(&code), "{about}");
}
