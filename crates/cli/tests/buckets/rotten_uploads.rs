//! Objects that rotted in a bucket, told by the checksum or ETag that the store recorded at the upload.

use crate::common;

use std::fs;
use std::os::unix::fs::FileExt;

use common::bucket::Store;
use verisum::digest::Digest;

use crate::stored_digests::{ask, base64, content, upload, upload_parts};

#[test]
fn what_was_uploaded_in_parts_is_compared_with_the_checksum_of_its_parts() {
    const MIB: usize = 1 << 20;
    let Some(store) = Store::start() else { return };
    let (bucket, here) = (store.bucket("box"), store.path("here"));
    fs::create_dir_all(&here).unwrap();
    // By this program, in two parts and in one.
    for (name, length) in [("copied", 20 * MIB), ("one", 16 * MIB)] {
        fs::write(here.join(name), content(length)).unwrap();
    }
    assert_eq!(store.run(&["copy", "--quiet", here.to_str().unwrap(), "s3://box"]).code, Some(0));
    // By others: in parts of one length, read in one range and in several.
    for (name, length, part) in [("small", MIB, MIB), ("sha1", 12 * MIB, 5 * MIB)] {
        let inner = if name == "sha1" { "sha1" } else { "sha256" };
        upload(&store, &format!("box/{name}"), &content(length), part, (inner, inner), "COMPOSITE");
    }
    let names = ["copied", "one", "sha1", "small"];
    let told = ["s3-sha256:16M", "sha256 of 1 part", "s3-sha1:5M", "sha256 of 1 part"];
    // One digest that is hashed in order, and one that is in parts of the same length.
    let sums: [&[&str]; 3] = [&["-a", "sha256"], &["-a", "s3-sha256:16M"], &["-a", "s3-sha256:16M,md5"]];
    for words in sums {
        let clean = store.run(&[&["sum", "--quiet"], words, &["s3://box"]].concat());
        assert_eq!((clean.code, &clean.stderr[..]), (Some(0), ""), "{words:?}");
    }
    for name in names {
        let file = fs::File::options().write(true).open(bucket.join(name)).unwrap();
        file.write_all_at(b"!", file.metadata().unwrap().len() - 500).unwrap();
    }
    for words in sums {
        let sum = store.run(&[&["sum", "--quiet"], words, &["s3://box"]].concat());
        assert_eq!(sum.code, Some(1), "{words:?} {}", sum.stderr);
        for (name, digest) in names.iter().zip(told) {
            assert!(
                sum.stderr.contains(&format!("s3://box: {name}: {digest} is ")),
                "{words:?} {}",
                sum.stderr
            );
        }
    }
    // Not what is in one part, whose checksum has no name.
    for to in [store.path("back").to_str().unwrap(), "s3://other"] {
        if let Some(bucket) = to.strip_prefix("s3://") {
            store.bucket(bucket);
        }
        let copied = store.run(&["copy", "s3://box", to]);
        let text = format!("{}{}", copied.out(), copied.stderr);
        assert!(copied.code == Some(1) && text.contains("2 files copied"), "{to}: {text}");
        for name in ["copied", "sha1"] {
            assert!(text.contains(&format!("s3://box/{name}: ")), "{to}: {text}");
        }
    }
    let catalog = store.path("catalog");
    let catalog = catalog.to_str().unwrap();
    let scrub = store.run(&["scrub", "--catalog", catalog, "s3://box"]);
    let text = format!("{}{}", scrub.out(), scrub.stderr);
    assert!(scrub.code == Some(1) && text.matches(", recorded by the store ").count() == 4, "{text}");
}

