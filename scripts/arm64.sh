#!/usr/bin/env bash
# Builds verisum for 64-bit ARM on another machine, and tests it there under qemu's emulation:
#
#     scripts/arm64.sh prepare    installs what is needed
#     scripts/arm64.sh build      the whole workspace, but for the Python package
#     scripts/arm64.sh test       also the tests of the kernels and the digests on three processors, and
#                                 the command on a tree and an image
#     scripts/arm64.sh count      instructions a byte of every kernel, and of OpenSSL: no speeds
#     scripts/arm64.sh cargo ARGUMENT...   cargo itself, with all that is needed for `--target`
#     scripts/arm64.sh run PROGRAM [ARGUMENT...]      a program that was built, on the processor QEMU_CPU
#
# Installs a cross compiler and qemu from Debian's packages. Rust's library for ARM comes with rustup; where
# that cannot be had, it and a compiler of the same version are unpacked from Debian's packages in
# target/arm64. So is OpenSSL for ARM, the oracle of the tests. What apt knows of ARM's packages stays there
# too: the machine's own lists and architectures are left alone.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

triple=aarch64-unknown-linux-gnu
work=$TARGET/arm64
libraries=$work/root/usr/lib/aarch64-linux-gnu
# With the instructions for SHA-1 and SHA-256, and with all; and the levels that each lacks.
processors=(cortex-a72:sha3 neoverse-n1:sha3 max:)

# --- apt, with a state of its own --------------------------------------------------------------

apt_own() {
    local program=$1
    shift
    DEBIAN_FRONTEND=noninteractive "$program" -q -o Dir::State="$work/apt/state" \
        -o Dir::State::Status="$work/apt/status" -o Dir::Cache="$work/apt/cache" \
        -o APT::Architectures=amd64 -o APT::Architectures=arm64 \
        -o APT::Sandbox::User= -o Acquire::Retries=5 "$@"
}

apt_own_update() {
    [ ! -e "$work/apt/updated" ] || return 0
    mkdir -p "$work/apt/state/lists/partial" "$work/apt/cache/archives/partial"
    touch "$work/apt/status"
    say "reading the lists of ARM's packages into $work/apt"
    # One of the machine's own sources may have nothing for ARM.
    apt_own apt-get update || warn "not every list of packages could be read; going on with the others"
    touch "$work/apt/updated"
}

# The version that there is of a package.
own_candidate() {
    LC_ALL=C apt_own apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'
}

# Packages that a package depends on whose names match a pattern.
own_depends() {
    LC_ALL=C apt_own apt-cache depends "$1" | sed -n 's/^ *Depends: \([^ :]*\).*/\1/p' | grep -E "$2"
}

