//! Lists of checksums from catalogues, and catalogues from lists.

use crate::common;

use std::fs;
use std::process::Command;

use common::recording::{FILES, run, tree};
use common::{Ended, VERISUM, command, verisum};
use verisum_testkit::require_tool;

#[test]
fn lists_become_records_and_records_lists() {
    let (folder, root, catalog) = tree();
    fs::create_dir(root.join("data")).unwrap();
    fs::write(root.join("data/two\nlines"), "x").unwrap();
    run(&["scrub"], &catalog, &[&root]).clean();
    let list = folder.path().join("list");
    let within = |words: &[&str]| {
        let mut command = command(VERISUM);
        command.current_dir(&root).args(words);
        Ended::of(command.output().unwrap())
    };
    let tree = root.to_str().unwrap();
    for format in ["gnu", "bsd", "hashdeep", "mtree", "bagit", "json"] {
        let ended = run(&["catalog", "export", "--format", format, "--tree", tree], &catalog, &[&list]);
        if format == "hashdeep" {
            assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 2), "{}", ended.stderr);
            assert!(ended.stderr.contains("export: the hashdeep format cannot hold"));
            assert!(ended.stderr.ends_with("export: 1 unlistable name left out\n"), "{}", ended.stderr);
            let listed = fs::read_to_string(&list).unwrap();
            assert_eq!(
                listed.lines().filter(|line| line.contains(",f") && !line.contains("filename")).count(),
                FILES as usize,
                "{listed}"
            );
            continue;
        }
        assert_eq!((ended.clean().as_str(), format), ("", format));
        if format == "bagit" {
            fs::rename(&list, folder.path().join("manifest-sha256.txt")).unwrap();
            continue;
        }
        within(&["check", "--quiet", list.to_str().unwrap()]).clean();
        // Another catalogue takes it, and the files are what it says.
        let other = folder.path().join(format!("{format}.db"));
        let ended = run(&["catalog", "import", "--tree", tree], &other, &[&list]).clean();
        assert_eq!(ended, format!("{} recorded, 0 known already\n", FILES + 1));
        let export = run(&["catalog", "export"], &other, &[]).clean();
        assert_eq!(export.matches("\"last_verified\":null,").count(), FILES as usize + 1, "{export}");
        let ended = run(&["catalog", "import", "--tree", tree], &other, &[&list]).clean();
        assert_eq!(ended, format!("0 recorded, {} known already\n", FILES + 1));
        let out = run(&["scrub", "--json"], &other, &[&root]).clean();
        let summary = out.lines().last().unwrap();
        assert!(summary.contains(&format!("\"ok\":{}", FILES + 1)), "{summary}");
        run(&["catalog", "check"], &other, &[]).clean();
    }
    // An export is known whatever the order of its fields.
    let type_last = |line: &str| {
        let (kind, rest) = line.strip_prefix('{').unwrap().split_once(',').unwrap();
        format!("{{{},{kind}}}\n", rest.strip_suffix('}').unwrap())
    };
    let export = run(&["catalog", "export"], &catalog, &[]).clean();
    assert!(export.starts_with("{\"type\":\"root\","), "{export}");
    fs::write(&list, export.lines().map(type_last).collect::<String>()).unwrap();
    let ended = run(&["catalog", "import"], &folder.path().join("sorted.db"), &[&list]).clean();
    assert_eq!(ended, format!("{} recorded, 0 known already\n", FILES + 1));
    // Names without a directory are whole.
    let out = run(&["catalog", "export", "--format", "bsd"], &catalog, &[]).clean();
    assert!(out.contains(&format!("SHA256 ({tree}/f3) = ")), "{out}");
    run(&["catalog", "export", "--format", "sfv"], &catalog, &[]).failed(
        3,
        &format!("verisum: {}: export: the sfv format has no place for sha256", catalog.display()),
    );
}

