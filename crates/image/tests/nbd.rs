//! Real NBD servers: what they export is what is read, whatever they can and cannot do, and what they fail
//! at is an error that says where.

mod common;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{all_extents, assert_holds};
use verisum_image::{ExtentKind, Image, ImageError, NbdImage, OpenOptions};
use verisum_testkit::{Run, Server, content, paint, require_tool};

const MIB: u64 = 1 << 20;

/// Data and holes, some shorter than a request, and an end within a sector.
fn runs() -> Vec<Run> {
    vec![Run::data(3 * MIB), Run::hole(5 * MIB), Run::data(65536), Run::hole(65536), Run::data(MIB + 1000)]
}

/// A file with that content, in a folder of its own.
fn painted() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    paint(&path, &runs()).unwrap();
    (folder, path)
}

fn open(uri: &str) -> Result<NbdImage, ImageError> {
    NbdImage::open(OsStr::new(uri), &OpenOptions::default())
}

/// The arguments of nbdkit that serve a file with these options and parameters of filters.
fn serving(options: &[&str], path: &Path) -> Vec<String> {
    let (options, parameters): (Vec<&str>, Vec<&str>) = options.iter().partition(|one| one.starts_with("--"));
    let file = ["file", path.to_str().unwrap()];
    [&options[..], &file[..], &parameters[..]].concat().iter().map(|&one| one.to_string()).collect()
}

/// Starts nbdkit's file plugin on a painted file with these options, and reads all of it in several ways.
#[track_caller]
fn serves(options: &[&str]) -> Option<NbdImage> {
    let (_folder, path) = painted();
    let server = Server::nbdkit(serving(options, &path))?;
    let image = open(&server.uri()).unwrap_or_else(|error| panic!("{options:?}: {error}"));
    assert_holds(&image, &content(&runs()));
    read_by_many(&image, &content(&runs()));
    Some(image)
}

/// Reads overlapping pieces of odd lengths on more threads than there may be connections.
#[track_caller]
fn read_by_many(image: &NbdImage, expected: &[u8]) {
    thread::scope(|scope| {
        for worker in 0..20_usize {
            scope.spawn(move || {
                for step in 0..6 {
                    let start = (worker * 449_123 + step * 1_700_003) % expected.len();
                    let length = (700_001 + worker * 10_007).min(expected.len() - start);
                    let mut buffer = vec![0xEE; length];
                    image.read_at(&mut buffer, start as u64).unwrap();
                    assert!(buffer == expected[start..start + length], "{length} bytes at {start}");
                }
            });
        }
    });
}

/// The message of an error, which must name the server.
#[track_caller]
fn message<T>(result: Result<T, ImageError>, uri: &str) -> String {
    let message = match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    };
    assert_eq!(message.lines().count(), 1);
    message.strip_prefix(&format!("{uri}: ")).unwrap_or_else(|| panic!("{message}")).to_string()
}

#[test]
fn qemu_nbd_over_one_connection_and_over_several() {
    let (_folder, path) = painted();
    for shared in ["--shared=1", "--shared=0", "--shared=3"] {
        let Some(server) = Server::qemu_nbd(["--format=raw", shared, path.to_str().unwrap()]) else { return };
        let image = open(&server.uri()).unwrap();
        // QEMU shows whole sectors.
        let mut expected = content(&runs());
        expected.resize(expected.len().next_multiple_of(512), 0);
        assert_holds(&image, &expected);
        read_by_many(&image, &expected);
        let extents = all_extents(&image, u64::MAX);
        let holes = extents.iter().filter(|extent| extent.kind.is_zero() && extent.range.start % 4096 == 0);
        assert_eq!(holes.count(), 2);
    }
}

