//! Pipes, sockets, files of the kernel, and standard input in all its forms.

mod common;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use verisum_image::{
    Detect, ExtentKind, ImageError, ImageFormat, OpenOptions, Opened, Stream, open, open_stdin,
};
use verisum_testkit::{LoopDevice, Run, content, paint, require_tool};

const MIB: u64 = 1 << 20;

fn stream(path: &Path) -> Stream {
    let mut options = OpenOptions::default();
    // Nothing is read before the test reads it.
    options.detect = Detect::Raw;
    match open(path, &options).unwrap() {
        Opened::Stream(stream) => stream,
        Opened::Image(_) => panic!("{} is an image", path.display()),
    }
}

#[test]
fn a_named_pipe_is_read_to_its_end() {
    let bytes = content(&[Run::data(3 * MIB + 1)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let Some(mkfifo) = require_tool("mkfifo") else { return };
    assert!(Command::new(mkfifo).arg(&path).status().unwrap().success());
    // It is never waited for where only an image will do.
    let error = verisum_image::RawImage::open(&path, &OpenOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: open: Is a pipe", path.display()));

    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            let mut pipe = File::options().write(true).open(&path).unwrap();
            // Pieces of all sizes, with a pause: what is read at once is less than what is asked for.
            for piece in bytes.chunks(70_001) {
                pipe.write_all(piece).unwrap();
            }
            pipe.flush().unwrap();
        });
        let mut stream = stream(&path);
        let mut buffer = vec![0; MIB as usize];
        let mut all = Vec::new();
        loop {
            let count = stream.fill(&mut buffer).unwrap();
            all.extend_from_slice(&buffer[..count]);
            if count < buffer.len() {
                break;
            }
        }
        assert_eq!(stream.position(), bytes.len() as u64);
        assert_eq!(stream.fill(&mut buffer).unwrap(), 0);
        assert!(all == bytes);
    });
}

#[test]
fn a_pipe_named_by_its_descriptor_is_read() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    for folder in ["/dev/fd", "/proc/self/fd"] {
        let mut stream = stream(&Path::new(folder).join(reader.as_raw_fd().to_string()));
        assert!(rustix::pipe::fcntl_getpipe_size(&reader).unwrap() > 65_536, "the buffer is larger");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                writer.write_all(b"one").unwrap();
                std::thread::sleep(Duration::from_millis(20));
                writer.write_all(b"two").unwrap();
            });
            let mut bytes = [0; 6];
            assert_eq!(stream.fill(&mut bytes).unwrap(), 6);
            assert_eq!(&bytes, b"onetwo");
        });
    }
    drop(writer);
}

#[test]
fn a_pipe_is_raw_and_padded_where_that_is_wanted() {
    let open_pipe = |bytes: &[u8], options: &OpenOptions| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(bytes).unwrap();
        drop(writer);
        open(Path::new(&format!("/dev/fd/{}", reader.as_raw_fd())), options)
    };
    let qcow2 = b"QFI\xfb\0\0\0\x03rest";
    let mut options = OpenOptions::default();
    options.stream_padding = true;
    let error = open_pipe(qcow2, &options).unwrap_err();
    assert!(matches!(error, ImageError::Piped { format: ImageFormat::Qcow2, .. }), "{error}");
    assert!(error.to_string().ends_with("open: qcow2 images cannot be read from a pipe"), "{error}");
    // Whoever says that it is raw means its bytes.
    options.format = Some(ImageFormat::Raw);
    for (padding, length) in [(true, 512), (false, qcow2.len())] {
        options.stream_padding = padding;
        let Opened::Stream(mut stream) = open_pipe(qcow2, &options).unwrap() else { panic!("it is a pipe") };
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        assert!(bytes.starts_with(qcow2) && bytes.len() == length);
    }
    options.format = Some(ImageFormat::Qcow2);
    assert!(open_pipe(b"raw", &options).is_err());
}

