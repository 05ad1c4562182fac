//! Addresses of files: a host or a bucket, and a path there.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum_files::percent;
use verisum_files::place::{PlaceScheme, SCHEMES, below, scheme};

use crate::error::AddressError;

/// A file or directory on some host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The machine.
    pub host: Host,
    /// As the host takes it: it begins with `/` or `.`, and has no empty parts and no slash at its end.
    pub path: Vec<u8>,
    /// Whether the `./` at its start was not typed, and is not shown.
    bare: bool,
}

/// How addresses of hosts begin; all others are of buckets, and of single objects on the web.
const SSH: &str = "ssh://";

/// Schemes that are known elsewhere. What looks like a password behind them is one, also without `//`.
const OTHER_SCHEMES: [&str; 35] = [
    "abfs", "abfss", "adl", "azure", "b2", "cos", "dav", "davs", "dropbox", "file", "ftp", "ftps", "gcs",
    "gdrive", "git", "git+ssh", "hdfs", "minio", "nbd", "nbds", "nfs", "obs", "oss", "r2", "rclone", "rsync",
    "s3a", "s3n", "scp", "sftp", "smb", "swift", "wasb", "wasbs", "webdav",
];

/// Whether it begins, perhaps after blanks, with any scheme and `://`, or with less than that before what may be a
/// password.
pub fn is_url(text: &[u8]) -> bool {
    let plain = without_codes(text.trim_ascii_start(), b":@");
    let scheme = plain.windows(3).position(|part| part == b"://").map(|end| &plain[..end]);
    let is_scheme = |word: &[u8]| {
        let is_of_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        word[0].is_ascii_alphabetic() && word.iter().all(is_of_scheme) && word != b"local"
    };
    scheme.is_some_and(|word| !word.is_empty() && is_scheme(word)) || is_url_of_known_scheme(text)
}

/// The same where the scheme is one of ours or known elsewhere.
pub(crate) fn is_url_of_known_scheme(text: &[u8]) -> bool {
    let text = &*without_codes(text.trim_ascii_start(), b":@");
    if text.starts_with(b"//") {
        return text.iter().rposition(|byte| *byte == b'@').is_some_and(|at| text[..at].contains(&b':'));
    }
    let Some(end) = text.iter().position(|byte| *byte == b':') else { return false };
    let (scheme, rest) = (text[..end].to_ascii_lowercase(), &text[end + 1..]);
    let is_ours = |one: &PlaceScheme| one.start.as_bytes().strip_suffix(b"://") == Some(&scheme);
    let is_known = SCHEMES.iter().any(is_ours) || OTHER_SCHEMES.iter().any(|one| one.as_bytes() == scheme);
    let user = rest.iter().rposition(|byte| *byte == b'@').map(|at| &rest[..at]);
    is_known && (rest.starts_with(b"//") || user.is_some_and(|user| user.contains(&b':')))
}

/// Which machine, or which bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// This one, without ssh.
    Local,
    /// One that ssh knows by this name, with a user before an `@` if one was named.
    Ssh {
        /// `[USER@]NAME`, as ssh takes it.
        destination: String,
        /// The port; none for ssh's own choice.
        port: Option<u16>,
    },
    /// A bucket of an object store, or a server of the web, by its URL without a slash at its end; without ssh.
    Bucket(String),
}

