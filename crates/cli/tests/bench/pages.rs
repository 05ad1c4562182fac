//! The pages of `report` and `bench` in a real browser, as scripts/pages/look.mjs looks at them: wide, as wide as a
//! telephone, in the dark and printed, with axe.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ended, VERISUM, change_and_restore_time, command, data_file, repository};
use plotters::prelude::*;
use serde_json::Value;
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

/// Rows of a table of a report: the cells of two columns.
fn rows(report: &Value, title: &str, [name, value]: [&str; 2]) -> Vec<(String, f64)> {
    let table = report["tables"].as_array().unwrap().iter().find(|table| table["title"] == title).unwrap();
    let row = |row: &Value| (row[name].as_str().unwrap().to_string(), row[value].as_f64().unwrap());
    table["rows"].as_array().unwrap().iter().map(row).filter(|(_, value)| *value > 0.0).collect()
}

/// Bars as plotters draws them.
fn bars_of_plotters(rows: &[(String, f64)]) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (1000, 60 + 30 * rows.len() as u32)).into_drawing_area();
    area.fill(&WHITE).unwrap();
    let most = rows.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(220)
        .build_cartesian_2d(0.0..most, (0..rows.len()).into_segmented())
        .unwrap();
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) | SegmentValue::Exact(at) => {
            rows.get(*at).map_or(String::new(), |(name, _)| name.clone())
        }
        SegmentValue::Last => String::new(),
    };
    chart.configure_mesh().disable_y_mesh().y_labels(rows.len()).y_label_formatter(&name).draw().unwrap();
    let bar = |(at, (_, value)): (usize, &(String, f64))| {
        let places = [(0.0, SegmentValue::Exact(at)), (*value, SegmentValue::Exact(at + 1))];
        let mut bar = Rectangle::new(places, BLUE.mix(0.6).filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    };
    chart.draw_series(rows.iter().enumerate().map(bar)).unwrap();
    area.present().unwrap();
    drop(chart);
    drop(area);
    svg
}

/// A treemap: plotters has none, but boxes and text.
fn treemap_of_plotters(rows: &[(String, f64)]) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (1000, 416)).into_drawing_area();
    area.fill(&WHITE).unwrap();
    let all: f64 = rows.iter().map(|(_, value)| value).sum();
    let mut left = 0.0;
    for (name, value) in rows {
        let width = value / all * 1000.0;
        let corners = [(left as i32, 0), ((left + width) as i32, 416)];
        area.draw(&Rectangle::new(corners, GREEN.mix(0.2).filled())).unwrap();
        area.draw(&Rectangle::new(corners, BLACK)).unwrap();
        let end = name.rsplit('/').next().unwrap();
        area.draw(&Text::new(end, (left as i32 + 4, 8), ("sans-serif", 13))).unwrap();
        left += width;
    }
    area.present().unwrap();
    drop(area);
    svg
}

