//! The vectors in `vectors/blockhash.json`.
#![allow(dead_code)] // Each test file uses a part of it.

pub mod definition;
pub mod fake;

use std::fs;
use std::path::Path;

use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Run {
    pub zero: bool,
    pub length: usize,
}

#[derive(Debug, Clone)]
pub struct Vector {
    pub digest: String,
    pub block_size: u32,
    pub runs: Vec<Run>,
    pub hex: String,
    pub hex_padded: Option<String>,
}

impl Vector {
    pub fn content(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for run in &self.runs {
            match run.zero {
                // Not `resize`, nor a byte at a time below: without optimisation that takes longer than the hashing.
                true => content.extend(vec![0; run.length]),
                false => content.extend(data(content.len(), run.length)),
            }
        }
        content
    }
}

/// The bytes of a data run that starts at `offset` of the message.
pub fn data(offset: usize, length: usize) -> Vec<u8> {
    let period: Vec<u8> = (offset..offset + 251).map(|i| (i % 251 + 1) as u8).collect();
    let mut bytes = period.repeat(length.div_ceil(251));
    bytes.truncate(length);
    bytes
}

fn read(list: &str) -> Vec<Vector> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/blockhash.json");
    let file: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let vector = |v: &Value| Vector {
        digest: v["digest"].as_str().unwrap().into(),
        block_size: v["block_size"].as_u64().unwrap() as u32,
        runs: v["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| Run { zero: run["kind"] == "zero", length: run["length"].as_u64().unwrap() as usize })
            .collect(),
        hex: v["hex"].as_str().unwrap().into(),
        hex_padded: v["hex_padded"].as_str().map(Into::into),
    };
    file[list].as_array().unwrap().iter().map(vector).collect()
}

pub fn vectors() -> Vec<Vector> {
    let vectors = read("vectors");
    assert!(vectors.len() > 1000);
    vectors
}

pub fn sparse_vectors() -> Vec<Vector> {
    read("sparse")
}
