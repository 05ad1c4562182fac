//! Finds files by names in Unicode's NFKD, which bitrot writes, whatever the form of the names on the disk.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use unicode_normalization::UnicodeNormalization;
use verisum::files::Directory;

/// The most directories whose names are kept.
const MOST_KEPT: usize = 64;

/// Of directories, the names whose NFKD is another, by that: bitrot goes from directory to directory, and few
/// are enough.
#[derive(Default)]
pub(crate) struct Decomposed(HashMap<PathBuf, NamesByForm>);

/// None where several have the same, and it cannot be known whose it is.
type NamesByForm = HashMap<String, Option<OsString>>;

impl Decomposed {
    /// The name that a file below a directory has, if there is none of the name that was recorded. What is
    /// found is but a name: it may lead elsewhere by the time that it is opened, and out of the directory.
    pub(crate) fn name(&mut self, base: &Directory, recorded: &[u8]) -> Option<Vec<u8>> {
        let recorded = Path::new(OsStr::from_bytes(recorded));
        if is_there(base, recorded) {
            return None;
        }
        let mut found = PathBuf::new();
        for component in recorded.components() {
            let Component::Normal(step) = component else {
                if component == Component::CurDir {
                    continue;
                }
                return None;
            };
            let step = match is_there(base, &found.join(step)) {
                true => step.to_os_string(),
                false => self.in_directory(base, &found)?.get(step.to_str()?)?.clone()?,
            };
            found.push(step);
        }
        Some(found.into_os_string().into_vec())
    }

    fn in_directory(&mut self, base: &Directory, way: &Path) -> Option<&NamesByForm> {
        let directory = base.path().join(way);
        if !self.0.contains_key(&directory) {
            if self.0.len() >= MOST_KEPT {
                self.0.clear();
            }
            let names = names(&directory)?;
            self.0.insert(directory.clone(), names);
        }
        self.0.get(&directory)
    }
}

fn names(directory: &Path) -> Option<NamesByForm> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let mut names = NamesByForm::new();
    for entry in std::fs::read_dir(directory).ok()? {
        let name = entry.ok()?.file_name();
        let Some(text) = name.to_str().filter(|text| !text.is_ascii()) else { continue };
        let decomposed: String = text.nfkd().collect();
        if decomposed != text {
            let name = Some(name.clone());
            names.entry(decomposed).and_modify(|known| *known = None).or_insert(name);
        }
    }
    Some(names)
}

fn is_there(base: &Directory, name: &Path) -> bool {
    base.path().join(name).symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_form() {
        let folder = tempfile::tempdir().unwrap();
        let composed = "\u{e9}t\u{e9}";
        std::fs::create_dir(folder.path().join(composed)).unwrap();
        for name in ["\u{fb01}n", "plain", "\u{212b}", "\u{c5}"] {
            std::fs::write(folder.path().join(composed).join(name), "").unwrap();
        }
        let base = Directory::named(folder.path()).unwrap();
        let mut decomposed = Decomposed::default();
        let mut find = |name: &str| {
            let found = decomposed.name(&base, name.as_bytes())?;
            Some(String::from_utf8(found).unwrap())
        };
        let form = |text: &str| text.nfkd().collect::<String>();
        assert_eq!(find("./plain"), None);
        assert_eq!(find(&format!("./{}/plain", form(composed))), Some(format!("{composed}/plain")));
        assert_eq!(find(&format!("./{}/fin", form(composed))), Some(format!("{composed}/\u{fb01}n")));
        assert_eq!(find(&format!("./{composed}/\u{fb01}n")), None);
        // Two files of one form, and none.
        assert_eq!(find(&format!("./{}/{}", form(composed), form("\u{c5}"))), None);
        assert_eq!(find(&format!("../{}", form(composed))), None);
    }
}
