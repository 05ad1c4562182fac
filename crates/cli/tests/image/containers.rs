//! One content in many containers, all made by qemu-img, has one checksum.

use crate::common;

use std::path::{Path, PathBuf};

use common::{BLKSUM, Ended, VERISUM, blksum, command, image_sum, repository, stdin_of, values, verisum};
use serde_json::Value;
use verisum_testkit::{fill, require_python, require_tool};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Length of the content: not a whole number of the larger clusters.
const LENGTH: usize = 9 * MIB + 5 * KIB;

/// The tools, and a folder in which everything is made.
struct Shop {
    qemu_img: PathBuf,
    qemu_io: PathBuf,
    folder: tempfile::TempDir,
    content: Vec<u8>,
}

impl Shop {
    fn new() -> Option<Shop> {
        let (qemu_img, qemu_io) = (require_tool("qemu-img")?, require_tool("qemu-io")?);
        let folder = tempfile::tempdir().unwrap();
        let content = content();
        std::fs::write(folder.path().join("raw"), &content).unwrap();
        Some(Shop { qemu_img, qemu_io, folder, content })
    }

    /// Runs a tool in the folder.
    fn run(&self, tool: &Path, arguments: &[&str]) {
        let mut command = command(tool.to_str().unwrap());
        let output = command.args(arguments).current_dir(self.folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stdout));
    }

    fn img(&self, words: &str) {
        self.run(&self.qemu_img, &words.split(' ').collect::<Vec<_>>());
    }

    fn io(&self, image: &str, commands: &[String]) {
        let mut arguments: Vec<&str> = vec!["-t", "unsafe", "-f", "qcow2", image];
        arguments.extend(commands.iter().flat_map(|command| ["-c", command]));
        self.run(&self.qemu_io, &arguments);
    }

    /// Writes the content of these pieces into an image of the right length.
    fn write_pieces(&self, image: &str, pieces: impl Iterator<Item = usize>) {
        let commands: Vec<String> = pieces
            .map(|piece| {
                let (start, end) = (piece * PIECE, ((piece + 1) * PIECE).min(self.content.len()));
                let bytes = &self.content[start..end];
                if bytes.iter().all(|byte| *byte == 0) {
                    return format!("write -z {start} {}", end - start);
                }
                let name = format!("piece-{piece}");
                std::fs::write(self.folder.path().join(&name), bytes).unwrap();
                format!("write -s {name} {start} {}", end - start)
            })
            .collect();
        self.io(image, &commands);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The unit in which the layers of a chain have parts of the content: of no cluster size.
const PIECE: usize = 48 * KIB;

/// Zeros, data that can be compressed, and data that cannot, in parts of all sizes.
fn content() -> Vec<u8> {
    let mut content = vec![0; LENGTH];
    fill(&mut content[..300 * KIB], 7);
    fill(&mut content[512 * KIB..512 * KIB + 512], 1);
    fill(&mut content[3 * MIB..5 * MIB + 17 * 512], 3);
    fill(&mut content[LENGTH - 3 * 512..], 3);
    let mut state = 1_u64;
    for byte in &mut content[MIB..2 * MIB + 8 * KIB] {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 33) as u8;
    }
    for piece in (6 * MIB..8 * MIB).step_by(12 * KIB) {
        fill(&mut content[piece..piece + 4 * KIB], piece as u64);
    }
    content
}

