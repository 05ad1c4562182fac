//! Called by the name of another program, verisum does what that does: output, messages and exit codes
//! beside the installed ones.

use crate::common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{VERISUM, command};
use tempfile::TempDir;
use verisum_testkit::require_tool;

/// Names that trouble those who print, split or escape them.
const NAMES: [&[u8]; 10] = [
    b"plain",
    b"two  words",
    b" leading",
    b"line\nfeed",
    b"-dash",
    b"quote'\"`$",
    b"back\\slash",
    b"\xff\xfe invalid",
    b"(a) = b",
    b"tab\t*?[",
];

/// How a program ended.
#[derive(PartialEq, Eq)]
struct Ended {
    code: Option<i32>,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (out, err) = (self.out.escape_ascii(), self.err.escape_ascii());
        write!(f, "{:?}\n out: {out}\n err: {err}", self.code)
    }
}

/// Runs a program under the name of another.
fn run(program: &Path, name: &str, arguments: &[&OsStr], folder: &Path, stdout: Option<File>) -> Ended {
    run_in("C.UTF-8", program, name, arguments, folder, stdout)
}

fn run_in(
    locale: &str,
    program: &Path,
    name: &str,
    arguments: &[&OsStr],
    folder: &Path,
    stdout: Option<File>,
) -> Ended {
    let mut command = command(program.to_str().unwrap());
    command.arg0(name).args(arguments).current_dir(folder).env("LC_ALL", locale);
    // With it, b3sum tells more of errors.
    command.env_remove("RUST_BACKTRACE");
    command.stdin(File::open(folder.join("plain")).unwrap());
    if let Some(stdout) = stdout {
        command.stdout(stdout);
        let ended = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        return Ended { code: ended.status.code(), out: Vec::new(), err: ended.stderr };
    }
    let ended = command.output().unwrap();
    Ended { code: ended.status.code(), out: ended.stdout, err: ended.stderr }
}

/// A folder with files of odd names, and lists of them by the installed programs.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES {
        fs::write(folder.path().join(OsStr::from_bytes(name)), name).unwrap();
    }
    fs::create_dir(folder.path().join("directory")).unwrap();
    fs::write(folder.path().join("secret"), "x").unwrap();
    fs::set_permissions(folder.path().join("secret"), fs::Permissions::from_mode(0o0)).unwrap();
    folder
}

fn words(text: &str) -> Vec<&OsStr> {
    text.split_ascii_whitespace().map(OsStr::new).collect()
}

