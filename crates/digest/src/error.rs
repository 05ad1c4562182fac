//! Errors of digests.

/// Why a digest could not be had or computed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// No row of the table and no OpenSSL digest has this name.
    #[error("unknown digest: {name}")]
    Unknown {
        /// The name as it was given.
        name: String,
    },
    /// A digest of the parts of an upload names a length that no parts have.
    #[error("{name}: parts of an upload have 1 KiB to 5 GiB")]
    PartLength {
        /// The name as it was given.
        name: String,
    },
    /// The digest is known, but nothing on this machine computes it.
    #[error("digest {name} is not available: {reason}")]
    Unavailable {
        /// Its name.
        name: String,
        /// Why: a missing library, a provider that is switched off.
        reason: String,
    },
    /// An implementation failed in the middle of a message.
    #[error("digest {name}: {operation} failed")]
    Failed {
        /// The digest's name.
        name: String,
        /// The call that failed.
        operation: &'static str,
    },
    /// A digest whose message begins with its length was not told that beforehand, or another one.
    #[error("digest {name}: {reason}")]
    Length {
        /// The digest's name.
        name: String,
        /// What is wrong.
        reason: &'static str,
    },
}
