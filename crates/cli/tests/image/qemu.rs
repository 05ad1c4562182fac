//! Formats that QEMU decodes: the guest's content has one value in all of them, no other file is read that
//! may not be, and no process and no file is left behind, however verisum ends.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{Ended, VERISUM, command, image_sum, start, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use verisum_testkit::{Run, paint, require_tool};

const MIB: u64 = 1 << 20;

/// A folder with an image in many formats.
struct Shop {
    qemu_img: PathBuf,
    folder: tempfile::TempDir,
}

impl Shop {
    fn new() -> Option<Shop> {
        let (qemu_img, _) = (require_tool("qemu-img")?, require_tool("qemu-nbd")?);
        let folder = tempfile::tempdir().unwrap();
        let runs =
            [Run::data(3 * MIB), Run::hole(8 * MIB), Run::data(70_000), Run::zero(MIB), Run::data(18_064)];
        paint(&folder.path().join("raw"), &runs).unwrap();
        Some(Shop { qemu_img, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs qemu-img in the folder.
    #[track_caller]
    fn img(&self, words: &str) {
        let output = Command::new(&self.qemu_img)
            .args(words.split(' '))
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs `verisum image sum` in the folder.
    fn sum(&self, arguments: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        command.args(["image", "sum", "--untagged"]).args(arguments).current_dir(self.folder.path());
        Ended::of(command.output().unwrap())
    }

    /// Asserts that an image, the last of the arguments, is refused for what it refers to.
    #[track_caller]
    fn refuses(&self, arguments: &[&str], why: &str) {
        let name = arguments.last().unwrap();
        let message = format!("verisum: {name}: open: {why} (--follow any opens it)");
        self.sum(arguments).failed(3, &message);
    }

    /// The value of an image.
    #[track_caller]
    fn value(&self, arguments: &[&str]) -> String {
        self.sum(arguments).clean().split(' ').next().unwrap().to_string()
    }
}

/// The processes that have this text in their command line.
fn processes_with(text: &str) -> Vec<i32> {
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has = |number: &i32| {
        let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        line.windows(text.len()).any(|window| window == text.as_bytes())
    };
    numbers.filter(has).collect()
}

#[test]
fn one_content_has_one_value_in_every_format() {
    let Some(shop) = Shop::new() else { return };
    let value = shop.value(&["raw"]);
    let formats = [
        "vmdk -o subformat=monolithicSparse",
        "vmdk -o subformat=monolithicFlat",
        "vmdk -o subformat=twoGbMaxExtentSparse",
        "vmdk -o subformat=twoGbMaxExtentFlat",
        "vmdk -o subformat=streamOptimized",
        "vmdk -o compat6=on",
        "vmdk -o zeroed_grain=on",
        "vdi",
        "vdi -o static=on",
        "vhdx -o subformat=dynamic",
        "vhdx -o subformat=fixed",
        "vhdx -o block_size=2M",
        "vpc -o subformat=dynamic,force_size=on",
        "vpc -o subformat=fixed,force_size=on",
        "qed",
        "qed -o cluster_size=4096",
        "parallels",
        "qcow",
    ];
    for (number, format) in formats.iter().enumerate() {
        let name = format!("image {number}");
        let (kind, options) = format.split_once(' ').map_or((*format, ""), |(kind, rest)| (kind, rest));
        let words = format!("convert -O {kind} {options} raw");
        let words: Vec<&str> = words.split_ascii_whitespace().collect();
        let made = Command::new(&shop.qemu_img)
            .args(words)
            .arg(format!("./{name}"))
            .current_dir(shop.folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{format}: {}", String::from_utf8_lossy(&made.stderr));
        assert_eq!(shop.value(&[&name]), value, "{format}");
        // The name as it is, and by a path.
        let path = shop.path(&name);
        let ended = image_sum(["--threads=1", "--format", kind, path.to_str().unwrap()]);
        assert!(ended.clean().starts_with(&value), "{format}");
    }
}

#[test]
fn sizes_that_a_format_rounds_up_are_those_that_qemu_shows() {
    let Some(shop) = Shop::new() else { return };
    for subformat in ["dynamic", "fixed"] {
        shop.img(&format!("convert -O vpc -o subformat={subformat} raw {subformat}"));
        shop.img(&format!("convert -f vpc -O raw {subformat} {subformat}.raw"));
        let value = shop.value(&["--format=raw", &format!("{subformat}.raw")]);
        assert_eq!(shop.value(&["--format=vpc", subformat]), value);
        assert_ne!(shop.value(&["raw"]), value, "the size was rounded up");
    }
}

#[test]
fn other_files_are_read_only_if_they_may_be() {
    let Some(shop) = Shop::new() else { return };
    let value = shop.value(&["raw"]);
    shop.img("convert -O vmdk -o subformat=monolithicFlat raw flat.vmdk");
    shop.img("convert -O vmdk raw base.vmdk");
    shop.img("create -q -f vmdk -b base.vmdk -F vmdk over.vmdk");
    shop.img("create -q -f qed -b raw -F raw over.qed");
    shop.img("convert -O vdi raw base.vdi");
    shop.img("create -q -f qed -b base.vdi -F vdi guessed.qed");
    for (name, role, reference) in [
        ("flat.vmdk", "extent", "flat-flat.vmdk"),
        ("over.vmdk", "backing file", "base.vmdk"),
        ("over.qed", "backing file", "raw"),
    ] {
        assert_eq!(shop.value(&[name]), value);
        assert_eq!(shop.value(&["--follow=any", name]), value);
        let why = "other files are not followed";
        shop.refuses(&["--follow=none", name], &format!("{role} {reference}: {why}"));
    }
    assert_eq!(shop.value(&["--follow=any", "guessed.qed"]), value);
    shop.refuses(&["guessed.qed"], "backing file base.vdi: its format is not recorded, and is not guessed");

    // A description that leads elsewhere, by ways that QEMU would go.
    fs::create_dir(shop.path("below")).unwrap();
    let description = fs::read_to_string(shop.path("flat.vmdk")).unwrap();
    std::os::unix::fs::symlink("../flat-flat.vmdk", shop.path("below/link")).unwrap();
    let absolute = shop.path("flat-flat.vmdk");
    for reference in ["../flat-flat.vmdk", "link", absolute.to_str().unwrap(), "/dev/zero"] {
        let hostile = description.replace("flat-flat.vmdk", reference);
        for hostile in [hostile.replace("FLAT \"", "FLAT\n \""), hostile] {
            fs::write(shop.path("below/image"), hostile).unwrap();
            let why = "is no file in the image's folder";
            shop.refuses(&["--format=vmdk", "below/image"], &format!("extent {reference}: {why}"));
        }
    }
    let hostile = description.replace("flat-flat.vmdk", "nbd:localhost:1");
    fs::write(shop.path("below/image"), hostile).unwrap();
    shop.refuses(&["below/image"], "extent nbd:localhost:1: is a name of a protocol");
}

#[test]
fn images_that_qemu_would_misread_are_refused() {
    let Some(shop) = Shop::new() else { return };
    shop.img("convert -O vpc raw image.vhd");
    let mut bytes = fs::read(shop.path("image.vhd")).unwrap();
    // The type in the footer and in its copy at the start: a differencing image.
    let last = bytes.len() - 512;
    for footer in [0, last] {
        assert_eq!(bytes[footer + 63], 3);
        bytes[footer + 63] = 4;
    }
    fs::write(shop.path("image.vhd"), &bytes).unwrap();
    let message = "is a differencing image, which needs a parent that QEMU does not read";
    shop.sum(&["image.vhd"]).failed(3, &format!("verisum: image.vhd: open: {message}"));

    shop.img("convert -O vhdx raw image.vhdx");
    let mut bytes = fs::read(shop.path("image.vhdx")).unwrap();
    // The item of the file's parameters is the first of the metadata, 64 KiB after their table.
    let table = bytes.windows(8).position(|window| window == b"metadata").unwrap();
    let parameters = table + (64 << 10);
    assert_eq!(bytes[parameters + 4], 0);
    bytes[parameters + 4] = 2;
    fs::write(shop.path("image.vhdx"), &bytes).unwrap();
    shop.sum(&["--follow=any", "image.vhdx"]).failed(3, &format!("verisum: image.vhdx: open: {message}"));
}

#[test]
fn a_truncated_image_is_an_error() {
    let Some(shop) = Shop::new() else { return };
    for format in [
        "vdi",
        "vdi -o static=on",
        "parallels",
        "vmdk",
        "vmdk -o subformat=streamOptimized",
        "vmdk -o subformat=monolithicFlat",
        "vmdk -o subformat=twoGbMaxExtentSparse",
        "vhdx",
        "vpc",
        "qed",
    ] {
        shop.img(&format!("convert -O {format} raw image"));
        let kind = format.split(' ').next().unwrap();
        let arguments = ["--format", kind, "image"];
        let value = shop.value(&arguments);
        let data = ["image-flat", "image-s001"].into_iter().find(|name| shop.path(name).exists());
        let data = shop.path(data.unwrap_or("image"));
        let file = fs::File::options().write(true).open(&data).unwrap();
        let length = file.metadata().unwrap().len();
        for keep in [length - 4096, length / 2] {
            file.set_len(keep).unwrap();
            let ended = shop.sum(&arguments);
            if keep > length / 2 && ended.code == Some(0) {
                // What was cut lies after the end of the disk.
                assert!(ended.clean().starts_with(&value), "{format}, {keep} of {length} bytes");
                continue;
            }
            assert_eq!((ended.code, ended.out()), (Some(3), ""), "{format}, {keep} of {length} bytes");
            assert_eq!(ended.stderr.lines().count(), 1);
        }
        fs::remove_file(data).unwrap();
    }
}

#[test]
fn what_cannot_be_decoded_is_said() {
    let Some(shop) = Shop::new() else { return };
    shop.img("convert -O vdi raw image.vdi");
    let message = "VDI images on standard input are not read: give the name of the file";
    let mut stdin = command(VERISUM);
    let ended = stdin
        .args(["image", "sum", "--untagged"])
        .stdin(common::stdin_of(&shop.path("image.vdi")))
        .output()
        .unwrap();
    Ended::of(ended).failed(3, &format!("verisum: standard input: open: {message}"));
    shop.sum(&["--snapshot=x", "image.vdi"])
        .failed(3, "verisum: image.vdi: open: snapshots inside VDI images are not read");
    let mut without = command(VERISUM);
    without.args(["image", "sum", "--untagged"]).arg(shop.path("image.vdi")).env("PATH", "/nonexistent");
    let why = "VDI images need qemu-nbd, which is not installed (Debian package qemu-utils)";
    let name = shop.path("image.vdi");
    Ended::of(without.output().unwrap()).failed(3, &format!("verisum: {}: open: {why}", name.display()));
    fs::write(shop.path("damaged.vdi"), &fs::read(shop.path("image.vdi")).unwrap()[..300]).unwrap();
    let ended = shop.sum(&["damaged.vdi"]);
    assert!(ended.stderr.starts_with("verisum: damaged.vdi: open: qemu-nbd: "), "{ended:?}");
    assert_eq!((ended.code, ended.out(), ended.stderr.lines().count()), (Some(3), "", 1));
}

/// A run that takes seconds: every two bytes are a block.
fn slow(path: &Path, temporary: &Path) -> Command {
    let mut command = command(VERISUM);
    command.args(["image", "sum", "--untagged", "-t2", "--block-size=2"]).arg(path);
    command.env("VERISUM_KERNEL", "portable").env("TMPDIR", temporary);
    command
}

#[test]
fn nothing_is_left_behind_however_it_ends() {
    let Some(shop) = Shop::new() else { return };
    shop.img("convert -O vdi raw image.vdi");
    let (image, temporary) = (shop.path("image.vdi"), tempfile::tempdir().unwrap());
    let text = image.to_str().unwrap();
    for round in 0..36_u64 {
        let child = start(&mut slow(&image, temporary.path()));
        // At any moment, and more often while the server starts.
        thread::sleep(Duration::from_micros(round * round * 97 % 60_000));
        let signal = [Signal::KILL, Signal::KILL, Signal::INT, Signal::TERM][round as usize % 4];
        common::signal(&child, signal);
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!((ended.code, ended.out(), ended.stderr.as_str()), (None, "", ""), "{signal:?}");
        wait_until("no process has the image", || processes_with(text).is_empty());
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    }
    let before = fs::read_dir(shop.folder.path()).unwrap().count();
    assert_eq!(image_sum([text]).code, Some(0));
    assert!(processes_with(text).is_empty(), "a normal end waits for the server's");
    assert_eq!(fs::read_dir(shop.folder.path()).unwrap().count(), before);
}

#[test]
fn a_decoder_that_dies_is_an_error() {
    let Some(shop) = Shop::new() else { return };
    shop.img("convert -O vdi raw image.vdi");
    let image = shop.path("image.vdi");
    let mut child = start(&mut slow(&image, shop.folder.path()));
    let server = || {
        let own = i32::try_from(child.id()).unwrap();
        processes_with(image.to_str().unwrap()).into_iter().find(|&number| {
            let name = fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
            number != own && name.trim() == "qemu-nbd"
        })
    };
    let mut found = None;
    wait_until("the server runs", || {
        found = server();
        found.is_some()
    });
    thread::sleep(Duration::from_millis(100));
    kill_process(Pid::from_raw(found.unwrap()).unwrap(), Signal::KILL).unwrap();
    assert!(child.wait().is_ok());
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.out(), ended.stderr.lines().count()), (Some(3), "", 1), "{ended:?}");
    assert!(ended.stderr.starts_with(&format!("verisum: {}: ", image.display())), "{ended:?}");
}
