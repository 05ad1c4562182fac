//! Hashes COUNT messages of LENGTH bytes on THREADS threads, once for each line that it reads, and prints the seconds
//! that took: the kernels' share of what Python's `hash_many` does.
//!
//!     many DIGEST COUNT LENGTH THREADS

use std::io::BufRead;
use std::time::Instant;
use std::{env, io, thread};

use verisum_digest::Digest;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [digest, count, length, threads] = &arguments[..] else {
        return Err("usage: many DIGEST COUNT LENGTH THREADS".into());
    };
    let digest = Digest::find(digest)?;
    let (count, length, threads): (usize, usize, usize) = (count.parse()?, length.parse()?, threads.parse()?);
    let byte = |at: usize| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    let data: Vec<Vec<u8>> =
        (0..count).map(|number| (0..length).map(|at| byte(number * length + at)).collect()).collect();
    let messages: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut digests = vec![0; count * digest.len()];
    let share = count.div_ceil(threads.max(1)).max(1);
    for line in io::stdin().lock().lines() {
        line?;
        let started = Instant::now();
        thread::scope(|scope| {
            let parts = messages.chunks(share).zip(digests.chunks_mut(share * digest.len()));
            let hash = |(messages, digests): (&[&[u8]], &mut [u8])| digest.batch()?.hash(messages, digests);
            let work: Vec<_> = parts.map(|part| scope.spawn(move || hash(part))).collect();
            work.into_iter()
                .try_for_each(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        tell(started.elapsed().as_secs_f64());
    }
    Ok(())
}

#[allow(clippy::print_stdout)] // Its only output.
fn tell(seconds: f64) {
    println!("{seconds}");
}
