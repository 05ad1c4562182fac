//! Every provider computes the mapping that its row says: the verification code of each, the vectors
//! written by the Python reference, and streams cut in any way.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;
use verisum_digest::{ALGORITHMS, Digest, Level, PROVIDERS, Policy};

fn levels() -> impl Iterator<Item = Policy> {
    Level::ALL.iter().filter(|level| level.available()).map(|&max_level| Policy { max_level })
}

fn verification_message(n: usize) -> Vec<u8> {
    (0..n).map(|i| ((7 * i + n) % 256) as u8).collect()
}

fn verification_code(mut hash: impl FnMut(&[u8]) -> Vec<u8>) -> u32 {
    let outputs: Vec<u8> = (0..256).flat_map(|n| hash(&verification_message(n))).collect();
    let digest = Digest::find("sha256").unwrap().hash(&outputs).unwrap();
    u32::from_be_bytes(digest.as_bytes()[..4].try_into().unwrap())
}

#[test]
fn every_provider_has_its_algorithms_verification_code() {
    let mut run = 0;
    for policy in levels() {
        for provider in PROVIDERS {
            let algorithm = provider.algorithm();
            let what = format!("{} by {} up to {:?}", algorithm.id, provider.name, policy.max_level);
            if let Some(Ok(mut stream)) = provider.stream(&policy) {
                let code = verification_code(|message| {
                    let mut digest = vec![0; algorithm.digest_len()];
                    stream.update(message).unwrap();
                    stream.finish(&mut digest).unwrap();
                    digest
                });
                assert_eq!(code, algorithm.verification, "stream of {what}: {code:08x}");
                run += 1;
            }
        }
    }
    assert!(run >= PROVIDERS.len(), "only {run} streams were there to test");
}

#[test]
fn a_copy_of_a_message_goes_its_own_way() {
    let (begin, end) = (verification_message(200), verification_message(255));
    for provider in PROVIDERS {
        let Some(Ok(mut stream)) = provider.stream(&Policy::default()) else { continue };
        let mut digest_of = |parts: &[&[u8]]| {
            let mut digest = vec![0; provider.algorithm().digest_len()];
            parts.iter().for_each(|part| stream.update(part).unwrap());
            let mut copy = stream.copy().unwrap();
            stream.update(&end).unwrap();
            stream.finish(&mut digest).unwrap();
            let longer = digest.clone();
            copy.finish(&mut digest).unwrap();
            (digest, longer)
        };
        let what = format!("{} by {}", provider.algorithm, provider.name);
        let (copied, longer) = digest_of(&[&begin]);
        assert_eq!(longer, digest_of(&[&begin, &end]).0, "{what}: the message that was copied");
        assert_eq!(copied, digest_of(&[&begin[..77], &begin[77..]]).0, "{what}: the copy");
    }
}

/// The authors' test vector of the empty message.
#[test]
fn blake3_is_extended_to_64_bytes() {
    let blake3 = Digest::find("blake3").unwrap();
    let long = blake3.extended_to(64).unwrap().hash(b"").unwrap().to_string();
    let first = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(long, format!("{first}e00f03e7b69af26b7faaf09fcd333050338ddfe085b8cc869ca98b206c08243a"));
    for len in 0..=64 {
        let digest = blake3.extended_to(len).unwrap();
        assert_eq!((digest.len(), digest.hash(b"").unwrap().to_string()), (len, long[..2 * len].to_string()));
    }
    assert!(blake3.extended_to(65).is_none());
    assert!(Digest::find("sha256").unwrap().extended_to(16).is_none());
}

/// The code is that of `hashlib.blake2b(message, digest_size=length)` of Python.
#[test]
fn blake2b_has_digests_of_every_length() {
    let messages: Vec<Vec<u8>> = [0, 1, 128, 129, 255].into_iter().map(verification_message).collect();
    let slices: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    for policy in levels() {
        let (mut streamed, mut batched) = (Vec::new(), Vec::new());
        for len in 1..64 {
            let digest = Digest::find_with(&format!("BLAKE2b-{}", len * 8), &policy).unwrap();
            assert_eq!((digest.name(), digest.len()), (&*format!("blake2b-{}", len * 8), len));
            for message in &messages {
                streamed.extend_from_slice(digest.hash(message).unwrap().as_bytes());
            }
            let mut digests = vec![0; messages.len() * len];
            digest.batch().unwrap().hash(&slices, &mut digests).unwrap();
            batched.extend_from_slice(&digests);
        }
        assert_eq!(streamed, batched);
        let all = Digest::find("sha256").unwrap().hash(&streamed).unwrap();
        assert_eq!(all.to_string()[..8], *"11b053f7");
    }
    assert_eq!(Digest::find("blake2b-512").unwrap().name(), "blake2b512");
    for name in ["blake2b-0", "blake2b-7", "blake2b-520", "blake2b-+8", "blake2b-08", "blake2b-", "blake2b8"]
    {
        assert!(Digest::find(name).is_err(), "{name}");
    }
}