impl Address {
    /// `HOST:PATH`, `ssh://[USER@]HOST[:PORT]/PATH`, `s3://BUCKET/PREFIX` and those of other stores, `local:PATH`; where
    /// `allow_local` also a path of this machine.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &OsStr, allow_local: bool) -> Result<Address, AddressError> {
        let bytes = text.as_bytes();
        if let Some(rest) = bytes.strip_prefix(b"ssh://") {
            return url(rest);
        }
        if let Some(found) = bucket(bytes) {
            return found;
        }
        if is_url(bytes) {
            return Err(match bytes[0] {
                b'/' => AddressError::Keys,
                byte if byte.is_ascii_whitespace() => AddressError::Blank,
                _ => AddressError::OtherScheme,
            });
        }
        if let Some(path) = bytes.strip_prefix(b"local:") {
            return Ok(Address::new(Host::Local, path));
        }
        let end = bytes.iter().position(|byte| matches!(byte, b':' | b'/' | b'['));
        let end = match end.filter(|end| bytes[*end] == b'[') {
            // The colons inside brackets belong to an IPv6 address.
            Some(open) if open == 0 || bytes[open - 1] == b'@' => {
                bytes.iter().position(|byte| *byte == b']').map(|place| place + 1)
            }
            Some(_) => bytes.iter().position(|byte| matches!(byte, b':' | b'/')),
            None => end,
        };
        match end.filter(|end| bytes.get(*end) == Some(&b':')) {
            Some(end) => Ok(Address::new(Host::named(&bytes[..end], None)?, &bytes[end + 1..])),
            None if allow_local => Ok(Address::new(Host::Local, bytes)),
            None => Err(AddressError::NoHost),
        }
    }

    /// What a user typed for a tree, if it is an address: URLs always are; `HOST:PATH` and `local:PATH` are only where no
    /// file of this machine has that name. None for a path of this machine.
    ///
    /// # Errors
    /// What is wrong with a URL.
    pub fn typed(text: &OsStr) -> Result<Option<Address>, AddressError> {
        if is_url(text.as_bytes()) {
            return Address::parse(text, false).map(Some);
        }
        let is_here = || Path::new(text).symlink_metadata().is_ok();
        Ok(Address::parse(text, false).ok().filter(|_| !is_here()))
    }

    /// A path on a host, as a user typed it.
    pub fn new(host: Host, path: &[u8]) -> Address {
        let is_local = host == Host::Local;
        // ssh starts at home; so does scp where this stands.
        let path = match path {
            b"~" if !is_local => b"",
            _ if !is_local => path.strip_prefix(b"~/").unwrap_or(path),
            _ => path,
        };
        let mut clean = Vec::with_capacity(path.len() + 2);
        let is_bare = !path.is_empty() && path != b"." && !path.starts_with(b"/") && !path.starts_with(b"./");
        if is_bare {
            clean.extend_from_slice(b"./");
        }
        for byte in path {
            if *byte != b'/' || clean.last() != Some(&b'/') {
                clean.push(*byte);
            }
        }
        while let Some(place) = clean.windows(3).position(|part| part == b"/./") {
            clean.drain(place..place + 2);
        }
        if clean.ends_with(b"/.") {
            clean.pop();
        }
        if clean.len() > 1 {
            clean.pop_if(|last| *last == b'/');
        }
        if clean.is_empty() {
            clean.push(b'.');
        }
        Address { host, path: clean, bare: is_bare }
    }

    /// The path that a name of a list has here: below this one, unless it begins at the root.
    pub fn join(&self, name: &[u8]) -> Vec<u8> {
        if name.starts_with(b"/") {
            return name.to_vec();
        }
        let mut joined = self.path.clone();
        if joined != b"/" {
            joined.push(b'/');
        }
        joined.extend_from_slice(name.strip_prefix(b"./").unwrap_or(name));
        joined
    }

    /// A path of the host as its user would type it.
    pub fn shown<'a>(&self, path: &'a [u8]) -> &'a [u8] {
        if matches!(self.host, Host::Bucket(_)) {
            return path.strip_prefix(b"/").unwrap_or(path);
        }
        match self.bare {
            true => path.strip_prefix(b"./").unwrap_or(path),
            false => path,
        }
    }

    /// The address as its user would type it.
    pub fn typed_form(&self) -> Vec<u8> {
        let path = self.shown(&self.path);
        let mut typed = self.host.prefix(path);
        typed.extend_from_slice(path);
        if path.is_empty() {
            typed.pop_if(|last| *last == b'/');
        }
        typed
    }

    /// What of a path is below this one, without a slash at its start; its last part if this is the file.
    pub fn below<'a>(&self, path: &'a [u8]) -> &'a [u8] {
        match below(&self.path, path) {
            Some(rest) if !rest.is_empty() => rest,
            _ => path.rsplit(|byte| *byte == b'/').next().unwrap_or(path),
        }
    }

    /// The address by which a catalogue can know this tree again.
    ///
    /// # Errors
    /// Why none can.
    pub fn recorded(&self) -> Result<PathBuf, AddressError> {
        if self.host == Host::Local {
            return Err(AddressError::Here);
        }
        match self.path.split(|byte| *byte == b'/').any(|part| part == b"..") {
            true => Err(AddressError::Parent),
            false => Ok(PathBuf::from(OsStr::from_bytes(&self.address()))),
        }
    }

    /// The place of an address by which a catalogue knows it, with whatever is in its path.
    pub fn from_recorded(address: &[u8]) -> Option<Address> {
        if let Some(found) = bucket(address) {
            return found.ok();
        }
        let (name, port, path) = taken_apart(address.strip_prefix(b"ssh://")?).ok()?;
        Some(Address::new(Host::named(name, port).ok()?, from_home(path)))
    }

    /// The same as an address, by which a catalogue knows it.
    pub fn address(&self) -> Vec<u8> {
        let mut address = match &self.host {
            Host::Local => return self.path.clone(),
            Host::Bucket(url) => url.clone().into_bytes(),
            Host::Ssh { destination, port } => {
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                format!("ssh://{}{port}", bracketed(destination)).into_bytes()
            }
        };
        match &self.path[..] {
            b"." => address.extend_from_slice(b"/~"),
            path => match path.strip_prefix(b"./") {
                Some(path) => address.extend([b"/~/", path].concat()),
                None => address.extend_from_slice(path),
            },
        }
        address
    }
}

