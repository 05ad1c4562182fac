//! Digests made of blocks, beside the programs that are their source.

use crate::common;

use std::path::Path;
use std::process::Command;

use common::{VERISUM, command, data_file, verisum, with_pipe};
use verisum::digest::{Digest, Output};
use verisum_testkit::require_tool;

fn ours(name: &str, path: &Path) -> String {
    let out = verisum(["sum", "-a", name, path.to_str().unwrap()]).clean();
    out.split_once(' ').unwrap().0.to_string()
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fsverity_is_what_its_program_prints() {
    let Some(fsverity) = require_tool("fsverity") else { return };
    let folder = tempfile::tempdir().unwrap();
    for length in [0, 1, 4096, 4097, 128 * 4096, 128 * 4096 + 1, 3_000_000] {
        let file = data_file(folder.path(), "file", length);
        for (name, hash) in [("fsverity", "sha256"), ("fsverity-sha512", "sha512")] {
            let out = said(Command::new(&fsverity).args(["digest", "--hash-alg", hash]).arg(&file));
            let theirs =
                out.split(' ').next().unwrap().strip_prefix(&format!("{hash}:")).unwrap().to_string();
            assert_eq!(ours(name, &file), theirs, "{length} bytes");
        }
    }
}

#[test]
fn dmverity_is_what_veritysetup_prints() {
    let Some(veritysetup) = require_tool("veritysetup") else { return };
    let folder = tempfile::tempdir().unwrap();
    for blocks in [1, 2, 128, 129, 700] {
        let (file, tree) = (data_file(folder.path(), "file", blocks * 4096), folder.path().join("tree"));
        let out = said(Command::new(&veritysetup).args(["format", "--salt=-"]).arg(&file).arg(&tree));
        let root = out.lines().find_map(|line| line.strip_prefix("Root hash:")).unwrap().trim();
        assert_eq!(ours("dmverity", &file), root, "{blocks} blocks");
        assert_eq!(of_image("dmverity", &file), root, "{blocks} blocks");
        std::fs::remove_file(tree).unwrap();
    }
}

/// What `image sum` makes of what a guest sees, without the tag.
fn of_image(name: &str, file: &Path) -> String {
    let out = verisum(["image", "sum", "--untagged", "-a", name].map(Path::new).into_iter().chain([file]));
    out.out().split(' ').next().unwrap().to_string()
}

#[test]
fn images_have_the_digest_of_what_a_guest_sees() {
    let Some(qemu) = require_tool("qemu-img") else { return };
    let folder = tempfile::tempdir().unwrap();
    let raw = data_file(folder.path(), "disk.raw", 5_000_192);
    // A hole, and an end that is no whole block.
    let file = std::fs::File::options().write(true).open(&raw).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"end", 300_000_256).unwrap();
    file.set_len(300_000_256 + 512).unwrap();
    let qcow2 = folder.path().join("disk.qcow2");
    said(Command::new(&qemu).args(["convert", "-O", "qcow2"]).arg(&raw).arg(&qcow2));
    for name in
        ["dmverity", "fsverity", "glacier", "s3-etag:8M", "s3-sha256:100M", "s3-md5:1025", "dropbox", "ipfs"]
    {
        let digest = ours(name, &raw);
        assert_eq!(of_image(name, &raw), digest, "{name}");
        assert_eq!(of_image(name, &qcow2), digest, "{name}");
    }
    let sum = verisum(["image", "sum", "-a", "dmverity"].map(Path::new).into_iter().chain([&*qcow2]));
    assert!(sum.out().starts_with("BLKHASH-DMVERITY-4K ("), "{}", sum.out());
    let list = folder.path().join("list");
    std::fs::write(&list, sum.out()).unwrap();
    assert_eq!(verisum([Path::new("check"), &list]).code, Some(0));
    let map = verisum([
        Path::new("image"),
        Path::new("map"),
        Path::new("-a"),
        Path::new("dmverity"),
        Path::new("-o"),
        &list,
        &raw,
    ]);
    assert_eq!(map.code, Some(2), "{}", map.stderr);
}

