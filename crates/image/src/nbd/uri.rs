//! Addresses of NBD servers. Parses only the parts that are needed here; libnbd parses the rest.
//!
//! What decides whether TLS protects anything is not left to the library. It passes over parameters that
//! it does not know, so that one misspelt would be no protection; and its older versions take any
//! certificate of a server where they find none of an authority.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::{ImageError, ImageOperation};

const SCHEMES: [&[u8]; 6] = [b"nbd", b"nbds", b"nbd+unix", b"nbds+unix", b"nbd+vsock", b"nbds+vsock"];

/// Whether a name is the address of an NBD server, not the name of a file.
///
/// It is where it begins as one. The file `nbd://x` of the working directory is `./nbd://x`.
pub fn is_nbd_uri(name: &OsStr) -> bool {
    split(name.as_bytes()).is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

/// An address that was looked at.
#[derive(Debug)]
pub(super) struct Checked {
    /// As the library takes it.
    pub(super) uri: CString,
    /// Whether TLS would be of no use with a library that does not insist on a certificate, and what to do.
    unverified: Option<&'static str>,
}

impl Checked {
    /// Refuses an address of which a library of this version would not verify the server.
    ///
    /// # Errors
    /// [`ImageError::Refused`], which says what to do.
    pub(super) fn check_version(&self, version: &str) -> Result<(), ImageError> {
        match self.unverified {
            Some(advice) if !verifies(version) => {
                let what = format!("libnbd {version} would not verify the server's certificate: {advice}");
                Err(ImageError::Refused { path: PathBuf::from(OsStr::from_bytes(self.uri.as_bytes())), what })
            }
            _ => Ok(()),
        }
    }
}

/// Checks an address, with the files for TLS that it names, and makes it fit for the library.
///
/// # Errors
/// [`ImageError::Refused`] for a password (NBD knows none, and it would be seen where the address is) and for a
/// parameter that is not known or is there twice; [`ImageError::Io`] for a file that it names and that cannot be
/// read.
pub(super) fn checked(name: &OsStr) -> Result<Checked, ImageError> {
    let bytes = name.as_bytes();
    let refused = |shown: &[u8], what: &str| {
        let path = PathBuf::from(OsStr::from_bytes(shown));
        Err(ImageError::Refused { path, what: what.to_string() })
    };
    let (scheme, rest) = split(bytes).unwrap_or((b"", bytes));
    let authority_end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
    let authority = &rest[..authority_end];
    if let Some(at) = authority.iter().rposition(|&byte| byte == b'@')
        && let Some(colon) = authority[..at].iter().position(|&byte| byte == b':')
    {
        let shown = [scheme, b"://", &authority[..colon], b":...", &rest[at..]].concat();
        return refused(&shown, "an NBD address has no password (keys are in a file: tls-psk-file=FILE)");
    }
    let Ok(uri) = CString::new(bytes) else { return refused(bytes, "the address has a NUL byte") };
    let parameters = match Parameters::parse(rest) {
        Ok(parameters) => parameters,
        Err(what) => return refused(bytes, &what),
    };
    let has_tls = scheme.starts_with(b"nbds");
    if !has_tls && (parameters.certificates.is_some() || parameters.keys.is_some()) {
        return refused(bytes, "files for TLS, but no TLS: the address must begin with nbds");
    }
    if let Some(folder) = &parameters.certificates {
        let file = folder.join("ca-cert.pem");
        File::open(&file).map_err(|error| ImageError::io(&file, ImageOperation::Open, error))?;
    }
    if let Some(file) = &parameters.keys {
        File::open(file).map_err(|error| ImageError::io(file, ImageOperation::Open, error))?;
    }
    let has_host = scheme == b"nbds";
    let unverified = match parameters {
        _ if !has_tls => None,
        Parameters { keys: Some(_), .. } => None,
        Parameters { certificates: Some(_), .. } if has_host => None,
        _ if has_host => {
            Some("give tls-certificates=DIR, a folder with ca-cert.pem, or tls-psk-file=FILE in the address")
        }
        _ => Some("give tls-psk-file=FILE in the address, or use a newer libnbd"),
    };
    Ok(Checked { uri, unverified })
}

/// What comes after the `?`, as far as it matters here.
#[derive(Default)]
struct Parameters {
    socket: Option<PathBuf>,
    certificates: Option<PathBuf>,
    keys: Option<PathBuf>,
}

impl Parameters {
    /// The parameters of an address without its scheme. The error is what is wrong.
    fn parse(rest: &[u8]) -> Result<Parameters, String> {
        let mut parameters = Parameters::default();
        let end = rest.iter().position(|&byte| byte == b'#').unwrap_or(rest.len());
        let Some(start) = rest[..end].iter().position(|&byte| byte == b'?') else { return Ok(parameters) };
        let query = &rest[start + 1..end];
        // Some take it for the end of a parameter.
        if query.contains(&b';') {
            return Err("a semicolon among the parameters of an address is written as %3B".to_string());
        }
        for parameter in query.split(|&byte| byte == b'&').filter(|parameter| !parameter.is_empty()) {
            let equals = parameter.iter().position(|&byte| byte == b'=').unwrap_or(parameter.len());
            let (name, value) = (&parameter[..equals], parameter.get(equals + 1..).unwrap_or(b""));
            let shown = String::from_utf8_lossy(name);
            let place = match name {
                b"socket" => &mut parameters.socket,
                b"tls-certificates" => &mut parameters.certificates,
                b"tls-psk-file" => &mut parameters.keys,
                _ => return Err(format!("parameter {shown} of the address is not known")),
            };
            if value.is_empty() {
                return Err(format!("parameter {shown} of the address has no value"));
            }
            let value = unescaped(value).ok_or_else(|| {
                format!("parameter {shown} of the address: a % without two hexadecimal digits, or a NUL byte")
            })?;
            if place.replace(PathBuf::from(OsString::from_vec(value))).is_some() {
                return Err(format!("parameter {shown} is in the address twice"));
            }
        }
        Ok(parameters)
    }
}

/// The bytes that a value stands for, with `%` and two hexadecimal digits for some of them; `None` where the
/// digits are missing, and for a NUL byte.
fn unescaped(value: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &after[2..];
    }
    Some(bytes).filter(|bytes| !bytes.contains(&0))
}

