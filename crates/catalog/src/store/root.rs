//! Roots: the trees of a catalogue, and how it recognizes them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rusqlite::{Row, params};

use super::listing::FROM_UNREAD;
use super::record::{MISSING, unsigned};
use super::{Catalog, Moment, Result, State};
use verisum_files::Stat;
use verisum_files::place::scheme;

/// What a directory was that the root's path led to: a mount point without its file system leads to
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The device it is on. It may be numbered anew at each start of the system.
    pub device: u64,
    /// Its number on that device.
    pub inode: u64,
}

impl Identity {
    /// The identity of a directory.
    pub fn of(stat: &Stat) -> Identity {
        Identity { device: stat.device, inode: stat.inode }
    }
}

/// Why a tree's records cannot be moved to another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmovable {
    /// Another tree, or the same, has this path.
    #[error("it is a tree of the catalogue already")]
    Taken,
    /// One path is of this machine, the other is not.
    #[error(
        "one is a tree of another machine, and the other of this one: their files have nothing in common"
    )]
    OtherMachine,
    /// There is no such directory on this machine.
    #[error("no directory is there")]
    NoDirectory,
}

/// A tree that is scrubbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its number in this catalogue.
    pub id: i64,
    /// Where it was last scrubbed, absolute; or the address of a tree on another machine.
    pub path: PathBuf,
    /// The number of its top directory.
    pub directory: i64,
    /// What its top directory was.
    pub identity: Identity,
    /// When its top directory was made, if the file system keeps that.
    pub born: Option<Moment>,
    /// How many files are recorded in it.
    pub files: u64,
    /// The sum of their lengths.
    pub bytes: u64,
    /// By which options it was last reached, as words of a command line, if any were needed. A catalogue from elsewhere
    /// may have any words here.
    pub options: Vec<OsString>,
}

impl Root {
    /// Whether it is on another machine.
    pub fn is_remote(&self) -> bool {
        is_address(&self.path)
    }

    /// Where something that lies in it is below its top.
    pub fn below<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.path).unwrap_or(Path::new(""))
    }
}

/// Whether a path is the address of something on another machine or in a store: `ssh://[USER@]HOST[:PORT]/PATH`,
/// `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `https://…`.
pub fn is_address(path: &Path) -> bool {
    scheme(path.as_os_str().as_bytes()).is_some()
}

const ROOT: &str = "id, path, directory, device, inode, files, bytes, born, options";

/// The directories in one, and itself. Of a damaged catalogue they may be inside each other: each is taken
/// once.
const INSIDE: &str = "WITH RECURSIVE inside(id) AS (VALUES (?1) UNION
    SELECT directory.id FROM directory JOIN inside ON directory.parent = inside.id)";

/// The states of the files of the root `?1` that have a record and are in trouble.
const RECORDED_TROUBLES: &str = "SELECT state FROM file WHERE root = ?1 AND state <> 0";

impl Catalog {
    /// All roots, by path.
    pub fn roots(&self) -> Result<Vec<Root>> {
        let sql = format!("SELECT {ROOT} FROM root ORDER BY path");
        self.rows(&sql, [], root)
    }

    /// The root of this path.
    pub fn root(&self, path: &Path) -> Result<Option<Root>> {
        let sql = format!("SELECT {ROOT} FROM root WHERE path = ?1");
        self.row(&sql, [path.as_os_str().as_bytes()], root)
    }

    /// The innermost root that holds a path, which may be the root's own.
    pub fn root_of(&self, path: &Path) -> Result<Option<Root>> {
        let at = |path: &Path| match self.root(path)? {
            // All of a host or a bucket has a slash at its end, which what is below it does not show.
            None if is_address(path) => {
                let whole = [path.as_os_str().as_bytes(), b"/"].concat();
                self.root(Path::new(OsStr::from_bytes(&whole)))
            }
            found => Ok(found),
        };
        path.ancestors().find_map(|path| at(path).transpose()).transpose()
    }

    /// Records a root.
    pub fn add_root(&self, path: &Path, identity: Identity) -> Result<Root> {
        // Whoever is killed in between leaves no root without a top.
        let (id, directory) = self.in_transaction(|| -> Result<_> {
            let directory = self.last_directory()? + 1;
            let sql = "INSERT INTO root(path, directory, device, inode) VALUES (?1, ?2, ?3, ?4)";
            let (device, inode) = (identity.device as i64, identity.inode as i64);
            let values = params![path.as_os_str().as_bytes(), directory, device, inode];
            self.connection.execute(sql, values).map_err(self.failed("write"))?;
            let id = self.connection.last_insert_rowid();
            self.add_directory(directory, -id, "".as_ref(), identity.device)?;
            Ok((id, directory))
        })?;
        let path = path.to_path_buf();
        Ok(Root { id, path, directory, identity, born: None, files: 0, bytes: 0, options: Vec::new() })
    }

