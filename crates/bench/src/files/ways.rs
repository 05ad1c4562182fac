//! Ways to compute a file's digest, and how much of their times is the start of a process.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use verisum_digest::{Digest, Output};

use crate::measure::{About, MeasureError, MeasurePlan, Measured, Process, Subject, Work};
use crate::record::{Series, rate_between};
use crate::stats::Interval;

/// The published small file's length in bytes.
pub const SMALL: u64 = 2335;

/// The published large file's length in bytes; it is all zeros.
pub const LARGE: u64 = 1 << 30;

/// Where the file's name goes in a command.
pub const PLACE: &str = "{}";

/// Why a text is no way of the user's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileWayError {
    /// It is no name with a command.
    #[error("must be a known name, or NAME=COMMAND")]
    NoWay,
    /// The name is empty or has control characters.
    #[error("must begin with a name")]
    NoName,
    /// The command is empty.
    #[error("must have a command after the `=`")]
    NoCommand,
    /// A quote has no second one, or a backslash is last.
    #[error("has a quote without a second one, or a backslash at its end")]
    OpenQuote,
}

/// A way to a digest that starts a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWay {
    /// What it is called in the tables.
    pub name: String,
    /// The program and its arguments. [`PLACE`] stands for the file's name, [`SCRIPT`] for that of a file
    /// with the way's script.
    pub words: Vec<String>,
    /// What is in that file.
    pub script: Option<&'static str>,
    /// Whether it holds the longest line of the file in memory; zeros are one line.
    pub lines: bool,
    /// Whether it is one of the five that were published.
    pub published: bool,
}

/// Where the name of the way's script goes in a command.
pub const SCRIPT: &str = "{script}";

/// Reads line by line, which binaries were not made for.
const BY_LINES: &str = r#"use Digest::MD5;
my $file = $ARGV[0];
open(my $handle, "<", $file) or die "$file: $!\n";
binmode $handle;
my $md5 = Digest::MD5->new;
while (my $line = <$handle>) { $md5->add($line) }
print $md5->hexdigest, "\n";
"#;

const ADDFILE: &str = r#"open(my $handle, "<", $ARGV[0]) or die "$!\n"; binmode $handle; print Digest::MD5->new->addfile($handle)->hexdigest, "\n""#;

const BINMODE: &str = r#"my $handle = IO::File->new($ARGV[0], "<") or die "$!\n"; $handle->binmode; print Digest::MD5->new->addfile($handle)->hexdigest, "\n""#;

/// Into one buffer, as hashlib's documentation advises.
const PYTHON: &str = "import hashlib, sys
hasher, buffer = hashlib.new(sys.argv[1]), bytearray(1 << 18)
view = memoryview(buffer)
with open(sys.argv[2], 'rb', buffering=0) as file:
    while count := file.readinto(buffer):
        hasher.update(view[:count])
print(hasher.hexdigest())";

/// The ways that are known, the published ones first. All but those take any digest.
pub fn ways(digest: &str) -> Vec<FileWay> {
    let way = |name: &str, words: &[&str]| FileWay {
        name: name.to_string(),
        words: words.iter().map(|word| word.to_string()).collect(),
        script: None,
        lines: false,
        published: true,
    };
    let others = |name: &str, words: &[&str]| FileWay { published: false, ..way(name, words) };
    vec![
        FileWay { script: Some(BY_LINES), lines: true, ..way("script", &["perl", SCRIPT, PLACE]) },
        FileWay { lines: true, ..way("one-liner", &["perl", "-e", BY_LINES, PLACE]) },
        way("addfile", &["perl", "-MDigest::MD5", "-e", ADDFILE, PLACE]),
        way("binmode", &["perl", "-MIO::File", "-MDigest::MD5", "-e", BINMODE, PLACE]),
        way("md5sum", &["md5sum", PLACE]),
        others("openssl", &["openssl", "dgst", &format!("-{digest}"), PLACE]),
        others("python", &["python3", "-c", PYTHON, digest, PLACE]),
    ]
}

