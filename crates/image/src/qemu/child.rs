//! Runs a program that serves one client over sockets, and ends it with the client.
//!
//! It finds its socket as services of systemd do: open already, as descriptor 3. The socket has no name in
//! the file system, so that nothing is left of it whatever ends this process; all connections are made
//! before the program starts, and the socket takes no others.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;

/// The shell gives itself the variables that the protocol asks for, which hold its own number, and turns
/// into the program, which keeps that number.
const ACTIVATE: &str = r#"export LISTEN_PID=$$ LISTEN_FDS=1; exec "$0" "$@" 3<&0 </dev/null"#;

/// How a shell says that there is no such program.
const NOT_FOUND: i32 = 127;

/// The most bytes of complaints that are kept.
const COMPLAINTS: u64 = 64 << 10;

/// How often to try to get a socket to ourselves.
const ATTEMPTS: usize = 8;

/// Stack in bytes of the thread that keeps a child.
const KEEPER_STACK: usize = 128 << 10;

/// A running program. Dropping it ends it.
pub(super) struct Child {
    /// Closed when it is to end.
    stop: Option<Sender<()>>,
    keeper: Option<JoinHandle<Option<ExitStatus>>>,
    complaints: File,
}

/// How a program ended that was not to end.
pub(super) struct Ended {
    /// Whether there is no such program.
    pub(super) not_found: bool,
    /// What it wrote on standard error.
    pub(super) complaints: String,
}

impl Child {
    /// Starts a program that accepts connections as a service of systemd does, and gives `count`
    /// connections to it.
    pub(super) fn start(
        program: &str,
        arguments: Vec<OsString>,
        count: usize,
    ) -> io::Result<(Child, Vec<UnixStream>)> {
        let (listener, sockets) = connected(count)?;
        let complaints = bounded_memory()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", ACTIVATE, program]).args(arguments);
        command.stdin(listener).stdout(Stdio::null()).stderr(complaints.try_clone()?);
        // A key typed to interrupt this process ends the child by way of this process, not at once: its
        // loss would be reported as the cause.
        command.process_group(0);
        dies_with_parent(&mut command);
        let (stop, stopped) = mpsc::channel();
        let (started, result) = mpsc::channel();
        // The kernel takes the end of the thread that forked, not of the process, for the end of the
        // parent. Whoever opens an image may be any thread; this one stays until the child has ended.
        let keeper = thread::Builder::new().stack_size(KEEPER_STACK).spawn(move || {
            let spawned = command.spawn();
            // It holds the listening socket.
            drop(command);
            let mut child = match spawned {
                Ok(child) => child,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return None;
                }
            };
            let _ = started.send(Ok(()));
            let _ = stopped.recv();
            let _ = child.kill();
            child.wait().ok()
        })?;
        result.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))??;
        Ok((Child { stop: Some(stop), keeper: Some(keeper), complaints }, sockets))
    }

    /// Ends it, and says how it ended if it had ended before.
    pub(super) fn end(&mut self) -> Ended {
        self.stop = None;
        let status = self.keeper.take().and_then(|keeper| keeper.join().ok()).flatten();
        let not_found = status.and_then(|status| status.code()) == Some(NOT_FOUND);
        Ended { not_found, complaints: self.complaints() }
    }

    /// What it wrote on standard error so far.
    pub(super) fn complaints(&self) -> String {
        let mut bytes = vec![0; COMPLAINTS as usize];
        let count = self.complaints.read_at(&mut bytes, 0).unwrap_or(0);
        let end = bytes[..count].iter().position(|&byte| byte == 0).unwrap_or(count);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// A listening socket, and `count` connections to it, all that it will ever take.
///
/// Its name is one that the kernel chooses and that no file has. Others of this machine can see the name
/// and connect. So the socket's queue holds no more than `count`: if all of ours are in it, nobody else's
/// is; and then it is closed for more.
fn connected(count: usize) -> io::Result<(OwnedFd, Vec<UnixStream>)> {
    let mut result = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        result = try_connected(count);
        if !matches!(result, Err(Errno::AGAIN)) {
            break;
        }
    }
    Ok(result?)
}

