//! Probes a host: finds out in one request what it has.

use std::fmt::Write as _;

use verisum_digest::Digest;

use crate::error::SessionError;
use crate::link::{Running, Script};
use crate::push::machine;
use crate::ways::{Kind, Way, ways};

const PROBE: &str = include_str!("script/probe.sh");
pub(crate) const PERL: &str = include_str!("script/serve.pl");
pub(crate) const PYTHON: &str = include_str!("script/serve.py");

/// The most lines of a probe that are about no way.
const MOST_OTHERS: usize = 100;

/// Which ways a user takes.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only these, if there are any.
    pub required: Vec<String>,
    /// Whether all are tried, and not only until one is right.
    pub all: bool,
}

impl Wanted {
    /// Whether this way may be used.
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.required.is_empty() || self.required.iter().any(|required| required == name)
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probed {
    /// Its system and processor, as `uname -sm` prints them; read from its shell where it has no `uname`.
    pub(crate) system: String,
    /// Whether it has gzip.
    pub(crate) unpacks: bool,
    /// How it lists trees, if it can.
    pub(crate) lister: Option<Lister>,
    /// The ways that are right, the best first; without [`Wanted::all`] one at most.
    pub(crate) ways: Vec<Way>,
    /// Ways that are there and do not give the right digests.
    pub(crate) rejected: Vec<Way>,
    /// Ways that may be right, and cannot be used without `find` or `xargs`.
    pub(crate) unfit: Vec<Way>,
}

/// How a tree is listed by programs of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lister {
    /// GNU find prints size and time.
    Gnu,
    /// `stat -c` prints them.
    Stat,
    /// `stat -f` prints them.
    Bsd,
    /// Nothing prints them.
    Plain,
}

impl Lister {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lister::Gnu => "gnu",
            Lister::Stat => "stat",
            Lister::Bsd => "bsd",
            Lister::Plain => "plain",
        }
    }
}

/// The script that looks for the best way to compute a digest. It waits for another script at its end, and so
/// for the end of its standard input.
pub(crate) fn script(digest: &Digest, wanted: &Wanted) -> Result<Script, SessionError> {
    let bytes: Vec<u8> = (0..=255).collect();
    let value = |message: &[u8]| match digest.hash(message) {
        Ok(value) => Ok(value.to_string()),
        Err(error) => Err(SessionError::Here(error.to_string())),
    };
    let octal: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let mut text = PROBE
        .replace("@ABC@", &value(b"abc")?)
        .replace("@BYTES@", &value(&bytes)?)
        .replace("@EMPTY@", &value(b"")?)
        .replace("@OCTAL@", &octal);
    let ways = ways(digest.name());
    let allowed: Vec<(usize, &Way)> =
        ways.iter().enumerate().filter(|(_, way)| wanted.allows(way.name)).collect();
    // Those that nobody may use need not be sent.
    let scripts: Vec<(&str, &str)> = [("perl", PERL), ("python", PYTHON)]
        .into_iter()
        .filter(|(name, _)| allowed.iter().any(|(_, way)| way.name == *name))
        .collect();
    for (name, _) in &scripts {
        let _ = writeln!(text, "script; {name}=$v");
    }
    let mut is_prepared = false;
    for (number, way) in allowed {
        let program = way.program;
        let line = match &way.kind {
            Kind::Tool(tool) => {
                // Where a server is found before, nobody needs them.
                let first = if is_prepared { "" } else { "tools || " };
                is_prepared = true;
                format!("{first}tool {number} {program} '{}' '{}' '{}'", tool.mark, tool.batch, tool.stream)
            }
            Kind::Verisum => format!("server {number} {program} {} {program} remote-serve", digest.name()),
            Kind::Perl { algorithm } => {
                format!("server {number} {program} {algorithm} {program} -e \"$perl\"")
            }
            Kind::Python { algorithm } => {
                format!("server {number} {program} {algorithm} {program} -B -E -c \"$python\"")
            }
            // For hosts that have no shell to run this.
            Kind::PowerShell { .. } => continue,
        };
        text.push_str(&line);
        text.push_str(if wanted.all { "\n" } else { " ||\n" });
    }
    text.push_str("printf 'way none\\n'\nprintf 'done\\n'\nscript; eval \"$v\"\n");
    Ok(scripts.iter().fold(Script::new(&text), |script, (_, text)| script.script(text)))
}

/// Reads what the script prints.
pub(crate) fn read(running: &mut Running, digest: &Digest) -> Result<Probed, SessionError> {
    let mut probed = Probed::default();
    let ways = ways(digest.name());
    let timeout = running.timeout();
    timeout.allow(Some(timeout.answer()));
    // One line for each way, and a few before them.
    for _ in 0..ways.len() + MOST_OTHERS {
        let line = running.record(b'\n').map_err(|error| SessionError::Odd(error.to_string()))?;
        let Some(line) = line else { return Err(running.broken()) };
        if let Some(header) = line.strip_prefix(b"shell ") {
            probed.system = machine(header).unwrap_or_default();
            continue;
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let (what, value) = line.split_once(' ').unwrap_or((&line, ""));
        let way = || value.parse().ok().and_then(|number: usize| ways.get(number)).cloned();
        match what {
            "unpacks" => probed.unpacks = true,
            "system" => probed.system = value.trim().to_string(),
            "lister" => {
                let all = [Lister::Gnu, Lister::Stat, Lister::Bsd, Lister::Plain];
                probed.lister = all.into_iter().find(|lister| lister.name() == value);
            }
            "way" => probed.ways.extend(way()),
            "rejected" => probed.rejected.extend(way()),
            "unfit" => probed.unfit.extend(way()),
            "null" => {
                return Err(SessionError::NoWay("/dev/null there cannot be read and written".to_string()));
            }
            "done" => {
                // From now on it only waits.
                timeout.allow(None);
                return Ok(probed);
            }
            _ => {}
        }
    }
    Err(SessionError::Odd("the probe does not end".to_string()))
}
