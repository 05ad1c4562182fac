//! Stores that answer wrongly: no wrong answer is believed, and every run ends in time.

use crate::common;

use std::fs::{self, File};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::answers::{Answer, Asked, NONE, Server, assert_said, page};
use common::bucket::{KEY, SECRET, run_at};
use common::{VERISUM, command, wait_until};
use rustix::process::Signal;
use verisum::digest::Digest;

#[test]
fn nothing_signed_goes_where_a_store_redirects_to() {
    let other = Server::start(|_| page(&[("a", 1, "e")]));
    for status in [301, 302, 303, 307, 308] {
        let location = format!("{}/bucket?list-type=2", other.url);
        let store = Server::start(move |_| {
            let body = "<Error><Code>PermanentRedirect</Code></Error>";
            Answer::new(status, body).header("Location", &location)
        });
        let ended = store.run(&["sum", "--quiet", "s3://bucket"]);
        assert_said(&ended, 3, &format!("the store answers {status} (PermanentRedirect)"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let ended = store.run(&["copy", "--quiet", file.path().to_str().unwrap(), "s3://bucket/x"]);
        assert_said(&ended, 3, &format!("the store answers {status}"));
    }
    let asked: Vec<Asked> = other.asked();
    assert!(asked.is_empty(), "{asked:?}");

    let elsewhere = Server::start(|_| Answer::new(301, "").header("x-amz-bucket-region", "eu-west-1"));
    let ended = elsewhere.run(&["sum", "--quiet", "s3://bucket"]);
    assert_said(&ended, 3, "the bucket is in the region eu-west-1: name it by --region or AWS_REGION");
    assert!(elsewhere.asked()[0].headers.contains_key("authorization"));
}

#[test]
fn objects_of_the_web_are_read_where_a_server_redirects_to() {
    let other = Server::start(|asked| match asked.method == "HEAD" {
        true => Answer::new(200, "x"),
        false => asked.part(b"x"),
    });
    let location = format!("{}/there", other.url);
    let web = Server::start(move |_| Answer::new(302, "").header("Location", &location));
    let sum = web.run(&["sum", "--quiet", &format!("{}/here", web.url)]).clean();
    assert!(sum.starts_with("2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"), "{sum}");
    let asked = other.asked();
    assert!(asked.iter().all(|asked| !asked.headers.contains_key("referer")), "{asked:?}");
    // Again the answer would be the same.
    let web = Server::start(|_| Answer::new(302, "").header("Location", "/there"));
    let ended = web.run(&["sum", "--quiet", &format!("{}/here", web.url)]);
    assert_said(&ended, 3, "it redirects again and again");
    assert_eq!(web.asked().len(), 11);
}

#[test]
fn what_is_not_as_listed_has_no_digest() {
    let content = vec![7; 5 << 20];
    let keys = [("a", 5 << 20, "v1"), ("b", 12, "v1"), ("c", 5 << 20, "v1")];
    // An error in place of content, content of another length by the same ETag, and another object than is there.
    let lies: [fn(&[u8], &Asked) -> Answer; 3] = [
        |_, _| Answer::new(200, "<Error><Code>InternalError</Code></Error>"),
        |content, asked| asked.part(&content[1..]).header("ETag", "\"v1\""),
        |content, asked| asked.part(&content[1..]).header("ETag", "\"v2\""),
    ];
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "c"] {
        fs::write(folder.path().join(name), &content).unwrap();
    }
    fs::write(folder.path().join("b"), [7; 12]).unwrap();
    let here = folder.path().to_str().unwrap();
    for (number, lie) in lies.into_iter().enumerate() {
        let content = content.clone();
        let store = Server::start(move |asked| match (asked.is_listing(), &asked.method[..], asked.key()) {
            (true, ..) => page(&keys),
            (_, "HEAD", _) => Answer::new(200, &content).header("ETag", "\"v1\""),
            (.., "b") => asked.part(&[7; 12]).header("ETag", "\"v1\""),
            _ if asked.target.contains("attributes") => Answer::new(501, ""),
            _ => lie(&content, asked),
        });
        let ended = store.run(&["sum", "--quiet", "--relative", "s3://bucket"]);
        let other = if number == 1 { "it has another length" } else { "it is another object" };
        assert_said(&ended, 3, &format!("a: the store's answer is wrong: {other} than was listed"));
        assert!(ended.out().ends_with("  b\n") && ended.out().lines().count() == 1, "{}", ended.out());
        let ended = store.run(&["compare", "--quiet", "--read", here, "s3://bucket"]);
        assert_eq!(ended.code, Some(3), "{} {}", ended.out(), ended.stderr);
        assert!(!ended.out().contains("DIFFERS"), "{}", ended.out());
    }
}

#[test]
fn a_copy_replaces_nothing_by_what_is_not_as_listed() {
    // What is asked for the object says the ETag of the list, and another length.
    let lies: [fn(&Asked) -> Answer; 3] = [
        |asked| match asked.method == "HEAD" {
            true => Answer::new(200, "short"),
            false => asked.part(b"short"),
        },
        |_| Answer::new(200, "short"),
        |asked| Answer::new(if asked.method == "HEAD" { 200 } else { 416 }, ""),
    ];
    for lie in lies {
        let store = Server::start(move |asked| match (asked.is_listing(), &asked.method[..], asked.key()) {
            (true, ..) => page(&[("a", 9, "v1"), ("b", 9, "v1")]),
            (.., "b") => lie(asked).header("ETag", "\"v1\""),
            (_, "HEAD", _) => Answer::new(200, "all of it").header("ETag", "\"v1\""),
            _ => asked.part(b"all of it").header("ETag", "\"v1\""),
        });
        let folder = tempfile::tempdir().unwrap();
        let b = folder.path().join("b");
        fs::write(&b, "what was there").unwrap();
        let ended = store.run(&["copy", "--quiet", "s3://bucket", folder.path().to_str().unwrap()]);
        assert_said(&ended, 3, "b: the store's answer is wrong: it has another length than was listed");
        assert_eq!(fs::read_to_string(&b).unwrap(), "what was there");
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "all of it");
    }
}

