//! The program `verisum`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    verisum_cli::verisum()
}
