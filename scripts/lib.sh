# Shared by the other scripts: where the project is, messages, root, packages, the Rust toolchain.
# Source it; it has no effect but to define functions and ROOT.
# shellcheck shell=bash disable=SC2034,SC2119,SC2120

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}

say() { printf '==> %s\n' "$*"; }

# Something is left out: never quietly.
warn() { printf '!!! %s\n' "$*" >&2; }

die() {
    printf '!!! %s\n' "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

in_ci() { [ "${CI:-}" = true ] || [ "${CI:-}" = 1 ]; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        die "this needs root and there is no sudo; as root, run: $*"
    fi
}

# --- Debian packages ---------------------------------------------------------------------------

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 -o Dpkg::Use-Pty=0 "$@"
}

apt_updated=no
apt_update_once() {
    [ "$apt_updated" = no ] || return 0
    apt_get update -q || warn "the package lists could not be brought up to date; going on with the old ones"
    apt_updated=yes
}

# Never removes a package to make room for another.
apt_install() { apt_get install -q -y --no-install-recommends --no-remove "$@"; }

# Whether the package, or one of several that will do (`one|other`), is there.
package_installed() {
    local name names
    IFS='|' read -r -a names <<<"$1"
    for name in "${names[@]}"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" != installed ] || return 0
    done
    return 1
}

# The version that apt would install, or nothing.
package_candidate() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'
}

# The packages of a group, from the list that says why each is needed.
packages_of() {
    awk -v group="$1" '
        /^#/ || NF < 2 { next }
        { n = split($1, groups, ","); for (i = 1; i <= n; i++) if (groups[i] == group) print $2 }
    ' "$ROOT/scripts/packages.txt"
}

# Installs those packages of a group that are missing, and says which.
ensure_packages() {
    local package missing=() found=()
    if ! have dpkg-query || ! have apt-get; then
        warn "not a Debian system; nothing is installed here. Needed, under their Debian names:" \
            "$(packages_of "$1" | sed 's/|.*//' | tr '\n' ' ')"
        return 0
    fi
    while read -r package; do
        # Packages that will do in another's place often cannot be installed beside it.
        package_installed "$package" || missing+=("${package%%|*}")
    done < <(packages_of "$1")
    [ ${#missing[@]} -gt 0 ] || return 0
    say "missing Debian packages ($1): ${missing[*]}"
    apt_update_once
    for package in "${missing[@]}"; do
        if [ -n "$(package_candidate "$package")" ]; then
            found+=("$package")
        else
            warn "this distribution has no package $package; going on without it"
        fi
    done
    [ ${#found[@]} -gt 0 ] || return 0
    say "installing Debian packages ($1): ${found[*]}"
    apt_install "${found[@]}"
}

# --- the Rust toolchain ------------------------------------------------------------------------

# The oldest Rust that builds the workspace.
rust_needed() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml"; }

# Whether version $1 is $2 or newer.
version_reaches() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# Whether the cargo and rustc in directory $1 work and are new enough, and the other programs named
# beside them work.
rust_usable() {
    local dir=$1 program version needed
    shift
    needed=$(rust_needed)
    for program in rustc cargo; do
        [ -x "$dir/$program" ] || return 1
        version=$(cd "$ROOT" && "$dir/$program" --version 2>/dev/null | awk '{ print $2 }') || return 1
        [ -n "$version" ] && version_reaches "$version" "$needed" || return 1
    done
    for program; do
        [ -x "$dir/$program" ] && (cd "$ROOT" && "$dir/$program" --version >/dev/null 2>&1) || return 1
    done
}

# Puts the first toolchain that is new enough, and has the programs named, at the front of PATH. Looks
# along PATH, where rustup installs, and where distributions put a second Rust.
find_rust() {
    local dir dirs
    IFS=: read -r -a dirs <<<"$PATH"
    dirs+=("${CARGO_HOME:-$HOME/.cargo}/bin")
    for dir in "${dirs[@]}" /usr/lib/rust-*/bin; do
        case $dir in /*) ;; *) continue ;; esac
        if rust_usable "$dir" "$@"; then
            PATH=$dir:$PATH
            export PATH
            return 0
        fi
    done
    # rustup is there and another of its toolchains would do.
    for dir in "${dirs[@]}"; do
        [ -x "$dir/rustup" ] || continue
        if RUSTUP_TOOLCHAIN=stable rust_usable "$dir" "$@"; then
            PATH=$dir:$PATH RUSTUP_TOOLCHAIN=stable
            export PATH RUSTUP_TOOLCHAIN
            return 0
        fi
    done
    return 1
}

need_rust() {
    find_rust || die "no Rust $(rust_needed) or newer was found; run: make setup"
}

# Cargo's own retries, for networks that drop a connection now and then.
export CARGO_NET_RETRY=${CARGO_NET_RETRY:-5}