/// What `qemu-img convert` is told to make another container of the same content.
const CONVERTED: &[(&str, &str)] = &[
    ("v2", "-o compat=0.10"),
    ("v2-512", "-o compat=0.10,cluster_size=512"),
    ("v2-4k", "-o compat=0.10,cluster_size=4k"),
    ("v2-2m", "-o compat=0.10,cluster_size=2M"),
    ("v3", "-o compat=1.1"),
    ("v3-512", "-o cluster_size=512"),
    ("v3-1k", "-o cluster_size=1k"),
    ("v3-8k", "-o cluster_size=8k"),
    ("v3-256k", "-o cluster_size=256k"),
    ("v3-1m", "-o cluster_size=1M"),
    ("v3-2m", "-o cluster_size=2M"),
    ("zlib-v2", "-c -o compat=0.10"),
    ("zlib-512", "-c -o cluster_size=512"),
    ("zlib-4k", "-c -o cluster_size=4k"),
    ("zlib", "-c"),
    ("zlib-1m", "-c -o cluster_size=1M"),
    ("zlib-2m", "-c -o cluster_size=2M"),
    ("zstd-512", "-c -o compression_type=zstd,cluster_size=512"),
    ("zstd-4k", "-c -o compression_type=zstd,cluster_size=4k"),
    ("zstd", "-c -o compression_type=zstd"),
    ("zstd-2m", "-c -o compression_type=zstd,cluster_size=2M"),
    ("zstd-plain", "-o compression_type=zstd"),
    ("extended-16k", "-o extended_l2=on,cluster_size=16k"),
    ("extended", "-o extended_l2=on"),
    ("extended-2m", "-o extended_l2=on,cluster_size=2M"),
    ("extended-zlib", "-c -o extended_l2=on"),
    ("extended-zstd", "-c -o extended_l2=on,compression_type=zstd,cluster_size=128k"),
    ("extended-metadata", "-o extended_l2=on,preallocation=metadata"),
    ("data-file", "-o data_file=data-file.data"),
    ("data-file-raw", "-o data_file=data-file-raw.data,data_file_raw=on"),
    ("data-file-512", "-o data_file=data-file-512.data,cluster_size=512"),
    ("metadata", "-o preallocation=metadata"),
    ("metadata-4k", "-o preallocation=metadata,cluster_size=4k"),
    ("falloc", "-o preallocation=falloc"),
    ("full", "-o preallocation=full"),
    ("unordered", "-W -m 16"),
    ("unordered-zlib", "-W -m 16 -c"),
    ("unordered-zstd-4k", "-W -m 16 -c -o compression_type=zstd,cluster_size=4k"),
    ("lazy", "-o lazy_refcounts=on"),
    ("refcount-1", "-o refcount_bits=1"),
    ("refcount-64", "-o refcount_bits=64"),
    ("sparse-never", "-S 0"),
    ("sparse-64k", "-S 64k"),
];

#[test]
fn every_container_has_the_checksum_of_its_content() {
    let Some(shop) = Shop::new() else { return };
    let Some(python) = require_python() else { return };
    let reference = command(python.to_str().unwrap())
        .arg(repository().join("reference/blockhash.py"))
        .arg(shop.path("raw"))
        .output()
        .unwrap();
    let wanted = Ended::of(reference).clean();
    let wanted = values(&wanted)[0];
    for (name, options) in CONVERTED {
        let words = match options.is_empty() {
            true => format!("convert -t unsafe -f raw -O qcow2 raw {name}"),
            false => format!("convert -t unsafe -f raw -O qcow2 {options} raw {name}"),
        };
        shop.img(&words);
        assert_value(&shop, name, wanted);
    }
    assert_eq!(values(&image_sum([shop.path("raw")]).clean()), [wanted]);
    for depth in 1..=5 {
        for (kind, options) in CHAINS {
            let name = format!("chain-{kind}-{depth}");
            chain(&shop, &name, depth, options);
            assert_value(&shop, &name, wanted);
        }
    }
}

/// Asserts that both programs give an image the value, and QEMU its content.
fn assert_value(shop: &Shop, name: &str, wanted: &str) {
    let path = shop.path(name);
    let info = shop.path("info");
    shop.img(&format!("convert -t unsafe -O raw {name} {}", info.display()));
    assert!(std::fs::read(&info).unwrap() == shop.content, "{name}: qemu-img");
    assert_eq!(values(&image_sum([&path]).clean()), [wanted], "{name}");
    assert_eq!(values(&image_sum(["--cache", "-t3", path.to_str().unwrap()]).clean()), [wanted], "{name}");
    assert_eq!(values(&blksum([&path]).clean()), [wanted], "{name}");
}

/// Kinds of chains: the format of the base, and options of the layers in turn.
const CHAINS: &[(&str, &[&str])] = &[
    ("plain", &["cluster_size=64k"]),
    ("mixed", &["raw", "cluster_size=4k", "extended_l2=on", "compat=0.10"]),
    ("sizes", &["cluster_size=2M", "cluster_size=512", "extended_l2=on,cluster_size=16k"]),
];

/// Makes a chain of `depth` overlays over a base. Each layer but the last is of another length than the
/// content, and has other bytes where a later one has those of the content.
fn chain(shop: &Shop, name: &str, depth: usize, options: &[&str]) {
    let pieces = LENGTH.div_ceil(PIECE);
    let mut backing = String::new();
    for layer in 0..=depth {
        let is_last = layer == depth;
        let image = if is_last { name.to_string() } else { format!("{name}.{layer}") };
        let option = options[layer % options.len()];
        // The bytes that a shorter layer hides must be those of the content again in a later one.
        let length = match layer {
            _ if is_last => LENGTH,
            0 if depth > 1 => LENGTH + 100 * KIB,
            _ => LENGTH - layer * 100 * KIB,
        };
        if layer == 0 && option == "raw" {
            let mut bytes = shop.content.clone();
            bytes.resize(length, 0xAA);
            for piece in (0..pieces).filter(|piece| layer_of(*piece, depth) > 0) {
                bytes[piece * PIECE..((piece + 1) * PIECE).min(LENGTH)].fill(0x55);
            }
            std::fs::write(shop.path(&image), bytes).unwrap();
            backing = format!("-b {image} -F raw ");
            continue;
        }
        let option = if option == "raw" { "compat=1.1" } else { option };
        shop.img(&format!("create -q -f qcow2 -o {option} {backing}{image} {length}"));
        let own = (0..pieces).filter(|piece| layer_of(*piece, depth) == layer);
        let own: Vec<usize> = own.filter(|piece| (piece + 1) * PIECE <= length || is_last).collect();
        if layer == 0 {
            shop.io(&image, &[format!("write -P 0x55 0 {length}")]);
        }
        if !own.is_empty() {
            shop.write_pieces(&image, own.into_iter());
        }
        backing = format!("-b {image} -F qcow2 ");
    }
}

