#!/usr/bin/env bash
# Builds the book of docs/ into build/book, after the tests of its links. mdbook is installed into
# build/tools where this version is missing, which takes some minutes.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

VERSION=0.5.4
mdbook=$ROOT/build/tools/bin/mdbook

need_rust
cd "$ROOT"
say "the links of docs/, README.md and CONTRIBUTING.md"
cargo test --locked --quiet --package verisum-testkit --test book
if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$VERSION" ]; then
    say "installing mdbook $VERSION into build/tools"
    cargo install --locked --root build/tools --no-default-features --features search "mdbook@$VERSION"
fi
say "the book"
"$mdbook" build
say "open build/book/index.html"
