//! The width of the terminal.

use rustix::fd::BorrowedFd;
use rustix::termios::{isatty, tcgetwinsize};
use verisum_bench::export::Layout;

/// The width where there is no terminal, and none is asked for.
const USUAL: usize = 80;

/// How tables are shown on standard output: as wide as `COLUMNS`, as the terminal, or as 80 columns.
pub(crate) fn layout(details: bool) -> Layout {
    let stdout = rustix::stdio::stdout();
    // In files and pipes each sentence stays a line.
    let breaks_sentences = asked().is_some() || isatty(stdout);
    Layout { width: width_or_asked(stdout), breaks_sentences, details }
}

/// As wide as `COLUMNS`, or as the terminal.
pub(crate) fn width_or_asked(terminal: BorrowedFd<'_>) -> usize {
    asked().unwrap_or_else(|| width(terminal))
}

fn asked() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|&width| width > 0)
}

/// The number of columns of a terminal.
pub(crate) fn width(terminal: BorrowedFd<'_>) -> usize {
    match tcgetwinsize(terminal).map_or(0, |size| usize::from(size.ws_col)) {
        0 => USUAL,
        columns => columns,
    }
}
