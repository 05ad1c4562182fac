#!/usr/bin/env bash
# Installs what a job needs and the machine lacks: `setup.sh build|test|lint`. Says what it is about
# to install before it does, asks nothing, and does nothing where all is there.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

main() {
    local job=${1:-build}
    case $job in
    build) ensure_packages build && ensure_rust ;;
    test) ensure_packages test ;;
    lint) ensure_packages lint && ensure_rust_checkers ;;
    *) die "setup.sh: unknown job '$job' (build, test or lint)" ;;
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
        sh "$script" -y --profile minimal --default-toolchain stable --no-modify-path || status=$?
    fi
    rm -f "$script"
    return "$status"
}

# rustfmt and clippy must be those of the compiler in use: a component where rustup manages it, a
# package of the same name scheme otherwise. lint.sh says so where one is still missing.
ensure_rust_checkers() {
    local missing=() packages=() suffix
    need_rust
    have cargo-fmt && cargo fmt --version >/dev/null 2>&1 || missing+=(rustfmt)
    have cargo-clippy && cargo clippy --version >/dev/null 2>&1 || missing+=(clippy)
    [ ${#missing[@]} -gt 0 ] || return 0
    if have rustup && [ "$(dirname "$(command -v rustup)")" = "$(dirname "$(command -v cargo)")" ]; then
        say "installing with rustup: ${missing[*]}"
        rustup component add "${missing[@]}"
        return
    fi
    have apt-get || return 0
    apt_update_once
    suffix=$(dpkg-query -S "$(readlink -f "$(command -v rustc)")" 2>/dev/null | sed -n 's/^rustc\([^:]*\):.*/\1/p')
    for package in "${missing[@]}"; do
        [ "$package" = rustfmt ] || package=rust-clippy
        package_reaches "$package$suffix" "$(rust_needed)" && packages+=("$package$suffix")
    done
    [ ${#packages[@]} -gt 0 ] || return 0
    say "installing Debian packages: ${packages[*]}"
    apt_install "${packages[@]}"
}

main "$@"
