//! The HTML report in a real browser: it opens, says nothing on the console, asks the network for
//! nothing, and is as wide as the window.

use std::path::Path;
use std::process::{Command, Stdio};

use verisum_bench::export::{Bar, Cell, Chart, ChartLine, Report, Table};
use verisum_bench::stats::Interval;
use verisum_testkit::require_tool;

fn value(median: f64, part: f64) -> Interval {
    Interval { low: median * (1.0 - part), median, high: median * (1.0 + part) }
}

/// A report with everything that reports have.
fn report() -> Report {
    let mut report = Report::new("Digests <on> \"this\" machine & others");
    report.lines.push("noisy: the load was 3.1 on 2 processors before anything was measured".to_string());
    report.lines.push("in process: 16 messages of 65536 bytes, in memory, one thread".to_string());
    let rates = [
        ("crc32c (crc)", 71.3),
        ("xxh3-64 (xxhash)", 38.9),
        ("copy in memory", 23.5),
        ("blake3 (blake3)", 5.81),
        ("md5 (ours, avx512 × 32)", 4.56),
        ("sha256 (ours, shani × 2)", 2.46),
        ("sha3-256 (ours, portable)", 0.47),
        ("ripemd160 (a name that is much longer than the others are)", 0.21),
    ];
    let bar = |(name, rate): (&str, f64)| Bar {
        name: name.to_string(),
        value: value(rate, 0.08),
        control: name.starts_with("copy"),
    };
    let mut table = Table::new("Digests in process", "digest; rate (GB/s); relative to the fastest");
    for (name, rate) in rates {
        table.row([Cell::text(name), Cell::Number(rate, 2), Cell::text("1.80 to 2.78 times as slow")]);
    }
    table.row([Cell::text("busybox"), Cell::Missing, Cell::text("SKIPPED: busybox is not installed")]);
    report.charts.push(
        Chart::bars(&table.title, "GB/s", rates.into_iter().map(bar).collect())
            .logarithmic()
            .marker("copy in memory", 23.5)
            .marker("read memory", 30.1),
    );
    report.tables.push(table);
    let linear = rates[3..].iter().copied().map(bar).collect();
    report.charts.push(Chart::bars("Few bars", "GB/s", linear));
    let line = |name: &str, one: f64, scaling: f64| ChartLine {
        name: name.to_string(),
        points: [1.0, 2.0, 4.0, 8.0, 16.0].map(|n: f64| (n, value(one * n.powf(scaling), 0.06))).to_vec(),
    };
    report.charts.push(
        Chart::lines(
            "Threads",
            "GB/s",
            "threads",
            vec![line("data", 2.4, 0.9), line("zeros", 9.0, 0.5), line("holes", 14.0, 0.2)],
        )
        .logarithmic_axis()
        .marker("memory bandwidth", 26.0),
    );
    report
}

/// Opens a page and returns what the browser logged. The profile is in `folder`.
fn open(chromium: &Path, page: &Path, folder: &Path, arguments: &[&str]) -> (String, String) {
    let profile = folder.join("profile");
    let output = Command::new(chromium)
        .args([
            "--headless=new",
            // Tests often run as root and in containers, where the sandbox cannot be made.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-background-networking",
            "--no-first-run",
            "--hide-scrollbars",
            "--enable-logging=stderr",
        ])
        .args(arguments)
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .env("HOME", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A probe that the browser runs on a copy of the page: what was loaded, and how wide the page is.
const PROBE: &str = "<script>addEventListener('load',()=>{const e=document.documentElement;\
    document.title='requests '+performance.getEntriesByType('resource').length+\
    ' width '+(e.scrollWidth<=e.clientWidth)+' rows '+document.querySelectorAll('.fill').length})</script>";

#[test]
fn a_browser_opens_the_report_without_an_error_or_a_request() {
    let html = report().to_html();
    assert!(html.len() < 2 << 20, "{} bytes", html.len());
    // Nothing in it could run or be loaded.
    for forbidden in ["<script", "http:", "https:", "url(", "@import", "onload", "<img", "<iframe"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    let Some(chromium) = require_tool("chromium") else { return };
    let folder = tempfile::tempdir().unwrap();
    let probed = folder.path().join("probed.html");
    std::fs::write(&probed, html.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    let page = folder.path().join("report.html");
    std::fs::write(&page, &html).unwrap();
    for size in ["--window-size=1280,1600", "--window-size=520,1600"] {
        let (dom, log) = open(&chromium, &probed, folder.path(), &[size, "--dump-dom"]);
        assert!(dom.contains("<title>requests 0 width true rows 13</title>"), "{size}: {}", title(&dom));
        assert!(!log.contains("CONSOLE"), "{log}");
    }
    let shot = folder.path().join("shot.png");
    let to = format!("--screenshot={}", shot.display());
    let (_, log) = open(&chromium, &page, folder.path(), &["--window-size=1280,1600", &to]);
    assert!(!log.contains("CONSOLE"), "{log}");
    let picture = std::fs::read(&shot).unwrap();
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000, "{} bytes", picture.len());
    // For those who want to look at it themselves.
    if let Some(kept) = std::env::var_os("VERISUM_SCREENSHOTS") {
        for (name, arguments) in [
            ("light.png", &["--window-size=1280,1900"][..]),
            (
                "dark.png",
                &["--window-size=1280,1900", "--force-dark-mode", "--blink-settings=preferredColorScheme=0"],
            ),
            ("narrow.png", &["--window-size=520,2600"]),
        ] {
            let to = format!("--screenshot={}", Path::new(&kept).join(name).display());
            open(&chromium, &page, folder.path(), &[arguments, &[&to]].concat());
        }
    }
}

fn title(dom: &str) -> &str {
    let rest = dom.split("<title>").nth(1).unwrap_or(dom);
    rest.split("</title>").next().unwrap_or(rest)
}
