//! `verisum report`: the page, its tables, and the commands that it names.

use crate::common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ended, VERISUM, change_and_restore_time, command, verisum};
use serde_json::Value;
use tempfile::TempDir;
use verisum_testkit::require_tool;

/// A name that tries to be everything that a page could take it for.
const HOSTILE: &[u8] = b"-->\"'<b onload=x><script>alert(1)<\\script>&amp;\n=1+1\xff";

struct Archive {
    _folder: TempDir,
    path: PathBuf,
}

impl Archive {
    /// A tree and a mirror of it, each in a catalogue of its own.
    fn new() -> Archive {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        for tree in ["tree", "mirror"] {
            let below = path.join(tree).join("a/b");
            fs::create_dir_all(&below).unwrap();
            for number in 0..20 {
                fs::write(below.join(format!("f{number}")), format!("{number}").repeat(1000)).unwrap();
            }
        }
        fs::write(path.join("tree/lone"), "nobody else has it").unwrap();
        fs::write(path.join("tree").join(std::ffi::OsStr::from_bytes(HOSTILE)), "x").unwrap();
        let archive = Archive { _folder: folder, path };
        archive.scrub("tree");
        archive.scrub("mirror");
        archive
    }

    fn scrub(&self, tree: &str) -> Ended {
        let catalog = self.path.join(format!("{tree}.db"));
        verisum([
            Path::new("scrub"),
            Path::new("--quiet"),
            Path::new("--catalog"),
            &catalog,
            &self.path.join(tree),
        ])
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        command.current_dir(&self.path).args(words);
        Ended::of(command.output().unwrap())
    }

    /// Runs a command as it stands.
    fn sh(&self, line: &str) {
        let folder = Path::new(VERISUM).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.current_dir(&self.path).args(["-c", line]).env("PATH", path);
        Ended::of(shell.output().unwrap()).clean();
    }

    fn json(&self, words: &[&str], code: i32) -> Value {
        let ended = self.run(&[&["report", "--json"], words].concat());
        assert_eq!(ended.code, Some(code), "{}{}", ended.out(), ended.stderr);
        serde_json::from_str(ended.out()).unwrap()
    }
}

fn table<'a>(report: &'a Value, title: &str) -> &'a [Value] {
    let tables = report["tables"].as_array().unwrap();
    tables.iter().find(|table| table["title"] == title).unwrap()["rows"].as_array().unwrap()
}

const TROUBLED: &str = "Bad, missing and unchecked files";

