//! Whether hashing costs time where a bucket is read: digests of its objects beside `object_store` reading the same ranges and
//! hashing nothing.
//!
//! `cargo bench -p verisum-object --bench bucket -- BUCKET [MIB [ROUNDS]]` writes one object of MIB, in parts of 8 MiB, and
//! as many bytes in objects of 64 KiB to the bucket, and reads both in turn, ROUNDS times; it leaves them there. The server
//! and its keys are those of `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`. The least time of each
//! counts. The second row of `object_store` is the control: what is measured of one thing twice.

#![allow(clippy::print_stdout)]

use std::ops::Range;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStoreExt, WriteMultipart};
use tokio::runtime::{Builder, Runtime};
use verisum_digest::Digest;
use verisum_files::place::{FileRequest, Files, Place, PlaceEvent};
use verisum_object::{BucketPlace, StoreOptions};

/// What verisum asks for at once, and how often at a time.
const RANGE: u64 = 2 << 20;
const AT_ONCE: usize = 16;

const SMALL: u64 = 64 << 10;
const PART: usize = 8 << 20;

const DIGESTS: [&str; 5] = ["sha256", "blake3", "md5", "crc64-nvme", "s3-etag:8M"];

/// An object, and its length in bytes.
type Length = (String, u64);

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let Some(bucket) = arguments.next() else { return println!("names no bucket, so nothing is measured") };
    let mut number = |usual: u64| arguments.next().map_or(usual, |text| text.parse().expect("a number"));
    let (bytes, rounds) = (number(1024) << 20, number(5));
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let options = StoreOptions::of_variables(std::env::vars());
    // It also chooses who encrypts, which both need.
    let mut place = BucketPlace::open(&format!("s3://{bucket}"), &options).expect("a bucket");
    let store = AmazonS3Builder::from_env()
        .with_bucket_name(&bucket)
        .with_allow_http(true)
        .build()
        .expect("variables of S3");
    let one = vec![("one".to_string(), bytes)];
    let many: Vec<Length> = (0..bytes / SMALL).map(|at| (format!("many/{at:06}"), SMALL)).collect();
    write(&runtime, &store, one.iter().chain(&many));
    println!("{:<24} {:<14} {:>8} {:>6}", "objects", "digest", "ms", "ratio");
    for objects in [one, many] {
        let mut least = vec![Duration::MAX; DIGESTS.len() + 2];
        for _ in 0..rounds {
            for (at, least) in least.iter_mut().enumerate() {
                let began = Instant::now();
                match at.checked_sub(2) {
                    Some(digest) => hash(&mut place, DIGESTS[digest], &objects),
                    None => read(&runtime, &store, &objects),
                }
                *least = began.elapsed().min(*least);
            }
        }
        let what = format!("{} of {} KiB", objects.len(), objects[0].1 >> 10);
        for (name, time) in ["object_store"; 2].iter().chain(&DIGESTS).zip(&least) {
            let (ms, ratio) = (time.as_secs_f64() * 1e3, time.as_secs_f64() / least[0].as_secs_f64());
            println!("{what:<24} {name:<14} {ms:>8.0} {ratio:>6.2}");
        }
    }
}

/// Writes the objects.
fn write<'a>(runtime: &Runtime, store: &AmazonS3, objects: impl Iterator<Item = &'a Length>) {
    runtime.block_on(async {
        for (name, length) in objects {
            let bytes: Vec<u8> = (0..PART.min(*length as usize)).map(|at| (at * 7 % 251) as u8).collect();
            let path = Path::from(&name[..]);
            if *length <= PART as u64 {
                store.put(&path, bytes.into()).await.expect("an object is written");
                continue;
            }
            let upload = store.put_multipart(&path).await.expect("an upload begins");
            let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
            for _ in 0..length.div_ceil(PART as u64) {
                upload.wait_for_capacity(4).await.expect("a part is written");
                upload.write(&bytes);
            }
            upload.finish().await.expect("an upload ends");
        }
    });
}

/// Reads all ranges of the objects.
fn read(runtime: &Runtime, store: &AmazonS3, objects: &[Length]) {
    let ranges = objects.iter().flat_map(|(name, length)| {
        (0..*length).step_by(RANGE as usize).map(move |at| (name, at..(at + RANGE).min(*length)))
    });
    let one = |(name, range): (&String, Range<u64>)| {
        let (store, path, length) = (store.clone(), Path::from(&name[..]), range.end - range.start);
        async move {
            let task = runtime.spawn(async move { store.get_range(&path, range).await });
            let bytes = task.await.expect("a task ends").expect("a range is read");
            assert_eq!(bytes.len() as u64, length);
            Ok::<(), ()>(())
        }
    };
    let all = stream::iter(ranges.map(one)).buffered(AT_ONCE).try_collect::<Vec<()>>();
    runtime.block_on(all).expect("all is read");
}

/// Computes a digest of each object.
fn hash(place: &mut BucketPlace, digest: &str, objects: &[Length]) {
    let digests = [Digest::find(digest).expect("a digest")];
    let mut files = objects
        .iter()
        .map(|(name, _)| FileRequest { path: format!("/{name}").into_bytes(), ..FileRequest::default() });
    let sink = |event: PlaceEvent| {
        if let PlaceEvent::Answer(answer) = event {
            assert!(answer.result.is_ok(), "{answer:?}");
        }
        true
    };
    place.hash(&digests, Files::Named(&mut files), &sink).expect("all is hashed");
}
