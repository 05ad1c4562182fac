//! The programs that compute digests, and their command lines.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{CKSUM, SUM};
use crate::measure::{About, Parse, Process, find_program};

/// A program or a family of programs.
#[derive(Debug)]
pub struct RivalProgram {
    /// The name in tables.
    pub name: &'static str,
    /// What prints its version.
    pub version: (&'static str, &'static [&'static str]),
}

/// All that are known, in the order of the historical experiment, then the others.
pub static PROGRAMS: &[RivalProgram] = &[
    RivalProgram { name: "coreutils", version: ("md5sum", &["--version"]) },
    RivalProgram { name: "openssl", version: ("openssl", &["version"]) },
    RivalProgram { name: "perl", version: ("perl", &["-v"]) },
    RivalProgram { name: "rhash", version: ("rhash", &["--version"]) },
    RivalProgram { name: "busybox", version: ("busybox", &[]) },
    RivalProgram { name: "hashdeep", version: ("md5deep", &["-v"]) },
    RivalProgram { name: "b3sum", version: ("b3sum", &["--version"]) },
    RivalProgram { name: "xxhsum", version: ("xxhsum", &["--version"]) },
    RivalProgram { name: "python", version: ("python3", &["--version"]) },
];

/// How a program is asked for a digest; the file's name follows the arguments.
#[derive(Clone, Debug)]
pub struct DigestCall {
    /// The family.
    pub program: &'static str,
    /// The digest, by its id; or [`CKSUM`] or [`SUM`].
    pub digest: &'static str,
    /// What is started.
    pub executable: &'static str,
    /// With what.
    pub arguments: Vec<String>,
    /// How the digest is found in what it prints.
    pub parse: Parse,
}

impl DigestCall {
    /// As a subject, once it was found where programs are.
    pub fn subject(&self, about: About, executable: &Path, file: &Path) -> Process {
        let arguments = self.arguments.iter().map(Into::into).chain([file.as_os_str().to_owned()]);
        let process = Process::new(about, executable, arguments).parse(self.parse);
        // busybox is built with few or many applets.
        let sure = self.program != "busybox" && EVERYWHERE.contains(&self.digest);
        if sure { process } else { process.optional() }
    }

    /// What it is called where one digest of each family is compared: of families that have an executable
    /// for each digest, by that.
    pub fn name(&self) -> &'static str {
        match self.program {
            "coreutils" | "hashdeep" => self.executable,
            program => program,
        }
    }

    /// Why it cannot hash a file of this name, if so.
    pub fn unable(&self, file: &Path) -> Option<&'static str> {
        let backslash = file.as_os_str().as_encoded_bytes().contains(&b'\\');
        (self.program == "rhash" && backslash)
            .then_some("takes a backslash in a name for a slash, and finds no such file")
    }

    /// Where its executable is.
    pub fn find(&self, path: Option<&OsStr>) -> Option<PathBuf> {
        find_program(self.executable, path)
    }
}

/// Digests that no program of the table lacks; others are in modules, or came with some version.
const EVERYWHERE: [&str; 9] = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake3", CKSUM, SUM];

/// Perl reads by its module, so that no name of a file is taken for code.
const PERL: &str = r#"open(my $f, "<:raw", $ARGV[0]) or die "$!\n"; "#;

/// Python reads into one buffer, as its documentation advises.
const PYTHON: &str = "import hashlib,sys
h = hashlib.new(sys.argv[1])
b = bytearray(1 << 18)
v = memoryview(b)
with open(sys.argv[2], 'rb', buffering=0) as f:
    while n := f.readinto(b):
        h.update(v[:n])
print(h.hexdigest())";

