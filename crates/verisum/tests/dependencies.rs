//! Who hashes files compiles neither SQLite nor ssh: a small program against this crate, without its features.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The crates that a program with these features is made of.
fn crates_of(features: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = \"program\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         verisum = {{ path = '{}', default-features = false, features = [{features}] }}\n",
        root.join("crates/verisum").display()
    );
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    // The versions that the workspace has, of which all are there.
    fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    let program = "fn main() {\n    let roots = vec![\".\".into()];\n    \
        for file in verisum::hash_files(roots, &verisum::HashOptions::default()).unwrap() {\n        \
        let file = file.unwrap();\n        println!(\"{}  {}\", file.digests[0], file.path.display());\n    \
        }\n}\n";
    fs::write(folder.path().join("src/main.rs"), program).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]);
    let output = cargo.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names: BTreeSet<String> =
        text.lines().filter_map(|line| line.split(' ').next()).map(str::to_string).collect();
    // The program is compiled too, without the crates that it does not need being looked at.
    let mut cargo = Command::new(env!("CARGO"));
    // What others wrote is compiled once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("features");
    cargo.args(["check", "--offline", "--quiet", "--target-dir"]).arg(target);
    if features.is_empty() {
        let output = cargo.current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    names
}

#[test]
fn features_bring_what_they_name() {
    let plain = crates_of("");
    assert!(plain.contains("verisum-files") && plain.contains("verisum-kernels"), "{plain:?}");
    for heavy in ["arrow", "parquet", "object_store", "reqwest", "hyper", "http", "rustls", "tokio"] {
        let found = plain.iter().find(|name| **name == heavy || name.starts_with(&format!("{heavy}-")));
        assert_eq!(found, None, "{plain:?}");
    }
    for own in ["verisum-mend", "verisum-lake", "verisum-object", "verisum-blockhash"] {
        assert!(!plain.contains(own), "{own}: {plain:?}");
    }
    let brought = [
        "libsqlite3-sys",
        "rusqlite",
        "verisum-catalog",
        "verisum-remote",
        "verisum-image",
        "verisum-parity",
        "reed-solomon-simd",
    ];
    for name in brought {
        assert!(!plain.contains(name), "{name}: {plain:?}");
    }
    let all = crates_of("\"image\", \"catalog\", \"remote\", \"parity\"");
    for name in brought {
        assert!(all.contains(name), "{name}: {all:?}");
    }
}