impl Host {
    /// Whether it is a store that may have recorded digests of its objects, which a server of the web has not.
    pub fn keeps_records(&self) -> bool {
        matches!(self, Host::Bucket(url) if !url.starts_with("http"))
    }

    /// A host by the name that ssh shall take, with or without `USER@`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn named(name: &[u8], port: Option<u16>) -> Result<Host, AddressError> {
        let name = std::str::from_utf8(name).map_err(|_| AddressError::NotUtf8)?;
        let (user, host) = name.rsplit_once('@').map_or((None, name), |(user, host)| (Some(user), host));
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.contains(['[', ']']) {
            return Err(AddressError::Brackets);
        }
        if host.is_empty() || user == Some("") {
            return Err(AddressError::EmptyHost);
        }
        if user.is_some_and(|user| user.contains(':')) {
            return Err(AddressError::Password);
        }
        // ssh would take them for options, or give them to a shell in `ProxyCommand`.
        let is_odd = |part: &str| {
            part.starts_with('-')
                || part
                    .contains(|c: char| c.is_control() || c.is_whitespace() || "'\"`$\\;&<>|(){}".contains(c))
        };
        if is_odd(host) || user.is_some_and(is_odd) {
            return Err(AddressError::HostCharacters);
        }
        let destination = user.map_or(host.to_string(), |user| format!("{user}@{host}"));
        Ok(Host::Ssh { destination, port })
    }

    /// A host as a line of a list of hosts has it: a name, `USER@NAME`, `ssh://[USER@]NAME[:PORT]`, or
    /// `local`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_line(line: &[u8]) -> Result<Host, AddressError> {
        if line == b"local" {
            return Ok(Host::Local);
        }
        match line.strip_prefix(b"ssh://") {
            Some(rest) if rest.strip_suffix(b"/").unwrap_or(rest).contains(&b'/') => {
                Err(AddressError::OnlyHost)
            }
            Some(rest) => url(rest).map(|place| place.host),
            None if line.starts_with(b"[") || !line.contains(&b':') => match line.contains(&b'/') {
                true => Err(AddressError::OnlyHost),
                false => Host::named(line, None),
            },
            None => Err(AddressError::OnlyHost),
        }
    }

    /// What follows the host in a name that has it in front, as [`prefix`](Host::prefix) puts it there.
    pub fn strip<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        let rest = name.strip_prefix(self.name().as_bytes())?;
        match self {
            Host::Ssh { port: Some(_), .. } if rest.starts_with(b"/") => {
                Some(rest.strip_prefix(b"/~/").unwrap_or(rest))
            }
            Host::Ssh { port: Some(_), .. } => None,
            Host::Bucket(_) => rest.starts_with(b"/").then_some(rest),
            _ => rest.strip_prefix(b":"),
        }
    }

    /// Its name in messages and results.
    pub fn name(&self) -> String {
        match self {
            Host::Local => "local".to_string(),
            Host::Bucket(url) => url.clone(),
            Host::Ssh { destination, port: None } => bracketed(destination),
            Host::Ssh { destination, port: Some(port) } => format!("ssh://{}:{port}", bracketed(destination)),
        }
    }

    /// What stands before the path of a file, to name it among those of all hosts.
    pub fn prefix(&self, path: &[u8]) -> Vec<u8> {
        let colon = match self {
            Host::Ssh { port: Some(_), .. } if path.starts_with(b"/") => "",
            Host::Ssh { port: Some(_), .. } => "/~/",
            Host::Bucket(_) if path.starts_with(b"/") => "",
            Host::Bucket(_) => "/",
            _ => ":",
        };
        format!("{}{colon}", self.name()).into_bytes()
    }
}