#[test]
fn what_a_store_does_not_have_as_it_recorded_it_is_told_when_it_is_read_first() {
    let Some(store) = Store::start() else { return };
    let bucket = store.bucket("box");
    // Known by its ETag, by a checksum in one range, and by one in several.
    for (name, length, header) in
        [("good", 1000, None), ("etag", 1000, None), ("crc", 1000, Some(())), ("large", 5 << 20, Some(()))]
    {
        let bytes = content(length);
        let checksum = ("x-amz-checksum-crc64nvme".to_string(), base64("crc64-nvme", &bytes));
        let headers: Vec<_> = header.map(|()| checksum).into_iter().collect();
        assert_eq!(ask(&store, "PUT", &format!("box/{name}"), &headers, &bytes).0, 200);
    }
    let clean = store.run(&["sum", "--quiet", "s3://box"]);
    assert_eq!((clean.code, &clean.stderr[..]), (Some(0), ""));
    for name in ["etag", "crc", "large"] {
        let file = fs::File::options().write(true).open(bucket.join(name)).unwrap();
        file.write_all_at(b"!", 500).unwrap();
    }
    let sum = store.run(&["sum", "--quiet", "s3://box"]);
    assert_eq!((sum.code, sum.out().lines().count()), (Some(1), 4), "{}", sum.stderr);
    for name in ["etag", "crc", "large"] {
        assert!(sum.stderr.contains(&format!("s3://box: {name}: ")), "{}", sum.stderr);
    }
    assert_eq!(sum.stderr.matches(", recorded by the store ").count(), 3, "{}", sum.stderr);
    // A list that was made of what is bad.
    let list = store.path("list");
    fs::write(&list, store.run(&["sum", "--quiet", "--relative", "s3://box"]).out()).unwrap();
    let check = store.run(&["check", list.to_str().unwrap(), "s3://box"]);
    assert!(check.code == Some(1) && check.stderr.contains("4 verified\n"), "{}", check.stderr);
    assert_eq!(check.stderr.matches(", recorded by the store ").count(), 3, "{}", check.stderr);
    let catalog = store.path("catalog");
    let catalog = catalog.to_str().unwrap();
    for _ in 0..2 {
        let scrub = store.run(&["scrub", "--catalog", catalog, "s3://box"]);
        let text = format!("{}{}", scrub.out(), scrub.stderr);
        assert_eq!(scrub.code, Some(1), "{text}");
        for name in ["etag", "crc", "large"] {
            assert!(text.contains(&format!("s3://box/{name}: rot since ")), "{text}");
        }
    }
    let list = store.run(&["catalog", "list", "--bad", "--catalog", catalog]);
    assert!(!list.out().contains("box/good") && list.out().contains("box/large"), "{}", list.out());
    // A copy of what is bad is the same, but nothing is well.
    let here = store.path("here");
    fs::create_dir(&here).unwrap();
    for name in ["good", "etag", "crc", "large"] {
        fs::copy(bucket.join(name), here.join(name)).unwrap();
    }
    let compared = store.run(&["compare", "--read", here.to_str().unwrap(), "s3://box"]);
    assert!(compared.code == Some(1) && compared.stderr.contains("4 the same\n"), "{}", compared.stderr);
    assert_eq!(compared.stderr.matches(", recorded by the store ").count(), 3, "{}", compared.stderr);
    // Of what was uploaded the store's record tells.
    for (name, length) in [("etag", 1000), ("large", 5 << 20)] {
        fs::write(here.join(name), content(length)).unwrap();
    }
    fs::write(here.join("crc"), "?".repeat(1000)).unwrap();
    let compared = store.run(&["compare", "--read", here.to_str().unwrap(), "s3://box"]);
    let said = "crc: DIFFERS (neither is as recorded)\netag: DIFFERS (A is as recorded)\n\
                large: DIFFERS (A is as recorded)\n";
    assert!(compared.out().contains(said), "{}{}", compared.out(), compared.stderr);
    assert!(!compared.stderr.contains("no record tells"), "{}", compared.stderr);
}

#[test]
fn a_rotten_object_is_named_by_its_key() {
    let Some(store) = Store::start() else { return };
    let (bucket, catalog) = (store.bucket("box"), store.path("catalog"));
    let catalog = catalog.to_str().unwrap();
    let bytes = content(1000);
    let checksum = ("x-amz-checksum-crc64nvme".to_string(), base64("crc64-nvme", &bytes));
    assert_eq!(ask(&store, "PUT", "box/t/f1", &[checksum], &bytes).0, 200);
    let file = fs::File::options().write(true).open(bucket.join("t/f1")).unwrap();
    file.write_all_at(b"!", 500).unwrap();
    // Whatever the list calls it.
    let sum = store.run(&["sum", "--quiet", "--relative", "s3://box/t"]);
    assert!(sum.code == Some(1) && sum.out().ends_with("  f1\n"), "{}", sum.out());
    assert!(sum.stderr.contains("s3://box: t/f1: crc64-nvme is "), "{}", sum.stderr);
    let scrub = || store.run(&["scrub", "--catalog", catalog, "s3://box/t"]);
    assert_eq!(scrub().code, Some(1));
    assert_eq!(store.run(&["accept", "--catalog", catalog, "s3://box/t/f1"]).code, Some(0));
    let said = scrub().stderr;
    assert!(
        said.contains("s3://box: t/f1: crc64-nvme is ") && said.contains("as the catalogue has it"),
        "{said}"
    );
}

