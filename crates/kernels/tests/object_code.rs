//! What the compiler made of the kernels: no function mixes vector registers of 256 or 512 bits with
//! instructions that stall on them.
//!
//! An instruction with an encoding of the legacy kind waits, on Intel for hundreds of cycles, while the
//! upper half of a vector register is in use; on AMD nothing is to be seen of it. All SHA instructions have
//! such encodings. Which registers a function uses is the compiler's choice, another one in every profile,
//! so this reads the programs themselves, with all that is linked to them.

#![cfg(target_arch = "x86_64")]

use std::collections::HashMap;
use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use verisum_kernels::{Kernel, KernelAlgorithm, Level};

/// Instructions of the SHA extensions.
const SHA: [&str; 7] =
    ["sha256rnds2", "sha256msg1", "sha256msg2", "sha1rnds4", "sha1nexte", "sha1msg1", "sha1msg2"];

#[test]
fn this_program() {
    // The linker leaves out what nobody calls.
    for (&algorithm, &level) in
        KernelAlgorithm::ALL.iter().flat_map(|a| Level::ALL.iter().map(move |l| (a, l)))
    {
        black_box(Kernel::at(algorithm, level));
    }
    assert_object_code(&std::env::current_exe().unwrap());
}

#[test]
fn what_users_run() {
    let this = std::env::current_exe().unwrap();
    let built = this.ancestors().nth(2).unwrap();
    let release = built.with_file_name("release");
    // The tests build the programs without much optimisation, and the library as it is released. The programs'
    // release takes many minutes: scripts/package.sh has this test read them before they are stripped, and then they
    // are in the folder of this program. Not `verisum-serve`, whose functions have no names; it has the same code as
    // `verisum`.
    let mut said = String::new();
    let programs = [
        (built.join("verisum"), true),
        (built.join("blksum"), true),
        (release.join("libblkhash.so"), true),
        (release.join("verisum"), false),
        (release.join("blksum"), false),
    ];
    for (path, is_wanted) in programs {
        if path.exists() {
            assert_object_code(&path);
            writeln!(said, "object code: looked at {}", path.display()).unwrap();
        } else if is_wanted {
            assert!(std::env::var_os("CI").is_none(), "{} was not built", path.display());
            writeln!(said, "SKIPPED: {} was not built", path.display()).unwrap();
        } else {
            writeln!(said, "object code: {} is left to scripts/package.sh", path.display()).unwrap();
        }
    }
    // Not by a macro: the test harness hides what those print while a test passes.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
}

#[test]
fn the_rules_bite() {
    let faults = |lines: &[&str]| Function { name: "verisum::f", lines: parsed(lines) }.faults();
    let with = |before: &[&str], line: &str, after: &[&str]| faults(&[before, &[line], after].concat());
    let sha = "1:\tsha256rnds2 %xmm0,%xmm1,%xmm2";
    assert!(with(&["0:\tvzeroupper"], sha, &["2:\tret"]).is_empty());
    assert_eq!(with(&["0:\tvmovdqu 0x10(%rsp),%ymm11"], sha, &["2:\tvzeroupper", "3:\tret"]).len(), 2);
    assert_eq!(with(&["0:\tvpxor %ymm1,%ymm1,%ymm1"], "1:\tpaddd %xmm1,%xmm2", &["2:\tvzeroupper"]).len(), 1);
    assert!(faults(&["0:\tvpxor %ymm1,%ymm1,%ymm1", "1:\tvzeroupper", "2:\tret"]).is_empty());
    assert_eq!(faults(&["0:\tvpxord %zmm1,%zmm1,%zmm1", "1:\tret"]).len(), 1);
    assert_eq!(faults(&["0:\tvpxor %ymm1,%ymm1,%ymm1", "1:\tcall   40 <g>", "2:\tvzeroupper"]).len(), 1);
    // What is below 16 only has upper halves that legacy instructions know.
    assert!(faults(&["0:\tvpxord %zmm17,%zmm17,%zmm17", "1:\tret"]).is_empty());
    // One of two ways to the end forgets.
    let branch = ["0:\tvpxor %ymm1,%ymm1,%ymm1", "1:\tje     3 <f+0x3>", "2:\tvzeroupper", "3:\tret"];
    assert_eq!(faults(&branch).len(), 1);
    let both = ["0:\tje     3 <f+0x3>", "1:\tvpxor %ymm1,%ymm1,%ymm1", "2:\tvzeroupper", "3:\tret"];
    assert!(faults(&both).is_empty());
}

/// A function as `objdump` prints it.
struct Function<'a> {
    name: &'a str,
    lines: Vec<Line<'a>>,
}

/// An instruction and where it is.
struct Line<'a> {
    address: &'a str,
    text: &'a str,
    mnemonic: &'a str,
}

/// Reads instructions; what is none is passed over.
fn parsed<'a>(lines: &[&'a str]) -> Vec<Line<'a>> {
    let one = |line: &&'a str| {
        let (address, text) = line.split_once(":\t")?;
        let mut words =
            text.split_whitespace().filter(|word| !["bnd", "notrack", "rep", "repz"].contains(word));
        Some(Line { address: address.trim(), text, mnemonic: words.next()? })
    };
    lines.iter().filter_map(one).collect()
}

