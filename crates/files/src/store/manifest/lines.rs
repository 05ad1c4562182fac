//! Reads lines of any length in bounded memory.

use std::io::{self, BufRead};

/// The longest line that is taken, in bytes. Names on Linux reach 4,096 bytes at a time.
pub const MAX_LINE: usize = 1 << 20;

/// What [`LineReader::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextLine {
    /// A line, in [`LineReader::line`].
    Line,
    /// A line longer than [`MAX_LINE`], of which nothing is kept.
    TooLong,
    /// No more.
    End,
}

/// Reads lines one by one into one buffer.
pub(super) struct LineReader<R> {
    input: R,
    end: u8,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> LineReader<R> {
    /// Lines that end with this byte; the last one may lack it.
    pub(super) fn new(input: R, end: u8) -> LineReader<R> {
        LineReader { input, end, line: Vec::new(), number: 0 }
    }

    /// The line without its end.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    /// The number of that line, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line.
    pub(super) fn next(&mut self) -> io::Result<NextLine> {
        self.line.clear();
        self.number += 1;
        let mut too_long = false;
        let mut any = false;
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if buffer.is_empty() {
                break;
            }
            any = true;
            let end = buffer.iter().position(|byte| *byte == self.end);
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            if self.line.len() + piece.len() > MAX_LINE {
                too_long = true;
                self.line.clear();
            }
            if !too_long {
                self.line.extend_from_slice(piece);
            }
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        Ok(match (any, too_long) {
            (false, _) => NextLine::End,
            (true, true) => NextLine::TooLong,
            (true, false) => NextLine::Line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_their_byte_or_with_the_input() {
        let mut lines = LineReader::new(&b"a\n\nb\r\nc"[..], b'\n');
        for expected in [&b"a"[..], b"", b"b\r", b"c"] {
            assert_eq!(lines.next().unwrap(), NextLine::Line);
            assert_eq!(lines.line(), expected);
        }
        assert_eq!(lines.number(), 4);
        assert_eq!(lines.next().unwrap(), NextLine::End);
        assert_eq!(LineReader::new(&b""[..], 0).next().unwrap(), NextLine::End);
    }

    #[test]
    fn a_long_line_is_skipped_and_counted() {
        let mut text = vec![b'a'; MAX_LINE];
        text.push(b'\n');
        text.extend(vec![b'b'; MAX_LINE + 1]);
        text.extend(b"\nc\n");
        let input = io::BufReader::with_capacity(1000, &text[..]);
        let mut lines = LineReader::new(input, b'\n');
        assert_eq!(lines.next().unwrap(), NextLine::Line);
        assert_eq!(lines.line().len(), MAX_LINE);
        assert_eq!(lines.next().unwrap(), NextLine::TooLong);
        assert_eq!(lines.next().unwrap(), NextLine::Line);
        assert_eq!((lines.line(), lines.number()), (&b"c"[..], 3));
    }
}