#[test]
fn lines_that_no_catalogue_could_have_are_refused() {
    let (folder, root, catalog) = tree();
    run(&["scrub", "-q"], &catalog, &[&root]).clean();
    let export = run(&["catalog", "export"], &catalog, &[]).clean().to_string();
    let lines: Vec<&str> = export.lines().collect();
    let file = lines[1];
    let long = format!("\"path\":\"{}", "n".repeat(4096));
    let other = folder.path().join("other.db");
    let list = folder.path().join("lines");
    let digest = file.split("\"digest\":\"").nth(1).unwrap().split('"').next().unwrap();
    let mut bad = vec![
        file.replace("\"algorithm\":\"", "\"algorithm\":\"nope-"),
        file.replace(digest, "00"),
        file.replace("\"path\":\"", &long),
        file.replace("\"path\":\"", "\"path\":\"a//"),
        file.replace("\"path\":\"", "\"path\":\"../"),
        file.replace("\"size\":", "\"size\":922337203685477580"),
    ];
    bad.push(format!("{file}\n{}", file.replace(digest, &"0".repeat(digest.len()))));
    for text in bad {
        fs::write(&list, format!("{}\n{text}\n", lines[0])).unwrap();
        let ended = run(&["catalog", "import"], &other, &[&list]);
        assert_eq!(ended.code, Some(3), "{text}: {}", ended.stderr);
        let number = 1 + text.lines().count();
        assert!(ended.stderr.contains(&format!("line {number}")), "{text}: {}", ended.stderr);
        assert!(!other.exists(), "{text}");
    }
    // A digest of other parts than a file of that length has.
    fs::write(&list, format!("Key,Size,s3-etag:8M\nf1,20971520,{}-99\n", "0".repeat(32))).unwrap();
    let ended = run(&["catalog", "import"], &other, &[&list]);
    assert!(
        ended.stderr.contains("line 2: its length is that of 3 parts, its digest one of 99"),
        "{}",
        ended.stderr
    );
    assert_eq!((ended.code, other.exists()), (Some(3), false));
    // The same line twice is no contradiction.
    fs::write(&list, format!("{}\n{file}\n{file}\n", lines[0])).unwrap();
    assert_eq!(run(&["catalog", "import"], &other, &[&list]).clean(), "1 recorded, 1 known already\n");
    fs::write(&list, "").unwrap();
    assert_eq!(run(&["catalog", "import"], &other, &[&list]).code, Some(1));
}

#[test]
fn what_a_list_says_is_not_overwritten_by_what_is_there() {
    let (folder, root, catalog) = tree();
    let list = folder.path().join("list");
    let ended = verisum(["sum", "-r", root.to_str().unwrap()]).clean();
    fs::write(&list, ended).unwrap();
    // The content changed before the list was imported: nobody knows when, or who did it.
    fs::write(root.join("f3"), "CONTENT 3").unwrap();
    fs::remove_file(root.join("f4")).unwrap();
    let ended = run(&["catalog", "import", "--tree", root.to_str().unwrap()], &catalog, &[&list]);
    assert_eq!(ended.code, Some(3));
    let gone = root.join("f4");
    let expected = format!(
        "verisum: {}: import: there is no such file\nverisum: {}: import: 1 listed file not there\n",
        gone.display(),
        list.display()
    );
    assert_eq!(
        (ended.out(), ended.stderr.as_str()),
        (&*format!("{FILES} recorded, 0 known already\n"), expected.as_str())
    );
    let ended = run(&["scrub"], &catalog, &[&root]);
    assert_eq!(ended.code, Some(1), "{}", ended.out());
    assert!(ended.out().contains("rot 1") && ended.out().contains("missing 1"), "{}", ended.out());
    fs::create_dir(root.join("sub")).unwrap();
    std::os::unix::fs::symlink("sub", root.join("inner")).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("out")).unwrap();
    let long = format!("#mtree\n./{} md5digest=d41d8cd98f00b204e9800998ecf8427e\n", "n".repeat(4100));
    // What cannot be taken is named by its line, and nothing is taken.
    for (text, line, what) in [
        ("# a comment\nno list\n", 2, "improperly formatted"),
        (&long, 2, "improperly formatted: a name of more than 4095 bytes"),
        ("d41d8cd98f00b204e9800998ecf8427e  ../x\n", 1, "the name leads out of its directory"),
        ("d41d8cd98f00b204e9800998ecf8427e  ok\nMD5 (x) = 00\n", 2, "its MD5 is not 32 hexadecimal digits"),
        ("d41d8cd98f00b204e9800998ecf8427e  /etc/x\n", 1, "it is in no tree of the catalogue"),
        ("d41d8cd98f00b204e9800998ecf8427e  out/f\n", 1, "or through a link"),
        ("d41d8cd98f00b204e9800998ecf8427e  inner/f\n", 1, "or through a link"),
        (
            "d41d8cd98f00b204e9800998ecf8427e  a\nd41d8cd98f00b204e9800998ecf8427f  a\n",
            2,
            "an earlier line has a different digest of it",
        ),
        (
            "{\"type\":\"root\",\"version\":1,\"path\":\"/x\",\"device\":1,\"inode\":1}\n{}\n",
            2,
            "missing field",
        ),
    ] {
        fs::write(&list, text).unwrap();
        let other = folder.path().join("other.db");
        let ended = run(&["catalog", "import", "--tree", root.to_str().unwrap()], &other, &[&list]);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
        let begin = format!("verisum: {}: line {line}: ", list.display());
        assert!(ended.stderr.starts_with(&begin) && ended.stderr.contains(what), "{}", ended.stderr);
        assert!(!other.exists());
    }
}