#[test]
fn a_page_for_logging_in_is_no_listed_object() {
    let store = Server::start(|asked| match asked.is_listing() {
        true => page(&[("a", 90, "v1"), ("b", 90, "v1")]),
        false => Answer::new(200, "<html>Log in</html>"),
    });
    let folder = tempfile::tempdir().unwrap();
    let a = folder.path().join("a");
    fs::write(&a, "what was there").unwrap();
    let to = folder.path().to_str().unwrap();
    for words in [&["sum", "--quiet", "s3://bucket"][..], &["copy", "--quiet", "s3://bucket", to]] {
        let ended = store.run(words);
        assert_said(&ended, 3, "b: the store's answer is wrong: it is another object than was listed");
        assert_eq!(ended.out(), "");
    }
    assert_eq!(fs::read_to_string(&a).unwrap(), "what was there");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_copy_is_of_one_content() {
    const HALF: usize = 4 << 20;
    // Neither the ETag tells it nor the length.
    for (name, values) in [
        ("Last-Modified", ["Tue, 24 Nov 2026 09:12:44 GMT", "Wed, 25 Nov 2026 09:12:44 GMT"]),
        ("x-amz-version-id", ["one", "two"]),
    ] {
        let store = Server::start(move |asked| {
            if asked.is_listing() {
                return page(&[("a", 2 * HALF, "v1")]);
            }
            let range = asked.headers.get("range").map_or("", |range| &range[6..]);
            let is_later =
                range.split_once('-').is_some_and(|(first, _)| first.parse::<usize>().unwrap() >= HALF);
            let content = vec![u8::from(is_later); 2 * HALF];
            let answer = match asked.method == "HEAD" {
                true => Answer::new(200, content),
                false => asked.part(&content),
            };
            answer.header("ETag", "\"v1\"").header(name, values[usize::from(is_later)])
        });
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().to_str().unwrap();
        for words in [&["copy", "--quiet", "s3://bucket", to][..], &["sum", "--quiet", "s3://bucket"]] {
            assert_said(&store.run(words), 3, "it was replaced while it was read");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn what_was_replaced_since_it_was_listed_is_read_as_it_is() {
    let store = Server::start(|asked| match (asked.is_listing(), &asked.method[..]) {
        (true, _) => page(&[("a", 5, "v1")]),
        (_, "HEAD") => Answer::new(200, "new").header("ETag", "\"v2\""),
        _ => asked.part(b"new").header("ETag", "\"v2\""),
    });
    let sum = store.run(&["sum", "--quiet", "--relative", "s3://bucket"]).clean();
    assert_eq!(sum, "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437  a\n");
}

#[test]
fn an_answer_that_drips_or_breaks_off_is_given_up() {
    let drip = |mut answer: Answer, sent: usize| {
        (answer.sent, answer.drip) = (sent, Some((1, Duration::from_millis(200))));
        answer
    };
    let listing = Server::start(move |_| drip(page(&[("a", 1, "v1")]), 5));
    let ended = listing.run(&["sum", "--quiet", "--timeout", "1s", "s3://bucket"]);
    assert_said(&ended, 3, "the store's answer is wrong: it comes too slowly");
    assert_eq!(listing.asked().len(), 5);

    let store = Server::start(move |asked| match asked.is_listing() {
        true => page(&[("broken", 3000, "v1"), ("drip", 3000, "v1"), ("good", 3000, "v1")]),
        false => {
            let answer = asked.part(&[1; 3000]).header("ETag", "\"v1\"");
            match asked.key() {
                "broken" => Answer { sent: 1500, ..answer },
                "drip" => drip(answer, 10),
                _ => answer,
            }
        }
    });
    let ended = store.run(&["sum", "--quiet", "--relative", "--timeout", "1s", "s3://bucket"]);
    assert_said(&ended, 3, "broken: the store's answer is wrong: it breaks off in the middle");
    assert_said(&ended, 3, "drip: the store's answer is wrong: it comes too slowly");
    assert!(ended.out().ends_with("  good\n") && ended.out().lines().count() == 1, "{}", ended.out());
}

#[test]
fn an_image_in_a_store_that_drips_is_given_up_in_the_time_that_is_named() {
    let store = Server::start(|asked| match asked.method == "HEAD" {
        true => Answer::new(200, [1; 3000]).header("ETag", "\"v1\""),
        false => {
            let answer = asked.part(&[1; 3000]).header("ETag", "\"v1\"");
            Answer { sent: 10, drip: Some((1, Duration::from_millis(200))), ..answer }
        }
    });
    let ended = store.run(&["image", "sum", "--timeout", "1s", "s3://bucket/x"]);
    assert_said(&ended, 3, "it comes too slowly");
    let ended = store.run(&["image", "sum", "--timeout", "2d", "s3://bucket/x"]);
    assert_said(&ended, 2, "--timeout: 2d: must be a day at most");
}

#[test]
fn what_nothing_names_is_of_one_answer() {
    const LENGTH: usize = 5 << 20;
    // Each answer is of another content.
    let answers = AtomicUsize::new(0);
    let web = Server::start(move |asked| {
        let length = if asked.target.contains("long") { 40 << 20 } else { LENGTH };
        let content = vec![answers.fetch_add(1, Ordering::Relaxed) as u8; length];
        if asked.method == "HEAD" { Answer::new(200, content) } else { asked.part(&content) }
    });
    for digest in ["sha256", "s3-etag:1M"] {
        let sum = web.run(&["sum", "--quiet", "-a", digest, &format!("{}/x", web.url)]).clean();
        let of = |number: u8| Digest::find(digest).unwrap().hash(&vec![number; LENGTH]).unwrap().to_string();
        let answers = web.asked().len() as u8;
        assert!((0..answers).any(|number| sum.contains(&of(number))), "{sum}");
    }
    for words in [&["sum", "--quiet"][..], &["image", "sum"]] {
        let ended = web.run(&[words, &[&format!("{}/long", web.url)]].concat());
        assert_said(&ended, 3, "it has neither an ETag nor a time");
    }
    // Of several, one is in memory at a time.
    let (whole, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let web = Server::start(move |asked| {
        let is_whole =
            asked.headers.get("range").is_some_and(|range| range.ends_with(&format!("-{}", LENGTH - 1)));
        if is_whole {
            seen.fetch_max(whole.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(100));
            whole.fetch_sub(1, Ordering::Relaxed);
        }
        let content = vec![1; LENGTH];
        if asked.method == "HEAD" { Answer::new(200, content) } else { asked.part(&content) }
    });
    let urls: Vec<String> = (0..6).map(|number| format!("{}/{number}", web.url)).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let sums = web.run(&[&["sum", "--quiet"], &urls[..]].concat()).clean();
    assert_eq!((sums.lines().count(), most.load(Ordering::Relaxed)), (6, 1), "{sums}");
}

#[test]
fn an_answer_may_take_as_long_as_it_comes() {
    const LENGTH: usize = 1 << 20;
    // It takes longer than ten times the time in which a store must answer, and comes faster than it must.
    let store = Server::start(|asked| match asked.is_listing() {
        true => page(&[("a", LENGTH, "v1")]),
        false => {
            let answer = asked.part(&[1; LENGTH]).header("ETag", "\"v1\"");
            Answer { sent: 0, drip: Some((LENGTH / 90, Duration::from_millis(250))), ..answer }
        }
    });
    let sum = store.run(&["sum", "--quiet", "--relative", "--timeout", "2s", "s3://bucket"]).clean();
    assert!(sum.ends_with("  a\n"), "{sum}");
    assert_eq!(store.asked().iter().filter(|asked| !asked.is_listing()).count(), 1);
}

/// A page of those keys that a listing asks for.
fn asked_page(asked: &Asked, keys: &[&str]) -> Answer {
    let prefix = asked.target.rsplit_once("prefix=").map_or("", |(_, prefix)| prefix);
    let keys = keys.iter().filter(|key| key.starts_with(prefix));
    page(&keys.map(|key| (*key, 5, "v1")).collect::<Vec<_>>())
}

fn good(asked: &Asked) -> Answer {
    let answer = if asked.method == "HEAD" { Answer::new(200, "lorem") } else { asked.part(b"lorem") };
    answer.header("ETag", "\"v1\"").header("Last-Modified", "Tue, 24 Nov 2026 09:12:44 GMT")
}

#[test]
fn the_failure_of_one_object_leaves_the_others() {
    let lies: [fn() -> Answer; 3] = [
        || Answer::new(503, "<Error><Code>InternalError</Code></Error>"),
        || Answer::new(307, "").header("Location", "http://127.0.0.1:1/x"),
        || Answer::new(200, "lorem").header("x-amz-meta-long", &"x".repeat(2 << 20)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let list = file("list");
    let lorem = "3400bb495c3f8c4c3483a44c6bc1a92e9d94406db75a6f27dbccc11c76450d8a";
    fs::write(&list, ["a", "b", "c"].map(|key| format!("{lorem}  {key}\n")).concat()).unwrap();
    for (number, lie) in lies.into_iter().enumerate() {
        let store = Server::start(move |asked| match (asked.is_listing(), asked.key()) {
            (true, _) => asked_page(asked, &["a", "b", "c"]),
            (_, "b") => lie(),
            _ => good(asked),
        });
        let sum = store.run(&["sum", "--quiet", "--relative", "s3://bucket"]);
        assert_said(&sum, 3, "b: ");
        assert_eq!(sum.out(), format!("{lorem}  a\n{lorem}  c\n"));
        let checked = store.run(&["check", "-v", &list, "s3://bucket"]);
        assert!(checked.code == Some(3) && checked.out().matches("OK").count() == 2, "{}", checked.out());
        let catalog = file(&format!("catalog{number}"));
        let scrub = store.run(&["scrub", "-v", "--catalog", &catalog, "s3://bucket"]);
        assert!(scrub.code == Some(3) && scrub.out().matches("new").count() >= 2, "{}", scrub.out());
    }
    // If it fails for many in a row, it fails for all.
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let store = Server::start(move |asked| match asked.is_listing() {
        true => asked_page(asked, &keys),
        false => Answer::new(307, ""),
    });
    let sum = store.run(&["sum", "--quiet", "s3://bucket"]);
    assert_said(&sum, 3, "the store answers 307");
    assert_eq!(sum.stderr.lines().count(), 9, "{}", sum.stderr);
}

/// The store has the new object then, perhaps.
#[test]
fn what_a_repair_is_to_keep_stays_where_nothing_is_heard_of_its_upload() {
    let folder = tempfile::tempdir().unwrap();
    let [catalog, copy, kept] = ["catalog", "copy", "kept"].map(|name| folder.path().join(name));
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("a"), "lorem").unwrap();
    let content = Arc::new(Mutex::new(Some("lorem")));
    let now = content.clone();
    let store = Server::start(move |asked| {
        let mut now = now.lock().unwrap();
        if asked.method == "PUT" {
            *now = None;
            return Answer::new(200, "").header("ETag", "\"v2\"");
        }
        let answer = match (asked.is_listing(), &asked.method[..], *now) {
            (true, ..) => return asked_page(asked, &["a"]),
            (_, _, None) => return Answer::new(403, ""),
            (_, "HEAD", Some(content)) => Answer::new(200, content),
            (_, _, Some(content)) => asked.part(content.as_bytes()),
        };
        answer.header("ETag", "\"v1\"").header("Last-Modified", "Tue, 24 Nov 2026 09:12:44 GMT")
    });
    let [catalog, copy] = [&catalog, &copy].map(|path| path.to_str().unwrap());
    let scrub = || store.run(&["scrub", "--catalog", catalog, "s3://bucket"]);
    assert_eq!(scrub().code, Some(0));
    *content.lock().unwrap() = Some("LOREM");
    let ended = scrub();
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    let keep = kept.to_str().unwrap();
    let ended =
        store.run(&["repair", "--catalog", catalog, "--keep-bad", keep, "--from", copy, "s3://bucket"]);
    assert_ne!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    assert!(content.lock().unwrap().is_none(), "{}{}", ended.out(), ended.stderr);
    assert_eq!(fs::read_to_string(kept.join("a")).unwrap(), "LOREM");
}

#[test]
fn what_is_listed_and_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for (is_gone, code) in [(false, 3), (true, 0)] {
        let store = Server::start(move |asked| match (asked.is_listing(), asked.key()) {
            // One that is removed while the bucket is read is not there any more.
            (true, _) if is_gone && asked.target.ends_with("prefix=b") => page(&[]),
            (true, _) => asked_page(asked, &["a", "b"]),
            (_, "b") => Answer::new(404, "<Error><Code>NoSuchKey</Code></Error>"),
            _ => good(asked),
        });
        let catalog = folder.path().join(format!("catalog{code}"));
        let ended = store.run(&["scrub", "--catalog", catalog.to_str().unwrap(), "s3://bucket"]);
        let told = format!("{}{}", ended.out(), ended.stderr);
        assert_eq!(ended.code, Some(code), "{told}");
        assert_eq!(told.contains("/b  (read: the store lists it"), !is_gone, "{told}");
    }
    // A listing without an end, of nothing.
    let store = Server::start(|asked| match asked.is_listing() {
        true => asked_page(asked, &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]),
        false => Answer::new(404, "<Error><Code>NoSuchKey</Code></Error>"),
    });
    let ended = store.run(&["sum", "s3://bucket"]);
    let lines = ended.stderr.lines().filter(|line| line.contains(": the store lists it, and says"));
    assert_eq!((ended.code, lines.count()), (Some(3), 9), "{}", ended.stderr);
}

#[test]
fn what_was_not_read_settles_nothing() {
    let here = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::write(here.path().join(name), "lorem").unwrap();
    }
    let store = Server::start(|asked| match (asked.is_listing(), asked.key()) {
        (true, _) => asked_page(asked, &["a", "b"]),
        (_, "b") => Answer::new(403, "<Error><Code>AccessDenied</Code></Error>"),
        _ => good(asked),
    });
    let compared = store.run(&["compare", "--json", "--read", here.path().to_str().unwrap(), "s3://bucket"]);
    assert_eq!(compared.code, Some(3), "{}", compared.stderr);
    let json = compared.out();
    for part in [r#""same":1,"#, r#""unreadable":1,"#, r#""settled":{"one_read":0,"read":1,"#] {
        assert!(json.contains(part), "{part} {json}");
    }
}

/// A listing without an end, of nothing, by stores that do not say so when they are asked for one key.
#[test]
fn many_in_a_row_that_a_store_does_not_give_end_the_run() {
    let keys = |from: u32| (from..from + 1000).map(|number| format!("d/o{number:09}")).collect::<Vec<_>>();
    // What the list of one key is, what comes of an object, and what is said of each.
    let missing: fn() -> Answer = || Answer::new(404, "<Error><Code>NoSuchKey</Code></Error>");
    let changed: fn() -> Answer = || Answer::new(412, "<Error><Code>PreconditionFailed</Code></Error>");
    let cases = [
        (Some(""), missing, ": no such object"),
        (None, missing, ": the store's answer is wrong: it lists a key that was not asked for"),
        (Some(""), changed, ": it was replaced while it was read"),
    ];
    for (one, object, said) in cases {
        let store = Server::start(move |asked| {
            if !asked.is_listing() {
                return object();
            }
            let page = asked.target.split_once("continuation-token=").map_or(0, |(_, rest)| {
                rest.split('&').next().and_then(|number| number.parse().ok()).unwrap_or(0)
            });
            let contents = match one.filter(|_| !asked.target.ends_with("prefix=")) {
                Some(contents) => contents.to_string(),
                None => keys(page * 1000)
                    .iter()
                    .map(|key| format!("<Contents><Key>{key}</Key><Size>5</Size></Contents>"))
                    .collect(),
            };
            let goes_on = if contents.is_empty() { "" } else { "<IsTruncated>true</IsTruncated>" };
            let next = format!("<NextContinuationToken>{}</NextContinuationToken>", page + 1);
            Answer::new(200, format!("<ListBucketResult>{goes_on}{next}{contents}</ListBucketResult>"))
        });
        let ended = store.run(&["sum", "--timeout", "5s", "s3://bucket"]);
        assert_said(&ended, 3, said);
        let lines = ended.stderr.lines().filter(|line| line.contains("d/o")).count();
        assert_eq!(lines, 9, "{}", ended.stderr);
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        let ended = store.run(&["copy", "--timeout", "5s", "s3://bucket", to.to_str().unwrap()]);
        assert_said(&ended, 3, "the host or the store refused many files in a row");
        assert!(ended.stderr.lines().count() < 20, "{}", ended.stderr);
    }
}

#[test]
fn a_signal_ends_a_listing_of_which_nothing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let pages = AtomicUsize::new(0);
    let store = Server::start(move |_| {
        std::thread::sleep(Duration::from_millis(20));
        let page = pages.fetch_add(1, Ordering::Relaxed);
        Answer::new(
            200,
            format!(
                "<ListBucketResult><IsTruncated>true</IsTruncated>\
                 <NextContinuationToken>{page}</NextContinuationToken>\
                 <Contents><Key>k{page:09}/</Key><Size>0</Size></Contents></ListBucketResult>"
            ),
        )
    });
    let catalog = folder.path().join("c").into_os_string().into_string().unwrap();
    let copy = folder.path().join("copy").into_os_string().into_string().unwrap();
    for words in
        [&["scrub", "--quiet", "--catalog", &catalog, "s3://bucket"][..], &["copy", "s3://bucket", &copy]]
    {
        let before = store.asked().len();
        let mut run = command(VERISUM);
        run.envs([
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_ENDPOINT_URL", &*store.url),
        ]);
        let mut child = run.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("it lists", || store.asked().len() > before + 10);
        common::signal(&child, Signal::TERM);
        wait_until("it ends", || child.try_wait().unwrap().is_some());
    }
}

#[test]
fn a_listing_without_an_end_is_given_up() {
    let here = tempfile::tempdir().unwrap();
    // Files, folders, and what is no file name; files that are not there, that change, and that nobody may read. The
    // first has full pages. What counts is how many there are.
    for (end, size, status, keys) in [
        ("", 5, 404, 1000),
        ("/", 0, 404, 50),
        ("//x", 5, 404, 50),
        ("/../x", 5, 404, 50),
        ("", 5, 412, 50),
        ("", 5, 403, 50),
    ] {
        let pages = AtomicUsize::new(0);
        let store = Server::start(move |asked| {
            if !asked.is_listing() {
                let denied = "<Error><Code>AccessDenied</Code></Error>";
                return Answer::new(status, if status == 403 { denied } else { "" });
            }
            let page = pages.fetch_add(1, Ordering::Relaxed);
            let object = |number| {
                format!("<Contents><Key>k{page:09}-{number:04}{end}</Key><Size>{size}</Size></Contents>")
            };
            Answer::new(
                200,
                format!(
                    "<ListBucketResult><IsTruncated>true</IsTruncated>\
                     <NextContinuationToken>{page}</NextContinuationToken>{}</ListBucketResult>",
                    (0..keys).map(object).collect::<String>()
                ),
            )
        });
        let ended = store.run(&["compare", here.path().to_str().unwrap(), "s3://bucket"]);
        assert!(
            ended.stderr.contains("its list goes on with keys that it does not give"),
            "{}",
            ended.stderr.lines().last().unwrap()
        );
        assert_eq!(ended.code, Some(3));
    }
}

#[test]
fn what_a_store_refuses_to_tell_of_an_object_is_named() {
    let store = Server::start(|_| Answer::new(403, ""));
    let file = tempfile::NamedTempFile::new().unwrap();
    let file = file.path().to_str().unwrap();
    for words in
        [&["image", "sum", "s3://bucket/x"][..], &["copy", "--verify", "none", file, "s3://bucket/x"]]
    {
        let part = "s3://bucket/x: the store answers 403 to the question what x is (HEAD)";
        assert_said(&store.run(words), 3, part);
    }
}

#[test]
fn credentials_that_expire_in_the_middle_end_in_one_line() {
    const OBJECTS: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let [here, other] = ["here", "other"].map(|name| folder.path().join(name));
    fs::create_dir_all(&other).unwrap();
    fs::create_dir_all(&here).unwrap();
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("f{number:03}")).collect();
    for name in &names {
        fs::write(here.join(name), "x").unwrap();
    }
    let store = Server::start(move |asked| match asked.is_listing() {
        true => page(&names.iter().map(|name| (&**name, 1, "v1")).collect::<Vec<_>>()),
        // Answers to HEAD have no body.
        false => Answer::new(400, "<Error><Code>ExpiredToken</Code></Error>"),
    });
    let [here, other] = [here, other].map(|folder| folder.to_str().unwrap().to_string());
    for words in [
        &["copy", &*here, "s3://bucket"][..],
        &["copy", "s3://bucket", &other],
        &["compare", &here, "s3://bucket"],
        &["compare", "--read", &here, "s3://bucket"],
        &["sum", "s3://bucket"],
    ] {
        let ended = store.run(words);
        assert_said(&ended, 3, "the store answers 400 (ExpiredToken)");
        let told = format!("{}{}", ended.out(), ended.stderr);
        assert_eq!(told.matches("answers 400").count(), 1, "{words:?}: {told}");
        assert!(told.lines().count() < 7, "{words:?}: {told}");
    }
}

#[test]
fn a_copy_whose_credentials_expire_asks_for_little_more() {
    const OBJECTS: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("f{number:04}")).collect();
    let store = Server::start(move |asked| match asked.is_listing() {
        true => page(&names.iter().map(|name| (&**name, 1, "v1")).collect::<Vec<_>>()),
        false => Answer::new(400, "<Error><Code>ExpiredToken</Code></Error>"),
    });
    let ended = store.run(&["copy", "s3://bucket", folder.path().join("to").to_str().unwrap()]);
    assert_said(&ended, 3, "the store answers 400 (ExpiredToken)");
    let asked = store.asked().len();
    assert!(asked < OBJECTS / 2, "{asked} requests: {}", ended.stderr);
}

