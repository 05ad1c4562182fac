#!/usr/bin/env bash
# Tests what scripts/package.sh made, as a user meets it: lintian; then in a bare Debian an installation, the
# programs, the manual, the units, a C program, an upgrade and a purge; then the tarball, the lists and the sums.
# Needs root. The Debian is made in build/package/bare, and used again.
# shellcheck disable=SC2016 # the shells inside expand it
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/bare_root.sh
. "$ROOT/scripts/bare_root.sh"
# shellcheck source=scripts/tests/assert.sh
. "$ROOT/scripts/tests/assert.sh"

[ "$(id -u)" -eq 0 ] || die "this needs root"
out=$ROOT/build/package/out
root=$ROOT/build/package/bare
debs=("$out"/*.deb)
[ -e "${debs[0]}" ] || die "there are no packages in $out; run: make package"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# in_root shows what it printed only if it fails.
inside() { in_root "$1" >"$work/log" 2>&1 || { cat "$work/log"; return 1; }; }

# The same package as of a version before.
older() {
    dpkg-deb -R "$1" "$work/older"
    sed -i 's/^Version: .*/Version: 0.0.1-1/; s/(= [^)]*)/(= 0.0.1-1)/' "$work/older/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$work/older" "$root/root/older/" >/dev/null
    rm -rf "$work/older"
}

# Every path but those of apt and dpkg, which keep books, and those that a start of the machine empties.
listing() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./root -o -path ./tmp \
        -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log \) -prune -o -print | sort)
}