#[test]
fn looking_ahead_takes_nothing_and_padding_follows_the_end() {
    for length in [0, 1, 3, 511, 512, 513, 5000] {
        for (look, pads) in [(0, true), (4, true), (4, false), (600, true), (9000, true)] {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let mut expected = content(&[Run::data(length)]);
            writer.write_all(&expected).unwrap();
            let mut stream = stream(Path::new(&format!("/dev/fd/{}", reader.as_raw_fd())));
            drop(writer);
            if pads {
                stream.pad_to_sectors();
            }
            for look in [look, look / 2, look] {
                assert_eq!(stream.peek(look).unwrap(), &expected[..look.min(length as usize)]);
            }
            assert_eq!((stream.position(), stream.padded_by()), (0, 0));
            let mut bytes = vec![0xEE; 8192];
            // In two parts, of which the second ends with the padding.
            let first = stream.fill(&mut bytes[..3]).unwrap();
            let count = first + stream.fill(&mut bytes[first..]).unwrap();
            expected.resize(if pads { length.next_multiple_of(512) } else { length } as usize, 0);
            assert!(bytes[..count] == expected, "{length} bytes, {look} looked at");
            assert_eq!(stream.padded_by(), expected.len() as u64 - length);
            assert_eq!(stream.position(), count as u64);
            assert_eq!(stream.fill(&mut bytes).unwrap(), 0);
        }
    }
}

#[test]
fn files_of_the_kernel_are_streams() {
    for path in ["/proc/version", "/proc/self/maps", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        let Ok(expected) = std::fs::read(path) else { continue };
        let mut bytes = Vec::new();
        stream(path.as_ref()).read_to_end(&mut bytes).unwrap();
        assert!(!bytes.is_empty());
        if path != "/proc/self/maps" {
            assert_eq!(bytes, expected, "{path}");
        }
    }
    // The first read fails: that is for the reader to say, not to be taken for an empty file.
    let error = stream("/proc/self/mem".as_ref()).fill(&mut [0; 16]).unwrap_err();
    assert_eq!(error.to_string(), "/proc/self/mem: read at 0: Input/output error");
}

/// What a child that had `input` as its standard input says of it: a line, then the bytes it read.
fn as_stdin(input: impl Into<Stdio>, options: &str) -> (String, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child"])
        .env("REPORT", &report)
        .env("OPTIONS", options)
        .stdin(input)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let report = std::fs::read(report).unwrap();
    let end = report.iter().position(|&byte| byte == b'\n').unwrap();
    (String::from_utf8(report[..end].to_vec()).unwrap(), report[end + 1..].to_vec())
}

/// Not a test: the child of [`as_stdin`].
#[test]
#[ignore = "reads standard input for other tests"]
fn child() {
    let Some(path) = std::env::var_os("REPORT") else { return };
    let mut report = File::create(path).unwrap();
    let wanted = std::env::var("OPTIONS").unwrap();
    let mut options = OpenOptions::default();
    options.cache = wanted.contains("cache");
    options.sector_padding = wanted.contains("padding");
    let opened = match wanted.contains("name") {
        true => open("/dev/stdin".as_ref(), &options),
        false => open_stdin(&options),
    };
    match opened {
        Err(error) => writeln!(report, "{error}").unwrap(),
        Ok(Opened::Stream(mut stream)) => {
            let mut bytes = Vec::new();
            match stream.read_to_end(&mut bytes) {
                Ok(_) => writeln!(report, "stream").unwrap(),
                Err(error) => writeln!(report, "stream, {error}").unwrap(),
            }
            report.write_all(&bytes).unwrap();
        }
        Ok(Opened::Image(image)) => {
            let extents = common::all_extents(&*image, u64::MAX);
            let holes = extents.iter().filter(|extent| extent.kind == ExtentKind::Zero).count();
            let padding = image.padded_by();
            let length = image.length();
            image.check_unchanged().unwrap();
            writeln!(report, "image, {holes} holes, padded by {padding}").unwrap();
            report.write_all(&common::read(&*image, 0..length, 0).unwrap()).unwrap();
        }
    }
}

