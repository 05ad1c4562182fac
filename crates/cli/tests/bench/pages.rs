//! The pages of `report` and `bench` in a real browser, as scripts/pages/look.mjs looks at them: wide, as wide as a
//! telephone, in the dark and printed, with axe.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ended, VERISUM, change_and_restore_time, command, data_file, repository};
use verisum_testkit::{require_tool, skip};

/// The script with what it needs from npm, which is fetched once.
fn looker(npm: &Path) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    fs::create_dir_all(&folder).unwrap();
    for file in fs::read_dir(repository().join("scripts/pages")).unwrap().flatten() {
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    if !folder.join("node_modules/axe-core").exists() || !folder.join("node_modules/playwright-core").exists()
    {
        let mut install = Command::new(npm);
        install.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&folder);
        let fetched = install.stdin(Stdio::null()).output().unwrap();
        if !fetched.status.success() {
            let why = String::from_utf8_lossy(&fetched.stderr);
            skip(&format!(
                "npm cannot fetch axe-core and playwright-core: {}",
                why.lines().next().unwrap_or("")
            ));
            return None;
        }
    }
    Some(folder.join("look.mjs"))
}

#[test]
fn pages_are_for_every_eye_and_window() {
    let (Some(chromium), Some(node), Some(npm)) =
        (require_tool("chromium"), require_tool("node"), require_tool("npm"))
    else {
        return;
    };
    let Some(script) = looker(&npm) else { return };
    let folder = tempfile::tempdir().unwrap();
    let run =
        |words: &[&str]| Ended::of(command(VERISUM).args(words).current_dir(folder.path()).output().unwrap());
    for tree in ["tree", "mirror"] {
        fs::create_dir_all(folder.path().join(tree).join("a/long-name-of-a-directory")).unwrap();
        for number in 0..30 {
            let name = format!("{tree}/a/long-name-of-a-directory/file-{number}.jpg");
            fs::write(folder.path().join(name), format!("{number}").repeat(1000 * (number + 1))).unwrap();
        }
        run(&["scrub", "--quiet", "--catalog", "c.db", tree]).clean();
    }
    change_and_restore_time(&folder.path().join("tree/a/long-name-of-a-directory/file-7.jpg"), "rot");
    fs::remove_file(folder.path().join("tree/a/long-name-of-a-directory/file-9.jpg")).unwrap();
    assert_eq!(run(&["scrub", "--quiet", "--catalog", "c.db", "tree"]).code, Some(1));
    assert_eq!(run(&["report", "-o", "report.html", "--max-age", "35d", "c.db"]).code, Some(1));
    // A treemap of many boxes, and a page that is wider than paper.
    for number in 0..12 {
        let directory = folder.path().join(format!("boxes/directory-{number}"));
        fs::create_dir_all(&directory).unwrap();
        for name in ["0", "1", "2", "3", "4"] {
            data_file(&directory, name, 20_000);
        }
    }
    run(&["scrub", "--quiet", "--catalog", "boxes.db", "boxes"]).clean();
    run(&["report", "-o", "boxes.html", "boxes.db"]).clean();
    data_file(folder.path(), "data", 100_000);
    let bench = run(&["bench", "digests", "--runs", "3", "-a", "md5", "--export-html", "bench.html", "data"]);
    assert_eq!(bench.code, Some(0), "{}", bench.stderr);
    // For who looks at the pictures.
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    fs::create_dir_all(&pictures).unwrap();
    let looked = Command::new(node)
        .arg(script)
        .args([&chromium, &pictures])
        .args(["report.html", "boxes.html", "bench.html"])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&looked.stdout), String::from_utf8_lossy(&looked.stderr));
    assert!(looked.status.success(), "{out}{err}");
    for page in ["report", "boxes", "bench"] {
        for picture in ["wide.png", "phone.png", "dark.png"].map(|view| format!("{page}.{view}")) {
            assert!(fs::metadata(pictures.join(&picture)).unwrap().len() > 10_000, "{picture}");
        }
        let paper = fs::read(pictures.join(format!("{page}.pdf"))).unwrap();
        assert!(paper.starts_with(b"%PDF-"), "{page}");
        // Each sheet has letters.
        let paper = String::from_utf8_lossy(&paper);
        let sheets: Vec<&str> = paper.split("/Type /Page\n").skip(1).collect();
        assert!(!sheets.is_empty(), "{page}");
        for (number, sheet) in sheets.iter().enumerate() {
            let sheet = sheet.split("endobj").next().unwrap();
            assert!(sheet.contains("/Font"), "{page}, sheet {number}: {sheet}");
        }
    }
}
