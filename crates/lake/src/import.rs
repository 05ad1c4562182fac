//! Imports of a lake into a catalogue.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use verisum_catalog::store::{Catalog, ImportCounts, ImportFault, RecordToImport};
use verisum_files::{Stop, Timestamp};

use crate::error::go_on;
use crate::{Lake, LakeError, Newest, Result, Row, repairs};

/// Records the present rows of all places of a lake, if they have a digest. Files that have a record keep it. Repairs of
/// trees that the catalogue then has are remembered too. All or nothing.
///
/// # Errors
/// A part is none, the catalogue cannot be written, or it is time to stop.
pub fn import(catalog: &Catalog, lake: &Path, now: Timestamp, stop: &Stop) -> Result<ImportCounts> {
    let lake = Lake::open(lake)?;
    let mut import = catalog.import_records(now)?;
    for place in lake.places()? {
        let mut is_begun = false;
        let mut rows = Newest::open(&place)?;
        while let Some((row, part)) = rows.read()? {
            go_on(stop)?;
            let Some(file) = arriving(&row) else { continue };
            if !is_begun {
                import.tree(place.name())?.map_err(|why| LakeError::part(place.path(), why.to_string()))?;
                is_begun = true;
            }
            let of_file = |why: ImportFault| format!("{}: {why}", file.path.display());
            import.file(&file)?.map_err(|why| LakeError::part(part, of_file(why)))?;
        }
    }
    for place in lake.repaired_places()? {
        // Nothing is recorded of it.
        if catalog.root(place.name())?.is_none() {
            continue;
        }
        import.tree(place.name())?.map_err(|why| LakeError::part(place.path(), why.to_string()))?;
        repairs::import(&mut import, &place)?;
    }
    Ok(import.finish()?)
}

/// What a catalogue is to record; none if nothing is known of the file, or no more.
fn arriving(row: &Row) -> Option<RecordToImport<'_>> {
    Some(RecordToImport {
        path: Path::new(OsStr::from_bytes(&row.path)),
        algorithm: &row.algorithm,
        digest: row.digest?,
        state: row.state?,
        size: row.size.unwrap_or_default(),
        mtime: row.mtime.unwrap_or_default(),
        ctime: row.ctime.unwrap_or_default(),
        inode: row.inode.unwrap_or_default(),
        first_seen: row.first_seen.unwrap_or(row.exported),
        changed: row.changed.unwrap_or(row.exported),
        verified: row.verified.unwrap_or_default(),
    })
}
