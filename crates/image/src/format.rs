//! The formats of disk images: one table with their names, and the bytes that identify them.

use crate::numbers::{be32, be64};
use crate::{Image, ImageError};

/// What the bytes of a file mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    /// The guest's bytes as they are.
    Raw,
    /// QEMU's own format.
    Qcow2,
    /// Its first version, which nothing writes any more.
    Qcow,
    /// An enhanced format of QEMU that was given up.
    Qed,
    /// VMware's.
    Vmdk,
    /// VirtualBox's.
    Vdi,
    /// Hyper-V's.
    Vhdx,
    /// Virtual PC's, the older format of Hyper-V and Azure.
    Vpc,
    /// Parallels'.
    Parallels,
    /// Apple's disk images.
    Dmg,
}

/// A row of [`FORMATS`].
#[derive(Debug)]
pub struct Description {
    /// Which format it is.
    pub format: ImageFormat,
    /// The name that QEMU gives it.
    pub name: &'static str,
    /// Its name in a sentence.
    pub title: &'static str,
    /// Other spellings.
    pub aliases: &'static [&'static str],
    /// How the names of its files end, the usual one first.
    pub endings: &'static [&'static str],
    /// A place in bytes from the start, and what is there; any of them tells the format.
    magics: &'static [(usize, &'static [u8])],
    /// Whether the last 512 bytes of a file of this length tell the format.
    trailer: Option<fn(&[u8; TRAILER_LEN], u64) -> bool>,
}

/// Every format, in the order of [`ImageFormat`]: what the command line, the messages and the tests know of them.
pub static FORMATS: &[Description] = &[
    Description {
        format: ImageFormat::Raw,
        name: "raw",
        title: "raw",
        aliases: &[],
        endings: &["img", "raw", "iso"],
        magics: &[],
        trailer: None,
    },
    Description {
        format: ImageFormat::Qcow2,
        name: "qcow2",
        title: "qcow2",
        aliases: &[],
        endings: &["qcow2"],
        // Also of versions that do not exist: those are refused by their number.
        magics: &[(0, b"QFI\xfb")],
        trailer: None,
    },
    Description {
        format: ImageFormat::Qcow,
        name: "qcow",
        title: "qcow",
        aliases: &[],
        endings: &["qcow"],
        magics: &[(0, b"QFI\xfb\0\0\0\x01")],
        trailer: None,
    },
    Description {
        format: ImageFormat::Qed,
        name: "qed",
        title: "QED",
        aliases: &[],
        endings: &["qed"],
        magics: &[(0, b"QED\0")],
        trailer: None,
    },
    Description {
        format: ImageFormat::Vmdk,
        name: "vmdk",
        title: "VMDK",
        aliases: &[],
        endings: &["vmdk"],
        magics: &[(0, b"KDMV"), (0, b"COWD"), (0, b"# Disk DescriptorFile")],
        trailer: None,
    },
    Description {
        format: ImageFormat::Vdi,
        name: "vdi",
        title: "VDI",
        aliases: &[],
        endings: &["vdi"],
        magics: &[(64, b"\x7f\x10\xda\xbe")],
        trailer: None,
    },
    Description {
        format: ImageFormat::Vhdx,
        name: "vhdx",
        title: "VHDX",
        aliases: &[],
        endings: &["vhdx"],
        magics: &[(0, b"vhdxfile")],
        trailer: None,
    },
    Description {
        format: ImageFormat::Vpc,
        name: "vpc",
        title: "VHD",
        aliases: &["vhd"],
        endings: &["vhd"],
        magics: &[(0, VHD_COOKIE)],
        trailer: Some(is_fixed_vhd),
    },
    Description {
        format: ImageFormat::Parallels,
        name: "parallels",
        title: "Parallels",
        aliases: &[],
        endings: &["hds"],
        magics: &[(0, b"WithoutFreeSpace"), (0, b"WithouFreSpacExt")],
        trailer: None,
    },
    Description {
        format: ImageFormat::Dmg,
        name: "dmg",
        title: "DMG",
        aliases: &[],
        endings: &["dmg"],
        magics: &[],
        trailer: Some(is_dmg),
    },
];

/// How many bytes at the start of an image tell its format, if its start does.
pub const START_LEN: usize = 68;

/// How many bytes at the end of an image tell its format, if its end does.
const TRAILER_LEN: usize = 512;

impl ImageFormat {
    /// Finds a format by its name or another spelling, in letters of any case.
    pub fn find(name: &str) -> Option<ImageFormat> {
        let is = |other: &&str| other.eq_ignore_ascii_case(name);
        let mut rows = FORMATS.iter();
        rows.find(|row| is(&row.name) || row.aliases.iter().any(is)).map(|row| row.format)
    }

