//! A disk that remembers each write and each flush, to lose its power at any moment afterwards.
//!
//! It is an NBD server of ours, which nbdfuse shows as a file. Until a flush ends a real disk may keep any of the
//! writes, in any order; so a loss of power keeps all writes up to the last flush and some of those after it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::mount::run;
use crate::{require_tool, skip};

/// What a disk writes at once, in bytes.
const PAGE: usize = 4096;

/// Something that the disk was told to do.
#[derive(Debug)]
enum Step {
    Write {
        offset: usize,
        bytes: Vec<u8>,
        /// It was to be on the disk before it was answered.
        is_forced: bool,
    },
    Flush,
}

#[derive(Debug, Default)]
struct Disk {
    /// As it was when recording began.
    before: Vec<u8>,
    now: Vec<u8>,
    steps: Vec<Step>,
}

/// The disk, shown as a file.
#[derive(Debug)]
pub struct RecordedDisk {
    disk: Arc<Mutex<Disk>>,
    shown: PathBuf,
    shower: Child,
    _folder: TempDir,
}

impl RecordedDisk {
    /// Shows a disk of `size` bytes of zeros as this file, which is made.
    ///
    /// `None`, after saying why, if the machine cannot.
    ///
    /// # Panics
    /// As [`skip`].
    pub fn new(shown: &Path, size: u64) -> Option<RecordedDisk> {
        let nbdfuse = require_tool("nbdfuse")?;
        if File::options().read(true).write(true).open("/dev/fuse").is_err() {
            skip("/dev/fuse cannot be opened");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let disk = Arc::new(Mutex::new(Disk { now: vec![0; size as usize], ..Disk::default() }));
        let served = disk.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let disk = served.clone();
                thread::spawn(move || {
                    let _ = serve(client, &disk);
                });
            }
        });
        File::create(shown).expect("a mount point");
        let mut command = Command::new(nbdfuse);
        command.arg(shown).arg("--unix").arg(&socket).stdout(Stdio::null()).stderr(Stdio::null());
        let shower = command.spawn().expect("nbdfuse");
        let mut disk = RecordedDisk { disk, shown: shown.to_path_buf(), shower, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(300);
        while std::fs::metadata(shown).map_or(0, |file| file.len()) != size {
            let has_ended = disk.shower.try_wait().expect("the state of nbdfuse").is_some();
            if has_ended || Instant::now() > deadline {
                skip("nbdfuse does not start");
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
        Some(disk)
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was recorded, and begins here.
    pub fn begin(&self) {
        let mut disk = self.lock();
        disk.steps.clear();
        disk.before = disk.now.clone();
    }

    /// How many steps were recorded: writes and flushes.
    pub fn steps(&self) -> usize {
        self.lock().steps.len()
    }

    /// What is on the disk after a loss of power when `steps` steps were done. `survives` says of each page of each write
    /// that no flush made safe whether it got there.
    pub fn after_power_loss(&self, steps: usize, mut survives: impl FnMut() -> bool) -> Vec<u8> {
        let disk = self.lock();
        let done = &disk.steps[..steps];
        let safe = done.iter().rposition(|step| matches!(step, Step::Flush)).map_or(0, |at| at + 1);
        let mut image = disk.before.clone();
        for (at, step) in done.iter().enumerate() {
            let Step::Write { offset, bytes, is_forced } = step else { continue };
            for (page, place) in bytes.chunks(PAGE).zip((*offset..).step_by(PAGE)) {
                if at < safe || *is_forced || survives() {
                    image[place..place + page.len()].copy_from_slice(page);
                }
            }
        }
        image
    }
}

impl Drop for RecordedDisk {
    fn drop(&mut self) {
        let unmount = |tool: &str| run(Command::new(tool).arg("-u").arg(&self.shown));
        let _ = unmount("fusermount3").or_else(|_| run(Command::new("umount").arg(&self.shown)));
        let deadline = Instant::now() + Duration::from_secs(60);
        while matches!(self.shower.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.shower.kill();
                let _ = self.shower.wait();
                let _ = run(Command::new("umount").arg("--lazy").arg(&self.shown));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

const OPTION: u64 = 0x4948_4156_454F_5054; // IHAVEOPT
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;
/// Flags of the export: it has flags, takes flushes and forced writes.
const FLAGS: u16 = 1 | 4 | 8;

/// Serves one client, as <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md> says.
fn serve(mut client: UnixStream, disk: &Mutex<Disk>) -> io::Result<()> {
    client.write_all(b"NBDMAGIC")?;
    client.write_all(&OPTION.to_be_bytes())?;
    client.write_all(&3_u16.to_be_bytes())?; // fixed newstyle, no zeroes
    read::<4>(&mut client)?;
    let size = lock(disk).now.len() as u64;
    if !agree(&mut client, size)? {
        return Ok(());
    }
    loop {
        if u32::from_be_bytes(read(&mut client)?) != REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let flags = u16::from_be_bytes(read(&mut client)?);
        let what = u16::from_be_bytes(read(&mut client)?);
        let handle: [u8; 8] = read(&mut client)?;
        let offset = u64::from_be_bytes(read(&mut client)?) as usize;
        let length = u32::from_be_bytes(read(&mut client)?) as usize;
        let mut sent = Vec::new();
        let mut error = 0_u32;
        match what {
            0 => sent = lock(disk).now[offset..offset + length].to_vec(),
            1 => {
                let mut bytes = vec![0; length];
                client.read_exact(&mut bytes)?;
                let mut disk = lock(disk);
                disk.now[offset..offset + length].copy_from_slice(&bytes);
                disk.steps.push(Step::Write { offset, bytes, is_forced: flags & 1 != 0 });
            }
            2 => return Ok(()),
            3 => lock(disk).steps.push(Step::Flush),
            _ => error = 95, // not supported
        }
        let answer = [&REPLY.to_be_bytes()[..], &error.to_be_bytes(), &handle, &sent].concat();
        client.write_all(&answer)?;
    }
}

/// Answers options until the client begins. False if it went away.
fn agree(client: &mut UnixStream, size: u64) -> io::Result<bool> {
    loop {
        read::<8>(client)?;
        let option = u32::from_be_bytes(read(client)?);
        let mut data = vec![0; u32::from_be_bytes(read(client)?) as usize];
        client.read_exact(&mut data)?;
        let reply = |kind: u32, data: &[u8]| {
            let numbers = [option, kind, data.len() as u32].map(u32::to_be_bytes).concat();
            [&OPTION_REPLY.to_be_bytes()[..], &numbers, data].concat()
        };
        let export = [&size.to_be_bytes()[..], &FLAGS.to_be_bytes()].concat();
        match option {
            1 => {
                client.write_all(&export)?;
                return Ok(true);
            }
            2 => {
                client.write_all(&reply(1, &[]))?;
                return Ok(false);
            }
            6 | 7 => {
                let info = [&0_u16.to_be_bytes()[..], &export].concat();
                client.write_all(&reply(3, &info))?;
                client.write_all(&reply(1, &[]))?;
                if option == 7 {
                    return Ok(true);
                }
            }
            _ => client.write_all(&reply(0x8000_0001, &[]))?, // not supported
        }
    }
}

fn read<const N: usize>(client: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}