#[test]
fn the_coreutils_are_imitated_to_the_byte() {
    let folder = folder();
    let path = folder.path();
    let Some(md5sum) = require_tool("md5sum") else { return };
    let list = |program: &str, arguments: &str| {
        let program = md5sum.with_file_name(program);
        run(&program, "x", &words(arguments), path, None).out
    };
    let md5 = list("md5sum", "plain directory/../plain");
    let wrong = [b"0".repeat(32).as_slice(), b"  plain\n"].concat();
    fs::write(path.join("md5"), &md5).unwrap();
    fs::write(path.join("wrong"), &wrong).unwrap();
    fs::write(path.join("mixed"), [b"nonsense\n", &md5[..], &wrong, b"MD5 (plain) = 00\n"].concat()).unwrap();
    fs::write(path.join("gone"), [&b"0".repeat(32)[..], b"  nowhere\n"].concat()).unwrap();
    fs::write(path.join("some"), [&md5[..], &b"0".repeat(32), b"  nowhere\n"].concat()).unwrap();
    fs::write(path.join("none"), "no list\n").unwrap();
    fs::write(path.join("b2"), list("b2sum", "-l 256 plain")).unwrap();
    fs::write(path.join("b2tag"), list("b2sum", "-l 24 --tag plain")).unwrap();
    fs::write(path.join("tags"), [list("cksum", "-a sha256 plain"), b"bad\n".to_vec()].concat()).unwrap();
    let cases: &[(&str, &[&str])] = &[
        (
            "md5sum",
            &[
                "plain",
                "-b plain",
                "-t plain",
                "--tag plain",
                "-z plain",
                "--zero --tag plain",
                "- plain -",
                "",
                "directory plain nowhere",
                "secret plain",
                "--check md5",
                "--chec md5",
                "--ch md5",
                "-c md5 wrong gone",
                "-c mixed",
                "-c --warn mixed",
                "-c --strict mixed",
                "-cw --strict md5",
                "-c --quiet mixed",
                "-c --status mixed",
                "-c --status --warn mixed",
                "-c --warn --status mixed",
                "-c --quiet --warn mixed",
                "-c --warn --quiet mixed",
                "-c --status --quiet md5",
                "-c gone",
                "-c --ignore-missing gone",
                "-c --ignore-missing some",
                "-c --ignore-missing --quiet some",
                "-c --ignore-missing --status gone",
                "-c none",
                "-c --status none",
                "-c nowhere md5",
                "-c directory",
                "-c secret",
                "-c plain",
                "-c -",
                "-c",
                "-c -z md5",
                "-c --tag md5",
                "-c -b md5",
                "-c -t md5",
                "--tag -t plain",
                "-t --tag plain",
                "-t --tag -b plain",
                "-t --tag -bt plain",
                "-t --tag -c md5",
                "--tag -b plain",
                "--status plain",
                "--warn plain",
                "-w plain",
                "--quiet plain",
                "--strict plain",
                "--ignore-missing plain",
                "--ignore --strict plain",
                "--s plain",
                "--nope",
                "-x",
                "-cx md5",
                "--check=3 md5",
                "--length 8 plain",
                "-a md5 plain",
                "-- -dash",
                "-dash",
                "plain -b",
            ],
        ),
        (
            "b2sum",
            &[
                "plain",
                "-l 256 plain",
                "-l 8 --tag plain",
                "-l 0 plain",
                "--length=512 --tag plain",
                "-l 7 plain",
                "-l 520 plain",
                "-l abc plain",
                "-l -8 plain",
                "-l 99999999999999999999999 plain",
                "-l",
                "--length",
                "-c b2",
                "-c b2tag b2",
                "-l 128 -c b2",
                "-c --warn mixed",
                "-c --warn none b2tag",
            ],
        ),
        (
            "cksum",
            &[
                "-a md5 plain",
                "-a SHA256 plain",
                "-a MD5 -c md5",
                "-a sha-256 plain",
                "-a sha2 plain",
                "-a CRC plain",
                "-a shake128 plain",
                "-a blake3 plain",
                "-a sha3 -l 256 plain",
                "-a crc32b plain",
                "-a sha256 --untagged plain",
                "-a md5 --tag --untagged plain",
                "-a md5 --untagged --tag plain",
                "-a blake2b -l 128 plain",
                "-a blake2b -l 128 --untagged plain",
                "-a blake2b -l 12 plain",
                "-a blake2b -l 1000 plain",
                "-a md5 -l 128 plain",
                "-a sm3 -z plain",
                "-c tags",
                "-c --warn tags",
                "-c --warn md5",
                "-c --warn none tags",
                "-c --strict tags",
                "-c --tag tags",
                "-c md5",
                "-a md5 -c md5",
                "-a md5 -c -w tags",
                "-a blake2b -c b2",
                "-a blake2b -c b2tag",
                "-a blake2b -l 128 -c b2",
                "-c b2tag",
                "--status -a md5 plain",
                "--untag -a md5 plain",
                "-c -z tags",
            ],
        ),
        (
            "cksum",
            &[
                "",
                "plain -",
                "secret plain",
                "plain nowhere plain",
                "-a crc plain",
                "-a bsd plain",
                "-a sysv plain",
                "--tag plain",
                "--untagged -z plain",
                "-a sysv -a crc plain",
                "-a bsd -l 8 plain",
                "-a bsd -c md5",
                "-a sysv -c -z md5",
                "-a crc --quiet plain",
            ],
        ),
        (
            "sum",
            &[
                "",
                "plain -",
                "secret plain",
                "plain directory nowhere plain",
                "-r plain",
                "-s plain",
                "--sysv plain",
                "-rs plain",
                "-sr plain",
                "plain -s",
                "-c plain",
                "--check plain",
                "-z plain",
                "--nope",
            ],
        ),
        ("sha256sum", &["plain", "-c --warn md5", "--tag plain directory", "-c tags"]),
    ];
    let is_root = rustix::process::geteuid().is_root();
    for (program, commands) in cases {
        let theirs = md5sum.with_file_name(program);
        for arguments in *commands {
            if is_root && arguments.contains("secret") {
                continue;
            }
            let arguments = words(arguments);
            let run = |what: &Path| run(what, program, &arguments, path, None);
            assert_eq!(run(Path::new(VERISUM)), run(&theirs), "{program} {arguments:?}");
        }
    }
    let odd: Vec<&OsStr> =
        [OsStr::new("--")].into_iter().chain(NAMES.iter().map(|n| OsStr::from_bytes(n))).collect();
    let programs =
        ["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum"];
    for program in programs {
        let theirs = md5sum.with_file_name(program);
        let run = |what: &Path| run(what, program, &odd, path, None);
        assert_eq!(run(Path::new(VERISUM)), run(&theirs), "{program}");
    }
    for arguments in ["plain", "-c md5"] {
        let full = || Some(File::options().write(true).open("/dev/full").unwrap());
        let run = |what: &Path| run(what, "md5sum", &words(arguments), path, full());
        assert_eq!(run(Path::new(VERISUM)), run(&md5sum), "{arguments}");
    }
}

