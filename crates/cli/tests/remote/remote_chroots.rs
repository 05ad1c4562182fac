//! Trees on hosts that have one way to hash and no other, each a root directory of its own.

use crate::common;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::VERISUM;
use common::chroot::Chroot;
use common::sshd::Sshd;
use common::trees::{ODD, assert_lists, fill, parsed, place};
use verisum_testkit::require_tool;

/// A host, and what it must be hashed by.
struct Host {
    way: &'static str,
    /// What is told of it.
    described: &'static str,
    root: Chroot,
}

/// Where the files are.
const TREE: &str = "/data";

/// A root with a shell, these programs, and the files.
fn root(programs: &[&str]) -> Option<Chroot> {
    let root = Chroot::new();
    root.program(&require_tool("dash")?, "/bin/sh");
    for name in programs {
        root.program(&require_tool(name)?, &format!("/usr/bin/{name}"));
    }
    fill(&root.directory(TREE, 0o755));
    Some(root)
}

/// GNU's own tools: `find` prints sizes and times.
fn coreutils() -> Option<Host> {
    let root = root(&["find", "xargs", "sha256sum", "cat"])?;
    Some(Host { way: "coreutils", described: "coreutils (sha256sum -z)", root })
}

/// BusyBox alone, with its own shell and no library.
fn busybox() -> Option<Host> {
    let root = busybox_programs()?;
    root.link("busybox", "/bin/sh");
    Some(Host { way: "busybox", described: "busybox (sha256sum)", root })
}

/// The same without a shell.
fn busybox_programs() -> Option<Chroot> {
    let root = Chroot::new();
    root.program(&require_tool("busybox")?, "/bin/busybox");
    for name in ["find", "xargs", "stat", "sha256sum", "cat", "gzip", "head", "mktemp", "wc", "chmod", "rm"] {
        root.link("busybox", &format!("/bin/{name}"));
    }
    fill(&root.directory(TREE, 0o755));
    Some(root)
}

fn openssl() -> Option<Host> {
    let root = root(&["find", "xargs", "openssl", "cat"])?;
    Some(Host { way: "openssl", described: "openssl (openssl dgst -r -sha256)", root })
}

/// Perl with the modules that the script loads, and no `find`.
fn perl() -> Option<Host> {
    let root = root(&[])?;
    with_perl(&root)?;
    Some(Host { way: "perl", described: "perl (perl)", root })
}

/// The script of libdigest-perl, which is part of Perl, by its own name.
fn shasum() -> Option<Host> {
    let root = root(&["find", "xargs", "cat"])?;
    with_perl(&root)?;
    // Alone, the way of Perl itself would come after it and do as well.
    root.copy(&require_tool("shasum")?, "/usr/bin/shasum");
    Some(Host { way: "shasum", described: "shasum (shasum -a 256)", root })
}

fn with_perl(root: &Chroot) -> Option<()> {
    let perl = require_tool("perl")?;
    let loaded =
        "require DynaLoader; print map { \"$_\\n\" } grep { -f } values %INC, @DynaLoader::dl_shared_objects";
    let modules = ["-MDigest::SHA", "-MDigest::MD5", "-MErrno", "-MFcntl", "-MGetopt::Long", "-MFile::Spec"];
    copy_listed(root, Command::new(&perl).args(modules).args(["-e", loaded]));
    root.program(&perl, "/usr/bin/perl");
    Some(())
}

/// Python with the modules that the script loads, under one of its names.
fn python(name: &str, python: &Path) -> Option<Host> {
    let loaded = "import sys, os, errno, stat, hashlib\n\
        for way in ('sha256', 'md5'): hashlib.new(way)\n\
        try:\n import encodings.idna, encodings.latin_1, encodings.ascii, encodings.utf_8\n\
        except ImportError: pass\n\
        found = [getattr(m, '__file__', None) for m in list(sys.modules.values())]\n\
        for path in found:\n\
        \x20if path: print(path[:-1] if path.endswith('.pyc') else path)\n";
    let root = root(&[])?;
    copy_listed(&root, Command::new(python).args(["-c", loaded]));
    // It finds its modules from where it is.
    let own = python.to_str().unwrap();
    root.program(python, own);
    let programs = root.directory("/usr/bin", 0o755);
    if !programs.join(name).exists() {
        root.link(own, &format!("/usr/bin/{name}"));
    }
    let described = if name == "python3" { "python (python3)" } else { "python (python2)" };
    Some(Host { way: "python", described, root })
}

/// Copies the files that a program names, and the libraries that they load.
fn copy_listed(root: &Chroot, program: &mut Command) {
    let listed = program.stdin(Stdio::null()).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    for path in String::from_utf8(listed.stdout).unwrap().lines() {
        root.copy(Path::new(path), path);
        if path.contains(".so") {
            root.libraries(Path::new(path));
        }
    }
}

