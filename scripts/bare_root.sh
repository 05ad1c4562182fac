# Shared by bare.sh and package_test.sh: a bare Debian in the folder $root. Source it after lib.sh.
# shellcheck shell=bash disable=SC2154

# apt's own sources here, as far as they are Debian's: a line each.
sources() {
    # shellcheck disable=SC2016 # apt expands it
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Origin: Debian' \
        'Created-By: Packages' | sort -u
}

make_root() {
    local release mirror
    # shellcheck source=/dev/null
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(sources | awk -v release="$release" '$3 == release { print $2; exit }')
    [ -n "$mirror" ] || die "apt has no source of Debian $release here"
    ensure_packages bare
    say "making a bare Debian $release in $root"
    debootstrap --variant=minbase "$release" "$root" "$mirror" >/dev/null
    sources >"$root/etc/apt/sources.list"
}

# What is this machine's, and no program.
copy_settings() {
    local cargo=${CARGO_HOME:-$HOME/.cargo} home=$root/root
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    mkdir -p "$home/.cargo" "$root/usr/local/share/ca-certificates"
    cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
    cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
    [ ! -f "$cargo/config.toml" ] || cp "$cargo/config.toml" "$home/.cargo/"
}

# In namespaces of its own, so that mounts and whatever runs end with it.
in_root() {
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare --mount --pid --fork --kill-child -- sh -c '
        mount --bind "$0" "$0" && cd "$0" &&
        mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev &&
        exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root USER=root \
            CI=true CARGO_TERM_COLOR=never ${http_proxy:+http_proxy="$http_proxy"} \
            ${https_proxy:+https_proxy="$https_proxy"} chroot . /bin/bash -euo pipefail -c "$1"' "$root" "$1"
}
