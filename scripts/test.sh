#!/usr/bin/env bash
# Runs every test: the workspace's, the reference implementations', the scripts', the Python package's. Goes on after a
# failure, repeats the closing lines of each runner at the end, and ends with the sum of them.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_rust
cd "$ROOT"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
broken=$work/broken
touch "$broken"

stage() {
    local name=$1 status=0 started=$SECONDS
    shift
    say "$name: $*"
    "$@" || status=$?
    # Also among the closing lines.
    say "$name: $((SECONDS - started)) s"
    [ "$status" -eq 0 ] || echo "$name" >>"$broken"
}

# side_by_side FUNCTION...: functions of stages at once, as each waits a part of its time, for timers, hosts and
# disks. What all but the first print comes when all have ended.
side_by_side() {
    local function
    for function in "${@:2}"; do
        "$function" >"$work/$function" 2>&1 &
        echo $! >"$work/$function.pid"
    done
    "$1"
    for function in "${@:2}"; do
        wait "$(cat "$work/$function.pid")" || echo "$function" >>"$broken"
        cat "$work/$function"
    done
}

# What a script starts in the background has SIGINT ignored, and so have all programs below it that tests send one.
with_signals() { env --default-signal "$@"; }

# Most tests wait for disks, hosts and timers: a processor has two at a time.
test_workspace() {
    RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))} with_signals \
        cargo test --locked --workspace --no-fail-fast "$@"
}

first_half() {
    stage "workspace, a to m" test_workspace --test '[a-m]*'
}

second_half() {
    stage "workspace, n to z" test_workspace --test '[n-z]*'
    # The Python package is loaded by Python, and is no program.
    stage "units" test_workspace --exclude verisum-python --lib --bins --examples
    stage "documentation" test_workspace --doc
}

test_scripts() {
    local script
    for script in scripts/tests/*.sh; do
        [ -x "$script" ] || continue
        stage "$(basename "$script" .sh)" with_signals "$script"
    done
}

test_reference() {
    stage "reference" python3 -m unittest discover -s reference -p '*test*.py'
    stage "vectors" python3 reference/make_vectors.py --check
}

test_python() {
    stage "python" with_signals scripts/test_python.sh
}

all() {
    # The tests read the object code of a release; the library's is built in a tenth of the time of all.
    stage "release" cargo build --locked --release -p verisum-capi
    stage "build" cargo test --locked --workspace --no-run
    side_by_side first_half second_half test_python test_scripts test_reference
}

export PYTHONDONTWRITEBYTECODE=1
all 2>&1 | tee "$log"

say "closing lines"
grep -E '^ +(Running|Doc-tests) |^test result: |^Ran [0-9]+ tests? in |^(OK|FAILED)( \(.*\))?$|^[0-9]+ passed, |^[0-9]+ [a-z]+(, [0-9]+ [a-z]+)* in [0-9.]+s|^==> .*: [0-9]+ s$' \
    "$log" || true
while read -r name; do
    warn "$name failed"
done <"$broken"
awk -v broken="$(wc -l <"$broken")" -f scripts/sum-results.awk "$log"
