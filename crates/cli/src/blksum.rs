//! `blksum`: the options, output and exit codes of the program of that name of the blkhash project.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use verisum::blockhash::{DEFAULT_BLOCK_SIZE, Params};
use verisum::digest::{ALGORITHMS, DigestClass};
use verisum::image::{Detect, Follow, is_nbd_uri};

use crate::ui::exit::BLKSUM_FAILURE;
use crate::ui::failure::Failure;
use crate::ui::getopt::{self, Definition, ParsedOption};
use crate::ui::input::{self, HashSettings, Input};
use crate::ui::progress::ShowProgress;
use crate::ui::{self, Output, names};
use crate::ui::{digests, kernel, signals, sizes};

pub(crate) const PROGRAM: &str = "blksum";

/// The largest queue that can be asked for.
const MAX_QUEUE_DEPTH: usize = 128;

const HELP: &str = "\
Print the block hash of a disk image

    blksum [-d NAME|--digest NAME] [-p|--progress] [-c|--cache]
           [-t N|--threads N] [--queue-depth N] [--read-size N]
           [--block-size N] [-l|--list-digests] [-h|--help]
           [--version] [FILENAME]

  -d, --digest NAME    the digest (default sha256)
  -p, --progress       show progress on standard error, if it is a terminal
  -c, --cache          read through the page cache instead of past it
  -t, --threads N      workers, 1 to 128 (default: one for each usable core)
      --queue-depth N  1 to 128; checked, and without effect
      --read-size N    a multiple of the block size; checked, and without effect
      --block-size N   the block size (default 64k); it changes the value
  -l, --list-digests   list the digests
  -h, --help           show this
      --version        print the version

Sizes may end in k, m or g. FILENAME is a raw or qcow2 file, a block device,
a pipe or an NBD address (nbd://HOST/EXPORT, nbd+unix:///EXPORT?socket=FILE);
without it, or with -, standard input is read.
";

pub(crate) static OPTIONS: &[Definition] = &[
    Definition { long: "digest", short: Some(b'd'), takes_value: true },
    Definition { long: "progress", short: Some(b'p'), takes_value: false },
    Definition { long: "cache", short: Some(b'c'), takes_value: false },
    Definition { long: "threads", short: Some(b't'), takes_value: true },
    Definition { long: "queue-depth", short: None, takes_value: true },
    Definition { long: "read-size", short: None, takes_value: true },
    Definition { long: "block-size", short: None, takes_value: true },
    Definition { long: "list-digests", short: Some(b'l'), takes_value: false },
    Definition { long: "help", short: Some(b'h'), takes_value: false },
    Definition { long: "version", short: None, takes_value: false },
];

/// The whole program.
pub fn main() -> ExitCode {
    signals::survive_limits();
    ui::secrets::learn_line(std::env::args_os());
    announce_termination();
    let mut output = Output::new();
    match run(&mut output).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            ui::say(PROGRAM, &message(&failure));
            BLKSUM_FAILURE.into()
        }
    }
}

/// Says so when SIGTERM ends the program, as the other one does; it says nothing of SIGINT. Where the signal
/// cannot be caught it has its usual effect.
fn announce_termination() {
    let _ = signals::watch(&[signals::SIGTERM], |signal| {
        ui::say(PROGRAM, &format!("Terminated by signal {signal}"));
        signals::obey(signal);
    });
}

/// The words that scripts look for, where they differ from verisum's.
fn message(failure: &Failure) -> String {
    match failure {
        Failure::UnknownDigest { name, .. } => {
            format!("blkhash_new: Invalid argument (unknown digest: {})", names::quoted(name.as_ref()))
        }
        _ => failure.message(),
    }
}

fn run(output: &mut Output) -> Result<(), Failure> {
    let action = Arguments::parse(std::env::args_os().skip(1))?;
    output.ready()?;
    match action {
        Action::Help => output.text(HELP),
        Action::Version => output.line(&format!("{PROGRAM} (verisum) {}", env!("CARGO_PKG_VERSION"))),
        Action::List => list(output),
        Action::Sum(arguments) => arguments.sum(output),
    }
}

/// What is asked for.
#[derive(Debug)]
enum Action {
    Help,
    Version,
    List,
    Sum(Arguments),
}

