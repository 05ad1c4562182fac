#!/usr/bin/env bash
# Installs the programs, library, header, pkg-config file, manual pages, completions, licences and
# documents below $DESTDIR$PREFIX (LIBDIR for the library): the release, which it builds, or what
# the folder $BUILT has. Doing it again changes nothing. What was installed is listed in
# share/doc/verisum/installed-files, for uninstall.sh.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
LIBDIR=${LIBDIR:-$PREFIX/lib}
built=${BUILT:-$TARGET/release}
for dir in "$PREFIX" "$LIBDIR"; do
    case $dir in /*) ;; *) die "PREFIX and LIBDIR must be absolute paths, not '$dir'" ;; esac
done

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")
soname=libblkhash.so.0
library=$soname.${version#*.}
documents=$PREFIX/share/doc/verisum
installed=()

main() {
    [ -n "${BUILT:-}" ] || build
    cd "$ROOT"
    local work page
    work=$(mktemp -d)
    # shellcheck disable=SC2064 # the directory of now
    trap "rm -rf '$work'" EXIT

    put 755 "$built/verisum" "$PREFIX/bin/verisum"
    put 755 "$built/blksum" "$PREFIX/bin/blksum"
    # Not for people: `--push` copies it to hosts.
    put 755 "$built/verisum-serve" "$PREFIX/libexec/verisum/verisum-serve"

    put 755 "$built/libblkhash.so" "$LIBDIR/$library"
    link "$library" "$LIBDIR/$soname"
    link "$soname" "$LIBDIR/libblkhash.so"
    put 644 crates/capi/include/blkhash.h "$PREFIX/include/blkhash.h"
    pkg_config_file >"$work/blkhash.pc"
    put 644 "$work/blkhash.pc" "$LIBDIR/pkgconfig/blkhash.pc"

    mkdir "$work/man"
    "$built/verisum" man "$work/man"
    for page in "$work"/man/*.1 crates/cli/man/*.1; do
        put 644 "$page" "$PREFIX/share/man/man1/$(basename "$page")"
    done
    for page in crates/capi/man/*.3; do
        put 644 "$page" "$PREFIX/share/man/man3/$(basename "$page")"
    done
    # The page is found by the name of each function in it too.
    echo ".so man3/blkhash.3" >"$work/alias.3"
    while read -r page; do
        put 644 "$work/alias.3" "$PREFIX/share/man/man3/$page.3"
    done < <(sed -n 's/^\.Nm \(blkhash_[a-z_]*\).*/\1/p' crates/capi/man/blkhash.3 | sort -u)

    local program
    for program in verisum blksum; do
        completions "$program" bash "$PREFIX/share/bash-completion/completions/$program"
        completions "$program" zsh "$PREFIX/share/zsh/site-functions/_$program"
        completions "$program" fish "$PREFIX/share/fish/vendor_completions.d/$program.fish"
    done

    # What is only in the sources is linked there.
    sed -E 's#\]\((crates/[a-z]+|python|[A-Z-]+\.md|LICENSE-[A-Z]+)\)#](https://github.com/verisum/verisum/blob/main/\1)#' \
        README.md >"$work/README.md"
    put 644 "$work/README.md" "$documents/README.md"
    for page in CHANGELOG.md LICENSE-*; do
        put 644 "$page" "$documents/$page"
    done
    for page in docs/*.md docs/*.png docs/*.svg docs/*.json docs/results/*; do
        [ -f "$page" ] || continue
        put 644 "$page" "$documents/$page"
    done
    for page in crates/capi/examples/*.c; do
        put 644 "$page" "$documents/examples/$(basename "$page")"
    done

    installed+=("$documents/installed-files")
    printf '%s\n' "${installed[@]}" >"$work/installed-files"
    install -D -m 644 "$work/installed-files" "$DESTDIR$documents/installed-files"

    # The loader finds libraries in its directories by a cache.
    if [ -z "$DESTDIR" ] && [ "$(id -u)" -eq 0 ] && have ldconfig; then
        ldconfig
    fi
    say "installed ${#installed[@]} files below $DESTDIR$PREFIX"
}

# Builds as the user who called sudo, who has the toolchain and owns the build directory.
# shellcheck disable=SC2119
build() {
    if [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
        sudo -u "$SUDO_USER" -H env CARGO_TARGET_DIR="$TARGET" "$ROOT/scripts/cargo.sh" \
            build --release --locked --workspace --exclude verisum-python
    elif find_rust; then
        "$ROOT/scripts/cargo.sh" build --release --locked --workspace --exclude verisum-python
    elif [ -x "$built/verisum" ] && [ -e "$built/libblkhash.so" ]; then
        say "no Rust toolchain; installing what is built in $built"
    else
        die "nothing is built yet; run: make build"
    fi
}

put() {
    install -D -m "$1" "$2" "$DESTDIR$3"
    installed+=("$3")
}

link() {
    ln -sfn "$1" "$DESTDIR$2"
    installed+=("$2")
}

completions() {
    "$built/verisum" completions --program "$1" "$2" >"$work/completions"
    put 644 "$work/completions" "$3"
}

pkg_config_file() {
    sed -e "s|@PREFIX@|$PREFIX|" -e "s|@LIBDIR@|$LIBDIR|" crates/capi/blkhash.pc.in
}

main
