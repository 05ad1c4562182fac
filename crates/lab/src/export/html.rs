//! A report as one HTML page.

use std::fmt::Write;

use super::{Report, escaped};

pub(super) fn page(report: &Report) -> String {
    let title = escaped(&report.title);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>\
         body{{font:15px sans-serif;margin:2em auto;max-width:70em}}table{{border-collapse:collapse}}\
         th,td{{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}}\
         .n{{text-align:right;font-variant-numeric:tabular-nums}}</style></head>\n<body><h1>{title}</h1>\n"
    );
    for line in &report.lines {
        let _ = writeln!(html, "<p><code>{}</code></p>", escaped(line));
    }
    for table in &report.tables {
        let _ = writeln!(html, "<h2>{}</h2>\n<table><thead><tr>", escaped(&table.title));
        let class = |column| if table.right(column) { " class=\"n\"" } else { "" };
        for (column, heading) in table.headings().iter().enumerate() {
            let _ = write!(html, "<th{}>{}</th>", class(column), escaped(heading));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in &table.rows {
            html.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let _ = write!(html, "<td{}>{}</td>", class(column), escaped(&cell.shown()));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table>\n");
    }
    html.push_str("</body></html>\n");
    html
}