/// The command line as it was typed.
#[derive(Debug, Default)]
struct Arguments {
    digest: Option<String>,
    threads: Option<usize>,
    block_size: Option<u32>,
    cache: bool,
    progress: bool,
    name: Option<OsString>,
}

impl Arguments {
    fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Action, Failure> {
        let mut parsed = Arguments::default();
        let mut read_size = None;
        for found in getopt::parse(&OPTIONS.iter().collect::<Vec<_>>(), arguments).map_err(Failure::Usage)? {
            let (option, value) = match found {
                ParsedOption::Option(option, value) => (option, value.to_string_lossy().into_owned()),
                ParsedOption::Operand(name) if parsed.name.is_none() => {
                    parsed.name = Some(name);
                    continue;
                }
                ParsedOption::Operand(name) => {
                    return Err(Failure::Usage(format!("extra operand: {}", names::quoted(&name))));
                }
            };
            match option {
                "help" => return Ok(Action::Help),
                "version" => return Ok(Action::Version),
                "list-digests" => return Ok(Action::List),
                "digest" => parsed.digest = Some(value),
                "progress" => parsed.progress = true,
                "cache" => parsed.cache = true,
                "threads" => parsed.threads = Some(sizes::threads(&value)?),
                "block-size" => parsed.block_size = Some(sizes::block_size(&value)?),
                "read-size" => read_size = Some(value),
                // The rest is the queue's depth: there is no queue between reading and hashing here.
                _ => check_queue_depth(value)?,
            }
        }
        if let Some(value) = read_size {
            check_read_size(value, parsed.block_size.unwrap_or(DEFAULT_BLOCK_SIZE))?;
        }
        Ok(Action::Sum(parsed))
    }

    fn sum(self, output: &mut Output) -> Result<(), Failure> {
        let digest = digests::find(self.digest.as_deref().unwrap_or("sha256"), &kernel::policy()?)?;
        let input = Input::new(self.name.unwrap_or_else(|| "-".into()));
        let params = Params::new(digest).block_size(self.block_size.unwrap_or(DEFAULT_BLOCK_SIZE));
        let settings = HashSettings {
            program: PROGRAM,
            params: params.map_err(|error| Failure::Usage(error.to_string()))?,
            threads: self.threads,
            cache: self.cache,
            // An export is what its server shows of it.
            pad_files: !is_nbd_uri(input.name()),
            pad_streams: false,
            format: None,
            detect: Detect::Qcow2,
            stdin_detect: Detect::Raw,
            follow: Follow::Any,
            snapshot: None,
            buckets: None,
            progress: if self.progress { ShowProgress::Always } else { ShowProgress::Never },
            is_one_of_many: false,
        };
        let sum = input::sum(&input, &settings)?;
        output.text(&format!("{}  ", sum.digest))?;
        output.bytes(input.name().as_bytes())?;
        output.text("\n")
    }
}

fn check_queue_depth(value: String) -> Result<(), Failure> {
    match value.parse() {
        Ok(1..=MAX_QUEUE_DEPTH) => Ok(()),
        _ => Err(Failure::value("--queue-depth", value, format!("must be 1 to {MAX_QUEUE_DEPTH}"))),
    }
}

/// Reads here are always a run of blocks, whatever is asked for.
fn check_read_size(value: String, block_size: u32) -> Result<(), Failure> {
    match sizes::parse(&value) {
        Some(bytes) if bytes > 0 && bytes % u64::from(block_size) == 0 => Ok(()),
        _ => Err(Failure::value(
            "--read-size",
            value,
            format!("must be a multiple of the block size, {block_size}"),
        )),
    }
}

/// Prints the digests that blkhash has too, one a line: the same list on every machine.
fn list(output: &mut Output) -> Result<(), Failure> {
    let mut names: Vec<&str> = ALGORITHMS
        .iter()
        .filter(|one| matches!(one.class, DigestClass::Cryptographic | DigestClass::Null))
        // Those of OpenSSL's legacy provider, which blkhash does not load.
        .filter(|one| !matches!(one.id, "md4" | "whirlpool"))
        .map(|one| one.id)
        .collect();
    names.sort_unstable();
    names.iter().try_for_each(|name| output.line(name))
}
