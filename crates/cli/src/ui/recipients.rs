//! The recipients of messages about failures: mail addresses, the sendmail program, and URLs.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use reqwest::Url;

use crate::ui::config::require_own;
use crate::ui::failure::Failure;
use crate::ui::find_program;

/// The longest file with a URL that is read.
const LONGEST: u64 = 64 << 10;

/// Fails unless this is an address: the name of a user of this machine, or with `@` and a domain.
pub(crate) fn check_address(address: &str) -> Result<(), Failure> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"<>()[],;:\\\"".contains(&byte);
    let parts: Vec<&str> = address.split('@').collect();
    let are_plain = parts.iter().all(|part| !part.is_empty() && part.bytes().all(is_plain));
    if parts.len() > 2 || !are_plain || address.starts_with('-') {
        return Err(Failure::value(
            "--mail",
            address,
            "must be one address, as in admin@example.org or root",
        ));
    }
    Ok(())
}

/// Finds the program that takes mail.
pub(crate) fn sendmail(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return named.canonicalize().map_err(|error| Failure::file(named, "find", error));
    }
    find_program("sendmail").ok_or_else(|| Failure::Program {
        name: "sendmail".to_string(),
        why: "not installed here (Postfix, Exim, msmtp-mta and others bring it)".to_string(),
    })
}

/// Reads an address of the web; none where it is not one of http or https.
pub(crate) fn url(text: &str) -> Option<Url> {
    let url = Url::parse(text.trim()).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// The URL in the first line of a file. No error repeats it.
///
/// # Errors
/// Also if another user may write the file: the messages would go to whom he likes.
pub(crate) fn url_of(file: &Path) -> Result<Url, Failure> {
    let mut text = String::new();
    // A pipe that nobody writes to is no reason to wait until it is refused.
    let open = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(file);
    let read = open.and_then(|open| {
        let about = open.metadata()?;
        require_own(&about)?;
        if !about.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        open.take(LONGEST).read_to_string(&mut text)
    });
    read.map_err(|error| Failure::file(file, "read", error))?;
    let none = || io::Error::other("its first line is no URL of http or https");
    text.lines().next().and_then(url).ok_or_else(|| Failure::file(file, "read", none()))
}

/// Why a file with a URL should be closed, if others may read it.
pub(crate) fn told_if_open_to_others(file: &Path) -> io::Result<Option<&'static str>> {
    let is_open = std::fs::metadata(file)?.mode() & 0o077 != 0;
    Ok(is_open.then_some("others may read it, and a URL may hold a secret (chmod 600 closes it)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_word() {
        for good in ["root", "admin@example.org", "a.b+c@sub.example.org", "o'neill@example.org"] {
            assert!(check_address(good).is_ok(), "{good}");
        }
        for bad in ["", "-oQ/tmp", "a b", "a@b@c", "@b", "a@", "a,b", "a\nBcc: b", "Ann <a@b>", "größe"] {
            assert!(check_address(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_url_is_one_of_the_web() {
        for good in ["https://example.org/hook?token=a", " http://127.0.0.1:8080/ "] {
            assert!(url(good).is_some(), "{good}");
        }
        for bad in ["", "example.org", "ftp://example.org/", "file:///etc/passwd", "https://"] {
            assert!(url(bad).is_none(), "{bad:?}");
        }
    }
}