/// Every way of the programs above.
pub fn ways() -> Vec<DigestCall> {
    let mut ways = Vec::new();
    let mut add = |program, digest, executable, arguments: &[&str], parse: Parse| {
        let arguments = arguments.iter().map(|argument| argument.to_string()).collect();
        ways.push(DigestCall { program, digest, executable, arguments, parse });
    };
    let coreutils = "md5=md5sum sha1=sha1sum sha224=sha224sum sha256=sha256sum sha384=sha384sum \
                     sha512=sha512sum blake2b512=b2sum cksum sum";
    for (digest, executable) in pairs(coreutils) {
        add("coreutils", digest, executable, &[], first_word);
    }
    let legacy = ["-provider", "legacy", "-provider", "default"];
    let openssl =
        "md5 sha1 sha224 sha256 sha384 sha512 ripemd160 sha3-256 sha3-512 blake2b512 blake2s256 sm3";
    for (digest, name) in pairs(openssl) {
        add("openssl", digest, "openssl", &["dgst", &format!("-{name}")], last_word);
    }
    add("openssl", "md4", "openssl", &[&["dgst"][..], &legacy, &["-md4"]].concat(), last_word);
    for (digest, module, constructor) in [
        ("md5", "Digest::MD5", "Digest::MD5->new"),
        ("sha1", "Digest::SHA", "Digest::SHA->new(1)"),
        ("sha224", "Digest::SHA", "Digest::SHA->new(224)"),
        ("sha256", "Digest::SHA", "Digest::SHA->new(256)"),
        ("sha384", "Digest::SHA", "Digest::SHA->new(384)"),
        ("sha512", "Digest::SHA", "Digest::SHA->new(512)"),
        ("ripemd160", "Crypt::RIPEMD160", "Crypt::RIPEMD160->new"),
    ] {
        // The module of RIPEMD-160 has another method for letters.
        let print = match digest {
            "ripemd160" => format!("my $d = {constructor}; $d->addfile($f); print unpack('H*', $d->digest)"),
            _ => format!("print {constructor}->addfile($f)->hexdigest"),
        };
        add("perl", digest, "perl", &[&format!("-M{module}"), "-e", &format!("{PERL}{print}")], first_word);
    }
    let rhash = "md5 sha1 sha224 sha256 sha384 sha512 ripemd160 md4 whirlpool sha3-256 sha3-512 \
                 blake2b512=blake2b blake2s256=blake2s crc32 crc32c";
    for (digest, name) in pairs(rhash) {
        add("rhash", digest, "rhash", &["--simple", &format!("--{name}")], first_word);
    }
    for (digest, applet) in pairs("md5=md5sum sha1=sha1sum sha256=sha256sum sha512=sha512sum") {
        add("busybox", digest, "busybox", &[applet], first_word);
    }
    for (digest, executable) in pairs("md5=md5deep sha1=sha1deep sha256=sha256deep whirlpool=whirlpooldeep") {
        add("hashdeep", digest, executable, &[], first_word);
    }
    add("b3sum", "blake3", "b3sum", &[], first_word);
    for (digest, option) in [("xxh32", "-H0"), ("xxh64", "-H1"), ("xxh3-128", "-H2"), ("xxh3-64", "-H3")] {
        // The fourth prints a line with a tag.
        let parse = if digest == "xxh3-64" { last_word } else { first_word };
        add("xxhsum", digest, "xxhsum", &["-q", option], parse);
    }
    let python = "md5 sha1 sha224 sha256 sha384 sha512 sha3-256=sha3_256 sha3-512=sha3_512 blake2b512=blake2b \
                  blake2s256=blake2s";
    for (digest, name) in pairs(python) {
        add("python", digest, "python3", &["-c", PYTHON, name], first_word);
    }
    ways
}

/// Digests with what a program calls them, where that is another name: `digest=name`.
fn pairs(words: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    words.split(' ').map(|word| word.split_once('=').unwrap_or((word, word)))
}

/// As the coreutils print it; a backslash in front says that the name is escaped.
fn first_word(text: &str) -> Option<String> {
    Some(text.split_whitespace().next()?.trim_start_matches('\\').to_ascii_lowercase())
}

/// As OpenSSL prints it, `MD5(name)= digest`, whatever the name is.
fn last_word(text: &str) -> Option<String> {
    Some(text.split_whitespace().next_back()?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digests::expected;
    use crate::measure::{MeasureAmount, MeasurePlan, measure};

    #[test]
    fn ways_name_programs_and_digests() {
        for way in ways() {
            assert!(PROGRAMS.iter().any(|program| program.name == way.program), "{}", way.program);
            let known = verisum_digest::Algorithm::find(way.digest).is_some_and(|row| row.id == way.digest);
            assert!(known || [CKSUM, SUM].contains(&way.digest), "{}", way.digest);
            let same = |other: &&DigestCall| (other.program, other.digest) == (way.program, way.digest);
            assert_eq!(ways().iter().filter(same).count(), 1);
        }
    }

    /// Every program that is here computes what verisum computes, also of a file with a difficult name.
    #[test]
    fn programs_agree_with_verisum() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("-it's a \"file\" $(x) ;\\.bin");
        std::fs::write(&file, (0..70_000u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect::<Vec<u8>>())
            .unwrap();
        let path = std::env::var_os("PATH");
        let mut subjects = Vec::new();
        for way in ways() {
            let Some(executable) = way.find(path.as_deref()) else {
                verisum_testkit::skip(&format!("{} is not installed", way.executable));
                continue;
            };
            let about = About::new(way.digest, way.program).expect(expected(way.digest, &file).unwrap());
            subjects.push(way.subject(about, &executable, &file).boxed());
        }
        let plan = MeasurePlan { amount: MeasureAmount::Rounds(1), ..MeasurePlan::default() };
        for series in measure(&mut subjects, &plan, &mut ()) {
            assert!(!series.wrong, "{} {}: {:?}", series.name, series.group, series.skipped);
        }
    }

    #[test]
    fn who_does_not_find_a_file_is_known() {
        let unable = |program: &str, name: &str| {
            let way = ways().into_iter().find(|way| way.program == program).unwrap();
            way.unable(Path::new(name)).is_some()
        };
        assert!(unable("rhash", "a\\b") && !unable("rhash", "a/b") && !unable("openssl", "a\\b"));
    }

    #[test]
    fn a_wrong_program_is_caught() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "content").unwrap();
        let lie = folder.path().join("lie");
        verisum_testkit::write_script(&lie, "#!/bin/sh\necho d41d8cd98f00b204e9800998ecf8427e \"$1\"\n");
        let way = ways().into_iter().find(|way| way.executable == "md5sum").unwrap();
        let about = About::new("md5", "lie").expect(expected("md5", &file).unwrap());
        let mut subjects = [way.subject(about, &lie, &file).boxed()];
        let series = &measure(&mut subjects, &MeasurePlan::default(), &mut ())[0];
        assert!(series.wrong && series.wall.is_empty());
        let why = series.skipped.as_deref().unwrap();
        assert!(
            why.starts_with("wrong digest: d41d8cd98f00b204e9800998ecf8427e instead of 9a0364b9"),
            "{why}"
        );
    }
}