    /// Says what a root's top directory is now, and when it was made. What was recorded on its device is on
    /// that which it has now, and what was recorded on another one stays on another one.
    pub fn set_identity(&self, root: &Root, identity: Identity, born: Option<Moment>) -> Result<()> {
        let (old, new) = (root.identity.device as i64, identity.device as i64);
        let set = || {
            if old != new {
                let sql = format!(
                    "{INSIDE} UPDATE directory SET device = CASE device WHEN ?2 THEN ?3 ELSE ?2 END
                     WHERE device IN (?2, ?3) AND id IN (SELECT id FROM inside)"
                );
                self.connection.execute(&sql, [root.directory, old, new])?;
            }
            let sql = "UPDATE root SET device = ?2, inode = ?3, born = ?4 WHERE id = ?1";
            self.connection.execute(sql, params![root.id, new, identity.inode as i64, born])
        };
        self.in_transaction(|| set().map(drop).map_err(self.failed("write")))
    }

    /// Keeps the options by which a root was reached; what is printed of its files later needs them.
    pub fn set_options(&self, root: &Root, options: &[OsString]) -> Result<()> {
        if root.options == options {
            return Ok(());
        }
        let words: Vec<u8> =
            options.iter().flat_map(|word| [word.as_bytes(), b"\0"]).flatten().copied().collect();
        self.write("UPDATE root SET options = ?2 WHERE id = ?1", params![root.id, words])
    }

    /// Whether something keeps a root's records from being moved to a path. Nobody calls another machine.
    pub fn why_unmovable(&self, root: &Root, to: &Path) -> Result<Option<Unmovable>> {
        let is_remote = is_address(to);
        Ok(if self.root(to)?.is_some() {
            Some(Unmovable::Taken)
        } else if root.is_remote() != is_remote {
            Some(Unmovable::OtherMachine)
        } else if !is_remote && !to.is_dir() {
            Some(Unmovable::NoDirectory)
        } else {
            None
        })
    }

    /// Says that a root is now at another path.
    pub fn relocate(&self, root: i64, path: &Path) -> Result<()> {
        let sql = "UPDATE root SET path = ?2 WHERE id = ?1";
        let values = params![root, path.as_os_str().as_bytes()];
        self.write(sql, values)
    }

    /// Removes a root with all that is recorded of it, and says how many records that were. All or nothing.
    pub fn forget_root(&self, root: &Root) -> Result<u64> {
        let forget = || {
            let mut forgotten = 0;
            for table in ["finding", "file", "replaced", "fresh", "former", "unread", "repair"] {
                let sql = format!("{INSIDE} DELETE FROM {table} WHERE directory IN (SELECT id FROM inside)");
                let count = self.connection.execute(&sql, [root.directory])?;
                if table == "file" {
                    forgotten = count as u64;
                }
            }
            let sql = format!("{INSIDE} DELETE FROM directory WHERE id IN (SELECT id FROM inside)");
            self.connection.execute(&sql, [root.directory])?;
            self.connection.execute("DELETE FROM run WHERE root = ?1", [root.id])?;
            self.connection.execute("DELETE FROM generation WHERE root = ?1", [root.id])?;
            self.connection.execute("DELETE FROM root WHERE id = ?1", [root.id])?;
            Ok(forgotten)
        };
        self.in_transaction(|| forget().map_err(self.failed("write")))
    }

    /// The number of a directory by its path below a root's top, if it is recorded.
    pub fn directory(&self, root: &Root, below: &Path) -> Result<Option<i64>> {
        let mut id = root.directory;
        for name in below.components() {
            match self.directory_in(id, name.as_os_str())? {
                Some(found) => id = found,
                None => return Ok(None),
            }
        }
        Ok(Some(id))
    }

    /// The number of a directory in another one, if it is recorded.
    pub fn directory_in(&self, parent: i64, name: &OsStr) -> Result<Option<i64>> {
        let sql = "SELECT id FROM directory WHERE parent = ?1 AND name = ?2";
        self.row(sql, params![parent, name.as_bytes()], |row| row.get(0))
    }

    /// The numbers of the algorithms that records of a root have.
    pub fn algorithms_of(&self, root: i64) -> Result<Vec<i64>> {
        let sql = "SELECT DISTINCT algorithm FROM file WHERE root = ?1";
        self.rows(sql, [root], |row| row.get(0))
    }

    /// How many files of a root are in each trouble, also those that no run could read and that have no record.
    pub fn troubles(&self, root: i64) -> Result<Vec<(State, u64)>> {
        self.count_troubles(root, &format!("{RECORDED_TROUBLES} UNION ALL SELECT state {FROM_UNREAD}"))
    }

    /// The same of those that have a record.
    pub fn recorded_troubles(&self, root: i64) -> Result<Vec<(State, u64)>> {
        self.count_troubles(root, RECORDED_TROUBLES)
    }

