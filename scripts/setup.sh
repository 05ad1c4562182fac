#!/usr/bin/env bash
# Installs what a job needs and the machine lacks: `setup.sh build|test|lint|package`. Says what it is about
# to install before it does, asks nothing, and does nothing where all is there.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

main() {
    local job=${1:-build}
    case $job in
    build) ensure_packages build && ensure_rust ;;
    test) ensure_packages test && ensure_versitygw && ensure_clouds && ensure_ipfs ;;
    lint) ensure_packages lint && ensure_rust_checkers ;;
    package) ensure_packages package ;;
    *) die "setup.sh: unknown job '$job' (build, test, lint or package)" ;;
    esac
}

# Tries, in this order: what is there, a rustup that is there, the distribution's Rust, the
# distribution's rustup, rustup's own installer.
ensure_rust() {
    if find_rust; then return 0; fi
    say "no Rust $(rust_needed) or newer on PATH or in ${CARGO_HOME:-$HOME/.cargo}/bin"
    rust_by_existing_rustup || rust_by_packages || rust_by_rustup_package || rust_by_rustup_installer ||
        die "could not get Rust $(rust_needed) or newer; see https://rustup.rs for other ways"
    hash -r
    need_rust
    say "using $(command -v cargo): $(rustc --version)"
}

rust_by_existing_rustup() {
    have rustup || return 1
    say "installing Rust (stable, minimal profile) with the rustup that is here"
    rustup toolchain install stable --profile minimal --no-self-update
}

rust_by_packages() {
    local packages
    have apt-get || return 1
    apt_update_once
    packages=$(rust_packages)
    [ -n "$packages" ] || return 1
    say "installing Rust from the distribution: $packages"
    # shellcheck disable=SC2086 # a list of words
    apt_install $packages
}

# The distribution's packages of a Rust that is new enough, or nothing. Debian carries a newer Rust
# for building browsers (-web); Ubuntu numbers its newer ones (-1.NN).
rust_packages() {
    local suffix numbered needed
    needed=$(rust_needed)
    numbered=$(apt-cache search --names-only '^rustc-1\.[0-9]+$' 2>/dev/null |
        sed -n 's/^rustc\(-1\.[0-9]*\) .*/\1/p' | sort -V)
    for suffix in '' $numbered -web; do
        if package_reaches "rustc$suffix" "$needed" && [ -n "$(package_candidate "cargo$suffix")" ]; then
            echo "rustc$suffix cargo$suffix"
            return 0
        fi
    done
}

package_reaches() {
    local candidate
    candidate=$(package_candidate "$1")
    [ -n "$candidate" ] && version_reaches "${candidate#*:}" "$2"
}

rust_by_rustup_package() {
    have apt-get || return 1
    apt_update_once
    [ -n "$(package_candidate rustup)" ] || return 1
    say "installing the distribution's rustup, and Rust (stable, minimal profile) with it"
    apt_install rustup && rustup toolchain install stable --profile minimal --no-self-update
}

# Further options go to the installer.
rust_by_rustup_installer() {
    local script status=0
    say "installing Rust (stable, minimal profile) with rustup's installer from https://sh.rustup.rs" \
        "into ${CARGO_HOME:-$HOME/.cargo}; your shell's start-up files stay as they are"
    if ! have curl; then
        have apt-get || return 1
        say "installing Debian packages: curl"
        apt_update_once
        apt_install curl || return 1
    fi
    # To a file first: a download that breaks off must not be run.
    script=$(mktemp)
    curl --proto '=https' --tlsv1.2 -sSf --retry 3 -o "$script" https://sh.rustup.rs || status=$?
    if [ "$status" -eq 0 ]; then
        sh "$script" -y --profile minimal --default-toolchain stable --no-modify-path "$@" || status=$?
    fi
    rm -f "$script"
    return "$status"
}

# rustfmt and clippy must be those of a compiler that is new enough. Tries rustup's components, then
# packages beside the distribution's Rust, then a toolchain of rustup's own. Not every distribution has
# clippy for each of its compilers; lint.sh fails where one is still missing.
ensure_rust_checkers() {
    if find_rust cargo-fmt cargo-clippy; then return 0; fi
    need_rust
    rust_checkers_by_rustup || rust_checkers_by_packages || rust_by_rustup_installer -c rustfmt -c clippy ||
        warn "could not get clippy for $(command -v cargo)"
}

rust_checkers_by_rustup() {
    [ -x "$(dirname "$(command -v cargo)")/rustup" ] || return 1
    say "installing with rustup: rustfmt clippy"
    rustup component add rustfmt clippy
}