#[test]
fn an_etag_that_is_no_md5_is_no_mismatch() {
    let Some(store) = Store::start() else { return };
    let (bucket, out) = (store.bucket("box"), store.path("out"));
    for (name, length) in [("small", 1000), ("large", 3 << 20)] {
        assert_eq!(ask(&store, "PUT", &format!("box/{name}"), &[], &content(length)).0, 200);
        let path = bucket.join(name);
        rustix::fs::removexattr(&path, "user.checksums").unwrap();
        let etag = b"\"0123456789abcdef0123456789abcdef\"";
        rustix::fs::setxattr(&path, "user.etag", etag, rustix::fs::XattrFlags::REPLACE).unwrap();
    }
    let md5 = |name: &str| {
        let bytes = fs::read(bucket.join(name)).unwrap();
        format!("{}  {name}\n", Digest::find("md5").unwrap().hash(&bytes).unwrap())
    };
    let sum = store.run(&["sum", "--quiet", "--relative", "-a", "md5", "s3://box"]);
    assert_eq!(sum.clean(), [md5("large"), md5("small")].concat());
    let sum = store.run(&["sum", "--quiet", "--recorded", "--relative", "-a", "md5", "s3://box"]);
    assert_eq!(sum.clean(), ["# read\n", &md5("large"), "# read\n", &md5("small")].concat());
    let copied = store.run(&["copy", "--quiet", "s3://box", out.to_str().unwrap()]);
    assert_eq!((copied.code, &copied.stderr[..]), (Some(0), ""), "{}", copied.out());
    assert_eq!(fs::read(out.join("small")).unwrap(), content(1000));
    // The ETag still names the version: what is other content by the same one is rot.
    let catalog = store.path("catalog");
    let words = ["scrub", "--verbose", "--catalog", catalog.to_str().unwrap(), "s3://box"];
    for _ in 0..2 {
        let scrub = store.run(&words);
        assert!(scrub.code == Some(0) && scrub.out().contains("2 files"), "{} {}", scrub.out(), scrub.stderr);
    }
    common::change_and_restore_time(&bucket.join("small"), &"?".repeat(1000));
    let scrub = store.run(&words);
    assert!(scrub.code == Some(1) && scrub.stderr.contains("small: rot"), "{} {}", scrub.out(), scrub.stderr);
}

