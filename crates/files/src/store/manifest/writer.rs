//! Writes manifests.

use std::borrow::Cow;
use std::fmt::Write;

use data_encoding::{BASE64, HEXLOWER};
use verisum_digest::{Digest, Output, digest_text, part_count};

use super::mtree::MAX_NAME;
use super::{JSON_VERSION, ListFormat, digest_names, escape, s3};
use crate::Timestamp;

/// A file to be listed.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Its name as it shall be found by, any bytes but NUL.
    pub name: &'a [u8],
    /// Length in bytes.
    pub size: u64,
    /// When its bytes last changed, for formats that keep it.
    pub modified: Option<Timestamp>,
    /// Its permissions, the lowest twelve bits of `st_mode`, for formats that keep them.
    pub mode: Option<u32>,
    /// One digest for each of [`Writer::new`], in that order.
    pub digests: &'a [Output],
}

/// Why something cannot be written in a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unwritable {
    /// The format has no place for this digest.
    #[error("the {format} format has no place for {digest}")]
    Digest {
        /// The format.
        format: ListFormat,
        /// The digest's name.
        digest: String,
    },
    /// The format has one digest a file.
    #[error("the {format} format has one digest a file")]
    Digests {
        /// The format.
        format: ListFormat,
    },
    /// Two digests of one length cannot be told apart.
    #[error("without tags {} and {} look alike (--tag tells them apart)", .0[0], .0[1])]
    Alike([String; 2]),
    /// The format cannot hold this name.
    #[error("the {format} format cannot hold {why}")]
    Name {
        /// The format.
        format: ListFormat,
        /// What it is about the name.
        why: &'static str,
    },
}

/// Makes the lines of a manifest.
///
/// Everything is appended to a buffer that the caller keeps and writes: first [`Writer::header`], then
/// [`Writer::item`] for each file. A name that a format cannot hold leaves the buffer as it was.
#[derive(Clone, Debug)]
pub struct Writer {
    format: ListFormat,
    names: Vec<String>,
    tags: Vec<Cow<'static, str>>,
    zero: bool,
    binary: bool,
    little_endian: bool,
    base64: bool,
    nameless: bool,
    raw: bool,
    /// The directory of the last file, with a slash at its end. [`ListFormat::Mtree`] has listed it.
    directory: Vec<u8>,
}

impl Writer {
    /// Lists of these digests, in this order, in this format.
    pub fn new(format: ListFormat, digests: &[Digest]) -> Result<Writer, Unwritable> {
        let names: Vec<String> = digests.iter().map(|digest| digest.name().to_string()).collect();
        if format.traits().has_one_digest && names.len() != 1 {
            return Err(Unwritable::Digests { format });
        }
        for name in &names {
            let fits = match format {
                ListFormat::Gnu | ListFormat::Bsd | ListFormat::S3 | ListFormat::Json => true,
                ListFormat::Sfv => name == "crc32",
                ListFormat::Hashdeep => digest_names::is_column(name),
                ListFormat::Mtree => digest_names::keyword(name).is_some(),
                ListFormat::Bagit => !name.contains(':'),
            };
            if !fits {
                return Err(Unwritable::Digest { format, digest: name.clone() });
            }
        }
        if format == ListFormat::Gnu {
            no_two_alike(digests)?;
        }
        let tags = names
            .iter()
            .map(|name| match format {
                ListFormat::Mtree => digest_names::keyword(name).unwrap_or_default().into(),
                _ => digest_names::tag(name),
            })
            .collect();
        Ok(Writer {
            format,
            names,
            tags,
            zero: false,
            binary: false,
            little_endian: false,
            base64: false,
            nameless: false,
            raw: false,
            directory: Vec::new(),
        })
    }

    /// Ends lines with NUL instead of LF and escapes nothing. For [`ListFormat::Gnu`] and [`ListFormat::Bsd`].
    pub fn zero(mut self, zero: bool) -> Writer {
        self.zero = zero;
        self
    }