/// Among them one that no machine has: whoever asks for it is in that of C.
const LOCALES: [&str; 6] = ["C", "POSIX", "C.UTF-8", "C.utf8", "xx_YY.UTF-8", ""];

/// Where the character set is ASCII, quotes are and names look otherwise.
#[test]
fn messages_are_those_of_the_locale() {
    let Some(md5sum) = require_tool("md5sum") else { return };
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("list"), format!("{}  nowh\u{e8}re\n", "0".repeat(32))).unwrap();
    fs::write(path.join("l\u{ef}st"), "none").unwrap();
    for (program, arguments) in [
        ("b2sum", "-l 7 plain"),
        ("b2sum", "-l 520 plain"),
        ("cksum", "-a SHA256 plain"),
        ("cksum", "-a it's plain"),
        ("cksum", "-a a\\b\"\u{2019}\u{e8}\u{1} plain"),
        ("b2sum", "-l it's plain"),
        ("md5sum", "nowh\u{e8}re"),
        ("md5sum", "-c list"),
        ("md5sum", "-c l\u{ef}st"),
    ] {
        for locale in LOCALES {
            let theirs = md5sum.with_file_name(program);
            let run = |what: &Path| run_in(locale, what, program, &words(arguments), path, None);
            assert_eq!(run(Path::new(VERISUM)), run(&theirs), "{program} {arguments} in {locale:?}");
        }
    }
    let list = run(
        &md5sum,
        "md5sum",
        &[&[OsStr::new("--")][..], &NAMES.map(OsStr::from_bytes)].concat(),
        path,
        None,
    );
    let gone = tempfile::tempdir().unwrap();
    fs::write(gone.path().join("odd"), list.out).unwrap();
    fs::write(gone.path().join("plain"), "other").unwrap();
    let odd = [&b"--"[..], b"\xc2\xa0space", b"\xc3\xa4 ", b"'\xe2\x82\xac", b"\xe2\x80\xa8"]
        .map(OsStr::from_bytes);
    let odd = [&odd[..], &NAMES.map(OsStr::from_bytes)].concat();
    for program in ["md5sum", "sha256sum", "cksum"] {
        for arguments in [&odd[..], &words("-c odd")] {
            for locale in LOCALES {
                let theirs = md5sum.with_file_name(program);
                let run = |what: &Path| run_in(locale, what, program, arguments, gone.path(), None);
                assert_eq!(run(Path::new(VERISUM)), run(&theirs), "{program} {arguments:?} in {locale:?}");
            }
        }
    }
}