/// The same figures as charts of plotters, which is the Rust library for SVG without a script that most use: a page with
/// those is worse than ours.
#[test]
fn charts_of_a_library_would_be_worse() {
    let (Some(chromium), Some(node), Some(npm)) =
        (require_tool("chromium"), require_tool("node"), require_tool("npm"))
    else {
        return;
    };
    let Some(script) = looker(&npm) else { return };
    let script = script.with_file_name("charts.mjs");
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        Ended::of(command(VERISUM).args(words).current_dir(folder.path()).output().unwrap()).clean()
    };
    for number in 0..12 {
        let directory = folder.path().join(format!("tree/directory-{number}"));
        fs::create_dir_all(&directory).unwrap();
        for name in ["0", "1", "2"] {
            data_file(&directory, name, 20_000 * (number + 1));
        }
    }
    run(&["scrub", "--quiet", "--catalog", "new.db", "tree"]);
    // Verifications of many ages, and runs that read some.
    let times: Vec<String> = [2, 20, 60, 120, 300, 500]
        .map(|days| {
            let mut date = Command::new("date");
            date.args(["-u", "-d", &format!("-{days} days"), "+%Y-%m-%dT%H:%M:%S.000000000Z"]);
            String::from_utf8(date.output().unwrap().stdout).unwrap().trim().to_string()
        })
        .into();
    let exported = run(&["catalog", "export", "--catalog", "new.db"]);
    let aged = exported.lines().enumerate().map(|(number, line)| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["type"] == "file" {
            line["last_verified"] = times[number % times.len()].as_str().into();
        }
        format!("{line}\n")
    });
    fs::write(folder.path().join("aged.json"), aged.collect::<String>()).unwrap();
    run(&["catalog", "import", "--catalog", "c.db", "aged.json"]);
    for age in ["400d", "200d", "100d"] {
        run(&["scrub", "--quiet", "--catalog", "c.db", "--max-age", age, "tree"]);
    }
    let report: Value = serde_json::from_str(&run(&["report", "--json", "-o", "ours.html", "c.db"])).unwrap();
    let ours = fs::read_to_string(folder.path().join("ours.html")).unwrap();
    let drawn = [
        (
            "How old the verifications are",
            bars_of_plotters(&rows(&report, "How old the verifications are", ["verified", "size"])),
        ),
        ("Runs", bars_of_plotters(&rows(&report, "Runs", ["started", "size read"]))),
        (
            "Largest directories",
            treemap_of_plotters(&rows(&report, "Largest directories", ["directory", "size"])),
        ),
    ];
    let figure_of_ours = |title: &str| {
        let begin = format!("<figure aria-label=\"{title}\">");
        let at = ours.find(&begin).unwrap_or_else(|| panic!("{title}"));
        let end = ours[at..].find("</figure>").unwrap() + "</figure>".len();
        &ours[at..at + end]
    };
    // The page keeps its head and its style, and has only these charts.
    let page = |figures: String| {
        let (head, _) = ours.split_once("<body>").unwrap();
        format!("{head}<body><main><h1>Charts</h1>{figures}</main></body></html>")
    };
    let mut bytes = [0, 0];
    let mut figures = [String::new(), String::new()];
    for (title, svg) in &drawn {
        let own = figure_of_ours(title);
        bytes = [bytes[0] + own.len(), bytes[1] + svg.len()];
        figures[0] += own;
        // It can be made as narrow as the window, in the best case.
        let svg = svg.replacen(
            "<svg ",
            "<svg role=\"img\" aria-label=\"chart\" style=\"max-width:100%;height:auto\" ",
            1,
        );
        figures[1] += &format!("<figure aria-label=\"{title}\">{svg}</figure>");
    }
    let [own, library] = figures.map(page);
    fs::write(folder.path().join("ours.html"), own).unwrap();
    fs::write(folder.path().join("plotters.html"), library).unwrap();
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    fs::create_dir_all(&pictures).unwrap();
    let mut look = Command::new(node);
    look.arg(script).args([&chromium, &pictures]).args(["ours.html", "plotters.html"]);
    look.current_dir(folder.path()).env("HOME", folder.path()).stdin(Stdio::null());
    let seen = Ended::of(look.output().unwrap()).clean();
    let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = format!("ours: {} bytes, {}\nplotters: {} bytes, {}\n", bytes[0], seen[0], bytes[1], seen[1]);
    fs::write(pictures.join("charts.txt"), said).unwrap();
    let figure = |page: usize, name: &str| seen[page][name].as_f64().unwrap();
    assert!(bytes[0] < bytes[1], "{bytes:?}");
    assert!(figure(0, "letters") >= 10.0 && figure(1, "letters") < 6.0, "{seen:?}");
    assert!(figure(0, "light") < 0.3 && figure(1, "light") > 0.7, "{seen:?}");
    assert_eq!(figure(0, "serious"), 0.0, "{seen:?}");
}
