//! Repairs from a host: what goes over the wire is what is damaged, and little more.

use crate::common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::sshd::{Sshd, sshd};
use common::{Ended, VERISUM, command};
use verisum_testkit::{copy_program, require_tool, write_script};

const BLOCK: u64 = 65536;
/// Of the file; `TEST_WIRE_BYTES` sets another length.
const LENGTH: u64 = 256 << 20;
const BAD: u64 = 10;

/// Stands between ssh and its server, and counts all bytes of both ways, those of ssh itself among them.
struct Wire {
    port: u16,
    moved: Arc<AtomicU64>,
}

impl Wire {
    fn to(server: u16) -> Wire {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let wire = Wire { port: listener.local_addr().unwrap().port(), moved: Arc::default() };
        let moved = wire.moved.clone();
        // It ends with the test.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let there = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).unwrap();
                let [(from, to), (back, again)] = [(&client, &there), (&there, &client)]
                    .map(|(one, other)| (one.try_clone().unwrap(), other.try_clone().unwrap()));
                for (from, to) in [(from, to), (back, again)] {
                    let moved = moved.clone();
                    thread::spawn(move || forward(from, to, &moved));
                }
            }
        });
        wire
    }

    /// The bytes since the last call.
    fn take(&self) -> u64 {
        self.moved.swap(0, Ordering::SeqCst)
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, moved: &AtomicU64) {
    let mut room = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut room) {
        moved.fetch_add(count as u64, Ordering::SeqCst);
        if to.write_all(&room[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Has ssh go by way of the wire.
fn by_way_of(wire: &Wire, server: &Sshd) {
    let (port, by) = (server.port().to_string(), wire.port.to_string());
    let known = fs::read_to_string(server.path("known")).unwrap();
    fs::write(server.path("known"), known.replace(&port, &by)).unwrap();
    let config = fs::read_to_string(server.path("config")).unwrap();
    fs::write(server.path("config"), config.replace(&format!("Port {port}\n"), &format!("Port {by}\n")))
        .unwrap();
}

fn damage(path: &Path, length: u64) {
    let file = File::options().write(true).open(path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    for number in 0..BAD {
        file.write_all_at(b"rot", number * length / BAD + 12345).unwrap();
    }
    file.set_modified(modified).unwrap();
}

/// Makes a file of this length whose blocks all differ.
fn make(path: &Path, length: u64) {
    let mut piece = vec![0; 1 << 20];
    fastrand::Rng::with_seed(3).fill(&mut piece);
    let file = File::create(path).unwrap();
    for at in (0..length).step_by(piece.len()) {
        piece[..8].copy_from_slice(&at.to_le_bytes());
        file.write_all_at(&piece, at).unwrap();
    }
}

#[test]
fn a_repair_from_a_host_moves_what_is_damaged() {
    let Some(server) = sshd("") else { return };
    let length = std::env::var("TEST_WIRE_BYTES").map_or(LENGTH, |bytes| bytes.parse().unwrap());
    // A tenth more than the damaged bytes and the digests of all blocks.
    let most = (BAD * BLOCK + length / BLOCK * 32) * 11 / 10;
    let folder = server.path("here");
    fs::create_dir_all(folder.join("tree")).unwrap();
    let disk = folder.join("tree/disk.raw");
    make(&disk, length);
    let there = server.path("there");
    fs::create_dir(&there).unwrap();
    fs::copy(&disk, there.join("disk.raw")).unwrap();
    let run = |words: &[&str]| {
        let mut command = command(VERISUM);
        command.env("XDG_STATE_HOME", folder.join("state")).current_dir(&folder).args(words);
        Ended::of(command.output().unwrap())
    };
    let is_good = || {
        let same = std::process::Command::new("cmp").arg(&disk).arg(there.join("disk.raw")).status();
        same.unwrap().success()
    };
    run(&["scrub", "tree"]).clean();
    run(&["image", "map", "--exact", "--output", "tree/disk.raw.map", "tree/disk.raw"]).clean();
    let wire = Wire::to(server.port());
    by_way_of(&wire, &server);
    let (config, from) = (server.path("config"), format!("web1:{}", there.display()));
    let config = config.to_str().unwrap();

    damage(&disk, length);
    let image = format!("{from}/disk.raw");
    let words = ["image", "repair", "--ssh-config", config, "--map", "tree/disk.raw.map", "--from", &image];
    let ended = run(&[&words[..], &["tree/disk.raw"]].concat());
    assert!(ended.code == Some(0) && is_good(), "{}", ended.stderr);
    let moved = wire.take();
    assert!((BAD * BLOCK..most).contains(&moved), "an image: {moved} of {most}");

    damage(&disk, length);
    assert_eq!(run(&["scrub", "tree"]).code, Some(1));
    for words in [&["repair", "--dry-run"][..], &["repair"], &["repair", "--in-place"]] {
        let ended =
            run(&[words, &["--keep-bad", "bad", "--ssh-config", config, "--from", &from, "tree"]].concat());
        let moved = wire.take();
        assert_eq!(ended.code, Some(0), "{words:?} {}{}", ended.out(), ended.stderr);
        assert!((BAD * BLOCK..most).contains(&moved), "{words:?}: {moved} of {most}");
        if words.len() == 1 {
            assert!(is_good());
            damage(&disk, length);
            assert_eq!(run(&["scrub", "tree"]).code, Some(1));
        }
    }
    assert!(is_good());
}

/// In the place of `verisum` on a host, with its ways: `old` does not know what blocks are, and with `changed` a copy
/// becomes another one before its blocks are hashed.
const STAND_IN: &str = r#"#!/usr/bin/env perl
open(my $file, '<', 'HERE/way'); my $way = <$file>;
open(my $own, '|-', 'HERE/own', @ARGV) or die;
while (sysread(STDIN, my $request, 1 << 20)) {
    if ($request =~ /(^|\0)blocks\0/) {
        if ($way eq 'old') { syswrite(STDOUT, "bad\trequest\0"); exit 2; }
        if ($way eq 'changed') { open(my $copy, '+<', 'HERE/good/a.raw'); seek($copy, 100, 0); print $copy 'new'; }
    }
    syswrite($own, $request);
}
"#;

#[test]
fn without_recorded_digests_of_blocks_verisum_on_the_host_computes_them() {
    let Some(_) = require_tool("perl") else { return };
    let there = tempfile::Builder::new().prefix("verisum-there-").tempdir().unwrap();
    let there = there.path();
    let all =
        |name: &str, mode| fs::set_permissions(there.join(name), fs::Permissions::from_mode(mode)).unwrap();
    all("", 0o755);
    let Some(server) = sshd(&format!("SetEnv PATH={}:/usr/bin:/bin", there.display())) else { return };
    // A copy: the user may not reach the build.
    copy_program(VERISUM, there.join("own"));
    write_script(there.join("verisum"), &STAND_IN.replace("HERE", there.to_str().unwrap()));
    let way = |way: &str| fs::write(there.join("way"), way).unwrap();
    way("");
    let length = 32 << 20;
    let folder = server.path("here");
    for tree in [folder.join("tree"), there.join("good"), there.join("rotten")] {
        fs::create_dir_all(&tree).unwrap();
        make(&tree.join("a.raw"), length);
    }
    all("good/a.raw", 0o666);
    File::options().write(true).open(there.join("rotten/a.raw")).unwrap().write_all_at(b"rot", 5).unwrap();
    let (here, good) = (folder.join("tree/a.raw"), fs::read(there.join("good/a.raw")).unwrap());
    let run = |words: &[&str]| {
        let mut command = command(VERISUM);
        command.env("XDG_STATE_HOME", folder.join("state")).current_dir(&folder).args(words);
        Ended::of(command.output().unwrap())
    };
    run(&["scrub", "tree"]).clean();
    let wire = Wire::to(server.port());
    by_way_of(&wire, &server);
    let (config, froms) =
        (server.path("config"), ["rotten", "good"].map(|copy| format!("web1:{}/{copy}", there.display())));
    let repair = |words: &[&str]| {
        let words =
            [&["repair", "--json", "--keep-bad", "bad", "--ssh-config", config.to_str().unwrap()], words];
        let ended = run(&[words[0], words[1], &["--from", &froms[0], "--from", &froms[1], "tree"]].concat());
        let line =
            ended.out().lines().next().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        (ended, line.unwrap(), wire.take())
    };
    let rot = |damage: &dyn Fn()| {
        damage();
        assert_eq!(run(&["scrub", "tree"]).code, Some(1));
    };

    // A tenth more than the damaged bytes and the digests of all blocks, and the sessions.
    let most = (BAD * BLOCK + length / BLOCK * 35) * 11 / 10 + BLOCK;
    rot(&|| damage(&here, length));
    for words in [&["--dry-run"][..], &[]] {
        let (ended, line, moved) = repair(words);
        assert_eq!(ended.code, Some(0), "{words:?} {}{}", ended.out(), ended.stderr);
        assert_eq!(
            (&line["from"]["path"], &line["bytes"]),
            (&format!("ssh://web1{}/good/a.raw", there.display()).into(), &(BAD * BLOCK).into()),
            "{line}"
        );
        assert!((BAD * BLOCK..most).contains(&moved), "{words:?}: {moved} of {most}");
    }
    assert!(fs::read(&here).unwrap() == good);

    // The whole copy of a host that does not hash blocks.
    way("old");
    rot(&|| damage(&here, length));
    let (ended, line, moved) = repair(&[]);
    assert_eq!((ended.code, &line["bytes"]), (Some(0), &length.into()), "{}{}", ended.out(), ended.stderr);
    assert!(moved > length && fs::read(&here).unwrap() == good, "{moved}");

    // Nothing of a copy that is another one by the time its blocks are hashed.
    way("changed");
    rot(&|| damage(&here, length));
    let bad = fs::read(&here).unwrap();
    let (ended, line, _) = repair(&[]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(line.to_string().contains("it changed while it was read"), "{line}");
    assert!(fs::read(&here).unwrap() == bad);
}
