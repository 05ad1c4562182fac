//! `verisum demo`: shows what verisum does, on a disk image made for the purpose.

mod picture;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use verisum::blockhash::{ImageProgress, Params, hash_image};
use verisum::image::{Image, OpenOptions, RawImage};

use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::scratch::{Folder, Scratch};
use crate::ui::sizes::{human, usable_cores};
use crate::ui::{digests, find_program, kernel, names};
use picture::Picture;

/// The image's length in bytes where there is room for it and for a full copy of it.
const IMAGE: u64 = 512 << 20;

/// The least that still shows something.
const SMALLEST_IMAGE: u64 = 48 << 20;

/// A peer that takes longer than this on the first file is not run on the second.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows everything, and removes it.
pub(crate) fn run(output: &mut Output) -> Result<Exit, Failure> {
    let scratch = Scratch::default();
    // A signal that comes from here on finds the folder.
    scratch.watch(None)?;
    let folder = scratch.folder(None)?;
    let result = Demo::new((&scratch, &folder), output).and_then(Demo::show);
    let removed = folder.remove();
    result.and_then(|exit| removed.map(|()| exit))
}

struct Demo<'a> {
    scratch: &'a Scratch,
    folder: &'a Folder,
    output: &'a mut Output,
    params: Params,
    cores: usize,
}

/// How long an image may be so that it and a full copy fit well.
fn image_length(folder: &Folder) -> Result<u64, Failure> {
    let length = IMAGE.min(folder.free()? / 3) >> 20 << 20;
    if length < SMALLEST_IMAGE {
        let error = std::io::ErrorKind::StorageFull.into();
        return Err(Failure::File { name: folder.path().to_path_buf(), operation: "write", error });
    }
    Ok(length)
}

/// A value and how long it took.
struct Timed {
    value: String,
    time: Duration,
}