/// Whether a version of libnbd refuses a server whose certificate it cannot verify, whatever it finds of
/// authorities and whether or not the server has a host name (CVE-2024-7383).
fn verifies(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    match (next(), next(), next()) {
        (1, 18, patch) => patch >= 5,
        (1, 20, patch) => patch >= 2,
        (1, minor, _) => minor >= 22,
        (major, ..) => major > 1,
    }
}

/// What is before and after `://`.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = name.windows(3).position(|window| window == b"://")?;
    Some((&name[..end], &name[end + 3..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_files() {
        let is_nbd = |name: &str| is_nbd_uri(OsStr::new(name));
        assert!(is_nbd("nbd://localhost") && is_nbd("nbd+unix:///?socket=/s") && is_nbd("nbds://h:1/e"));
        assert!(!is_nbd("./nbd://localhost") && !is_nbd("nbd") && !is_nbd("disk.nbd") && !is_nbd("nbdx://"));
        assert!(!is_nbd("") && !is_nbd("://"));
    }

    #[test]
    fn passwords_are_refused_and_not_shown() {
        for good in [
            "nbd://host:10809/a:b@c",
            "nbds://alice@host",
            "nbd://[::1]:10809/",
            "nbd://",
            "nbd+unix:///?socket=/a:b@c",
        ] {
            assert_eq!(checked(OsStr::new(good)).unwrap().uri.as_bytes(), good.as_bytes());
        }
        let error = checked(OsStr::new("nbds://alice:se@cret@host:1/export")).unwrap_err().to_string();
        assert!(error.starts_with("nbds://alice:...@host:1/export: "), "{error}");
        assert!(!error.contains("cret"));
        assert!(checked(OsStr::new("nbd://host/a\0b")).is_err());
    }

    /// The error of an address, of one that is good with a library that does not verify.
    fn refusal(address: &str) -> Option<String> {
        let checked = checked(OsStr::new(address)).and_then(|checked| checked.check_version("1.14.2"));
        checked.err().map(|error| error.to_string().replacen(&format!("{address}: "), "", 1))
    }

    #[test]
    fn parameters_that_nobody_knows_are_refused() {
        for (address, what) in [
            ("nbds://h/?tls-certs=/d", "open: parameter tls-certs of the address is not known"),
            ("nbds://h?TLS-certificates=/d", "open: parameter TLS-certificates of the address is not known"),
            ("nbd+unix:///?socket=/s&socket=/t", "open: parameter socket is in the address twice"),
            ("nbd+unix:///?socket", "open: parameter socket of the address has no value"),
            ("nbd://h/?tls-psk-file=/k", "open: files for TLS, but no TLS: the address must begin with nbds"),
        ] {
            assert_eq!(refusal(address).as_deref(), Some(what), "{address}");
        }
        assert!(refusal("nbd+unix:///?socket=/a;tls-x=b").unwrap().contains("%3B"));
        assert!(refusal("nbd+unix:///?socket=/a%2").unwrap().contains("hexadecimal"));
        assert_eq!(refusal("nbd+unix:///e?socket=/a%3Bb#?x"), None);
    }

    #[test]
    fn files_for_tls_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let absent = |address: &str, file: &str| {
            assert_eq!(refusal(address).unwrap(), format!("{path}/{file}: open: No such file or directory"));
        };
        absent(&format!("nbds://h/?tls-certificates={path}"), "ca-cert.pem");
        absent(&format!("nbds://h/?tls-certificates={path}/none"), "none/ca-cert.pem");
        absent(&format!("nbds://h/?tls-psk-file={path}/keys"), "keys");
        std::fs::write(folder.path().join("ca-cert.pem"), b"").unwrap();
        assert_eq!(refusal(&format!("nbds://h/?tls-certificates={path}/%2E")), None);
    }

    #[test]
    fn servers_that_an_old_library_does_not_verify_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        std::fs::write(folder.path().join("ca-cert.pem"), b"").unwrap();
        for address in ["nbds://h".into(), format!("nbds+unix:///?socket=/s&tls-certificates={path}")] {
            let what = refusal(&address).unwrap();
            assert!(
                what.starts_with("open: libnbd 1.14.2 would not verify the server's certificate: give tls-")
            );
            let checked = checked(OsStr::new(&address)).unwrap();
            for version in ["1.18.5", "1.20.2", "1.20.10", "1.22.0", "1.23.4", "2.0.0"] {
                assert!(checked.check_version(version).is_ok(), "{version}");
            }
            for version in ["1.12.0", "1.18.4", "1.19.9", "1.20.1", "1.21.1", "", "x"] {
                assert!(checked.check_version(version).is_err(), "{version}");
            }
        }
        assert_eq!(refusal("nbd://h"), None);
        assert_eq!(refusal(&format!("nbds+unix:///?socket=/s&tls-psk-file={path}/ca-cert.pem")), None);
    }
}
