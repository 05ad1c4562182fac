//! The output of sum, and of cksum without `-a`: a checksum in decimal, a length, and the name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use verisum::digest::cksum::Checksum;
use verisum::files::{FileError, Operation};

use super::super::inputs::open_stdin;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{self, Output};

/// How much is read at once.
const PIECE: usize = 128 << 10;

/// Prints the checksum of each file; without any, that of standard input without a name.
pub(super) fn print(
    program: &str,
    checksum: Checksum,
    files: &[OsString],
    end: u8,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut worst = Exit::Clean;
    let stdin = [OsString::from("-")];
    let names = if files.is_empty() { &stdin[..] } else { files };
    for name in names {
        match read(name, checksum) {
            Ok((value, length)) => {
                let mut line = fields(checksum, value, length).into_bytes();
                if !files.is_empty() {
                    line.push(b' ');
                    line.extend_from_slice(name.as_bytes());
                }
                line.push(end);
                output.bytes(&line)?;
            }
            Err(error) => {
                output.flush()?;
                let failure = Failure::Tree(FileError::io(Path::new(name), Operation::Read, error));
                ui::say(program, &super::message(program, &failure));
                worst = worst.max(failure.exit());
            }
        }
    }
    Ok(worst)
}

fn read(name: &OsStr, checksum: Checksum) -> io::Result<(u32, u64)> {
    let mut source: Box<dyn Read> = match name == "-" {
        true => open_stdin()?,
        false => Box::new(File::open(name)?),
    };
    let mut summing = checksum.start();
    let mut buffer = vec![0; PIECE];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(summing.finish()),
            Ok(count) => summing.update(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The numbers of a line: lengths are bytes, or as many blocks as hold them.
fn fields(checksum: Checksum, value: u32, length: u64) -> String {
    match checksum {
        Checksum::Crc => format!("{value} {length}"),
        Checksum::Bsd => format!("{value:05} {:5}", length.div_ceil(1024)),
        Checksum::SysV => format!("{value} {}", length.div_ceil(512)),
    }
}
