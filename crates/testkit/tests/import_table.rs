//! The architecture, asserted: which crate may import which, where `unsafe` may be written, and that
//! the tables in README.md and docs/architecture.md say the same as the code.
//!
//! A new crate, a new import or a new place for `unsafe` fails here until this table, and with it
//! docs/architecture.md, says that it is meant.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One row of the architecture.
struct Row {
    /// The folder below crates/ (`python` stands beside it); the package is `verisum-NAME`.
    name: &'static str,
    /// The crates of ours that it may have as normal or build dependencies.
    may_import: &'static [&'static str],
    /// Where it may contain `unsafe`.
    unsafe_code: Unsafe,
}

enum Unsafe {
    /// Nowhere: every crate root says `#![forbid(unsafe_code)]`.
    Nowhere,
    /// In these files or folders of its src/: every crate root says `#![deny(unsafe_code)]`.
    In(&'static [&'static str]),
    /// Anywhere: it is what the crate is for.
    Anywhere,
}

const TABLE: &[Row] = &[
    Row { name: "kernels", may_import: &[], unsafe_code: Unsafe::Anywhere },
    Row { name: "digest", may_import: &["kernels"], unsafe_code: Unsafe::In(&["provider/openssl"]) },
    Row { name: "pagecache", may_import: &[], unsafe_code: Unsafe::In(&["cachestat.rs", "mapped.rs"]) },
    Row {
        name: "image",
        may_import: &["pagecache"],
        unsafe_code: Unsafe::In(&["nbd/libnbd.rs", "nbd/connection.rs", "qemu/child.rs"]),
    },
    Row {
        name: "blockhash",
        may_import: &["digest", "image", "pagecache"],
        unsafe_code: Unsafe::In(&["hasher.rs", "pool.rs"]),
    },
    Row { name: "files", may_import: &["digest", "pagecache"], unsafe_code: Unsafe::In(&["system.rs"]) },
    Row { name: "catalog", may_import: &["digest", "files"], unsafe_code: Unsafe::In(&["store/mapping.rs"]) },
    Row {
        name: "mend",
        may_import: &["digest", "blockhash", "files", "catalog"],
        unsafe_code: Unsafe::Nowhere,
    },
    Row { name: "lake", may_import: &["digest", "files", "catalog"], unsafe_code: Unsafe::Nowhere },
    Row { name: "dirhash", may_import: &["digest", "kernels"], unsafe_code: Unsafe::In(&["simd"]) },
    Row {
        name: "bench",
        may_import: &["digest", "blockhash", "files", "kernels", "pagecache"],
        unsafe_code: Unsafe::In(&["system.rs"]),
    },
    Row { name: "remote", may_import: &["digest", "files"], unsafe_code: Unsafe::Nowhere },
    Row { name: "object", may_import: &["digest", "files"], unsafe_code: Unsafe::Nowhere },
    Row { name: "parity", may_import: &["digest", "files"], unsafe_code: Unsafe::Nowhere },
    Row {
        name: "verisum",
        may_import: &[
            "digest",
            "image",
            "blockhash",
            "files",
            "catalog",
            "lake",
            "mend",
            "remote",
            "object",
            "parity",
        ],
        unsafe_code: Unsafe::Nowhere,
    },
    Row {
        name: "cli",
        may_import: &["verisum", "bench", "dirhash"],
        unsafe_code: Unsafe::In(&["ui/closed_streams.rs", "ui/locale.rs"]),
    },
    Row { name: "capi", may_import: &["digest", "blockhash"], unsafe_code: Unsafe::Anywhere },
    Row { name: "python", may_import: &["verisum"], unsafe_code: Unsafe::In(&["buffer.rs", "digests.rs"]) },
    Row { name: "testkit", may_import: &[], unsafe_code: Unsafe::Nowhere },
];

/// A workspace crate, as `cargo metadata` tells it.
struct Crate {
    description: String,
    folder: PathBuf,
    /// The root files of its library and binaries.
    roots: Vec<PathBuf>,
    /// Crates of ours that it needs to be built (normal and build dependencies).
    imports: BTreeSet<String>,
    /// Crates of others that it needs to be built.
    foreign: BTreeSet<String>,
}

#[test]
fn every_crate_has_a_row_and_every_row_a_crate() {
    let crates: Vec<String> = workspace().into_keys().collect();
    let mut rows: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
    rows.sort_unstable();
    assert_eq!(crates, rows);
}

