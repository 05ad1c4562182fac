#!/usr/bin/env bash
# Runs the kernels under Miri, with a nightly toolchain that has miri and rust-src.
#
#   scripts/sanitize.sh [FILTER]
#
# Miri interprets them on a little input, at every level that it knows: it sees reads out of bounds and other undefined
# behaviour.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_rust
cd "$ROOT"
toolchain=${TEST_NIGHTLY:-nightly}
# Its own folder: nothing of this is of use to other builds.
export CARGO_TARGET_DIR=$TARGET/sanitize

say "Miri: the kernels"
cargo "+$toolchain" miri test --locked -p verisum-kernels --test agree "$@"
