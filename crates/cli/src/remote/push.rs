//! Our own program, copied to a host for the time of a connection.

use std::fs::File;
use std::io::Write;

use super::link::{Link, Running, Script};
use super::trouble::Trouble;

const PUSH: &str = include_str!("script/push.sh");

/// What `uname -sm` prints on hosts like this one.
pub(super) fn system() -> String {
    let name = rustix::system::uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.machine().to_string_lossy())
}

/// Copies this program to a private directory on the host and starts it as a server. It removes itself
/// as soon as it runs; if it does not get so far, the shell that took it does.
///
/// # Errors
/// [`Ok`] with a reason where the host cannot run it, and goes on without.
pub(super) fn push(link: &Link) -> Result<Result<Running, String>, Trouble> {
    let here = |error: std::io::Error| Trouble::Here(error.to_string());
    // Also where the file was replaced meanwhile.
    let mut program =
        File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?)).map_err(here)?;
    let size = program.metadata().map_err(here)?.len();
    let mut running = link.start(false, &Script::new(PUSH).text(size.to_string().as_bytes()))?;
    for (word, what) in [
        ("send", "no private directory can be made"),
        ("stored", "it cannot be stored"),
        ("starts", "it does not run there"),
    ] {
        match running.record(b'\n') {
            Ok(Some(line)) if line == word.as_bytes() => {}
            Ok(_) => {
                let (code, said) = running.end();
                return match code {
                    Some(255) | None => Err(Trouble::of_end(code, &said)),
                    _ => Ok(Err(said.last().map_or(what.to_string(), |said| format!("{what}: {said}")))),
                };
            }
            Err(error) => return Err(Trouble::Lost(error.to_string())),
        }
        let Some(stdin) = &mut running.stdin else { break };
        let sent = match word {
            "send" => std::io::copy(&mut program, stdin).map(drop),
            // Nothing is sent before that, for `head` may read more than it keeps.
            "stored" => stdin.write_all(b"go\n"),
            _ => Ok(()),
        };
        if sent.and_then(|()| stdin.flush()).is_err() {
            let (code, said) = running.end();
            return match code {
                Some(255) | None => Err(Trouble::of_end(code, &said)),
                _ => Ok(Err(said.last().cloned().unwrap_or_else(|| what.to_string()))),
            };
        }
    }
    Ok(Ok(running))
}
