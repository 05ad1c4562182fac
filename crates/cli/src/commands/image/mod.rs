//! `verisum image`: disk images. One module for each of its verbs.

mod changed_ranges;
mod diff;
mod difference;
mod info;
mod map;
pub(crate) mod options;
mod remedy;
mod repair;
mod sum;
mod update;
mod verify;

use clap::Subcommand;

use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;

/// The verbs of `verisum image`.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Print the block hash of disk images
    #[command(
        long_about = "Print the block hash of disk images: raw files, qcow2 and the other formats of QEMU, \
            block devices, pipes, and NBD exports (nbd://HOST/EXPORT).\n\n\
            The value depends only on the bytes that a guest sees, the digest and the block size. It is the \
            same whether the image is sparse or full, a file, a device or a pipe. Holes are not read. It is \
            not the digest of the file, which sha256sum prints.\n\n\
            A line names the digest and the block size: BLKHASH-SHA256-64K (NAME) = HEX. With --exact, \
            --format or --snapshot it has /EXACT, the format or /SNAPSHOT too. `verisum check` verifies \
            such lines; --check also verifies plain lines of HEX NAME, as blksum writes them."
    )]
    Sum(sum::ImageSumArgs),
    /// Show what an image is: its format, its sizes, what backs it
    #[command(
        long_about = "Show what an image is: its format, the size that a guest sees, how much of it is \
            data, compressed and zeros, and the files that it consists of. For a block map, show what the \
            map says. Does not read the content."
    )]
    Info(info::InfoArgs),
    /// Write a block map: the digest of every block of an image
    #[command(
        long_about = "Write a block map, which has the digest of every block of an image, and print the \
            block hash as `sum` does.\n\n\
            With a map, `verify` and `diff` tell which parts of an image have changed, and `update` \
            computes the new block hash without reading the rest. Blocks of zeros take no room."
    )]
    Map(map::MapArgs),
    /// Check an image against a block map, and print which parts differ
    #[command(
        long_about = "Check an image against a block map. Prints each range of bytes that differs as a line \
            of `OFFSET LENGTH`, in whole blocks of the map, and ends with 1."
    )]
    Verify(verify::ImageVerifyArgs),
    /// Repair bad blocks of a raw image or a device, from other copies
    #[command(
        long_about = "Repair a raw image or a block device: write good blocks from other copies over the \
            blocks that differ from its block map.\n\n\
            Reads only these blocks from the copies, and writes only bytes with the digest of the map. No \
            copy needs to be good as a whole: each can supply different blocks. Changes the image in place. \
            The blocks first go to a journal beside the map; after a kill, the next run finishes the repair. \
            Prints each range as OFFSET LENGTH, and ends with 1 if some have no good copy. The image must \
            not be in use."
    )]
    Repair(repair::ImageRepairArgs),
    /// Print which parts of two images, or of block maps, differ
    #[command(
        long_about = "Print which parts of two images differ, as lines of `OFFSET LENGTH`; the exit code is then \
            1. Each may be an image of any format or a block map.\n\n\
            For two maps, reads no image. For a map and an image, reads the image except its zeros. For two \
            images, compares them without hashing, and does not read parts that are zeros in both, or that \
            both take from the same place of the same file."
    )]
    Diff(diff::DiffArgs),
    /// Update a block map, given where the image has changed
    #[command(
        long_about = "Write the block map of an image that has changed in known ranges, and print its block \
            hash. Reads only the blocks in these ranges and the bytes that were added to the image, and \
            takes the rest from the old map."
    )]
    Update(update::MapUpdateArgs),
}

/// Does what one of them says.
pub(crate) fn run(command: ImageCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        ImageCommand::Sum(arguments) => sum::run(arguments, output),
        ImageCommand::Info(arguments) => info::run(arguments, output),
        ImageCommand::Map(arguments) => map::run(arguments, output),
        ImageCommand::Verify(arguments) => verify::run(arguments, output),
        ImageCommand::Repair(arguments) => repair::run(arguments, output),
        ImageCommand::Diff(arguments) => diff::run(arguments, output),
        ImageCommand::Update(arguments) => update::run(arguments, output),
    }
}
