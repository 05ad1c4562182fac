#!/usr/bin/env bash
# Every check that is not a test. Goes on after a failure and names all of them at the end.
#
# A checker that is missing is a failure. WITHOUT="clippy fmt" leaves some out on purpose: for
# machines where the compiler's own checkers cannot be had.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

find_rust cargo-fmt cargo-clippy || need_rust
cd "$ROOT"
passed=0
failed=()
skipped=()

check() {
    local name=$1 started=$SECONDS
    shift
    case " ${WITHOUT:-} " in *" $name "*)
        warn "$name: left out, as WITHOUT says"
        skipped+=("$name")
        return
        ;;
    esac
    say "$name: $*"
    if "$@"; then passed=$((passed + 1)); else failed+=("$name"); fi
    say "$name: $((SECONDS - started)) s"
}

fmt() { cargo fmt --all --check; }

clippy() {
    if ! have cargo-clippy; then
        warn "there is no clippy for $(command -v cargo); WITHOUT=clippy leaves it out"
        return 1
    fi
    cargo clippy --locked --workspace --all-targets -- -D warnings
}

# The programs are no library for others: their documentation is for who works on them. The Python package beside them
# asks of others' crates the features that the workspace has: without it some twenty of them are checked once more.
rustdoc() {
    RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" \
        cargo doc --locked --no-deps --package verisum-cli --package verisum-python --document-private-items &&
        RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --workspace --exclude verisum-cli
}

public_api() { python3 scripts/public_api.py "$TARGET/doc" --check; }

shell() { shellcheck --external-sources .ci/run scripts/*.sh scripts/tests/*.sh; }

python() {
    local files=()
    mapfile -t files < <(git ls-files '*.py' 2>/dev/null || find . -name '*.py' -not -path './target/*')
    [ ${#files[@]} -eq 0 ] || pyflakes3 "${files[@]}"
}

# cargo-deny also knows which versions have published defects, but building it takes longer than all
# else here: it is used where it is installed. The licences are checked in any case.
dependencies() {
    if have cargo-deny; then
        cargo deny check
    else
        warn "cargo-deny is not installed, so known defects of dependencies are not looked up" \
            "(cargo install cargo-deny --locked)"
        python3 scripts/licences.py
    fi
}

check fmt fmt
check clippy clippy
check rustdoc rustdoc
check public-api public_api
check shell shell
check python python
check dependencies dependencies

for name in ${failed[@]+"${failed[@]}"}; do
    warn "$name failed"
done
say "lint: $passed checks passed, ${#failed[@]} failed, ${#skipped[@]} left out"
[ ${#failed[@]} -eq 0 ]
