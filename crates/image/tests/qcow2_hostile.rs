//! qcow2 images that nobody made in good faith: each ends in one clear error, in no time.

mod common;

use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use verisum_image::{Follow, Image, ImageError, ImageFormat, OpenOptions, Opened};

/// The clusters of the images made here.
const CLUSTER: usize = 512;

/// What lies in which cluster of [`sound`].
const L1: usize = CLUSTER;
const L2: usize = 2 * CLUSTER;
const DATA: usize = 3 * CLUSTER;

const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;

/// An image with one cluster of data, and two L1 entries of which the second is empty.
fn sound() -> Vec<u8> {
    let mut image = vec![0; DATA + CLUSTER];
    image[..4].copy_from_slice(b"QFI\xfb");
    put32(&mut image, 4, 3);
    put32(&mut image, 20, 9);
    put64(&mut image, 24, 64 << 10);
    put32(&mut image, 36, 2);
    put64(&mut image, 40, L1 as u64);
    put32(&mut image, 96, 4);
    put32(&mut image, 100, 112);
    put64(&mut image, L1, COPIED | L2 as u64);
    put64(&mut image, L2, COPIED | DATA as u64);
    image[DATA..].fill(7);
    image
}

fn put32(image: &mut [u8], place: usize, value: u32) {
    image[place..place + 4].copy_from_slice(&value.to_be_bytes());
}

fn put64(image: &mut [u8], place: usize, value: u64) {
    image[place..place + 8].copy_from_slice(&value.to_be_bytes());
}

/// Adds a header extension at the end of those that are there.
fn extension(image: &mut [u8], kind: u32, data: &[u8]) {
    let mut place = 112;
    while image[place..place + 4] != [0; 4] {
        let len = u32::from_be_bytes(image[place + 4..place + 8].try_into().unwrap());
        place += 8 + (len as usize).next_multiple_of(8);
    }
    put32(image, place, kind);
    put32(image, place + 4, data.len() as u32);
    image[place + 8..place + 8 + data.len()].copy_from_slice(data);
}

/// Gives an image a backing file of a format.
fn backed_by(image: &mut [u8], name: &str, format: Option<&str>) {
    const NAME: usize = 400;
    if let Some(format) = format {
        extension(image, 0xe279_2aca, format.as_bytes());
    }
    put64(image, 8, NAME as u64);
    put32(image, 16, name.len() as u32);
    image[NAME..NAME + name.len()].copy_from_slice(name.as_bytes());
}

fn open(path: &Path, options: &OpenOptions) -> Result<Box<dyn Image>, ImageError> {
    match verisum_image::open(path, options)? {
        Opened::Image(image) => Ok(image),
        Opened::Stream(_) => panic!("it is a file"),
    }
}

/// All bytes of an image, read as its extents say.
fn read_all(path: &Path, options: &OpenOptions) -> Result<Vec<u8>, ImageError> {
    let image = open(path, options)?;
    let mut bytes = vec![0; image.length() as usize];
    let mut extents = Vec::new();
    let mut position = 0;
    while position < image.length() {
        image.extents(position..image.length(), &mut extents)?;
        position = extents.last().unwrap().range.end;
    }
    image.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// A folder for images.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The message of an error, without the name of the folder.
    #[track_caller]
    fn error_of(&self, path: &Path, options: &OpenOptions) -> String {
        let error = read_all(path, options).expect_err("it must not be read");
        error.to_string().replace(&format!("{}/", self.0.path().display()), "")
    }
}

#[test]
fn the_sound_image_is_read() {
    let folder = Folder::new();
    let path = folder.put("image", &sound());
    let mut wanted = vec![0; 64 << 10];
    wanted[..CLUSTER].fill(7);
    assert!(read_all(&path, &OpenOptions::default()).unwrap() == wanted);
}

