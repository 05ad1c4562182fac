//! The program `blksum`, with the options, output and exit codes of blkhash's.

#![deny(unsafe_code)]

fn main() -> std::process::ExitCode {
    verisum_cli::blksum()
}
