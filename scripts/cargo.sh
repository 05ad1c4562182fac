#!/usr/bin/env bash
# Runs cargo with a toolchain that is new enough, wherever that is.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_rust
cd "$ROOT"
exec cargo "$@"
