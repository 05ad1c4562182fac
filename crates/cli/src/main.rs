//! The program `verisum`.

#![deny(unsafe_code)]

fn main() -> std::process::ExitCode {
    verisum_cli::verisum()
}