/// What a host may list of a tree: files below the root as it was asked for, or only the root.
#[derive(Debug)]
pub(crate) struct ListingBounds<'a> {
    root: &'a [u8],
    /// How many files it listed.
    listed: u64,
    is_file: bool,
}

impl<'a> ListingBounds<'a> {
    pub(crate) fn new(root: &'a [u8]) -> ListingBounds<'a> {
        ListingBounds { root, listed: 0, is_file: false }
    }

    /// Whether this may be the next file.
    pub(crate) fn takes(&mut self, path: &[u8]) -> bool {
        let fits = self.holds(path) && !self.is_file && (path != self.root || self.listed == 0);
        self.is_file = path == self.root;
        self.listed += 1;
        fits
    }

    /// Whether a path is the root or below it.
    pub(crate) fn holds(&self, path: &[u8]) -> bool {
        let is_name = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
        below(self.root, path)
            .is_some_and(|rest| rest.is_empty() || rest.split(|byte| *byte == b'/').all(is_name))
    }
}

/// A destination with brackets around an IPv6 address.
fn bracketed(destination: &str) -> String {
    let (user, host) = destination.rsplit_once('@').map_or(("", destination), |(user, host)| (user, host));
    match (host.contains(':'), user) {
        (false, _) => destination.to_string(),
        (true, "") => format!("[{host}]"),
        (true, user) => format!("{user}@[{host}]"),
    }
}

/// What follows `ssh://`.
fn url(rest: &[u8]) -> Result<Address, AddressError> {
    let (name, port, path) = taken_apart(rest)?;
    let host = Host::named(name, port)?;
    let path = decoded(path).ok_or(AddressError::Code)?;
    Ok(Address::new(host, from_home(&path)))
}

/// The address of something in a bucket, if it begins as one. Nothing is decoded, as in the stores' own tools.
fn bucket(address: &[u8]) -> Option<Result<Address, AddressError>> {
    let scheme = scheme(address).filter(|scheme| *scheme != SSH)?;
    let rest = &address[scheme.len()..];
    let slash = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let name = std::str::from_utf8(&rest[..slash]).unwrap_or_default();
    let is_web = scheme.starts_with("http");
    let others = if is_web { "-._:[]" } else { "-._$" };
    let is_usual = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    if is_web && rest.iter().any(|byte| b"?#".contains(byte)) {
        // Names of files are shown and recorded.
        return Some(Err(AddressError::Query));
    }
    if is_signed(rest) {
        return Some(Err(AddressError::Signature));
    }
    let path = if slash == rest.len() { b"/" } else { &rest[slash..] };
    let below = path.strip_prefix(b"/").map(|rest| rest.strip_suffix(b"/").unwrap_or(rest));
    let is_no_name = |part: &[u8]| matches!(part, b"" | b"." | b"..");
    let (_, port) = name.rsplit_once(':').unwrap_or_default();
    let is_port = name.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit());
    // A key may have slashes in it.
    let has_user = rest[..slash].contains(&b'@') || !(is_web && is_port) && rest.contains(&b'@');
    Some(match () {
        () if has_user && rest[..slash].iter().any(|byte| b":@".contains(byte)) => Err(AddressError::Keys),
        () if is_web && !is_port => Err(AddressError::WebPort),
        () if name.is_empty() && is_web => Err(AddressError::MissingHost),
        () if name.is_empty() => Err(AddressError::MissingBucket),
        () if is_web && !name.chars().all(is_usual) => Err(AddressError::HostCharacters),
        () if name.starts_with('.') || !name.chars().all(is_usual) => Err(AddressError::BucketCharacters),
        // `a//b` is not the key `a/b`, and no file has such a name.
        () if below
            .is_some_and(|rest| !rest.is_empty() && rest.split(|byte| *byte == b'/').any(is_no_name)) =>
        {
            Err(AddressError::KeyParts)
        }
        () => Ok(Address::new(Host::Bucket(format!("{scheme}{name}")), path)),
    })
}