    /// Puts the `*` of binary mode before names. For [`ListFormat::Gnu`].
    pub fn binary(mut self, binary: bool) -> Writer {
        self.binary = binary;
        self
    }

    /// Writes digests from their lowest byte on, as `xxhsum --little-endian`. For [`ListFormat::Gnu`] and
    /// [`ListFormat::Bsd`].
    pub fn little_endian(mut self, little_endian: bool) -> Writer {
        self.little_endian = little_endian;
        self
    }

    /// Writes digests in Base64. For [`ListFormat::Gnu`] and [`ListFormat::Bsd`].
    pub fn base64(mut self, base64: bool) -> Writer {
        self.base64 = base64;
        self
    }

    /// Writes digests alone. For [`ListFormat::Gnu`].
    pub fn nameless(mut self, nameless: bool) -> Writer {
        self.nameless = nameless;
        self
    }

    /// Writes the bytes of digests and nothing else. For [`ListFormat::Gnu`].
    pub fn raw(mut self, raw: bool) -> Writer {
        self.raw = raw;
        self
    }

    /// The format.
    pub fn format(&self) -> ListFormat {
        self.format
    }

    /// The name to give a file of this name. In lists of the coreutils, `-` is standard input.
    pub fn file_name<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        match self.format {
            ListFormat::Gnu | ListFormat::Bsd | ListFormat::Json if name == b"-" => b"./-",
            _ => name,
        }
    }

    /// Whether lines that begin with `#` may stand between its lines.
    pub fn has_comments(&self) -> bool {
        self.format.traits().is_lines && !self.zero && !self.nameless && !self.raw
    }

    /// Appends what stands before the first file.
    pub fn header(&self, out: &mut Vec<u8>) {
        match self.format {
            ListFormat::Gnu | ListFormat::Bsd | ListFormat::Bagit | ListFormat::Json => {}
            ListFormat::Sfv => out.extend_from_slice(b"; Generated by verisum\n"),
            ListFormat::Hashdeep => {
                let columns = self.names.join(",");
                out.extend_from_slice(
                    format!("%%%% HASHDEEP-1.0\n%%%% size,{columns},filename\n").as_bytes(),
                );
                out.extend_from_slice(b"## Generated by verisum\n## \n");
            }
            ListFormat::Mtree => out.extend_from_slice(b"#mtree\n. type=dir\n"),
            ListFormat::S3 => push(out, format_args!("Key,Size,{}\n", self.tags.join(","))),
        }
    }

    /// Appends the line or lines of a file, to be written behind those of the files before.
    ///
    /// # Panics
    /// If `item` does not have one digest for each of the writer's.
    pub fn item(&mut self, out: &mut Vec<u8>, item: &Item) -> Result<(), Unwritable> {
        assert_eq!(item.digests.len(), self.names.len(), "one digest for each of the writer's");
        let fits = match self.format {
            ListFormat::Gnu | ListFormat::Bsd | ListFormat::S3 | ListFormat::Json => Ok(()),
            ListFormat::Sfv => fits_sfv(item.name),
            ListFormat::Hashdeep => fits_line(item.name),
            ListFormat::Mtree => fits_mtree(item.name),
            ListFormat::Bagit => fits_bag(item.name),
        };
        fits.map_err(|why| Unwritable::Name { format: self.format, why })?;
        match self.format {
            ListFormat::Gnu => self.gnu(out, item),
            ListFormat::Bsd => self.bsd(out, item),
            ListFormat::Sfv => {
                // Else it would be a comment.
                if item.name.starts_with(b";") || item.name.starts_with(b"#") {
                    out.extend_from_slice(b"./");
                }
                out.extend_from_slice(item.name);
                push(out, format_args!(" {}\n", item.digests[0].to_string().to_uppercase()));
            }
            ListFormat::Hashdeep => {
                push(out, format_args!("{},", item.size));
                item.digests.iter().for_each(|digest| push(out, format_args!("{digest},")));
                out.extend_from_slice(item.name);
                out.push(b'\n');
            }
            ListFormat::Mtree => self.mtree(out, item),
            ListFormat::S3 => {
                s3::encode(out, item.name);
                push(out, format_args!(",{}", item.size));
                for (name, digest) in self.names.iter().zip(item.digests) {
                    out.push(b',');
                    let base64 = !s3::is_etag(name);
                    Writer { base64, ..self.clone() }.value(out, name, digest, item.size);
                }
                out.push(b'\n');
            }
            ListFormat::Bagit => {
                push(out, format_args!("{}  ", item.digests[0]));
                escape::percents(out, item.name);
                out.push(b'\n');
            }
            ListFormat::Json => self.json(out, item),
        }
        Ok(())
    }

    fn gnu(&self, out: &mut Vec<u8>, item: &Item) {
        for (name, digest) in self.names.iter().zip(item.digests) {
            if self.raw {
                out.extend_from_slice(digest.as_bytes());
                continue;
            }
            if self.nameless {
                self.value(out, name, digest, item.size);
                self.end(out);
                continue;
            }
            self.begin(out, item.name);
            // xxhsum marks this one, for XXH64 has the same length; no store does.
            if name == "xxh3-64" && !self.base64 {
                out.extend_from_slice(b"XXH3_");
            }
            self.value(out, name, digest, item.size);
            out.extend_from_slice(if self.binary { b" *" } else { b"  " });
            self.name(out, item.name);
            self.end(out);
        }
    }

    fn bsd(&self, out: &mut Vec<u8>, item: &Item) {
        for ((tag, name), digest) in self.tags.iter().zip(&self.names).zip(item.digests) {
            self.begin(out, item.name);
            push(out, format_args!("{tag}{} (", if self.little_endian { "_LE" } else { "" }));
            self.name(out, item.name);
            out.extend_from_slice(b") = ");
            self.value(out, name, digest, item.size);
            self.end(out);
        }
    }

    /// A digest as its system shows it, but for Base64.
    fn value(&self, out: &mut Vec<u8>, name: &str, digest: &Output, size: u64) {
        let mut digest = *digest;
        if self.little_endian {
            digest.as_mut_bytes().reverse();
        }
        let parts = part_count(name, size);
        match self.base64 && name != "ipfs" {
            true => {
                let count = parts.map_or(String::new(), |count| format!("-{count}"));
                out.extend_from_slice((BASE64.encode(digest.as_bytes()) + &count).as_bytes());
            }
            false => out.extend_from_slice(digest_text(name, &digest, parts).as_bytes()),
        }
    }

    fn begin(&self, out: &mut Vec<u8>, name: &[u8]) {
        if !self.zero && escape::is_problematic(name) {
            out.push(b'\\');
        }
    }

    fn name(&self, out: &mut Vec<u8>, name: &[u8]) {
        match self.zero {
            true => out.extend_from_slice(name),
            false => escape::backslashes(out, name),
        }
    }

    fn end(&self, out: &mut Vec<u8>) {
        out.push(if self.zero { 0 } else { b'\n' });
    }

    fn mtree(&mut self, out: &mut Vec<u8>, item: &Item) {
        // A name with a slash is one below the root, wherever in the list it stands.
        let name = item.name.strip_prefix(b"./").unwrap_or(item.name);
        // The mtree of NetBSD wants the directories of each file before it, and takes them twice.
        let listed = name.iter().zip(&self.directory).take_while(|(byte, last)| byte == last).count();
        for (place, _) in name.iter().enumerate().skip(listed).filter(|(_, byte)| **byte == b'/') {
            out.extend_from_slice(b"./");
            escape::octal(out, &name[..place]);
            out.extend_from_slice(b" type=dir\n");
        }
        let end = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        self.directory.clear();
        self.directory.extend_from_slice(&name[..end]);
        out.extend_from_slice(b"./");
        escape::octal(out, name);
        out.extend_from_slice(b" type=file");
        if let Some(mode) = item.mode {
            push(out, format_args!(" mode={:04o}", mode & 0o7777));
        }
        push(out, format_args!(" size={}", item.size));
        if let Some(time) = item.modified.filter(|time| time.seconds >= 0) {
            push(out, format_args!(" time={}.{:09}", time.seconds, time.nanoseconds));
        }
        for (keyword, digest) in self.tags.iter().zip(item.digests) {
            push(out, format_args!(" {keyword}={digest}"));
        }
        out.push(b'\n');
    }

    fn json(&self, out: &mut Vec<u8>, item: &Item) {
        let text = String::from_utf8_lossy(item.name);
        push(
            out,
            format_args!(
                "{{\"version\":{JSON_VERSION},\"type\":\"file\",\"path\":{}",
                serde_json::Value::from(text.as_ref())
            ),
        );
        if matches!(text, Cow::Owned(_)) {
            out.extend_from_slice(b",\"path_bytes_hex\":\"");
            out.extend_from_slice(HEXLOWER.encode(item.name).as_bytes());
            out.push(b'"');
        }
        push(out, format_args!(",\"size\":{}", item.size));
        if let Some(time) = item.modified {
            push(out, format_args!(",\"mtime\":\"{}\"", time.to_rfc3339()));
        }
        out.extend_from_slice(b",\"digests\":{");
        for (place, (name, digest)) in self.names.iter().zip(item.digests).enumerate() {
            let comma = if place > 0 { "," } else { "" };
            push(out, format_args!("{comma}{}:\"", serde_json::Value::from(name.as_str())));
            self.value(out, name, digest, item.size);
            out.push(b'"');
        }
        out.extend_from_slice(b"}}\n");
    }
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    let _ = Bytes(out).write_fmt(text);
}

