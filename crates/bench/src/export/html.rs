//! Writes a report as one HTML page. It needs no other file and no script, follows the light or dark mode of
//! the reader's system, and fits a telephone.

use std::fmt::Write;

use super::{Cell, Chart, Report, Table, draw, treemap};

/// The looks: of text and tables here, of charts beside what draws them.
const STYLE: &str = "
:root{color-scheme:light dark;--page:#fcfcfb;--ink:#1d1f23;--quiet:#5d636e;--rule:#dcdee3;--wash:#f1f2f4;
--shade:#0003;--bar:#3b6fb6;--control:#a9b0bb;--warn:#8a4b00;--warn-wash:#fff3df;
--c0:#3b6fb6;--c1:#c2591b;--c2:#2f8f5b;--c3:#a23b8f;--c4:#8a7413;--c5:#2394a8;--c6:#b33a3a;--c7:#5b5fc7}
@media(prefers-color-scheme:dark){:root{--page:#16181c;--ink:#e7e9ec;--quiet:#9aa1ad;--rule:#343942;
--wash:#1f2329;--shade:#fff4;--bar:#6aa0ea;--control:#6b7380;--warn:#ffc988;--warn-wash:#33270f;
--c0:#6aa0ea;--c1:#f0935a;--c2:#5fc48c;--c3:#d982c8;--c4:#d2bb55;--c5:#5fc9dc;--c6:#ee8080;--c7:#a3a6f5}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:104rem;padding:2rem clamp(1rem,4vw,3rem) 4rem;background:var(--page);color:var(--ink);
font:1rem/1.5 system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
h1{font-size:1.7rem;line-height:1.25;margin:0 0 1rem}
h2{font-size:1.15rem;margin:2.6rem 0 .7rem}
.said,.warn,.verdict,figure{max-width:74rem}
.verdict{margin:.35rem 0;font-size:1.15rem;font-weight:600;overflow-wrap:anywhere}
.said{margin:.35rem 0;color:var(--quiet);overflow-wrap:anywhere}
.warn{margin:.35rem 0;padding:.45rem .8rem;border-left:.25rem solid var(--warn);background:var(--warn-wash);
color:var(--warn);overflow-wrap:anywhere}
.wide{overflow-x:auto;border:1px solid var(--rule);border-radius:.4rem;background:
linear-gradient(90deg,var(--page) 40%,transparent) 0 0/3rem 100% no-repeat local,
linear-gradient(270deg,var(--page) 40%,transparent) 100% 0/3rem 100% no-repeat local,
linear-gradient(90deg,var(--shade),transparent) 0 0/.8rem 100% no-repeat,
linear-gradient(270deg,var(--shade),transparent) 100% 0/.8rem 100% no-repeat}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{padding:.35rem .55rem;text-align:left;border-bottom:1px solid var(--rule)}
tr:last-child td{border-bottom:0}
th{background:var(--wash);color:var(--quiet);font-weight:600;font-size:.8rem;vertical-align:bottom}
td.n{white-space:nowrap}.n{text-align:right;font-variant-numeric:tabular-nums}
td.long{min-width:16rem;overflow-wrap:anywhere}
code{font:.94em/1.4 ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}
code span{display:inline-block;max-width:100%;white-space:normal;overflow-wrap:anywhere}
nav ul{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;margin:1.2rem 0 0;padding:0;list-style:none;font-size:.9rem}
nav a,summary{color:var(--bar)}
summary{margin:.6rem 0;cursor:pointer}
.wide:focus-visible{outline:2px solid var(--bar);outline-offset:2px}
@page{margin:12mm}
@media(max-width:44rem){td{overflow-wrap:anywhere}td.long{min-width:0}th,td{padding:.3rem}}
@media print{*{print-color-adjust:exact;-webkit-print-color-adjust:exact}body{max-width:none;padding:0;font-size:.85rem}
.wide{overflow:visible;border:0;background:none}table{font-size:.7rem}th,td{padding:.25rem .3rem}
td{overflow-wrap:anywhere}td.long{min-width:0}.digest span{display:none}.digest:after{content:'…'}figure,tr,.row,.warn{break-inside:avoid}h2{break-after:avoid}thead{display:table-header-group}nav,summary{display:none}details::details-content{content-visibility:visible;block-size:auto}}
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
    let tables: Vec<Table> = report.tables.iter().map(|table| verdict_first(table.exported())).collect();
    let blocks: String = tables.iter().enumerate().map(|(index, table)| blocks(index, table)).collect();
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">\
         <title>{title}</title>\n<style>{}{}{STYLE}{blocks}</style></head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        draw::STYLE,
        treemap::STYLE
    );
    let limits = draw::limits(&report.charts);
    for (index, line) in report.lines.iter().enumerate() {
        let warns = WARNINGS.iter().any(|start| line.starts_with(start));
        let class = match index {
            _ if warns => "warn",
            0 => "verdict",
            _ => "said",
        };
        let _ = writeln!(html, "<p class=\"{class}\">{}</p>", with_code(line));
    }
    if let Some(said) = report.parameters_line() {
        let _ = writeln!(html, "<p class=\"said\">{}</p>", escaped(&said));
    }
    let lone = |chart: &&Chart| report.tables.iter().all(|table| table.title != chart.title);
    let titles = report.charts.iter().filter(lone).map(|chart| chart.title.as_str());
    let titles: Vec<&str> = titles.chain(tables.iter().map(|table| table.title.as_str())).collect();
    contents(&mut html, &titles);
    let mut sections = 0;
    let mut section = |html: &mut String, title: &str| {
        let _ = writeln!(html, "<section id=\"s{sections}\"><h2>{}</h2>", escaped(title));
        sections += 1;
    };
    // A table stands below the chart of the same rows.
    let mut charts: Vec<_> = report.charts.iter().collect();
    // Those without a table of their own come first: below long tables nobody finds them.
    charts.retain(|chart| {
        let is_lone = lone(chart);
        if is_lone {
            section(&mut html, &chart.title);
            html.push_str(&draw::chart(chart, &limits));
            html.push_str("</section>\n");
        }
        !is_lone
    });
    for (index, table) in tables.iter().enumerate() {
        section(&mut html, &table.title);
        charts.retain(|chart| {
            let here = chart.title == table.title;
            if here {
                html.push_str(&draw::chart(chart, &limits));
            }
            !here
        });
        write_table(&mut html, index, table);
        html.push_str("</section>\n");
    }
    html.push_str("</main>\n</body></html>\n");
    html
}

/// More sections than so many have a table of contents.
const FEW_SECTIONS: usize = 4;

/// Links to the sections, which are numbered.
fn contents(html: &mut String, titles: &[&str]) {
    if titles.len() <= FEW_SECTIONS {
        return;
    }
    html.push_str("<nav aria-label=\"Contents\"><ul>");
    for (index, title) in titles.iter().enumerate() {
        let _ = write!(html, "<li><a href=\"#s{index}\">{}</a></li>", escaped(title));
    }
    html.push_str("</ul></nav>\n");
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
        _ => code(part),
    };
    parts.iter().enumerate().map(part).collect()
}

