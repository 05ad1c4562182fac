//! Helpers for verisum's own tests