/// The interpreter itself: what PATH leads to may be a script.
fn interpreter(python: &Path) -> Option<PathBuf> {
    let found = Command::new(python).args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
    let path = String::from_utf8(found.stdout).ok()?;
    fs::canonicalize(path.trim()).ok().filter(|_| found.status.success())
}

/// What a BSD has: no `-printf`, `stat -f`, programs that write `SHA256 (NAME) = HEX`, no `sha256sum`. Debian
/// has none of them, and these say what the manuals do.
fn bsd() -> Option<Host> {
    let root = root(&["xargs", "cat"])?;
    root.program(&require_tool("find")?, "/libexec/find");
    root.program(&require_tool("stat")?, "/libexec/stat");
    root.program(&require_tool("sha256sum")?, "/libexec/sum");
    root.script(
        "/usr/bin/find",
        "#!/bin/sh\nfor word do case $word in -printf) echo 'find: -printf: unknown primary' >&2; exit 1 ;; esac; done\n\
         exec /libexec/find \"$@\"\n",
    );
    root.script(
        "/usr/bin/stat",
        "#!/bin/sh\n[ \"$1\" = -f ] || { echo 'stat: illegal option' >&2; exit 1; }\nformat=$2; shift 2\n\
         case $format in\n'%N//') exec /libexec/stat --printf '%n//\\n' \"$@\" ;;\n\
         '//%z %Fm/%i/%B %N//') exec /libexec/stat --printf '//%s %.9Y/%i/%W %n//\\n' \"$@\" ;;\nesac\nexit 1\n",
    );
    root.script(
        "/sbin/sha256",
        "#!/bin/sh\nif [ $# -eq 0 ]; then r=$(/libexec/sum); echo \"${r%% *}\"; exit; fi\ncode=0\n\
         for f do\nr=$(/libexec/sum <\"$f\") || { code=1; continue; }\n\
         printf 'SHA256 (%s) = %s\\n' \"$f\" \"${r%% *}\"\ndone\nexit $code\n",
    );
    Some(Host { way: "bsd", described: "bsd (/sbin/sha256)", root })
}

/// What GNU's own tools say of the files.
fn expected(root: &Chroot) -> BTreeMap<String, String> {
    let listed = Command::new("sh")
        .args(["-c", "find . -type f -print0 | xargs -0 sha256sum -z"])
        .current_dir(root.path(TREE))
        .output()
        .unwrap();
    let named = |(name, digest): (String, String)| (format!("{TREE}/{}", &name[2..]), digest);
    let found: BTreeMap<String, String> = parsed(&listed.stdout).into_iter().map(named).collect();
    assert_eq!(found.len(), 201 + ODD.len());
    found
}

/// Asserts that the host hashes a tree and a list by its way, tells it, and has no other.
fn assert_host(host: &Host) {
    let Some(server) = host.root.serve() else { return };
    let expected = expected(&host.root);
    let what = format!("{}: {}", host.described, server.log());
    let told = format!("verisum: web1: sha256 by {}\n", host.described);
    let tree = || server.run(server.remote("sum").arg("-z").arg(place("web1:", Path::new(TREE))));
    let ended = tree();
    assert_lists(&ended, 0, &expected, &what);
    assert_eq!(ended.stderr, told, "{what}");

    let list = server.path("list");
    let mut names = Vec::new();
    for entry in walk(&host.root.path(TREE)) {
        let below = entry.strip_prefix(host.root.path(TREE)).unwrap();
        names.extend_from_slice(below.as_os_str().as_encoded_bytes());
        names.push(0);
    }
    fs::write(&list, names).unwrap();
    let mut command = server.remote("sum");
    command.args(["-z", "--files0-from"]).arg(&list).arg(place("web1:", Path::new(TREE)));
    let ended = server.run(&mut command);
    assert_lists(&ended, 0, &expected, &what);

    let others: Vec<&str> =
        WAYS.into_iter().filter(|way| *way != host.way && !is_implied(host.way, way)).collect();
    let mut command = server.remote("sum");
    command.args(["--require", &others.join(",")]).arg(place("web1:", Path::new(TREE)));
    let ended = server.run(&mut command);
    assert_eq!((ended.code, ended.out()), (Some(3), ""), "{what}{}", ended.stderr);
    assert!(ended.stderr.contains("nothing there computes sha256 among"), "{what}{}", ended.stderr);
}

const WAYS: [&str; 10] =
    ["verisum", "coreutils", "busybox", "bsd", "shasum", "digest", "csum", "openssl", "perl", "python"];

