//! Hosts with PowerShell in place of a POSIX shell.
//!
//! The command is one constant line of letters, digits and a few signs, which means the same to cmd.exe and
//! to PowerShell: PowerShell's own `-EncodedCommand`, base64 of UTF-16LE. It reads the script that hashes
//! from its standard input. Everything that goes there and comes back is lines of base64, because a
//! PowerShell that stands between takes it for text. No name is part of a command.
//!
//! None of this was ever run against a real Windows.

use data_encoding::BASE64;
use verisum_digest::{Digest, Output};

use crate::error::SessionError;
use crate::helper_session::{Codec, Served};
use crate::hexadecimal;
use crate::link::{Link, Script, Shell};
use crate::probe::Wanted;
use crate::protocol::certutil;
use crate::ways::{Kind, Way, ways};

const START: &str = include_str!("script/start.ps1");
const SERVE: &str = include_str!("script/serve.ps1");

/// What a PowerShell says of a command that it does not know, in every language.
const UNKNOWN_COMMAND: &str = "CommandNotFoundException";

/// What a login shell there is told to do.
pub(crate) fn command(is_piped: bool) -> String {
    let units: Vec<u8> = START.encode_utf16().flat_map(u16::to_le_bytes).collect();
    // What stands between hands its own input on only if it is told to; alone it would keep it.
    let (before, input) = if is_piped { ("$input | ", "Text") } else { ("", "None") };
    format!(
        "{before}powershell -NoLogo -NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat {input} \
         -OutputFormat Text -EncodedCommand {}",
        BASE64.encode(&units)
    )
}

/// Which shell a host has that is no POSIX one, by what it said.
pub(crate) fn shell(said: &str) -> Shell {
    Shell::PowerShell { is_piped: said.contains(UNKNOWN_COMMAND) }
}

/// What came of a host with PowerShell.
#[derive(Default)]
pub(crate) struct Connected {
    /// The first way that is right, and the connection that it is.
    pub(crate) found: Option<(Link, Way, Served)>,
    /// Ways that do not give the right digests.
    pub(crate) rejected: Vec<Way>,
}

/// Starts the first way there that is right, each over a connection of its own.
pub(crate) fn connect(
    new_link: impl Fn() -> Link,
    digest: &Digest,
    wanted: &Wanted,
) -> Result<Connected, SessionError> {
    let mut connected = Connected::default();
    for way in candidates(digest, wanted) {
        let Kind::PowerShell { algorithm } = way.kind else { continue };
        let link = new_link();
        let running = link.start(true, &script(way.name))?;
        let mut served = Served::speaking(Codec::Lines, running, algorithm.to_string(), digest)?;
        if is_right(&served.test()?, digest)? {
            connected.found = Some((link, way, served));
            break;
        }
        connected.rejected.push(way);
    }
    Ok(connected)
}

/// The ways there that are allowed.
pub(crate) fn candidates(digest: &Digest, wanted: &Wanted) -> Vec<Way> {
    let is_ours = |way: &Way| matches!(way.kind, Kind::PowerShell { .. }) && wanted.allows(way.name);
    ways(digest.name()).into_iter().filter(is_ours).collect()
}

/// What serves there.
fn script(tool: &str) -> Script {
    Script::new(&format!("$tool = '{tool}'\n{SERVE}"))
}