#[test]
fn what_is_bad_is_named_with_the_command_that_mends_it() {
    let archive = Archive::new();
    let report = archive.json(&["tree.db", "mirror.db"], 0);
    assert!(report["lines"][0].as_str().unwrap().starts_with("All of 42 files ("), "{}", report["lines"]);
    assert_eq!(table(&report, TROUBLED), [] as [Value; 0]);
    let copies = table(&report, "Copies");
    let counts: Vec<&Value> = copies.iter().map(|row| &row["how many"]).collect();
    assert_eq!(counts, [2, 0, 20, 20]);
    assert_eq!(copies[0]["size"], "nobody else has it".len() + 1);

    // Something rots, and something goes.
    change_and_restore_time(&archive.path.join("tree/a/b/f7"), &"8".repeat(1000));
    fs::remove_file(archive.path.join("tree/a/b/f9")).unwrap();
    archive.scrub("tree");
    let report = archive.json(&["tree.db", "mirror.db"], 1);
    let lines: Vec<&str> =
        report["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(lines[0].starts_with("BAD: 1 of 42 files ("), "{lines:?}");
    assert!(lines[1].starts_with("MISSING: 1 file is"), "{lines:?}");
    let known = "2 bad or missing files: 2 can be repaired from copies in another catalogue. The page";
    assert!(lines[2].starts_with(known), "{lines:?}");
    assert!(lines.last().unwrap().starts_with("This report is of 20"), "{lines:?}");
    let trees = report["tables"].as_array().unwrap().iter().find(|table| table["title"] == "Trees").unwrap();
    let in_all = trees["notes"][0].as_str().unwrap();
    assert!(in_all.starts_with("In all 2 trees: 42 files, "), "{in_all}");
    assert!(in_all.ends_with("; 1 bad, 1 missing, 0 unchecked."), "{in_all}");
    let rows = table(&report, TROUBLED);
    assert_eq!(rows.len(), 2);
    for (row, name, outcomes) in
        [(&rows[0], "f7", &["rot", "suspicious"][..]), (&rows[1], "f9", &["missing"])]
    {
        assert!(outcomes.contains(&row["outcome"].as_str().unwrap()), "{row}");
        let good = archive.path.join("mirror/a/b").join(name);
        assert_eq!(row["good copy"], good.to_str().unwrap(), "{row}");
        assert_eq!(row["size"], 1000, "{row}");
        assert!(row["since"].is_string() && row["last good"].is_string(), "{row}");
        // As it stands.
        let mend = row["mend with"].as_str().unwrap();
        archive.sh(mend);
    }
    assert_eq!(fs::read_to_string(archive.path.join("tree/a/b/f7")).unwrap(), "7".repeat(1000));
    archive.scrub("tree").clean();
    archive.json(&["tree.db", "mirror.db"], 0);
}

#[test]
fn what_is_missing_has_the_colour_of_doubt_everywhere() {
    let archive = Archive::new();
    fs::remove_file(archive.path.join("tree/a/b/f9")).unwrap();
    for words in
        [&["scrub", "tree"][..], &["scrub", "--missing", "fail", "tree"], &["catalog", "list", "--missing"]]
    {
        let ended = archive.run(&[words, &["--color", "always", "--catalog", "tree.db"]].concat());
        assert!(ended.out().contains("\x1b[33mmissing"), "{words:?}: {:?}", ended.out());
    }
}

#[test]
fn runs_without_a_bar_are_a_sentence() {
    let archive = Archive::new();
    archive.run(&["catalog", "export", "--catalog", "tree.db", "records"]).clean();
    archive.run(&["catalog", "import", "--catalog", "c.db", "records"]).clean();
    let page = || {
        archive.run(&["report", "-o", "r.html", "c.db"]).clean();
        let page = fs::read_to_string(archive.path.join("r.html")).unwrap();
        assert!(!page.contains("<figure aria-label=\"Runs\""), "{page}");
        page.split("<h2>Runs</h2>").nth(1).unwrap().split("</section>").next().unwrap().to_string()
    };
    let runs = page();
    assert!(runs.contains("None is recorded.") && !runs.contains("<table"), "{runs}");
    archive.run(&["scrub", "--quiet", "--catalog", "c.db", "--max-age", "90d", "tree"]).clean();
    let runs = page();
    assert!(runs.contains("These runs read nothing: nothing was due.") && runs.contains("<table"), "{runs}");
}

#[test]
fn promises_that_are_not_kept_are_told() {
    let archive = Archive::new();
    archive.json(&["--max-age", "1d", "tree.db"], 0);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let report = archive.json(&["--max-age", "1s", "tree.db"], 3);
    assert!(report["lines"][0].as_str().unwrap().starts_with("LATE: 22 files, "), "{}", report["lines"]);
    assert_eq!(table(&report, "Forecast")[0]["verdict"], "late");
    let none = archive.run(&["report", "-o", "r.html", "none.db"]);
    assert!(none.code == Some(3) && none.stderr.contains("there is no catalogue yet"), "{}", none.stderr);
    // As every other command takes it.
    let named = archive.json(&["--catalog", "tree.db", "--catalog", "mirror.db"], 0);
    assert!(named["lines"][0].as_str().unwrap().starts_with("All of 42 files"), "{}", named["lines"]);
    let own = archive.run(&["report", "-o", "tree.db", "tree.db"]);
    assert!(own.code == Some(3) && own.stderr.contains("it belongs to the catalogue"), "{}", own.stderr);
    let before = fs::read(archive.path.join("mirror.db")).unwrap();
    for words in [
        &["report", "-o", "mirror.db", "tree.db"][..],
        &["catalog", "status", "--catalog", "tree.db", "--prometheus", "mirror.db"],
    ] {
        let other = archive.run(words);
        assert!(other.code == Some(3) && other.stderr.contains("it is a database"), "{}", other.stderr);
    }
    assert!(fs::read(archive.path.join("mirror.db")).unwrap() == before);
    let twice = archive.run(&["report", "-o", "r.html", "tree.db", "./tree.db"]);
    assert!(twice.code == Some(2) && twice.stderr.contains("named twice"), "{}", twice.stderr);
}

/// A probe that the browser runs on a copy of the page: what was loaded, how wide the page is, what it has.
const PROBE: &str = "<script>addEventListener('load',()=>{const e=document.documentElement;\
    document.title='requests '+performance.getEntriesByType('resource').length+\
    ' width '+(e.scrollWidth<=e.clientWidth)+' tiles '+document.querySelectorAll('.tiles span').length+\
    ' tables '+document.querySelectorAll('table').length+' odd '+document.querySelectorAll('[onload],b b').length})\
    </script>";

#[test]
fn the_page_is_whole_harmless_and_fits_every_window() {
    let archive = Archive::new();
    change_and_restore_time(&archive.path.join("tree").join(std::ffi::OsStr::from_bytes(HOSTILE)), "y");
    archive.scrub("tree");
    let ended = archive.run(&["report", "-o", "r.html", "--csv", "tables", "tree.db", "mirror.db"]);
    assert!(
        ended.code == Some(1) && ended.out().starts_with("BAD: 1 of 42 files ("),
        "{}{}",
        ended.out(),
        ended.stderr
    );
    let html = fs::read_to_string(archive.path.join("r.html")).unwrap();
    for forbidden in ["<script", "http:", "https:", "url(", "@import", "<b onload", "<img", "<iframe"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    assert!(html.contains("&lt;script&gt;alert(1)") && html.contains("&amp;amp;"));
    // They have the names of files, and are for nobody else.
    let mode = |name: &str| fs::metadata(archive.path.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("r.html"), 0o600);
    assert_eq!((mode("tables"), mode("tables/copies.csv")), (0o700, 0o600));
    // The page without -o is the same but for its command line and moment.
    let printed = archive.run(&["report", "tree.db", "mirror.db"]);
    assert!(printed.out().starts_with("<!doctype html>") && printed.out().ends_with("</html>\n"));
    // Every table is a file. On the page an empty one is a heading.
    let mut tables: Vec<String> = fs::read_dir(archive.path.join("tables"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    tables.sort();
    assert_eq!(tables.len(), html.matches("<section id=").count(), "{tables:?}");
    let has_rows = |name: &&String| {
        fs::read_to_string(archive.path.join("tables").join(name)).unwrap().lines().count() > 1
    };
    let filled = tables.iter().filter(has_rows).count();
    assert_eq!(filled, html.matches("<table ").count(), "{tables:?}");
    // Each tree has a directory of this name.
    assert!(
        html.contains("<b>tree/</b><b>a/</b><b>b") && html.contains("<b>mirror/</b><b>a/</b><b>b"),
        "{html}"
    );
    assert!(html.contains(">Repairs</a>") && html.contains("None is recorded."), "{html}");
    let troubled = archive.path.join("tables/bad-missing-and-unchecked-files.csv");
    let troubled = fs::read_to_string(troubled).unwrap();
    assert!(
        troubled.starts_with("outcome,file,advice,mend with,good copy,since,last good,size,"),
        "{troubled}"
    );
    assert_eq!(troubled.lines().count(), 2, "{troubled}");

    // A spreadsheet gets numbers and moments, and no words for them.
    let cells = |file: &str, columns: &[&str]| -> Vec<String> {
        let text = fs::read_to_string(archive.path.join("tables").join(file)).unwrap();
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let heading = lines.next().unwrap();
        let row = lines.next().unwrap();
        let cell = |column: &&str| row[heading.iter().position(|one| one == column).unwrap()].to_string();
        columns.iter().map(cell).collect()
    };
    for time in
        cells("runs.csv", &["took"]).iter().chain(&cells("forecast.csv", &["everything is verified once in"]))
    {
        assert!(time.parse::<f64>().is_ok(), "{time:?}");
    }
    for file in ["trees.csv", "largest-directories.csv", "stalest-directories.csv", "forecast.csv"] {
        let [moment] = &cells(file, &["stalest verification"])[..] else { panic!("{file}") };
        assert!(moment.starts_with("20") && moment.ends_with('Z'), "{file}: {moment:?}");
    }
    assert_eq!(cells("trees.csv", &["bad", "copies known"]), ["1", "0"]);

    let Some(chromium) = require_tool("chromium") else { return };
    let probed = archive.path.join("probed.html");
    fs::write(&probed, html.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    for size in ["--window-size=1280,1600", "--window-size=520,1600"] {
        let output = Command::new(&chromium)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--dump-dom",
            ])
            .args(["--no-first-run", "--hide-scrollbars", "--disable-background-networking", size])
            .arg("--enable-logging=stderr")
            .arg(format!("--user-data-dir={}", archive.path.join("profile").display()))
            .arg(format!("file://{}", probed.display()))
            .env("HOME", &archive.path)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
        let expected = format!("requests 0 width true tiles 3 tables {filled} odd 0");
        assert_eq!(title, Some(expected.as_str()), "{size}: {log}");
        assert!(!log.contains("CONSOLE"), "{log}");
    }
}

#[test]
fn an_alarm_says_what_it_was_and_what_mends_it() {
    let archive = Archive::new();
    // The mirror is in the same catalogue now.
    let mirror = archive.path.join("mirror");
    archive.run(&["scrub", "--quiet", "--catalog", "tree.db", mirror.to_str().unwrap()]).clean();
    change_and_restore_time(&archive.path.join("tree/a/b/f7"), &"8".repeat(1000));
    archive.scrub("tree");
    let digest = archive.run(&["sum", "-a", "sha256", "mirror/a/b/f7"]).clean();
    let digest = digest.split(' ').next().unwrap().to_string();
    let good = mirror.join("a/b/f7");
    let facts =
        [" since 20", "last good 20", "1000 bytes", &digest, good.to_str().unwrap(), "verisum repair "];
    let nagios = archive.run(&["catalog", "status", "--catalog", "tree.db", "--nagios"]);
    let lines: Vec<&str> = nagios.out().lines().collect();
    assert!(nagios.code == Some(2) && lines.len() == 2, "{}", nagios.out());
    assert!(lines[0].contains(" | files=42 ") || lines[0].contains(" | files="), "{}", lines[0]);
    let text = archive.run(&["catalog", "list", "--catalog", "tree.db", "--bad"]);
    let csv = archive.run(&["catalog", "list", "--catalog", "tree.db", "--bad", "--csv"]);
    for fact in facts {
        assert!(lines[1].contains(fact), "{fact}: {}", lines[1]);
        assert!(text.out().contains(fact.trim_start()), "{fact}: {}", text.out());
    }
    for fact in &facts[2..] {
        assert!(csv.out().contains(fact.trim_end_matches(" bytes")), "{fact}: {}", csv.out());
    }
    assert!(
        csv.code == Some(1) && csv.out().starts_with("outcome,path,since,verified,size,"),
        "{}",
        csv.out()
    );
    assert_eq!(csv.out().matches("\r\n").count(), 2);
    let all = archive.run(&["catalog", "list", "--catalog", "tree.db", "--duplicates", "--csv"]).clean();
    // 19 contents twice, the one of f7 is there once.
    assert_eq!(all.matches("\r\n").count(), 1 + 2 * 19, "{all}");
}

#[test]
fn tags_are_listed_without_a_read() {
    let archive = Archive::new();
    archive.run(&["tag", "--quiet", "tree/a"]).clean();
    let listed = archive.run(&["tags", "list", "tree"]).clean();
    assert_eq!(listed.lines().count(), 20, "{listed}");
    let line = listed.lines().find(|line| line.ends_with("/f7")).unwrap();
    let sum = archive.run(&["sum", "-a", "sha256", "tree/a/b/f7"]).clean();
    let digest = sum.split(' ').next().unwrap();
    assert!(line.contains(digest) && line.contains(" ago)  current  "), "{line}");
    // Content that changes behind the tag's back is not read: the list says what the tag says.
    change_and_restore_time(&archive.path.join("tree/a/b/f7"), &"8".repeat(1000));
    let json = archive.run(&["tags", "list", "--json", "tree"]).clean();
    let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = rows.iter().find(|row| row["path"].as_str().unwrap().ends_with("/f7")).unwrap();
    assert_eq!((&row["recorded"]["digest"], &row["outcome"]), (&digest.into(), &"current".into()), "{row}");
    fs::write(archive.path.join("tree/a/b/f8"), "longer").unwrap();
    let listed = archive.run(&["tags", "list", "tree"]).clean();
    assert!(listed.lines().find(|line| line.ends_with("/f8")).unwrap().contains("  outdated  "), "{listed}");
    let csv = archive.run(&["tags", "list", "--csv", "tree"]).clean();
    assert!(csv.starts_with("outcome,path,verified,size,algorithm,digest\r\n"), "{csv}");
    let row = csv.lines().find(|line| line.contains("/f7,")).unwrap();
    assert!(
        row.starts_with("current,tree/a/b/f7,20") && row.ends_with(&format!(",1000,sha256,{digest}")),
        "{row}"
    );
    assert_eq!(csv.matches("\r\n").count(), 1 + 20, "{csv}");
    assert_eq!(archive.run(&["tags", "list", "--older-than", "1d", "tree"]).clean(), "");
    archive.run(&["status", "--older-than", "1d", "tree"]).clean();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let old = archive.run(&["status", "--older-than", "1s", "tree"]);
    assert!(old.code == Some(3) && old.out().contains("older than 1s"), "{}{}", old.out(), old.stderr);
    let untagged = archive.run(&["tags", "list", "--verbose", "tree"]).clean();
    assert!(untagged.lines().any(|line| line == "untagged  tree/lone"), "{untagged}");
}

#[test]
fn an_empty_catalogue_does_not_look_clean() {
    let archive = Archive::new();
    let scrub =
        |catalog: &str, tree: &str| archive.run(&["scrub", "--quiet", "--catalog", catalog, tree]).code;
    fs::create_dir(archive.path.join("gone")).unwrap();
    assert_eq!(scrub("empty.db", "gone"), Some(0));
    assert_eq!(archive.run(&["catalog", "forget", "--catalog", "empty.db", "gone"]).code, Some(0));
    let status = ["catalog", "status", "--catalog", "empty.db"];
    for (options, code) in [
        (&["--nagios"][..], 3),
        (&["--prometheus", "q.prom", "--max-age", "1d"], 3),
        (&["--max-age", "1d"], 3),
        (&[], 0),
    ] {
        assert_eq!(archive.run(&[&status[..], options].concat()).code, Some(code), "{options:?}");
    }
    archive.json(&["empty.db"], 3);
    // A tree without runs has no bars of them.
    fs::write(archive.path.join("list"), archive.run(&["sum", "tree/lone"]).clean()).unwrap();
    archive.run(&["catalog", "import", "--catalog", "list.db", "list"]).clean();
    let page = archive.run(&["report", "list.db"]);
    let runs = page.out().split("<section id=").find(|part| part.starts_with("\"s4\"")).unwrap();
    assert!(runs.contains("None is recorded.") && !runs.contains("class=\"plot\""), "{runs}");
    // One that has trees does not speak for another.
    fs::write(archive.path.join("gone/file"), "x").unwrap();
    assert_eq!(scrub("full.db", "gone"), Some(0));
    let report = archive.json(&["full.db", "empty.db"], 3);
    assert!(report["lines"].to_string().contains("UNCHECKED: nothing is recorded in "), "{report}");
}

/// The page knows what alarms know: parity beside the files, copies of held files and those of other catalogues.
#[test]
fn the_page_names_the_same_source_and_command_as_the_alarms() {
    let archive = Archive::new();
    let scrub = |catalog: &str, trees: &[&str]| {
        archive.run(&[&["scrub", "--quiet", "--catalog", catalog][..], trees].concat())
    };
    // Parity beside the files.
    archive.run(&["parity", "create", "tree"]).clean();
    change_and_restore_time(&archive.path.join("tree/lone"), "nobody else had it");
    assert_eq!(scrub("tree.db", &["tree"]).code, Some(1));
    let report = archive.json(&["tree.db"], 1);
    let row = &table(&report, TROUBLED)[0];
    let parity = archive.path.join("tree/.verisum-parity");
    assert_eq!(row["parity"], parity.to_str().unwrap(), "{row}");
    assert!(!row["mend with"].as_str().unwrap().contains("PLACE"), "{row}");
    let tree = &table(&report, "Trees")[0];
    assert_eq!((&tree["copies known"], &tree["with parity"]), (&0.into(), &1.into()), "{tree}");
    assert!(!tree["mend with"].as_str().unwrap().contains("PLACE"), "{tree}");
    assert!(
        report["lines"].to_string().contains("1 bad file: parity may mend 1. The page"),
        "{}",
        report["lines"]
    );
    change_and_restore_time(&archive.path.join("tree/lone"), "nobody else has it");
    fs::remove_dir_all(parity).unwrap();
    scrub("tree.db", &["tree"]).clean();

    // Of two catalogues the other one knows the copies.
    change_and_restore_time(&archive.path.join("tree/a/b/f7"), &"8".repeat(1000));
    assert_eq!(scrub("tree.db", &["tree"]).code, Some(1));
    let report = archive.json(&["tree.db", "mirror.db"], 1);
    let trees = table(&report, "Trees");
    let tree = trees.iter().find(|row| row["bad"] == 1).unwrap();
    assert_eq!(tree["copies known"], 1, "{tree}");
    archive.sh(tree["mend with"].as_str().unwrap());
    assert_eq!(fs::read_to_string(archive.path.join("tree/a/b/f7")).unwrap(), "7".repeat(1000));

    // Held, with the copies in the same catalogue.
    scrub("both.db", &["tree", "mirror"]).clean();
    for number in 0..20 {
        fs::write(archive.path.join(format!("tree/a/b/f{number}")), "other").unwrap();
    }
    assert_eq!(scrub("both.db", &["--alarm-changed", "10%", "tree"]).code, Some(1));
    let again = scrub("both.db", &["--alarm-changed", "10%", "tree"]);
    assert!(again.stderr.contains("20 changed files wait"), "{}", again.stderr);
    assert!(again.stderr.contains("`verisum repair --catalog "), "{}", again.stderr);
    let report = archive.json(&["both.db"], 1);
    let row = &table(&report, TROUBLED)[0];
    assert_eq!(row["outcome"], "held");
    assert!(row["good copy"].as_str().unwrap().contains("/mirror/a/b/f"), "{row}");
    assert!(!row["mend with"].as_str().unwrap().contains("PLACE"), "{row}");
    let status = archive.run(&["catalog", "status", "--json", "--catalog", "both.db"]);
    let status: Value = status
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|line: &Value| line["troubles"]["held"] == 20)
        .unwrap();
    assert_eq!(status["repair"]["mendable"], 20, "{status}");
    let tree = table(&report, "Trees").iter().find(|row| row["copies known"] == 20).unwrap();
    assert_eq!(tree["mend with"], status["repair"]["command"]);
    archive.sh(tree["mend with"].as_str().unwrap());
    assert_eq!(fs::read_to_string(archive.path.join("tree/a/b/f7")).unwrap(), "7".repeat(1000));
}