impl FileWay {
    /// A way of the user's, as `NAME=command {}`; without `{}` the file's name comes last. The command is
    /// split into words as a shell does, but nothing in it is run by one.
    pub fn parse(text: &str) -> Result<FileWay, FileWayError> {
        let (name, command) = text.split_once('=').ok_or(FileWayError::NoWay)?;
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(FileWayError::NoName);
        }
        let mut words = shlex::split(command).ok_or(FileWayError::OpenQuote)?;
        if words.is_empty() {
            return Err(FileWayError::NoCommand);
        }
        if !words.iter().any(|word| word.contains(PLACE)) {
            words.push(PLACE.to_string());
        }
        Ok(FileWay { name: name.to_string(), words, script: None, lines: false, published: false })
    }

    /// The program's name.
    pub fn program(&self) -> &str {
        &self.words[0]
    }

    /// As a subject: `program` is where the program was found. The files' names are arguments of their
    /// own, so that any name is safe; several files share one start, and the time is that of one.
    pub fn subject<'a>(
        &self,
        about: About,
        program: &Path,
        script: Option<&Path>,
        files: &[&Path],
    ) -> Box<dyn Subject + 'a> {
        let mut arguments: Vec<OsString> = Vec::new();
        for word in &self.words[1..] {
            match script {
                Some(script) if word == SCRIPT => arguments.push(script.into()),
                _ if word == PLACE => arguments.extend(files.iter().map(|file| named(file))),
                _ => arguments.push(filled(word, &named(files[0]))),
            }
        }
        let process = Process::new(about, program, arguments).parse(digest_in);
        match files.len() {
            1 => process.boxed(),
            count => Box::new(Shared { process, count: count as u32 }),
        }
    }
}

/// A file's name that no program takes for an option, a pipe or standard input.
fn named(file: &Path) -> OsString {
    match file.is_absolute() {
        true => file.into(),
        false => Path::new(".").join(file).into(),
    }
}

/// A word with the file's name at its place, whatever bytes the name is of.
fn filled(word: &str, name: &OsStr) -> OsString {
    let mut bytes = Vec::new();
    for (index, part) in word.split(PLACE).enumerate() {
        if index > 0 {
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes.extend_from_slice(part.as_bytes());
    }
    OsString::from_vec(bytes)
}

/// The digest in what a program printed: the first word if it is one, as of md5sum, else the last, as of
/// openssl and BSD. So no digest in the file's own name is taken for it.
pub fn digest_in(text: &str) -> Option<String> {
    // md5sum begins with a backslash where it had to escape the name.
    let first = text.split_whitespace().next().map(|word| word.strip_prefix('\\').unwrap_or(word));
    let is_digest = |word: &&str| word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let found = first.filter(is_digest).or_else(|| text.split_whitespace().next_back().filter(is_digest));
    found.map(str::to_lowercase)
}

/// A program that is given several files at once; all that it takes is shared out among them.
struct Shared {
    process: Process,
    count: u32,
}

impl Subject for Shared {
    fn about(&self) -> &About {
        self.process.about()
    }

    fn begin(&mut self, plan: &MeasurePlan) {
        self.process.begin(plan);
    }

    fn run(&mut self, repetitions: u32) -> Result<Measured, MeasureError> {
        let all = self.process.run(repetitions)?;
        Ok(Measured {
            wall: all.wall / self.count,
            user: all.user / self.count,
            system: all.system / self.count,
            cycles: all.cycles.map(|cycles| cycles / u64::from(self.count)),
            ..all
        })
    }
}

/// A file's digest in this process: open, read, hash, close.
pub struct Within {
    file: PathBuf,
    digest: Option<Digest>,
    buffer: Vec<u8>,
    found: Option<String>,
}

impl Within {
    /// Without a digest the file is only read.
    pub fn new(file: &Path, digest: Option<Digest>) -> Within {
        Within { file: file.to_path_buf(), digest, buffer: vec![0; 256 * 1024], found: None }
    }
}

impl Work for Within {
    fn work(&mut self) -> Result<(), MeasureError> {
        let path = &self.file;
        let failed = |operation| move |error| MeasureError::io(path, operation, error);
        let mut file = File::open(path).map_err(failed("open"))?;
        let mut stream = self.digest.as_ref().map(|digest| digest.stream()).transpose()?;
        loop {
            let count = file.read(&mut self.buffer).map_err(failed("read"))?;
            if count == 0 {
                break;
            }
            if let Some(stream) = &mut stream {
                stream.update(&self.buffer[..count])?;
            }
        }
        if let (Some(mut stream), Some(digest)) = (stream, &self.digest) {
            let mut output = Output::zeroed(digest.len());
            stream.finish(output.as_mut_bytes())?;
            self.found = Some(output.to_string());
        }
        Ok(())
    }

    fn digest(&mut self) -> Option<String> {
        self.found.clone()
    }
}

/// What the times of a small and a large file say together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeParts {
    /// Seconds before the first byte and after the last.
    pub start: f64,
    /// Bytes a second in between; `None` where the large file was not seen to take longer than the small
    /// one: the interval of the difference holds zero, or there were too few rounds for one.
    pub rate: Option<Interval>,
}

