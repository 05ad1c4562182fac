//! Trees on several hosts: network namespaces that are cut off in the middle.

use crate::common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use common::network::Network;
use common::trees::{assert_lists, expected, place, tree};
use common::{Ended, wait_until};
use verisum_testkit::{require_tool, write_script};

/// A program that stops at its first batch until it may go on, and is `sha256sum` otherwise.
struct Gate {
    folder: std::path::PathBuf,
}

impl Gate {
    fn new(folder: &Path) -> Gate {
        fs::create_dir(folder).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        let gate = Gate { folder: folder.to_path_buf() };
        let here = folder.display();
        let sum = require_tool("sha256sum").unwrap();
        let text = format!(
            "#!/bin/sh\nif [ $# -gt 9 ] && [ ! -e {here}/began ]; then\n: > {here}/began\n\
             while [ ! -e {here}/open ]; do sleep 0.02; done\nfi\nexec {} \"$@\"\n",
            sum.display()
        );
        write_script(folder.join("sha256sum"), &text);
        gate
    }

    /// What makes a server use it.
    fn configuration(&self) -> String {
        format!("SetEnv PATH={}:/usr/bin:/bin", self.folder.display())
    }

    fn wait(&self) {
        wait_until("the first batch begins", || self.folder.join("began").exists());
    }

    fn open(&self) {
        fs::write(self.folder.join("open"), "").unwrap();
    }
}

/// A run whose messages are seen while it goes on.
struct Watched {
    child: Child,
    messages: JoinHandle<String>,
    seen: std::sync::mpsc::Receiver<String>,
}

impl Watched {
    fn start(command: &mut Command) -> Watched {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, seen) = std::sync::mpsc::channel();
        let messages = std::thread::spawn(move || {
            let mut all = String::new();
            for line in stderr.lines() {
                let line = line.unwrap();
                all.push_str(&line);
                all.push('\n');
                let _ = sender.send(line);
            }
            all
        });
        Watched { child, messages, seen }
    }

    /// Waits for a message that has this in it.
    fn wait(&self, part: &str) {
        let mut before = Vec::new();
        loop {
            match self.seen.recv_timeout(std::time::Duration::from_secs(600)) {
                Ok(line) if line.contains(part) => return,
                Ok(line) => before.push(line),
                Err(_) => panic!("no {part:?} after {before:?}"),
            }
        }
    }

    fn end(self) -> Ended {
        let mut ended = Ended::of(self.child.wait_with_output().unwrap());
        ended.stderr = self.messages.join().unwrap();
        ended
    }
}

/// Nothing may be left of connections.
fn assert_clean(network: &Network) {
    let left: Vec<_> = fs::read_dir(network.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_host_that_is_cut_off_and_comes_back_loses_no_file() {
    let folder = tree();
    let Some(mut network) = Network::new() else { return };
    let gate = Gate::new(&network.path("gate"));
    if network.add("user", Some(&gate.configuration())).is_none() {
        return;
    }
    let mut command = network.remote("sum");
    command.args(["-z", "--timeout", "6s", "--way", "coreutils"]).arg(place("h1:", folder.path()));
    let run = Watched::start(&mut command);
    gate.wait();
    network.cut(1, true);
    gate.open();
    // ssh asks whether the host is alive, and gives it up.
    run.wait("connection lost");
    network.cut(1, false);
    let ended = run.end();
    assert_lists(&ended, 0, &expected(folder.path()), &network.server(1).log());
    assert!(ended.stderr.contains("verisum: h1: connection lost: "), "{}", ended.stderr);
    assert!(ended.stderr.contains(": connecting again\n"), "{}", ended.stderr);
    assert_clean(&network);
}

#[test]
fn a_host_that_stays_cut_off_is_given_up_and_named() {
    let folder = tree();
    let Some(mut network) = Network::new() else { return };
    let gate = Gate::new(&network.path("gate"));
    if network.add("user", Some(&gate.configuration())).is_none() {
        return;
    }
    let mut command = network.remote("sum");
    command.args(["-z", "--timeout", "6s", "--way", "coreutils"]).arg(place("h1:", folder.path()));
    let run = Watched::start(&mut command);
    gate.wait();
    network.cut(1, true);
    let ended = run.end();
    assert_eq!((ended.code, ended.out()), (Some(3), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("verisum: h1: connection lost: "), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with("verisum: h1: connect: "), "{}", ended.stderr);
    assert_clean(&network);
}

#[test]
fn each_of_many_hosts_has_its_own_end() {
    let folder = tree();
    let Some(mut network) = Network::new() else { return };
    let gate = Gate::new(&network.path("gate"));
    let gated = gate.configuration();
    // Two that do as they should, nobody, one that does not know the key, one that ends in the middle.
    for (key, server) in [
        ("user", Some("")),
        ("user", Some("")),
        ("user", None),
        ("stranger", Some("")),
        ("user", Some(gated.as_str())),
    ] {
        if network.add(key, server).is_none() {
            return;
        }
    }
    let hosts = network.path("hosts");
    fs::write(&hosts, "h1\nh2\nh3\nh4\nh5\n").unwrap();
    let mut command = network.remote("sum");
    command.args(["-z", "--timeout", "6s", "--way", "coreutils", "--hosts"]).arg(&hosts).arg(folder.path());
    let run = Watched::start(&mut command);
    gate.wait();
    network.cut(5, true);
    let ended = run.end();
    let mut all = std::collections::BTreeMap::new();
    for host in ["h1", "h2"] {
        all.extend(
            expected(folder.path()).into_iter().map(|(name, digest)| (format!("{host}:{name}"), digest)),
        );
    }
    assert_lists(&ended, 3, &all, "");
    for part in ["h3: connect: ", "h4: log in: nobody@10.0.4.2: Permission denied", "h5: connection lost: "] {
        assert!(ended.stderr.contains(&format!("verisum: {part}")), "{part}: {}", ended.stderr);
    }
    assert_clean(&network);
}

#[test]
fn a_server_that_is_away_for_a_moment_is_waited_for() {
    let folder = tree();
    let Some(mut network) = Network::new() else { return };
    let gate = Gate::new(&network.path("gate"));
    if network.add("user", Some(&gate.configuration())).is_none() {
        return;
    }
    let mut command = network.remote("sum");
    command.args(["-z", "--way", "coreutils"]).arg(place("h1:", folder.path()));
    let run = Watched::start(&mut command);
    gate.wait();
    // All of it ends, as where the host starts anew: who calls is refused at once.
    network.stop(1);
    run.wait("connection lost");
    gate.open();
    network.start(1);
    let ended = run.end();
    assert_lists(&ended, 0, &expected(folder.path()), &network.server(1).log());
    assert_clean(&network);
}