/// Does the work of [`connected`]; [`Errno::AGAIN`] where somebody else was faster.
fn try_connected(count: usize) -> Result<(OwnedFd, Vec<UnixStream>), Errno> {
    let listener = unix_socket(SocketFlags::CLOEXEC)?;
    rustix::net::bind(&listener, &SocketAddrUnix::new_unnamed())?;
    let name = SocketAddrUnix::try_from(rustix::net::getsockname(&listener)?)?;
    // The kernel takes one more than it is told.
    rustix::net::listen(&listener, count as i32 - 1)?;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = unix_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        rustix::net::connect(&socket, &name)?;
        sockets.push(UnixStream::from(socket));
    }
    rustix::net::shutdown(&listener, Shutdown::Read)?;
    Ok((listener, sockets))
}

fn unix_socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// A file in memory that holds [`COMPLAINTS`] bytes and refuses more: unlike a pipe, it never makes its
/// writer wait.
fn bounded_memory() -> io::Result<File> {
    let memory = rustix::fs::memfd_create("complaints", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&memory, COMPLAINTS)?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::GROW | SealFlags::SHRINK)?;
    Ok(memory.into())
}

/// Lets the kernel kill the child when the thread that starts it ends, however that comes.
#[allow(unsafe_code)]
fn dies_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended before the kernel was told.
        match rustix::process::getppid() == Some(parent) {
            true => Ok(()),
            false => Err(Errno::SRCH.into()),
        }
    };
    // SAFETY: between fork and exec only two system calls are made, which neither allocate nor lock.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn nobody_else_can_connect() {
        for count in [1, 2, 7] {
            let (listener, sockets) = connected(count).unwrap();
            assert_eq!(sockets.len(), count);
            let name = SocketAddrUnix::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
            let stranger = unix_socket(SocketFlags::NONBLOCK).unwrap();
            assert_eq!(rustix::net::connect(&stranger, &name), Err(Errno::CONNREFUSED));
            for mut socket in sockets {
                let mut accepted = UnixStream::from(rustix::net::accept(&listener).unwrap());
                accepted.write_all(b"hello").unwrap();
                drop(accepted);
                socket.set_nonblocking(false).unwrap();
                let mut text = String::new();
                socket.read_to_string(&mut text).unwrap();
                assert_eq!(text, "hello");
            }
        }
    }

    #[test]
    fn a_child_that_fails_says_why() {
        let script = r#"yes "no room for this" | head -c 1000000 >&2; exit 3"#;
        let (mut child, _) = Child::start("sh", vec!["-c".into(), script.into()], 1).unwrap();
        while child.complaints().len() < COMPLAINTS as usize {
            thread::yield_now();
        }
        let ended = child.end();
        assert!(!ended.not_found && ended.complaints.starts_with("no room for this\n"));
        let (mut child, sockets) = Child::start("no-such-program", Vec::new(), 1).unwrap();
        sockets[0].set_nonblocking(false).unwrap();
        assert_eq!((&sockets[0]).read(&mut [0]).unwrap_or(0), 0);
        assert!(child.end().not_found);
    }

    #[test]
    fn a_child_gets_its_socket_and_ends_with_its_owner() {
        // Descriptor 3 is a socket, the number is its own, and it would live for long.
        let script =
            r#"test "$LISTEN_PID" = $$ && test -S /proc/self/fd/3 && echo $$ >&2 && exec sleep 1000"#;
        let (child, _sockets) = Child::start("sh", vec!["-c".into(), script.into()], 1).unwrap();
        while !child.complaints().ends_with('\n') {
            thread::yield_now();
        }
        let number: u32 = child.complaints().trim().parse().unwrap();
        drop(child);
        assert!(!std::path::Path::new(&format!("/proc/{number}/fd")).exists());
    }
}
