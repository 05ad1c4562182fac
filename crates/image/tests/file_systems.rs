//! Every file system and a block device, direct and through the cache, give the bytes that were
//! written. One body for each promise; each runs on every kind.

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{all_extents, assert_holds, open, read, ways};
use verisum_image::{ExtentKind, Image, ImageError, OpenOptions};
use verisum_testkit::{
    FsKind, LoopDevice, Mount, Run, cache, content, edge_lengths, fill, paint, paint_at, runs_of,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// Contents that differ in what their beginning and end are.
const PATTERNS: [&[Run]; 5] = [
    &[Run::data(MIB)],
    &[Run::hole(MIB)],
    &[Run::data(64 * KIB), Run::hole(128 * KIB), Run::zero(64 * KIB)],
    &[Run::hole(70_001), Run::data(12_345)],
    &[Run::data(1), Run::hole(300_000), Run::data(4096)],
];

#[test]
fn ext4() {
    on_file_system(FsKind::Ext4);
}

#[test]
fn xfs() {
    on_file_system(FsKind::Xfs);
}

#[test]
fn btrfs() {
    on_file_system(FsKind::Btrfs);
}

#[test]
fn tmpfs() {
    on_file_system(FsKind::Tmpfs);
}

fn on_file_system(kind: FsKind) {
    let Some(mount) = Mount::new(kind, 512 * MIB) else { return };
    let path = mount.path().join("image");
    edge_lengths_are_read(&path);
    every_alignment_is_read(kind, &path);
    extents_are_those_painted(&path);
    preallocated_space_is_zeros(&path);
    bytes_not_yet_on_disk_are_read(&path);
    if kind != FsKind::Tmpfs {
        the_cache_is_left_alone(kind, &path);
    }
    let longest = if kind == FsKind::Ext4 { 16 * TIB - 4096 } else { 16 * TIB };
    long_sparse_files_are_mapped(&path, longest);
}

fn edge_lengths_are_read(path: &Path) {
    for length in edge_lengths(64 * KIB) {
        for pattern in PATTERNS {
            let runs = runs_of(pattern, length);
            paint(path, &runs).unwrap();
            for way in ways() {
                for sector_padding in [false, true] {
                    let image = open(path, &{
                        let mut options = way.clone();
                        options.sector_padding = sector_padding;
                        options
                    });
                    let padding = if sector_padding { (512 - length % 512) % 512 } else { 0 };
                    assert_eq!(image.padded_by(), padding);
                    assert_holds(&image, &content(&runs));
                }
            }
        }
    }
}

fn every_alignment_is_read(kind: FsKind, path: &Path) {
    let runs = [Run::data(150_001), Run::hole(100_000), Run::data(33), Run::zero(9000), Run::data(70_000)];
    paint(path, &runs).unwrap();
    let expected = std::fs::read(path).unwrap();
    assert!(expected == content(&runs));
    let length = expected.len() as u64;
    for way in ways() {
        let image = open(path, &way);
        for offset in [0, 1, 255, 511, 512, 513, 4095, 4096, 4097, 65_536, 150_000, 151_552, length - 5000] {
            for count in [0, 1, 511, 512, 513, 4096, 5000, 8192, 65_536, 100_001, length] {
                let range = offset..length.min(offset + count);
                for shift in [0, 1, 8, 511, 512, 4095] {
                    let bytes = read(&image, range.clone(), shift).unwrap();
                    let wanted = &expected[range.start as usize..range.end as usize];
                    assert!(bytes == wanted, "{range:?} into a buffer shifted by {shift}");
                }
            }
        }
        // No direct read was tried that the file system had to refuse; tmpfs may refuse them all.
        if kind != FsKind::Tmpfs {
            assert_eq!(image.is_direct(), !way.cache);
        }
    }
}

fn extents_are_those_painted(path: &Path) {
    let runs = [
        Run::hole(256 * KIB),
        Run::data(64 * KIB),
        Run::hole(64 * KIB),
        Run::zero(128 * KIB),
        Run::data(64 * KIB),
        Run::hole(MIB),
        Run::data(192 * KIB),
        Run::hole(64 * KIB + 7),
    ];
    paint(path, &runs).unwrap();
    let (data, zero) = (ExtentKind::Data, ExtentKind::Zero);
    let mut painted = vec![
        (0..256 * KIB, zero),
        (256 * KIB..320 * KIB, data),
        (320 * KIB..384 * KIB, zero),
        (384 * KIB..576 * KIB, data),
        (576 * KIB..1600 * KIB, zero),
        (1600 * KIB..1792 * KIB, data),
        (1792 * KIB..1856 * KIB + 7, zero),
    ];
    for sector_padding in [false, true] {
        for way in ways() {
            let image = open(path, &{
                let mut options = way.clone();
                options.sector_padding = sector_padding;
                options
            });
            for step in [u64::MAX, MIB, 64 * KIB, 10_007] {
                let found = all_extents(&image, step);
                let found: Vec<_> = found.into_iter().map(|extent| (extent.range, extent.kind)).collect();
                assert_eq!(found, painted, "in steps of {step}");
            }
        }
        painted.last_mut().unwrap().0.end = 1856 * KIB + 512;
    }
}

fn preallocated_space_is_zeros(path: &Path) {
    let file = File::create(path).unwrap();
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&file, flags, 0, MIB).unwrap();
    paint_at(&file, 0, &[Run::hole(512 * KIB), Run::data(64 * KIB)]).unwrap();
    for way in ways() {
        assert_holds(
            &open(path, &way),
            &content(&[Run::hole(512 * KIB), Run::data(64 * KIB), Run::hole(448 * KIB)]),
        );
    }
}