#[test]
fn imports_are_those_of_the_table() {
    let crates = workspace();
    for row in TABLE {
        for import in &crates[row.name].imports {
            assert!(row.may_import.contains(&import.as_str()), "{} must not import {import}", row.name);
        }
    }
}

#[test]
fn testkit_is_never_a_normal_dependency() {
    for (name, package) in workspace() {
        assert!(!package.imports.contains("testkit"), "{name} imports testkit outside its tests");
    }
}

#[test]
fn kernels_need_core_and_std_only() {
    assert_eq!(workspace()["kernels"].foreign, BTreeSet::new());
}

#[test]
fn crate_roots_say_where_unsafe_code_may_be() {
    let crates = workspace();
    for row in TABLE {
        let attribute = match row.unsafe_code {
            Unsafe::Nowhere => "#![forbid(unsafe_code)]",
            Unsafe::In(_) => "#![deny(unsafe_code)]",
            Unsafe::Anywhere => continue,
        };
        let package = &crates[row.name];
        assert!(!package.roots.is_empty(), "{} has neither library nor program", row.name);
        for root in &package.roots {
            let text = fs::read_to_string(root).unwrap();
            let says = |attribute: &str| text.lines().any(|line| line.trim() == attribute);
            assert!(says(attribute) || says("#![forbid(unsafe_code)]"), "{}: no {attribute}", root.display());
        }
    }
}

#[test]
fn unsafe_code_is_only_where_the_table_allows_it() {
    let crates = workspace();
    for row in TABLE {
        let allowed = match row.unsafe_code {
            Unsafe::Nowhere => &[][..],
            Unsafe::In(places) => places,
            Unsafe::Anywhere => continue,
        };
        let src = crates[row.name].folder.join("src");
        for place in allowed {
            assert!(src.join(place).exists(), "{}: {place} is gone; take it out of the table", row.name);
        }
        for file in rust_files(&src) {
            let inside = file.strip_prefix(&src).unwrap();
            let text = fs::read_to_string(&file).unwrap();
            if !allowed.iter().any(|place| inside.starts_with(place)) {
                assert!(!words(&code_of(&text)).contains("unsafe"), "{}: unsafe code", file.display());
            }
        }
    }
}

#[test]
fn the_readme_lists_the_crates_as_they_are() {
    let crates = workspace();
    let rows = table_rows("README.md", "crate");
    let names: BTreeSet<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, crates.keys().map(String::as_str).collect());
    assert_eq!(names.len(), rows.len(), "a crate has two rows");
    for row in rows {
        let package = &crates[&row[0]];
        assert_eq!(row[1], package.description, "README.md: what {} is for", row[0]);
        assert_eq!(crates_in(&row[2]), package.imports, "README.md: what {} imports", row[0]);
    }
}

#[test]
fn the_architecture_page_has_this_table() {
    let rows = table_rows("docs/architecture.md", "crate");
    let documented: BTreeMap<String, BTreeSet<String>> =
        rows.into_iter().map(|row| (row[0].clone(), crates_in(&row[1]))).collect();
    let asserted: BTreeMap<String, BTreeSet<String>> = TABLE
        .iter()
        .map(|row| (row.name.into(), row.may_import.iter().map(|&name| name.into()).collect()))
        .collect();
    assert_eq!(documented, asserted);
}

