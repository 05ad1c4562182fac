#!/usr/bin/env bash
# Tests `make install`: installs twice, builds the C examples against the installed tree through
# pkg-config, runs them and the programs, and uninstalls.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=scripts/tests/assert.sh
. "$here/assert.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the other tests built: programs, and of the release the library.
target=${CARGO_TARGET_DIR:-$root/target}
export BUILT=$work/built
mkdir "$BUILT"
ln -s "$target"/debug/{verisum,blksum,verisum-serve} "$target/release/libblkhash.so" "$BUILT"

# make_quietly TARGET VARIABLE=VALUE...: shows the output only if it fails.
make_quietly() {
    make --no-print-directory -C "$root" "$@" >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
}

quietly() { "$@" >/dev/null; }

# As a reader calls them up, so that pages which only name another one are followed.
pages_format() {
    local page complaints
    complaints=$(for page in "$work"/usr/share/man/man[13]/*; do
        page=$(basename "$page")
        LC_ALL=C.UTF-8 MANWIDTH=80 man -M "$work/usr/share/man" --warnings "${page##*.}" "${page%.*}" 2>&1 >/dev/null ||
            echo "$page: not found"
    done)
    [ -z "$complaints" ] || { echo "$complaints"; return 1; }
}

listing() { (cd "$1" && find . -type f -exec sha256sum {} + -o -type l -printf '%l  %p\n' | sort -k 2); }

ok "installs below a prefix" make_quietly install PREFIX="$work/usr"
listing "$work/usr" >"$work/first"
ok "installs again" make_quietly install PREFIX="$work/usr"
listing "$work/usr" >"$work/second"
ok "the second time changes nothing" cmp "$work/first" "$work/second"

for path in bin/verisum bin/blksum libexec/verisum/verisum-serve lib/libblkhash.so lib/libblkhash.so.0 include/blkhash.h \
    lib/pkgconfig/blkhash.pc share/man/man1/verisum.1 share/man/man1/blksum.1 share/man/man3/blkhash.3 \
    share/bash-completion/completions/verisum share/zsh/site-functions/_verisum \
    share/fish/vendor_completions.d/verisum.fish share/bash-completion/completions/blksum \
    share/zsh/site-functions/_blksum share/fish/vendor_completions.d/blksum.fish share/doc/verisum/README.md \
    share/doc/verisum/LICENSE-MIT share/doc/verisum/LICENSE-APACHE; do
    ok "there is $path" test -s "$work/usr/$path"
done
# Links of the installed pages that lead to no installed file.
dead_links() (
    cd "$work/usr/share/doc/verisum"
    grep -oE '\]\([^):# ]+[):#]' README.md docs/*.md | while IFS=: read -r page link; do
        path=$(dirname "$page")/$(sed 's/^](//; s/[):#]$//' <<<"$link")
        [[ $link == *https* || $link == *: || -e $path ]] || echo "$page: $path"
    done
)
same "links of the pages that lead nowhere" "" "$(dead_links)"
for path in lib/libblkhash.so lib/libblkhash.so.0; do
    ok "$path is a link" test -L "$work/usr/$path"
done
same "the library's soname" libblkhash.so.0 \
    "$(objdump -p "$work/usr/lib/libblkhash.so" | awk '$1 == "SONAME" { print $2 }')"

truncate -s 1M "$work/disk.img"
echo data | dd of="$work/disk.img" conv=notrunc status=none
ok "the installed verisum runs" quietly "$work/usr/bin/verisum" digests
wanted=$("$work/usr/bin/blksum" "$work/disk.img" | cut -d ' ' -f 1)
same "blksum and verisum agree" "$wanted" \
    "$("$work/usr/bin/verisum" image sum --untagged "$work/disk.img" | cut -d ' ' -f 1)"

# The examples, built as a user of the library would build them.
export PKG_CONFIG_PATH=$work/usr/lib/pkgconfig LD_LIBRARY_PATH=$work/usr/lib
for source in "$root"/crates/capi/examples/*.c; do
    example=$(basename "$source" .c)
    # shellcheck disable=SC2046 # words, one argument each
    ok "the example $example builds" \
        cc -std=gnu99 -Wall -Wextra -Werror -o "$work/$example" "$source" $(pkg-config --cflags --libs blkhash)
    ok "the example $example agrees with blksum" grep -q "$wanted" <("$work/$example" "$work/disk.img" 2>&1)
done

ok "pkg-config finds the interface's version" pkg-config --exists 'blkhash >= 0.8'

ok "every page of the manual formats without a warning" pages_format

ok "uninstalls" make_quietly uninstall PREFIX="$work/usr"
same "nothing is left" "" "$(find "$work/usr" ! -type d)"

ok "installs below DESTDIR, with another library directory" \
    make_quietly install DESTDIR="$work/stage" PREFIX=/usr LIBDIR=/usr/lib/x86_64-linux-gnu
ok "the library is in LIBDIR" test -L "$work/stage/usr/lib/x86_64-linux-gnu/libblkhash.so.0"
same "the pkg-config file names the final places, not DESTDIR" "-I/usr/include -L/usr/lib/x86_64-linux-gnu -lblkhash" \
    "$(sed -n 's/^libdir=//p' "$work/stage/usr/lib/x86_64-linux-gnu/pkgconfig/blkhash.pc" |
        sed 's|.*|-I/usr/include -L& -lblkhash|')"
ok "uninstalls below DESTDIR" make_quietly uninstall DESTDIR="$work/stage" PREFIX=/usr
same "nothing is left below DESTDIR" "" "$(find "$work/stage" ! -type d)"

finish