/// A command, which is escaped already: a line ends between its words only.
fn code(command: &str) -> String {
    let words: Vec<String> = command.split(' ').map(|word| format!("<span>{word}</span>")).collect();
    format!("<code>{}</code>", words.join(" "))
}

/// Digests have as many digits.
const DIGEST: usize = 32;

/// So many of them tell two apart on paper.
const DIGITS: usize = 12;

fn is_digest(word: &str) -> bool {
    word.len() >= DIGEST && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A text with its digests as what is shortened on paper.
fn with_digests(text: &str) -> String {
    let word = |word: &str| match word.split_at_checked(DIGITS).filter(|_| is_digest(word)) {
        Some((first, rest)) => format!("<span class=\"digest\">{first}<span>{rest}</span></span>"),
        None => escaped(word),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A table of more columns has rows that are paragraphs on a telephone, which is less wide than so many letters.
const FEW_COLUMNS: usize = 4;
const TELEPHONE: u16 = 44;

/// Whether the rows of a table are paragraphs somewhere.
fn has_blocks(table: &Table) -> bool {
    table.blocks_below.is_some() || table.columns.len() > FEW_COLUMNS
}

/// The looks of a table whose rows are paragraphs on pages that are less wide, and on paper where it says so.
fn blocks(index: usize, table: &Table) -> String {
    if !has_blocks(table) {
        return String::new();
    }
    let (paper, width) = table.blocks_below.map_or(("", TELEPHONE), |width| ("print,", width));
    let at = format!(".t{index}");
    // What a row is of needs no heading.
    let named = if table.right(1) { 1 } else { 2 };
    let mut style = format!(
        "@media {paper}(max-width:{width}em){{{at},{at} tbody,{at} tr{{display:block}}{at} thead,{at} td.none{{display:none}}\
         {at} tr{{padding:.5rem .7rem;border-bottom:1px solid var(--rule)}}\
         {at} td{{display:inline-block;max-width:100%;min-width:0;padding:.1rem 1.4rem .1rem 0;border:0;text-align:left;\
         white-space:normal;overflow-wrap:anywhere;vertical-align:top}}{at} td.long{{display:block}}\
         {at} td:nth-child(-n+{named}){{font-weight:600}}{at} td:before{{color:var(--quiet)}}"
    );
    for (column, heading) in table.headings().iter().enumerate().skip(named) {
        let heading = heading.replace(['\\', '\'', '<'], "");
        let _ = write!(style, "{at} td:nth-child({}):before{{content:'{heading}: '}}", column + 1);
    }
    style.push('}');
    if !paper.is_empty() {
        // A digest that is shortened needs no line of its own.
        let _ = write!(style, "@media print{{{at} td.hash{{display:inline-block}}}}");
    }
    style + "\n"
}

/// Cells longer than this may be broken.
const LONG: usize = 40;

fn write_table(html: &mut String, index: usize, table: &Table) {
    if let Some(verdict) = &table.verdict {
        let _ = writeln!(html, "<p>{}</p>", escaped(verdict));
    }
    let shown = table.folded_after.unwrap_or(usize::MAX).min(table.rows.len());
    let (first, others) = table.rows.split_at(shown);
    if !first.is_empty() {
        write_rows(html, (index, "Table"), table, first);
    }
    if !others.is_empty() {
        let _ = writeln!(html, "<details><summary>{} more</summary>", others.len());
        write_rows(html, (index, "Rest of the table"), table, others);
        html.push_str("</details>\n");
    }
    for note in &table.notes {
        let _ = writeln!(html, "<p class=\"said\">{}</p>", with_code(note));
    }
}

/// These rows of a table.
fn write_rows(html: &mut String, (index, what): (usize, &str), table: &Table, rows: &[Vec<Cell>]) {
    let class = |column| if table.right(column) { "n" } else { "" };
    let attribute = |name: &str| match name {
        "" => String::new(),
        name => format!(" class=\"{name}\""),
    };
    // What is wider than the page is reached by keys too, and named to those who hear it.
    let _ = write!(
        html,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{what}: {}\"><table class=\"t{index}\"><thead><tr>",
        escaped(&table.title)
    );
    for (column, heading) in table.headings().iter().enumerate() {
        let _ = write!(html, "<th scope=\"col\"{}>{}</th>", attribute(class(column)), escaped(heading));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let shown = cell.shown();
            let class = match cell {
                _ if has_blocks(table) && (*cell == Cell::Missing || shown.is_empty()) => "none",
                Cell::Command(_) => "long",
                _ if shown.chars().count() > LONG => "long",
                _ => class(column),
            };
            let class = if class == "long" && shown.split(' ').any(is_digest) { "long hash" } else { class };
            let shown = match cell {
                Cell::Command(command) => code(&escaped(command)),
                _ => with_digests(&shown),
            };
            let _ = write!(html, "<td{}>{shown}</td>", attribute(class));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