    pub(super) fn count_troubles(&self, root: i64, states: &str) -> Result<Vec<(State, u64)>> {
        let sql = &format!("SELECT state, count(*) FROM ({states}) GROUP BY state");
        let rows: rusqlite::Result<Vec<(i64, u64)>> =
            self.connection.prepare_cached(sql).and_then(|mut statement| {
                statement.query_map([root], |row| Ok((row.get(0)?, unsigned(row, 1)?)))?.collect()
            });
        let rows = rows.map_err(self.failed("read"))?;
        let mut counts: Vec<(State, u64)> = Vec::new();
        for (code, count) in rows {
            // A number that no state has says nothing of the file.
            let state = State::of_code(code).unwrap_or(State::DAMAGED);
            match counts.iter_mut().find(|(known, _)| *known == state) {
                Some((_, known)) => *known += count,
                None => counts.push((state, count)),
            }
        }
        Ok(counts)
    }

    /// How many files of a root wait for somebody: those that are not as recorded, and those that took the place of
    /// another one.
    pub fn waiting(&self, root: i64) -> Result<u64> {
        let in_trouble: u64 = self.recorded_troubles(root)?.iter().map(|(_, count)| count).sum();
        Ok(in_trouble + self.replaced(root)?)
    }

    /// When the stalest file of a root was last verified. What is missing cannot be verified, and tells nothing of the
    /// others. A verification after `until` [does not count](verisum_files::FUTURE), as if there were none.
    pub fn oldest(&self, root: i64, until: Moment) -> Result<Option<Moment>> {
        let sql = "SELECT min(iif(verified > ?3, 0, verified)) FROM file WHERE root = ?1 AND state <> ?2";
        let values = (root, MISSING, until);
        self.connection.query_row(sql, values, |row| row.get(0)).map_err(self.failed("read"))
    }

    /// Makes a root's sums those of its files.
    pub fn recount(&self, root: i64) -> Result<()> {
        let sql = "UPDATE root SET files = (SELECT count(*) FROM file WHERE root = ?1),
                   bytes = (SELECT coalesce(sum(size), 0) FROM file WHERE root = ?1) WHERE id = ?1";
        self.write(sql, [root])
    }

    /// The length of all files of a root that were last verified before `before` or after `until`.
    pub fn bytes_due(&self, root: i64, before: Moment, until: Moment) -> Result<u64> {
        let sql =
            "SELECT coalesce(sum(size), 0) FROM file WHERE root = ?1 AND (verified < ?2 OR verified > ?3)";
        let sum = self.connection.query_row(sql, (root, before, until), |row| unsigned(row, 0));
        sum.map_err(self.failed("read"))
    }

    /// The device that a directory was on.
    pub fn device(&self, directory: i64) -> Result<Option<u64>> {
        let sql = "SELECT device FROM directory WHERE id = ?1";
        self.row(sql, [directory], |row| unsigned(row, 0))
    }

    /// Says which device a directory is on now, with all that is recorded on the same one in it.
    pub fn set_device(&self, directory: i64, device: u64) -> Result<()> {
        let sql = format!(
            "{INSIDE} UPDATE directory SET device = ?2 WHERE id IN (SELECT id FROM inside)
             AND device = (SELECT device FROM directory WHERE id = ?1)"
        );
        self.write(&sql, [directory, device as i64])
    }

    /// The parent of a directory, negative for that of a root's top.
    pub fn parent(&self, directory: i64) -> Result<Option<i64>> {
        let sql = "SELECT parent FROM directory WHERE id = ?1";
        self.row(sql, [directory], |row| row.get(0))
    }
}

fn root(row: &Row<'_>) -> rusqlite::Result<Root> {
    let path: Vec<u8> = row.get(1)?;
    Ok(Root {
        id: row.get(0)?,
        path: OsString::from_vec(path).into(),
        directory: row.get(2)?,
        identity: Identity { device: unsigned(row, 3)?, inode: unsigned(row, 4)? },
        files: unsigned(row, 5)?,
        bytes: unsigned(row, 6)?,
        born: row.get(7)?,
        options: words(row.get_ref(8)?.as_bytes_or_null().ok().flatten().unwrap_or_default()),
    })
}

/// Words that each have a NUL behind them.
fn words(kept: &[u8]) -> Vec<OsString> {
    let words = kept.split_inclusive(|byte| *byte == 0);
    words.filter_map(|word| Some(OsStr::from_bytes(word.strip_suffix(b"\0")?).to_os_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::catalog;

    #[test]
    fn the_options_of_a_root_stay_whatever_its_path_and_may_be_anything() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        assert_eq!(root.options, Vec::<OsString>::new());
        let words = ["--ssh-config", "/a b/\n", ""].map(OsString::from);
        catalog.set_options(&root, &words).unwrap();
        catalog.relocate(root.id, Path::new("/other")).unwrap();
        let root = catalog.root(Path::new("/other")).unwrap().unwrap();
        assert_eq!(root.options, words);
        catalog.set_options(&root, &[]).unwrap();
        assert_eq!(catalog.roots().unwrap()[0].options, Vec::<OsString>::new());
        for (kept, words) in [("7", vec![]), ("0.5", vec![]), ("'text'", vec![]), ("x'610062'", vec!["a"])] {
            catalog.connection.execute_batch(&format!("UPDATE root SET options = {kept}")).unwrap();
            assert_eq!(catalog.roots().unwrap()[0].options, words, "{kept}");
        }
    }
}