#[test]
fn standard_input_that_is_a_file_is_an_image_from_its_offset_on() {
    let runs = [Run::data(MIB), Run::hole(MIB), Run::data(5000)];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    paint(&path, &runs).unwrap();
    let bytes = content(&runs);
    let length = bytes.len() as u64;
    for options in ["direct", "cache"] {
        for start in [0, 1, 512, 4096, MIB + 17, MIB + 65_536, length - 1, length, length + 10] {
            let mut file = File::open(&path).unwrap();
            file.seek(SeekFrom::Start(start)).unwrap();
            let (what, read) = as_stdin(file.try_clone().unwrap(), options);
            let holes = if start < 2 * MIB { 1 } else { 0 };
            assert_eq!(what, format!("image, {holes} holes, padded by 0"));
            assert!(read == bytes[(start.min(length) as usize)..], "from {start}");
            // Whoever shares the descriptor goes on after what was read.
            assert_eq!(file.stream_position().unwrap(), length);
        }
    }
    let (what, read) = as_stdin(File::open(&path).unwrap(), "padding");
    assert_eq!(what, format!("image, 1 holes, padded by {}", 512 - length % 512));
    assert!(read[..bytes.len()] == bytes);
    // By name it is the whole file, as Linux opens it anew.
    let mut file = File::open(&path).unwrap();
    file.seek(SeekFrom::Start(9)).unwrap();
    assert!(as_stdin(file, "name").1 == bytes);
}

#[test]
fn standard_input_that_is_a_device_is_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    paint(&path, &[Run::data(MIB)]).unwrap();
    let Some(device) = LoopDevice::new(&path) else { return };
    for (options, start) in [("direct", 0), ("cache", 0), ("direct", 4096), ("direct", 100)] {
        let mut file = File::open(device.path()).unwrap();
        file.seek(SeekFrom::Start(start)).unwrap();
        let (what, read) = as_stdin(file, options);
        assert_eq!(what, "image, 0 holes, padded by 0");
        assert!(read == content(&[Run::data(MIB)])[start as usize..]);
    }
}

#[test]
fn standard_input_that_is_neither_is_a_stream() {
    for options in ["direct", "cache", "name"] {
        let bytes = content(&[Run::data(40_000)]);
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&bytes).unwrap();
        drop(writer);
        assert_eq!(as_stdin(reader, options), ("stream".into(), bytes.clone()));

        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.write_all(&bytes).unwrap();
        drop(theirs);
        assert_eq!(as_stdin(OwnedFd::from(ours), options), ("stream".into(), bytes));

        assert_eq!(as_stdin(Stdio::null(), options), ("stream".into(), vec![]));
        let version = File::open("/proc/version").unwrap();
        assert_eq!(as_stdin(version, options), ("stream".into(), std::fs::read("/proc/version").unwrap()));
    }
}

/// As a program that shares the descriptor may have set it.
#[test]
fn standard_input_that_does_not_wait_is_waited_for() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for piece in [&b"one"[..], b"two"] {
                std::thread::sleep(Duration::from_millis(100));
                writer.write_all(piece).unwrap();
            }
        });
        assert_eq!(as_stdin(reader, "direct"), ("stream".into(), b"onetwo".to_vec()));
    });
}

#[test]
fn standard_input_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let directory = File::open(folder.path()).unwrap();
    let written = File::create(folder.path().join("file")).unwrap();
    let (_reader, writer) = std::io::pipe().unwrap();
    assert_eq!(as_stdin(directory, "direct").0, "standard input: open: Is a directory");
    assert_eq!(as_stdin(written, "direct").0, "standard input: open: Not open for reading");
    assert_eq!(as_stdin(writer, "direct").0, "standard input: open: Not open for reading");
}
