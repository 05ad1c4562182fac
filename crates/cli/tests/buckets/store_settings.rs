//! Wrong settings of a store (endpoint, keys, profile): each is named with what is wrong, and no secret is repeated.

use crate::common;

use std::fs;
use std::time::Duration;

use common::answers::{Answer, Server, assert_said, page, run_with};
use common::bucket::{KEY, SECRET, run_at};
use common::{Ended, VERISUM, command};

#[test]
fn secrets_in_addresses_are_never_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let log = log.to_str().unwrap();
    let list = folder.path().join("list");
    fs::write(&list, format!("{}  x\n", "0".repeat(64))).unwrap();
    let list = list.to_str().unwrap();
    let catalog = folder.path().join("catalog");
    let catalog = catalog.to_str().unwrap();
    for address in [
        "https://user:hidden@127.0.0.1:1/x",
        "https://user:hid/hidden@127.0.0.1:1/x",
        "s3://AKIA:hidden@backup/x",
        "s3://AKIA:hid/hidden@backup/x",
        "s3://AKIA:hidden/x",
        "ssh://user:hidden@127.0.0.1/x",
        "https://127.0.0.1:1/x?X-Amz-Signature=hidden",
        "s3://backup/x?X-Amz-Signature=hidden",
        "https:/user:hidden@127.0.0.1:1/x",
        " https://user:hidden@127.0.0.1:1/x",
        "\thttps://user:hidden@127.0.0.1:1/x",
        "//user:hidden@127.0.0.1:1/x",
        "s3://user%3Ahidden%40backup",
        "s3://backup/x%3FX-Amz-Signature=hidden",
        "s3://backup/x#X-Amz-Signature=hidden",
    ] {
        for words in [
            &["sum", address][..],
            &["check", "/dev/null", address],
            &["compare", ".", address],
            &["copy", ".", address],
            &["scrub", address],
            &["scrub", "--inventory", address, "s3://backup"],
            &["image", "sum", address],
            &["catalog", "status", address],
            &["tag", address],
            &["copy", ".", "x", address],
            &["copy", address, "x"],
            &["copy", "--json", address, "x"],
            &["image", "diff", address, address],
            &["repair", address],
            &["report", "--catalog", address],
            &["compare", "--sums", address, "."],
            &["sum", "--exclude-from", address, "."],
            &["check", "-C", address, list],
            &["catalog", "export", "--catalog", address, "x"],
            &["sum", "-vv", "--endpoint", address, "s3://backup"],
            &["check", "--json", list, address],
            &["compare", "--json", "-v", ".", address],
            &["scrub", "--json", "--catalog", catalog, address],
            &["status", "--json", address],
            &["parity", "create", address],
        ] {
            let ended = run_at("http://127.0.0.1:1", &[words, &["--log-file", log]].concat());
            let text = format!("{words:?}: {:?} {}{}", ended.code, ended.out(), ended.stderr);
            assert!(matches!(ended.code, Some(2 | 3)), "{text}");
            let text = text.replace(&format!("{words:?}"), "");
            assert!(!text.contains("hidden"), "{text}");
        }
    }
    let endpoint = [("VERISUM_ENDPOINT", "http://user:hidden@127.0.0.1:1")];
    let words = ["sum", "-vv", "--log-file", log, "s3://backup"];
    let ended = run_with(&endpoint, "http://127.0.0.1:1", &words);
    let told = format!("{}{}", ended.out(), ended.stderr);
    assert!(told.contains("…@127.0.0.1:1 (VERISUM_ENDPOINT)") && !told.contains("hidden"), "{told}");
    let logged = fs::read_to_string(log).unwrap();
    assert!(!logged.contains("hidden"), "{logged}");
    let recorded = fs::read(catalog).unwrap_or_default();
    assert!(!recorded.windows(6).any(|part| part == b"hidden"));
}

