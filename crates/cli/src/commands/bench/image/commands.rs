//! Our command and those of others on images: as raw file, qcow2, standard input, and over NBD.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use verisum::digest::{Digest, Policy};
use verisum_bench::digests::PROGRAMS;
use verisum_bench::files::digest_in;
use verisum_bench::images::{ImageContent, Reading, programs, values};
use verisum_bench::measure::{About, InProcess, MeasureAmount, Process, Stdin, find_program};

use super::{
    FoundSubject, ImageArgs, MEMORY, OURS, SOURCES, missing, nbd_server, read_memory, session_measure,
};
use crate::commands::bench::starter::own_program;
use crate::commands::bench::{Session, files};
use crate::ui::failure::Failure;
use crate::ui::scratch::Folder;
use crate::ui::{digests, sizes};

/// The published size.
const PUBLISHED: u64 = 6 << 30;

/// The size where the disk has room.
const USUAL: u64 = 256 << 20;

/// Less shows nothing but starting up.
const SMALLEST: u64 = 1 << 20;

/// The commands, and what they need.
pub(super) struct Commands<'a> {
    contents: &'a [ImageContent],
    digest: &'a Digest,
    folder: &'a Folder,
    size: u64,
    ours: PathBuf,
    path: Option<std::ffi::OsString>,
}

/// A digest of the content, and the block hash of it.
struct Expected {
    digest: Digest,
    whole: String,
    block: String,
}