/// Where one way is, another may be too: `shasum` is a script in Perl, and BusyBox's programs are tried by
/// the names of the others.
fn is_implied(way: &str, other: &str) -> bool {
    matches!((way, other), ("shasum", "perl") | ("busybox", "coreutils"))
}

/// All regular files.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.extend(walk(&entry.path()));
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    files
}

#[test]
fn a_host_with_coreutils_alone() {
    coreutils().iter().for_each(assert_host);
}

#[test]
fn a_host_with_busybox_alone() {
    busybox().iter().for_each(assert_host);
}

#[test]
fn a_host_with_openssl_alone() {
    openssl().iter().for_each(assert_host);
}

#[test]
fn a_host_with_perl_alone() {
    perl().iter().for_each(assert_host);
}

#[test]
fn a_host_with_shasum_alone() {
    shasum().iter().for_each(assert_host);
}

#[test]
fn a_host_like_a_bsd() {
    bsd().iter().for_each(assert_host);
}

#[test]
fn a_host_with_python_alone() {
    let Some(found) = require_tool("python3").and_then(|found| interpreter(&found)) else { return };
    python("python3", &found).iter().for_each(assert_host);
}

#[test]
fn a_host_with_python_2_alone() {
    // No package of Debian has it any more: it is tried where somebody keeps one.
    let Some(found) = interpreter(Path::new("python2")) else { return };
    python("python2", &found).iter().for_each(assert_host);
}

/// The small program that is pushed.
fn small() -> PathBuf {
    Path::new(VERISUM).with_file_name("verisum-serve")
}

#[test]
fn a_pushed_program_runs_where_only_its_libraries_are() {
    let Some(root) = root(&["head", "mktemp", "wc", "chmod", "rm", "cat"]) else { return };
    root.libraries(&small());
    let Some(server) = root.serve() else { return };
    let ended = server.run(server.remote("sum").args(["-z", "--push"]).arg(place("web1:", Path::new(TREE))));
    assert_lists(&ended, 0, &expected(&root), &server.log());
    assert_eq!(ended.stderr, "verisum: web1: sha256 by verisum (pushed)\n");
    assert_eq!(fs::read_dir(root.path("tmp")).unwrap().count(), 0);
}

#[test]
fn a_program_that_cannot_be_pushed_is_named_and_another_way_is_used() {
    // The shell of busybox-static starts what it has without a link to it, the one of busybox does not: so
    // that either shows both, one host has a `uname`, and the other a shell that knows nothing of BusyBox.
    let Some(host) = busybox() else { return };
    host.root.link("busybox", "/bin/uname");
    assert_not_pushed(&host);
    let (Some(root), Some(dash)) = (busybox_programs(), require_tool("dash")) else { return };
    root.program(&dash, "/bin/sh");
    assert_not_pushed(&Host { root, ..host });
}

fn assert_not_pushed(Host { root, described, .. }: &Host) {
    let Some(server) = root.serve() else { return };
    let expected = expected(root);
    let run = |server: &Sshd, program: &Path| {
        let mut option = OsString::from("--push=");
        option.push(program);
        let ended =
            server.run(server.remote("sum").arg("-z").arg(option).arg(place("web1:", Path::new(TREE))));
        assert_lists(&ended, 0, &expected, &server.log());
        let (first, rest) = ended.stderr.split_once('\n').unwrap();
        assert_eq!(rest, format!("verisum: web1: sha256 by {described}\n"));
        assert_eq!(fs::read_dir(root.path("tmp")).unwrap().count(), 0);
        first.to_string()
    };
    // It needs a loader that is not there.
    let first = run(&server, Path::new(VERISUM));
    assert!(first.starts_with("verisum: web1: verisum cannot be pushed: it does not run there: "), "{first}");
    // A program for another processor is not even sent.
    let foreign = server.path("foreign");
    let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    header.extend_from_slice(if cfg!(target_arch = "x86_64") { &[183, 0] } else { &[62, 0] });
    fs::write(&foreign, header).unwrap();
    let first = run(&server, &foreign);
    assert!(first.contains("cannot be pushed: it is made for Linux "), "{first}");
    // What runs and gives wrong digests is not used.
    let liar = server.path("liar");
    fs::write(&liar, "#!/bin/sh\nprintf 'verisum-remote 1\\0t\\t00\\t00\\t00\\0end\\0'\n").unwrap();
    let first = run(&server, &liar);
    assert!(first.ends_with("cannot be pushed: it gives wrong digests there, or none"), "{first}");
    // Nor can it be where no directory takes programs.
    drop(server);
    let Some(server) = root.serve_after("mount -t tmpfs -o noexec,mode=1777 none /mnt/tmp") else { return };
    let first = run(&server, &small());
    assert!(first.ends_with("cannot be pushed: no private directory for programs can be made"), "{first}");
}
