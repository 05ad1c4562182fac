//! How long names of one hash take: legacy's by inversion, half_md4's and tea's by search.
//!
//! `cargo bench -p verisum-dirhash --bench attack [-- OPTION=VALUE ...]`, of which `names=100` is how many
//! legacy names are forged and `tries=100000000` how many hashes of each other one are tried; a search
//! that may find something needs some billions. All processors are used.

#![allow(clippy::print_stdout)] // A table is what this is for.

use std::collections::HashMap;

use verisum_dirhash::Hashing;
use verisum_dirhash::attack::collide;
use verisum_dirhash::namehash::{NameHash, Seed};

fn main() {
    let options: HashMap<String, u64> = std::env::args()
        .filter_map(|arg| arg.split_once('=').map(|(k, v)| (k.to_owned(), v.parse().expect("a number"))))
        .collect();
    let names = options.get("names").copied().unwrap_or(100).max(1) as usize;
    let tries = options.get("tries").copied().unwrap_or(100_000_000);
    let seed = Seed::parse("11223344-5566-7788-99aa-bbccddeeff00").expect("a seed");
    for (id, count) in [("legacy", names), ("half_md4", 1), ("tea", 1)] {
        let hashing = Hashing { hash: NameHash::find(id).expect("a hash"), seed };
        let found = collide(hashing, b"hello", count, tries, &mut |_, _| ());
        let time = found.time.as_secs_f64();
        let example = found.names.first().map(|name| String::from_utf8_lossy(name).into_owned());
        println!(
            "{id:<10} {} names in {time:.3} s, {} tried, {:.1} million/s; {}",
            found.names.len(),
            found.tried,
            found.tried as f64 / time / 1e6,
            example.unwrap_or_default()
        );
    }
}