# own_unpack FOLDER PACKAGE...: unpacks packages, without installing any.
own_unpack() {
    local folder=$1 archive
    shift
    say "unpacking in $folder: $*"
    rm -rf "$work/archives"
    mkdir -p "$work/archives" "$folder"
    (cd "$work/archives" && apt_own apt-get download "$@")
    for archive in "$work"/archives/*.deb; do
        dpkg-deb -x "$archive" "$folder"
    done
    rm -rf "$work/archives"
}

# --- what is needed ----------------------------------------------------------------------------

ensure_openssl() {
    local library
    [ ! -e "$work/root/complete" ] || return 0
    apt_own_update
    library=$(own_depends libssl-dev:arm64 '^libssl[0-9]')
    own_unpack "$work/root" libssl-dev:arm64 "$library:arm64"
    # The crate looks in one folder.
    cp -r "$work/root/usr/include/aarch64-linux-gnu/openssl/." "$work/root/usr/include/openssl/"
    touch "$work/root/complete"
}

has_target() { [ -n "$(find "$(rustc --print sysroot)/lib/rustlib/$triple/lib" -name 'libstd-*' 2>/dev/null)" ]; }

ensure_rust_library() {
    need_rust
    if has_target; then return 0; fi
    if [ ! -e "$work/rust/complete" ] && [ -x "$(dirname "$(command -v cargo)")/rustup" ]; then
        say "installing Rust's library for ARM with rustup"
        if rustup target add "$triple" && has_target; then return 0; fi
    fi
    rust_of_debian || die "Rust's library for ARM cannot be had: neither from rustup nor from Debian's packages"
}

# A compiler and its libraries must be of one version, so all come from one source.
rust_of_debian() {
    local suffix library llvm
    if [ ! -e "$work/rust/complete" ]; then
        apt_own_update
        for suffix in '' -web; do
            version_reaches "$(own_candidate "rustc$suffix" | sed 's/^[0-9]*://')" "$(rust_needed)" || suffix=none
            [ "$suffix" = none ] || break
        done
        [ "$suffix" != none ] || return 1
        library=$(own_depends "libstd-rust$suffix-dev" "^libstd-rust$suffix-[0-9]")
        llvm=$(own_depends "$library" '^libllvm[0-9]')
        own_unpack "$work/rust" "rustc$suffix" "libstd-rust$suffix-dev" "$library" "$llvm" \
            "libstd-rust$suffix-dev:arm64"
        touch "$work/rust/complete"
    fi
    # The compiler finds its libraries, and rustlib beside them, where Debian has them.
    cat >"$work/rustc" <<END
#!/bin/sh
LD_LIBRARY_PATH="$work/rust/usr/lib/x86_64-linux-gnu" exec "$work/rust/usr/bin/rustc" --sysroot "$work/rust/usr" "\$@"
END
    chmod +x "$work/rustc"
    export RUSTC=$work/rustc
    say "using $("$RUSTC" --version) of Debian's packages"
}

# Everything, or a word why not.
prepare() {
    [ "$(uname -m)" != aarch64 ] || die "this is such a machine: make test does all of it"
    [ "$(uname -m)" = x86_64 ] || die "only x86-64 machines can do this"
    ensure_packages arm64
    have aarch64-linux-gnu-gcc || die "there is no aarch64-linux-gnu-gcc"
    have qemu-aarch64-static || die "there is no qemu-aarch64-static"
    mkdir -p "$work"
    ensure_rust_library
    ensure_openssl
    export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$ROOT/scripts/arm64.sh run"
    export AARCH64_UNKNOWN_LINUX_GNU_OPENSSL_LIB_DIR=$libraries
    export AARCH64_UNKNOWN_LINUX_GNU_OPENSSL_INCLUDE_DIR=$work/root/usr/include
}

# --- what is done ------------------------------------------------------------------------------

# Quick to build: what hashes is optimised, the rest is not, and none of it for debuggers.
cargo_arm() {
    local verb=$1 package options=()
    shift
    for package in verisum-kernels verisum-digest blake3 crc-fast twox-hash; do
        options+=(--config "profile.dev.package.$package.opt-level=1")
    done
    CARGO_PROFILE_DEV_DEBUG=0 cargo "$verb" --locked --target "$triple" --config 'profile.dev.opt-level=0' \
        "${options[@]}" "$@"
}

build() {
    say "building the workspace for $triple"
    cargo_arm build --workspace --exclude verisum-python
}

# The processor is that of QEMU_CPU.
emulate() {
    qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" \
        -E OPENSSL_MODULES="$libraries/ossl-modules" "$@"
}

# Left out are a test that compares speeds, which under emulation say nothing, and two that take minutes
# there, of how messages are cut: nothing of that depends on the processor.
# Digests of parts and of blocks, which add trees to what kernels compute, are tested once with the same levels.
test_crates() {
    local processor missing status=0 seen=() repeated=()
    for processor in "${processors[@]}"; do
        missing=${processor#*:}
        processor=${processor%%:*}
        repeated=()
        case " ${seen[*]-} " in *" $missing: "*)
            repeated=(--skip parts_give_the_digest_of_the_whole_at_every_level
                --skip the_references_vectors_hold_at_every_level)
            ;;
        esac
        seen+=("$missing:")
        say "the kernels and the digests on $processor, without: ${missing:-nothing}"
        QEMU_CPU=$processor TEST_EMULATED=1 TEST_LEVELS_MISSING=$missing cargo_arm test -p verisum-kernels -p verisum-digest \
            --lib --tests --no-fail-fast -- --skip no_batch_is_slower_than_its_messages \
            --skip pieces_copies_and_the_next_message_change_nothing \
            --skip parts_too_long_to_be_kept_are_hashed_one_after_the_other "${repeated[@]}" || status=$?
    done
    return "$status"
}

verisum() {
    local cpu=$1 level=$2
    shift 2
    QEMU_CPU=$cpu VERISUM_KERNEL=$level emulate "$TARGET/$triple/debug/verisum" "$@"
}

# The tree and the image have the values that other programs compute on this machine.
test_command() {
    local folder processor cpu level levels digest
    local -A sums=() values=()
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf '$folder'" EXIT
    cp -r "$ROOT/docs" "$folder/tree"
    head -c 3000000 "$TARGET/$triple/debug/verisum" >"$folder/image"
    truncate -s 8M "$folder/image"
    # Zeros come before this, and its end is no whole block.
    head -c 700000 "$TARGET/$triple/debug/blksum" >>"$folder/image"
    truncate -s %512 "$folder/image"
    for digest in sha1 sha256 sha512 md5; do
        sums[$digest]=$(cd "$folder" && python3 "$ROOT/reference/tree.py" "$digest" tree)
    done
    for digest in sha256 sha512 sha3-256 blake2b512; do
        values[$digest]=$(python3 "$ROOT/reference/blockhash.py" -d "$digest" "$folder/image" | awk '{ print $1 }')
    done
    for processor in "${processors[@]}"; do
        cpu=${processor%%:*}
        levels="portable neon sha2"
        [ -n "${processor#*:}" ] || levels+=" sha3"
        for level in $levels; do
            for digest in sha1 sha256 sha512 md5; do
                same "$cpu, $level: a tree, $digest" "${sums[$digest]}" \
                    "$(cd "$folder" && verisum "$cpu" "$level" sum -r -a "$digest" tree)"
            done
            for digest in sha256 sha512 sha3-256 blake2b512; do
                same "$cpu, $level: an image, $digest" "${values[$digest]}" \
                    "$(verisum "$cpu" "$level" image sum --untagged -a "$digest" "$folder/image" | awk '{ print $1 }')"
            done
        done
    done
    if [ "$(verisum cortex-a72 '' digests | awk '$1 == "sha256" { print $4 }')" = sha2 ]; then
        ok "the instructions are found" true
    else
        ok "the instructions are found" false
    fi
}

# The standard library's functions for single instructions must not be left out of line: a call for each
# would take many times as long. Only what panics is called.
test_object_code() {
    local program calls
    program=$(find "$TARGET/$triple/debug/deps" -name 'agree-*' -perm -u+x -printf '%T@ %p\n' | sort -n | tail -n 1)
    program=${program#* }
    aarch64-linux-gnu-objdump -d --no-show-raw-insn "$program" >"$work/object-code"
    calls=$(awk '
        /^[0-9a-f]+ <.*>:$/ { is_kernel = /kernels.*arch.*aarch64/; kernels += is_kernel }
        is_kernel && ($2 == "bl" || $2 == "blr") && !/panic/ { print }
        is_kernel { seen[$2] = 1 }
        END {
            if (kernels < 25) print "only", kernels, "kernels"
            n = split("sha1c sha256h sha512h eor3 xar bcax rax1 sri bsl", wanted, " ")
            for (i = 1; i <= n; i++) if (!(wanted[i] in seen)) print "no", wanted[i]
        }' "$work/object-code")
    rm -f "$work/object-code"
    same "the object code of the kernels" "" "$calls"
}

# executed LENGTH ALGORITHM WAY COUNT: how many instructions that takes, the program's start included. The
# emulator logs each by itself; where OpenSSL has no part in it, only those of the program, which is there.
executed() {
    local length=$1 filter=()
    shift
    [ "$2" = openssl ] || filter=(-dfilter 0x5500000000+0x2000000)
    QEMU_CPU=max emulate -singlestep -d nochain,exec "${filter[@]}" -D /dev/stderr \
        "$TARGET/$triple/release/examples/once" "$@" "$length" 2>&1 >/dev/null | grep -c '^Trace'
}

# The difference of two lengths is what the bytes between them take. A way is a level or OpenSSL, and how many
# messages it is given.
count_instructions() {
    local algorithm ways way count short=4096 long=20480 one other
    cargo build --locked --release --target "$triple" -p verisum-kernels --example once \
        --config 'profile.release.lto=false'
    printf '%s\t%s\t%s\t%s\n' algorithm way messages instructions/byte
    while read -r algorithm ways; do
        for way in openssl:1 portable:1 $ways; do
            count=${way#*:}
            way=${way%:*}
            one=$(executed "$short" "$algorithm" "$way" "$count")
            other=$(executed "$long" "$algorithm" "$way" "$count")
            awk -v n=$((other - one)) -v bytes=$(((long - short) * count)) -v OFS='\t' \
                -v algorithm="$algorithm" -v way="$way" -v count="$count" \
                'BEGIN { print algorithm, way, count, sprintf("%.2f", n / bytes) }'
        done
    done <<END
sha256 neon:4 sha2:1 sha2:2 sha2:4
sha1 neon:4 sha2:1 sha2:2 sha2:4
sha512 neon:2 sha3:1 sha3:2
sha3-256 neon:2 sha3:2
md5 neon:4 neon:8
ripemd160 neon:4 neon:8
blake2b512 neon:2
blake2s256 neon:4
sm3 neon:4
END
}

case ${1:-} in
prepare) prepare ;;
build)
    prepare
    build
    ;;
test)
    prepare
    started=$SECONDS
    status=0
    test_crates || status=$?
    say "the kernels and the digests: $((SECONDS - started)) s"
    build
    # shellcheck source=scripts/tests/assert.sh
    . "$ROOT/scripts/tests/assert.sh"
    test_object_code
    test_command
    finish || status=$?
    say "all of it: $((SECONDS - started)) s"
    exit "$status"
    ;;
count)
    prepare
    count_instructions
    ;;
cargo)
    shift
    prepare
    cargo "$@"
    ;;
run)
    shift
    emulate "$@"
    ;;
*) die "usage: scripts/arm64.sh prepare|build|test|count|cargo ARGUMENT...|run PROGRAM [ARGUMENT...]" ;;
esac