/// As where the store cannot be reached.
#[test]
fn a_store_that_breaks_every_connection_is_told_once() {
    const OBJECTS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("here");
    fs::create_dir(&here).unwrap();
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("f{number:03}")).collect();
    names.iter().for_each(|name| fs::write(here.join(name), "lorem").unwrap());
    let here = here.to_str().unwrap();
    let to = folder.path().join("to");
    let to = to.to_str().unwrap();
    let store = Server::start(move |asked| match asked.is_listing() {
        true => page(&names.iter().map(|name| (&**name, 5, "v1")).collect::<Vec<_>>()),
        false => Answer::new(NONE, ""),
    });
    for (words, end) in [
        (&["copy", here, "s3://bucket"][..], "1 failed; not all was copied: 59 other files not tried"),
        (&["copy", "s3://bucket", to], "1 failed; not all was copied\n"),
        (&["compare", "--read", here, "s3://bucket"], "cost: "),
        (&["sum", "s3://bucket"], "cost: "),
    ] {
        let mut ends = vec![store.run(words)];
        // Where nothing listens, nothing is listed either.
        if words[1] == here {
            ends.push(run_at("http://127.0.0.1:1", words));
        }
        for ended in ends {
            assert_said(&ended, 3, end);
            let told = ended.stderr.matches("the store cannot be reached").count();
            assert_eq!(told, 1, "{words:?}: {}", ended.stderr);
        }
    }
    // One object alone is named, and the others are read.
    let store = Server::start(|asked| match (asked.is_listing(), asked.key()) {
        (true, _) => asked_page(asked, &["a", "b", "c"]),
        (_, "b") => Answer::new(NONE, ""),
        _ => good(asked),
    });
    let sum = store.run(&["sum", "--relative", "s3://bucket"]);
    assert_said(&sum, 3, "b: the store cannot be reached: ");
    assert_eq!(sum.out().lines().count(), 2, "{}", sum.stderr);
}