/// By that name lists have what came through a pipe.
#[test]
fn a_file_called_like_standard_input_is_listed_as_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("tree")).unwrap();
    fs::write(path("tree/-"), "a name of one character").unwrap();
    run(&["scrub"], &path("db"), &[&path("tree")]).clean();
    let (tree, list) = (path("tree"), path("list"));
    let check = |list: &str| {
        let mut command = command(VERISUM);
        command.current_dir(&tree).args(["check", list]).stdin(std::process::Stdio::null());
        let ended = Ended::of(command.output().unwrap());
        assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
        ended.out().to_string()
    };
    for format in ["gnu", "bsd", "hashdeep", "mtree", "json", "s3"] {
        let words = ["catalog", "export", "--format", format, "--tree", tree.to_str().unwrap()];
        run(&words, &path("db"), &[&list]).clean();
        assert!(check(list.to_str().unwrap()).ends_with("-: OK\n"), "{format}");
        let words = ["catalog", "import", "--tree", tree.to_str().unwrap()];
        let imported = run(&words, &path(format), &[&list]).clean();
        assert_eq!(imported, "1 recorded, 0 known already\n", "{format}");
    }
    let [tree_name, copy, sums] =
        [path("tree"), path("copy"), path("sums")].map(|path| path.display().to_string());
    assert_eq!(verisum(["copy", "--sums", &sums, &tree_name, &copy]).code, Some(0));
    assert_eq!(check(&sums), "./-: OK\n");
    fs::write(&list, "900150983cd24fb0d6963f7d28e17f72  -\n").unwrap();
    let words = ["catalog", "import", "-a", "md5", "--tree", &tree_name];
    let message = format!(
        "verisum: {}: line 1: - is standard input (a file of this name is listed as ./-)",
        list.display()
    );
    run(&words, &path("other"), &[&list]).failed(3, &message);
}