/// Whether the query of an address, or what follows its `#`, lets whoever knows it read the object.
pub(crate) fn is_signed(address: &[u8]) -> bool {
    let address = without_codes(address, b"?#=").to_ascii_lowercase();
    let query = address.iter().position(|byte| b"?#".contains(byte)).map_or(&[][..], |at| &address[at..]);
    [&b"sig="[..], b"signature=", b"token="]
        .iter()
        .any(|name| query.windows(name.len()).any(|part| part == *name))
}

/// A text with these characters in place of their percent codes, also of those that were encoded twice. What is left of a code
/// follows it, so that all else keeps its place.
pub(crate) fn without_codes<'a>(text: &'a [u8], wanted: &[u8]) -> Cow<'a, [u8]> {
    let mut plain = Cow::Borrowed(text);
    for at in (0..text.len()).filter(|at| text[*at] == b'%') {
        let mut code = &text[at + 1..];
        while let Some(rest) = code.strip_prefix(b"25") {
            code = rest;
        }
        let found = code.get(..2).and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok());
        if let Some(found) = found.filter(|found| wanted.contains(found)) {
            plain.to_mut()[at] = found;
        }
    }
    plain
}

/// The name of a host, a port and a path.
type Parts<'a> = (&'a [u8], Option<u16>, &'a [u8]);

/// The parts of what follows `ssh://`.
fn taken_apart(rest: &[u8]) -> Result<Parts<'_>, AddressError> {
    let slash = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    let colon = authority.iter().rposition(|byte| *byte == b':');
    // Those inside brackets belong to an IPv6 address.
    let colon = colon.filter(|colon| !authority[*colon..].contains(&b']'));
    let Some(colon) = colon else { return Ok((authority, None, path)) };
    let port = std::str::from_utf8(&authority[colon + 1..]).ok().and_then(|port| port.parse().ok());
    let port = port.filter(|port| *port > 0).ok_or(AddressError::Port)?;
    Ok((&authority[..colon], Some(port), path))
}

