//! Links the programs so that they start fast: with the static form of the compiler's support library, with short
//! lists of the addresses to move, and for tests at a fixed address.
//!
//! Rust asks for `libgcc_s.so.1`, only to be able to unwind after a panic. Loading it is a tenth of a
//! millisecond of every start: a tenth of the whole. A linker script of that name, found first, puts the
//! static library of the same code in its place.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" {
        // It is sent over networks: nobody reads its symbols.
        println!("cargo::rustc-link-arg-bin=verisum-serve=-s");
    }
    if target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    // Tests start the program 14,000 times, and a third of a start would go into moving it to its address.
    if env::var("PROFILE").as_deref() == Ok("debug") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    if env::var("HOST") != env::var("TARGET") {
        return;
    }
    // The addresses that move with the program: a bit for each, in place of 24 bytes each. `verisum-serve` goes
    // without: hosts may have an older C library, which cannot read them. Another linker may link for one, too.
    let linker = format!("CARGO_TARGET_{}_LINKER", env::var("TARGET").unwrap_or_default());
    println!("cargo::rerun-if-env-changed={}", linker.to_uppercase().replace('-', "_"));
    if env::var_os("RUSTC_LINKER").is_none() && c_library().is_some_and(|version| version >= (2, 36)) {
        for program in ["verisum", "blksum"] {
            println!("cargo::rustc-link-arg-bin={program}=-Wl,-z,pack-relative-relocs");
        }
    }
    if !has_static_library() {
        return;
    }
    let Ok(folder) = env::var("OUT_DIR") else { return };
    // Where this cannot be done the programs are linked as usual.
    if fs::write(Path::new(&folder).join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n").is_ok() {
        println!("cargo::rustc-link-search=native={folder}");
    }
}

/// Whether the compiler that links has the static library: it then prints its path, else its bare name.
fn has_static_library() -> bool {
    let output = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    output.is_ok_and(|output| output.stdout.starts_with(b"/"))
}

/// The version of the C library of the system that builds.
fn c_library() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let (_, version) = str::from_utf8(&output.stdout).ok()?.trim().rsplit_once(' ')?;
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