#[track_caller]
#[allow(clippy::print_stderr)] // A skip is said aloud.
fn assert_object_code(program: &Path) {
    let output = match Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(program).output() {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "objdump: {error}");
            eprintln!("SKIPPED: objdump: {error}");
            return;
        }
    };
    assert!(output.status.success(), "objdump {}", program.display());
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut faults, mut with_sha, mut with_wide) = (String::new(), 0, 0);
    // An empty line stands before each function.
    for part in text.split("\n\n") {
        // What has none of these breaks no rule, and is nearly all.
        if !["%ymm", "%zmm", "sha"].iter().any(|word| part.contains(word)) {
            continue;
        }
        let lines: Vec<&str> = part.lines().collect();
        let Some(name) = lines.iter().find_map(|line| line.strip_suffix(">:")) else { continue };
        let function = Function { name, lines: parsed(&lines) };
        with_sha += usize::from(function.lines.iter().any(Line::is_sha));
        with_wide += usize::from(function.lines.iter().any(Line::is_wide));
        for fault in function.faults() {
            writeln!(faults, "{fault}").unwrap();
        }
    }
    // SHA-1 and SHA-256, one message and two.
    assert!(with_sha >= 4, "{} functions of {} use SHA instructions", with_sha, program.display());
    assert!(with_wide >= 10, "{} functions of {} use wide registers", with_wide, program.display());
    assert!(faults.is_empty(), "{}:\n{faults}", program.display());
}

impl Line<'_> {
    fn is_sha(&self) -> bool {
        SHA.contains(&self.mnemonic)
    }

    /// Whether it has to do with registers wider than 128 bits.
    fn is_wide(&self) -> bool {
        self.text.contains("%ymm") || self.text.contains("%zmm")
    }

    /// Whether one of them shares its lower part with a register that legacy instructions know.
    fn is_dirtying(&self) -> bool {
        let registers = self.text.split("%ymm").skip(1).chain(self.text.split("%zmm").skip(1));
        let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<u8>();
        registers.map(number).any(|number| number.unwrap() < 16)
    }

    /// Whether it works on vectors and has no encoding of the newer kinds, whose names begin with a `v`.
    fn is_legacy(&self) -> bool {
        self.text.contains("%xmm") && !self.mnemonic.starts_with(['v', '{'])
    }

    /// Where a jump goes; none if it is no jump, or goes where a register says.
    fn target(&self) -> Option<&str> {
        self.is_jump().then(|| self.text.rsplit_once(" <")?.0.rsplit([' ', '\t']).next())?
    }

    fn is_jump(&self) -> bool {
        self.mnemonic.starts_with('j')
    }

    fn is_end(&self) -> bool {
        self.mnemonic.starts_with("ret") || self.mnemonic == "ud2" || self.mnemonic == "jmp"
    }
}

impl Function<'_> {
    /// Names what breaks the rules.
    fn faults(&self) -> Vec<String> {
        if !self.lines.iter().any(Line::is_wide) {
            return Vec::new();
        }
        let name = self.name;
        let mut faults = Vec::new();
        if self.lines.iter().any(Line::is_sha) {
            faults.push(format!("{name}: wide registers in a function of SHA instructions"));
        }
        // Others may hand wide registers to functions of their own.
        if !name.contains("verisum") {
            return faults;
        }
        if let Some(line) = self.lines.iter().find(|line| line.is_legacy()) {
            faults.push(format!("{name}: wide registers beside `{}`", line.text));
        }
        if let Some(line) = self.leaves_dirty() {
            faults.push(format!("{name}: upper halves in use at `{}`", line.text));
        }
        faults
    }

    /// Finds a call or an end that is reached, on some way, with an upper half in use.
    fn leaves_dirty(&self) -> Option<&Line<'_>> {
        let index: HashMap<&str, usize> = self.lines.iter().map(|line| line.address).zip(0..).collect();
        // Whether each instruction was reached: clean, dirty.
        let mut reached = vec![[false; 2]; self.lines.len()];
        let mut open = vec![(0, false)];
        while let Some((place, mut is_dirty)) = open.pop() {
            let Some(line) = self.lines.get(place) else { continue };
            if std::mem::replace(&mut reached[place][usize::from(is_dirty)], true) {
                continue;
            }
            is_dirty = line.mnemonic != "vzeroupper" && (is_dirty || line.is_dirtying());
            let target = line.target().and_then(|target| index.get(target));
            let leaves = line.mnemonic.starts_with("call")
                || line.mnemonic.starts_with("ret")
                || line.is_jump() && target.is_none();
            if leaves && is_dirty {
                return Some(line);
            }
            open.extend(target.map(|&target| (target, is_dirty)));
            if !line.is_end() {
                open.push((place + 1, is_dirty));
            }
        }
        None
    }
}