/// The path of an address as a user would type it: what begins with `/~/` begins at home.
fn from_home(path: &[u8]) -> &[u8] {
    match path.strip_prefix(b"/~") {
        Some(home) if home.is_empty() || home.starts_with(b"/") => home.strip_prefix(b"/").unwrap_or(home),
        _ => path,
    }
}

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    percent::decoded(text).filter(|bytes| !bytes.contains(&0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Address {
        Address::parse(OsStr::new(text), true).unwrap()
    }

    #[test]
    fn places_are_those_of_scp_and_urls() {
        for (text, host, path) in [
            ("web:/srv", "web", "/srv"),
            ("alice@web:/srv//www/", "alice@web", "/srv/www"),
            ("web:", "web", "."),
            ("web:data", "web", "./data"),
            ("web:~/data", "web", "./data"),
            ("web:~", "web", "."),
            ("web:-x", "web", "./-x"),
            ("web:a:b", "web", "./a:b"),
            ("[::1]:/srv", "[::1]", "/srv"),
            ("alice@[::1]:/srv", "alice@[::1]", "/srv"),
            ("ssh://[::1]/srv", "[::1]", "/srv"),
            ("ssh://web/srv", "web", "/srv"),
            ("ssh://alice@web:2222/srv/", "ssh://alice@web:2222", "/srv"),
            ("ssh://alice@[::1]:22/a%20b", "ssh://alice@[::1]:22", "/a b"),
            ("ssh://web", "web", "."),
            ("ssh://web/~/a", "web", "./a"),
            ("ssh://web/~a", "web", "/~a"),
            ("alice@web://srv", "alice@web", "/srv"),
            ("local://srv", "local", "/srv"),
            ("s3://b.1/x/y/", "s3://b.1", "/x/y"),
            ("s3://b/a%20b", "s3://b", "/a%20b"),
            ("s3://b", "s3://b", "/"),
            ("gs://b_1/x", "gs://b_1", "/x"),
            ("az://$root/x", "az://$root", "/x"),
            ("https://host:8443/a%20b", "https://host:8443", "/a%20b"),
            ("local:a", "local", "./a"),
            ("./a:b", "local", "./a:b"),
            ("./[b]:c", "local", "./[b]:c"),
            ("web:[a]:b", "web", "./[a]:b"),
            ("/", "local", "/"),
            ("a/b:c", "local", "./a/b:c"),
        ] {
            let found = place(text);
            assert_eq!(
                (found.host.name(), found.path),
                (host.to_string(), path.as_bytes().to_vec()),
                "{text}"
            );
        }
    }

    #[test]
    fn an_address_is_said_as_it_was_typed() {
        for text in
            ["web:/srv", "web:data", "web:.", "ssh://web:22/srv", "ssh://web:22/~/a", "s3://b", "s3://b/x/y"]
        {
            assert_eq!(place(text).typed_form(), text.as_bytes());
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        use AddressError::*;
        for (text, why) in [
            ("-oProxyCommand=x:/a", HostCharacters),
            (":/a", EmptyHost),
            ("@h:/a", EmptyHost),
            ("u@-h:/a", HostCharacters),
            ("ssh://u:p@h:22/a", Password),
            ("a b:/c", HostCharacters),
            ("$(x):/c", HostCharacters),
            ("ssh://h:0/", Port),
            ("ssh://h:x/", Port),
            ("ssh://[::1/etc", Brackets),
            ("ssh://::1]/etc", Brackets),
            ("we[b]:/etc", Brackets),
            ("ssh://h/%0", Code),
            ("ssh://h/%00", Code),
            ("ftp://h/x", OtherScheme),
            ("S3://b/x", OtherScheme),
            ("git+ssh://h/x", OtherScheme),
            ("s4://b/x", OtherScheme),
            ("http+x://h/x", OtherScheme),
            ("web://srv", OtherScheme),
            (" s3://b/x", Blank),
            ("gs:///x", MissingBucket),
            ("s3://b,/x", BucketCharacters),
            ("https:///x", MissingHost),
            ("https://h:x/x", WebPort),
            ("https://h$/x", HostCharacters),
            ("https://user:secret@host/x", Keys),
            ("s3://key:secret@bucket/x", Keys),
            ("https://host/x?signature=secret", Query),
            ("s3://bucket/x#signature=secret", Signature),
            ("s3://bucket/x%3Fsignature=secret", Signature),
        ] {
            assert_eq!(Address::parse(OsStr::new(text), true), Err(why), "{text}");
        }
        assert_eq!(Address::parse(OsStr::new("/srv"), false), Err(NoHost));
    }

    #[test]
    fn a_name_that_is_here_is_no_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("10:30:00.txt");
        std::fs::write(&path, "").unwrap();
        let is_address = |text: &OsStr| Address::typed(text).unwrap().is_some();
        assert!(!is_address(path.as_os_str()));
        for text in ["/srv", "./web:/srv", "a/b:c", "photos", ":/a", "a b:/c"] {
            assert!(!is_address(OsStr::new(text)), "{text}");
        }
        for text in ["web:/srv", "no-file-here:30:00.txt", "local:.", "ssh://web/srv"] {
            assert!(is_address(OsStr::new(text)), "{text}");
        }
        assert!(Address::typed(OsStr::new("ssh://h:0/")).is_err());
        // Nobody asks ssh for a host of this name.
        for text in ["ftp://host/x", "s4://host/x", "http+x://host/x", "web://host/x"] {
            assert_eq!(Address::typed(OsStr::new(text)), Err(AddressError::OtherScheme), "{text}");
        }
        for text in ["./ftp://host/x", "./s4://host/x", "a b://x"] {
            assert!(!is_address(OsStr::new(text)), "{text}");
        }
    }

    #[test]
    fn lines_name_hosts_and_nothing_else() {
        for (line, name) in [
            ("web", "web"),
            ("local", "local"),
            ("alice@web", "alice@web"),
            ("[::1]", "[::1]"),
            ("ssh://web:2222", "ssh://web:2222"),
            ("ssh://web/", "web"),
        ] {
            assert_eq!(Host::of_line(line.as_bytes()).unwrap().name(), name);
        }
        for line in ["web:/srv", "web:", "ssh://web/srv", "web/srv", "-oX", "a b"] {
            assert!(Host::of_line(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn hosts_before_names_can_be_told_from_names() {
        for text in ["web:/srv", "alice@web:data", "ssh://web:2222/srv", "ssh://web:2222/~/data", "local:x"] {
            let place = place(text);
            let name = place.shown(&place.path);
            let full = [place.host.prefix(name), name.to_vec()].concat();
            assert_eq!(place.host.strip(&full), Some(name), "{text}");
            assert_eq!(place.host.strip(name), None, "{text}");
        }
        assert_eq!(place("web:/").host.strip(b"web1:/a"), None);
    }

    #[test]
    fn names_are_joined_shown_and_taken_apart() {
        let srv = place("web:/srv");
        assert_eq!(srv.join(b"./a/b"), b"/srv/a/b");
        assert_eq!(srv.join(b"/etc/x"), b"/etc/x");
        assert_eq!(srv.below(b"/srv/a"), b"a");
        assert_eq!(srv.below(b"/srv"), b"srv");
        let home = place("web:data");
        assert_eq!(home.shown(&home.join(b"a")), b"data/a");
        assert_eq!(place("web:.").shown(b"./a"), b"./a");
        assert_eq!(place("web:/").join(b"a"), b"/a");
        assert_eq!(place("web:/").below(b"/a"), b"a");
    }

    #[test]
    fn what_a_host_lists_is_in_the_tree_that_was_asked_for() {
        for (root, path) in
            [("/srv", "/srv"), ("/srv", "/srv/a/b"), ("/", "/a"), (".", "./a"), ("./..", "./../a")]
        {
            assert!(ListingBounds::new(root.as_bytes()).takes(path.as_bytes()), "{root} {path}");
        }
        for path in
            ["", "a", "/", "/etc/passwd", "/srvx", "/srv/", "/srv//y", "/srv/./x", "/srv/../x", "/srv/a/.."]
        {
            assert!(!ListingBounds::new(b"/srv").takes(path.as_bytes()), "{path}");
        }
        for (root, path) in [("/", "//a"), (".", "a"), (".", "./../a")] {
            assert!(!ListingBounds::new(root.as_bytes()).takes(path.as_bytes()), "{root} {path}");
        }
        for paths in [["/srv", "/srv/a"], ["/srv/a", "/srv"], ["/srv", "/srv"]] {
            let mut tree = ListingBounds::new(b"/srv");
            assert!(tree.takes(paths[0].as_bytes()) && !tree.takes(paths[1].as_bytes()), "{paths:?}");
        }
    }

    #[test]
    fn addresses_lead_to_the_same_place() {
        for text in
            ["web:/srv", "web:", "web:data", "ssh://alice@web:2222/srv", "alice@[::1]:data", "gs://b/x"]
        {
            let found = place(text);
            let again = place(std::str::from_utf8(&found.address()).unwrap());
            assert_eq!((&again.host, &again.path), (&found.host, &found.path), "{text}");
            let again = Address::from_recorded(&found.address()).unwrap();
            assert_eq!((again.host, again.path), (found.host, found.path), "{text}");
        }
        let odd = place("web:/100%20 a:b");
        assert_eq!(Address::from_recorded(&odd.address()).unwrap().path, odd.path);
        assert!(Address::from_recorded(b"/srv").is_none());
    }

    #[test]
    fn a_key_is_no_other() {
        for text in
            ["s3://b/a//b", "s3://b//a", "s3://b/a//", "gs://b/a/./b", "s3://b/../a", "https://h/a//b"]
        {
            let error = Address::typed(OsStr::new(text)).unwrap_err();
            assert_eq!(error, AddressError::KeyParts, "{text}");
        }
        for text in ["s3://b", "s3://b/", "s3://b/a/", "s3://b/a/...b/.c"] {
            assert!(Address::typed(OsStr::new(text)).is_ok(), "{text}");
        }
    }

    #[test]
    fn one_place_has_one_address() {
        for (text, address) in [
            ("web:/srv/.", "ssh://web/srv"),
            ("web:/srv//a/./b/", "ssh://web/srv/a/b"),
            ("web:/./././", "ssh://web/"),
            ("web:/.", "ssh://web/"),
            ("web:data/.", "ssh://web/~/data"),
            ("web:./.", "ssh://web/~"),
            ("web:a/.b/..c", "ssh://web/~/a/.b/..c"),
        ] {
            assert_eq!(place(text).address().escape_ascii().to_string(), address, "{text}");
        }
    }
}
