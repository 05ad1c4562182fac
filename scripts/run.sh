#!/usr/bin/env bash
# Runs the release build of verisum.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

exec "$TARGET/release/verisum" "$@"
