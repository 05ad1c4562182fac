#!/usr/bin/env bash
# Tests verisum for 64-bit ARM under emulation: scripts/arm64.sh test. Where its packages are missing and
# cannot be installed it is skipped, loudly; in CI it fails.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../lib.sh"

skip() {
    warn "SKIPPED: the tests for 64-bit ARM: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

if ! in_ci; then
    [ "$(uname -m)" = x86_64 ] || skip "they are for x86-64 machines, which emulate it"
    for program in aarch64-linux-gnu-gcc qemu-aarch64-static; do
        have "$program" || skip "there is no $program; scripts/arm64.sh test installs it"
    done
    "$ROOT/scripts/arm64.sh" prepare || skip "see above"
fi
exec "$ROOT/scripts/arm64.sh" test
