//! Programs as subjects.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::MeasurePlan;
use super::counter::Cycles;
use super::error::MeasureError;
use super::launch::{self, Around, Ended, Failed, Request, StandardInput, Starter};
use super::subject::{About, Measured, Subject};

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

/// A program with its arguments.
pub struct Process {
    about: About,
    program: OsString,
    arguments: Vec<OsString>,
    stdin: Stdin,
    parse: Option<Parse>,
    fails: bool,
    optional: bool,
    limit: Option<Duration>,
    starter: Option<Starter>,
    cycles: Cycles,
}

impl Process {
    /// A program and its arguments, started without a shell.
    pub fn new<A: Into<OsString>>(
        about: About,
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Process {
        let program = program.into();
        Process {
            about: About { program: Some(PathBuf::from(&program)), ..about },
            program,
            arguments: arguments.into_iter().map(Into::into).collect(),
            stdin: Stdin::Null,
            parse: None,
            fails: false,
            optional: false,
            limit: None,
            starter: None,
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

    /// Which may lack what it is asked for, as a digest or a module: while it has never succeeded, a failure
    /// says that it does.
    pub fn optional(mut self) -> Process {
        self.optional = true;
        self
    }

    /// As a subject among others.
    pub fn boxed<'a>(self) -> Box<dyn Subject + 'a> {
        Box::new(self)
    }

    fn failed(&self, why: impl Into<String>) -> MeasureError {
        let (program, why) = (self.program.to_string_lossy().into_owned(), why.into());
        match self.optional {
            true => MeasureError::Unavailable(format!("{program}: {why}")),
            false => MeasureError::Program { program, why },
        }
    }

    fn launch(&mut self) -> Result<Ended, Failed> {
        let stdin = match &self.stdin {
            Stdin::Null => StandardInput::Null,
            Stdin::File(path) => StandardInput::File(path.into()),
            Stdin::Pipe(path) => StandardInput::Pipe(path.into()),
        };
        let (program, arguments) = (self.program.clone(), self.arguments.clone());
        let request = Request { program, arguments, stdin, output: self.parse.is_some(), limit: self.limit };
        match &self.starter {
            Some(starter) => starter.run(&request),
            None => here(&request, &mut self.cycles),
        }
    }
}

impl Subject for Process {
    fn about(&self) -> &About {
        &self.about
    }

    fn begin(&mut self, plan: &MeasurePlan) {
        self.limit = plan.limit;
        self.starter.clone_from(&plan.starter);
    }

    fn run(&mut self, repetitions: u32) -> Result<Measured, MeasureError> {
        assert_eq!(repetitions, 1, "a program is not repeated");
        let ended = self.launch().map_err(|failed| match failed {
            Failed::Start(why) => self.failed(why),
            Failed::File(path, code) => {
                MeasureError::io(Path::new(&path), "open", std::io::Error::from_raw_os_error(code))
            }
            // Whoever lacks something says so at once.
            Failed::Limit(limit) => MeasureError::Program {
                program: self.program.to_string_lossy().into_owned(),
                why: format!("took longer than {} s and was killed", limit.as_secs()),
            },
            Failed::Stopped => MeasureError::Stopped,
        })?;
        let status = ended.status();
        if !status.success() && !self.fails {
            return Err(self.failed(format!("{status}{}", first_words(&ended.stderr))));
        }
        self.optional = false;
        // What cannot be read is a wrong digest.
        let digest = self.parse.map(|parse| parse(&ended.stdout).unwrap_or_default());
        let Ended { wall, user, system, memory, cycles, .. } = ended;
        Ok(Measured { wall, user, system, memory, cycles, digest, ..Measured::default() })
    }
}

/// The first line of what was said, or its beginning, after a colon.
fn first_words(said: &str) -> String {
    /// Some tell all folders that they have looked in.
    const LONG: usize = 120;
    let line = said.lines().next().unwrap_or_default();
    match line.char_indices().nth(LONG) {
        _ if line.is_empty() => String::new(),
        Some((end, _)) => format!(": {}…", &line[..end]),
        None => format!(": {line}"),
    }
}

/// Runs it as a child of this process. Until a new program is loaded a child has its parent's memory, which
/// counts as its own: only more than that is told.
fn here(request: &Request, cycles: &mut Cycles) -> Result<Ended, Failed> {
    let floor = memory_now();
    launch::run(request, Around { floor: &|| floor, cycles, asker: None, stopped: &|| false })
}

/// The memory that this process occupies, after its record of the most was made to begin anew.
fn memory_now() -> Option<u64> {
    // Where that is not permitted the most of all time is told, which is more.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Programs that users' search paths mostly do not reach.
const OF_ROOT: [&str; 4] = ["mkfs.btrfs", "btrfs", "mount", "nbdkit"];

/// Finds a program on the search path that is given; without one, and if root's programs are not there, where
/// the system keeps them. Relative folders are passed over: from each folder they lead to another one.
/// Scripts, which are mostly there to start another program of the same name, come last.
pub fn find_program(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let all = all_programs(name.as_ref(), path);
    let program = all.iter().find(|file| !is_script(file));
    program.or(all.first()).cloned()
}

/// The script that a shell would have started instead of a program that [`find_program`] found.
pub fn passed_over(program: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    let first = all_programs(program.file_name()?, path).into_iter().next()?;
    (first != program && is_script(&first) && !is_script(program)).then_some(first)
}

fn all_programs(name: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |file: &PathBuf| {
        let about = std::fs::metadata(file);
        about.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let given = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let beyond = path.is_none() || OF_ROOT.iter().any(|of_root| name == *of_root);
    let folders = given.into_iter().filter(|folder| folder.is_absolute());
    let folders = folders.chain(system.into_iter().filter(|_| beyond));
    folders.map(|folder| folder.join(name)).filter(runs).collect()
}

fn is_script(file: &Path) -> bool {
    let mut start = [0; 2];
    File::open(file).and_then(|mut file| file.read_exact(&mut start)).is_ok() && &start == b"#!"
}

/// How long a program may take to tell its version.
const VERSION: Duration = Duration::from_secs(5);

/// The line in which a program tells its version: the first with a digit. `None` where there is none within
/// five seconds.
pub fn version(program: &Path, arguments: &[&str]) -> Option<String> {
    let arguments = arguments.iter().map(OsString::from).collect();
    let (program, stdin, limit) = (program.into(), StandardInput::Null, Some(VERSION));
    let ended =
        here(&Request { program, arguments, stdin, output: true, limit }, &mut Cycles::open()).ok()?;
    let said = ended.stdout + &ended.stderr;
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
        assert!(done.wall > Duration::ZERO);
        let much = shell("head -c 3000000 /dev/zero").parse(first).run(1).unwrap();
        assert_eq!(much.digest.map(|text| text.len()), Some(1 << 20), "more than a pipe holds");
        let failed = shell("echo why >&2; exit 3").run(1).unwrap_err().to_string();
        assert!(failed.ends_with("exit status: 3: why"), "{failed}");
        assert!(shell("exit 3").may_fail().run(1).is_ok());
        let long = format!(": {}…", "é".repeat(120));
        assert_eq!([first_words(""), first_words(&"é".repeat(200))], ["", &long]);

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
        let Some(python) = verisum_testkit::require_tool("python3") else { return };
        let needs = |bytes: u64| {
            let script = format!("b'a' * {bytes}");
            let process = Process::new(About::new("g", "p"), &python, ["-c".to_string(), script]);
            { process }.run(1).unwrap().memory.unwrap_or(0)
        };
        // More than the test itself holds.
        assert!(needs(600 << 20) > 600 << 20);
    }

    #[test]
    fn what_never_ends_is_killed_with_all_that_it_started() {
        let mut hanging = shell("sleep 1000 & echo $!; sleep 1000");
        let limit = Some(Duration::from_millis(200));
        hanging.begin(&MeasurePlan { limit, ..MeasurePlan::default() });
        let error = hanging.run(1).unwrap_err().to_string();
        assert!(error.ends_with("took longer than 0 s and was killed"), "{error}");
        assert!(version(Path::new("/bin/sh"), &["-c", "echo 1; sleep 1000"]).is_none());
    }

    #[test]
    fn who_never_succeeded_lacks_something_and_who_did_fails() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("test ! -e {0}/x && touch {0}/x", folder.path().display());
        let mut program = shell(&script).optional();
        assert!(program.run(1).is_ok());
        assert!(matches!(program.run(1), Err(MeasureError::Program { .. })));
        assert!(matches!(shell("exit 1").optional().run(1), Err(MeasureError::Unavailable(_))));
    }

    #[test]
    fn a_script_that_stands_before_a_program_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("sh");
        verisum_testkit::write_script(&script, "#!/bin/sh\n");
        let path = std::env::join_paths([folder.path(), Path::new("/bin")]).unwrap();
        let path = Some(path.as_os_str());
        let found = find_program("sh", path).unwrap();
        assert_ne!(found, script);
        assert_eq!(passed_over(&found, path), Some(script));
        assert_eq!(passed_over(&found, None), None);
    }

    #[test]
    fn programs_are_found_by_absolute_folders() {
        let of = |name: &str, path: &str| find_program(name, Some(path.as_ref()));
        assert_eq!(of("sh", "relative:/bin"), Some("/bin/sh".into()));
        assert_eq!(of("sh", "relative:/nowhere"), None, "what is not in the path is not meant");
        assert!(of("mount", "/nowhere").is_some(), "a program of root");
        assert!(find_program("sh", None).is_some_and(|found| found.is_absolute()));
        assert!(find_program("no-such-program", None).is_none());
        assert!(version(Path::new("/bin/sh"), &["-c", "echo tool 1.2"]).unwrap().contains("1.2"));
    }
}
