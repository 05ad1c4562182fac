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

units=(--exclude verisum-python --lib --bins --examples)

# The Python package is loaded by Python, and is no program. All is built here: nothing may be replaced that tests run.
build_tests() {
    cargo test --locked --workspace --no-run
    cargo test --locked --workspace --no-run "${units[@]}"
}

# Most tests wait for disks, hosts and timers: a processor has two at a time.
test_workspace() {
    RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))} with_signals \
        cargo test --locked --workspace --no-fail-fast "$@"
}

# Lines of options for cargo, of some tests each; those that take longest come first.
parts() {
    local longest=(mend remote lists program scrub catalogue buckets contract bench image) file name
    printf '%s\n' "${longest[@]}" | sed 's/^/--test /'
    printf '%s\n' "${units[*]}" --doc
    for file in crates/*/tests/*.rs crates/*/tests/*/main.rs; do
        name=${file%/main.rs}
        name=${name##*/}
        echo "${name%.rs}"
    done | sort -u | grep -vxF "$(printf '%s\n' "${longest[@]}")" | xargs -n 8 | sed 's/[^ ]*/--test &/g'
}

# Runs a part, and prints what it printed when it has ended, as others run beside it.
test_part() {
    local status=0 output
    output=$(mktemp -p "$work")
    test_workspace "$@" >"$output" 2>&1 || status=$?
    flock "$work" cat "$output"
    return "$status"
}

# Three at a time: many tests wait for disks, and a program of few tests leaves a processor idle.
test_parts() {
    export -f test_part test_workspace with_signals
    export work
    parts | xargs -P 3 -L 1 bash -c 'test_part "$@"' part
}

test_programs() {
    stage "workspace" test_parts
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

# They go one after the other and would end last, by themselves: they come first, where the user may say so. The others
# are not made to wait instead: on a busy machine they would wait for everybody.
test_python() {
    stage "python" with_signals nice -n -5 scripts/test_python.sh
}

# The tests read the object code of a release; the library's is built in a tenth of the time of all. Half of that has
# work for one processor.
build_release() { stage "release" cargo build --locked --release -p verisum-capi; }

build_workspace() { stage "build" build_tests; }

all() {
    side_by_side build_workspace build_release
    side_by_side test_programs test_python test_scripts test_reference
}

# Where python3 is a script that looks for a Python, as pyenv's is, it starts ten programs, and tests start it 400 times.
skip_python_script() {
    local program
    program=$(command -v python3)
    [ "$(head -c 2 "$program")" = '#!' ] || return 0
    mkdir "$work/bin"
    printf "#!/bin/sh\nexec '%s' \"\$@\"\n" "$(python3 -c 'import sys; print(sys.executable)')" >"$work/bin/python3"
    chmod +x "$work/bin/python3"
    export PATH=$work/bin:$PATH
}

export PYTHONDONTWRITEBYTECODE=1
skip_python_script
all 2>&1 | tee "$log"

say "closing lines"
grep -E '^ +(Running|Doc-tests) |^test result: |^Ran [0-9]+ tests? in |^(OK|FAILED)( \(.*\))?$|^[0-9]+ passed, |^[0-9]+ [a-z]+(, [0-9]+ [a-z]+)* in [0-9.]+s|^==> .*: [0-9]+ s$' \
    "$log" || true
while read -r name; do
    warn "$name failed"
done <"$broken"
awk -v broken="$(wc -l <"$broken")" -f scripts/sum-results.awk "$log"