#[test]
fn numbers_that_cannot_be_are_named() {
    type Edit = fn(&mut Vec<u8>);
    let cases: &[(Edit, &str)] = &[
        (|i| put32(i, 4, 4), "open: qcow2 version 4 is not known"),
        (|i| put32(i, 4, 0), "open: qcow2 version 0 is not known"),
        (|i| put32(i, 20, 8), "open at 20: cluster size of 2^8 bytes"),
        (|i| put32(i, 20, 22), "open at 20: cluster size of 2^22 bytes"),
        (|i| put32(i, 20, u32::MAX), "open at 20: cluster size of 2^4294967295 bytes"),
        (|i| put32(i, 100, 103), "open at 100: header length 103"),
        (|i| put32(i, 100, 513), "open at 100: header length 513"),
        (|i| put32(i, 100, u32::MAX), "open at 100: header length 4294967295"),
        (|i| put64(i, 24, u64::MAX), "open at 24: length of 18446744073709551104 bytes"),
        (|i| put64(i, 24, 1 << 62), "open at 40: L1 table of 2 entries for 4611686018427387904 bytes"),
        (|i| put64(i, 24, (64 << 10) + 512), "open at 40: L1 table of 2 entries for 66048 bytes"),
        (|i| put32(i, 36, 1), "open at 40: L1 table of 1 entries for 65536 bytes"),
        (|i| put32(i, 36, u32::MAX), "open at 40: L1 table of 4294967295 entries"),
        (|i| put32(i, 36, 300), "open at 40: L1 table at 512, outside the file"),
        (|i| put64(i, 40, 0), "open at 40: L1 table at 0, over the header"),
        (|i| put64(i, 40, 520), "open at 40: L1 table at 520, which is not aligned"),
        (|i| put64(i, 40, u64::MAX - 511), "open at 40: L1 table at 18446744073709551104, outside the file"),
        (|i| put64(i, 8, 513), "open at 8: backing file name at 513"),
        (|i| put64(i, 8, 50), "open at 8: backing file name at 50"),
        (
            |i| {
                put64(i, 8, 400);
                put32(i, 16, 113);
            },
            "open at 16: backing file name of 113 bytes at 400",
        ),
        (
            |i| {
                put32(i, 112, 1);
                put32(i, 116, u32::MAX);
            },
            "open at 112: header extension reaches beyond its place",
        ),
        (|i| put32(i, 32, 1), "open: encrypted images (AES) are not supported"),
        (|i| put32(i, 32, 2), "open: encrypted images (LUKS) are not supported"),
        (|i| put32(i, 32, 3), "open: encryption method 3 is not known"),
        (|i| put64(i, 72, 1 << 5 | 1 << 63), "open: it needs a feature that is not known: bit 5, bit 63"),
        (|i| i[104] = 1, "open at 104: compression type and feature bit disagree"),
        (|i| put64(i, 72, 1 << 3), "open at 104: compression type and feature bit disagree"),
        (
            |i| {
                put64(i, 72, 1 << 3);
                i[104] = 9;
            },
            "open: compression type 9 is not known",
        ),
        (|i| put64(i, 72, 1 << 4), "open at 20: clusters of 512 bytes with subclusters"),
        (|i| put64(i, 72, 1 << 2), "open: its data is in another file, whose name is not recorded"),
        (|i| i.truncate(71), "open at 0: too short for a qcow2 header"),
        (|i| i.truncate(300), "open at 40: L1 table at 512, outside the file"),
        (|i| put64(i, L1, 1000 << 9), "map at 512: L2 table at 512000, outside the file"),
        (
            |i| put64(i, L1, 0x00ff_ffff_ffff_fe00),
            "map at 512: L2 table at 72057594037927424, outside the file",
        ),
        (|i| put64(i, L1 + 8, L1 as u64), "map at 520: L2 table at 512, over the header or the L1 table"),
        (|i| put64(i, L2, 1000 << 9), "map at 1024: data cluster at 512000, outside the file"),
        (|i| put64(i, L2, COMPRESSED | 5000), "map at 1024: compressed cluster at 5000, outside the file"),
        (
            |i| {
                put32(i, 4, 2);
                put64(i, L2 + 8, 1);
            },
            "map at 1032: zero cluster in an image of version 2",
        ),
        (|i| put64(i, L2, COMPRESSED | DATA as u64), "read at 1536: compressed cluster is damaged: "),
    ];
    let folder = Folder::new();
    for (edit, message) in cases {
        let mut image = sound();
        edit(&mut image);
        let error = folder.error_of(&folder.put("image", &image), &forced());
        assert!(error.starts_with(&format!("image: {message}")), "{error}\n{message}");
        assert!(!error.contains('\n'));
    }
}