fn bytes_not_yet_on_disk_are_read(path: &Path) {
    paint(path, &[Run::zero(4 * MIB)]).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    file.sync_all().unwrap();
    let images = ways().map(|way| open(path, &way));
    let mut bytes = vec![0; 4 * MIB as usize];
    // All of it, which is then in the cache, and a part, so that direct reads find some of it there.
    for (round, pieces) in [(1, 64), (2, 64), (3, 5), (4, 64), (5, 1), (6, 7), (7, 64)] {
        cache::forget(path).unwrap();
        for piece in (0..64).step_by(64_usize.div_ceil(pieces)) {
            let start = piece * 64 * KIB as usize;
            let part = &mut bytes[start..start + 64 * KIB as usize];
            fill(part, round + start as u64);
            file.write_all_at(part, start as u64).unwrap();
        }
        for image in &images {
            assert!(read(image, 0..4 * MIB, 0).unwrap() == bytes, "round {round}");
            assert!(image.modified_during());
        }
    }
}

/// Direct reads neither bring in what was not cached nor drop what was.
fn the_cache_is_left_alone(kind: FsKind, path: &Path) {
    let length = 3 * MIB + 777;
    paint(path, &[Run::data(length)]).unwrap();
    cache::forget(path).unwrap();
    let image = open(path, &OpenOptions::default());
    let read_all = || {
        assert_holds(&image, &content(&[Run::data(length)]));
        // Not aligned, so that all of it goes through the page cache, and leaves it again where the file
        // system can (Btrfs cannot in Linux 6.18).
        if kind != FsKind::Btrfs {
            read(&image, MIB + 1..2 * MIB + 2, 1).unwrap();
        }
        cache::resident(path)
    };
    let Some(resident) = read_all() else { return };
    assert!(resident <= 64 * KIB, "{resident} bytes were brought in");
    let from_disk = || -> Option<u64> {
        let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        counts.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
    };
    // The kernel may take pages away at any time for reasons of its own, but not every time.
    let is_used_and_kept = || {
        // A page that a read asked not to keep, and that stayed, stays marked: it must go first.
        cache::forget(path).unwrap();
        assert_eq!(std::fs::read(path).unwrap().len() as u64, length);
        let before = (from_disk(), cache::resident(path));
        let after = (read_all(), from_disk());
        before == (after.1, after.0) && after.0 >= Some(length)
    };
    assert!((0..5).any(|_| is_used_and_kept()), "what is cached is not read from the disk, and stays");
    cache::forget(path).unwrap();
    let before = from_disk();
    read_all();
    assert!(from_disk() >= before.map(|bytes| bytes + length), "what is not cached is");
}

