//! The block hash of a disk image, computed on every core
