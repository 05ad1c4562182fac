//! Programs as subjects: started, fed, waited for, and what they used asked from the kernel.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::fs::MemfdFlags;

use super::counter::Cycles;
use super::error::Error;
use super::subject::{About, Measured, Subject};
use crate::system;

/// What a program has as its standard input.
#[derive(Clone, Debug, Default)]
pub enum Stdin {
    /// Nothing.
    #[default]
    Null,
    /// A file, opened for it.
    File(PathBuf),
    /// A pipe, into which this file is written.
    Pipe(PathBuf),
}

/// Reads a digest from what a program printed.
pub type Parse = fn(&str) -> Option<String>;

/// The most output that is looked at.
const OUTPUT: u64 = 1 << 20;

/// A program with its arguments.
pub struct Process {
    about: About,
    program: OsString,
    arguments: Vec<OsString>,
    stdin: Stdin,
    parse: Option<Parse>,
    fails: bool,
    cycles: Cycles,
}

impl Process {
    /// A program and its arguments, started without a shell.
    pub fn new<A: Into<OsString>>(
        about: About,
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Process {
        Process {
            about,
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            stdin: Stdin::Null,
            parse: None,
            fails: false,
            cycles: Cycles::open(),
        }
    }

    /// With this as its standard input.
    pub fn stdin(mut self, stdin: Stdin) -> Process {
        self.stdin = stdin;
        self
    }

    /// Whose digest is found in its standard output like this.
    pub fn parse(mut self, parse: Parse) -> Process {
        self.parse = Some(parse);
        self
    }

    /// That may end with any exit code.
    pub fn may_fail(mut self) -> Process {
        self.fails = true;
        self
    }

    /// As a subject among others.
    pub fn boxed<'a>(self) -> Box<dyn Subject + 'a> {
        Box::new(self)
    }

    fn failed(&self, why: impl Into<String>) -> Error {
        Error::Program { program: self.program.to_string_lossy().into_owned(), why: why.into() }
    }
}

impl Subject for Process {
    fn about(&self) -> &About {
        &self.about
    }