fn no_two_alike(digests: &[Digest]) -> Result<(), Unwritable> {
    for (place, one) in digests.iter().enumerate() {
        // XXH3 stands with its name.
        let alike = |other: &&Digest| other.len() == one.len() && other.name() != "xxh3-64";
        if let Some(other) = digests[..place].iter().find(alike).filter(|_| one.name() != "xxh3-64") {
            return Err(Unwritable::Alike([other.name().to_string(), one.name().to_string()]));
        }
    }
    Ok(())
}

fn fits_line(name: &[u8]) -> Result<(), &'static str> {
    match name.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        true => Err("a name with a newline or carriage return"),
        false => Ok(()),
    }
}

fn fits_sfv(name: &[u8]) -> Result<(), &'static str> {
    let last = name.rsplit(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or(name);
    match last {
        b"" if !name.is_empty() => Err("a name with a space at its end"),
        // It could be one of several numbers behind the name.
        _ if last.len() == 8 && last != name && last.iter().all(u8::is_ascii_hexdigit) => {
            Err("a name with a number at its end")
        }
        _ => fits_line(name),
    }
}

fn fits_bag(name: &[u8]) -> Result<(), &'static str> {
    match name.first() {
        // Any number of those may stand before a name.
        Some(b' ' | b'\t' | b'*') => Err("a name that begins with a blank or an asterisk"),
        _ => fits_below_a_directory(name),
    }
}

