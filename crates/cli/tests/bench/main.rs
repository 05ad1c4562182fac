//! `verisum bench`: measurements, and their pages, tables and charts.

#[path = "../common/mod.rs"]
mod common;

mod bench;
mod bench_files;
mod bench_filesystem;
mod bench_image;
mod bench_limits;
mod pages;
mod recommend;
mod remote_bench;
