//! The examples of each command, for help, the manual and the page of commands.

/// Each command with its examples: what one is for, then its lines after a `$`. Lines after a `!` are for the test.
const TEXT: &str = include_str!("examples.txt");

/// A use of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Example {
    /// What it is for.
    pub(crate) purpose: &'static str,
    /// What to type, a line each.
    pub(crate) lines: Vec<&'static str>,
}

/// The examples of a command, by its whole name: `verisum image sum`.
pub(crate) fn of(command: &str) -> Vec<Example> {
    let lines = TEXT.lines().skip_while(|line| *line != command).skip(1);
    let mut examples: Vec<Example> = Vec::new();
    for line in lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("  !")) {
        match (line.strip_prefix("  $ "), examples.last_mut()) {
            (Some(typed), Some(example)) => example.lines.push(typed),
            _ => examples.push(Example { purpose: line.trim_start(), ..Example::default() }),
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_a_command_are_its_own() {
        let found = of("verisum links");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].lines, ["verisum links bin", "PATH=$PWD/bin:$PATH sha256sum photos/a.jpg"]);
        assert!(found[0].purpose.starts_with("Use verisum in place of md5sum"));
        assert_eq!(of("verisum nothing"), []);
    }

    #[test]
    fn what_is_typed_is_the_command() {
        let names = TEXT.lines().filter(|line| line.starts_with("verisum"));
        for name in names {
            let typed = of(name).iter().map(|example| example.lines.len()).sum::<usize>();
            assert!((2..=4).contains(&typed), "{name}: {typed} lines");
            for (number, example) in of(name).into_iter().enumerate() {
                assert!(!example.lines.is_empty() && example.purpose.len() <= 90, "{name}: {example:?}");
                // Later ones may go on with what the first one made.
                let is_called =
                    name == "verisum" || number > 0 || example.lines.iter().any(|line| line.contains(name));
                assert!(is_called, "{name}: {example:?}");
            }
        }
    }
}