fn fits_mtree(name: &[u8]) -> Result<(), &'static str> {
    match name.len() + b"./".len() > MAX_NAME {
        true => Err("a name of so many bytes"),
        false => fits_below_a_directory(name),
    }
}

fn fits_below_a_directory(name: &[u8]) -> Result<(), &'static str> {
    if name.starts_with(b"/") {
        return Err("a name that begins at the root");
    }
    match name.split(|byte| *byte == b'/').any(|component| component == b"..") {
        true => Err("a name that leaves its directory"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Line, ListOptions, Reader};
    use super::*;

    fn digests(names: &[&str]) -> Vec<Digest> {
        names.iter().map(|name| Digest::find(name).unwrap()).collect()
    }

    fn written(mut writer: Writer, names: &[&str], name: &[u8]) -> Result<Vec<u8>, Unwritable> {
        let outputs: Vec<Output> = digests(names).iter().map(|digest| digest.hash(b"abc").unwrap()).collect();
        let modified = Some(Timestamp { seconds: 1, nanoseconds: 5 });
        let item = Item { name, size: 3, modified, mode: Some(0o100_644), digests: &outputs };
        let mut out = Vec::new();
        writer.header(&mut out);
        writer.item(&mut out, &item)?;
        Ok(out)
    }

    fn text(format: ListFormat, names: &[&str], name: &[u8]) -> Result<String, Unwritable> {
        let writer = Writer::new(format, &digests(names))?;
        written(writer, names, name).map(|bytes| bytes.escape_ascii().to_string())
    }

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

    #[test]
    fn lines_of_every_format() {
        let crc = "352441c2";
        let cases = [
            (ListFormat::Gnu, &["md5"][..], format!("{MD5}  a b\\n")),
            (ListFormat::Gnu, &["md5", "crc32"], format!("{MD5}  a b\\n{crc}  a b\\n")),
            (ListFormat::Bsd, &["md5"], format!("MD5 (a b) = {MD5}\\n")),
            (ListFormat::Sfv, &["crc32"], "; Generated by verisum\\na b 352441C2\\n".to_string()),
            (
                ListFormat::Hashdeep,
                &["md5"],
                format!(
                    "%%%% HASHDEEP-1.0\\n%%%% size,md5,filename\\n## Generated by verisum\\n## \\n3,{MD5},a b\\n"
                ),
            ),
            (
                ListFormat::Mtree,
                &["md5"],
                format!(
                    "#mtree\\n. type=dir\\n./a\\\\040b type=file mode=0644 size=3 time=1.000000005 md5digest={MD5}\\n"
                ),
            ),
            (ListFormat::Bagit, &["md5"], format!("{MD5}  a b\\n")),
            (
                ListFormat::Json,
                &["md5", "crc32"],
                format!(
                    "{{\\\"version\\\":1,\\\"type\\\":\\\"file\\\",\\\"path\\\":\\\"a b\\\",\\\"size\\\":3,\
                     \\\"mtime\\\":\\\"1970-01-01T00:00:01.000000005Z\\\",\
                     \\\"digests\\\":{{\\\"md5\\\":\\\"{MD5}\\\",\\\"crc32\\\":\\\"{crc}\\\"}}}}\\n"
                ),
            ),
        ];
        for (format, names, expected) in cases {
            assert_eq!(text(format, names, b"a b").unwrap(), expected, "{format}");
        }
    }

    #[test]
    fn directories_stand_before_their_files_in_mtree() {
        let list = text(ListFormat::Mtree, &["crc32"], b"x");
        assert!(list.is_err(), "mtree has no CRC-32");
        let list = text(ListFormat::Mtree, &["md5"], b"./a/b/c").unwrap();
        let lines: Vec<&str> = list.split("\\n").collect();
        assert_eq!(lines[1..4], [". type=dir", "./a type=dir", "./a/b type=dir"]);
        assert!(lines[4].starts_with("./a/b/c type=file "));
    }

    #[test]
    fn directories_are_listed_where_they_change_in_mtree() {
        let mut writer = Writer::new(ListFormat::Mtree, &digests(&["md5"])).unwrap();
        let outputs = [digests(&["md5"])[0].hash(b"abc").unwrap()];
        let mut directories = |name: &[u8]| {
            let mut out = Vec::new();
            let item = Item { name, size: 3, modified: None, mode: None, digests: &outputs };
            let _ = writer.item(&mut out, &item);
            String::from_utf8(out).unwrap().matches("type=dir").count()
        };
        for (name, new) in [
            (&b"a/b/c"[..], 2),
            (b"a/b/d", 0),
            (b"./a/b/e/f", 1),
            (b"../x", 0),
            (b"a/b/e/g", 0),
            (b"a/bc/d", 1),
            (b"a/b", 0),
            (b"x", 0),
            (b"a/b/c", 2),
        ] {
            assert_eq!(directories(name), new, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn names_with_newlines_are_escaped_or_refused() {
        let name = b"a\nb";
        assert_eq!(text(ListFormat::Gnu, &["md5"], name).unwrap(), format!(r"\\{MD5}  a\\nb\n"));
        assert_eq!(text(ListFormat::Bsd, &["md5"], name).unwrap(), format!(r"\\MD5 (a\\nb) = {MD5}\n"));
        let zero = Writer::new(ListFormat::Gnu, &digests(&["md5"])).unwrap().zero(true);
        assert_eq!(written(zero, &["md5"], name).unwrap(), format!("{MD5}  a\nb\0").as_bytes());
        assert!(matches!(text(ListFormat::Sfv, &["crc32"], name), Err(Unwritable::Name { .. })));
        assert!(matches!(text(ListFormat::Hashdeep, &["md5"], name), Err(Unwritable::Name { .. })));
    }

    #[test]
    fn names_that_sfv_would_read_otherwise_are_refused() {
        let fits = |name: &[u8]| text(ListFormat::Sfv, &["crc32"], name).is_ok();
        let refused: [&[u8]; 4] = [b"a ", b"a\t", b"a deadbeef", b"a  DEADBEEF"];
        assert!(!refused.into_iter().any(fits));
        let taken: [&[u8]; 5] = [b" a", b"a b", b"deadbeef", b"a deadbee", b"deadbeef a"];
        assert!(taken.into_iter().all(fits));
    }

    #[test]
    fn what_cannot_be_read_back_is_refused() {
        let refused = |format, names: &[&str]| Writer::new(format, &digests(names)).unwrap_err().to_string();
        assert_eq!(refused(ListFormat::Sfv, &["md5"]), "the sfv format has no place for md5");
        assert_eq!(refused(ListFormat::Bagit, &["md5", "sha1"]), "the bagit format has one digest a file");
        assert_eq!(
            refused(ListFormat::Gnu, &["sha256", "blake3"]),
            "without tags sha256 and blake3 look alike (--tag tells them apart)"
        );
        assert!(Writer::new(ListFormat::Gnu, &digests(&["xxh64", "xxh3-64"])).is_ok());
        for name in [&b"/etc/passwd"[..], b"../x", b"a/.."] {
            assert!(matches!(text(ListFormat::Mtree, &["md5"], name), Err(Unwritable::Name { .. })));
        }
        // The longest name that is read begins with `./`.
        let long = [b'n'; MAX_NAME - 1];
        assert!(matches!(text(ListFormat::Mtree, &["md5"], &long), Err(Unwritable::Name { .. })));
        let list = written(Writer::new(ListFormat::Mtree, &digests(&["md5"])).unwrap(), &["md5"], &long[1..]);
        let mut reader = Reader::new(&list.as_ref().unwrap()[..], &ListOptions::default()).unwrap();
        let lines: Vec<Line> = std::iter::from_fn(|| reader.line().unwrap()).collect();
        assert!(matches!(&lines[1], Line::File(listed) if listed.name.len() == MAX_NAME), "{lines:?}");
    }

    #[test]
    fn times_before_1970_are_numbers_too() {
        let text = |seconds, nanoseconds| Timestamp { seconds, nanoseconds }.to_string();
        assert_eq!(text(0, 1), "0.000000001");
        assert_eq!(text(-1, 0), "-1.000000000");
        assert_eq!(text(-1, 900_000_000), "-0.100000000");
        assert_eq!(text(-3, 250_000_000), "-2.750000000");
    }
}
