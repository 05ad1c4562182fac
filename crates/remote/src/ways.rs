//! The ways to compute a digest on a host: the one table, in order of preference.

/// The names of all ways, in order of preference.
pub const NAMES: [&str; 12] = [
    "verisum",
    "coreutils",
    "busybox",
    "bsd",
    "shasum",
    "digest",
    "csum",
    "openssl",
    "perl",
    "python",
    "powershell",
    "certutil",
];

/// One thing to try on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its name for users, one of [`NAMES`].
    pub name: &'static str,
    /// The program that must be there.
    pub program: &'static str,
    /// How it is used.
    pub kind: Kind,
}

/// How a way is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A program that takes names as arguments and writes a line for each.
    Tool(Tool),
    /// A program that speaks our protocol: verisum itself.
    Verisum,
    /// A script of ours in Perl.
    Perl {
        /// What the script calls the digest.
        algorithm: String,
    },
    /// A script of ours in Python.
    Python {
        /// What `hashlib` calls the digest.
        algorithm: String,
    },
    /// A script of ours in PowerShell, for hosts without a POSIX shell.
    PowerShell {
        /// What `Get-FileHash` and `certutil` call the digest.
        algorithm: &'static str,
    },
}

/// A program that hashes the files that are its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its words when files follow.
    pub batch: String,
    /// Its words when it reads its standard input.
    pub stream: String,
    /// Whether it ends its lines with NUL, and escapes nothing in names.
    pub zero: bool,
    /// What `--help` must say, to tell one implementation from another.
    pub mark: &'static str,
}

impl Way {
    /// Its name, and what is really run.
    pub fn described(&self) -> String {
        match &self.kind {
            Kind::Tool(tool) => format!("{} ({})", self.name, tool.batch),
            Kind::Verisum => self.name.to_string(),
            Kind::Perl { .. } | Kind::Python { .. } | Kind::PowerShell { .. } => {
                format!("{} ({})", self.name, self.program)
            }
        }
    }
}

/// All ways to compute the digest of this id, the best first.
pub fn ways(algorithm: &str) -> Vec<Way> {
    let mut ways = vec![Way { name: "verisum", program: "verisum", kind: Kind::Verisum }];
    let mut tool = |name, program, batch: String, stream: String, zero, mark| {
        ways.push(Way { name, program, kind: Kind::Tool(Tool { batch, stream, zero, mark }) });
    };
    if let Some(sum) = find(SUMS, algorithm) {
        tool("coreutils", sum, format!("{sum} -z"), sum.to_string(), true, "");
        tool("busybox", sum, sum.to_string(), sum.to_string(), false, "BusyBox");
        tool("coreutils", sum, sum.to_string(), sum.to_string(), false, "");
        tool("busybox", "busybox", format!("busybox {sum}"), format!("busybox {sum}"), false, "");
    }
    for program in all(BSD, algorithm) {
        tool("bsd", program, program.to_string(), program.to_string(), false, "");
    }
    if let Some(bits) = find(SHASUM, algorithm) {
        tool("shasum", "shasum", format!("shasum -a {bits}"), format!("shasum -a {bits}"), false, "");
    }
    if let Some(name) = find(DIGEST, algorithm) {
        tool("digest", "digest", format!("digest -v -a {name}"), format!("digest -a {name}"), false, "");
    }
    if let Some(name) = find(CSUM, algorithm) {
        tool("csum", "csum", format!("csum -h {name}"), format!("csum -h {name} -"), false, "");
    }
    for name in all(OPENSSL, algorithm) {
        let words = format!("openssl dgst -r -{name}");
        tool("openssl", "openssl", words.clone(), words, false, "");
        let words = format!("openssl dgst -{name}");
        tool("openssl", "openssl", words.clone(), words, false, "");
    }
    if let Some(name) = find(PERL, algorithm) {
        ways.push(Way { name: "perl", program: "perl", kind: Kind::Perl { algorithm: name.to_string() } });
    }
    if let Some(name) = find(PYTHON, algorithm) {
        for program in ["python3", "python2", "python"] {
            ways.push(Way { name: "python", program, kind: Kind::Python { algorithm: name.to_string() } });
        }
    }
    if let Some(algorithm) = find(POWERSHELL, algorithm) {
        for (name, program) in [("powershell", "Get-FileHash"), ("certutil", "certutil -hashfile")] {
            ways.push(Way { name, program, kind: Kind::PowerShell { algorithm } });
        }
    }
    ways
}