debian() {
    local file
    # The tag left out asks for the number of a request to Debian: they are not uploaded there.
    ok "lintian finds nothing" lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs --allow-root "${debs[@]}"

    [ -e "$root/etc/debian_version" ] || make_root
    copy_settings
    # What the test itself needs: `man`, a compiler, and systemd's own check of units.
    ok "the bare Debian is prepared" inside "export DEBIAN_FRONTEND=noninteractive
        apt-get purge -q -y verisum libblkhash0 libblkhash-dev 2>/dev/null || true
        apt-get update -q && apt-get install -q -y --no-install-recommends man-db systemd gcc libc6-dev pkg-config"
    rm -rf "$root/root/older" "$root/root/new"
    mkdir -p "$root/root/older" "$root/root/new"
    cp "${debs[@]}" "$root/root/new/"
    for file in "${debs[@]}"; do older "$file"; done
    listing >"$work/before"

    dpkg-deb --fsys-tarfile "$out"/verisum_*.deb | tar -xO ./usr/bin/verisum >"$work/program"
    same "the C library that verisum depends on" "$(needed_glibc "$work/program")" \
        "$(dpkg-deb -f "$out"/verisum_*.deb Depends | grep -oE 'libc6 \(>= [0-9.]+' | sort -V | tail -n 1 | cut -d' ' -f3)"
    ok "apt installs an older version" inside "apt-get install -q -y --no-install-recommends /root/older/*.deb"
    ok "apt upgrades it" inside "apt-get install -q -y --no-install-recommends /root/new/*.deb"
    same "the version" "verisum $(dpkg-deb -f "$out"/verisum_*.deb Version | sed 's/-[0-9]*$//')" \
        "$(in_root 'verisum --version')"
    ok "verisum demo" inside "cd /tmp && verisum demo"
    ok "man verisum-scrub" inside "man verisum-scrub | grep -q 'verisum scrub'"
    ok "man blkhash_new" inside "man blkhash_new | grep -q blkhash_new"
    ok "bash completes" inside "bash -n /usr/share/bash-completion/completions/verisum &&
        bash -n /usr/share/bash-completion/completions/blksum"
    ok "blksum and verisum agree" inside 'truncate -s 1M /tmp/disk; echo data | dd of=/tmp/disk conv=notrunc
        [ "$(blksum /tmp/disk | cut -d " " -f 1)" = "$(verisum image sum --untagged /tmp/disk | cut -d " " -f 1)" ]'
    ok "systemd reads the units" inside "systemd-analyze verify --man=no 'verisum-scrub@srv-data.service' \
        'verisum-scrub@srv-data.timer' && systemctl enable 'verisum-scrub@srv-data.timer'"
    # There is no systemd running: its command, with what systemd would put in.
    ok "what the unit runs records, and finds rot" inside 'mkdir -p /srv/data /var/lib/verisum
        echo one >/srv/data/a; touch -d 2001-01-01 /srv/data/a
        run=$(sed -n "s/^ExecStart=:*//p" /usr/lib/systemd/system/verisum-scrub@.service |
            sed "s|%S|/var/lib|; s|%i|srv-data|; s|%f|/srv/data|")
        $run; printf "onE\n" >/srv/data/a; touch -d 2001-01-01 /srv/data/a
        if $run; then exit 1; fi; rm -r /srv/data'
    ok "a C program is built and agrees" inside 'cd /tmp && for source in /usr/share/doc/libblkhash-dev/examples/*.c; do
            gcc -Wall -Werror -o example "$source" $(pkg-config --cflags --libs blkhash)
            ./example disk 2>&1 | grep -q "$(blksum disk | cut -d " " -f 1)"; done'
    ok "a purge leaves catalogues and names them" inside "apt-get purge -q -y verisum libblkhash0 libblkhash-dev 2>&1 |
        grep 'has catalogues' && rm /var/lib/verisum/* && rmdir /var/lib/verisum"
    ok "apt installs it anew" inside "apt-get install -q -y --no-install-recommends /root/new/*.deb"
    ok "apt purges it" inside "apt-get purge -q -y verisum libblkhash0 libblkhash-dev"
    listing >"$work/after"
    ok "nothing is left" diff "$work/before" "$work/after"
}

# Prints the version of the C library that programs need. What they ask of it may be a function or, since 2.36, that it
# reads packed addresses.
needed_glibc() {
    objdump -p "$@" | sed 's/GLIBC_ABI_DT_RELR/GLIBC_2.36/' | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1 |
        sed 's/GLIBC_//'
}

# The programs of a tarball need the C library and no other.
tarball() {
    local folder=$work/tar program
    mkdir "$folder"
    tar -xzf "$1" -C "$folder" --strip-components=1
    for program in bin/verisum bin/blksum libexec/verisum/verisum-serve lib/libblkhash.so; do
        same "$(basename "$1"): $program needs the C library alone" "" "$(objdump -p "$folder/$program" |
            awk '$1 == "NEEDED" && $2 !~ /^(libc|libm|libgcc_s|libpthread|libdl|ld-linux.*)\.so/ { print $2 }')"
        ok "$(basename "$1"): $program holds the list of its dependencies" \
            grep -q '\.dep-v0' <(objdump -h "$folder/$program")
        ok "$(basename "$1"): $program names no folder of this machine" \
            lacks "$folder/$program" "$ROOT" "${CARGO_HOME:-$HOME/.cargo}/registry"
    done
    same "$(basename "$1"): its list names all files" "$(cd "$folder" && find . ! -type d -printf '/usr/local/%P\n' | sort)" \
        "$(sort "$folder/share/doc/verisum/installed-files")"
    say "$(basename "$1") needs glibc $(needed_glibc "$folder"/bin/* "$folder/lib/libblkhash.so")"
    case $1 in
    *-"$(uname -m)"-*)
        ok "its verisum runs" "$folder/bin/verisum" --version
        ;;
    *) ok "its verisum runs under emulation" "$ROOT/scripts/arm64.sh" run "$folder/bin/verisum" --version ;;
    esac
    rm -rf "$folder"
}

# What scanners read: a list for each of its parts, and in the programs themselves.
wheel() {
    local folder=$work/wheel file
    mkdir "$folder"
    python3 -m zipfile -e "$1" "$folder"
    for file in "$folder"/verisum/_native.*so "$folder"/*.data/scripts/verisum; do
        ok "the wheel: $(basename "$file") holds the list of its dependencies" \
            grep -q '\.dep-v0' <(objdump -h "$file")
        same "the wheel: $(basename "$file") needs no newer C library than its name says" "GLIBC_2.28" \
            "$( (echo GLIBC_2.28 && objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+') | sort -uV | tail -n 1)"
    done
    ok "the wheel is for manylinux_2_28" test "$1" != "${1%manylinux_2_28_*}"
    for file in verisum verisum-python; do
        bill "$folder"/*.dist-info/sboms/"$file.cdx.json"
    done
    rm -rf "$folder"
}

bill() {
    ok "$(basename "$1") is a list of CycloneDX" python3 -c 'import json, sys
bom = json.load(open(sys.argv[1]))
assert bom["bomFormat"] == "CycloneDX" and len(bom["components"]) > 10 and "serialNumber" not in bom' "$1"
    ok "$(basename "$1") names no folder of this machine" lacks "$1" "$ROOT"
}

lacks() {
    local file=$1 text
    shift
    for text; do
        if grep -qF "$text" "$file"; then return 1; fi
    done
}

debian
for file in "$out"/*.tar.gz; do
    tarball "$file"
    target=${file#"$out"/verisum-}
    for name in verisum libblkhash; do bill "$out/$name-${target%.tar.gz}.cdx.json"; done
done
for file in "$out"/*.whl; do [ ! -e "$file" ] || wheel "$file"; done
ok "the sums are right" sh -c 'cd "$1" && sha256sum --quiet -c SHA256SUMS' sh "$out"
if [ -e "$out/SHA256SUMS.sig" ]; then
    ok "the signature fits" ssh-keygen -q -Y verify -f "$out/allowed_signers" -I verisum -n file \
        -s "$out/SHA256SUMS.sig" <"$out/SHA256SUMS"
fi
finish
