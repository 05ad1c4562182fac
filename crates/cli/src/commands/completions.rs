//! `verisum completions`: prints the completion script for a shell.
//!
//! Commands, options and digests are in the script. For trees and places the script asks `verisum complete`.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ValueHint};
use clap_complete::Shell;
use verisum::digest::ALGORITHMS;

use crate::blksum;
use crate::ui::Output;
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::getopt::Definition;

/// Around the function of clap for bash, which takes a word apart at `:` and `=`.
const BASH: &str = r#"
_verisum_values() {
    local before="${COMP_LINE:0:COMP_POINT}" cur="${COMP_WORDS[COMP_CWORD]}" values=() files=()
    local typed="$2" option="$3" known here file
    [[ "$cur" != [=:] ]] || typed=""
    [[ "$option" != "=" ]] || option="${COMP_WORDS[COMP_CWORD - 2]}"
    _verisum "$1" "$typed" "$option"
    # Whoever has typed nothing looks for commands, values or files.
    [[ -n "$typed" ]] || mapfile -t COMPREPLY < <(printf '%s\n' "${COMPREPLY[@]}" | grep -v -e '^-' -e '^$')
    mapfile -t values < <("$1" complete --line "$before" 2>/dev/null)
    [[ ${#values[@]} -gt 0 ]] || return 0
    before="${before##*[[:space:]]}"
    case "$cur" in
        : | =) cur="" ;;
    esac
    before="${before%"$cur"}"
    case "$before" in
        "" | *=) mapfile -t files < <(compgen -f -- "$cur") ;;
    esac
    values=("${values[@]#"$before"}")
    COMPREPLY=("${values[@]}")
    # A tree is a directory too: it is offered once.
    known=$'\n'"$(printf '%s\n' "${values[@]}")"$'\n' here="$(pwd -P)/"
    for file in "${files[@]}"; do
        [[ "$file" != /* ]] || here=""
        [[ "$known" == *$'\n'"$here$file"$'\n'* ]] || COMPREPLY+=("$file")
    done
    compopt -o filenames 2>/dev/null
}

complete -F _verisum_values -o nosort -o bashdefault -o default verisum
"#;

/// Before the end of clap's script for zsh, whose function gets another name.
const ZSH: &str = r#"_verisum() {
    local -a values
    values=(${(f)"$(${(Q)words[1]} complete -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)"})
    (( $#values )) && compadd -- $values
    _verisum_options "$@"
}

"#;

/// After clap's script for fish.
const FISH: &str = r#"
function __fish_verisum_values
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    if string match -q -- '--*=*' $typed
        set -a words (string split -m1 = -- $typed)
    else
        set -a words "$typed"
    end
    command verisum complete -- $words 2>/dev/null
end

complete -c verisum -a '(__fish_verisum_values)'
complete -c verisum -l from -r -a '(__fish_verisum_values)'
complete -c verisum -l tree -r -a '(__fish_verisum_values)'
"#;

/// Prints the completions for a shell.
pub(crate) fn run(command: clap::Command, shell: Shell, output: &mut Output) -> Result<Exit, Failure> {
    // The generator panics when it cannot write: give it memory.
    let mut script = Vec::new();
    let program = command.get_name().to_string();
    clap_complete::generate(shell, &mut with_digests(command), &program, &mut script);
    let script = String::from_utf8_lossy(&script);
    output.text(&match shell {
        _ if program != PROGRAM => script.into_owned(),
        Shell::Bash => format!("{script}{BASH}"),
        Shell::Zsh => {
            let named = script.replacen("\n_verisum() {", "\n_verisum_options() {", 1);
            named.replacen("\nif [ \"$funcstack[1]\"", &format!("\n{ZSH}if [ \"$funcstack[1]\""), 1)
        }
        Shell::Fish => format!("{script}{FISH}"),
        _ => script.into_owned(),
    })?;
    Ok(Exit::Clean)
}

/// The command line of blksum, which has a parser of its own.
pub(crate) fn of_blksum() -> clap::Command {
    let arg = |option: &Definition| {
        let name = if option.long == "digest" { "DIGEST" } else { "N" };
        let arg = Arg::new(option.long).long(option.long).action(ArgAction::SetTrue);
        let arg = if option.takes_value { arg.action(ArgAction::Set).value_name(name) } else { arg };
        match option.short {
            Some(short) => arg.short(char::from(short)),
            None => arg,
        }
    };
    clap::Command::new(blksum::PROGRAM)
        .disable_help_flag(true)
        .args(blksum::OPTIONS.iter().map(arg))
        .arg(Arg::new("FILENAME").value_hint(ValueHint::FilePath))
}

/// The command line, with the names of digests wherever one is taken. The parser takes other names too, and
/// its messages are shorter without the list.
pub(crate) fn with_digests(command: clap::Command) -> clap::Command {
    let takes_digest = |arg: &Arg| {
        arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains("DIGEST")))
    };
    let names = || PossibleValuesParser::new(ALGORITHMS.iter().map(|algorithm| algorithm.id));
    let command = command.mut_args(|arg| if takes_digest(&arg) { arg.value_parser(names()) } else { arg });
    command.mut_subcommands(with_digests)
}
