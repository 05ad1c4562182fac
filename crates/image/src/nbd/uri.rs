//! Addresses of NBD servers, as far as they must be looked at here: the library parses the rest.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::Error;

const SCHEMES: [&[u8]; 6] = [b"nbd", b"nbds", b"nbd+unix", b"nbds+unix", b"nbd+vsock", b"nbds+vsock"];

/// Whether a name is the address of an NBD server, not the name of a file.
///
/// It is where it begins as one. The file `nbd://x` of the working directory is `./nbd://x`.
pub fn is_nbd_uri(name: &OsStr) -> bool {
    split(name.as_bytes()).is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

/// Checks an address and makes it fit for the library.
///
/// # Errors
/// A password: NBD knows none, and it would be seen where the address is.
pub(super) fn checked(name: &OsStr) -> Result<CString, Error> {
    let bytes = name.as_bytes();
    let refused = |shown: &[u8], what: &str| {
        let path = PathBuf::from(OsStr::from_bytes(shown));
        Err(Error::Refused { path, what: what.to_string() })
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
    CString::new(bytes).or_else(|_| refused(bytes, "the address has a NUL byte"))
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
            assert_eq!(checked(OsStr::new(good)).unwrap().as_bytes(), good.as_bytes());
        }
        let error = checked(OsStr::new("nbds://alice:se@cret@host:1/export")).unwrap_err().to_string();
        assert!(error.starts_with("nbds://alice:...@host:1/export: "), "{error}");
        assert!(!error.contains("cret"));
        assert!(checked(OsStr::new("nbd://host/a\0b")).is_err());
    }
}
