#!/usr/bin/env bash
# Makes the packages of the same commit a second time, from a clone in FOLDER, and compares every byte with those in
# build/package/out: `package_again.sh FOLDER`. WITHOUT must be what it was for the first.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -eq 1 ] || die "usage: scripts/package_again.sh FOLDER"
[ -e "$ROOT/build/package/out/SHA256SUMS" ] || die "there are no packages yet; run: make package"
git clone --quiet --no-local "$ROOT" "$1"
(unset CARGO_TARGET_DIR SIGNING_KEY && "$1/scripts/package.sh")
diff "$ROOT/build/package/out/SHA256SUMS" "$1/build/package/out/SHA256SUMS" ||
    die "the packages of the two folders differ"
say "the packages of the two folders are the same, byte for byte"
