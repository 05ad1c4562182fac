//! The rows of an inventory in Parquet, read page by page. Only pages of a bounded length are unpacked.

use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;
use verisum_files::parquet_page::require_short_pages;
use verisum_files::place::Modified;
use verisum_files::{Timestamp, decoded};

use crate::inventory::{Object, Rows, bad};

/// The columns that are read. Others are not even unpacked.
const COLUMNS: [&str; 8] = [
    "bucket",
    "key",
    "size",
    "last_modified_date",
    "e_tag",
    "is_latest",
    "is_delete_marker",
    "encryption_status",
];

/// Adds all rows of a file whose keys are below this root, or are it.
pub(crate) fn read(rows: &mut Rows, root: &[u8], file: File) -> io::Result<()> {
    // What the library leaves half done is dropped with it, and the rows are of no use.
    let read = decoded(|| read_rows(rows, root, file));
    read.unwrap_or_else(|| Err(bad("the bytes of a data file make no sense")))
}

fn read_rows(rows: &mut Rows, root: &[u8], file: File) -> io::Result<()> {
    let wrong = |_: ParquetError| bad("a data file is no Parquet");
    let reader = SerializedFileReader::new(file.try_clone()?).map_err(wrong)?;
    for group in reader.metadata().row_groups() {
        for column in group.columns() {
            let name = column.column_path().parts().first();
            if name.is_some_and(|name| COLUMNS.contains(&&name[..])) {
                require_bounded(&file, column)?;
            }
        }
    }
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
                ("bucket", Field::Str(bucket)) => object.bucket = Some(bucket.clone()),
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
                ("last_modified_date", _) => object.is_untimed = true,
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

/// Fails unless the pages of a column can be unpacked, in little memory: a short one may be packed of a very long one.
fn require_bounded(file: &File, column: &ColumnChunkMetaData) -> io::Result<()> {
    if !matches!(column.compression(), Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_))
    {
        return Err(bad("a data file is packed in another way than by Snappy or Zstandard"));
    }
    let (start, length) = column.byte_range();
    require_short_pages(file, (start, start.saturating_add(length))).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => bad("a page of a data file is too long or damaged"),
        _ => error,
    })
}

/// Stores keep whole seconds, and listings tell no more.
fn of_seconds(seconds: i64) -> Modified {
    Modified { time: Timestamp { seconds, nanoseconds: 0 }, is_exact: false }
}

#[cfg(test)]
mod tests {
    use parquet::basic::ZstdLevel;
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
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
        rows.add(b"", &DataFile { key: "x.parquet".to_string(), md5, size: None }, content)?;
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

    /// A file with one key of this length.
    fn with_key(length: usize, packed: Compression) -> Vec<u8> {
        let columns = "message inventory { required binary key (UTF8); required int64 size; }";
        let schema = Arc::new(parse_message_type(columns).unwrap());
        let set = WriterProperties::builder().set_compression(packed).set_dictionary_enabled(false).build();
        let mut content = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut content, schema, Arc::new(set)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let key = ByteArray::from(vec![b'k'; length]);
        column.typed::<ByteArrayType>().write_batch(&[key], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[5], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        content
    }

    #[test]
    fn a_short_file_of_a_long_key_takes_no_memory() {
        for packed in
            [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())]
        {
            assert_eq!(listed(&with_key(1024, packed), None).unwrap()[0].key.len(), 1024);
            let error = listed(&with_key(1025, packed), None).unwrap_err();
            assert_eq!(error.to_string(), "a row is too long");
            let error = listed(&with_key(17 << 20, packed), None).unwrap_err();
            assert_eq!(error.to_string(), "a page of a data file is too long or damaged");
        }
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
