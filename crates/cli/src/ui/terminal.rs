//! The width of the terminal.

use rustix::fd::BorrowedFd;
use rustix::termios::{isatty, tcgetwinsize};
use verisum_bench::export::Layout;

/// The width where there is no terminal, and none is asked for.
const USUAL: usize = 80;

/// How tables are shown on standard output: as wide as `COLUMNS`, as the terminal, or as 80 columns.
pub(crate) fn layout(details: bool) -> Layout {
    let stdout = rustix::stdio::stdout();
    let asked =
        std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|&width| width > 0);
    // In files and pipes each sentence stays a line.
    let breaks_sentences = asked.is_some() || isatty(stdout);
    Layout { width: asked.unwrap_or_else(|| width(stdout)), breaks_sentences, details }
}

/// The number of columns of a terminal.
pub(crate) fn width(terminal: BorrowedFd<'_>) -> usize {
    match tcgetwinsize(terminal).map_or(0, |size| usize::from(size.ws_col)) {
        0 => USUAL,
        columns => columns,
    }
}
