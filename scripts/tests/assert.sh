# For the tests of the scripts: counts, and the closing line. Source it; call `finish` at the end.
# shellcheck shell=bash

assert_passed=0
assert_failed=0

# ok NAME COMMAND...: the command must succeed.
ok() {
    local name=$1
    shift
    if "$@"; then
        assert_passed=$((assert_passed + 1))
        printf 'ok   %s\n' "$name"
    else
        assert_failed=$((assert_failed + 1))
        printf 'FAIL %s: %s\n' "$name" "$*"
    fi
}

# same NAME WANTED GOT
same() {
    if [ "$2" = "$3" ]; then
        ok "$1" true
    else
        printf 'wanted: %s\ngot:    %s\n' "$2" "$3"
        ok "$1" false
    fi
}

finish() {
    printf '%d passed, %d failed, 0 skipped\n' "$assert_passed" "$assert_failed"
    [ "$assert_failed" -eq 0 ]
}
