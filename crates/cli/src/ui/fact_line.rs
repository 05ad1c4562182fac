//! A line about a file and the facts of its state. It is wrapped if the terminal is too narrow.

use verisum_bench::export::columns;

/// What stands before the facts of a paragraph, and before the rest of a long one.
const INDENTS: [&str; 2] = ["  ", "    "];

/// A file, how it is with it, and the facts that tell that.
pub(crate) struct FactLine {
    pub(crate) what: String,
    pub(crate) facts: Vec<String>,
}

impl FactLine {
    /// All in one line.
    pub(crate) fn line(&self) -> String {
        match self.facts.is_empty() {
            true => self.what.clone(),
            false => format!("{}  ({})", self.what, self.facts.join("; ")),
        }
    }

    /// For a terminal of so many columns: the facts come below, as many in a line as there is room for. Names and
    /// commands are not broken, so that they can be copied.
    pub(crate) fn for_width(&self, width: usize) -> String {
        let line = self.line();
        if columns(&line) <= width {
            return line;
        }
        let mut lines = vec![self.what.clone()];
        let mut last = String::new();
        for fact in &self.facts {
            let joined = format!("{last}; {fact}");
            if !last.is_empty() && columns(&joined) <= width {
                last = joined;
                continue;
            }
            lines.extend(Some(std::mem::take(&mut last)).filter(|line| !line.is_empty()));
            last = format!("{}{fact}", INDENTS[0]);
            if columns(&last) > width {
                lines.extend(broken(&std::mem::take(&mut last), width));
            }
        }
        lines.extend(Some(last).filter(|line| !line.is_empty()));
        lines.join("\n")
    }
}

/// A sentence as lines of so many columns. A name with a slash is not broken: it ends at a colon, or else the sentence
/// stays whole. What is between backticks is a command, and has a line of its own where the sentence is too long.
pub(crate) fn broken(text: &str, width: usize) -> Vec<String> {
    let mut is_command = false;
    let in_name = text.char_indices().filter(|(_, letter)| {
        is_command ^= *letter == '`';
        *letter == '/' && !is_command
    });
    let end_of_name = |(at, _): (usize, char)| text[at..].find(": ").map(|end| at + end + 2);
    let end = in_name.last().map_or(Some(0), end_of_name);
    let Some((name, rest)) = end.filter(|_| columns(text) > width).map(|end| text.split_at(end)) else {
        return vec![text.to_string()];
    };
    let words = rest.split('`').enumerate().flat_map(|(number, part)| match number % 2 {
        0 => part.split_inclusive(' ').map(String::from).collect(),
        _ => vec![format!("`{part}`")],
    });
    let name = Some(name.to_string()).filter(|name| !name.is_empty());
    filled(name.into_iter().chain(words), width, INDENTS[1])
}

/// Words, each with the space behind it, in lines of so many columns; all but the first line begin with `indent`.
pub(crate) fn filled(words: impl Iterator<Item = String>, width: usize, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut last = String::new();
    for word in words {
        if last.trim().is_empty() || columns(&last) + columns(word.trim_end()) <= width {
            last.push_str(&word);
        } else if !word.trim().is_empty() {
            let full = std::mem::replace(&mut last, format!("{indent}{word}"));
            lines.push(full.trim_end().to_string());
        }
    }
    lines.push(last.trim_end().to_string());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_below_where_there_is_no_room_beside() {
        let facts = ["since yesterday", "12 KiB", "mend it: verisum repair '/srv/a long name of a tree'"];
        let line = FactLine { what: "rot  /srv/写真".to_string(), facts: facts.map(String::from).to_vec() };
        assert_eq!(line.for_width(500), line.line());
        let narrow = "rot  /srv/写真\n  since yesterday; 12 KiB\n  \
                      mend it: verisum repair '/srv/a long name of a tree'";
        assert_eq!(line.for_width(30), narrow);
        let bare = FactLine { what: "ok  a".to_string(), facts: Vec::new() };
        assert_eq!((bare.line().as_str(), bare.for_width(2).as_str()), ("ok  a", "ok  a"));
    }

    #[test]
    fn sentences_are_broken_between_words_and_commands_never() {
        let text = "  copies of 2 are known: `verisum repair /srv/a b c` puts them in place";
        let lines = [
            "  copies of 2 are",
            "    known:",
            "    `verisum repair /srv/a b c`",
            "    puts them in",
            "    place",
        ];
        assert_eq!(broken(text, 18), lines);
        assert_eq!(broken(text, 100), [text]);
        assert_eq!(broken("a name: /srv/of a file", 10), ["a name: /srv/of a file"]);
        let lines = ["verisum: /srv/a b:", "    1 file is", "    missing"];
        assert_eq!(broken("verisum: /srv/a b: 1 file is missing", 16), lines);
    }
}