/// The usual options but for one.
fn with(change: impl FnOnce(&mut OpenOptions)) -> OpenOptions {
    let mut options = OpenOptions::default();
    change(&mut options);
    options
}

/// As qcow2, whatever the first bytes are.
fn forced() -> OpenOptions {
    with(|options| options.format = Some(ImageFormat::Qcow2))
}

#[test]
fn unaligned_offsets_are_named() {
    let mut image = sound();
    image.resize(64 << 10, 0);
    // Clusters of 1 KiB, so that there are offsets that are not aligned.
    put32(&mut image, 20, 10);
    put32(&mut image, 36, 1);
    put64(&mut image, 24, 64 << 10);
    put64(&mut image, 40, 1 << 10);
    put64(&mut image, 1 << 10, 3 << 9);
    let folder = Folder::new();
    let error = folder.error_of(&folder.put("image", &image), &OpenOptions::default());
    assert_eq!(error, "image: map at 1024: L2 table at 1536, which is not aligned");
    put64(&mut image, 1 << 10, 2 << 10);
    put64(&mut image, 2 << 10, 7 << 9);
    let error = folder.error_of(&folder.put("image", &image), &OpenOptions::default());
    assert_eq!(error, "image: map at 2048: data cluster at 3584, which is not aligned");
}

#[test]
fn every_cut_and_every_changed_byte_ends_well() {
    let folder = Folder::new();
    let image = sound();
    for len in (0..image.len()).step_by(7) {
        let _ = read_all(&folder.put("cut", &image[..len]), &forced());
    }
    for place in (0..240).chain(L1..L1 + 16).chain(L2..L2 + 16) {
        for bits in [0x01, 0x80, 0xff] {
            let mut image = image.clone();
            image[place] ^= bits;
            let path = folder.put("changed", &image);
            // The length is the guest's to choose, and reading it all may take as long.
            if let Ok(image) = open(&path, &forced()) {
                let end = image.length().min(1 << 20);
                let _ = image.extents(0..image.length(), &mut Vec::new());
                let _ = image.read_at(&mut vec![0; end as usize], 0);
            }
        }
    }
}

#[test]
fn one_l2_table_for_many_entries_is_refused() {
    let mut image = sound();
    // A table of 64 entries that all name the same L2 table: 2 MiB out of a file of 3 KiB.
    image.resize(DATA + 2 * CLUSTER, 0);
    put64(&mut image, 24, 64 * (32 << 10));
    put32(&mut image, 36, 64);
    for entry in 0..64 {
        put64(&mut image, L1 + 8 * entry, L2 as u64);
    }
    let folder = Folder::new();
    let error = folder.error_of(&folder.put("image", &image), &OpenOptions::default());
    assert_eq!(error, "image: map at 512: more L2 tables than the file has room for");
}

#[test]
fn features_are_refused_by_their_names() {
    let mut image = sound();
    put64(&mut image, 72, 1 << 5);
    let mut name = [0; 48];
    name[1] = 5;
    name[2..9].copy_from_slice(b"trouble");
    extension(&mut image, 0x6803_f857, &name);
    let folder = Folder::new();
    let error = folder.error_of(&folder.put("image", &image), &OpenOptions::default());
    assert_eq!(error, "image: open: it needs a feature that is not known: trouble");
}