rust_checkers_by_packages() {
    local suffix package packages=()
    have apt-get || return 1
    apt_update_once
    # rustc-web goes with rustfmt-web, rustc-1.91 with rustfmt-1.91.
    suffix=$(dpkg-query -S "$(readlink -f "$(command -v rustc)")" 2>/dev/null | sed -n 's/^rustc\([^:]*\):.*/\1/p')
    for package in "rustfmt$suffix" "rust-clippy$suffix"; do
        package_reaches "$package" "$(rust_needed)" && packages+=("$package")
    done
    [ ${#packages[@]} -gt 0 ] || return 1
    say "installing Debian packages: ${packages[*]}"
    apt_install "${packages[@]}" && find_rust cargo-fmt cargo-clippy
}

# go_install MODULE: a server that tests talk to, in $tools, without what only debuggers need.
go_install() {
    GOBIN="$tools" GOFLAGS=-mod=mod GOTOOLCHAIN=auto \
        go install -gcflags=all=-dwarf=false -ldflags='-s -w' "$1"
}

# A real server of S3, for the tests of buckets.
ensure_versitygw() {
    local version=v1.8.0 tools="$ROOT/target/tools"
    if [ -x "$tools/versitygw" ] && [ "$(cat "$tools/versitygw.version" 2>/dev/null)" = "$version" ]; then
        return 0
    fi
    if ! { have go || go_by_packages; } || ! { go_is_new || go_by_modules "$tools"; }; then
        warn "there is no Go $GO_NEEDED or newer: the tests of buckets have no server"
        return 0
    fi
    say "building versitygw $version with Go into $tools"
    go_install "github.com/versity/versitygw/cmd/versitygw@$version" ||
        { warn "could not build versitygw: the tests of buckets have no server"; return 0; }
    echo "$version" >"$tools/versitygw.version"
}

# Servers that speak as Google Cloud Storage and Azure Blob Storage do, for the tests of buckets.
ensure_clouds() {
    local google=v1.56.1 azure=3.37.0 tools="$ROOT/target/tools"
    if [ ! -x "$tools/fake-gcs-server" ] || [ "$(cat "$tools/fake-gcs-server.version" 2>/dev/null)" != "$google" ]; then
        say "building fake-gcs-server $google with Go into $tools"
        if { have go || go_by_packages; } && { go_is_new || go_by_modules "$tools"; } &&
            go_install "github.com/fsouza/fake-gcs-server@$google"; then
            echo "$google" >"$tools/fake-gcs-server.version"
        else
            warn "could not build fake-gcs-server: the tests of Google's buckets have no server"
        fi
    fi
    if [ -x "$tools/azurite-blob" ] && [ "$(cat "$tools/azurite.version" 2>/dev/null)" = "$azure" ]; then
        return 0
    fi
    ensure_npm || { warn "there is no npm: the tests of Azure's containers have no server"; return 0; }
    say "installing azurite $azure with npm into $tools/azurite"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$tools/azurite" "azurite@$azure" ||
        { warn "could not install azurite: the tests of Azure's containers have no server"; return 0; }
    # shellcheck disable=SC2016 # For the script that is written.
    printf '#!/bin/sh\nexec "$(dirname "$0")/azurite/node_modules/.bin/azurite-blob" "$@"\n' >"$tools/azurite-blob"
    chmod +x "$tools/azurite-blob"
    echo "$azure" >"$tools/azurite.version"
}

ensure_npm() {
    have npm || { have apt-get && say "installing Debian packages: npm" && apt_update_once && apt_install npm; }
}

# An implementation of IPFS's importer, which the digest `ipfs` is compared with.
ensure_ipfs() {
    local tools="$ROOT/target/tools" wanted="ipfs-unixfs-importer@15.4.0 blockstore-core@5.0.4"
    if [ -x "$tools/ipfs-cid" ] && [ "$(cat "$tools/ipfs.version" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    ensure_npm ||
        { warn "there is no npm: the digest of IPFS has no peer"; return 0; }
    say "installing $wanted with npm into $tools/ipfs"
    # shellcheck disable=SC2086 # Two words.
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$tools/ipfs" $wanted ||
        { warn "could not install them: the digest of IPFS has no peer"; return 0; }
    cp "$ROOT/scripts/tests/ipfs-cid.mjs" "$tools/ipfs/"
    # shellcheck disable=SC2016 # For the script that is written.
    printf '#!/bin/sh\nexec node "$(dirname "$0")/ipfs/ipfs-cid.mjs" "$@"\n' >"$tools/ipfs-cid"
    chmod +x "$tools/ipfs-cid"
    echo "$wanted" >"$tools/ipfs.version"
}

# The first Go that fetches a newer one by itself where a module needs that.
GO_NEEDED=1.21

go_is_new() {
    local found
    found=$(go env GOVERSION) && version_reaches "${found#go}" "$GO_NEEDED"
}

go_by_packages() {
    have apt-get || return 1
    say "installing Debian packages: golang-go"
    apt_update_once
    apt_install golang-go && hash -r && have go
}

# An older Go fetches a newer one as any module, whose sum it checks, but leaves its programs without the right to be
# executed.
go_by_modules() {
    local tools=$1 module
    module=golang.org/toolchain@v0.0.1-go1.24.9.linux-$(go env GOARCH)
    say "fetching a newer Go with the one that is here"
    (cd "$(mktemp -d)" && go mod init fetch && go mod download "$module") || return 1
    rm -rf "$tools/go"
    mkdir -p "$tools"
    cp -r "$(go env GOMODCACHE)/$module" "$tools/go"
    chmod -R u+w "$tools/go"
    chmod +x "$tools"/go/bin/* "$tools"/go/pkg/tool/*/*
    PATH=$tools/go/bin:$PATH
    hash -r
    go_is_new
}

main "$@"