#[test]
fn lists_of_xxhsum_go_both_ways() {
    let Some(xxhsum) = require_tool("xxhsum") else { return };
    let folder = folder();
    let path = folder.path();
    // It escapes no names (0.8.1) or all (0.8.3), and takes none for standard input.
    let names = ["plain", "two  words", " leading", "quote'\"`$", "(a) = b", "tab\t*?["];
    for digest in ["-H0", "-H1", "-H2", "-H3"] {
        for options in [&[][..], &["--tag"], &["--little-endian"], &["--tag", "--little-endian"]] {
            let arguments: Vec<&OsStr> =
                [digest].iter().chain(options).chain(&names).copied().map(OsStr::new).collect();
            let theirs = run(&xxhsum, "xxhsum", &arguments, path, None);
            let ours = run(Path::new(VERISUM), "xxhsum", &arguments, path, None);
            // Some versions write a tag for the last digest though none is asked for.
            if digest != "-H3" || options.contains(&"--tag") {
                assert_eq!(ours.out.escape_ascii().to_string(), theirs.out.escape_ascii().to_string());
            }
            for list in [&theirs.out, &ours.out] {
                fs::write(path.join("list"), list).unwrap();
                let is_bare = options == ["--little-endian"];
                let mut check: Vec<&OsStr> = if is_bare { vec![OsStr::new(options[0])] } else { Vec::new() };
                check.extend(["-c", "list"].map(OsStr::new));
                for name in ["xxhsum", "xxh32sum", "xxh64sum", "xxh128sum", "xxh3sum"] {
                    let checked = run(Path::new(VERISUM), name, &check, path, None);
                    assert_eq!(checked.code, Some(0), "{name} {digest} {options:?}: {checked:?}");
                }
                // 0.8.1 does not take the XXH3_ of later versions with little-endian numbers.
                if !list.starts_with(b"XXH3_") {
                    let by_them = run(&xxhsum, "xxhsum", &check, path, None);
                    let by_us = run(Path::new(VERISUM), "xxhsum", &check, path, None);
                    assert_eq!((by_us.code, by_us.out), (by_them.code, by_them.out), "{digest} {options:?}");
                }
            }
        }
    }
    fs::write(path.join("bad"), "nonsense\n01020304  plain\nXXH64 (plain) = 0102030405060708\n").unwrap();
    for options in
        ["-c bad", "-c --status bad", "-c -q bad", "-qc bad", "-c --strict bad", "-c plain", "-c nowhere"]
    {
        let by_them = run(&xxhsum, "xxhsum", &words(options), path, None);
        let by_us = run(Path::new(VERISUM), "xxhsum", &words(options), path, None);
        // It prints its totals there too.
        assert_eq!((by_us.code, results(&by_us.out)), (by_them.code, results(&by_them.out)), "{options}");
    }
}

/// The lines about files; none of names with a backslash, which b3sum escapes where nobody else does.
fn results(out: &[u8]) -> Vec<String> {
    let lines = String::from_utf8(out.to_vec()).unwrap();
    let is_result = |line: &&str| line.contains(": ") && !line.contains('\\');
    lines.lines().filter(is_result).map(str::to_string).collect()
}

