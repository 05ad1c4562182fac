//! A report as one HTML page: complete in itself, without a script, light or dark as the reader's
//! system is, and legible on a telephone.

use std::fmt::Write;

use super::{Report, Table, draw, treemap};

/// The looks: of text and tables here, of charts beside what draws them.
const STYLE: &str = "
:root{color-scheme:light dark;--page:#fcfcfb;--ink:#1d1f23;--quiet:#5d636e;--rule:#dcdee3;--wash:#f1f2f4;
--shade:#0003;--bar:#3b6fb6;--control:#a9b0bb;--warn:#8a4b00;--warn-wash:#fff3df;
--c0:#3b6fb6;--c1:#c2591b;--c2:#2f8f5b;--c3:#a23b8f;--c4:#8a7413;--c5:#2394a8;--c6:#b33a3a;--c7:#5b5fc7}
@media(prefers-color-scheme:dark){:root{--page:#16181c;--ink:#e7e9ec;--quiet:#9aa1ad;--rule:#343942;
--wash:#1f2329;--shade:#fff4;--bar:#6aa0ea;--control:#6b7380;--warn:#ffc988;--warn-wash:#33270f;
--c0:#6aa0ea;--c1:#f0935a;--c2:#5fc48c;--c3:#d982c8;--c4:#d2bb55;--c5:#5fc9dc;--c6:#ee8080;--c7:#a3a6f5}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:74rem;padding:2rem clamp(1rem,4vw,3rem) 4rem;background:var(--page);color:var(--ink);
font:1rem/1.5 system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
h1{font-size:1.7rem;line-height:1.25;margin:0 0 1rem}
h2{font-size:1.15rem;margin:2.6rem 0 .7rem}
.said{margin:.35rem 0;color:var(--quiet);overflow-wrap:anywhere}
.warn{margin:.35rem 0;padding:.45rem .8rem;border-left:.25rem solid var(--warn);background:var(--warn-wash);
color:var(--warn);overflow-wrap:anywhere}
.wide{overflow-x:auto;border:1px solid var(--rule);border-radius:.4rem;background:
linear-gradient(90deg,var(--page) 40%,transparent) 0 0/3rem 100% no-repeat local,
linear-gradient(270deg,var(--page) 40%,transparent) 100% 0/3rem 100% no-repeat local,
linear-gradient(90deg,var(--shade),transparent) 0 0/.8rem 100% no-repeat,
linear-gradient(270deg,var(--shade),transparent) 100% 0/.8rem 100% no-repeat}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{padding:.35rem .55rem;text-align:left;white-space:nowrap;border-bottom:1px solid var(--rule)}
tr:last-child td{border-bottom:0}
th{white-space:normal;background:var(--wash);color:var(--quiet);font-weight:600;font-size:.8rem;vertical-align:bottom}
.n{text-align:right;font-variant-numeric:tabular-nums}
td.long{white-space:normal;min-width:16rem;overflow-wrap:anywhere}
.wide:focus-visible{outline:2px solid var(--bar);outline-offset:2px}
@page{margin:12mm}
@media print{*{print-color-adjust:exact;-webkit-print-color-adjust:exact}body{max-width:none;padding:0;font-size:.85rem}
.wide{overflow:visible;border:0;background:none}table{font-size:.7rem}th,td{white-space:normal;padding:.25rem .3rem}.n{white-space:nowrap}
td.long{min-width:0}figure,tr,.row,.warn{break-inside:avoid}h2{break-after:avoid}thead{display:table-header-group}}
@media print and (prefers-color-scheme:dark){:root{color-scheme:light;--page:#fff;--ink:#1d1f23;--quiet:#4d535e;--rule:#ccc;
--wash:#f1f2f4;--bar:#3b6fb6;--control:#a9b0bb;--warn:#8a4b00;--warn-wash:#fff3df;
--t0:#e3edf8;--t1:#d3e6dc;--t2:#f3ecc9;--t3:#f6dbb0;--t4:#f3c1a0;--t5:#eba6a0}}
";

/// Words of lines that warn.
const WARNINGS: [&str; 12] = [
    "BAD:",
    "MISSING:",
    "LATE:",
    "UNCHECKED:",
    "noisy:",
    "WRONG:",
    "FAILED:",
    "CONTRADICTION:",
    "not what was published",
    "stopped early",
    "the machines differ",
    "the control ",
];

/// The page.
pub(super) fn page(report: &Report) -> String {
    let title = escaped(&report.title);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">\
         <title>{title}</title>\n<style>{}{}{STYLE}</style></head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        draw::STYLE,
        treemap::STYLE
    );
    for line in &report.lines {
        let warns = WARNINGS.iter().any(|start| line.starts_with(start));
        let class = if warns { "warn" } else { "said" };
        let _ = writeln!(html, "<p class=\"{class}\">{}</p>", with_code(line));
    }
    if let Some(said) = report.parameters_line() {
        let _ = writeln!(html, "<p class=\"said\">{}</p>", escaped(&said));
    }
    // A table stands below the chart of the same rows.
    let mut charts: Vec<_> = report.charts.iter().collect();
    // Those without a table of their own come first: below long tables nobody finds them.
    charts.retain(|chart| {
        let lone = report.tables.iter().all(|table| table.title != chart.title);
        if lone {
            let _ = writeln!(html, "<section><h2>{}</h2>", escaped(&chart.title));
            html.push_str(&draw::chart(chart, false));
            html.push_str("</section>\n");
        }
        !lone
    });
    for table in report.tables.iter().map(|table| verdict_first(table.exported())) {
        let _ = writeln!(html, "<section><h2>{}</h2>", escaped(&table.title));
        charts.retain(|chart| {
            let here = chart.title == table.title;
            if here {
                html.push_str(&draw::chart(chart, false));
            }
            !here
        });
        write_table(&mut html, &table);
        html.push_str("</section>\n");
    }
    html.push_str("</main>\n</body></html>\n");
    html
}

/// Columns that say what the others mean: at the right end nobody with a telephone would find them.
const VERDICTS: [&str; 2] = ["relative to the fastest", "verdict"];

/// With the verdict right after the names.
fn verdict_first(mut table: Table) -> Table {
    let place = table.columns.iter().position(|column| VERDICTS.contains(&column.name.as_str()));
    // In a comparison the name has a group before it.
    let first = if table.columns.first().is_some_and(|column| column.name == "group") { 2 } else { 1 };
    if let Some(place) = place.filter(|&place| place > first) {
        table.columns[first..=place].rotate_right(1);
        table.rows.iter_mut().for_each(|row| row[first..=place].rotate_right(1));
    }
    table
}

/// Words between backticks are commands.
fn with_code(line: &str) -> String {
    let parts: Vec<String> = line.split('`').map(escaped).collect();
    // One that has no second is a backtick.
    if parts.len().is_multiple_of(2) {
        return escaped(line);
    }
    let part = |(index, part): (usize, &String)| match index % 2 {
        0 => part.clone(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}

/// Cells longer than this may be broken.
const LONG: usize = 40;

fn write_table(html: &mut String, table: &Table) {
    if let Some(verdict) = &table.verdict {
        let _ = writeln!(html, "<p>{}</p>", escaped(verdict));
    }
    let class = |column| if table.right(column) { " class=\"n\"" } else { "" };
    // What is wider than the page is reached by keys too, and named to those who hear it.
    let _ = write!(
        html,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table: {}\"><table><thead><tr>",
        escaped(&table.title)
    );
    for (column, heading) in table.headings().iter().enumerate() {
        let _ = write!(html, "<th scope=\"col\"{}>{}</th>", class(column), escaped(heading));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let shown = cell.shown();
            let class = match shown.chars().count() > LONG {
                true => " class=\"long\"",
                false => class(column),
            };
            let _ = write!(html, "<td{class}>{}</td>", escaped(&shown));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    for note in &table.notes {
        let _ = writeln!(html, "<p class=\"said\">{}</p>", escaped(note));
    }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
