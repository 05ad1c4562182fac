//! The program `verisum-serve`: what `--push` copies to hosts.

#![deny(unsafe_code)]

fn main() -> std::process::ExitCode {
    verisum_cli::serve()
}