/// A pipe can be read once only.
#[test]
fn several_digests_of_an_image_take_one_read() {
    let folder = tempfile::tempdir().unwrap();
    let raw = data_file(folder.path(), "disk.raw", 20_000_256);
    let file = std::fs::File::options().write(true).open(&raw).unwrap();
    file.set_len(90_000_384).unwrap();
    let names = ["sha256", "dmverity", "xxhash3", "blake3", "s3-etag:8M", "md5", "ipfs"];
    let lines = |name: &str| verisum(["image", "sum", "-a", name, raw.to_str().unwrap()]).clean();
    let one_by_one: String = names.iter().map(|name| lines(name)).collect();
    let tag = |line: &str| line.split(" (").next().unwrap().to_string();
    assert_eq!(lines(&names.join(",")), one_by_one);
    let mut command = command(VERISUM);
    command.args(["image", "sum", "--exact", "-a", &names.join(",")]);
    let of_pipe = with_pipe(&mut command, &std::fs::read(&raw).unwrap()).clean();
    let exact: String = names
        .iter()
        .map(|name| verisum(["image", "sum", "--exact", "-a", name, raw.to_str().unwrap()]).clean())
        .collect();
    let value = |line: &str| (tag(line), line.rsplit_once(" = ").unwrap().1.to_string());
    assert!(of_pipe.lines().map(value).eq(exact.lines().map(value)), "{of_pipe}{exact}");
    for words in [&["image", "sum", "-c"][..], &["image", "map", "-o", "no.map"]] {
        let refused = verisum(words.iter().copied().chain(["-a", "sha256,md5", "x"]));
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    }
    let gone = verisum(["image", "sum", "-a", "sha256,md5", "/no/such"]);
    assert_eq!((gone.code, gone.out()), (Some(3), ""));
}

