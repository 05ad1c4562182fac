//! Finds programs of the system.

use std::env;
use std::path::PathBuf;

/// Where programs are that the search path of many users lacks.
const BEYOND_PATH: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/lib", "/usr/local/sbin"];

/// A program on the search path, or where the system keeps others. Relative folders are passed over: from each folder
/// they lead to another one.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(BEYOND_PATH.map(PathBuf::from));
    let mut programs = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
    programs.find(|program| program.is_file())
}
