#!/usr/bin/env bash
# Runs every test: the workspace's, the reference implementations', the scripts', the Python package's. Goes on after a
# failure, repeats the closing lines of each runner at the end, and ends with the sum of them.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_rust
cd "$ROOT"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
broken=()

stage() {
    local name=$1 status=0 started=$SECONDS
    shift
    say "$name: $*"
    "$@" 2>&1 | tee -a "$log" || status=$?
    # Also among the closing lines.
    say "$name: $((SECONDS - started)) s" | tee -a "$log"
    [ "$status" -eq 0 ] || broken+=("$name")
}

# Tests that run the programs find fresh ones.
# The stage of the Python package builds that.
stage "build" cargo build --locked --release --workspace --exclude verisum-python
stage "workspace" cargo test --locked --workspace --no-fail-fast
export PYTHONDONTWRITEBYTECODE=1
stage "reference" python3 -m unittest discover -s reference -p '*test*.py'
stage "vectors" python3 reference/make_vectors.py --check
for script in scripts/tests/*.sh; do
    [ -x "$script" ] || continue
    stage "$(basename "$script" .sh)" "$script"
done
stage "python" scripts/test_python.sh

say "closing lines"
grep -E '^ +(Running|Doc-tests) |^test result: |^Ran [0-9]+ tests? in |^(OK|FAILED)( \(.*\))?$|^[0-9]+ passed, |^[0-9]+ [a-z]+(, [0-9]+ [a-z]+)* in [0-9.]+s|^==> .*: [0-9]+ s$' \
    "$log" || true
for name in ${broken[@]+"${broken[@]}"}; do
    warn "$name failed"
done
awk -v broken=${#broken[@]} -f scripts/sum-results.awk "$log"