    /// The name that QEMU gives it.
    pub fn name(self) -> &'static str {
        self.description().name
    }

    /// Its name in a sentence.
    pub fn title(self) -> &'static str {
        self.description().title
    }

    /// The format of an image that begins with these bytes, [`START_LEN`] of them if it has so many;
    /// [`ImageFormat::Raw`] where they tell nothing.
    pub fn probe_start(start: &[u8]) -> ImageFormat {
        let is = |place: usize, magic: &[u8]| start.get(place..place + magic.len()) == Some(magic);
        let magics = FORMATS.iter().flat_map(|row| row.magics.iter().map(move |magic| (row.format, magic)));
        let found = magics.filter(|(_, (place, magic))| is(*place, magic));
        // The longest says most: a newer version may begin as the older does.
        found.max_by_key(|(_, (_, magic))| magic.len()).map_or(ImageFormat::Raw, |(format, _)| format)
    }

    /// The format of a file or device, given as a raw image, by its first and last bytes. A file whose
    /// format they do not tell is raw.
    pub fn probe(bytes: &dyn Image) -> Result<ImageFormat, ImageError> {
        let length = bytes.exact_length();
        let mut start = [0; START_LEN];
        let start = &mut start[..length.min(START_LEN as u64) as usize];
        bytes.read_at(start, 0)?;
        let format = ImageFormat::probe_start(start);
        if format != ImageFormat::Raw || length < TRAILER_LEN as u64 {
            return Ok(format);
        }
        let mut trailer = [0; TRAILER_LEN];
        bytes.read_at(&mut trailer, length - TRAILER_LEN as u64)?;
        let found = FORMATS.iter().find(|row| row.trailer.is_some_and(|tells| tells(&trailer, length)));
        Ok(found.map_or(ImageFormat::Raw, |row| row.format))
    }

    fn description(self) -> &'static Description {
        &FORMATS[self as usize]
    }
}

impl std::fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.title())
    }
}

const VHD_COOKIE: &[u8] = b"conectix";

/// Whether this is the footer of a VHD of fixed size, which is all that tells it from a raw file. Bytes
/// of a guest could look like one, so all of it must fit.
fn is_fixed_vhd(footer: &[u8; TRAILER_LEN], length: u64) -> bool {
    const FIXED: u32 = 2;
    let sum = footer.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    let checksum = be32(footer, 64);
    let sum_of_checksum: u32 = footer[64..68].iter().map(|&byte| u32::from(byte)).sum();
    footer.starts_with(VHD_COOKIE)
        && be32(footer, 60) == FIXED
        && !(sum - sum_of_checksum) == checksum
        && be64(footer, 48) <= length - TRAILER_LEN as u64
}

/// Whether this is the `koly` block at the end of a DMG.
fn is_dmg(trailer: &[u8; TRAILER_LEN], _: u64) -> bool {
    trailer.starts_with(b"koly\0\0\0\x04\0\0\x02\0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all_names(row: &Description) -> impl Iterator<Item = &str> {
        [row.name].into_iter().chain(row.aliases.iter().copied())
    }

    #[test]
    fn the_table_is_sound() {
        let names: Vec<_> = FORMATS.iter().flat_map(all_names).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let endings: Vec<_> = FORMATS.iter().flat_map(|row| row.endings).collect();
        assert_eq!(endings.iter().collect::<BTreeSet<_>>().len(), endings.len());
        assert!(FORMATS.iter().all(|row| !row.endings.is_empty()));
        for row in FORMATS {
            assert!(row.magics.iter().all(|(place, magic)| place + magic.len() <= START_LEN), "{row:?}");
            // A row in the place of another format would give it that one's name.
            assert_eq!(row.format.name(), row.name);
            for name in all_names(row) {
                assert_eq!(ImageFormat::find(&name.to_uppercase()), Some(row.format));
            }
            for (place, magic) in row.magics {
                let start = [&vec![0; *place], *magic, b"rest"].concat();
                assert_eq!(ImageFormat::probe_start(&start), row.format);
                assert_ne!(ImageFormat::probe_start(&start[..place + magic.len() - 1]), row.format);
            }
        }
        assert_eq!(ImageFormat::find("nonsense"), None);
        assert_eq!(ImageFormat::probe_start(b""), ImageFormat::Raw);
        assert_eq!(ImageFormat::probe_start(b"QFI\xfb\0\0\0\x03rest"), ImageFormat::Qcow2);
    }

    #[test]
    fn a_fixed_vhd_is_told_by_its_whole_footer() {
        let mut footer = [0; TRAILER_LEN];
        footer[..8].copy_from_slice(VHD_COOKIE);
        footer[48..56].copy_from_slice(&4096_u64.to_be_bytes());
        footer[63] = 2;
        let sum: u32 = footer.iter().map(|&byte| u32::from(byte)).sum();
        footer[64..68].copy_from_slice(&(!sum).to_be_bytes());
        assert!(is_fixed_vhd(&footer, 4096 + 512));
        assert!(!is_fixed_vhd(&footer, 4096));
        for place in [0, 60, 64, 300] {
            let mut other = footer;
            other[place] ^= 1;
            assert!(!is_fixed_vhd(&other, 4096 + 512), "{place}");
        }
    }
}
