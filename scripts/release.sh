#!/usr/bin/env bash
# Follows RELEASE.md: runs the command at the end of each line of one of its parts, from top to bottom, and stops at
# the first that is untrue. It changes nothing, publishes nothing.
#
#     scripts/release.sh before|release|after VERSION [LINE]
#
# LINE is the number of the line to go on with. What only a person can judge is asked on the terminal; without one
# it is untrue.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -ge 2 ] || die "usage: scripts/release.sh before|release|after VERSION [LINE]"
part=$1
VERSION=${2#v}
first=${3:-1}
case "$first" in '' | *[!0-9]*) die "LINE is the number of a line, not $first" ;; esac
need_rust
cd "$ROOT"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Nothing if there was no release yet.
last=$(git tag --list 'v*' --sort=-v:refname | grep -vx "v$VERSION" | head -n 1 || true)

# --- what the commands of RELEASE.md call ------------------------------------------------------

asked() {
    local answer
    [ -t 3 ] || return 1
    read -r -p "$* [y/N] " answer <&3
    [ "$answer" = y ]
}

clean() { [ -z "$(git status --porcelain)" ]; }

in_a_clone() { git clone --quiet --no-local . "$work/clone" && (cd "$work/clone" && "$@"); }

vectors_only_grow() {
    [ -n "$last" ] || return 0
    git diff --numstat "$last" -- vectors >"$work/vectors"
    [ -z "$(awk '$2 != 0' "$work/vectors")" ]
}

# Every function that the last release's header names is in the library.
functions_stay() {
    [ -n "$last" ] || return 0
    cargo build --quiet --release --locked -p verisum-capi
    nm -D --defined-only "$TARGET/release/libblkhash.so" | awk '{ print $3 }' | sort >"$work/now"
    git show "$last:crates/capi/include/blkhash.h" | grep -oE 'blkhash_[a-z_]+\(' | tr -d '(' | sort -u >"$work/then"
    [ -z "$(comm -13 "$work/now" "$work/then")" ]
}

oldest_rust() { cargo "+$(rust_needed)" check --quiet --locked --workspace; }

# An empty Unreleased, then this version with a date.
changelog() {
    [ "$(grep -A 2 -x '## \[Unreleased\]' CHANGELOG.md | tail -n 1 | grep -cE "^## \[${VERSION//./\\.}\] - 20[0-9-]{8}$")" = 1 ]
}

# Of the workspace, its own dependencies and Cargo.lock.
versions() {
    cargo metadata --format-version 1 --locked --no-deps | VERSION=$VERSION python3 -c '
import json, os, sys
version, wrong = os.environ["VERSION"], []
for package in json.load(sys.stdin)["packages"]:
    if package["version"] != version:
        wrong.append(package["name"])
    wrong += [package["name"] + " imports " + d["name"] + " " + d["req"] for d in package["dependencies"]
              if d.get("path") and d["req"] not in ("*", "^" + version)]
sys.exit("\n".join(wrong) or 0)'
}

tagged() { git verify-tag "v$VERSION" && [ "$(git rev-parse "v$VERSION^{commit}")" = "$(git rev-parse HEAD)" ]; }

# --- the lines ---------------------------------------------------------------------------------

exec 3</dev/null
# shellcheck disable=SC2015 # where there is no terminal, /dev/null stays
{ true </dev/tty; } 2>/dev/null && exec 3</dev/tty || true

mapfile -t lines < <(awk -v part="$part" '/^## / { on = tolower($NF) == part } on && /^- \[ \] /' RELEASE.md)
[ "${#lines[@]}" -gt 0 ] || die "RELEASE.md has no part '$part' (before, release or after)"
if [ "$first" -lt 1 ] || [ "$first" -gt "${#lines[@]}" ]; then die "'$part' has the lines 1 to ${#lines[@]}"; fi
for ((number = first; number <= ${#lines[@]}; number++)); do
    text=${lines[number - 1]#- \[ \] }
    check=${text##* → \`}
    check=${check%\`}
    say "$part, $number: ${text%% → \`*}"
    # In no condition, where `set -e` would mean nothing. The checks are those of this repository.
    set +e
    (set -e; eval "$check") </dev/null
    status=$?
    set -e
    [ "$status" -eq 0 ] || die "untrue: $check. To go on from here: scripts/release.sh $part $VERSION $number"
done
say "$part: the lines $first to ${#lines[@]} are true"
