//! Errors of the block hash.

/// Why a block hash could not be computed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BlockHashError {
    /// The block size is zero or odd.
    #[error("invalid block size: {0} (must be even and more than 0)")]
    BlockSize(u32),
    /// The number of threads is out of range.
    #[error("invalid number of threads: {0} (must be 1 to {max})", max = crate::MAX_THREADS)]
    Threads(usize),
    /// A digest failed.
    #[error(transparent)]
    Digest(#[from] verisum_digest::DigestError),
    /// An image failed. Shared, because every later call reports the first failure.
    #[cfg(feature = "image")]
    #[error(transparent)]
    Image(std::sync::Arc<verisum_image::ImageError>),
    /// A block map failed.
    #[cfg(feature = "image")]
    #[error(transparent)]
    Map(#[from] crate::MapError),
    /// The message is longer than a 64-bit length can say.
    #[error("the message is longer than 2^64 bytes")]
    TooLong,
    /// The message was finished before.
    #[error("the hash is already finished")]
    Finished,
    /// As many asynchronous updates are in flight as the queue holds: take completions first.
    #[error("the queue of asynchronous updates is full")]
    QueueFull,
    /// Asynchronous updates were not asked for.
    #[error("asynchronous updates need a queue depth")]
    NoQueue,
    /// The operating system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::ErrorKind),
    /// A worker panicked: a bug in this library.
    #[error("internal error: a worker panicked")]
    Panicked,
}

#[cfg(feature = "image")]
impl From<verisum_image::ImageError> for BlockHashError {
    fn from(error: verisum_image::ImageError) -> Self {
        BlockHashError::Image(std::sync::Arc::new(error))
    }
}
