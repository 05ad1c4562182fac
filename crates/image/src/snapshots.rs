//! What an image of any format keeps besides the guest's current state: snapshots and bitmaps.

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Its snapshots, in the order of the file.
    pub snapshots: Vec<KeptSnapshot>,
    /// Its dirty bitmaps, in the order of the file.
    pub bitmaps: Vec<Bitmap>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSnapshot {
    /// Its identifier, mostly a number.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When it was taken, in seconds since 1970.
    pub seconds: u64,
    /// Length in bytes of what the guest saw.
    pub length: u64,
    /// Length in bytes of the machine's state that it holds besides, 0 without one.
    pub state_length: u64,
}

/// A dirty bitmap: which parts of the guest's disk were written to since some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    /// Its name.
    pub name: String,
    /// How many bytes of the guest's disk a bit is for.
    pub granularity: u64,
    /// Whether it was not written back when the image was closed, so that it says nothing.
    pub in_use: bool,
    /// Whether it is kept up to date.
    pub enabled: bool,
}
