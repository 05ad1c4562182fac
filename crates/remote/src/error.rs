//! Errors of addresses, and of a session with a host.

use std::fmt;

use verisum_files::text;

/// What is wrong with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It names no host and no bucket.
    #[error(
        "must be HOST:PATH, ssh://HOST/PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, \
         https://HOST/PATH or local:PATH"
    )]
    NoHost,
    /// It is a URL that leads to no place.
    #[error(
        "no place has this scheme: take HOST:PATH, ssh://, s3://, gs://, az:// or https://, or ./ before the \
         name of a file"
    )]
    OtherScheme,
    /// Blanks stand before a URL.
    #[error("an address begins without a blank; take ./ before the name of a file")]
    Blank,
    /// A URL has a user or a key in it.
    #[error("must be without a user and without keys: lists and logs show addresses")]
    Keys,
    /// A password stands before the host.
    #[error("must be without a password before @: ssh asks for it")]
    Password,
    /// A URL of the web has more than a path.
    #[error("must be without ? and #: what follows them may be secret")]
    Query,
    /// A URL is signed.
    #[error("must be without a signature: lists and logs show addresses")]
    Signature,
    /// The host's name is not text.
    #[error("the host's name is not UTF-8")]
    NotUtf8,
    /// There is a bracket without the other.
    #[error("brackets stand in pairs, around an address")]
    Brackets,
    /// Before `:` or after `@` there is no host.
    #[error("the host's name is empty")]
    EmptyHost,
    /// A URL of the web has no host.
    #[error("the host's name is missing")]
    MissingHost,
    /// No host is called so.
    #[error("the host's name has characters that no host's name has")]
    HostCharacters,
    /// The port of `ssh://` is none.
    #[error("the port must be a number below 65536")]
    Port,
    /// The port of `https://` is none.
    #[error("the port must be a number")]
    WebPort,
    /// A URL of a store has no bucket.
    #[error("the bucket's name is missing")]
    MissingBucket,
    /// No bucket is called so.
    #[error("the bucket's name has characters that no bucket's name has")]
    BucketCharacters,
    /// The key of an object has a part that no file could have.
    #[error("no part of the key may be empty, `.` or `..`")]
    KeyParts,
    /// The path of `ssh://` cannot be decoded.
    #[error("a % must be followed by two hexadecimal digits, and not by 00")]
    Code,
    /// There is a path where only a host is named.
    #[error("a host is named here without a path")]
    OnlyHost,
    /// A catalogue knows trees of this machine by their paths.
    #[error("trees of this machine are named by their paths")]
    Here,
    /// A catalogue can know no tree by such a path.
    #[error("must be without `..`: the catalogue knows a tree by its path")]
    Parent,
}

/// Why a host gives no, or no more, answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// It cannot be reached.
    Unreachable(String),
    /// It does not let this user in, or is not the host that it is known to be.
    Refused(String),
    /// The connection ended in the middle.
    Lost(String),
    /// It is connected, and says nothing.
    Silent(String),
    /// It is no system with a POSIX shell.
    NoShell(String),
    /// It has nothing that computes the digest and is allowed.
    NoWay(String),
    /// What it gives cannot be understood.
    Odd(String),
    /// Something failed on this machine.
    Here(String),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl std::error::Error for SessionError {}

impl SessionError {
    /// What was being done, and why it failed, in one line.
    pub fn message(&self) -> String {
        let (operation, why) = match self {
            SessionError::Unreachable(why) => ("connect", why),
            SessionError::Refused(why) => ("log in", why),
            SessionError::Lost(why) => ("connection lost", why),
            SessionError::Silent(why) => ("wait for its answers", why),
            SessionError::NoShell(why) => ("start /bin/sh", why),
            SessionError::NoWay(why) => ("find a way to hash", why),
            SessionError::Odd(why) => ("read its answers", why),
            SessionError::Here(why) => ("run ssh", why),
        };
        format!("{operation}: {}", text::printable(why))
    }

    /// Whether connecting again may help.
    pub fn may_pass(&self) -> bool {
        matches!(self, SessionError::Lost(_))
    }

    /// What ssh meant when it ended with this code, before anything came of the host.
    pub fn of_start(code: Option<i32>, said: &[String]) -> SessionError {
        let why = cause(code, said);
        let any = |words: &[&str]| said.iter().any(|line| words.iter().any(|word| line.contains(word)));
        match code {
            Some(255) if any(&REFUSED) => {
                let line = said.iter().rev().find(|line| REFUSED.iter().any(|word| line.contains(word)));
                SessionError::Refused(line.map_or(why, |line| line.trim().to_string()))
            }
            Some(255) | None => SessionError::Unreachable(why),
            _ if last(said).is_some() => SessionError::NoShell(format!("{why} ({})", ended(code))),
            _ => SessionError::NoShell(why),
        }
    }

    /// The same after it had begun to answer.
    pub fn of_end(code: Option<i32>, said: &[String]) -> SessionError {
        SessionError::Lost(cause(code, said))
    }
}

/// The last line that ssh or the host said, or the code that ssh ended with.
fn cause(code: Option<i32>, said: &[String]) -> String {
    last(said).map_or_else(|| ended(code), str::to_string)
}

/// The last line that may be a cause.
fn last(said: &[String]) -> Option<&str> {
    let is_notice = |line: &str| NOTICES.iter().any(|notice| line.starts_with(notice));
    said.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty() && !is_notice(line))
}

/// How lines begin that ssh, sshd and shells also say where all goes well.
const NOTICES: [&str; 4] = ["Could not chdir to home directory", "Warning: ", "** ", "bash: warning: "];

/// What ssh says when it is not let in.
const REFUSED: [&str; 6] = [
    "Permission denied",
    "Host key verification failed",
    "Too many authentication failures",
    "REMOTE HOST IDENTIFICATION HAS CHANGED",
    "No supported authentication methods",
    "Authentication failed",
];

fn ended(code: Option<i32>) -> String {
    match code {
        Some(code) => format!("it ended with the code {code}"),
        None => "it was killed".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_is_told_apart() {
        let error = |code, line: &str| SessionError::of_start(code, &[line.to_string()]);
        let denied = "a@h: Permission denied (publickey).";
        assert_eq!(error(Some(255), denied).message(), format!("log in: {denied}"));
        let refused = "ssh: connect to host h port 1: Connection refused";
        assert_eq!(error(Some(255), refused).message(), format!("connect: {refused}"));
        let no_shell = "start /bin/sh: sh: not found (it ended with the code 127)";
        assert_eq!(error(Some(127), "sh: not found").message(), no_shell);
        let home = "Could not chdir to home directory /home/a: No such file or directory";
        assert_eq!(error(Some(255), home).message(), "connect: it ended with the code 255");
        assert_eq!(error(Some(1), home).message(), "start /bin/sh: it ended with the code 1");
        let said = [refused, home].map(String::from);
        assert_eq!(SessionError::of_start(Some(255), &said).message(), format!("connect: {refused}"));
        assert_eq!(SessionError::of_end(None, &said), SessionError::Lost(refused.to_string()));
        assert_eq!(SessionError::of_end(None, &[]), SessionError::Lost("it was killed".to_string()));
    }
}
