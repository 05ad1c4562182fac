//! A wrapper that lets the listings and digests of any place be stopped.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use verisum_digest::Digest;

use super::{
    BlockDigests, Capabilities, Durability, FileAnswer, FileIdentity, FileRecord, FileRequest, FileState,
    Files, Help, KnownState, NewFile, Place, PlaceError, PlaceEvent, PlacedFile, RangedFile, Sink,
    StagedFile, WholeFile,
};
use crate::Stop;

/// Takes each answer of a place beside the sink.
type Watch = Box<dyn Fn(&FileAnswer) + Send + Sync>;

/// A place whose listings and digests end when a stop is due. That is an error: what was not told is not taken for
/// what is not there.
pub struct StoppingPlace<'a> {
    place: Box<dyn Place + 'a>,
    stop: Arc<Stop>,
    watch: Option<Watch>,
}

impl<'a> StoppingPlace<'a> {
    /// This place, until this stop is due.
    pub fn new(mut place: Box<dyn Place + 'a>, stop: Arc<Stop>) -> StoppingPlace<'a> {
        place.end_by(&stop);
        StoppingPlace { place, stop, watch: None }
    }

    /// Shows each answer to this function too.
    pub fn watched(self, watch: impl Fn(&FileAnswer) + Send + Sync + 'static) -> StoppingPlace<'a> {
        StoppingPlace { watch: Some(Box::new(watch)), ..self }
    }

    fn act(
        &mut self,
        sink: Sink,
        act: impl FnOnce(&mut dyn Place, Sink) -> Result<(), PlaceError>,
    ) -> Result<(), PlaceError> {
        let StoppingPlace { place, stop, watch } = self;
        let watched = |event: PlaceEvent| {
            if let (Some(watch), PlaceEvent::Answer(answer)) = (&*watch, &event) {
                watch(answer);
            }
            !stop.is_due() && sink(event)
        };
        match act(place.as_mut(), &watched) {
            Ok(()) if stop.is_due() => Err(PlaceError::Machine("stopped".into())),
            ended => ended,
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "a default would do less than the place itself")]
impl Place for StoppingPlace<'_> {
    fn is_here(&self) -> bool {
        self.place.is_here()
    }

    fn end_by(&mut self, stop: &Arc<Stop>) {
        self.place.end_by(stop);
    }

    fn capabilities(&mut self, digests: &[Digest], sink: Sink) -> Result<Capabilities, PlaceError> {
        self.place.capabilities(digests, sink)
    }

    fn list(&mut self, root: &[u8], sink: Sink) -> Result<(), PlaceError> {
        self.act(sink, |place, sink| place.list(root, sink))
    }

    fn hash(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        self.act(sink, |place, sink| place.hash(digests, files, sink))
    }

    fn hash_recorded(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        self.act(sink, |place, sink| place.hash_recorded(digests, files, sink))
    }

    fn hash_settled(
        &mut self,
        digest: &Digest,
        files: Vec<FileRequest>,
        sink: Sink,
    ) -> Result<(), PlaceError> {
        self.act(sink, |place, sink| place.hash_settled(digest, files, sink))
    }

    fn state(&mut self, path: &[u8]) -> Result<KnownState, PlaceError> {
        self.place.state(path)
    }

    fn tells_records(&self) -> bool {
        self.place.tells_records()
    }

    fn records(&mut self, files: &[FileRequest]) -> Result<Vec<Option<FileRecord>>, PlaceError> {
        self.place.records(files)
    }

    fn has_parts_of(&mut self, file: &FileRequest, length: u64) -> bool {
        self.place.has_parts_of(file, length)
    }

    fn block_digests(&mut self, path: &[u8]) -> Option<BlockDigests> {
        self.place.block_digests(path)
    }

    fn hash_blocks(&mut self, digest: &Digest, path: &[u8], length: u64) -> Option<BlockDigests> {
        self.place.hash_blocks(digest, path, length)
    }

    fn open(&mut self, path: &[u8]) -> Result<Box<dyn RangedFile>, PlaceError> {
        self.place.open(path)
    }

    fn read(&mut self, path: &[u8], range: Range<u64>) -> Result<Box<dyn Read + Send>, PlaceError> {
        self.place.read(path, range)
    }

    fn read_helped(
        &mut self,
        path: &[u8],
        room: (u64, &mut [u8]),
        help: &mut Help,
    ) -> Result<(), PlaceError> {
        self.place.read_helped(path, room, help)
    }

    fn read_listed(
        &mut self,
        file: &FileRequest,
        range: Range<u64>,
    ) -> Result<Box<dyn Read + Send>, PlaceError> {
        self.place.read_listed(file, range)
    }

    fn read_whole(&mut self, files: &[FileRequest]) -> Result<Vec<Option<WholeFile>>, PlaceError> {
        self.place.read_whole(files)
    }

    fn require_name(&self, path: &[u8]) -> Result<(), PlaceError> {
        self.place.require_name(path)
    }

    fn write(
        &mut self,
        path: &[u8],
        content: &mut dyn Read,
        about: &FileState,
        previous: Option<&FileState>,
    ) -> Result<Option<FileIdentity>, PlaceError> {
        self.place.write(path, content, about, previous)
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), PlaceError> {
        self.place.remove(path)
    }

    fn stages(&self) -> bool {
        self.place.stages()
    }

    fn remove_staged(&mut self, paths: &[Vec<u8>]) -> Result<(), PlaceError> {
        self.place.remove_staged(paths)
    }

    fn stage(
        &mut self,
        root: &[u8],
        files: &mut [NewFile],
        durability: Durability,
    ) -> Result<Vec<StagedFile>, PlaceError> {
        self.place.stage(root, files, durability)
    }

    fn place_staged(&mut self, files: &[PlacedFile]) -> Result<Vec<Result<(), PlaceError>>, PlaceError> {
        self.place.place_staged(files)
    }
}

#[cfg(test)]
mod tests {
    use super::super::LocalPlace;
    use super::*;

    #[test]
    fn a_stop_that_is_due_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "a").unwrap();
        let root = std::os::unix::ffi::OsStrExt::as_bytes(folder.path().as_os_str());
        let stop = Arc::new(Stop::default());
        let mut place = StoppingPlace::new(Box::new(LocalPlace::default()), stop.clone());
        assert!(place.list(root, &|_| true).is_ok());
        let told = place.list(root, &|_| {
            stop.request();
            true
        });
        assert_eq!(told.unwrap_err().to_string(), "stopped");
        assert_eq!(place.list(root, &|_| panic!("nothing more is told")).unwrap_err().to_string(), "stopped");
    }
}