#[test]
fn what_is_doubtful_is_said_and_read() {
    let folder = Folder::new();
    let mut image = sound();
    put64(&mut image, 72, 0b11);
    let path = folder.put("image", &image);
    assert_eq!(read_all(&path, &OpenOptions::default()).unwrap()[0], 7);
    let layers = open(&path, &OpenOptions::default()).unwrap().layers();
    assert_eq!(layers.len(), 1);
    assert_eq!(layers[0].warnings, ["it was not closed cleanly", "it is marked as corrupt"]);
}

/// Puts compressed bytes in place of the data of an image.
fn with_compressed(method: u8, bytes: &[u8]) -> Vec<u8> {
    let mut image = sound();
    image.truncate(DATA);
    image.extend_from_slice(bytes);
    if method > 0 {
        put64(&mut image, 72, 1 << 3);
        image[104] = method;
    }
    let sectors = (bytes.len() as u64).div_ceil(512) - 1;
    put64(&mut image, L2, COMPRESSED | sectors << 61 | DATA as u64);
    image
}

#[test]
fn compressed_clusters_hold_a_cluster_and_no_more() {
    let zlib = |content: &[u8]| {
        let mut packed = vec![0; content.len() + 100];
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let len = compressor.deflate_compress(content, &mut packed).unwrap();
        packed.truncate(len);
        packed
    };
    let zstd = |content: &[u8]| zstd::bulk::compress(content, 3).unwrap();
    let folder = Folder::new();
    let good = vec![9; CLUSTER];
    // Two frames may make a cluster.
    let frames = [zstd(&good[..100]), zstd(&good[100..])].concat();
    let padded = [zstd(&good), vec![0xff; 100]].concat();
    for (method, bytes) in [
        (0, zlib(&good)),
        (0, [zlib(&good), vec![1; 90]].concat()),
        (1, zstd(&good)),
        (1, frames),
        (1, padded),
    ] {
        let path = folder.put("image", &with_compressed(method, &bytes));
        assert!(read_all(&path, &OpenOptions::default()).unwrap()[..CLUSTER] == good);
    }
    // One that says it needs 2 GiB of memory.
    let mut window = zstd(&[]);
    window.truncate(4);
    window.extend_from_slice(&[0, 0xa8, 1, 0, 0]);
    let bombs: [(u8, Vec<u8>, &str); 6] = [
        (0, zlib(&good[1..]), "compressed cluster holds 511 bytes only"),
        (0, zlib(&[9; 1 << 20])[..512].to_vec(), "compressed cluster is damaged"),
        (1, zstd(&good[1..]), "compressed cluster holds 511 bytes only"),
        (1, zstd(&[9; 1 << 20]), "compressed cluster holds more than a cluster"),
        (1, zstd(&good)[..15].to_vec(), "compressed cluster holds"),
        (1, window, "compressed cluster is damaged"),
    ];
    for (method, bytes, message) in bombs {
        let error =
            folder.error_of(&folder.put("image", &with_compressed(method, &bytes)), &OpenOptions::default());
        assert!(error.starts_with(&format!("image: read at 1536: {message}")), "{error}");
    }
}