    fn run(&mut self, repetitions: u32) -> Result<Measured, Error> {
        assert_eq!(repetitions, 1, "a program is not repeated");
        let io = |error: std::io::Error| self.failed(error.to_string());
        // Files in memory take any amount of output without a reader.
        let (mut stdout, out) = memory_file().map_err(io)?;
        let (mut stderr, err) = memory_file().map_err(io)?;
        let mut command = Command::new(&self.program);
        // What is printed must not depend on the user's language.
        command.args(&self.arguments).env("LC_ALL", "C").stdout(out).stderr(err);
        let mut feed = None;
        match &self.stdin {
            Stdin::Null => command.stdin(Stdio::null()),
            Stdin::File(path) => {
                command.stdin(File::open(path).map_err(|error| Error::io(path, "open", error))?)
            }
            Stdin::Pipe(path) => {
                feed = Some(File::open(path).map_err(|error| Error::io(path, "open", error))?);
                command.stdin(Stdio::piped())
            }
        };
        let floor = memory_now();
        let cycles = self.cycles.start();
        let started = Instant::now();
        let mut child = command.spawn().map_err(|error| self.failed(error.to_string()))?;
        let pid = child.id();
        let pipe = child.stdin.take();
        let waited = std::thread::scope(|scope| {
            if let (Some(mut file), Some(mut pipe)) = (feed, pipe) {
                // A program that stops reading is judged by its exit code.
                scope.spawn(move || std::io::copy(&mut file, &mut pipe));
            }
            let waited = system::wait(pid);
            (waited, started.elapsed())
        });
        let (waited, wall) = waited;
        let cycles = self.cycles.since(cycles);
        let (status, usage) = waited.map_err(|error| self.failed(error.to_string()))?;
        if !status.success() && !self.fails {
            let said = text(&mut stderr).lines().next().unwrap_or_default().to_string();
            let said = if said.is_empty() { said } else { format!(": {said}") };
            return Err(self.failed(format!("{status}{said}")));
        }
        // What cannot be read is a wrong digest.
        let digest = self.parse.map(|parse| parse(&text(&mut stdout)).unwrap_or_default());
        Ok(Measured {
            wall,
            user: usage.user,
            system: usage.system,
            // Until a new program is loaded a child has its parent's memory, which counts as its own.
            memory: Some(usage.memory).filter(|&memory| floor.is_some_and(|floor| memory > floor)),
            cycles,
            digest,
        })
    }
}

fn memory_file() -> std::io::Result<(File, OwnedFd)> {
    let file = File::from(rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC)?);
    let copy = file.try_clone()?;
    Ok((file, copy.into()))
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read shows as no text.
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(OUTPUT).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The memory that this process occupies, after its record of the most was made to begin anew.
fn memory_now() -> Option<u64> {
    // Where that is not permitted the most of all time is told, which is more.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Finds a program: on the search path that is given, then where the system keeps those of root. Scripts,
/// which are mostly there to start another one of the same name, come last.
pub fn find_program(name: &str, path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |file: &PathBuf| {
        let about = std::fs::metadata(file);
        about.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let given = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    // Relative folders in the path would find another program in each folder.
    let folders = given.into_iter().filter(|folder| folder.is_absolute()).chain(system);
    let all: Vec<PathBuf> = folders.map(|folder| folder.join(name)).filter(runs).collect();
    let program = all.iter().find(|file| !is_script(file));
    program.or(all.first()).cloned()
}

fn is_script(file: &Path) -> bool {
    let mut start = [0; 2];
    File::open(file).and_then(|mut file| file.read_exact(&mut start)).is_ok() && &start == b"#!"
}

/// The line in which a program tells its version: the first with a digit.
pub fn version(program: &Path, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()))?;
    Some(line.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        Process::new(About::new("g", "sh"), "/bin/sh", ["-c", script])
    }

    #[test]
    fn output_errors_and_input_are_seen() {
        let first: Parse = |text| text.split_whitespace().next().map(str::to_string);
        let done = shell("echo one two").parse(first).run(1).unwrap();
        assert_eq!(done.digest.as_deref(), Some("one"));
        assert!(done.wall > std::time::Duration::ZERO);
        let much = shell("head -c 3000000 /dev/zero").parse(first).run(1).unwrap();
        assert_eq!(much.digest.map(|text| text.len()), Some(1 << 20), "more than a pipe holds");
        let failed = shell("echo why >&2; exit 3").run(1).unwrap_err().to_string();
        assert!(failed.ends_with("exit status: 3: why"), "{failed}");
        assert!(shell("exit 3").may_fail().run(1).is_ok());

        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![b'a'; 300_000]).unwrap();
        for stdin in [Stdin::File(file.path().into()), Stdin::Pipe(file.path().into())] {
            let done = shell("wc -c").stdin(stdin).parse(first).run(1).unwrap();
            assert_eq!(done.digest.as_deref(), Some("300000"));
        }
        let ignored = shell("exit 0").stdin(Stdin::Pipe(file.path().into()));
        assert!({ ignored }.run(1).is_ok());
        let missing = Process::new(About::new("g", "x"), "/no/such/program", [""; 0]).run(1).unwrap_err();
        assert!(missing.to_string().contains("No such file"), "{missing}");
    }

    #[test]
    fn a_child_that_needs_much_memory_shows_it() {
        let python = find_program("python3", std::env::var_os("PATH").as_deref());
        let Some(python) = python else { return };
        let needs = |bytes: u64| {
            let script = format!("b'a' * {bytes}");
            let process = Process::new(About::new("g", "p"), &python, ["-c".to_string(), script]);
            { process }.run(1).unwrap().memory.unwrap_or(0)
        };
        // More than the test itself holds.
        assert!(needs(600 << 20) > 600 << 20);
    }

    #[test]
    fn programs_are_found_by_absolute_folders() {
        let found = find_program("sh", Some("relative:/nowhere".as_ref())).unwrap();
        assert!(found.is_absolute());
        assert!(find_program("no-such-program", None).is_none());
        assert!(version(Path::new("/bin/sh"), &["-c", "echo tool 1.2"]).unwrap().contains("1.2"));
    }
}
