//! Ports of localhost for servers that a test starts.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process;

/// A free port of localhost, which no other test takes as long as this value lives.
///
/// A port that the kernel chose, and that is let go for a server to take, may be given to the next test in
/// between: its client then talks to the wrong server. So ports come from below those that the kernel
/// chooses from, and a socket with a name, which the kernel removes with its process, says that one is taken.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _taken: UnixListener,
}

impl Port {
    /// # Panics
    /// If every port is taken.
    pub fn take() -> Port {
        const FIRST: u16 = 20_000;
        const COUNT: u16 = 10_000;
        // Test programs that run side by side begin at different places.
        let start = (process::id() % u32::from(COUNT)) as u16;
        let ports = (0..COUNT).map(|step| FIRST + (start + step) % COUNT);
        ports.into_iter().find_map(Port::of_number).expect("a free port")
    }

    fn of_number(number: u16) -> Option<Port> {
        let name = SocketAddr::from_abstract_name(format!("verisum-test-port-{number}")).ok()?;
        let taken = UnixListener::bind_addr(&name).ok()?;
        // A program that is no test may have it.
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Port { number, _taken: taken })
    }

    /// From 20000 to 29999.
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tests_never_have_the_same_port() {
        let ports: Vec<Port> = (0..50).map(|_| Port::take()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
        assert!(Port::of_number(numbers[0]).is_none());
        drop(ports);
        // Other tests may have taken some of them meanwhile.
        assert!(numbers.iter().any(|number| Port::of_number(*number).is_some()));
    }
}
