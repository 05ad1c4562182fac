//! Checksums for people who keep data for years
