//! Random histories of an image, made by qemu-io and qemu-img, read as QEMU reads them.
//!
//! `PROPTEST_CASES=500 cargo test -p verisum-image --test qcow2_random` tries many.

mod common;

use std::path::Path;
use std::process::Command;

use common::assert_holds;
use proptest::prelude::*;
use verisum_image::{Follow, OpenOptions, Opened};
use verisum_testkit::require_tool;

const KIB: u64 = 1 << 10;

/// Length of the first layer in bytes, and of the clusters that are written as wholes.
const LENGTH: u64 = 512 * KIB;

/// Something that happens to an image.
#[derive(Clone, Debug)]
enum Event {
    /// Sectors are written: where, how many, what.
    Write(u64, u64, u8),
    Zero(u64, u64),
    ZeroUnmap(u64, u64),
    Discard(u64, u64),
    /// A cluster is written compressed.
    Compress(u64, u8),
    /// The disk gets another length, in sectors.
    Resize(u64),
    /// An internal snapshot is made.
    Snapshot,
    /// A new overlay with these options; events go on there.
    Overlay(usize),
}

/// Options of layers, and the length of their clusters.
const LAYERS: [(&str, u64); 9] = [
    ("cluster_size=64k", 64 * KIB),
    ("cluster_size=512", 512),
    ("cluster_size=4k", 4 * KIB),
    ("cluster_size=4k,compat=0.10", 4 * KIB),
    ("cluster_size=64k,extended_l2=on", 64 * KIB),
    ("cluster_size=16k,extended_l2=on,compression_type=zstd", 16 * KIB),
    ("cluster_size=2M", 2048 * KIB),
    ("cluster_size=8k,compression_type=zstd", 8 * KIB),
    ("cluster_size=32k,preallocation=metadata", 32 * KIB),
];

fn event() -> impl Strategy<Value = Event> {
    let place = || (0..LENGTH / 512, 1..200_u64);
    prop_oneof![
        6 => (place(), 1..=255_u8).prop_map(|((at, len), byte)| Event::Write(at, len, byte)),
        2 => place().prop_map(|(at, len)| Event::Zero(at, len)),
        1 => place().prop_map(|(at, len)| Event::ZeroUnmap(at, len)),
        2 => place().prop_map(|(at, len)| Event::Discard(at, len)),
        3 => (0..LENGTH / 512, 1..=255_u8).prop_map(|(at, byte)| Event::Compress(at, byte)),
        1 => (LENGTH / 1024..LENGTH / 256).prop_map(Event::Resize),
        1 => Just(Event::Snapshot),
        2 => (0..LAYERS.len()).prop_map(Event::Overlay),
    ]
}

/// An image with its backing files in a folder.
struct History<'a> {
    folder: &'a Path,
    layer: usize,
    cluster: u64,
    length: u64,
    snapshots: usize,
    commands: Vec<String>,
}

