//! The names of the parity files, and of their usual folder.

/// Where the parity of a tree is unless another place is named.
pub const USUAL_PLACE: &str = ".verisum-parity";

/// The index, and a second copy of it.
pub(crate) const INDEX: [&str; 2] = ["index", "index.copy"];

/// What the names of notes begin with.
pub(crate) const NOTE: &str = "in-place-";

/// The name of a set's file.
pub(crate) fn set_name(number: u64) -> String {
    format!("set-{number:08}.parity")
}

/// Lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the note of what is written into a file in place, by the file's path.
pub(crate) fn note_name(path: &[u8]) -> String {
    format!("{NOTE}{}", hex(&crate::digest::whole(path)[..8]))
}

/// Whether a file has the name of a parity file, or of one that is being written.
pub(crate) fn is_ours(name: &str) -> bool {
    let name = name.strip_suffix(".new").unwrap_or(name);
    let is_note = |seal: &str| seal.len() == 16 && seal.bytes().all(|digit| digit.is_ascii_hexdigit());
    INDEX.contains(&name) || number_of(name).is_some() || name.strip_prefix(NOTE).is_some_and(is_note)
}

/// The number of a set, by the name of its file.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("set-")?.strip_suffix(".parity")?.parse().ok()?;
    (set_name(number) == name).then_some(number)
}
