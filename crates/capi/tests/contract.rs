//! What the header promises, checked by C programs, by valgrind, and by looking at the library.

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{Bench, declared, shared_library, source, succeed, text};
use verisum_testkit::require_tool;

#[test]
fn the_contract_is_kept() {
    let Some(bench) = Bench::new() else { return };
    assert_eq!(text(&mut bench.command(bench.compile("tests/c/contract.c"))), "all as promised\n");
}

/// The sum of a file and of a pipe by both examples, and their errors.
#[test]
fn the_examples_work() {
    let Some(bench) = Bench::new() else { return };
    let file = bench.path("content");
    let content: Vec<u8> = (0..5_000_003_u32).map(|i| (i % 253) as u8).collect();
    fs::write(&file, content).unwrap();
    let mut sums = Vec::new();
    for example in ["simple", "async"] {
        let program = bench.compile(&format!("examples/{example}.c"));
        let of_file = text(bench.command(&program).arg(&file));
        let (sum, name) = of_file.trim_end().split_once("  ").unwrap();
        assert_eq!(name, file.to_str().unwrap());
        let mut cat = Command::new("cat").arg(&file).stdout(Stdio::piped()).spawn().unwrap();
        let of_pipe = text(bench.command(&program).stdin(cat.stdout.take().unwrap()));
        assert!(cat.wait().unwrap().success());
        assert_eq!(of_pipe, format!("{sum}  -\n"));
        let of_nothing = text(bench.command(&program).arg("/dev/null"));
        assert!(of_nothing.starts_with("af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc  "));
        sums.push(sum.to_string());

        for (argument, complaint) in
            [("/nosuch", "/nosuch: No such file or directory"), ("/", "/: Is a directory")]
        {
            let output = bench.command(&program).arg(argument).output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            assert!(output.stdout.is_empty());
            assert_eq!(String::from_utf8_lossy(&output.stderr), format!("{example}: {complaint}\n"));
        }
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = bench.command(&program).arg(&file).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
    }
    assert_eq!(sums[0], sums[1]);
}

#[test]
fn the_first_example_of_the_manual_compiles_and_works() {
    let Some(bench) = Bench::new() else { return };
    let manual = fs::read_to_string(source("man/blkhash.3")).unwrap();
    let literal = manual.split(".Sh EXAMPLES").nth(1).unwrap();
    let literal =
        literal.split(".Bd -literal -offset indent\n").nth(1).unwrap().split("\n.Ed").next().unwrap();
    fs::write(bench.path("example.c"), literal.replace("\\en", "\\n")).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(source("include"));
    compile.arg("-o").arg(bench.path("example"));
    compile.arg(bench.path("example.c")).arg("-L").arg(bench.path("")).arg("-lblkhash");
    succeed(&mut compile);
    let mut command = bench.command(bench.path("example"));
    assert_eq!(
        text(command.stdin(Stdio::null())),
        "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc\n"
    );
}

#[test]
fn the_header_is_c99_and_cpp() {
    let header = source("tests/c/header.c");
    for (tool, arguments) in [
        ("cc", &["-std=c99"][..]),
        ("cc", &["-std=c11"]),
        ("c++", &["-x", "c++", "-std=c++11"]),
        ("c++", &["-x", "c++", "-std=c++20"]),
    ] {
        let Some(compiler) = require_tool(tool) else { continue };
        let mut command = Command::new(compiler);
        command.args(arguments).args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]);
        succeed(command.arg("-I").arg(source("include")).arg(&header));
    }
    // The names must be found by C++ programs in the library, too.
    let (Some(bench), Some(compiler)) = (Bench::new(), require_tool("c++")) else { return };
    let mut command = Command::new(compiler);
    command.args(["-x", "c++", "-std=c++11", "-I"]).arg(source("include")).arg(&header);
    command.args(["-x", "none", "-o"]).arg(bench.path("cpp")).arg("-L").arg(bench.path("")).arg("-lblkhash");
    succeed(&mut command);
    succeed(&mut bench.command(bench.path("cpp")));
}

/// A program with neither errors nor leaks. valgrind shows a processor with AVX2 at most, so that this
/// runs other kernels than the tests without it.
fn valgrind(bench: &Bench, command: &[&std::ffi::OsStr]) -> Option<String> {
    let valgrind = require_tool("valgrind")?;
    let mut under = bench.command(valgrind);
    under.args([
        "--error-exitcode=99",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite,indirect,possible",
    ]);
    under.args(["--quiet", "--fair-sched=yes"]).args(command);
    Some(text(&mut under))
}

#[test]
fn valgrind_finds_nothing_in_the_contract() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("tests/c/contract.c");
    if let Some(printed) = valgrind(&bench, &[program.as_os_str(), "without-limits".as_ref()]) {
        assert_eq!(printed, "all as promised\n");
    }
}