#[test]
fn secrets_in_addresses_of_files_are_never_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut run = command(VERISUM);
        run.current_dir(folder.path()).args(words).args(["--log-file", "log"]);
        run.envs([("VERISUM_CONFIG", "config"), ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]);
        run.envs([("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)]);
        let ended = Ended::of(run.output().unwrap());
        let logged = fs::read_to_string(folder.path().join("log")).unwrap();
        let told = format!("{}{}{logged}", ended.out(), ended.stderr);
        assert!(!told.contains("hidden") && !told.contains("panicked"), "{words:?}: {told}");
        told
    };
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    for address in [
        "https://user:hidden@127.0.0.1:1/x",
        " https://user:hidden@127.0.0.1:1/x",
        "https:/user:hidden@127.0.0.1:1/x",
        "//user:hidden@127.0.0.1:1/x",
        "ssh://user:hidden@127.0.0.1",
        "s3://backup/x?X-Amz-Signature=hidden",
        "https://user%3Ahidden%40127.0.0.1:1/x",
        "s3://backup/x%3FX-Amz-Signature=hidden",
        "s3://backup/x#X-Amz-Signature=hidden",
    ] {
        write("config", "");
        write("hosts", address);
        write("names", &format!("{address}\0"));
        write("list", &format!("{}  {address}\n", "0".repeat(64)));
        for words in [
            &["sum", "--hosts", "hosts", "x"][..],
            &["sum", "--files0-from", "names"],
            &["sum", "--json", "--files0-from", "names"],
            &["check", "list"],
            &["check", "--json", "list"],
            &["compare", "--sums", "list", ".", "."],
        ] {
            run(words);
        }
        // There it is the name of an object.
        if !address.starts_with("//") && !address.contains("Signature") {
            run(&["check", "list", "s3://backup"]);
            run(&["check", "--json", "-vv", "list", "s3://backup"]);
        }
        write("config", &format!("[places.x]\naddress = \"s3://backup\"\nendpoint = \"{address}\"\n"));
        for words in [&["config", "show"][..], &["config", "show", "--json"], &["sum", "-vv", "s3://backup"]]
        {
            assert!(run(words).contains("endpoint"), "{words:?}");
        }
    }
    write("config", "");
    write("hosts", "user:hidden@127.0.0.1");
    assert!(run(&["sum", "--hosts", "hosts", "x"]).contains("hosts:1: "));
}

#[test]
fn what_results_name_is_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let name = "user:hidden@x";
    fs::write(folder.path().join(name), "x").unwrap();
    let tree = folder.path().to_str().unwrap();
    for form in ["--quiet", "--json"] {
        let words = ["sum", "-r", form, "--exclude", "https://user:hidden@127.0.0.1", tree];
        let sum = run_at("http://127.0.0.1:1", &words).clean();
        assert!(sum.contains(name), "{sum}");
    }
}

#[test]
fn values_that_no_request_can_carry_end_in_one_line() {
    let store = Server::start(|_| page(&[]));
    for (name, value, part) in [
        ("AWS_SESSION_TOKEN", "tok\u{1}x", "AWS_SESSION_TOKEN has characters that it cannot have"),
        ("AWS_ACCESS_KEY_ID", "key\n", "AWS_ACCESS_KEY_ID has characters that it cannot have"),
        ("AWS_REGION", "x y", "the region has characters that it cannot have"),
        ("AWS_REGION", "é", "the region has characters that it cannot have"),
    ] {
        let ended = run_with(&[(name, value)], &store.url, &["sum", "s3://bucket"]);
        assert_said(&ended, 3, part);
        assert_eq!(ended.stderr.lines().count(), 1, "{name}: {}", ended.stderr);
    }
}

/// Whatever else is to be done: no mismatch is hidden by it.
#[test]
fn an_endpoint_that_is_none_is_bad_usage_wherever_it_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let [file, list, catalog] = ["file", "list", "catalog"].map(|name| folder.path().join(name));
    fs::write(&file, "x").unwrap();
    fs::write(&list, format!("{}  x\n", "0".repeat(64))).unwrap();
    let [here, file, list, catalog] =
        [folder.path(), &file, &list, &catalog].map(|path| path.to_str().unwrap());
    for words in [
        &["sum", "s3://bucket"][..],
        &["check", list, "s3://bucket"],
        &["compare", here, "s3://bucket"],
        &["copy", here, "s3://bucket"],
        &["copy", "s3://bucket", here],
        &["scrub", "--catalog", catalog, here, "s3://bucket"],
        &["image", "sum", "s3://bucket/x"],
        &["parity", "create", "--to", "s3://bucket", here],
    ] {
        for url in ["localhost:9000", "http://256.256.256.256", "http://host:99999"] {
            let ended = run_with(&[], url, words);
            assert_said(&ended, 2, "s3://bucket: the endpoint ");
            assert_eq!((ended.out(), ended.stderr.lines().count()), ("", 1), "{words:?}: {}", ended.stderr);
        }
        let ended = run_with(&[("VERISUM_ENDPOINT", "localhost:9000")], "http://127.0.0.1:1", words);
        assert_said(&ended, 2, "must begin with https:// or http://");
    }
    // What asks no store needs none.
    assert_eq!(run_with(&[], "localhost:9000", &["compare", file, file]).code, Some(0));
}

#[test]
fn a_program_for_credentials_that_does_not_end_is_ended() {
    let store = Server::start(|_| page(&[]));
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    let keys = r#"{"Version": 1, "AccessKeyId": "K", "SecretAccessKey": "s", "SessionToken": "a\u000ab"}"#;
    let profiles = [
        ("slow", "sleep 1000 && true"),
        ("long", "yes x"),
        ("odd", &format!("printf %s '{keys}'")),
        ("says", "echo pw=hidden >&2 && false"),
    ];
    let text = profiles.map(|(name, command)| format!("[profile {name}]\ncredential_process = {command}\n"));
    fs::write(&config, text.concat()).unwrap();
    let config = [("AWS_CONFIG_FILE", config.to_str().unwrap())];
    for (profile, part) in [
        ("slow", "credential_process does not end within 1 s"),
        ("long", "credential_process prints more than 65536 bytes"),
        ("odd", "the key or the token has characters that none has"),
        ("says", "(credential_process failed (exit status: 1): run it by hand to see why)"),
    ] {
        let words = ["sum", "--timeout", "1s", "--profile", profile, "s3://bucket"];
        let ended = run_with(&config, &store.url, &words);
        assert_said(&ended, 3, part);
        assert!(!ended.stderr.contains("hidden"), "{}", ended.stderr);
    }
    let words = ["sum", "--profile", "nobody", "s3://bucket"];
    assert_said(&run_with(&config, &store.url, &words), 2, "--profile: there is no profile nobody");
    assert!(store.asked().is_empty());
}