impl History<'_> {
    fn name(&self) -> String {
        format!("layer{}", self.layer)
    }

    fn run(&self, tool: &str, arguments: &[&str]) {
        let output = Command::new(tool).args(arguments).current_dir(self.folder).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tool} {arguments:?}: {said}");
    }

    /// Whether a tool could do something.
    fn try_run(&self, tool: &str, arguments: &[&str]) -> bool {
        Command::new(tool).args(arguments).current_dir(self.folder).output().unwrap().status.success()
    }

    /// What was gathered happens.
    fn flush(&mut self) {
        if self.commands.is_empty() {
            return;
        }
        let name = self.name();
        let mut arguments = vec!["-f", "qcow2", "-d", "unmap", "-t", "unsafe", &name];
        arguments.extend(self.commands.iter().flat_map(|command| ["-c", command]));
        // Some of them are refused, such as to compress a cluster that is there already.
        let output = Command::new("qemu-io").args(&arguments).current_dir(self.folder).output().unwrap();
        assert!(output.status.code().is_some_and(|code| code < 2), "{arguments:?}: {output:?}");
        self.commands.clear();
    }

    fn happens(&mut self, event: &Event) {
        let within = |at: u64, len: u64, end: u64| {
            let at = at * 512 % end;
            (at, (len * 512).min(end - at))
        };
        let command = match *event {
            Event::Write(at, len, byte) => {
                let (at, len) = within(at, len, self.length);
                format!("write -P {byte} {at} {len}")
            }
            Event::Zero(at, len) => {
                let (at, len) = within(at, len, self.length);
                format!("write -z {at} {len}")
            }
            Event::ZeroUnmap(at, len) => {
                let (at, len) = within(at, len, self.length);
                format!("write -z -u {at} {len}")
            }
            Event::Discard(at, len) => {
                let (at, len) = within(at, len, self.length);
                format!("discard {at} {len}")
            }
            Event::Compress(at, byte) => {
                let at = at * 512 % self.length / self.cluster * self.cluster;
                if at + self.cluster > self.length {
                    return;
                }
                format!("write -c -P {byte} {at} {}", self.cluster)
            }
            Event::Resize(sectors) => {
                self.flush();
                let (name, length) = (self.name(), sectors * 512);
                let text = length.to_string();
                // QEMU refuses it for some images with snapshots, and for those that it found corrupt.
                if self.try_run("qemu-img", &["resize", "-q", "--shrink", "-f", "qcow2", &name, &text]) {
                    self.length = length;
                }
                return;
            }
            Event::Snapshot => {
                self.flush();
                let name = format!("s{}", self.snapshots + 1);
                if self.try_run("qemu-img", &["snapshot", "-c", &name, &self.name()]) {
                    self.snapshots += 1;
                }
                return;
            }
            Event::Overlay(options) => {
                self.flush();
                let backing = self.name();
                self.layer += 1;
                self.create(options, &["-b", &backing, "-F", "qcow2"]);
                return;
            }
        };
        self.commands.push(command);
    }

    fn create(&mut self, options: usize, backing: &[&str]) {
        let (options, cluster) = LAYERS[options];
        let (name, length) = (self.name(), self.length.to_string());
        // Clusters that are allocated hide what backs them.
        let options = match backing.is_empty() {
            true => options.to_string(),
            false => options.replace(",preallocation=metadata", ""),
        };
        let mut arguments = vec!["create", "-q", "-f", "qcow2", "-o", &options];
        arguments.extend(backing);
        arguments.extend([name.as_str(), &length]);
        self.run("qemu-img", &arguments);
        self.cluster = cluster;
        self.snapshots = 0;
    }

    /// The bytes as QEMU sees them.
    fn seen_by_qemu(&self) -> Vec<u8> {
        self.run("qemu-img", &["convert", "-t", "unsafe", "-f", "qcow2", "-O", "raw", &self.name(), "raw"]);
        std::fs::read(self.folder.join("raw")).unwrap()
    }
}

fn check(path: &Path, snapshot: Option<String>, wanted: &[u8]) {
    for cache in [true, false] {
        for follow in [Follow::SameDir, Follow::Any] {
            let snapshot = snapshot.clone();
            let mut options = OpenOptions::default();
            options.cache = cache;
            options.follow = follow;
            options.snapshot = snapshot;
            match verisum_image::open(path, &options).unwrap() {
                Opened::Image(image) => assert_holds(&*image, wanted),
                Opened::Stream(_) => panic!("it is a file"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // Each case runs several processes. `PROPTEST_CASES` tries more of them.
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(12),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    })]

    #[test]
    fn histories_read_as_qemu_reads_them(
        first in 0..LAYERS.len(),
        events in proptest::collection::vec(event(), 1..40),
    ) {
        if require_tool("qemu-img").is_none() || require_tool("qemu-io").is_none() {
            return Ok(());
        }
        let folder = tempfile::tempdir().unwrap();
        let mut history = History {
            folder: folder.path(), layer: 0, cluster: 0, length: LENGTH, snapshots: 0, commands: Vec::new(),
        };
        history.create(first, &[]);
        // The states that the current layer's snapshots keep.
        let mut states: Vec<(String, Vec<u8>)> = Vec::new();
        for event in &events {
            history.happens(event);
            match event {
                Event::Snapshot if history.snapshots > states.len() => states.push((format!("s{}", history.snapshots), history.seen_by_qemu())),
                Event::Overlay(_) => states.clear(),
                _ => {}
            }
        }
        history.flush();
        let path = folder.path().join(history.name());
        check(&path, None, &history.seen_by_qemu());
        for (name, state) in states {
            check(&path, Some(name), &state);
        }
    }
}