#[test]
fn names_of_git_are_those_that_git_gives() {
    let Some(git) = require_tool("git") else { return };
    let folder = tempfile::tempdir().unwrap();
    // One of each is hashed among many small files, the other is large.
    let files = [0, 1, 1000, 65_536, 65_537, 5_000_000]
        .map(|length| data_file(folder.path(), &length.to_string(), length));
    for (name, format) in [("git-blob", "sha1"), ("git-blob-sha256", "sha256")] {
        let repository = folder.path().join(format);
        let init = ["init", "--quiet", &format!("--object-format={format}"), repository.to_str().unwrap()];
        said(Command::new(&git).args(init));
        let theirs = said(Command::new(&git).arg("-C").arg(&repository).arg("hash-object").args(&files));
        let ours =
            verisum(["sum", "-a", name].map(Path::new).into_iter().chain(files.iter().map(|file| &**file)));
        let ours: Vec<&str> = ours.out().lines().map(|line| line.split_once(' ').unwrap().0).collect();
        assert_eq!(ours, theirs.lines().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn git_needs_the_length_of_a_pipe_beforehand() {
    let refused = with_pipe(command(VERISUM).args(["sum", "-a", "git-blob"]), b"x");
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("needs the length beforehand"), "{}", refused.stderr);
}

#[test]
fn ipfs_is_what_its_importer_makes() {
    let Some(importer) = require_tool("ipfs-cid") else { return };
    let folder = tempfile::tempdir().unwrap();
    let leaf = 256 << 10;
    let lengths = [0, 1, leaf - 1, leaf, leaf + 1, 174 * leaf, 174 * leaf + 1, 2 * 174 * leaf + 5];
    for length in lengths {
        let file = data_file(folder.path(), "file", length);
        let theirs = said(Command::new(&importer).arg(&file));
        assert_eq!(ours("ipfs", &file), theirs.trim(), "{length} bytes");
        let list = folder.path().join("list");
        std::fs::write(&list, format!("{}  {}\n", theirs.trim(), file.display())).unwrap();
        let checked = verisum(["check", list.to_str().unwrap()]);
        assert_eq!((checked.code, checked.out().ends_with(": OK\n")), (Some(0), true), "{}", checked.stderr);
    }
}

#[test]
fn digests_in_base64_are_those_of_openssl_and_are_checked() {
    let Some(openssl) = require_tool("openssl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = data_file(folder.path(), "file", 3_000_000);
    let list = folder.path().join("list");
    for name in ["md5", "sha1", "sha256", "sha384", "sha512"] {
        let binary =
            Command::new(&openssl).args(["dgst", "-binary", &format!("-{name}")]).arg(&file).output();
        let theirs = data_encoding::BASE64.encode(&binary.unwrap().stdout);
        for form in [&["--base64"][..], &["--base64", "--tag"]] {
            let ours = verisum([&["sum", "-a", name, file.to_str().unwrap()], form].concat()).clean();
            assert!(ours.contains(&theirs), "{ours}");
            std::fs::write(&list, ours).unwrap();
            // Without `=` at its end it is told from other words by `-a` only.
            let checked = verisum(["check", "-a", name, list.to_str().unwrap()]);
            assert_eq!(
                (checked.code, checked.out().ends_with(": OK\n")),
                (Some(0), true),
                "{}",
                checked.stderr
            );
        }
    }
    for name in ["md5", "s3-sha256:1M"] {
        let ours = verisum(["sum", "--base64", "-a", name, file.to_str().unwrap()]).clean();
        assert_eq!(ours.contains("=-3  "), name != "md5", "{ours}");
        std::fs::write(&list, ours).unwrap();
        let told: &[&str] = if name == "md5" { &[] } else { &["-a", name] };
        let checked = verisum([&["check"], told, &[list.to_str().unwrap()]].concat());
        assert_eq!((checked.code, checked.out().ends_with(": OK\n")), (Some(0), true), "{}", checked.stderr);
    }
}

#[test]
fn digests_of_parts_are_written_and_checked_as_stores_show_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = data_file(folder.path(), "file", 5_000_000);
    let small = data_file(folder.path(), "small", 1 << 20);
    let list = folder.path().join("SUMS");
    let part = std::fs::read(&file).unwrap();
    let md5s: Vec<u8> = part.chunks(1 << 20).flat_map(|part| md5(part).as_bytes().to_vec()).collect();
    let expected = format!("{}-5", md5(&md5s));
    for (form, wanted) in [
        (["-a", "s3-etag:1M"], format!("{expected}  {}\n", file.display())),
        (["-a", "S3-ETAG:1024K"], format!("{expected}  {}\n", file.display())),
    ] {
        assert_eq!(verisum(["sum", form[0], form[1], file.to_str().unwrap()]).clean(), wanted);
    }
    let small_sum = format!("{}  {}\n", md5(&std::fs::read(&small).unwrap()), small.display());
    assert_eq!(verisum(["sum", "-a", "s3-etag:1M", small.to_str().unwrap()]).clean(), small_sum);
    for (form, lines) in [("--tag", 6), ("--format=json", 2)] {
        let out = verisum([
            "sum",
            form,
            "-a",
            "s3-etag:1M,s3-sha256:2M,md5",
            file.to_str().unwrap(),
            small.to_str().unwrap(),
        ])
        .clean();
        assert!(out.contains(&expected) && out.contains("s3-sha256:2M"), "{out}");
        std::fs::write(&list, out).unwrap();
        let checked = verisum(["check", list.to_str().unwrap()]);
        assert_eq!(
            (checked.code, checked.out().matches(": OK").count()),
            (Some(0), lines),
            "{}",
            checked.out()
        );
    }
}

/// Objects that were uploaded in one piece, or in one part, whatever the length of the parts of others.
#[test]
fn the_form_of_a_listed_value_tells_how_the_object_was_uploaded() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    for (name, inner) in [("s3-etag:1M", "md5"), ("s3-sha256:1M", "sha256"), ("s3-crc32c:1M", "crc32c")] {
        let digest = Digest::find(inner).unwrap();
        for length in [0, 1 << 20, 5_000_000] {
            let file = data_file(folder.path(), "file", length);
            let mut content = std::fs::read(&file).unwrap();
            let whole = digest.hash(&content).unwrap();
            let one_part = format!("{}-1", digest.hash(whole.as_bytes()).unwrap());
            let path = file.to_str().unwrap();
            for value in [whole.to_string(), one_part.clone()] {
                let json = format!(r#"{{"path":"{path}","size":{length},"digests":{{"{name}":"{value}"}}}}"#);
                let forms = [
                    (&["-a", name][..], format!("{value}  {path}\n")),
                    (&[], format!("{name} ({path}) = {value}\n")),
                    (&[], format!("Key,Size,{name}\n{path},{length},{value}\n")),
                    (&[], json),
                ];
                for (told, text) in forms {
                    std::fs::write(&list, &text).unwrap();
                    let check = || verisum([&["check", "--json", list.to_str().unwrap()], told].concat());
                    let ended = check();
                    assert_eq!(ended.code, Some(0), "{text}: {}{}", ended.out(), ended.stderr);
                    let digests = format!(r#""digests":{{"{name}":"{value}"}}"#);
                    assert_eq!(ended.out().matches(&digests).count(), 2, "{text}: {}", ended.out());
                    let Some(byte) = content.last_mut() else { continue };
                    *byte ^= 1;
                    std::fs::write(&file, &content).unwrap();
                    assert_eq!(check().code, Some(1), "{text}");
                    *content.last_mut().unwrap() ^= 1;
                    std::fs::write(&file, &content).unwrap();
                }
            }
            // The digest of a digest is none that a scrub could compute of the file.
            std::fs::write(&list, format!("Key,Size,{name}\nfile,{length},{one_part}\n")).unwrap();
            let catalog = folder.path().join("catalog");
            let words = ["catalog", "import", "--catalog", catalog.to_str().unwrap(), list.to_str().unwrap()];
            let import = verisum(words);
            assert!(import.stderr.contains("that of an upload in one part (-1)"), "{}", import.stderr);
            assert_eq!((import.code, catalog.exists()), (Some(3), false));
        }
    }
}

#[test]
fn a_line_with_a_number_of_parts_is_never_left_out_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    let small = data_file(folder.path(), "small", 10);
    let large = data_file(folder.path(), "large", 3_000_000);
    let files = [small.to_str().unwrap(), large.to_str().unwrap()];
    for name in ["s3-etag:1M", "s3-sha256:1M", "s3-crc32:1M"] {
        for form in [&[][..], &["--base64"], &["-z"], &["--binary"]] {
            let words = [&["sum", "-a", name], form, &files].concat();
            let text = verisum(words).clean();
            std::fs::write(&list, text).unwrap();
            for told in [&[][..], &["-a", "sha512"]] {
                let ends: &[&str] = if form == ["-z"] { form } else { &[] };
                let check = verisum([&["check", list.to_str().unwrap()], told, ends].concat());
                let said = "1 line has an unknown digest: that of an upload in parts (-a names it";
                assert!(check.stderr.contains(said), "{name} {form:?} {told:?}: {}", check.stderr);
                assert_eq!(check.code, Some(3), "{name} {form:?} {told:?}");
            }
            let check = verisum(["check", "-a", name, list.to_str().unwrap()]);
            assert_eq!((check.code, check.out().matches(": OK").count()), (Some(0), 2), "{}", check.stderr);
        }
    }
    // Text is no line of a file.
    let sum = verisum(["sum", files[0]]).clean();
    std::fs::write(&list, format!("20260101-1 is a day\nChapter-1  begins\n{sum}")).unwrap();
    let check = verisum(["check", list.to_str().unwrap()]);
    assert!(check.code == Some(0) && !check.stderr.contains("unknown"), "{}", check.stderr);
}

fn md5(message: &[u8]) -> Output {
    Digest::find("md5").unwrap().hash(message).unwrap()
}

#[test]
fn lists_name_them_and_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let file = data_file(folder.path(), "file", 5_000_000);
    let list = folder.path().join("SUMS");
    let all = "dropbox,glacier,bittorrent-v2,fsverity,fsverity-sha512,dmverity,ipfs,git-blob,git-blob-sha256,sha256";
    let out = verisum(["sum", "--tag", "-a", all, file.to_str().unwrap()]).clean();
    assert_eq!(out.lines().count(), 10);
    assert!(out.starts_with("DROPBOX (") && out.contains("\nFSVERITY-SHA512 ("), "{out}");
    std::fs::write(&list, out).unwrap();
    let checked = verisum(["check", list.to_str().unwrap()]);
    assert_eq!((checked.code, checked.out().matches(": OK").count()), (Some(0), 10), "{}", checked.stderr);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[4_999_999] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let checked = verisum(["check", list.to_str().unwrap()]);
    assert_eq!((checked.code, checked.out().matches(": FAILED").count()), (Some(1), 10));
}
