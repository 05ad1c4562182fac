#!/usr/bin/env bash
# Tests setup.sh on machines that do not exist: a PATH of stand-ins that record what would have been
# installed. Each case is a machine and the commands that setup must give on it.
# shellcheck disable=SC2016 # the stand-ins expand their own variables
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/tests/assert.sh
. "$here/assert.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml")

# An empty machine: the ordinary tools, root, all build packages installed, no Rust anywhere.
machine() {
    rm -rf "${work:?}/bin" "${work:?}/home" "${work:?}/log"
    mkdir -p "$work/bin" "$work/home" "$work/state"
    : >"$work/log"
    : >"$work/candidates"
    local tool
    for tool in bash sh env awk sed sort head cat dirname basename mktemp rm mkdir chmod readlink tr printf cp; do
        ln -s "$(command -v "$tool")" "$work/bin/$tool"
    done
    stand_in id 'echo 0'
    stand_in dpkg-query 'echo installed'
    stand_in apt-get "$(
        cat <<'END'
for word; do
    case $word in
    update) echo "update" >>"$WORK/log"; exit 0 ;;
    install) found=yes ;;
    esac
done
[ "${found:-}" = yes ] || exit 1
case " $* " in *" --no-remove "*) ;; *) echo "removes packages" >>"$WORK/log" ;; esac
names=
for word; do case $word in -*|*=*|install) ;; *) names="$names $word" ;; esac; done
echo "install$names" >>"$WORK/log"
[ ! -e "$WORK/conflict" ] || exit 100
case "$names" in
*rustc*) for p in rustc cargo; do
    printf '#!/bin/sh\necho %s 1.99.0\n' $p >"$WORK/bin/$p"; chmod +x "$WORK/bin/$p"; done ;;
*rustup*) cp "$WORK/rustup" "$WORK/bin/rustup" ;;
*curl*) cp "$WORK/curl" "$WORK/bin/curl" ;;
esac
END
    )"
    stand_in apt-cache "$(
        cat <<'END'
case $1 in
policy) awk -v p="$2" '$1 == p { v = $2 } END { print p ":"; print "  Candidate: " (v == "" ? "(none)" : v) }' "$WORK/candidates" ;;
search) awk '$1 ~ /^rustc-1/ { print $1 " - Rust" }' "$WORK/candidates" ;;
esac
END
    )"
    rm -f "$work/conflict"
    stand_in rustup 'echo "rustup $*" >>"$WORK/log"
mkdir -p "$HOME/.cargo/bin"
for p in rustc cargo; do printf "#!/bin/sh\necho %s 1.98.0\n" $p >"$HOME/.cargo/bin/$p"; chmod +x "$HOME/.cargo/bin/$p"; done'
    mv "$work/bin/rustup" "$work/rustup"
    # The installer, as curl would bring it: it records its options.
    stand_in curl 'for word; do [ "$last" != -o ] || out=$word; last=$word; done
echo "curl $last" >>"$WORK/log"
[ ! -e "$WORK/offline" ] || exit 6
{ echo "echo \"installer \$*\" >>\"$WORK/log\""; sed 1d "$WORK/rustup" | sed 1d; } >"$out"'
    cp "$work/bin/curl" "$work/curl"
    rm -f "$work/offline"
}

stand_in() {
    printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}

rust_on_path() {
    local program
    for program in rustc cargo; do stand_in "$program" "echo $program $1"; done
}

setup() {
    local status=0
    env -i PATH="$work/bin" HOME="$work/home" WORK="$work" \
        bash "$here/../setup.sh" "$@" >"$work/out" 2>&1 || status=$?
    echo "$status"
}

log() { tr '\n' ';' <"$work/log"; }

machine
rust_on_path "$needed.0"
same "all there: succeeds" 0 "$(setup build)"
same "all there: installs nothing" "" "$(log)"
same "all there: says nothing" "" "$(cat "$work/out")"

machine
mkdir -p "$work/home/.cargo/bin"
rust_on_path 1.99.1
mv "$work/bin/rustc" "$work/bin/cargo" "$work/home/.cargo/bin"
rust_on_path 1.63.0
same "a new Rust in the home directory behind an old one: succeeds" 0 "$(setup build)"
same "a new Rust in the home directory behind an old one: installs nothing" "" "$(log)"