#[test]
fn servers_that_do_less_or_more() {
    if serves(&[]).is_none() {
        return;
    }
    serves(&["--no-sr"]);
    serves(&["--threads=1"]);
    serves(&["--filter=readahead"]);
    serves(&["--filter=cache"]);
    serves(&["--filter=noparallel"]);
    serves(&["--filter=multi-conn", "--filter=delay", "multi-conn-mode=disable", "rdelay=2ms"]);
    // The second connection is refused.
    serves(&["--filter=limit", "limit=1"]);
}

#[test]
fn a_server_that_tries_again_by_itself_is_waited_for() {
    // The first read fails.
    let read = "pread=if mkdir $tmpdir/once 2>/dev/null; then echo EIO >&2; exit 1; fi; \
                head -c $3 /dev/zero | tr '\\0' x";
    let arguments = ["--filter=retry-request", "eval", "get_size=echo 1M", read, "retry-request-delay=1"];
    let Some(server) = Server::nbdkit(arguments) else { return };
    assert_holds(&open(&server.uri()).unwrap(), &vec![b'x'; MIB as usize]);
}

#[test]
fn servers_without_block_status_are_all_data() {
    let Some(image) = serves(&["--filter=noextents"]) else { return };
    drop(image);
    let (_folder, path) = painted();
    let server = Server::nbdkit(["--no-sr", "file", path.to_str().unwrap()]).unwrap();
    let image = open(&server.uri()).unwrap();
    let extents = all_extents(&image, u64::MAX);
    assert_eq!(extents.len(), 1);
    assert_eq!(extents[0].kind, ExtentKind::Data);
    let layer = &image.layers()[0];
    assert_eq!((layer.format, layer.length), ("nbd", Some(image.length())));
    assert!(layer.properties.contains(&("block_status", false.into())));
}

#[test]
fn requests_keep_to_the_sizes_that_the_server_wants() {
    // The end of the file is not a whole unit: the server must show one that is.
    let truncate = ["--filter=blocksize-policy", "--filter=truncate", "blocksize-error-policy=error"];
    let truncate = [&truncate[..], &["round-up=65536"]].concat();
    for sizes in [
        ["blocksize-minimum=4k", "blocksize-preferred=4k", "blocksize-maximum=64k"],
        ["blocksize-minimum=512", "blocksize-preferred=4k", "blocksize-maximum=8k"],
        ["blocksize-minimum=64k", "blocksize-preferred=64k", "blocksize-maximum=192k"],
        ["blocksize-minimum=1", "blocksize-preferred=4k", "blocksize-maximum=4294967295"],
    ] {
        let (_folder, path) = painted();
        let arguments = serving(&[&truncate[..], &sizes[..]].concat(), &path);
        let Some(server) = Server::nbdkit(arguments) else { return };
        let image = open(&server.uri()).unwrap();
        let mut expected = content(&runs());
        expected.resize(expected.len().next_multiple_of(65536), 0);
        assert_holds(&image, &expected);
        read_by_many(&image, &expected);
    }
}

#[test]
fn an_export_is_padded_like_a_file() {
    for length in [0_u64, 1, 511, 512, 513, 100_001] {
        let Some(server) = Server::nbdkit(["pattern", &length.to_string()]) else { return };
        let mut options = OpenOptions::default();
        options.sector_padding = true;
        let image = NbdImage::open(OsStr::new(&server.uri()), &options).unwrap();
        // Each eight bytes hold their own place.
        let mut expected: Vec<u8> = (0..length.div_ceil(8)).flat_map(|at| (at * 8).to_be_bytes()).collect();
        expected.truncate(length as usize);
        assert_holds(&image, &expected);
        assert_eq!(image.length() % 512, 0);
    }
}

