//! Files that change while they are read, and files that cannot be read everywhere.

mod common;

use std::fs::File;
use std::io;

use common::{assert_holds, open, read, ways};
use verisum_image::{Image, ImageError, ImageOperation};
use verisum_testkit::{Run, content, data_byte, fault, paint};

const LENGTH: u64 = 1 << 20;

/// A painted file in a folder of its own, open for writing.
fn painted() -> (tempfile::TempDir, std::path::PathBuf, File) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    paint(&path, &[Run::data(LENGTH)]).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    (folder, path, file)
}

#[test]
fn shrinking_is_an_error() {
    for way in ways() {
        for after in [0, 1, 4096, 500_000, LENGTH - 1] {
            let (_folder, path, file) = painted();
            let image = open(&path, &way);
            file.set_len(after).unwrap();
            for range in [0..LENGTH, LENGTH - 4096..LENGTH, LENGTH - 1..LENGTH] {
                let error = read(&image, range, 0).unwrap_err();
                assert!(
                    matches!(&error, ImageError::Changed { before: LENGTH, after: a, .. } if *a == after),
                    "{error}"
                );
            }
            let message = format!(
                "{}: read: the file changed while it was read ({LENGTH} bytes, then {after})",
                path.display()
            );
            assert_eq!(image.check_unchanged().unwrap_err().to_string(), message);
            assert!(image.modified_during());
            // The length that was promised is kept, and every byte of it is in some extent.
            assert_eq!(image.length(), LENGTH);
            let extents = common::all_extents(&image, u64::MAX);
            assert_eq!(extents.last().unwrap().range.end, LENGTH);
        }
    }
}

#[test]
fn growing_is_an_error_after_the_last_read() {
    for way in ways() {
        for after in [LENGTH + 1, LENGTH + 4096] {
            let (_folder, path, file) = painted();
            let image = open(&path, &{
                let mut options = way.clone();
                options.sector_padding = true;
                options
            });
            file.set_len(after).unwrap();
            assert!(read(&image, 0..LENGTH, 0).unwrap() == content(&[Run::data(LENGTH)]));
            let error = image.check_unchanged().unwrap_err();
            assert!(matches!(error, ImageError::Changed { before: LENGTH, after: a, .. } if a == after));
        }
    }
}

#[test]
fn an_old_length_restored_shows_as_modified() {
    let (_folder, path, file) = painted();
    let image = open(&path, &ways()[0]);
    assert!(!image.modified_during());
    // The clock of files ticks a few hundred times a second.
    std::thread::sleep(std::time::Duration::from_millis(20));
    file.set_len(5).unwrap();
    file.set_len(LENGTH).unwrap();
    image.check_unchanged().unwrap();
    assert!(image.modified_during());
}

#[test]
fn a_removed_or_replaced_file_is_still_the_one_opened() {
    for way in ways() {
        let (_folder, path, _file) = painted();
        let image = open(&path, &way);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another").unwrap();
        assert!(read(&image, 0..LENGTH, 0).unwrap() == content(&[Run::data(LENGTH)]));
        image.check_unchanged().unwrap();
    }
}

/// Asserts that an error is the kernel's `EIO` for a read at `offset`.
fn assert_eio(error: &ImageError, offset: u64) {
    assert!(error.to_string().ends_with(&format!("image: read at {offset}: Input/output error")), "{error}");
    let ImageError::Io { operation: ImageOperation::Read, offset: Some(place), source, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(*place, offset);
    let eio = rustix::io::Errno::IO.raw_os_error();
    assert_eq!(source.raw_os_error(), io::Error::from_raw_os_error(eio).raw_os_error());
}

#[test]
fn a_bad_block_is_an_error_that_names_its_place() {
    let Some(bad) = fault::btrfs_bad_file() else { return };
    let path = bad.path.with_file_name("image");
    std::fs::rename(&bad.path, &path).unwrap();
    for way in ways() {
        let image = open(&path, &way);
        for range in [0..bad.length, bad.bad_offset..bad.bad_offset + 4096] {
            assert_eio(&read(&image, range, 0).unwrap_err(), bad.bad_offset);
        }
        // In the middle of the block, through the page cache either way.
        let inside = bad.bad_offset + 100;
        assert_eio(&read(&image, inside..inside + 10, 0).unwrap_err(), inside);
        let before = read(&image, 0..bad.bad_offset, 0).unwrap();
        assert!(before.iter().enumerate().all(|(i, &byte)| byte == data_byte(i as u64)));
        let good = bad.bad_offset + 4096;
        assert_eq!(read(&image, good..bad.length, 0).unwrap()[0], data_byte(good));
        image.check_unchanged().unwrap();
    }
}

#[test]
fn a_device_that_fails_is_an_error_and_may_recover() {
    let bytes = content(&[Run::data(LENGTH)]);
    let Some(file) = fault::SwitchedFile::new(&bytes) else { return };
    for way in ways() {
        let image = open(&file.path(), &way);
        file.fail(true);
        assert_eio(&read(&image, 65_536..LENGTH, 0).unwrap_err(), 65_536);
        file.fail(false);
        assert_holds(&image, &bytes);
    }
}