impl<'a> Commands<'a> {
    pub(super) fn new(
        arguments: &ImageArgs,
        contents: &'a [ImageContent],
        digest: &'a Digest,
        folder: &'a Folder,
        session: &mut Session<'_>,
    ) -> Result<Commands<'a>, Failure> {
        let size = match (&arguments.size, arguments.full) {
            (Some(text), _) => {
                let size = sizes::parse(text).filter(|size| *size >= SMALLEST && size % 512 == 0);
                size.ok_or_else(|| Failure::value("--size", text, "must be whole sectors, and at least 1M"))?
            }
            (None, true) => PUBLISHED,
            // An image and its qcow2, and as much for others.
            (None, false) => (folder.free()? / 4).clamp(SMALLEST, USUAL) >> 20 << 20,
        };
        session.note(format!("images of {}; rates are of that length, holes included", sizes::human(size)));
        let most = contents.iter().map(|content| content.allocated(size)).max().unwrap_or(0);
        folder.needs(most.saturating_mul(2))?;
        let ours = own_program()?;
        let path = std::env::var_os("PATH");
        for program in PROGRAMS {
            session.record_version(program.name, program.version);
        }
        for program in ["qemu-img", "nbdkit", "nbdcopy"] {
            session.record_version(program, (program, &["--version"]));
        }
        Ok(Commands { contents, digest, folder, size, ours, path })
    }

    /// One image after the other, so that the disk need not hold all.
    pub(super) fn measure(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        let amount = session.plan.amount;
        let qemu_img = find_program("qemu-img", self.path.as_deref());
        for content in self.contents {
            if session.stopped() {
                return Ok(());
            }
            session.preparing(&format!("making the image {}", content.name));
            let raw = self.folder.path().join("image.raw");
            let failed = |error| Failure::File { name: raw.clone(), operation: "write", error };
            content.make(&raw, self.size, &session.stop()).map_err(failed)?;
            let qcow2 = self.folder.path().join("image.qcow2");
            let converted = match &qemu_img {
                Some(program) => self.convert(program, content, &raw, &qcow2, &session.stop()),
                None => Err("qemu-img is not installed".to_string()),
            };
            if session.stopped() {
                return Ok(());
            }
            session.preparing(&format!("hashing the image {}", content.name));
            let expected = self.expected(&raw)?;
            if let MeasureAmount::Time(time) = amount {
                let groups = SOURCES.len() * self.contents.len();
                session.plan.amount = MeasureAmount::Time(time / groups as u32);
            }
            let of = |source: &str| format!("{}, {source}", content.name);
            session_measure(session, self.files(&of("raw file"), &raw, &expected));
            match &converted {
                Ok(()) => session_measure(session, self.qcow2(&of("qcow2"), &qcow2, &expected)),
                Err(why) => session.skip(&About::new(of("qcow2"), OURS), why.clone()),
            }
            let redirected = Stdin::File(raw.clone());
            session_measure(session, self.standard_input(&of("redirected"), &raw, &redirected, &expected));
            let piped = Stdin::Pipe(raw.clone());
            session_measure(session, self.standard_input(&of("pipe"), &raw, &piped, &expected));
            self.nbd(&of("NBD"), &raw, &expected, session);
            for file in [&raw, &qcow2] {
                // The folder's removal says it if that does not work.
                let _ = std::fs::remove_file(file);
            }
        }
        Ok(())
    }

    /// Makes the qcow2. It is killed when the user wants no more.
    fn convert(
        &self,
        program: &Path,
        content: &ImageContent,
        raw: &Path,
        qcow2: &Path,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let mut command = Command::new(program);
        command.args(["convert", "-f", "raw", "-O", "qcow2"]);
        if content.zeros {
            // Zeros stay allocated.
            command.args(["-S", "0"]);
        }
        command.arg(raw).arg(qcow2).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        let failed = |error: std::io::Error| format!("qemu-img: {error}");
        let mut child = command.spawn().map_err(failed)?;
        loop {
            match child.try_wait().map_err(failed)? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("qemu-img: {status}")),
                None if stop.load(std::sync::atomic::Ordering::Relaxed) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err("stopped".to_string());
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// The right values of the digest, and of BLAKE3 where it is another.
    fn expected(&self, raw: &Path) -> Result<Vec<Expected>, Failure> {
        let mut digests = vec![self.digest.clone()];
        if self.digest.name() != "blake3" {
            digests.push(digests::find("blake3", &Policy::default())?);
        }
        let value = |digest: Digest| {
            let (whole, block) = values(raw, &digest).map_err(|error| files::failure(error, raw))?;
            Ok(Expected { digest, whole, block })
        };
        digests.into_iter().map(value).collect()
    }

    fn about(&self, group: &str, name: &str, file: &Path, digest: &Digest) -> About {
        About::new(group, name).bytes(self.size).file(file).label("digest", digest.name())
    }

    /// Our command.
    fn verisum(&self, about: About, options: &[&str], name: &std::ffi::OsStr) -> Process {
        let options = options.iter().map(Into::into);
        let arguments = ["image", "sum", "--untagged"]
            .map(Into::into)
            .into_iter()
            .chain(options)
            .chain([name.to_os_string()]);
        Process::new(about, &self.ours, arguments)
    }

    /// Ours with each digest, those of others, and the limits.
    fn files<'s>(&self, group: &str, raw: &Path, expected: &[Expected]) -> Vec<FoundSubject<'s>> {
        let mut found = self.ours(group, raw, expected);
        for expected in expected {
            for way in programs(expected.digest.name()) {
                let about = self.about(group, way.name(), raw, &expected.digest).expect(&expected.whole);
                found.push(match way.find(self.path.as_deref()) {
                    Some(program) => Ok(way.subject(about, &program, raw).boxed()),
                    None => missing(about, format!("{} is not installed", way.executable)),
                });
            }
        }
        found.push(self.blksum(group, raw, &expected[0]));
        found.push(self.null(self.about(group, "verisum, null digest", raw, self.digest), raw.as_os_str()));
        let threads = sizes::usable_cores();
        let mut counts = vec![1, threads];
        counts.dedup();
        for threads in counts {
            let plural = if threads == 1 { "" } else { "s" };
            let read = About::new(group, format!("read the file, {threads} thread{plural}")).bytes(self.size);
            let reading = Reading { path: raw.to_path_buf(), threads };
            found.push(Ok(InProcess::new(read.file(raw).control(), reading).once().boxed()));
            let memory = About::new(group, format!("read memory, {threads} thread{plural}"));
            found.push(read_memory(memory, MEMORY.min(self.size), self.size, threads));
        }
        found
    }

    fn qcow2<'s>(&self, group: &str, qcow2: &Path, expected: &[Expected]) -> Vec<FoundSubject<'s>> {
        let mut found = self.ours(group, qcow2, expected);
        found.push(self.blksum(group, qcow2, &expected[0]));
        found.push(
            self.null(self.about(group, "verisum, null digest", qcow2, self.digest), qcow2.as_os_str()),
        );
        found
    }

    /// Our command without a digest, as a control. It computes nothing, so that it has no rate.
    fn null<'s>(&self, about: About, name: &std::ffi::OsStr) -> FoundSubject<'s> {
        let cached = !name.as_encoded_bytes().starts_with(b"nbd");
        let options: &[&str] = if cached { &["--cache", "-a", "null"] } else { &["-a", "null"] };
        Ok(self.verisum(about.bytes(0).control(), options, name).boxed())
    }

    /// Our command with direct reads and through the page cache.
    fn ours<'s>(&self, group: &str, file: &Path, expected: &[Expected]) -> Vec<FoundSubject<'s>> {
        let mut found: Vec<FoundSubject<'s>> = Vec::new();
        for (index, expected) in expected.iter().enumerate() {
            let name = |more: &str| match index {
                0 => format!("{OURS}{more}"),
                _ => format!("{OURS}, {}{more}", expected.digest.name()),
            };
            for (more, cached) in [("", false), (" --cache", true)] {
                let about = self.about(group, &name(more), file, &expected.digest).expect(&expected.block);
                let mut options = vec!["-a", expected.digest.name()];
                options.extend(cached.then_some("--cache"));
                found.push(Ok(self.verisum(about, &options, file.as_os_str()).parse(digest_in).boxed()));
            }
        }
        found
    }

    /// The program of the blkhash project, where it is installed and is not our own of that name.
    fn blksum<'s>(&self, group: &str, file: &Path, expected: &Expected) -> FoundSubject<'s> {
        let about = self.about(group, "blksum of blkhash", file, &expected.digest).expect(&expected.block);
        let ours = |found: &Path| {
            let folder =
                |path: &Path| path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_path_buf));
            folder(found) == folder(&self.ours)
        };
        match find_program("blksum", self.path.as_deref()) {
            Some(found) if ours(&found) => missing(about, "the blksum that is installed is verisum's"),
            Some(found) => {
                let arguments = ["-d".into(), expected.digest.name().into(), file.as_os_str().to_os_string()];
                Ok(Process::new(about, found, arguments).parse(digest_in).boxed())
            }
            None => missing(about, "blksum is not installed"),
        }
    }

    /// Programs that read their standard input.
    fn standard_input<'s>(
        &self,
        group: &str,
        raw: &Path,
        stdin: &Stdin,
        expected: &[Expected],
    ) -> Vec<FoundSubject<'s>> {
        let expected = &expected[0];
        let name = expected.digest.name();
        let about = self.about(group, OURS, raw, &expected.digest).expect(&expected.block);
        let ours = self.verisum(about, &["-a", name], "-".as_ref());
        let mut found: Vec<FoundSubject<'s>> = vec![Ok(ours.stdin(stdin.clone()).parse(digest_in).boxed())];
        for way in
            programs(name).into_iter().filter(|way| ["coreutils", "openssl", "b3sum"].contains(&way.program))
        {
            let about = self.about(group, way.name(), raw, &expected.digest).expect(&expected.whole);
            found.push(match way.find(self.path.as_deref()) {
                Some(program) => {
                    let process = Process::new(about, program, way.arguments).stdin(stdin.clone());
                    Ok(process.parse(digest_in).boxed())
                }
                None => missing(about, format!("{} is not installed", way.executable)),
            });
        }
        let cat = self.about(group, "cat", raw, self.digest).control();
        found.push(match find_program("cat", self.path.as_deref()) {
            Some(program) => Ok(Process::new(cat, program, [""; 0]).stdin(stdin.clone()).boxed()),
            None => missing(cat, "cat is not installed"),
        });
        found
    }

    /// Our command on an export, beside a copy of it into a program.
    fn nbd(&self, group: &str, raw: &Path, expected: &[Expected], session: &mut Session<'_>) {
        let expected = &expected[0];
        let about = |name: &str| self.about(group, name, raw, &expected.digest);
        let server = nbd_server::serve(self.folder.path(), raw, self.path.as_deref(), &session.scratch);
        let (server, name, address) = match server {
            Ok(served) => served,
            Err(why) => return session.skip(&about(OURS), why),
        };
        let ours = about(OURS).label("server", name).expect(&expected.block);
        let ours = self.verisum(ours, &["-a", expected.digest.name()], address.as_ref());
        let mut found: Vec<FoundSubject<'_>> = vec![Ok(ours.parse(digest_in).boxed())];
        let copy = about("nbdcopy | openssl").label("server", name).expect(&expected.whole);
        let programs = ["nbdcopy", "openssl", "sh"].map(|name| find_program(name, self.path.as_deref()));
        found.push(self.null(about("verisum, null digest").label("server", name), address.as_ref()));
        let reading = about("nbdcopy to nothing").label("server", name).control();
        found.push(match &programs[0] {
            Some(nbdcopy) => Ok(Process::new(reading, nbdcopy, ["--", &address, "null:"]).boxed()),
            None => missing(reading, "nbdcopy is not installed"),
        });
        found.push(match programs {
            [Some(nbdcopy), Some(openssl), Some(sh)] => {
                // Nothing of it is put together: names are arguments of the shell.
                let script = COPY_AND_HASH;
                let arguments: Vec<std::ffi::OsString> = vec![
                    "-c".into(),
                    script.into(),
                    "sh".into(),
                    nbdcopy.into(),
                    openssl.into(),
                    address.into(),
                    expected.digest.name().into(),
                ];
                Ok(Process::new(copy, sh, arguments).parse(digest_in).boxed())
            }
            _ => missing(copy, "nbdcopy, openssl or sh is not installed"),
        });
        session_measure(session, found);
        drop(server);
    }
}

