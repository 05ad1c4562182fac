//! Copies a program that speaks our protocol to a host, for the time of a connection.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libdeflater::{CompressionLvl, Compressor};

use crate::error::SessionError;
use crate::link::{Running, Script};
use crate::probe::Probed;

const PUSH: &str = include_str!("script/push.sh");

/// The small program that does nothing else, which stands beside this one.
const SMALL: &str = "verisum-serve";

/// Where it is installed, from the directory of this one.
const INSTALLED: &str = "../libexec/verisum/verisum-serve";

/// How hard it is compressed: more makes it a twentieth shorter, and takes longer than sending that.
const LEVEL: i32 = 1;

/// A program that can be copied to hosts of one kind.
#[derive(Debug)]
pub struct Program {
    bytes: Vec<u8>,
    /// What `uname -sm` prints where it runs; none where nobody knows.
    system: Option<String>,
    packed: OnceLock<Vec<u8>>,
}

impl Program {
    /// Reads it.
    pub fn open(path: &Path) -> io::Result<Program> {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        Ok(Program { system: machine(&bytes), bytes, packed: OnceLock::new() })
    }

    /// The one that came with this program, or else this program.
    pub fn own() -> io::Result<Program> {
        let beside = std::env::current_exe().ok().and_then(|path| {
            let folder = path.parent()?;
            [folder.join(SMALL), folder.join(INSTALLED)].into_iter().find(|path| path.is_file())
        });
        // Also where this one was replaced meanwhile.
        Program::open(&beside.unwrap_or_else(|| PathBuf::from("/proc/self/exe")))
    }

    /// Compresses it, once.
    pub(crate) fn packed(&self) -> &[u8] {
        self.packed.get_or_init(|| {
            let level = CompressionLvl::new(LEVEL).unwrap_or_default();
            let mut compressor = Compressor::new(level);
            let mut packed = vec![0; compressor.gzip_compress_bound(self.bytes.len())];
            let length = compressor.gzip_compress(&self.bytes, &mut packed).unwrap_or(0);
            packed.truncate(length);
            packed
        })
    }

    /// Whether it may run on this system; a host that does not tell which it is has to try.
    fn fits(&self, system: &str) -> bool {
        system.is_empty() || self.system.as_ref().is_none_or(|own| own == system)
    }
}

/// What `uname -sm` prints where a program of Linux runs, by its header; none for others.
pub(crate) fn machine(program: &[u8]) -> Option<String> {
    /// The numbers that ELF has for processors whose programs begin with their lowest bytes.
    const MACHINES: [(u16, u8, &str); 5] = [
        (62, 2, "x86_64"),
        (183, 2, "aarch64"),
        (243, 2, "riscv64"),
        (21, 2, "ppc64le"),
        (258, 2, "loongarch64"),
    ];
    let header = program.get(..20).filter(|header| header.starts_with(b"\x7fELF"))?;
    let number = u16::from_le_bytes([header[18], header[19]]);
    let is_little = header[5] == 1;
    let (_, _, name) =
        MACHINES.iter().find(|(of, class, _)| is_little && *of == number && *class == header[4])?;
    Some(format!("Linux {name}"))
}

/// Copies one of the programs to a private directory on the host, tests it, and starts it as a server in
/// place of the shell that listens. It removes itself as soon as it runs; if it does not get so far, the
/// shell that took it does, and listens again.
///
/// # Errors
/// [`Ok`] with a reason where the host cannot run it, and goes on without.
pub(crate) fn push(
    shell: &mut Running,
    programs: &[Program],
    host: &Probed,
    algorithm: &str,
) -> Result<Result<(), String>, SessionError> {
    let Some(program) = programs.iter().find(|program| program.fits(&host.system)) else {
        let made: Vec<&str> = programs.iter().filter_map(|program| program.system.as_deref()).collect();
        return Ok(Err(format!("it is made for {}, and the host is {}", made.join(" and "), host.system)));
    };
    let packed = if host.unpacks { program.packed() } else { &[] };
    let (sent, unpack) = if packed.is_empty() { (&program.bytes[..], "cat") } else { (packed, "gzip -dc") };
    let script = Script::new(PUSH)
        .text(algorithm.as_bytes())
        .text(program.bytes.len().to_string().as_bytes())
        .text(sent.len().to_string().as_bytes())
        .text(unpack.as_bytes());
    // If it cannot be sent, the connection has ended, and says why.
    let written = shell.give(&script)
        && shell
            .stdin
            .as_mut()
            .is_some_and(|stdin| stdin.write_all(sent).and_then(|()| stdin.flush()).is_ok());
    let answer = if written { shell.record(0) } else { Ok(None) };
    match answer.map_err(|error| SessionError::Odd(error.to_string()))? {
        Some(answer) if answer == b"yes" => Ok(Ok(())),
        Some(answer) if answer.starts_with(b"no ") => {
            let why = String::from_utf8_lossy(&answer[3..]).into_owned();
            Ok(Err(why.split('\n').map(str::trim).find(|line| !line.is_empty()).unwrap_or("").to_string()))
        }
        Some(_) => Err(SessionError::Odd("not what a shell says that takes a program".to_string())),
        None => Err(SessionError::of_end(None, &shell.said())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_headers() {
        let program = |machine: u16, class: u8, order: u8| {
            let mut header = b"\x7fELF".to_vec();
            header.extend([class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
            header.extend(machine.to_le_bytes());
            header
        };
        assert_eq!(machine(&program(62, 2, 1)).as_deref(), Some("Linux x86_64"));
        assert_eq!(machine(&program(183, 2, 1)).as_deref(), Some("Linux aarch64"));
        for other in [program(62, 1, 1), program(62, 2, 2), program(9, 2, 1), b"#!/bin/sh\n".to_vec(), vec![]]
        {
            assert_eq!(machine(&other), None);
        }
        let own = rustix::system::uname();
        let own = format!("{} {}", own.sysname().to_string_lossy(), own.machine().to_string_lossy());
        assert!(Program::open(Path::new("/proc/self/exe")).unwrap().fits(&own));
    }
}