#[test]
fn nothing_that_an_identity_service_says_is_repeated() {
    let token = r#"{"access_token": "t", "expires_in": 3600}"#;
    type Answering = fn(String, &str) -> Answer;
    let answers: [(Answering, &str); 5] = [
        (|asked, _| Answer::new(400, asked), "the identity service answers 400"),
        (
            |asked, _| Answer::new(401, [asked.as_bytes(), b"\xff"].concat()),
            "the identity service answers 401",
        ),
        // It goes on for ten minutes.
        (
            |asked, _| {
                let drip = Some((1, Duration::from_millis(200)));
                Answer { sent: 1, drip, ..Answer::new(403, asked.repeat(20)) }
            },
            "the identity service answers 403",
        ),
        (
            |asked, _| Answer::new(200, format!("\"{asked}\"")),
            "the identity service answers without credentials",
        ),
        // More is not read.
        (
            |_, token| Answer::new(200, " ".repeat(8 << 20) + token),
            "the identity service answers without credentials",
        ),
    ];
    for (answer, part) in answers {
        let service = Server::start(move |asked| match asked.target.contains("oauth2") {
            true => answer(String::from_utf8(asked.body.clone()).unwrap(), token),
            false => Answer::new(200, "<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>"),
        });
        let settings = [
            ("AZURE_STORAGE_ACCOUNT_NAME", "acme"),
            ("AZURE_STORAGE_ENDPOINT", &*service.url),
            ("AZURE_AUTHORITY_HOST", &*service.url),
            ("AZURE_TENANT_ID", "tenant"),
            ("AZURE_CLIENT_ID", "client"),
            ("AZURE_CLIENT_SECRET", "hidden"),
        ];
        let ended = run_with(&settings, &service.url, &["sum", "--timeout", "5s", "az://bucket"]);
        assert_said(&ended, 3, &format!("no credentials ({part}): "));
        assert!(!ended.stderr.contains("hidden") && ended.stderr.lines().count() == 1, "{}", ended.stderr);
        assert!(service.asked().iter().all(|asked| asked.target.contains("oauth2")));
    }
}

#[test]
fn what_is_wrong_with_a_setting_is_named() {
    let sum = |variables: &[(&str, &str)], words: &[&str]| run_with(variables, "http://127.0.0.1:1", words);
    let key = [("AZURE_STORAGE_CONNECTION_STRING", "AccountName=acme;AccountKey=hidden!!;")];
    let ended = sum(&key, &["sum", "az://c/x"]);
    assert_said(&ended, 3, "AccountKey in AZURE_STORAGE_CONNECTION_STRING) is no Base64");
    assert!(!ended.stderr.contains("hidden"), "{}", ended.stderr);
    let file = [("GOOGLE_APPLICATION_CREDENTIALS", "/etc/passwd")];
    let part = "gs://c: GOOGLE_APPLICATION_CREDENTIALS: /etc/passwd: read: it has no credentials of Google";
    assert_said(&sum(&file, &["sum", "gs://c/x"]), 3, part);
    let file = [("GOOGLE_APPLICATION_CREDENTIALS", "/none")];
    assert_said(&sum(&file, &["sum", "gs://c/x"]), 3, "/none: read: No such file or directory");
    let half = [("AWS_SECRET_ACCESS_KEY", "")];
    assert_said(
        &sum(&half, &["sum", "s3://b"]),
        3,
        "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not",
    );
    let part = "--endpoint: ftp://…@x: must begin with https:// or http://";
    assert_said(&sum(&[], &["sum", "--endpoint", "ftp://user:hidden@x", "s3://b"]), 2, part);
    for (endpoint, part) in [
        ("http://user:hidden@", "--endpoint: http://…@: must be a URL without a user"),
        ("http://", "--endpoint: http://: is no URL"),
    ] {
        let ended = sum(&[], &["sum", "--endpoint", endpoint, "s3://b"]);
        assert_said(&ended, 2, part);
        assert!(!ended.stderr.contains("hidden"), "{}", ended.stderr);
    }
    let part = "DIR: s3://b/x: must be on this machine: only --to takes addresses";
    assert_said(&sum(&[], &["parity", "create", "s3://b/x"]), 2, part);
    for verb in [&["tag"][..], &["verify"], &["recommend", "--on"]] {
        let ended = sum(&[], &[verb, &["s3://b/x"]].concat());
        assert_said(&ended, 2, "PATH: s3://b/x: must be on this machine: only");
        assert!(ended.stderr.contains(" accept, ") && ended.stderr.contains(" repair, "), "{}", ended.stderr);
    }
}