machine
stand_in dpkg-query 'for last; do :; done; case $last in gcc|make|libc6-dev) exit 1 ;; *) echo installed ;; esac'
printf 'gcc 4:12.2\nmake 4.3\n' >"$work/candidates"
rust_on_path 1.99.0
same "packages missing: succeeds" 0 "$(setup build)"
same "packages missing: those that there are" "update;install gcc make;" "$(log)"
ok "packages missing: says which there are not" grep -q 'no package libc6-dev' "$work/out"
ok "packages missing: says so before" grep -q 'installing Debian packages (build): gcc make' "$work/out"

machine
stand_in dpkg-query 'for last; do :; done; case $last in busybox) exit 1 ;; *) echo installed ;; esac'
printf 'busybox 1:1.35.0\n' >"$work/candidates"
same "a package in another's place: succeeds" 0 "$(setup test)"
same "a package in another's place: installs nothing" "" "$(log)"

machine
stand_in dpkg-query 'for last; do :; done; case $last in busybox*) exit 1 ;; *) echo installed ;; esac'
printf 'busybox 1:1.35.0\nbusybox-static 1:1.35.0\n' >"$work/candidates"
same "neither of two packages that will do: succeeds" 0 "$(setup test)"
same "neither of two packages that will do: installs the first" "update;install busybox;" "$(log)"

machine
printf 'rustc 1.63.0+dfsg1-2\ncargo 0.66.0+ds1-1\nrustc-web 1.96.0+dfsg1\ncargo-web 1.96.0+dfsg1\n' >"$work/candidates"
same "Debian 12: succeeds" 0 "$(setup build)"
same "Debian 12: the newer of its two Rusts" "update;install rustc-web cargo-web;" "$(log)"

machine
printf 'rustc 1.75.0\ncargo 1.75.0\nrustc-1.80 1.80.1\ncargo-1.80 1.80.1\nrustc-1.91 1:1.91.0\ncargo-1.91 1.91.0\n' >"$work/candidates"
same "numbered packages: succeeds" 0 "$(setup build)"
same "numbered packages: one that is new enough" "update;install rustc-1.91 cargo-1.91;" "$(log)"

machine
printf 'rustc 1.85.0\ncargo 1.85.0\nrustup 1.27\n' >"$work/candidates"
same "only rustup is new enough: succeeds" 0 "$(setup build)"
same "only rustup is new enough: its package, then the toolchain" \
    "update;install rustup;rustup toolchain install stable --profile minimal --no-self-update;" "$(log)"

machine
cp "$work/rustup" "$work/bin/rustup"
rust_on_path 1.70.0
same "an old toolchain of a rustup: succeeds" 0 "$(setup build)"
same "an old toolchain of a rustup: asks that rustup" \
    "rustup toolchain install stable --profile minimal --no-self-update;" "$(log)"

machine
printf 'rustc-web 1.96.0\ncargo-web 1.96.0\n' >"$work/candidates"
touch "$work/conflict"
same "the new Rust would push out an old one: succeeds" 0 "$(setup build)"
same "the new Rust would push out an old one: the installer instead" \
    "update;install rustc-web cargo-web;curl https://sh.rustup.rs;installer -y --profile minimal --default-toolchain stable --no-modify-path;" \
    "$(log)"

machine
rm "$work/bin/curl"
same "no package at all: succeeds" 0 "$(setup build)"
same "no package at all: curl, then the installer" \
    "update;install curl;curl https://sh.rustup.rs;installer -y --profile minimal --default-toolchain stable --no-modify-path;" \
    "$(log)"

machine
touch "$work/offline"
same "nothing can be reached: fails" 1 "$(setup build)"
ok "nothing can be reached: says what is needed" grep -q "could not get Rust $needed or newer" "$work/out"

machine
rust_on_path 1.99.0
stand_in dpkg-query 'exit 1'
printf 'gcc 4:12.2\n' >"$work/candidates"
stand_in id 'echo 1000'
same "neither root nor sudo: fails" 1 "$(setup build)"
ok "neither root nor sudo: says what root should run" grep -q 'as root, run: .*apt-get' "$work/out"

machine
rust_on_path 1.99.0
printf 'rustfmt 1.63.0\nrust-clippy 1.63.0\n' >"$work/candidates"
same "checkers too old in the distribution: succeeds" 0 "$(setup lint)"
same "checkers too old in the distribution: a toolchain that has them" \
    "update;curl https://sh.rustup.rs;installer -y --profile minimal --default-toolchain stable --no-modify-path -c rustfmt -c clippy;" \
    "$(log)"

machine
rust_on_path 1.99.0
stand_in cargo-fmt :
stand_in cargo-clippy :
same "checkers there: succeeds" 0 "$(setup lint)"
same "checkers there: installs nothing" "" "$(log)"

machine
same "an unknown job: fails" 1 "$(setup everything)"

finish
