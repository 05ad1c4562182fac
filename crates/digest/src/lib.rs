//! The table of digests, and every implementation behind it
