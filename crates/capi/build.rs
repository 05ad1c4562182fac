//! Gives the shared library its name for the dynamic linker, and keeps what is in other libraries to itself.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libblkhash.so.0");
    // Other crates of the workspace may turn on the C interface of a dependency that both have, as object_store does
    // with crc-fast. The compiler would export those functions too.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