#[test]
fn a_listing_that_fails_in_the_middle_leaves_totals_and_costs() {
    let folder = tempfile::tempdir().unwrap();
    let [here, to] = ["here", "to"].map(|name| folder.path().join(name));
    fs::create_dir(&here).unwrap();
    fs::write(here.join("a"), "lorem").unwrap();
    let [here, to] = [&here, &to].map(|path| path.to_str().unwrap());
    for status in [403, NONE] {
        let store = Server::start(move |asked| match asked.is_listing() {
            true if asked.target.contains("continuation-token=") => {
                Answer::new(status, "<Error><Code>AccessDenied</Code></Error>")
            }
            true => {
                let body = String::from_utf8(asked_page(asked, &["a", "b"]).body).unwrap();
                let next = "<IsTruncated>true</IsTruncated><NextContinuationToken>2</NextContinuationToken>";
                Answer::new(200, body.replace("</ListBucketResult>", &format!("{next}</ListBucketResult>")))
            }
            false if asked.target.starts_with("/other") && asked.method != "PUT" => Answer::new(404, ""),
            false if asked.method == "PUT" => Answer::new(200, "").header("ETag", "\"v1\""),
            false => good(asked),
        });
        let why = if status == 403 { "the store answers 403 (AccessDenied)" } else { "cannot be reached" };
        for to in [to, "s3://other"] {
            let copied = store.run(&["copy", "--verify", "none", "s3://bucket", to]);
            assert_said(&copied, 3, why);
            for part in ["2 files copied", "; 1 failed; not all was copied\n", "cost: "] {
                assert_said(&copied, 3, part);
            }
            assert_eq!(copied.stderr.matches(why).count(), 1, "{}", copied.stderr);
        }
        fs::remove_dir_all(to).unwrap();
        let words = ["compare", here, "s3://bucket"];
        assert_said(&store.run(&words), 3, "cost: ");
        let json = store.run(&[&words[..], &["--json"]].concat());
        assert!(json.out().contains("\"type\":\"costs\""), "{}", json.out());
    }
}