impl<'a> Demo<'a> {
    fn new(
        (scratch, folder): (&'a Scratch, &'a Folder),
        output: &'a mut Output,
    ) -> Result<Demo<'a>, Failure> {
        let cores = usable_cores();
        let digest = digests::find("sha256", &kernel::policy()?)?;
        let params = Params::new(digest).threads(cores).map_err(|e| Failure::Usage(e.to_string()))?;
        Ok(Demo { scratch, folder, output, params, cores })
    }

    fn show(mut self) -> Result<Exit, Failure> {
        let sparse = self.folder.file("disk.img");
        let full = self.folder.file("full.img");
        self.say("A disk image has many forms and one content: verisum gives it one checksum.")?;
        let folder = names::quoted(self.folder.path().as_os_str());
        self.say(&format!("Everything happens in {folder}, which goes away at the end."))?;

        let length = self.make_image(&sparse)?;
        let first = self.hash_sparse(&sparse, length)?;
        let second = self.hash_full(&sparse, &full, length)?;
        let third = self.hash_changed(&full, length)?;
        self.compare(&sparse, &full, &first, &second)?;

        if first.value != second.value || first.value == third.value {
            let why = "the values are not as they should be: this is a bug, please report it".to_string();
            return Err(Failure::Program { name: "demo".to_string(), why });
        }
        Ok(Exit::Clean)
    }

    fn make_image(&mut self, sparse: &Path) -> Result<u64, Failure> {
        let length = image_length(self.folder)?;
        let picture = Picture::choose(length);
        self.step(&format!("1. {}", picture.title()))?;
        self.output.flush()?;
        picture.make(self.scratch, self.folder, sparse)?;
        for command in picture.commands() {
            self.command(&command)?;
        }
        let (length, allocated) = sizes(sparse)?;
        self.say(&format!(
            "It is {} long and takes {} of the disk; the rest is holes.",
            human(length),
            human(allocated)
        ))?;
        Ok(length)
    }

    fn hash_sparse(&mut self, sparse: &Path, length: u64) -> Result<Timed, Failure> {
        let cores = match self.cores {
            1 => "one core".to_string(),
            several => format!("{several} cores"),
        };
        self.step(&format!("2. Its checksum, the block hash with SHA-256, on {cores}"))?;
        self.command("verisum image sum --cache disk.img")?;
        let timed = self.hash(sparse)?;
        self.say(&format!("BLKHASH-SHA256-64K (disk.img) = {}", timed.value))?;
        self.say(&format!("{}. The holes were not read.", took(&timed, length)))?;
        Ok(timed)
    }

    fn hash_full(&mut self, sparse: &Path, full: &Path, length: u64) -> Result<Timed, Failure> {
        self.step("3. The same image with its holes filled with zeros")?;
        self.command("cp --sparse=never --reflink=never disk.img full.img")?;
        self.output.flush()?;
        picture::copy_in_full(sparse, full)?;
        self.command("verisum image sum --cache full.img")?;
        let timed = self.hash(full)?;
        self.say(&format!("BLKHASH-SHA256-64K (full.img) = {}", timed.value))?;
        let allocated = sizes(full)?.1;
        self.say(&format!("{}, now with {} on the disk.", took(&timed, length), human(allocated)))?;
        self.say("The same value: it is that of what a virtual machine sees, however it is stored.")?;
        Ok(timed)
    }

    fn hash_changed(&mut self, full: &Path, length: u64) -> Result<Timed, Failure> {
        let offset = length / 2 + 123;
        self.step(&format!("4. One byte of it changed, that at {offset}"))?;
        self.command(&format!("printf x | dd of=full.img bs=1 seek={offset} conv=notrunc"))?;
        change_byte(full, offset)?;
        self.command("verisum image sum --cache full.img")?;
        let timed = self.hash(full)?;
        self.say(&format!("BLKHASH-SHA256-64K (full.img) = {}", timed.value))?;
        self.say("Another value.")?;
        Ok(timed)
    }

    fn compare(&mut self, sparse: &Path, full: &Path, first: &Timed, second: &Timed) -> Result<(), Failure> {
        let Some(peer) = Peer::find() else { return Ok(()) };
        self.step("5. Beside a tool that reads every byte in turn")?;
        self.row(["", "disk.img", "full.img"])?;
        self.row(["verisum image sum --cache", &seconds(first.time), &seconds(second.time)])?;
        self.output.flush()?;
        let Some(slow) = peer.time(self.scratch, sparse)? else { return Ok(()) };
        let slower = if slow > PATIENCE { None } else { peer.time(self.scratch, full)? };
        let cell = |time: Option<Duration>| time.map_or("-".to_string(), seconds);
        self.row([peer.words, &cell(Some(slow)), &cell(slower)])?;
        let ratio = |ours: &Timed, theirs: Option<Duration>| match theirs {
            Some(theirs) => format!("{:.1} times", theirs.as_secs_f64() / ours.time.as_secs_f64()),
            None => "-".to_string(),
        };
        self.row(["verisum is faster by", &ratio(first, Some(slow)), &ratio(second, slower)])?;
        self.say(&format!("(`{}` prints another value: the digest of the file itself.)", peer.words))
    }

    fn row(&mut self, [name, first, second]: [&str; 3]) -> Result<(), Failure> {
        self.say(format!("{name:<28}{first:>12}{second:>12}").trim_end())
    }

    /// The block hash of a file, read through the page cache, where it still is after being written.
    fn hash(&mut self, path: &Path) -> Result<Timed, Failure> {
        self.output.flush()?;
        let started = Instant::now();
        let image = RawImage::open(path, &{
            let mut options = OpenOptions::default();
            options.cache = true;
            options.sector_padding = true;
            options
        })?;
        let digest = hash_image(&image as &dyn Image, &self.params, &ImageProgress::default())
            .map_err(|error| Failure::Hash { name: path.to_path_buf(), error })?;
        Ok(Timed { value: digest.to_string(), time: started.elapsed() })
    }

    fn step(&mut self, title: &str) -> Result<(), Failure> {
        self.output.line("")?;
        self.output.line(title)?;
        self.output.line("")
    }

    fn command(&mut self, words: &str) -> Result<(), Failure> {
        self.output.line(&format!("   $ {words}"))
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.output.line(&format!("   {text}"))
    }
}

/// A program that digests a whole file in one stream.
struct Peer {
    words: &'static str,
}

impl Peer {
    /// The first that is installed.
    fn find() -> Option<Peer> {
        let peers = [("openssl", "openssl dgst -sha256"), ("sha256sum", "sha256sum")];
        let found = peers.into_iter().find(|(program, _)| find_program(program).is_some());
        found.map(|(_, words)| Peer { words })
    }

    /// How long it takes for a file; nothing if it fails.
    fn time(&self, scratch: &Scratch, path: &Path) -> Result<Option<Duration>, Failure> {
        let mut words = self.words.split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).arg(path);
        let started = Instant::now();
        let done = scratch.run(&mut command).is_ok();
        Ok(done.then(|| started.elapsed()))
    }
}

fn took(timed: &Timed, length: u64) -> String {
    let rate = length as f64 / timed.time.as_secs_f64();
    format!("{}, {} a second", seconds(timed.time), human(rate as u64))
}

fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        short if short < 0.1 => format!("{:.1} ms", short * 1e3),
        long => format!("{long:.2} s"),
    }
}

/// Length in bytes of a file, and how many of them take room on the disk.
fn sizes(path: &Path) -> Result<(u64, u64), Failure> {
    let metadata = path.metadata().map_err(|error| Failure::file(path, "stat", error))?;
    Ok((metadata.len(), metadata.blocks() * 512))
}

/// Makes sure that the byte at `offset` is another.
fn change_byte(path: &Path, offset: u64) -> Result<(), Failure> {
    let change = || {
        let file = File::options().read(true).write(true).open(path)?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset)?;
        file.write_all_at(if byte == *b"x" { b"y" } else { b"x" }, offset)
    };
    change().map_err(|error| Failure::File { name: path.to_path_buf(), operation: "write", error })
}