#[test]
fn lists_of_b3sum_go_both_ways() {
    let Some(b3sum) = require_tool("b3sum") else { return };
    let folder = folder();
    let path = folder.path();
    // It takes no invalid UTF-8 and, before 1.5, escapes backslashes alone as it does newlines.
    let names = ["plain", "two  words", " leading", "line\nfeed", "quote'\"`$", "back\\slash", "(a) = b"];
    let arguments: Vec<&OsStr> = names.iter().map(OsStr::new).collect();
    let theirs = run(&b3sum, "b3sum", &arguments, path, None);
    let ours = run(Path::new(VERISUM), "b3sum", &arguments, path, None);
    assert_eq!(ours, theirs);
    fs::write(path.join("list"), &theirs.out).unwrap();
    fs::write(path.join("wrong"), [b"0".repeat(64).as_slice(), b"  plain\n"].concat()).unwrap();
    for options in ["-c list", "--check --quiet list", "-c wrong"] {
        let by_them = run(&b3sum, "b3sum", &words(options), path, None);
        let by_us = run(Path::new(VERISUM), "b3sum", &words(options), path, None);
        assert_eq!((by_us.code, results(&by_us.out)), (by_them.code, results(&by_them.out)), "{options}");
    }
    // More than is hashed in one piece.
    fs::write(path.join("long"), vec![7; 5_000_001]).unwrap();
    for options in [
        "--no-names plain",
        "--num-threads 1 plain",
        "-l 16 plain long -",
        "-l 33 long",
        "--length 64 --no-names long plain",
        "--length=64 --raw plain",
        "-l 1 plain",
        "-l 0 plain",
    ] {
        let by_them = run(&b3sum, "b3sum", &words(options), path, None);
        let by_us = run(Path::new(VERISUM), "b3sum", &words(options), path, None);
        assert_eq!(by_us, by_them, "{options}");
    }
}

/// Lines of lists, and what b3sum 1.8.7 prints and says of each: `{h}` is the digest of every file that there is, `{z}`
/// another.
const LINES_OF_B3SUM: &[(&str, &str, &str)] = &[
    ("{h}  plain", "plain: OK", ""),
    ("{h}  two  words", "two  words: OK", ""),
    ("{h}  plain\r", "plain: OK", ""),
    ("{h}  plain\r\r", "plain: OK", ""),
    ("{h}  back\\slash", "back\\slash: OK", ""),
    ("{h}  return\rs", "return\rs: OK", ""),
    ("\\{h}  plain", "\\plain: OK", ""),
    ("\\{h}  back\\\\slash", "\\back\\\\slash: OK", ""),
    ("\\{h}  line\\nfeed", "\\line\\nfeed: OK", ""),
    ("\\{h}  return\\rs", "\\return\\rs: OK", ""),
    ("\\{h}  return\rs", "\\return\rs: OK", ""),
    ("BLAKE3 (plain) = {h}", "plain: OK", ""),
    ("BLAKE3 (plain) = {h}\r", "plain: OK", ""),
    ("BLAKE3 ((a) = b) = {h}", "(a) = b: OK", ""),
    ("\\BLAKE3 (line\\nfeed) = {h}", "\\line\\nfeed: OK", ""),
    ("{z}  plain", "plain: FAILED", ""),
    ("BLAKE3 (plain) = {z}", "plain: FAILED", ""),
    ("{h}   plain", " plain: FAILED (No such file or directory (os error 2))", ""),
    ("\\{h}  no\\nwhere", "\\no\\nwhere: FAILED (No such file or directory (os error 2))", ""),
    ("{z}  directory", "directory: FAILED (Is a directory (os error 21))", ""),
    ("", "", "Empty line"),
    ("\r", "", "Empty line"),
    ("\\", "", "Invalid check line format"),
    ("# comment", "", "Invalid check line format"),
    ("{h} *plain", "", "Invalid check line format"),
    ("SHA256 (plain) = {h}", "", "Invalid check line format"),
    ("BLAKE3 (plain)= {h}", "", "Invalid check line format"),
    ("BLAKE3 (two  words) = {h}", "", "Invalid hash length"),
    ("BLAKE3 (plain) = {h}0", "", "Invalid hash length"),
    ("0{h}  plain", "", "Invalid hash length"),
    ("  plain", "", "Invalid hash length"),
    ("\u{feff}{h}  plain", "", "Invalid hash length"),
    ("{H}  plain", "", "Invalid hex"),
    ("\u{e9}{h}", "", "Invalid check line format"),
    ("{h}  ", "", "empty file path"),
    ("BLAKE3 () = {h}", "", "empty file path"),
    ("\\{h}  a\\tb", "", "Invalid backslash escape"),
    ("\\{h}  a\\", "", "Invalid backslash escape"),
    ("{h}  a\0b", "", "Null character in path"),
    ("{h}  a\u{fffd}", "", "Unicode replacement character in path"),
];