#[test]
fn what_is_no_checksum_is_named_once_and_counts_for_nothing() {
    let store = Server::start(|asked| match asked.is_listing() {
        true => page(&[("a", 5, "v1"), ("b", 5, "v1")]),
        false => asked.part(b"hello").header("ETag", "\"v1\"").header("x-amz-checksum-sha256", "!!!AAAA"),
    });
    let ended = store.run(&["sum", "s3://bucket"]);
    assert_said(&ended, 0, "a: what the store tells as sha256 is none");
    assert_eq!((ended.out().lines().count(), ended.stderr.matches("is none").count()), (2, 1));
}

#[test]
fn an_upload_is_given_up_when_its_parts_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    File::create(&file).unwrap().set_len(80 << 20).unwrap();
    let ends = Arc::new(Mutex::new(Vec::new()));
    let noted = ends.clone();
    let store = Server::start(move |asked| {
        let number = asked.target.split_once("partNumber=").map(|(_, number)| number[..1].to_string());
        let answer = match (&asked.method[..], number.as_deref()) {
            ("POST", _) => Answer::new(200, "<R><UploadId>u</UploadId></R>"),
            ("PUT", Some("1")) => Answer::new(403, "<Error><Code>AccessDenied</Code></Error>"),
            ("PUT", Some(_)) => {
                std::thread::sleep(Duration::from_secs(2));
                Answer::new(200, "").header("ETag", "\"e\"")
            }
            ("DELETE", _) => Answer::new(204, ""),
            _ => Answer::new(404, ""),
        };
        noted.lock().unwrap().push((asked.method.clone(), number));
        answer
    });
    let ended = store.run(&["copy", "--quiet", file.to_str().unwrap(), "s3://bucket/x"]);
    assert_said(&ended, 3, "AccessDenied");
    let ends = ends.lock().unwrap();
    let aborted = ends.iter().position(|(method, _)| method == "DELETE").expect("an end of the upload");
    let parts =
        |ends: &[(String, Option<String>)]| ends.iter().filter(|(_, number)| number.is_some()).count();
    assert!(parts(&ends[..aborted]) > 1 && parts(&ends[aborted..]) == 0, "{ends:?}");
}