#[test]
fn snapshots_are_found_and_their_tables_checked() {
    let folder = Folder::new();
    let mut image = sound();
    image.resize(DATA + 2 * CLUSTER, 0);
    let table = DATA + CLUSTER;
    put32(&mut image, 60, 1);
    put64(&mut image, 64, table as u64);
    put64(&mut image, table, L1 as u64);
    put32(&mut image, table + 8, 1);
    image[table + 13] = 1;
    image[table + 15] = 4;
    put32(&mut image, table + 36, 16);
    put64(&mut image, table + 48, 4096);
    image[table + 56..table + 61].copy_from_slice(b"1name");
    let named = |name: &str| with(|options| options.snapshot = Some(name.to_string()));
    let path = folder.put("image", &image);
    for name in ["1", "name"] {
        let bytes = read_all(&path, &named(name)).unwrap();
        assert!(bytes.len() == 4096 && bytes[0] == 7);
    }
    let error = |image: &[u8], name| folder.error_of(&folder.put("image", image), &named(name));
    assert_eq!(error(&image, "2"), "image: open: no snapshot is called 2 (it has: name)");
    assert_eq!(error(&sound(), "2"), "image: open: no snapshot is called 2 (it has none)");
    let edited = |edit: fn(&mut Vec<u8>)| {
        let mut image = image.clone();
        edit(&mut image);
        error(&image, "1")
    };
    assert_eq!(edited(|i| put32(i, 60, u32::MAX)), "image: open at 60: 4294967295 snapshots");
    assert_eq!(edited(|i| put64(i, 64, 5)), "image: open at 64: snapshots at 5, which is not aligned");
    assert_eq!(
        edited(|i| put64(i, 64, u64::MAX - 511)),
        "image: open at 18446744073709551104: snapshots reach outside the file or their limit"
    );
    assert_eq!(
        edited(|i| put32(i, DATA + CLUSTER + 36, u32::MAX)),
        "image: open at 2088: 4294967295 bytes of extra data of a snapshot"
    );
    assert_eq!(
        edited(|i| put64(i, DATA + CLUSTER, 1 << 50)),
        "image: open at 2048: L1 table at 1125899906842624, outside the file"
    );
    let raw = folder.put("raw", &[0; 4096]);
    assert_eq!(folder.error_of(&raw, &named("1")), "raw: open: a raw image has no snapshots");
}