#[test]
fn an_etag_tells_rot_where_those_of_the_store_are_of_contents() {
    let Some(store) = Store::start() else { return };
    let (bucket, good) = (store.bucket("box"), store.path("good"));
    fs::create_dir_all(&good).unwrap();
    // As a store has them that keeps no checksums.
    let names = ["a", "large", "parts", "small"];
    for (name, length) in names.into_iter().zip([1000, 3 << 20, 12 << 20, 2000]) {
        let (bytes, path) = (content(length), format!("box/{name}"));
        match name {
            "parts" => upload(&store, &path, &bytes, 5 << 20, ("sha256", "sha256"), "COMPOSITE"),
            _ => assert_eq!(ask(&store, "PUT", &path, &[], &bytes).0, 200),
        }
        rustix::fs::removexattr(bucket.join(name), "user.checksums").unwrap();
        fs::write(good.join(name), bytes).unwrap();
    }
    let run = |words: &[&str]| store.run(words);
    assert_eq!(run(&["sum", "--quiet", "s3://box"]).stderr, "");
    for name in &names[1..] {
        let file = fs::File::options().write(true).open(bucket.join(name)).unwrap();
        file.write_all_at(b"!", 500).unwrap();
    }
    // Where nothing shows that ETags are MD5s, they tell nothing.
    let alone = run(&["sum", "--quiet", "s3://box/small"]);
    assert_eq!((alone.code, &alone.stderr[..]), (Some(0), ""));
    let sum = run(&["sum", "--quiet", "s3://box"]);
    assert_eq!(sum.code, Some(1), "{}", sum.stderr);
    for (name, digest) in [("large", "md5"), ("parts", "s3-etag:5M"), ("small", "md5")] {
        assert!(sum.stderr.contains(&format!("s3://box: {name}: {digest} is ")), "{}", sum.stderr);
    }
    let (catalog, kept) = (store.path("catalog"), store.path("kept"));
    let [catalog, good, kept] = [&catalog, &good, &kept].map(|path| path.to_str().unwrap());
    let scrub = || run(&["scrub", "--catalog", catalog, "s3://box"]);
    let bad = scrub();
    let text = format!("{}{}", bad.out(), bad.stderr);
    assert_eq!(bad.code, Some(1), "{text}");
    for name in &names[1..] {
        assert!(text.contains(&format!("s3://box/{name}: suspicious")), "{text}");
    }
    let repair = |more: &[&str]| {
        run(&[&["repair", "--catalog", catalog, "--from", good], more, &["s3://box"]].concat())
    };
    let refused = repair(&[]);
    let text = format!("{}{}", refused.out(), refused.stderr);
    assert!(text.contains("`verisum accept` takes it as it is"), "{text}");
    let mended = repair(&["--keep-bad", kept]);
    assert!(
        mended.code == Some(0) && mended.out().contains("3 files repaired"),
        "{} {}",
        mended.out(),
        mended.stderr
    );
    let clean = scrub();
    assert_eq!(clean.code, Some(0), "{} {}", clean.out(), clean.stderr);
    for name in names {
        assert_eq!(
            fs::read(bucket.join(name)).unwrap(),
            fs::read(format!("{good}/{name}")).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn parts_of_other_lengths_than_the_first_accuse_nothing() {
    const MIB: usize = 1 << 20;
    let Some(store) = Store::start() else { return };
    let (bucket, here) = (store.bucket("box"), store.path("here"));
    fs::create_dir_all(&here).unwrap();
    // As many as parts of the length of the first would be. The second is without a checksum.
    for name in ["checksum", "etag"] {
        let bytes = content(11 * MIB + 7);
        let (first, rest) = bytes.split_at(5 * MIB);
        let (second, third) = rest.split_at(6 * MIB);
        let parts = [first, second, third];
        upload_parts(&store, &format!("box/{name}"), &parts, ("sha256", "sha256"), "COMPOSITE");
        fs::write(here.join(name), bytes).unwrap();
    }
    rustix::fs::removexattr(bucket.join("etag"), "user.checksums").unwrap();
    // It shows that the ETags of this store are of contents.
    assert_eq!(ask(&store, "PUT", "box/a", &[], &content(1000)).0, 200);
    rustix::fs::removexattr(bucket.join("a"), "user.checksums").unwrap();
    fs::write(here.join("a"), content(1000)).unwrap();
    let (here, copied, catalog) = (store.path("here"), store.path("copied"), store.path("catalog"));
    let [here, copied, catalog] = [&here, &copied, &catalog].map(|path| path.to_str().unwrap());
    for words in [
        &["sum", "--quiet", "s3://box"][..],
        &["compare", here, "s3://box"],
        &["compare", "--read", here, "s3://box"],
        &["copy", "s3://box", copied],
        &["scrub", "--catalog", catalog, "s3://box"],
        &["scrub", "--catalog", catalog, "s3://box"],
    ] {
        let ended = store.run(words);
        assert_eq!(ended.code, Some(0), "{words:?} {} {}", ended.out(), ended.stderr);
        assert!(!ended.stderr.contains("recorded by the store"), "{words:?} {}", ended.stderr);
    }
    // What is bad is still bad.
    let file = fs::File::options().write(true).open(bucket.join("checksum")).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(b"!", 500).unwrap();
    file.set_modified(time).unwrap();
    assert_eq!(store.run(&["scrub", "--catalog", catalog, "s3://box"]).code, Some(1));
}

#[test]
fn an_upload_in_parts_of_which_parts_are_gone_is_rot_and_repaired() {
    const MIB: usize = 1 << 20;
    let Some(store) = Store::start() else { return };
    let (bucket, good) = (store.bucket("box"), store.path("good"));
    fs::create_dir_all(&good).unwrap();
    let names =
        [("part", 4 * MIB), ("parts", 8 * MIB), ("last", 11 * MIB), ("longer", 16 * MIB), ("empty", 0)];
    for (name, _) in names {
        upload(
            &store,
            &format!("box/{name}"),
            &content(12 * MIB),
            5 * MIB,
            ("sha256", "sha256"),
            "COMPOSITE",
        );
        fs::write(good.join(name), content(12 * MIB)).unwrap();
    }
    // What was uploaded in parts of several lengths is as it was.
    let uneven = content(18 * MIB);
    let parts = [&uneven[..5 * MIB], &uneven[5 * MIB..15 * MIB], &uneven[15 * MIB..]];
    upload_parts(&store, "box/uneven", &parts, ("sha256", "sha256"), "COMPOSITE");
    fs::write(good.join("uneven"), &uneven).unwrap();
    assert_eq!(store.run(&["sum", "--quiet", "s3://box"]).stderr, "");
    for (name, length) in names {
        let file = fs::File::options().write(true).open(bucket.join(name)).unwrap();
        file.set_len(length as u64).unwrap();
    }
    let sum = store.run(&["sum", "--quiet", "s3://box"]);
    assert_eq!(sum.stderr.matches(": s3-sha256:5M is ").count(), 5, "{}", sum.stderr);
    assert!(sum.code == Some(1) && !sum.stderr.contains("uneven"), "{}", sum.stderr);
    let (catalog, good) = (store.path("catalog"), good.to_str().unwrap());
    let catalog = catalog.to_str().unwrap();
    let scrub = || store.run(&["scrub", "--catalog", catalog, "s3://box"]);
    let bad = scrub();
    assert!(bad.code == Some(1) && bad.stderr.matches(": rot").count() == 5, "{} {}", bad.out(), bad.stderr);
    let mended = store.run(&["repair", "--catalog", catalog, "--from", good, "s3://box"]);
    assert!(mended.code == Some(0), "{} {}", mended.out(), mended.stderr);
    assert_eq!(scrub().code, Some(0));
    for (name, _) in names {
        assert!(fs::read(bucket.join(name)).unwrap() == content(12 * MIB), "{name}");
    }
}

#[test]
fn an_upload_of_which_bytes_are_gone_is_rot_and_repaired() {
    let Some(store) = Store::start() else { return };
    let (bucket, good) = (store.bucket("box"), store.path("good"));
    fs::create_dir_all(&good).unwrap();
    let names = [("cut", 100), ("emptied", 0), ("longer", 3_000_001)];
    for (name, length) in names {
        let bytes = content(3_000_000);
        let checksum = ("x-amz-checksum-crc64nvme".to_string(), base64("crc64-nvme", &bytes));
        assert_eq!(ask(&store, "PUT", &format!("box/{name}"), &[checksum], &bytes).0, 200);
        fs::write(good.join(name), bytes).unwrap();
        fs::File::options().write(true).open(bucket.join(name)).unwrap().set_len(length).unwrap();
    }
    let sum = store.run(&["sum", "--quiet", "s3://box"]);
    assert_eq!(
        (sum.code, sum.stderr.matches(", recorded by the store ").count()),
        (Some(1), 3),
        "{}",
        sum.stderr
    );
    let (catalog, good) = (store.path("catalog"), good.to_str().unwrap());
    let catalog = catalog.to_str().unwrap();
    let scrub = || store.run(&["scrub", "--catalog", catalog, "s3://box"]);
    let bad = scrub();
    assert!(bad.code == Some(1) && bad.stderr.matches(": rot").count() == 3, "{} {}", bad.out(), bad.stderr);
    let mended = store.run(&["repair", "--catalog", catalog, "--from", good, "s3://box"]);
    assert!(mended.code == Some(0), "{} {}", mended.out(), mended.stderr);
    assert_eq!(scrub().code, Some(0));
    for (name, _) in names {
        assert_eq!(fs::read(bucket.join(name)).unwrap(), content(3_000_000), "{name}");
    }
}
