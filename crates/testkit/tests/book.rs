//! The pages hang together: docs/SUMMARY.md names each of docs/, and every relative link leads to a file
//! and a heading that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The Markdown files of a folder, with those below it.
fn pages(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.insert(path);
        }
    }
    found
}

/// A page without its blocks of code.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap();
    let mut inside = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside && (!line.starts_with("    ") || line.trim_start().starts_with("- ")) {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    assert!(!inside, "{}: a block without an end", page.display());
    prose
}

/// A text without what stands between backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// The targets of a page's links and pictures.
fn links(page: &Path) -> Vec<String> {
    let prose = without_code(&prose(page));
    let ends = prose.split("](").skip(1);
    ends.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_string()).collect()
}

/// The names of a page's headings, as GitHub and mdbook make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for line in prose(page).lines().filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim();
        let anchor: String = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let before = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    anchors
}

/// A path without `.` and `..`, which need not exist.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
        plain
    })
}

#[test]
fn the_summary_names_every_page_once() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let named: Vec<PathBuf> = links(&summary).iter().map(|link| docs.join(link)).collect();
    let mut expected = pages(&docs);
    expected.remove(&summary);
    for page in &expected {
        let times = named.iter().filter(|name| *name == page).count();
        assert_eq!(times, 1, "docs/SUMMARY.md must name {} once", page.display());
    }
    assert_eq!(named.len(), expected.len(), "docs/SUMMARY.md names a page that is not there");
}

#[test]
fn every_relative_link_leads_somewhere() {
    let docs = root().join("docs");
    let mut pages = pages(&docs);
    pages.extend(fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()));
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    let mut broken = Vec::new();
    let mut followed = 0;
    for page in &pages {
        for link in links(page) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => page.clone(),
                path => plain(&page.parent().unwrap().join(path)),
            };
            // The book has the pages of docs/ and nothing else.
            let leaves = page.starts_with(&docs) && !target.starts_with(&docs);
            let has_anchor = anchor.is_empty() || target.is_file() && anchors(&target).contains(anchor);
            if leaves || !target.exists() || !has_anchor {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(followed > 100, "{followed} links: this test reads the wrong files");
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn anchors_are_those_of_github() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    fs::write(&page, "# What's `--new`?\n## A b\n```sh\n# no\n```\n## A b\n[x](y#z) `[no](no)`\n").unwrap();
    assert_eq!(anchors(&page), BTreeSet::from(["whats---new", "a-b", "a-b-1"].map(String::from)));
    assert_eq!(links(&page), ["y#z"]);
}
