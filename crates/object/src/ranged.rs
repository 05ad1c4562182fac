//! Reads an object at any offset, from any thread, for disk images.

use std::io;
use std::sync::Arc;

use tokio::runtime::Runtime;
use verisum_files::place::RangedFile;

use crate::client::SharedClient;
use crate::content::ObjectContent;
use crate::error::RequestError;
use crate::queue::PIECE;

/// An object as it was when it was opened.
pub(crate) struct RangedObject {
    content: ObjectContent,
    runtime: Arc<Runtime>,
}

impl RangedObject {
    pub(crate) fn open(
        client: &SharedClient,
        runtime: &Arc<Runtime>,
        key: &[u8],
    ) -> Result<Self, RequestError> {
        let looked = runtime.block_on(client.no_part(key))?;
        Ok(RangedObject { content: ObjectContent::new(client, key, looked), runtime: runtime.clone() })
    }
}

impl RangedFile for RangedObject {
    fn length(&self) -> u64 {
        self.content.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let failed = |error: RequestError| io::Error::other(error.to_string());
        let mut at = offset;
        for piece in buffer.chunks_mut(PIECE as usize) {
            let range = at..at + piece.len() as u64;
            let bytes = self.runtime.block_on(self.content.fetch(range)).map_err(failed)?;
            if bytes.len() != piece.len() {
                return Err(failed(RequestError::Range));
            }
            piece.copy_from_slice(&bytes);
            at += piece.len() as u64;
        }
        Ok(())
    }
}
