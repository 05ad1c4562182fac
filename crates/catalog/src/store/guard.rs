//! The check value of a record.
//!
//! With it, a bit that flips in the catalogue does not look like one that flipped in the file.
//!
//! It is a function of SQL, so that every statement that writes to a record can write its check value too,
//! and none that only reads has to know how it is made.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use twox_hash::XxHash3_64;

/// Whether the record of the row at hand is as it was written.
pub(super) const IS_INTACT: &str = "file.guard IS verisum_guard(file.directory, file.name, file.root, \
    file.size, file.mtime, file.ctime, file.inode, file.algorithm, file.digest, file.first_seen, \
    file.changed, file.verified, file.state)";

/// The check value that the row at hand has once its state is this.
pub(super) fn guard_with(state: &str) -> String {
    format!(
        "verisum_guard(file.directory, file.name, file.root, file.size, file.mtime, file.ctime, \
         file.inode, file.algorithm, file.digest, file.first_seen, file.changed, file.verified, {state})"
    )
}

/// Lets a connection compute check values: `verisum_guard(…)`, 64 bits of XXH3 over all of its arguments,
/// each with its type and length.
pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("verisum_guard", -1, flags, |values| {
        Ok(of((0..values.len()).map(|number| values.get_raw(number))))
    })
}

/// The check value of these columns.
pub(super) fn of<'a>(values: impl Iterator<Item = ValueRef<'a>>) -> i64 {
    let mut bytes = Vec::with_capacity(256);
    for value in values {
        let (kind, value): (u8, &[u8]) = match value {
            ValueRef::Integer(value) => {
                bytes.push(b'i');
                bytes.extend_from_slice(&value.to_le_bytes());
                continue;
            }
            ValueRef::Real(value) => {
                bytes.push(b'r');
                bytes.extend_from_slice(&value.to_bits().to_le_bytes());
                continue;
            }
            ValueRef::Null => (b'n', &[]),
            ValueRef::Text(value) => (b't', value),
            ValueRef::Blob(value) => (b'b', value),
        };
        bytes.push(kind);
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    // Not by the digest table: setting a digest up takes longer than this.
    XxHash3_64::oneshot(&bytes) as i64
}