/// The table is what b3sum 1.8.7 prints: where that is the installed one, it is asked too.
#[test]
fn lists_are_checked_as_b3sum_checks_them() {
    let Some(b3sum) = require_tool("b3sum") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["plain", "two  words", "back\\slash", "line\nfeed", "return\rs", "(a) = b"] {
        fs::write(path.join(name), "x").unwrap();
    }
    fs::create_dir(path.join("directory")).unwrap();
    let version = run(&b3sum, "b3sum", &words("--version"), path, None).out;
    let is_1_8_7 = version == b"b3sum 1.8.7\n";
    let expect = |command: &str, expected: &Ended| {
        assert_eq!(run(Path::new(VERISUM), "b3sum", &words(command), path, None), *expected, "{command}");
        if is_1_8_7 {
            assert_eq!(run(&b3sum, "b3sum", &words(command), path, None), *expected, "b3sum {command}");
        }
    };
    let digest = String::from_utf8(run(&b3sum, "b3sum", &words("--no-names plain"), path, None).out).unwrap();
    let digest = digest.trim_end();
    let fill = |line: &str| {
        let line = line.replace("{h}", digest).replace("{z}", &"0".repeat(64));
        line.replace("{H}", &digest.to_uppercase())
    };
    let (mut list, mut out, mut err, mut failed) = (String::new(), String::new(), String::new(), 0);
    for (line, printed, said) in LINES_OF_B3SUM {
        let end = |text: &str| if text.is_empty() { String::new() } else { format!("{text}\n") };
        let is_ok = printed.ends_with(": OK");
        let said = end(&if said.is_empty() { String::new() } else { format!("b3sum: {said}") });
        let total = if is_ok { "" } else { "b3sum: WARNING: 1 computed checksum did NOT match\n" };
        fs::write(path.join("list"), fill(line)).unwrap();
        let expected = Ended {
            code: Some(!is_ok as i32),
            out: end(printed).into(),
            err: format!("{said}{total}").into(),
        };
        // An empty list has no line.
        if !line.is_empty() {
            expect("-c list", &expected);
        }
        list.push_str(&end(&fill(line)));
        if line.is_empty() {
            list.push('\n');
        }
        out.push_str(&end(printed));
        err.push_str(&said);
        failed += u32::from(!is_ok);
    }
    err.push_str(&format!("b3sum: WARNING: {failed} computed checksums did NOT match\n"));
    fs::write(path.join("list"), list).unwrap();
    expect("-c list", &Ended { code: Some(1), out: out.clone().into(), err: err.clone().into() });
    let bad = out.split_inclusive('\n').filter(|line| !line.ends_with(": OK\n")).collect::<String>();
    expect("--quiet -c list", &Ended { code: Some(1), out: bad.into(), err: err.into() });
}