fn long_sparse_files_are_mapped(path: &Path, length: u64) {
    // ext4 gives back the blocks of a truncated file later, and has few of them here.
    std::fs::remove_file(path).unwrap();
    let file = File::create(path).unwrap();
    if let Err(error) = file.set_len(length) {
        panic!("a file of {length} bytes: {error}");
    }
    let middle = 5 * TIB + 64 * KIB;
    paint_at(&file, middle, &[Run::data(64 * KIB)]).unwrap();
    paint_at(&file, length - 4096, &[Run::data(4096)]).unwrap();
    for way in ways() {
        let image = open(path, &way);
        assert_eq!(image.length(), length);
        for step in [u64::MAX, TIB / 16] {
            let data: Vec<_> = all_extents(&image, step)
                .into_iter()
                .filter(|extent| extent.kind == ExtentKind::Data)
                .map(|extent| extent.range)
                .collect();
            assert_eq!(data, [middle..middle + 64 * KIB, length - 4096..length]);
        }
        assert!(read(&image, length - 4096..length, 0).unwrap() == content(&[Run::data(4096)]));
        assert!(read(&image, length - 8192..length - 4096, 0).unwrap() == [0; 4096]);
        assert!(read(&image, middle..middle + 100, 0).unwrap() == content(&[Run::data(100)]));
    }
}

#[test]
fn block_device() {
    let runs = [Run::data(MIB + 512), Run::zero(MIB), Run::data(512 * 33)];
    let folder = tempfile::tempdir().unwrap();
    let backing = folder.path().join("backing");
    paint(&backing, &runs).unwrap();
    let Some(device) = LoopDevice::new(&backing) else { return };
    let expected = content(&runs);
    for way in ways() {
        let image = open(device.path(), &way);
        assert_holds(&image, &expected);
        assert_eq!(all_extents(&image, u64::MAX).len(), 1);
        assert!(read(&image, 511..70_001, 3).unwrap() == expected[511..70_001]);
        assert_eq!(image.is_direct(), !way.cache);
    }
    // What was written to the device's cache is seen.
    let file = File::options().write(true).open(device.path()).unwrap();
    file.write_all_at(&[9; 5000], 100_000).unwrap();
    for way in ways() {
        assert!(read(&open(device.path(), &way), 98_304..110_592, 0).unwrap()[1696..6696] == [9; 5000]);
    }
}

/// Direct reads fit a device whose sectors are larger than those of its users.
#[test]
fn device_with_large_sectors() {
    let folder = tempfile::tempdir().unwrap();
    let backing = folder.path().join("backing");
    let runs = [Run::data(MIB)];
    paint(&backing, &runs).unwrap();
    let Some(device) = LoopDevice::with_sectors(&backing, 4096) else { return };
    for way in ways() {
        let image = open(device.path(), &way);
        assert_holds(&image, &content(&runs));
        assert!(read(&image, 512..1024, 0).unwrap() == content(&runs)[512..1024]);
    }
}

#[test]
fn what_is_no_image_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let cases = [
        (folder.path(), "open: Is a directory"),
        (Path::new("/dev/null"), "open: Is a character device"),
        (&socket, "open: Is a socket"),
        (&folder.path().join("none"), "open: No such file or directory"),
        (Path::new("/dev/null/x"), "open: Not a directory"),
    ];
    for (path, message) in cases {
        for way in ways() {
            let error = verisum_image::open(path, &way).unwrap_err();
            assert_eq!(error.to_string(), format!("{}: {message}", path.display()));
            assert_eq!(error.to_string(), verisum_image::RawImage::open(path, &way).unwrap_err().to_string());
        }
    }
    let loop_link = folder.path().join("link");
    std::os::unix::fs::symlink(&loop_link, &loop_link).unwrap();
    assert!(matches!(verisum_image::open(&loop_link, &ways()[0]), Err(ImageError::Io { .. })));
}