/// Whether the records of a test have the right digests; certutil's of a file have to be those that were
/// computed in another way.
fn is_right(records: &[Vec<u8>], digest: &Digest) -> Result<bool, SessionError> {
    let bytes: Vec<u8> = (0..=255).collect();
    let mut right = Vec::new();
    for message in [&b"abc"[..], &bytes, b""] {
        right.push(digest.hash(message).map_err(|error| SessionError::Here(error.to_string()))?);
    }
    let mut tested = false;
    for record in records {
        let mut fields = record.split(|byte| *byte == b'\t');
        match fields.next() {
            Some(b"t") => {
                let found: Vec<Option<Output>> =
                    fields.map(|field| hexadecimal(field, digest.len())).collect();
                tested = found.into_iter().eq(right.iter().copied().map(Some));
                if !tested {
                    return Ok(false);
                }
            }
            Some(b"c") => {
                let own = fields.next().and_then(|field| hexadecimal(field, digest.len()));
                let found = fields.next().and_then(|field| certutil(field, digest.len()));
                if own.is_none() || own != found {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
    Ok(tested)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_means_the_same_to_every_shell_and_is_short_enough_for_cmd() {
        let plain = command(false);
        // cmd.exe takes 8191 characters.
        assert!(plain.len() < 4000, "{}", plain.len());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || " -+/=".contains(c);
        assert!(plain.chars().all(is_plain), "{plain}");
        let start = "powershell -NoLogo -NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat None \
                     -OutputFormat Text -EncodedCommand JABFAHIAcgBvAHIAQQBjAHQAaQBvAG4A";
        assert!(plain.starts_with(start), "{plain}");
        let encoded = plain.rsplit(' ').next().unwrap();
        let units = BASE64.decode(encoded.as_bytes()).unwrap();
        let units: Vec<u16> = units.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        assert_eq!(String::from_utf16(&units).unwrap(), START);
        let piped = command(true);
        assert!(
            piped.starts_with("$input | powershell ") && piped.contains(" -InputFormat Text "),
            "{piped}"
        );
        assert!(piped.ends_with(encoded));
    }

    #[test]
    fn shells_are_told_apart_by_what_they_say() {
        let cmd = "'exec' is not recognized as an internal or external command,";
        let power = "    + FullyQualifiedErrorId : CommandNotFoundException";
        assert_eq!(shell(cmd), Shell::PowerShell { is_piped: false });
        assert_eq!(shell(power), Shell::PowerShell { is_piped: true });
    }

    #[test]
    fn the_scripts_are_plain_lines_and_never_take_a_name_for_code() {
        for text in [START, SERVE] {
            assert!(text.is_ascii() && !text.contains('\r') && text.lines().all(|line| line != "#end"));
            // One place runs text, and that is what this program sent.
            let runs = ["Invoke-Expression", "iex ", "Start-Process", "cmd /c", "[ScriptBlock]"];
            let count: usize = runs.iter().map(|word| text.matches(word).count()).sum();
            assert_eq!(count, usize::from(text == START));
        }
        // Names are values of variables, and no patterns.
        assert!(SERVE.contains("& certutil.exe -hashfile $p $alg"));
        assert!(SERVE.contains("Get-FileHash -LiteralPath $p -Algorithm $alg"));
        assert!(!SERVE.contains(" -Path "));
    }

    #[test]
    fn ways_are_taken_only_with_the_right_digests() {
        let digest = Digest::find("sha256").unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        let hex = [&b"abc"[..], &bytes, b""].map(|message| digest.hash(message).unwrap().to_string());
        let tested = format!("t\t{}\t{}\t{}", hex[0], hex[1], hex[2]).into_bytes();
        let right = |records: &[Vec<u8>]| is_right(records, &digest).unwrap();
        assert!(right(std::slice::from_ref(&tested)));
        let spaced: Vec<String> =
            hex[0].as_bytes().chunks(2).map(|two| String::from_utf8_lossy(two).into()).collect();
        let old = format!("c\t{}\tSHA256 hash of file x:|{}|CertUtil: done", hex[0], spaced.join(" "));
        assert!(right(&[old.into_bytes(), tested.clone()]));
        let wrong = format!("c\t{}\tSHA256 hash of file x:|{}|CertUtil: done", hex[0], hex[1]).into_bytes();
        assert!(!right(&[wrong, tested.clone()]));
        assert!(!right(&[]) && !right(&[b"e\tfailed\tno\t".to_vec()]) && !right(&[b"t\tx".to_vec()]));
        let swapped = format!("t\t{}\t{}\t{}", hex[1], hex[0], hex[2]).into_bytes();
        assert!(!right(&[swapped]));
    }
}