#[test]
fn exports_are_found_by_name_over_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let exports: Vec<String> = (0..50).map(|number| format!("disk {number}")).collect();
    for (number, export) in exports.iter().enumerate() {
        paint(&folder.path().join(export), &[Run::data(1000 + number as u64)]).unwrap();
    }
    let directory = format!("dir={}", folder.path().display());
    let Some(server) = Server::nbdkit_tcp(["file", &directory]) else { return };
    for (number, export) in exports.iter().enumerate() {
        let image = open(&server.uri_of("nbd", "", &export.replace(' ', "%20"), "")).unwrap();
        assert_eq!(image.length(), 1000 + number as u64);
    }
    let absent = server.uri_of("nbd", "", "absent", "");
    let message = message(open(&absent), &absent);
    assert!(message.starts_with("open: "), "{message}");
}

/// Runs a tool of GnuTLS.
fn run(tool: &Path, arguments: &[&str], folder: &Path) {
    let output = Command::new(tool).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn tls_with_certificates() {
    let Some(certtool) = require_tool("certtool") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (folder.path().join("authority"), folder.path().join("other"));
    for folder in [&authority, &other] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("ca.info"), "cn = Tests\nca\ncert_signing_key\nexpiration_days = 2\n")
            .unwrap();
        let server = "organization = Tests\ncn = localhost\ndns_name = localhost\ntls_www_server\n\
                      encryption_key\nsigning_key\nexpiration_days = 2\n";
        std::fs::write(folder.join("server.info"), server).unwrap();
        let run = |words: &str| run(&certtool, &words.split(' ').collect::<Vec<_>>(), folder);
        run("--generate-privkey --ecc --outfile ca-key.pem");
        run("--generate-self-signed --load-privkey ca-key.pem --template ca.info --outfile ca-cert.pem");
        run("--generate-privkey --ecc --outfile server-key.pem");
        run("--generate-certificate --load-ca-certificate ca-cert.pem --load-ca-privkey ca-key.pem \
             --load-privkey server-key.pem --template server.info --outfile server-cert.pem");
    }
    let (_images, path) = painted();
    let certificates = format!("--tls-certificates={}", authority.display());
    let arguments = ["--tls=require", &certificates, "file", path.to_str().unwrap()];
    let Some(server) = Server::nbdkit_tcp(arguments) else { return };
    let known = server.uri_of("nbds", "", "", &format!("&tls-certificates={}", authority.display()));
    let image = open(&known).unwrap();
    assert!(image.layers()[0].properties.contains(&("tls", true.into())));
    assert_holds(&image, &content(&runs()));
    read_by_many(&image, &content(&runs()));
    let unknown = server.uri_of("nbds", "", "", &format!("&tls-certificates={}", other.display()));
    assert!(message(open(&unknown), &unknown).starts_with("open: "));
    // No authority at all, in ways that older libraries do not mind.
    let empty = tempfile::tempdir().unwrap();
    for parameter in [
        format!("&tls-certificates={}", empty.path().display()),
        "&tls-certificates=/absent".to_string(),
        format!("&tls-certs={}", authority.display()),
        String::new(),
    ] {
        assert!(open(&server.uri_of("nbds", "", "", &parameter)).is_err(), "{parameter}");
    }
    // Over a unix socket there is no name to verify: a library may refuse a certificate of an authority that
    // is known, and must refuse others.
    let arguments = ["--tls=require", &certificates, "file", path.to_str().unwrap()];
    let local = Server::nbdkit(arguments).unwrap();
    for folder in [&other, &empty.path().to_path_buf()] {
        assert!(
            open(&local.uri_of("nbds", "", "", &format!("&tls-certificates={}", folder.display()))).is_err()
        );
    }
    // A server that wants TLS, and one that has none.
    assert!(message(open(&server.uri()), &server.uri()).starts_with("open: "));
    let plain = Server::nbdkit_tcp(["null", "1M"]).unwrap();
    let wanted = plain.uri_of("nbds", "", "", &format!("&tls-certificates={}", authority.display()));
    assert!(message(open(&wanted), &wanted).starts_with("open: "));
}