#[test]
fn every_batch_has_its_algorithms_verification_code() {
    for policy in levels() {
        for algorithm in ALGORITHMS {
            let digest = Digest::of(algorithm, &policy).unwrap();
            let messages: Vec<Vec<u8>> = (0..256).map(verification_message).collect();
            let slices: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
            let mut digests = vec![0; 256 * digest.len()];
            digest.batch().unwrap().hash(&slices, &mut digests).unwrap();
            let all = Digest::find("sha256").unwrap().hash(&digests).unwrap();
            let code = u32::from_be_bytes(all.as_bytes()[..4].try_into().unwrap());
            assert_eq!(code, algorithm.verification, "{digest:?}: {code:08x}");
        }
    }
}

#[test]
fn a_message_alone_in_its_batch_has_its_digest() {
    let messages: Vec<Vec<u8>> = [0, 1, 111, 112, 200].into_iter().map(verification_message).collect();
    for policy in levels() {
        for algorithm in ALGORITHMS {
            let digest = Digest::of(algorithm, &policy).unwrap();
            let mut batch = digest.batch().unwrap();
            let mut beside = [vec![0; digest.len()], vec![0; digest.len()]].concat();
            for message in &messages {
                let mut alone = vec![0; digest.len()];
                batch.hash(&[message], &mut alone).unwrap();
                batch.hash(&[message, message], &mut beside).unwrap();
                assert_eq!(beside, alone.repeat(2), "{digest:?}");
            }
        }
    }
}

#[test]
fn every_level_has_the_digests_of_its_algorithm() {
    let messages: Vec<Vec<u8>> = (0..40).map(verification_message).collect();
    let slices: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    for algorithm in ALGORITHMS {
        let digest = Digest::of(algorithm, &Policy::default()).unwrap();
        let expected: Vec<u8> =
            messages.iter().flat_map(|message| digest.hash(message).unwrap().as_bytes().to_vec()).collect();
        for at_level in Level::ALL.iter().filter_map(|&level| digest.at_level(level)) {
            let mut digests = vec![0; expected.len()];
            at_level.batch().unwrap().hash(&slices, &mut digests).unwrap();
            assert_eq!(digests, expected, "{at_level:?}");
        }
    }
    assert!(Digest::find("blake2b-8").unwrap().at_level(Level::Portable).is_none());
}

#[test]
fn every_algorithm_is_available_where_openssl_is() {
    for algorithm in ALGORITHMS {
        Digest::of(algorithm, &Policy::default()).unwrap();
    }
}

#[test]
fn the_references_vectors_hold() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/digests.json");
    let file: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    assert!(vectors.len() > 400);
    for vector in vectors {
        let name = vector["digest"].as_str().unwrap();
        let length = vector["length"].as_u64().unwrap() as usize;
        let message: Vec<u8> = match vector["message"].as_str().unwrap() {
            "empty" => Vec::new(),
            "cycle" => (0..length).map(|i| (i % 251) as u8).collect(),
            text => text.as_bytes().to_vec(),
        };
        assert_eq!(message.len(), length);
        for policy in levels() {
            let digest = Digest::find_with(name, &policy).unwrap();
            let expected = vector["hex"].as_str().unwrap();
            assert_eq!(digest.hash(&message).unwrap().to_string(), expected, "{name} of {length} bytes");
        }
    }
    for row in file["digests"].as_array().unwrap() {
        let digest = Digest::find(row["name"].as_str().unwrap()).unwrap();
        let algorithm = digest.algorithm().unwrap();
        assert_eq!(u64::from(algorithm.bits), row["bits"].as_u64().unwrap());
        assert_eq!(format!("{:08x}", algorithm.verification), row["verification_code"].as_str().unwrap());
    }
}

#[test]
fn openssl_agrees_by_every_name_it_gives() {
    for name in verisum_digest::openssl_names() {
        let digest = Digest::find(&format!("openssl:{name}")).unwrap();
        if let Ok(ours) = Digest::find(&name)
            && ours.len() == digest.len()
        {
            assert_eq!(ours.hash(b"abc").unwrap(), digest.hash(b"abc").unwrap(), "{name}");
        }
    }
}

#[test]
fn unknown_names_are_told_by_name() {
    let error = Digest::find("sha257").unwrap_err();
    assert_eq!(error.to_string(), "unknown digest: sha257");
    assert!(Digest::find("openssl:nosuch").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_stream_may_be_cut_anywhere(
        message in proptest::collection::vec(any::<u8>(), 0..5000),
        cuts in proptest::collection::vec(0usize..5000, 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut < message.len()).collect();
        cuts.extend([0, message.len()]);
        cuts.sort_unstable();
        for provider in PROVIDERS {
            let Some(Ok(mut stream)) = provider.stream(&Policy::default()) else { continue };
            let mut whole = vec![0; provider.algorithm().digest_len()];
            let mut pieces = whole.clone();
            stream.update(&message).unwrap();
            stream.finish(&mut whole).unwrap();
            for cut in cuts.windows(2) {
                stream.update(&message[cut[0]..cut[1]]).unwrap();
            }
            stream.finish(&mut pieces).unwrap();
            prop_assert_eq!(&whole, &pieces, "{} by {}", provider.algorithm, provider.name);
            stream.hash(&message, &mut pieces).unwrap();
            prop_assert_eq!(whole, pieces, "{} by {}, at once", provider.algorithm, provider.name);
        }
    }
}