/// Which layer of a chain has a piece. The last has all that a shorter one would cut off.
fn layer_of(piece: usize, depth: usize) -> usize {
    if (piece + 1) * PIECE > LENGTH - (depth + 1) * 100 * KIB { depth } else { piece * 7 % (depth + 1) }
}

#[test]
fn references_snapshots_and_doubts_are_said() {
    let Some(shop) = Shop::new() else { return };
    let name = |name: &str| shop.path(name).to_str().unwrap().to_string();
    let wanted = image_sum([shop.path("raw")]).clean();
    let wanted = values(&wanted)[0];

    // A file outside the folder.
    std::fs::create_dir(shop.path("inner")).unwrap();
    shop.img("create -q -f qcow2 -b ../raw -F raw inner/overlay");
    let overlay = name("inner/overlay");
    let message = "backing file ../raw: it lies outside the image's folder (--follow any opens it)";
    image_sum([&overlay]).failed(3, &format!("verisum: {overlay}: open: {message}"));
    assert_eq!(values(&image_sum(["--follow", "any", &overlay]).clean()), [wanted]);
    assert_eq!(values(&blksum([&overlay]).clean()), [wanted]);
    let message = "backing file ../raw: it is not to be followed (--follow any opens it)";
    image_sum(["--follow=none", &overlay]).failed(3, &format!("verisum: {overlay}: open: {message}"));

    // A snapshot.
    shop.img("convert -t unsafe -f raw -O qcow2 raw disk");
    let disk = name("disk");
    shop.img("snapshot -c monday disk");
    shop.io("disk", &["write -P 1 0 1M".to_string()]);
    assert_ne!(values(&image_sum([&disk]).clean()), [wanted]);
    for snapshot in ["monday", "1"] {
        assert_eq!(values(&image_sum(["--snapshot", snapshot, &disk]).clean()), [wanted]);
    }
    image_sum(["--snapshot", "x\ny", &disk])
        .failed(3, &format!("verisum: {disk}: open: no snapshot is called x\\ny (it has: monday)"));

    // By another name than the bytes have.
    let raw = name("raw");
    image_sum(["--format", "qcow2", &raw])
        .failed(3, &format!("verisum: {raw}: open at 0: not a qcow2 image"));
    assert_ne!(values(&image_sum(["--format", "raw", &disk]).clean()), [wanted]);

    // On standard input, where it has no name, and is read from any place all the same.
    shop.img("convert -t unsafe -f raw -O qcow2 -c raw packed");
    let packed = shop.path("packed");
    let mut sum = command(VERISUM);
    let on_stdin = sum.args(["image", "sum", "--untagged"]).stdin(stdin_of(&packed)).output().unwrap();
    assert_eq!(values(&Ended::of(on_stdin).clean()), [wanted]);
    let as_raw = Ended::of(command(BLKSUM).stdin(stdin_of(&packed)).output().unwrap()).clean();
    assert_ne!(values(&as_raw), [wanted]);

    // Not closed, and marked corrupt.
    let mut bytes = std::fs::read(&packed).unwrap();
    bytes[79] = 3;
    std::fs::write(&packed, bytes).unwrap();
    let packed = name("packed");
    for (program, ended) in [("verisum", image_sum([&packed])), ("blksum", blksum([&packed]))] {
        let said = ["it was not closed cleanly", "it is marked as corrupt"]
            .map(|what| format!("{program}: {packed}: WARNING: {what}\n"));
        assert_eq!((ended.code, &ended.stderr), (Some(0), &said.concat()));
        assert_eq!(values(ended.out()), [wanted]);
    }
}

