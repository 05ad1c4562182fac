#!/usr/bin/env bash
# The wheel is made of what was built for the tests: no dependency has fewer features there. Else nearly all of them
# would be built a second time.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../lib.sh"

need_rust
cd "$ROOT"

# All packages but the wheel's, each with its features.
dependencies() {
    cargo tree --locked --prefix none --format '{p} {f}' "$@" |
        sed 's/ (\*)$//; s/ (proc-macro)//' | grep -E '^[^ ]+ v[0-9]' | grep -v '^verisum-python ' | sort -u
}

tests=$(dependencies --workspace --edges all)
failed=0
compare() {
    local name=$1 others
    shift
    others=$(comm -13 <(printf '%s\n' "$tests") <(dependencies "$@"))
    if [ -n "$others" ]; then
        warn "$name would be built with other features (python/Cargo.toml lists what makes them the same):"
        printf '%s\n' "$others" >&2
        failed=$((failed + 1))
    fi
}
compare "the command" --workspace --edges normal,build
compare "the Python package" --package verisum-python --features as-in-tests --edges normal,build
echo "$((2 - failed)) passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