#[test]
fn tls_with_keys() {
    let Some(psktool) = require_tool("psktool") else { return };
    let folder = tempfile::tempdir().unwrap();
    run(&psktool, &["--username=alice", "--pskfile=keys"], folder.path());
    run(&psktool, &["--username=alice", "--pskfile=other"], folder.path());
    let (_images, path) = painted();
    let keys = format!("--tls-psk={}", folder.path().join("keys").display());
    let arguments = ["--tls=require", &keys, "file", path.to_str().unwrap()];
    let Some(server) = Server::nbdkit(arguments) else { return };
    let uri = |keys: &str| {
        server.uri_of("nbds", "alice@", "", &format!("&tls-psk-file={}", folder.path().join(keys).display()))
    };
    let image = open(&uri("keys")).unwrap();
    assert_holds(&image, &content(&runs()));
    read_by_many(&image, &content(&runs()));
    assert!(message(open(&uri("other")), &uri("other")).starts_with("open: "));
    let absent = open(&uri("absent")).err().unwrap().to_string();
    assert_eq!(absent, format!("{}/absent: open: No such file or directory", folder.path().display()));
    let key = std::fs::read_to_string(folder.path().join("other")).unwrap();
    let key = key.trim().split_once(':').unwrap().1;
    assert!(!message(open(&uri("other")), &uri("other")).contains(key));
}

#[test]
fn an_error_of_the_server_says_where() {
    let (_folder, path) = painted();
    let arguments = ["--filter=error", "error-pread=EIO", "error-pread-rate=100%"];
    let trigger = path.with_file_name("trigger");
    let file = format!("error-file={}", trigger.display());
    let arguments = serving(&[&arguments[..], &[&file]].concat(), &path);
    let Some(server) = Server::nbdkit(arguments) else { return };
    let image = open(&server.uri()).unwrap();
    let mut buffer = vec![0; MIB as usize];
    image.read_at(&mut buffer, 12345).unwrap();
    std::fs::write(&trigger, b"").unwrap();
    // The lowest of the places that failed, of the four that were asked for.
    let failed = message(image.read_at(&mut buffer, 12345), &server.uri());
    assert_eq!(failed, "read at 12345: Input/output error");
    // It is an error of that request only.
    std::fs::remove_file(&trigger).unwrap();
    image.read_at(&mut buffer, 12345).unwrap();
    assert!(buffer[..] == content(&runs())[12345..12345 + buffer.len()]);

    let server = Server::nbdkit(serving(&["--filter=error", "error-extents-rate=100%"], &path)).unwrap();
    let image = open(&server.uri()).unwrap();
    let failed = message(image.extents(0..image.length(), &mut Vec::new()), &server.uri());
    assert_eq!(failed, "map at 0: Input/output error");
}

#[test]
fn a_server_that_is_killed_is_an_error_for_everyone_who_waits() {
    for mode in ["multi-conn-mode=disable", "multi-conn-mode=auto"] {
        let (_folder, path) = painted();
        let arguments = ["--filter=multi-conn", "--filter=delay", mode, "rdelay=1000"];
        let Some(mut server) = Server::nbdkit(serving(&arguments, &path)) else { return };
        let uri = server.uri();
        let image = open(&uri).unwrap();
        thread::scope(|scope| {
            let readers: Vec<_> = (0..6_u64)
                .map(|reader| {
                    let image = &image;
                    scope.spawn(move || image.read_at(&mut vec![0; MIB as usize], reader * 1000))
                })
                .collect();
            // They have asked, or will ask a dead server: both are errors.
            thread::sleep(Duration::from_millis(200));
            server.kill();
            for reader in readers {
                let failed = message(reader.join().unwrap(), &uri);
                assert!(failed.starts_with("read at ") && failed.contains("connection"), "{failed}");
            }
        });
        // Nothing connects again, also where there is a server again.
        let failed = message(image.read_at(&mut [0; 512], 0), &uri);
        assert!(failed.starts_with("read at 0: "), "{failed}");
        assert!(message(image.check_unchanged(), &uri).starts_with("read: "));
    }
}