#[test]
fn references_stay_inside_the_folder() {
    let outside = Folder::new();
    let secret = outside.put("secret", &[5; 64 << 10]);
    let folder = Folder::new();
    let own = folder.put("base", &[6; 64 << 10]);
    symlink(&secret, folder.0.path().join("link")).unwrap();
    symlink("base", folder.0.path().join("inner")).unwrap();
    symlink(outside.0.path(), folder.0.path().join("out")).unwrap();
    std::fs::create_dir(folder.0.path().join("below")).unwrap();
    folder.put("below/base", &[6; 64 << 10]);
    let dots = format!("../{}/secret", outside.0.path().file_name().unwrap().to_str().unwrap());
    let json =
        format!(r#"json:{{"driver":"raw","file":{{"driver":"file","filename":"{}"}}}}"#, secret.display());

    let image = |name: &str| {
        let mut image = sound();
        // Names are longer than a cluster of 512 has room for.
        image.resize(4096, 0);
        backed_by(&mut image, name, Some("raw"));
        folder.put("image", &image)
    };
    let following = |follow| with(|options| options.follow = follow);
    for name in ["base", "./base", "inner", "below/base", "below/../base", own.to_str().unwrap()] {
        let path = image(name);
        for follow in [Follow::SameDir, Follow::Any] {
            assert_eq!(read_all(&path, &following(follow)).unwrap()[600], 6, "{name}");
        }
        let error = folder.error_of(&path, &following(Follow::None));
        assert!(error.ends_with("it is not to be followed"), "{error}");
    }
    for name in ["link", "out/secret", &dots, secret.to_str().unwrap(), &json] {
        let path = image(name);
        assert_eq!(read_all(&path, &following(Follow::Any)).unwrap()[600], 5, "{name}");
        let error = read_all(&path, &OpenOptions::default()).unwrap_err();
        assert!(matches!(error, ImageError::Reference { role: "backing file", .. }), "{name}: {error}");
    }
    for name in ["nbd://localhost/x", "nbd:localhost:1", "ssh://h/x", "fat:/etc", "a:b"] {
        // What no option opens comes with no advice to give one.
        for follow in [Follow::SameDir, Follow::Any] {
            let error = read_all(&image(name), &following(follow)).unwrap_err();
            assert!(matches!(error, ImageError::Refused { .. }), "{name}: {error}");
        }
    }
    for name in [".", "below", "/dev/null", "none"] {
        for follow in [Follow::SameDir, Follow::Any] {
            assert!(read_all(&image(name), &following(follow)).is_err(), "{name}");
        }
    }
}

#[test]
fn data_files_stay_inside_the_folder() {
    let folder = Folder::new();
    let mut image = sound();
    put64(&mut image, 72, 1 << 2);
    extension(&mut image, 0x4441_5441, b"/etc/passwd");
    put64(&mut image, L2, COPIED);
    let path = folder.put("image", &image);
    let error = read_all(&path, &OpenOptions::default()).unwrap_err();
    assert!(matches!(error, ImageError::Reference { role: "data file", .. }), "{error}");
    let any = with(|options| options.follow = Follow::Any);
    assert_eq!(read_all(&path, &any).unwrap()[..4], std::fs::read("/etc/passwd").unwrap()[..4]);
    // A compressed cluster has no place in another file.
    put64(&mut image, L2, COMPRESSED);
    let error = folder.error_of(&folder.put("image", &image), &any);
    assert_eq!(error, "image: map at 1024: compressed cluster in an image with an external data file");
}

#[test]
fn a_guest_cannot_make_its_raw_disk_something_else() {
    let folder = Folder::new();
    let mut base = sound();
    backed_by(&mut base, "/etc/passwd", Some("raw"));
    base.resize(64 << 10, 0);
    folder.put("base", &base);
    let mut image = sound();
    put64(&mut image, L2, 0);
    backed_by(&mut image, "base", Some("raw"));
    let path = folder.put("image", &image);
    for follow in [Follow::SameDir, Follow::Any] {
        let options = with(|options| options.follow = follow);
        assert!(read_all(&path, &options).unwrap() == base);
    }
    // Where it is not recorded, it is told from the bytes, said, and goes nowhere else.
    let mut image = sound();
    backed_by(&mut image, "base", None);
    let path = folder.put("image", &image);
    let error = read_all(&path, &OpenOptions::default()).unwrap_err();
    let ImageError::Behind { role: "backing file", source, .. } = &error else { panic!("{error}") };
    assert!(matches!(**source, ImageError::Reference { .. }), "{error}");
    folder.put("base", &sound());
    let layers = open(&path, &OpenOptions::default()).unwrap().layers();
    assert_eq!(layers.len(), 2);
    assert!(layers[0].warnings[0].contains("is not recorded; it looks like qcow2"), "{:?}", layers[0]);
    // Asked for as raw, nothing is decoded or followed.
    let raw = with(|options| options.format = Some(ImageFormat::Raw));
    assert!(read_all(&path, &raw).unwrap() == image);
}

#[test]
fn chains_end() {
    let folder = Folder::new();
    let member = |name: &str, backing: &str| {
        let mut image = sound();
        backed_by(&mut image, backing, Some("qcow2"));
        folder.put(name, &image)
    };
    let own = member("a", "a");
    assert_eq!(folder.error_of(&own, &OpenOptions::default()), "a: open: its backing files lead back to it");
    let ring = member("a", "b");
    member("b", "c");
    member("c", "./b");
    let error = folder.error_of(&ring, &OpenOptions::default());
    assert_eq!(error, "a: backing file ./b: open: its backing files lead back to it");

    for number in 0..300 {
        member(&format!("n{number}"), &format!("n{}", number + 1));
    }
    let error = folder.error_of(&folder.0.path().join("n0"), &OpenOptions::default());
    assert_eq!(error, "n0: open: more than 256 backing files");
    folder.put("n200", &sound());
    let image = open(&folder.0.path().join("n0"), &OpenOptions::default()).unwrap();
    assert_eq!(image.layers().len(), 201);
}

#[test]
fn a_huge_sparse_image_costs_little() {
    let folder = Folder::new();
    // 2 EiB in clusters of 2 MiB, with an L1 table of 32 MiB that is a hole but for its last entry.
    let cluster = 2_u64 << 20;
    let mut header = sound();
    header.truncate(CLUSTER);
    put32(&mut header, 20, 21);
    put64(&mut header, 24, 1 << 61);
    put32(&mut header, 36, 4 << 20);
    put64(&mut header, 40, cluster);
    let path = folder.put("image", &header);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let table = cluster + (32 << 20);
    file.set_len(table + 2 * cluster).unwrap();
    file.write_all_at(&table.to_be_bytes(), table - 8).unwrap();
    file.write_all_at(&(table + cluster).to_be_bytes(), table + cluster - 8).unwrap();
    let image = open(&path, &OpenOptions::default()).unwrap();
    let (mut extents, mut position, mut calls) = (Vec::new(), 0, 0);
    while position < image.length() {
        image.extents(position..image.length(), &mut extents).unwrap();
        position = extents.last().unwrap().range.end;
        calls += 1;
    }
    assert!(calls < 10, "{calls}");
    assert_eq!(image.length(), 1 << 61);
    let mut end = [1; 4096];
    image.read_at(&mut end, (1 << 61) - 4096).unwrap();
    assert_eq!(end, [0; 4096]);
}

#[test]
fn data_is_named_once() {
    let folder = Folder::new();
    let options = OpenOptions::default();
    let mut image = sound();
    put64(&mut image, L1 + 8, COPIED | L2 as u64);
    let error = folder.error_of(&folder.put("l2", &image), &options);
    assert_eq!(error, "l2: map at 512: L2 table at 1024, overlapping with itself: two entries name it");
    let mut image = sound();
    put64(&mut image, L2 + 40, COPIED | DATA as u64);
    let error = folder.error_of(&folder.put("data", &image), &options);
    assert_eq!(error, "data: map at 1064: data cluster at 1536, overlapping with that of another entry");
    // A few compressed clusters may be the same, but no table full of them.
    let mut image = sound();
    for entry in 0..16 {
        put64(&mut image, L2 + entry * 8, COMPRESSED | DATA as u64);
    }
    let opened = open(&folder.put("compressed", &image), &options).unwrap();
    opened.extents(0..512, &mut Vec::new()).unwrap();
    put64(&mut image, L2 + 16 * 8, COMPRESSED | DATA as u64);
    let error = folder.error_of(&folder.put("compressed", &image), &options);
    assert_eq!(
        error,
        "compressed: map at 1152: data cluster at 1536, overlapping with that of another entry"
    );
}

#[test]
fn empty_tables_of_a_long_chain_take_no_time() {
    const LINKS: usize = 250;
    const ENTRIES: u32 = 4 << 20;
    let folder = Folder::new();
    for link in 0..LINKS {
        let mut image = vec![0; CLUSTER];
        image.copy_from_slice(&sound()[..CLUSTER]);
        put64(&mut image, 24, u64::from(ENTRIES) * (32 << 10));
        put32(&mut image, 36, ENTRIES);
        if link + 1 < LINKS {
            backed_by(&mut image, &format!("{}", link + 1), Some("qcow2"));
        }
        let path = folder.put(&link.to_string(), &image);
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(CLUSTER as u64 + u64::from(ENTRIES) * 8).unwrap();
    }
    let image = open(&folder.0.path().join("0"), &OpenOptions::default()).unwrap();
    let mut extents = Vec::new();
    image.extents(0..image.length(), &mut extents).unwrap();
    assert_eq!(extents.len(), 1);
    assert!(extents[0].kind.is_zero() && extents[0].range == (0..image.length()));
}
