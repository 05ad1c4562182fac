#!/usr/bin/env bash
# Makes what a release consists of, in build/package/out: Debian packages, tarballs for x86-64 and 64-bit ARM, a
# wheel, the lists of what is in them (SBOM), and SHA256SUMS, signed where SIGNING_KEY names a key of ssh's, with the
# key's public half in allowed_signers.
# WITHOUT="arm64 wheel" leaves those out. The same commit gives the same bytes in any folder: scripts/package_again.sh.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

AUDITABLE=0.7.7
CYCLONEDX=0.5.9
ZIG=0.17.1
ZIGBUILD=0.24.1
# The C library that the wheel needs: manylinux_2_28.
GLIBC=2.28
# Of the Debian packages of one version.
REVISION=1

work=$ROOT/build/package
out=$work/out
# One place for all folders: cargo mixes the path of what wraps the compiler into the names of symbols.
tools=${XDG_CACHE_HOME:-$HOME/.cache}/verisum/tools
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")
triple=$(uname -m)-unknown-linux-gnu
arm=aarch64-unknown-linux-gnu

main() {
    need_rust
    cd "$ROOT"
    mkdir -p "$work"
    cargo_tool cargo-auditable "$AUDITABLE"
    cargo_tool cargo-cyclonedx "$CYCLONEDX"
    export PATH=$tools/bin:$PATH
    same_bytes
    rm -rf "$out" "$work/debian" "$work/tar"
    mkdir -p "$out"

    build "$triple" cargo strip
    object_code
    debian_packages
    tarball
    if [ "$triple" != "$arm" ] && wanted arm64; then arm64_tarball; fi
    bill_of_materials
    if wanted wheel; then wheel; fi
    sums
    say "$out has:"
    ls -l "$out"
}

wanted() {
    case " ${WITHOUT:-} " in *" $1 "*)
        warn "$1 is left out, as WITHOUT says"
        return 1
        ;;
    esac
}

# cargo_tool NAME VERSION
cargo_tool() {
    [ ! -e "$tools/$1-$2" ] || return 0
    say "installing $1 $2 into $tools"
    cargo install --quiet --locked --root "$tools" "$1@$2"
    touch "$tools/$1-$2"
}

# Keeps the time and the names of folders out of what is built.
same_bytes() {
    local map rust=() c=()
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
    # The last that fits counts.
    for map in "${CARGO_HOME:-$HOME/.cargo}=/usr/src/cargo" "$ROOT=/usr/src/verisum" "$TARGET=/usr/src/verisum/target"; do
        rust+=("--remap-path-prefix=$map")
        c+=("-ffile-prefix-map=$map")
    done
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${rust[*]}")
    CFLAGS=${c[*]}
    export SOURCE_DATE_EPOCH CARGO_ENCODED_RUSTFLAGS CFLAGS LC_ALL=C.UTF-8 TZ=UTC
    export CARGO_INCREMENTAL=0
    umask 022
}

# build TRIPLE CARGO STRIP: leaves in $work/built/TRIPLE what scripts/install.sh installs. The programs hold the list of
# their dependencies, for `cargo audit bin`.
build() {
    local built=$work/built/$1 cargo=$2 strip=$3 name
    say "building the release for $1"
    # shellcheck disable=SC2086 # a program, or a script and a word
    $cargo auditable build --release --locked --target "$1" -p verisum-cli -p verisum-capi
    mkdir -p "$built"
    for name in verisum blksum verisum-serve libblkhash.so; do
        "$strip" --strip-unneeded -o "$built/$name" "$TARGET/$1/release/$name"
    done
}

# Reads the programs before they go out: no kernel may stall on processors that nobody here has.
object_code() {
    [ "$(uname -m)" = x86_64 ] || return 0
    say "the object code of $TARGET/$triple/release/{verisum,blksum,libblkhash.so}, before they are stripped"
    # As under CI, where a program that is not there is a failure.
    CI=true cargo test --quiet --release --locked --target "$triple" -p verisum-kernels --test object_code
}

install_into() {
    BUILT=$work/built/$triple DESTDIR=$1 PREFIX=$2 LIBDIR=$3 "$ROOT/scripts/install.sh"
}

# notices FOLDER TRIPLE: the licences of what is compiled in go with it, and are removed with it.
notices() {
    python3 "$ROOT/scripts/notices.py" "$2" >"$1/THIRD-PARTY-NOTICES"
    grep -q /THIRD-PARTY-NOTICES "$1/installed-files" ||
        sed -i 's|^\(.*\)/installed-files$|\1/THIRD-PARTY-NOTICES\n&|' "$1/installed-files"
}