/// What the programs of a table call a digest.
fn all(table: &'static str, algorithm: &str) -> impl Iterator<Item = &'static str> {
    pairs(table).filter(move |(id, _)| *id == algorithm).map(|(_, name)| name)
}

fn find(table: &'static str, algorithm: &str) -> Option<&'static str> {
    all(table, algorithm).next()
}

/// The rows of a table: digests with what a program calls them, where that is another name: `digest=name`.
fn pairs(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.split(' ').map(|row| row.split_once('=').unwrap_or((row, row)))
}

/// GNU's and BusyBox's programs, and those that write as they do.
const SUMS: &str = "\
    sha256=sha256sum sha224=sha224sum sha384=sha384sum sha512=sha512sum sha1=sha1sum md5=md5sum \
    blake2b512=b2sum blake3=b3sum xxh64=xxh64sum xxh32=xxh32sum xxh3-128=xxh128sum";

/// Those of the BSDs and macOS, which write `SHA256 (NAME) = HEX`.
const BSD: &str = "\
    sha256 sha256=/sbin/sha256 sha224 sha384 sha512 sha512=/sbin/sha512 sha1 sha1=/sbin/sha1 md5 \
    md5=/sbin/md5 ripemd160=rmd160";

/// The numbers of `shasum -a`.
const SHASUM: &str = "sha256=256 sha224=224 sha384=384 sha512=512 sha1=1";

/// The names of `digest -a` of Solaris and its successors.
const DIGEST: &str = "sha256 sha224 sha384 sha512 sha1 md5";

/// The names of `csum -h` of AIX.
const CSUM: &str = "sha256=SHA256 sha512=SHA512 sha1=SHA1 md5=MD5";

/// The options of `openssl dgst`.
const OPENSSL: &str = "\
    sha256 sha224 sha384 sha512 sha512-256 sha512-224 sha3-224 sha3-256 sha3-384 sha3-512 blake2b512 \
    blake2s256 sm3 ripemd160 sha1 md5";

/// What the modules of Perl compute.
const PERL: &str = "sha256 sha224 sha384 sha512 sha1 md5";

/// The names of `hashlib`.
const PYTHON: &str = "\
    sha256 sha224 sha384 sha512 sha3-224=sha3_224 sha3-256=sha3_256 sha3-384=sha3_384 \
    sha3-512=sha3_512 blake2b512=blake2b blake2s256=blake2s sha1 md5";

/// The names of PowerShell and certutil.
const POWERSHELL: &str = "sha256=SHA256 sha384=SHA384 sha512=SHA512 sha1=SHA1 md5=MD5";

#[cfg(test)]
mod tests {
    use super::*;
    use verisum_digest::ALGORITHMS;

    #[test]
    fn the_tables_name_digests_that_there_are() {
        for table in [SUMS, BSD, SHASUM, DIGEST, CSUM, OPENSSL, PERL, PYTHON, POWERSHELL] {
            for (id, _) in pairs(table) {
                assert!(ALGORITHMS.iter().any(|row| row.id == id), "{id}");
            }
        }
    }

    #[test]
    fn ways_come_in_the_order_of_their_names_and_hold_nothing_that_a_shell_would_see() {
        for algorithm in ALGORITHMS {
            let mut last = 0;
            for way in ways(algorithm.id) {
                let place = NAMES.iter().position(|name| *name == way.name).unwrap();
                // The two of the coreutils stand around BusyBox's, which is one of their names.
                assert!(place + 1 >= last, "{way:?}");
                last = place;
                if let Kind::Tool(tool) = &way.kind {
                    let words = format!("{} {} {}", tool.batch, tool.stream, way.program);
                    let is_plain = |c: char| c.is_ascii_alphanumeric() || " -/".contains(c);
                    assert!(words.chars().all(is_plain), "{words}");
                }
            }
        }
    }
}
