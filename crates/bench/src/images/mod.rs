//! Experiment 3: disk images that are more or less full, and the programs that hash them.

mod content;
mod library;

pub use content::{CONTENTS, ImageContent, Memory, Reading, programs, values};
pub use library::{BUFFER, HOLE, ImageInput, Settings, blkhash_bench};