debian_packages() {
    say "the Debian packages"
    cp -r packaging "$work/debian"
    cd "$work/debian"
    {
        printf 'verisum (%s-%s) unstable; urgency=medium\n\n' "$version" "$REVISION"
        printf '  * Version %s. /usr/share/doc/verisum/changelog.gz says what it does.\n\n' "$version"
        printf ' -- %s  %s\n' "$(sed -n 's/^Maintainer: //p' debian/control)" "$(date -R -d "@$SOURCE_DATE_EPOCH")"
    } >debian/changelog
    install_into "$PWD/root" /usr "/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
    notices root/usr/share/doc/verisum "$triple"
    # No packages with debugging symbols: the programs have none.
    DEB_BUILD_OPTIONS=noautodbgsym debian/rules binary >"$work/debian.log" 2>&1 || {
        cat "$work/debian.log"
        die "the Debian packages were not built"
    }
    mv ./*.deb "$out"
    cd "$ROOT"
}

# README has the command that installs it, and `bin/verisum` runs where it was unpacked.
tarball() {
    local name=verisum-$version-$triple
    install_into "$work/tar" /usr/local /usr/local/lib
    notices "$work/tar/usr/local/share/doc/verisum" "$triple"
    mv "$work/tar/usr/local" "$work/tar/$name"
    pack "$name"
}

pack() {
    tar -C "$work/tar" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --format=gnu -cf - "$1" | gzip -n9 >"$out/$1.tar.gz"
}

# All but the programs and the library is the same on every machine.
arm64_tarball() {
    local name=verisum-$version-$arm folder=$work/tar/verisum-$version-$arm built=$work/built/$arm
    build "$arm" "scripts/arm64.sh cargo" aarch64-linux-gnu-strip
    cp -a "$work/tar/verisum-$version-$triple" "$folder"
    notices "$folder/share/doc/verisum" "$arm"
    cp "$built"/{verisum,blksum} "$folder/bin/"
    cp "$built/verisum-serve" "$folder/libexec/verisum/"
    cp "$built/libblkhash.so" "$(readlink -f "$folder/lib/libblkhash.so")"
    pack "$name"
}

# CycloneDX, of the command and of the library of each tarball, and of the Python module for the wheel; every feature
# of their dependencies is that of the release.
bill_of_materials() {
    local file target crate
    say "the lists of what is in them"
    for file in "$out"/*.tar.gz; do
        target=${file##*/"verisum-$version-"}
        target=${target%.tar.gz}
        cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$target" --override-filename bom
        for crate in crates/cli:verisum crates/capi:libblkhash; do
            bill "${crate%:*}" >"$out/${crate#*:}-$version-$target.cdx.json"
        done
        [ "$target" != "$triple" ] || bill python >"$work/verisum-python.cdx.json"
        rm -f crates/*/bom.json python/bom.json fuzz/bom.json
    done
}

bill() { sed "s|path+file://$ROOT|path+file:///usr/src/verisum|g" "$1/bom.json"; }

# Makes a linker for programs that need no newer C library than GLIBC: zig knows its symbols. What it links is compiled
# as for the other packages. Prints its path, which is the same in all folders.
old_linker() {
    local zig=$tools/zig-$ZIG-$ZIGBUILD
    if [ ! -e "$zig/zigcc" ]; then
        say "installing zig $ZIG and cargo-zigbuild $ZIGBUILD into $zig" >&2
        python3 -m venv "$zig"
        "$zig/bin/pip" install --quiet --disable-pip-version-check "ziglang==$ZIG" "cargo-zigbuild==$ZIGBUILD"
        # shellcheck disable=SC2016 # the linker expands them
        printf '#!/bin/sh\nPATH=%q:$PATH exec cargo-zigbuild zig cc -- -target %s "$@"\n' \
            "$zig/bin" "$(uname -m)-linux-gnu.$GLIBC" >"$zig/zigcc.new"
        chmod +x "$zig/zigcc.new"
        mv "$zig/zigcc.new" "$zig/zigcc"
    fi
    echo "$zig/zigcc"
}

# Maturin's own list would name this folder. Cargo is called by the tools that build a wheel, so it is found first.
wheel() {
    local linker variable
    say "the wheel"
    linker=$(old_linker)
    variable=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$triple")_LINKER
    mkdir -p "$work/bin" "$work/sboms"
    printf '#!/bin/sh\nPATH=%q exec cargo auditable "$@"\n' "$PATH" >"$work/bin/cargo"
    chmod +x "$work/bin/cargo"
    cp "$out/verisum-$version-$triple.cdx.json" "$work/sboms/verisum.cdx.json"
    mv "$work/verisum-python.cdx.json" "$work/sboms/"
    env "$variable=$linker" "PATH=$work/bin:$PATH" "VERISUM_WHEEL_SBOMS=$work/sboms" \
        "VERISUM_WHEEL_COMPATIBILITY=manylinux_${GLIBC/./_}" \
        python3 -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out" ./python
}

sums() {
    cd "$out"
    sha256sum -- * >"$work/SHA256SUMS"
    mv "$work/SHA256SUMS" .
    if [ -n "${SIGNING_KEY:-}" ]; then
        ssh-keygen -q -Y sign -f "$SIGNING_KEY" -n file SHA256SUMS
        # What `ssh-keygen -Y verify` takes. It is not among the sums, which are the same whoever signs them.
        printf 'verisum namespaces="file" %s\n' "$(cut -d ' ' -f 1,2 "${SIGNING_KEY%.pub}.pub")" >allowed_signers
    else
        warn "SHA256SUMS is not signed: SIGNING_KEY names no key"
    fi
}

main "$@"
