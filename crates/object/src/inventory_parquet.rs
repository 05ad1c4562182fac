//! The rows of an inventory in Parquet, read page by page.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;
use verisum_files::Timestamp;
use verisum_files::place::Modified;

use crate::inventory::{Object, Rows, bad};

/// The columns that are read. Others are not even unpacked.
const COLUMNS: [&str; 7] =
    ["key", "size", "last_modified_date", "e_tag", "is_latest", "is_delete_marker", "encryption_status"];

/// Adds all rows of a file whose keys are below this root, or are it.
pub(crate) fn read(rows: &mut Rows, root: &[u8], file: File) -> io::Result<()> {
    // The library panics at some damage. What it leaves half done is dropped with it, and the rows are of no use.
    let read = catch_unwind(AssertUnwindSafe(|| read_rows(rows, root, file)));
    read.unwrap_or_else(|_| Err(bad("the bytes of a data file make no sense")))
}

fn read_rows(rows: &mut Rows, root: &[u8], file: File) -> io::Result<()> {
    let wrong = |_: ParquetError| bad("a data file is no Parquet");
    let reader = SerializedFileReader::new(file).map_err(wrong)?;
    let schema = reader.metadata().file_metadata().schema();
    let fields: Vec<Arc<Type>> =
        schema.get_fields().iter().filter(|field| COLUMNS.contains(&field.name())).cloned().collect();
    let has = |name: &str| fields.iter().any(|field| field.name() == name && field.is_primitive());
    if !has("key") || !has("size") {
        return Err(bad("a data file has no columns key and size"));
    }
    let wanted = Type::group_type_builder(schema.name()).with_fields(fields).build().map_err(wrong)?;
    for row in reader.get_row_iter(Some(wanted)).map_err(wrong)? {
        let row = row.map_err(wrong)?;
        let mut object = Object::default();
        for (name, field) in row.get_column_iter() {
            match (&name[..], field) {
                ("key", Field::Str(key)) => object.key = Some(key.clone().into_bytes()),
                ("key", Field::Bytes(key)) => object.key = Some(key.data().to_vec()),
                ("size", Field::Long(size)) => object.size = u64::try_from(*size).ok(),
                ("size", Field::Int(size)) => object.size = u64::try_from(*size).ok(),
                ("size", Field::ULong(size)) => object.size = Some(*size),
                ("last_modified_date", Field::TimestampMillis(time)) => {
                    object.modified = Some(of_seconds(time.div_euclid(1000)));
                }
                ("last_modified_date", Field::TimestampMicros(time)) => {
                    object.modified = Some(of_seconds(time.div_euclid(1_000_000)));
                }
                ("e_tag", Field::Str(etag)) => object.etag = Some(etag.clone()),
                ("is_latest", Field::Bool(is_latest)) => object.is_old = !is_latest,
                ("is_delete_marker", Field::Bool(is_marker)) => object.is_marker = *is_marker,
                ("encryption_status", Field::Str(how)) => object.encryption = Some(how.clone()),
                _ => {}
            }
        }
        rows.object(root, object)?;
    }
    Ok(())
}

/// Stores keep whole seconds, and listings tell no more.
fn of_seconds(seconds: i64) -> Modified {
    Modified { time: Timestamp { seconds, nanoseconds: 0 }, is_exact: false }
}

#[cfg(test)]
mod tests {
    use verisum_digest::Digest;

    use super::*;
    use crate::inventory::{DataFile, Inventory, Location};
    use crate::listing::{self, Listed};

    /// Written by another library: testdata/inventory.py.
    const FILE: &[u8] = include_bytes!("../testdata/inventory.parquet");

    fn listed(content: &[u8], md5: Option<String>) -> io::Result<Vec<Listed>> {
        let manifest =
            "{\"sourceBucket\":\"box\",\"fileFormat\":\"Parquet\",\"fileSchema\":\"\",\"files\":[]}";
        let place = Location::File("m".into());
        let inventory = Inventory::new(manifest.as_bytes(), "box", place, &std::env::temp_dir()).unwrap();
        let mut rows = inventory.rows();
        rows.add(b"", &DataFile { key: "x.parquet".to_string(), md5 }, content)?;
        let mut all = Vec::new();
        rows.each(|listed| {
            all.push(listed);
            true
        })?;
        Ok(all)
    }

    #[test]
    fn rows_are_those_that_another_library_wrote() {
        let md5 = Digest::find("md5").unwrap().hash(FILE).unwrap().to_string();
        let found = listed(FILE, Some(md5)).unwrap();
        let keys: Vec<&[u8]> = found.iter().map(|listed| &listed.key[..]).collect();
        assert_eq!(keys, [&b"a b/c%2F\n"[..], b"z"]);
        assert_eq!((found[0].recorded, found[0].seen.size), (None, Some(0)));
        assert_eq!((found[1].recorded.is_some(), found[1].seen.size), (true, Some(5)));
        let time = |at: usize| found[at].seen.modified.map(|modified| modified.time.seconds);
        assert_eq!((time(0), time(1)), (Some(1_795_402_200), Some(1_795_402_200)));
        let identity = listing::identity(b"z", "00112233445566778899aabbccddeeff");
        assert!(identity.is_some() && found[1].seen.identity == identity);
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        for bad in [&b""[..], b"PAR1", b"PAR1xxxxPAR1", &FILE[..FILE.len() - 9]] {
            assert!(listed(bad, None).is_err());
        }
        assert!(listed(FILE, Some("0".repeat(32))).is_err());
        // Whatever a byte of it becomes, it is read or refused.
        for at in (0..FILE.len()).step_by(13) {
            let mut changed = FILE.to_vec();
            changed[at] ^= 0x55;
            let _ = listed(&changed, None);
        }
    }
}
