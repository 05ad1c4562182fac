//! Results as tables, and tables as files.
//!
//! Experiments make a [`Report`]; it can be shown as text, or written as JSON, CSV, Markdown or one HTML
//! page that needs nothing else: no script, no network. Charts are on the page only.

mod chart;
mod draw;
mod html;
mod letters;
mod report;
mod table;
mod text;
mod treemap;

pub use chart::{Bar, Chart, ChartLine, Marker, Shape, Tile};
pub use letters::csv_text;
pub use report::Report;
pub(crate) use table::decimals;
pub use table::{Cell, Column, Table};
pub use text::{Layout, columns};
