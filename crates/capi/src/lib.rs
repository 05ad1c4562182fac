//! libblkhash: the block hash behind a C interface