/// To the byte those of every version.
#[test]
fn failures_are_those_of_b3sum() {
    let Some(b3sum) = require_tool("b3sum") else { return };
    let folder = folder();
    let path = folder.path();
    let good = run(&b3sum, "b3sum", &words("plain plain"), path, None).out;
    fs::write(path.join("bytes"), [&good[..], b"\xff\n", &good].concat()).unwrap();
    fs::write(path.join("nothing"), "").unwrap();
    fs::write(path.join("good"), &good).unwrap();
    for command in [
        "-c nowhere plain",
        "-c good nowhere",
        "-c directory",
        "-c bytes",
        "-c --quiet bytes",
        "-c nothing",
        "--raw plain",
        "--raw --no-names plain",
        "--raw",
        "--raw plain -",
        "nowhere plain directory",
        "--raw nowhere",
    ] {
        let theirs = run(&b3sum, "b3sum", &words(command), path, None);
        assert_eq!(run(Path::new(VERISUM), "b3sum", &words(command), path, None), theirs, "{command}");
    }
    for refused in [
        "-l 16 -c good",
        "-l x plain",
        "-l -1 plain",
        "-l 65 plain",
        "--raw -c good",
        "--no-names -c good",
        "--tag -c good",
        "--quiet plain",
        "--nope",
    ] {
        assert_eq!(run(Path::new(VERISUM), "b3sum", &words(refused), path, None).code, Some(2), "{refused}");
    }
}

/// What is without names is without tags, as in b3sum 1.8.7.
#[test]
fn b3sum_writes_no_tag_where_it_writes_no_name() {
    let folder = folder();
    let b3sum = |options: &str| run(Path::new(VERISUM), "b3sum", &words(options), folder.path(), None);
    for option in ["--raw", "--no-names"] {
        let tagged = b3sum(&format!("--tag {option} plain"));
        assert_eq!((tagged.code, tagged), (Some(0), b3sum(&format!("{option} plain"))), "{option}");
    }
}

#[test]
fn help_and_version_are_of_the_program() {
    let folder = folder();
    for name in ["md5sum", "b2sum", "cksum", "sum", "b3sum", "xxhsum"] {
        for (option, expected) in [("--version", "(verisum)"), ("--help", "Usage: ")] {
            let ended = run(Path::new(VERISUM), name, &words(option), folder.path(), None);
            assert_eq!(ended.code, Some(0));
            assert!(String::from_utf8(ended.out).unwrap().contains(expected), "{name} {option}");
        }
    }
    let mut by_no_name = Command::new(VERISUM);
    by_no_name.arg0("");
    assert_ne!(by_no_name.output().unwrap().status.code(), Some(0));
}

#[test]
fn checksums_of_every_length_are_those_of_cksum_and_sum() {
    let Some(cksum) = require_tool("cksum") else { return };
    let folder = folder();
    let path = folder.path();
    let byte = |at: usize| (at * 31 % 251) as u8;
    let lengths =
        [0, 1, 255, 256, 511, 512, 513, 1023, 1025, 65_535, 65_536, 131_073, 1 << 20, (1 << 24) + 1];
    let names = lengths.map(|length| {
        let name = format!("of {length}");
        fs::write(path.join(&name), Vec::from_iter((0..length).map(byte))).unwrap();
        name
    });
    // Only the CRC of more than 4 GiB is of a length that takes five bytes.
    File::create(path.join("long")).unwrap().set_len((4 << 30) + 5).unwrap();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    for (program, options, files) in [
        ("cksum", &[][..], &[&all[..], &["long"]].concat()),
        ("cksum", &["-a", "bsd"], &all),
        ("cksum", &["-a", "sysv"], &all),
        ("sum", &[], &all),
        ("sum", &["-s"], &all),
    ] {
        let arguments: Vec<&OsStr> = options.iter().chain(files).map(OsStr::new).collect();
        let theirs = run(&cksum.with_file_name(program), program, &arguments, path, None);
        assert_eq!(run(Path::new(VERISUM), program, &arguments, path, None), theirs, "{program} {options:?}");
    }
}