#[test]
fn indexes_of_other_programs_are_imported() {
    let (folder, root, catalog) = tree();
    let md5 = verisum(["sum", "-a", "md5", root.join("f1").to_str().unwrap()]).clean();
    let idx = format!("{{\"f1\":{{\"mod\":1,\"a\":\"md5\",\"h\":\"{}\",\"s\":9}}}}", &md5[..32]);
    let path = folder.path().join("idx");
    fs::write(&path, &idx).unwrap();
    let hash = verisum(["sum", "-a", "md5", path.to_str().unwrap()]).clean();
    let index = format!("{{\"v\":2,\"idx\":{idx},\"idx_hash\":\"{}\"}}", &hash[..32]);
    fs::write(root.join(".chkbit"), index).unwrap();
    let ended = run(&["catalog", "import"], &catalog, &[&root.join(".chkbit")]).clean();
    assert_eq!(ended, "1 recorded, 0 known already\n");
    let out = run(&["scrub", "--json"], &catalog, &[&root]).clean();
    assert!(out.lines().last().unwrap().contains("\"touched\":1,"), "{out}");
    // Several at once, of which one cannot be read: the others are recorded.
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/f1"), "content 1").unwrap();
    fs::copy(root.join(".chkbit"), root.join("sub/.chkbit")).unwrap();
    fs::write(folder.path().join(".chkbit"), "{\"v\":2,\"idx\":{").unwrap();
    let several = [root.join(".chkbit"), folder.path().join(".chkbit"), root.join("sub/.chkbit")];
    let ended = run(&["catalog", "import"], &catalog, &several.each_ref().map(|path| path.as_path()));
    assert_eq!((ended.code, ended.out()), (Some(3), "1 recorded, 1 known already\n"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

/// bitrot decomposes names; records are of the files, and what is gone is named.
#[test]
fn names_of_bitrot_are_imported_as_those_of_the_files() {
    let (_folder, root, catalog) = tree();
    fs::create_dir(root.join("\u{e9}t\u{e9}")).unwrap();
    fs::write(root.join("\u{e9}t\u{e9}/\u{e4}"), "abc").unwrap();
    let rows = "import sqlite3, sys, unicodedata\n\
        db = sqlite3.connect(sys.argv[1])\n\
        db.execute('CREATE TABLE bitrot (path, mtime, hash, timestamp)')\n\
        name = unicodedata.normalize('NFKD', './\\u00e9t\\u00e9/\\u00e4')\n\
        sha1 = 'a9993e364706816aba3e25717850c26c9cd0d89d'\n\
        for path in [name] + sys.argv[2:]:\n    \
            db.execute('INSERT INTO bitrot VALUES (?, ?, ?, ?)', (path, 1600000000, sha1, ''))\n\
        db.commit()";
    let Some(python) = require_tool("python3") else { return };
    let database = root.join(".bitrot.db");
    let made = Command::new(python).args(["-c", rows]).arg(&database).arg("./gone").status();
    assert!(made.unwrap().success());
    let ended = run(&["catalog", "import"], &catalog, &[&database]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 2), "{}", ended.stderr);
    assert!(ended.stderr.contains("/gone: import: there is no such file\n"), "{}", ended.stderr);
    assert!(ended.stderr.ends_with("import: 1 listed file not there\n"), "{}", ended.stderr);
    let export = run(&["catalog", "export"], &catalog, &[]).clean();
    assert!(export.contains("\"path\":\"\u{e9}t\u{e9}/\u{e4}\""), "{export}");
}

/// Nothing but the length of a bare number may tell which digest it is: what was taken for another one would
/// make all files look bad.
#[test]
fn a_list_of_another_digest_is_refused() {
    let (folder, root, catalog) = tree();
    let (tree, list) = (root.to_str().unwrap(), folder.path().join("list"));
    for (digest, is_named) in [("blake3", true), ("sha3-256", true), ("sha256", false), ("blake2b-256", true)]
    {
        fs::write(&list, verisum(["sum", "-r", "-a", digest, tree]).clean()).unwrap();
        let ended = run(&["catalog", "import", "--tree", tree], &catalog, &[&list]);
        if !is_named {
            assert_eq!(ended.clean(), format!("{FILES} recorded, 0 known already\n"));
            run(&["catalog", "forget"], &catalog, &[&root]).clean();
            continue;
        }
        let what = format!(
            "verisum: {}: import: 64 digits were taken for sha256, which none of 4 small files has: they \
             are of {digest} (-a {digest})",
            list.display()
        );
        ended.failed(3, &what);
        let ended = run(&["catalog", "import", "--tree", tree, "-a", digest], &catalog, &[&list]);
        assert_eq!(ended.clean(), format!("{FILES} recorded, 0 known already\n"));
        let out = run(&["scrub", "--json"], &catalog, &[&root]).clean();
        assert!(out.lines().last().unwrap().contains(&format!("\"ok\":{FILES}")), "{out}");
        run(&["catalog", "forget"], &catalog, &[&root]).clean();
    }
    // An empty file has the same number in both CRCs, and tells nothing.
    fs::write(root.join("empty"), "").unwrap();
    fs::write(&list, verisum(["sum", "-r", "-a", "crc32c", tree]).clean()).unwrap();
    let ended = run(&["catalog", "import", "--tree", tree], &catalog, &[&list]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("they are of crc32c (-a crc32c)"), "{}", ended.stderr);
    fs::remove_file(root.join("empty")).unwrap();
    // A name is a hint that files confirm or deny.
    let hinted = folder.path().join("backup-b2.txt");
    for (digest, list_name) in [("sha256", &hinted), ("blake2b-256", &hinted)] {
        fs::write(list_name, verisum(["sum", "-r", "-a", digest, tree]).clean()).unwrap();
        let ended = run(&["catalog", "import", "--tree", tree], &catalog, &[list_name]);
        match digest {
            "sha256" => ended.failed(
                3,
                &format!(
                    "verisum: {}: import: 64 digits were taken for blake2b-256, which none of 4 small files has: they \
                     are of sha256 (-a sha256)",
                    hinted.display()
                ),
            ),
            _ => assert_eq!(ended.clean(), format!("{FILES} recorded, 0 known already\n")),
        }
    }
    run(&["catalog", "forget"], &catalog, &[&root]).clean();
    // Where they cannot, nothing is recorded.
    fs::write(&hinted, format!("{}  a\n", "0".repeat(64))).unwrap();
    let ended = run(&["catalog", "import", "--tree", "ssh://host/srv"], &catalog, &[&hinted]);
    let what = format!(
        "verisum: {}: import: 64 digits are blake2b-256 by the name of the list and sha256 by their number, and no \
         small file tells which (-a names it)",
        hinted.display()
    );
    ended.failed(3, &what);
    // Where no file could tell, the reader is told; what contradicts the records is counted.
    let far = |text: &str| {
        fs::write(&list, text).unwrap();
        run(&["catalog", "import", "--tree", "ssh://host/srv"], &catalog, &[&list])
    };
    let ended = far(&format!("{}  a\n", "0".repeat(64)));
    assert_eq!((ended.code, ended.out()), (Some(0), "1 recorded, 0 known already\n"));
    assert!(ended.stderr.ends_with(": 64 digits were taken for sha256 (-a names a different digest)\n"));
    let ended = far(&format!("SHA256 (a) = {}\n", "1".repeat(64)));
    assert_eq!((ended.code, ended.out()), (Some(0), "0 recorded, 1 known already\n"));
    let what = "verisum: 1 known file listed with a different digest than the recorded one, which stays (`verisum \
                catalog forget` removes a tree's records)\n";
    assert_eq!(ended.stderr, what);
}

#[test]
fn a_list_of_another_directory_is_refused() {
    let (folder, root, catalog) = tree();
    let list = folder.path().join("list");
    let named = |name: &str| format!("{}  {name}\n", "0".repeat(64));
    fs::write(&list, named("tree/f1") + &named("tree/f2")).unwrap();
    let what = format!(
        "verisum: {}: import: no listed file is there: names begin at {tree} (--tree names another DIR)",
        list.display(),
        tree = root.display()
    );
    run(&["catalog", "import", "--tree", root.to_str().unwrap()], &catalog, &[&list]).failed(3, &what);
    assert!(!catalog.exists());
    // What is missing is no measure of how old the verifications are.
    run(&["scrub", "-q"], &catalog, &[&root]).clean();
    let sum = verisum(["sum", root.join("f1").to_str().unwrap()]).clean();
    fs::write(&list, sum + &named("gone")).unwrap();
    let ended = run(&["catalog", "import", "--tree", root.to_str().unwrap()], &catalog, &[&list]);
    assert_eq!((ended.code, ended.out()), (Some(3), "1 recorded, 1 known already\n"), "{}", ended.stderr);
    run(&["scrub", "-q"], &catalog, &[&root]);
    let status = run(&["catalog", "status", "--json"], &catalog, &[]).out().to_string();
    assert!(!status.contains("\"stalest_verification\":null"), "{status}");
}

#[test]
fn the_index_of_a_whole_tree_is_imported() {
    let (folder, root, catalog) = tree();
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/f1"), "content 1").unwrap();
    let index = chkbit_of_tree(&[("", "f1", "content 1"), ("sub", "f1", "content 1")], folder.path());
    fs::write(root.join(".chkbit-db"), &index).unwrap();
    let ended = run(&["catalog", "import"], &catalog, &[&root.join(".chkbit-db")]).clean();
    assert_eq!(ended, "2 recorded, 0 known already\n");
    let ended = verisum(["adopt", "--indexes", root.to_str().unwrap()]);
    assert!(ended.code == Some(0) && ended.stderr.contains("2 files: 2 adopted"), "{}", ended.stderr);
    let list = folder.path().join("other name");
    fs::write(&list, index).unwrap();
    let ended = verisum(["adopt", "--from", list.to_str().unwrap(), root.to_str().unwrap()]);
    assert!(ended.code == Some(0) && ended.stderr.contains("2 files: 2 current"), "{}", ended.stderr);
    fs::remove_file(root.join(".chkbit-db")).unwrap();
    let ended = verisum(["adopt", "--indexes", root.to_str().unwrap()]);
    assert_eq!(ended.code, Some(3));
    let said = "verisum: no .chkbit, .chkbit-db or .bitrot.db is below DIR (--from takes an index of another name)\n";
    assert!(ended.stderr.ends_with(said), "{}", ended.stderr);
}

/// The index that chkbit 6 writes for a tree with these files: directory, name and content.
fn chkbit_of_tree(files: &[(&str, &str, &str)], folder: &std::path::Path) -> String {
    let md5 = |content: &str| {
        let path = folder.join("content");
        fs::write(&path, content).unwrap();
        verisum(["sum", "-a", "md5", path.to_str().unwrap()]).clean()[..32].to_string()
    };
    let directories = files.iter().map(|(directory, name, content)| {
        let (digest, size) = (md5(content), content.len());
        let idx = format!(r#"{{"{name}":{{"mod":1,"a":"md5","h":"{digest}","s":{size}}}}}"#);
        format!(r#""{directory}":{{"v":2,"idx":{idx},"idx_hash":"{}"}}"#, md5(&idx))
    });
    let data: Vec<String> = directories.collect();
    format!(r#"{{"type":"chkbit","version":6,"data":{{{}}}}}"#, data.join(","))
}