#[test]
fn valgrind_finds_nothing_in_the_vectors() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("tests/c/vectors.c");
    let (list, count) = bench.write_vectors("list", |vector| {
        let some = ["sha256", "md5", "blake3"].contains(&vector.digest.as_str());
        match vector.block_size {
            512 => vector.length < 10_000,
            4096 => some && vector.length < 100_000,
            _ => false,
        }
    });
    assert!(count > 100, "{count} vectors");
    // To start a thread takes milliseconds there, and what a thread does depends on no number of them.
    for form in ["simple", "zero", "aio", "mix"] {
        let command = [program.as_os_str(), list.as_os_str(), form.as_ref(), "few".as_ref()];
        let Some(printed) = valgrind(&bench, &command) else { return };
        assert_eq!(printed, format!("{count} hashes\n"));
    }
}

#[test]
fn the_library_shows_its_interface_and_nothing_else() {
    let Some(nm) = require_tool("nm") else { return };
    let symbols =
        text(Command::new(nm).args(["-D", "--defined-only", "--format=posix"]).arg(shared_library()));
    let mut names: Vec<&str> = symbols.lines().map(|line| line.split(' ').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, declared());
    assert_eq!(names.len(), 19);
}

#[test]
fn the_library_has_its_soname_and_needs_only_the_system() {
    let Some(readelf) = require_tool("readelf") else { return };
    let dynamic = text(Command::new(readelf).args(["--dynamic", "--wide"]).arg(shared_library()));
    assert!(dynamic.contains("(SONAME)             Library soname: [libblkhash.so.0]"), "{dynamic}");
    for line in dynamic.lines().filter(|line| line.contains("(NEEDED)")) {
        let name = &line[line.find('[').unwrap() + 1..line.find(']').unwrap()];
        let system = ["libc.so.6", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "libdl.so.2"];
        assert!(system.contains(&name) || name.starts_with("ld-linux"), "needs {name}");
    }
    assert!(!dynamic.contains("TEXTREL") && !dynamic.contains("RPATH") && !dynamic.contains("RUNPATH"));
}

/// Each function stands in the manual twice: in its names, by which it is found, and in the synopsis.
#[test]
fn the_manual_has_every_function() {
    let manual = fs::read_to_string(source("man/blkhash.3")).unwrap();
    let (names, rest) = manual.split_once(".Sh LIBRARY").unwrap();
    let synopsis = rest.split(".Sh DESCRIPTION").next().unwrap();
    let mut named: Vec<&str> = names
        .lines()
        .filter_map(|line| line.strip_prefix(".Nm blkhash_"))
        .map(|name| name.trim_end_matches(" ,"))
        .collect();
    named.sort_unstable();
    let declared = declared();
    assert_eq!(declared.len(), 19);
    assert_eq!(named, declared.iter().map(|name| &name["blkhash_".len()..]).collect::<Vec<_>>());
    for name in &declared {
        let prototype =
            |line: &str| line == format!(".Fo {name}") || line.starts_with(&format!(".Fn {name} "));
        assert!(synopsis.lines().any(prototype), "{name} is not in the synopsis");
    }
}

#[test]
fn the_manual_formats_without_a_warning() {
    let Some(groff) = require_tool("groff") else { return };
    let mut command = Command::new(groff);
    let output = succeed(command.args(["-mandoc", "-Tutf8", "-ww", "-z"]).arg(source("man/blkhash.3")));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_pkg_config_file_is_complete() {
    let Some(pkg_config) = require_tool("pkg-config") else { return };
    let folder = tempfile::tempdir().unwrap();
    let template = fs::read_to_string(source("blkhash.pc.in")).unwrap();
    let file = template.replace("@PREFIX@", "/opt/v").replace("@LIBDIR@", "/opt/v/lib64");
    assert!(!file.contains('@'), "{file}");
    fs::write(folder.path().join("blkhash.pc"), file).unwrap();
    let ask = |option: &str| {
        let mut command = Command::new(&pkg_config);
        command.env("PKG_CONFIG_PATH", folder.path()).args([option, "blkhash"]);
        text(&mut command).trim_end().to_string()
    };
    assert_eq!(ask("--libs"), "-L/opt/v/lib64 -lblkhash");
    assert_eq!(ask("--cflags"), "-I/opt/v/include");
    // Of the interface that it replaces, which programs ask for.
    assert_eq!(ask("--modversion"), "0.11.0");
    for (wanted, fits) in [("blkhash >= 0.8", true), ("blkhash >= 0.12", false)] {
        let mut command = Command::new(&pkg_config);
        command.env("PKG_CONFIG_PATH", folder.path()).args(["--exists", wanted]);
        assert_eq!(command.status().unwrap().success(), fits, "{wanted}");
    }
}
