//! Copies of trees that are verified, and the repair of files from other copies.

#![forbid(unsafe_code)]

pub mod copy;