/// A pipe that fails if any of its two programs does. Not every `sh` has `pipefail`: so the first one's exit
/// code, and the second one's if it is none, come by descriptor 3, and the digest by 4.
const COPY_AND_HASH: &str = r#"{ codes=$(
{ { "$1" -- "$3" - 4>&-; echo "$?" >&3; } | { "$2" dgst -"$4" >&4 || echo "$?" >&3; }; } 3>&1
); } 4>&1
test "$codes" = 0 || { echo "one of them failed" >&2; exit 1; }"#;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whichever of the two fails, the pipe does.
    #[test]
    fn a_pipe_fails_with_either_of_its_programs() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str, script: &str| {
            let path = folder.path().join(name);
            verisum_testkit::write_script(&path, &format!("#!/bin/sh\n{script}\n"));
            path
        };
        let (good, bad) = (program("good", "echo \"$2\""), program("bad", "echo \"$2\"; exit 3"));
        let (hash, no_hash) = (program("hash", "cat; echo \"$1 $2\""), program("no-hash", "cat; exit 1"));
        for (copy, hash, right) in [(&good, &hash, true), (&bad, &hash, false), (&good, &no_hash, false)] {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", COPY_AND_HASH, "sh"]).arg(copy).arg(hash).args(["it's", "md5"]);
            let output = command.output().unwrap();
            assert_eq!(output.status.success(), right, "{output:?}");
            if right {
                assert_eq!(String::from_utf8_lossy(&output.stdout), "it's\ndgst -md5\n");
            }
        }
    }
}