#[test]
fn a_page_for_logging_in_is_no_empty_bucket() {
    for body in ["<html>login here</html>", "<!DOCTYPE html>\n<html><body/></html>", "{}", ""] {
        let portal = Server::start(move |_| Answer::new(200, body));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x"), "x").unwrap();
        for words in [
            &["sum", "--quiet", "s3://bucket"][..],
            &["sum", "--quiet", "s3://bucket/p"],
            &["compare", "--quiet", folder.path().to_str().unwrap(), "s3://bucket"],
        ] {
            let ended = portal.run(words);
            let said =
                "the store's answer is wrong: no list of objects: does a store answer at this endpoint?";
            assert_said(&ended, 3, said);
            assert_eq!(ended.out(), "", "{words:?}");
        }
    }
}

#[test]
fn a_damaged_list_is_called_so() {
    let whole = "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents>";
    for length in [44, 60, whole.len()] {
        let store = Server::start(move |_| Answer::new(200, &whole[..length]));
        let ended = store.run(&["sum", "--quiet", "s3://bucket"]);
        assert_said(&ended, 3, "the store's answer is wrong: its list of objects is cut or damaged\n");
    }
}

#[test]
fn a_head_that_is_none_of_http_is_called_so() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-x\r\n\r\n");
        }
    });
    let ended = run_at(&url, &["sum", "--quiet", "s3://bucket/x"]);
    assert_said(&ended, 3, "the head of the store's answer is none of HTTP: 127.0.0.1: ");
}