#[test]
fn info_names_every_file_and_what_is_kept_inside() {
    let Some(shop) = Shop::new() else { return };
    let name = |name: &str| shop.path(name).to_str().unwrap().to_string();
    let info = |file: &str, options: &[&str]| {
        let ended = verisum([&["image", "info", "--json", &name(file)][..], options].concat());
        let json: Value = serde_json::from_str(ended.out()).unwrap();
        (ended, json)
    };
    let parts = |json: &Value| -> Vec<(String, String, Option<u64>)> {
        let text = |value: &Value| value.as_str().unwrap().to_string();
        let layers = json["layers"].as_array().unwrap().iter();
        layers.map(|l| (text(&l["role"]), text(&l["format"]), l["file_size"].as_u64())).collect()
    };
    let of = |role: &str, format: &str, length: Option<u64>| (role.to_string(), format.to_string(), length);

    // A data file, snapshots and bitmaps.
    shop.img("create -q -f qcow2 -o data_file=data.raw,data_file_raw=on data.qcow2 1M");
    let (_, json) = info("data.qcow2", &[]);
    assert_eq!(parts(&json)[1], of("data file", "raw", Some(1 << 20)));
    assert_eq!(json["layers"][0]["properties"]["version"], 3);
    shop.img("create -q -f qcow2 kept.qcow2 1M");
    shop.img("snapshot -c monday kept.qcow2");
    shop.img("bitmap --add -g 128k kept.qcow2 changes");
    let (_, json) = info("kept.qcow2", &["--snapshot", "monday"]);
    assert_eq!((&json["snapshots"][0]["id"], &json["snapshots"][0]["name"]), (&"1".into(), &"monday".into()));
    assert_eq!(
        (&json["snapshots"][0]["size"], &json["snapshots"][0]["state_size"]),
        (&1048576.into(), &0.into())
    );
    assert!(json["snapshots"][0]["date"].as_str().unwrap().starts_with("20"));
    assert_eq!(
        (&json["bitmaps"][0]["name"], &json["bitmaps"][0]["granularity"]),
        (&"changes".into(), &131072.into())
    );
    assert_eq!(json["layers"][0]["properties"]["snapshot"], "monday (identifier 1)");
    let text = verisum(["image", "info", &name("kept.qcow2")]).clean();
    for part in ["\nsnapshot 1: ", "monday, 20", ", 1 MiB\n", "changes, a bit for 128 KiB\n"] {
        assert!(text.contains(part), "{text}");
    }

    // Formats that QEMU reads.
    shop.img("create -q -f vmdk -o subformat=monolithicFlat flat.vmdk 1M");
    assert_eq!(parts(&info("flat.vmdk", &[]).1)[1], of("extent", "raw", Some(1 << 20)));
    shop.img("create -q -f qed low.qed 1M");
    shop.img("create -q -f qed -b low.qed -F qed top.qed");
    let (_, json) = info("top.qed", &[]);
    assert_eq!((parts(&json).len(), &*parts(&json)[1].0), (2, "backing file"));

    // What cannot be opened is told all the same.
    shop.img("create -q -f raw gone.raw 1M");
    shop.img("create -q -f qcow2 -b gone.raw -F raw middle.qcow2");
    shop.img("create -q -f qcow2 -b middle.qcow2 -F qcow2 top.qcow2");
    std::fs::remove_file(shop.path("gone.raw")).unwrap();
    let why =
        format!("{}: backing file {}: open: No such file or directory", name("top.qcow2"), name("gone.raw"));
    image_sum([name("top.qcow2")]).failed(3, &format!("verisum: {why}"));
    let (ended, json) = info("top.qcow2", &[]);
    assert_eq!((ended.code, ended.stderr), (Some(3), format!("verisum: {why}\n")));
    assert_eq!((parts(&json).len(), &json["errors"][0], &json["data"]), (2, &why.into(), &Value::Null));
    assert_eq!(json["layers"][1]["properties"]["backing_file"], "gone.raw");
    let (ended, json) = info("top.qcow2", &["--follow", "none"]);
    assert_eq!((ended.code, parts(&json).len(), &json["size"]), (Some(3), 1, &1048576.into()));
    assert_eq!(json["layers"][0]["properties"]["backing_file"], "middle.qcow2");
    std::fs::remove_file(shop.path("flat-flat.vmdk")).unwrap();
    let (ended, json) = info("flat.vmdk", &[]);
    assert_eq!((ended.code, parts(&json)[1].clone()), (Some(3), of("extent", "raw", None)));
    let mut bytes = std::fs::read(shop.path("kept.qcow2")).unwrap();
    bytes[35] = 2;
    std::fs::write(shop.path("kept.qcow2"), bytes).unwrap();
    let (ended, json) = info("kept.qcow2", &[]);
    assert_eq!((ended.code, &json["snapshots"][0]["name"]), (Some(3), &"monday".into()));
    assert_eq!(json["layers"][0]["properties"]["encryption"], "LUKS");
}
