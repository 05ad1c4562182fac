//! Decompresses one cluster: zlib by libdeflate, Zstandard by its own library.

use libdeflater::Decompressor;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation as _, OutBuffer};

use super::header::Compression;

/// The largest window of a Zstandard frame that is accepted, as a power of two: what every decoder should
/// support, by the format's description, and four of the largest clusters.
const ZSTD_WINDOW_LOG: u32 = 23;

/// Decompressors of both kinds, made when they are first needed and used again and again.
#[derive(Default)]
pub struct Inflater {
    zlib: Option<Decompressor>,
    zstd: Option<Decoder<'static>>,
}

impl Inflater {
    /// Fills all of `cluster` from compressed bytes, which something else may follow. The error is what to
    /// say of them.
    pub(crate) fn inflate(
        &mut self,
        compression: Compression,
        compressed: &[u8],
        cluster: &mut [u8],
    ) -> Result<(), String> {
        match compression {
            Compression::Zlib => self.zlib(compressed, cluster),
            Compression::Zstd => self.zstd(compressed, cluster),
        }
    }

    fn zlib(&mut self, compressed: &[u8], cluster: &mut [u8]) -> Result<(), String> {
        let decompressor = self.zlib.get_or_insert_with(Decompressor::new);
        match decompressor.deflate_decompress(compressed, cluster) {
            Ok(len) if len == cluster.len() => Ok(()),
            Ok(len) => Err(format!("compressed cluster holds {len} bytes only")),
            Err(error) => Err(format!("compressed cluster is damaged: {error}")),
        }
    }

    /// What follows the last frame cannot be told from another frame, so it goes on until the cluster is
    /// full and the frame is at its end.
    fn zstd(&mut self, compressed: &[u8], cluster: &mut [u8]) -> Result<(), String> {
        let damaged = |error: std::io::Error| format!("compressed cluster is damaged: {error}");
        let decoder = match &mut self.zstd {
            Some(decoder) => {
                decoder.reinit().map_err(damaged)?;
                decoder
            }
            none => {
                let mut decoder = Decoder::new().map_err(damaged)?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).map_err(damaged)?;
                none.insert(decoder)
            }
        };
        let mut input = InBuffer::around(compressed);
        let len = cluster.len();
        let mut output = OutBuffer::around(cluster);
        let mut wanted = 1;
        while output.pos() < len {
            let before = (input.pos(), output.pos());
            wanted = decoder.run(&mut input, &mut output).map_err(damaged)?;
            if (input.pos(), output.pos()) == before {
                return Err(format!("compressed cluster holds {} bytes only", output.pos()));
            }
        }
        match wanted {
            0 => Ok(()),
            _ => Err("compressed cluster holds more than a cluster".to_string()),
        }
    }
}

impl std::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inflater")
    }
}
