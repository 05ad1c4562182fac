//! An NBD server for one image, on a socket that only this user can reach.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use verisum_bench::measure::find_program;

use crate::ui::scratch::{Scratch, Server};

/// How long a server may take to make its socket.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest name of a socket, in bytes.
const LONGEST: usize = 107;

/// Starts nbdkit or qemu-nbd. Returns it with its name and the address of the export, or why there is none.
pub(super) fn serve(
    folder: &Path,
    raw: &Path,
    path: Option<&OsStr>,
    scratch: &Scratch,
) -> Result<(Server, &'static str, String), String> {
    let socket = folder.join("nbd");
    if socket.as_os_str().len() > LONGEST {
        return Err("the name of the folder is too long for a socket".to_string());
    }
    // What an earlier server left.
    let _ = std::fs::remove_file(&socket);
    let (name, mut command) = match (find_program("nbdkit", path), find_program("qemu-nbd", path)) {
        (Some(nbdkit), _) => {
            let mut command = Command::new(nbdkit);
            command.args(["--foreground", "--exit-with-parent", "--readonly", "--unix"]).arg(&socket);
            let mut file = std::ffi::OsString::from("file=");
            file.push(raw);
            command.arg("file").arg(file);
            ("nbdkit", command)
        }
        (None, Some(qemu_nbd)) => {
            let mut command = Command::new(qemu_nbd);
            command.args(["--read-only", "--persistent", "--shared=16", "--format=raw"]);
            command.arg("--socket").arg(&socket).arg(raw);
            ("qemu-nbd", command)
        }
        (None, None) => return Err("neither nbdkit nor qemu-nbd is installed".to_string()),
    };
    let mut server = scratch.server(&mut command).map_err(|error| format!("{name}: {error}"))?;
    let started = Instant::now();
    while !socket.exists() {
        if !server.runs() || started.elapsed() > PATIENCE {
            return Err(format!("{name} does not serve the image"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok((server, name, format!("nbd+unix:///?socket={}", escaped(socket.as_os_str().as_bytes()))))
}

/// A path in an address (RFC 3986).
fn escaped(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => text.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => text.push(byte.into()),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_fits_an_address() {
        assert_eq!(escaped("/a b/ü&?#%".as_bytes()), "/a%20b/%C3%BC%26%3F%23%25");
    }
}
