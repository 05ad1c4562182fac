//! Reads an object at any offset, from any thread, for disk images.

use std::io;
use std::sync::Arc;

use tokio::runtime::Runtime;
use verisum_files::place::{Modified, RangedFile};

use crate::client::SharedClient;
use crate::error::RequestError;
use crate::queue::PIECE;

/// An object as it was when it was opened. Parts of another one are never given.
pub(crate) struct RangedObject {
    client: SharedClient,
    runtime: Arc<Runtime>,
    key: Vec<u8>,
    length: u64,
    /// What names the content, where the store has that.
    etag: Option<String>,
    modified: Option<Modified>,
}

impl RangedObject {
    pub(crate) fn open(
        client: &SharedClient,
        runtime: &Arc<Runtime>,
        key: &[u8],
    ) -> Result<Self, RequestError> {
        let (known, etag) = runtime.block_on(client.look_with_etag(key))?;
        let length = known.now.size.ok_or(RequestError::Answer("an object has no length"))?;
        let (client, runtime, key) = (client.clone(), runtime.clone(), key.to_vec());
        Ok(RangedObject { client, runtime, key, length, etag, modified: known.now.modified })
    }
}

impl RangedFile for RangedObject {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let failed = |error: RequestError| io::Error::other(error.to_string());
        let mut at = offset;
        for piece in buffer.chunks_mut(PIECE as usize) {
            let range = at..at + piece.len() as u64;
            let part = self
                .runtime
                .block_on(self.client.part(&self.key, range, self.etag.as_deref()))
                .map_err(failed)?;
            if part.size != self.length
                || part.seen.modified != self.modified
                || part.bytes.len() != piece.len()
            {
                return Err(failed(RequestError::Replaced));
            }
            piece.copy_from_slice(&part.bytes);
            at += piece.len() as u64;
        }
        Ok(())
    }
}