/// Every object would become one file at the place of the folder.
#[test]
fn an_empty_key_is_not_the_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let store = Server::start(|asked| match asked.is_listing() {
        true => asked_page(asked, &["", "one", "two"]),
        false => good(asked),
    });
    let said = "(an empty key): the key is no file name";
    assert_said(&store.run(&["copy", "s3://bucket", target.to_str().unwrap()]), 3, said);
    for name in ["one", "two"] {
        assert_eq!(fs::read(target.join(name)).unwrap(), b"lorem");
    }
    let catalog = folder.path().join("c.db");
    let scrub = ["scrub", "--foreground", "--catalog", catalog.to_str().unwrap(), "s3://bucket"];
    let ended = store.run(&scrub);
    let told = ended.out().contains(said) && ended.out().contains("new 2");
    assert!(ended.code == Some(3) && told, "{}", ended.out());
}

/// `a//b` is no name of a file, and none of `a/b`. A list names it as the bucket has it.
#[test]
fn an_alarm_names_the_key_of_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    let list = list.to_str().unwrap();
    let lorem = "3400bb495c3f8c4c3483a44c6bc1a92e9d94406db75a6f27dbccc11c76450d8a";
    let store = Server::start(|asked| match asked.is_listing() {
        true => asked_page(asked, &["a//b", "a/b", "d", "d/"]),
        false => good(asked),
    });
    for (digest, code, wrong) in
        [(lorem.to_string(), 0, Vec::new()), ("0".repeat(64), 1, vec!["a//b", "a/b", "d/", "d"])]
    {
        let lines = ["a//b", "a/b", "d/", "d"].map(|key| format!("{digest}  {key}\n"));
        fs::write(list, lines.concat()).unwrap();
        let checked = store.run(&["check", list, "s3://bucket"]);
        let alarms: Vec<&str> = checked
            .stderr
            .lines()
            .filter_map(|line| line.strip_prefix("s3://bucket/")?.split_once(": ").map(|(key, _)| key))
            .collect();
        assert_eq!((checked.code, alarms), (Some(code), wrong), "{}{}", checked.out(), checked.stderr);
    }
}