/// Tells a way's start apart from its throughput, by the medians. `None` without times.
pub fn parts(small: &Series, large: &Series) -> Option<TimeParts> {
    let short = small.time()?.median;
    large.time()?;
    let bytes = large.bytes.checked_sub(small.bytes).filter(|bytes| *bytes > 0)?;
    let rate = rate_between(small, large, bytes);
    let start = rate.map_or(short, |rate| (short - small.bytes as f64 / rate.median).max(0.0));
    Some(TimeParts { start, rate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Cache;
    use std::time::Duration;

    #[test]
    fn ways_of_users_are_words_with_a_place_for_the_name() {
        let words = |text: &str| FileWay::parse(text).map(|way| way.words);
        assert_eq!(words("a=md5sum").unwrap(), ["md5sum", "{}"]);
        assert_eq!(words("a=dd if={} bs=1M").unwrap(), ["dd", "if={}", "bs=1M"]);
        assert_eq!(words("a b=x=1 'y  z' {}").unwrap(), ["x=1", "y  z", "{}"]);
        for wrong in ["", "md5sum", "=md5sum {}", "a=", "a=  ", "a=it's", "a\n=x"] {
            assert!(FileWay::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(filled("if={}", OsStr::from_bytes(b"\xff'")), OsStr::from_bytes(b"if=\xff'"));
        assert_eq!(named(Path::new("-rf")), "./-rf");
    }

    #[test]
    fn digests_are_found_beside_any_name() {
        let digest = "d41d8cd98f00b204e9800998ecf8427e";
        let trap = "11111111111111111111111111111111";
        for text in [
            format!("{digest}  {trap}\n"),
            format!("\\{digest}  a\\nb\n"),
            format!("MD5({trap} = {trap})= {digest}\n"),
            format!("MD5 (x = {trap}) = {}\n", digest.to_uppercase()),
            digest.to_string(),
        ] {
            assert_eq!(digest_in(&text).as_deref(), Some(digest), "{text}");
        }
        for text in ["", "no digest", "abc", &format!("x {digest} y")] {
            assert_eq!(digest_in(text), None, "{text}");
        }
    }

    #[test]
    fn a_start_is_told_from_the_rate() {
        let series = |bytes: u64, ms: u64| {
            let mut series = Series::new(&About::new("g", "n").bytes(bytes));
            let wall = Duration::from_millis(ms);
            for round in 1..=6 {
                series.add(round, &Measured { wall, ..Measured::default() }, Cache::Warm);
            }
            series
        };
        let found = parts(&series(1000, 6), &series(1_001_000, 1006)).unwrap();
        assert!((found.start - 0.005).abs() < 1e-9, "{found:?}");
        assert!((found.rate.unwrap().median - 1e6).abs() < 1e-3, "{found:?}");
        assert_eq!(parts(&series(1, 6), &series(1000, 6)).unwrap(), TimeParts { start: 0.006, rate: None });
        assert_eq!(parts(&series(1000, 6), &series(1000, 6)), None);
    }

    #[test]
    fn a_start_may_be_shared() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a 'b\n$(c)");
        std::fs::write(&file, b"x").unwrap();
        let way = FileWay::parse("cat=/bin/sh -c 'sleep 0.2; printf 0123abcd; test $# = 4' sh {}").unwrap();
        let files = [file.as_path(); 4];
        let mut subject = way.subject(About::new("g", "n"), Path::new("/bin/sh"), None, &files);
        let measured = subject.run(1).unwrap();
        assert_eq!(measured.digest.as_deref(), Some("0123abcd"));
        assert!(measured.wall >= Duration::from_millis(50));
    }
}
