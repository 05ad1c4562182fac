//! The command that repairs an image which differs from its block map, and where a good copy is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use verisum::catalog::store::{Catalog, CatalogError, is_address};
use verisum::image::Opened;

use crate::ui::catalog::{CatalogArgs, absolute};
use crate::ui::failure::Failure;
use crate::ui::repair_commands::{of_catalog, with_source};
use crate::ui::{bad_file, names, shell};

/// How an image can be had again.
pub(super) struct ImageRemedy {
    /// A good copy that the catalogue knows.
    copy: Option<PathBuf>,
    /// The command that mends it, without a copy; none for images that `image repair` does not write to.
    command: Option<String>,
}

impl ImageRemedy {
    /// Of an image with a map. Reads no copy.
    pub(super) fn of(
        map: &Path,
        image: &OsStr,
        is_mendable: bool,
        catalog_args: &CatalogArgs,
    ) -> Result<ImageRemedy, Failure> {
        let copy = match catalog_args.open_if_there()? {
            Some(catalog) => copy_of(&catalog, Path::new(image))?,
            None => None,
        };
        let option = catalog_args.catalog.as_deref().map(of_catalog).unwrap_or_default();
        let word = |name: &OsStr| shell::word(name.as_encoded_bytes());
        let command =
            || format!("verisum image repair{option} --map {} {}", word(map.as_os_str()), word(image));
        Ok(ImageRemedy { copy, command: is_mendable.then(command) })
    }

    /// The command that mends it; none where somebody has to name a copy.
    pub(super) fn command(&self) -> Option<String> {
        Some(with_source(self.command.as_deref()?, self.copy.as_deref()?))
    }

    /// Says it on standard error.
    pub(super) fn tell(&self) {
        let copy = self.copy.as_ref().map(|copy| names::quoted(copy.as_os_str()));
        let known = match &copy {
            Some(copy) => format!("a good copy is {copy}"),
            None => "no copy is known".to_string(),
        };
        match (&self.command, self.command()) {
            (_, Some(command)) => {
                bad_file::advise_mending(
                    &format!("{known}; if nobody wrote to the image, mend it"),
                    &command,
                );
            }
            (Some(command), None) => bad_file::advise_mending(
                &format!("{known}; if nobody wrote to the image, mend it from a copy"),
                &format!("{command} --from PLACE"),
            ),
            (None, None) => bad_file::advise_mending(
                &format!("{known}; `verisum image repair` cannot write to such an image"),
                "put a good copy in its place",
            ),
        }
    }
}

/// Whether `image repair` takes such an image: a raw one of this machine.
pub(super) fn is_raw_and_here(opened: &Opened) -> bool {
    let Opened::Image(image) = opened else { return false };
    let layers = image.layers();
    let only = layers.first().filter(|_| layers.len() == 1);
    only.is_some_and(|layer| layer.format == "raw" && Path::new(&layer.name).exists())
}

/// Another file with the content that the catalogue has of an image.
fn copy_of(catalog: &Catalog, image: &Path) -> Result<Option<PathBuf>, Failure> {
    let image = if is_address(image) { image.to_path_buf() } else { absolute(image)? };
    let (Some(root), Some(name)) = (catalog.root_of(&image)?, image.file_name()) else { return Ok(None) };
    let folder = root.below(&image).parent().unwrap_or(Path::new(""));
    let Some(directory) = catalog.directory(&root, folder)? else { return Ok(None) };
    let Some(record) = catalog.record(directory, name)? else { return Ok(None) };
    let algorithms = catalog.algorithms()?;
    let Some((_, algorithm)) = algorithms.into_iter().find(|(number, _)| *number == record.algorithm) else {
        return Ok(None);
    };
    let mut copy = None;
    catalog.each_copy_of_contents(&[(algorithm, record.digest.as_bytes().to_vec())], &mut |file| {
        copy = copy.take().or(Some(file.path).filter(|path| *path != image));
        Ok::<_, CatalogError>(())
    })?;
    Ok(copy)
}