#[test]
fn comments_and_strings_are_not_code() {
    let text = r##"
        // unsafe in a comment /* still
        /* unsafe /* nested unsafe */ unsafe */
        let a = "unsafe \" unsafe"; let b = r#"unsafe " unsafe"#; let c = '"'; let d: &'static str = "";
        let e = '\''; let f = b'"'; unsafe_code(); end
    "##;
    let code = code_of(text);
    let found = words(&code);
    assert!(!found.contains("unsafe") && found.contains("unsafe_code") && found.contains("end"));
    assert!(words(&code_of("let x = '\"'; unsafe { f() }")).contains("unsafe"));
    assert!(words(&code_of("fn f<'a>(x: &'a str) { unsafe {} }")).contains("unsafe"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The workspace's crates by folder name.
fn workspace() -> BTreeMap<String, Crate> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    list(&metadata["packages"])
        .iter()
        .map(|package| (short_name(&package["name"]), read_crate(package)))
        .collect()
}

fn read_crate(package: &Value) -> Crate {
    let folder = Path::new(text(&package["manifest_path"])).parent().unwrap().to_owned();
    let name = short_name(&package["name"]);
    // A Python package, with all that belongs to one.
    let parent = if name == "python" { root() } else { root().join("crates") };
    assert_eq!(folder, parent.join(name), "folder and package differ");
    let roots = list(&package["targets"])
        .iter()
        .filter(|target| {
            list(&target["kind"]).iter().any(|kind| text(kind) == "bin" || text(kind).ends_with("lib"))
        })
        .map(|target| PathBuf::from(text(&target["src_path"])))
        .collect();
    let needed = list(&package["dependencies"]).iter().filter(|dependency| dependency["kind"] != "dev");
    let (ours, others): (Vec<_>, Vec<_>) = needed.partition(|dependency| dependency["path"].is_string());
    Crate {
        description: text(&package["description"]).to_owned(),
        folder,
        roots,
        imports: ours.into_iter().map(|dependency| short_name(&dependency["name"])).collect(),
        foreign: others.into_iter().map(|dependency| text(&dependency["name"]).to_owned()).collect(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

fn short_name(package: &Value) -> String {
    let name = text(package);
    match name {
        // What programs import has the name of the whole.
        "verisum" => name.to_owned(),
        _ => name
            .strip_prefix("verisum-")
            .unwrap_or_else(|| panic!("{name} is not named verisum-…"))
            .to_owned(),
    }
}

/// The rows of the Markdown table in `file` whose first column has this heading, cell by cell. The first
/// cell of each row is reduced to the crate that it names.
fn table_rows(file: &str, heading: &str) -> Vec<Vec<String>> {
    let content = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let rows: Vec<Vec<String>> = content
        .lines()
        .map(cells)
        .skip_while(|row| row.first().is_none_or(|cell| cell != heading))
        .skip(2)
        .take_while(|row| !row.is_empty())
        .map(|mut row| {
            row[0] = crates_in(&row[0]).pop_first().unwrap_or_else(|| panic!("{file}: no crate: {}", row[0]));
            row
        })
        .collect();
    assert!(!rows.is_empty(), "{file}: no table that begins with '{heading}'");
    rows
}

/// The cells of one line of a Markdown table; none if it is not one.
fn cells(line: &str) -> Vec<String> {
    match line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) {
        Some(inner) => inner.split('|').map(|cell| cell.trim().to_owned()).collect(),
        None => Vec::new(),
    }
}

/// The crates of the table that a text names.
fn crates_in(text: &str) -> BTreeSet<String> {
    let words = words(text);
    TABLE.iter().map(|row| row.name.to_owned()).filter(|name| words.contains(name.as_str())).collect()
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Rust source with comments, strings and character literals replaced by spaces.
fn code_of(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if first == '"' {
            1 + quoted(&rest[1..], '"')
        } else if first == '\'' {
            character(rest)
        } else if first == 'r' && !code.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            raw_string(rest)
        } else {
            0
        };
        if skip == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.push(' ');
            rest = &rest[skip..];
        }
    }
    code
}

/// The length of the block comment at the start; they nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length up to and with the closing quote.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if !escaped && c == quote {
            return at + 1;
        }
        escaped = !escaped && c == '\\';
    }
    text.len()
}

/// The length of the character literal at the start; 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut rest = text[1..].chars();
    match (rest.next(), rest.next()) {
        (Some('\\'), _) => 1 + quoted(&text[1..], '\''),
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        _ => 0,
    }
}

/// The length of the raw string at the start; 0 if there is none.
fn raw_string(text: &str) -> usize {
    let hashes = text[1..].chars().take_while(|&c| c == '#').count();
    let start = 1 + hashes;
    if !text[start..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    text[start + 1..].find(&end).map_or(text.len(), |at| start + 1 + at + end.len())
}

#[test]
fn the_architecture_page_names_files_that_are_there() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let named = page.split('`').skip(1).step_by(2).filter(|name| name.contains("/src/"));
    let named: Vec<&str> = named.filter(|name| !name.starts_with("crates/")).collect();
    assert!(named.len() > 15, "{named:?}");
    for name in named {
        let top = if name.starts_with("python/") { root() } else { root().join("crates") };
        assert!(top.join(name).exists(), "docs/architecture.md: {name}");
    }
}
