//! Hashes many independent messages side by side with SIMD instructions
