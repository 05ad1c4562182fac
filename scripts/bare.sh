#!/usr/bin/env bash
# Runs the tests in a bare Debian, where nothing is installed but what README's commands install: what
# happens to be on a developer's machine hides a step that is missing. Needs root, takes an hour or more.
#
#     scripts/bare.sh FOLDER [COMMAND]
#
# FOLDER becomes the root directory of that Debian, of the release that runs here; one that is there
# already is used again. It holds a clone of what is committed, where README's commands run, and then
# COMMAND (`make test`). apt's sources, the resolver, this machine's certificates and cargo's
# configuration are copied; no program is. Mounts and processes end with the script.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/bare_root.sh
. "$(dirname "$0")/bare_root.sh"

[ $# -ge 1 ] || die "usage: scripts/bare.sh FOLDER [COMMAND]"
[ "$(id -u)" -eq 0 ] || die "this needs root"
mkdir -p "$1"
root=$(cd "$1" && pwd)
shift
command=${*:-make test}
log=$root/var/log/verisum-bare.log
# Of the user who does the work in there.
home=$root/root

# The lines of README's first block that install and build; the clone is made from here. What a package
# only recommends is not there on every machine.
readme_commands() {
    sed -n '/^## Install$/,/^```$/s/^\$ //p' "$ROOT/README.md" |
        sed -e 's/^sudo //' -e 's/^apt-get install /&-y --no-install-recommends /' -e '/^git clone /d' \
            -e 's/ *#.*//'
}

[ -e "$root/etc/debian_version" ] || make_root
copy_settings
rm -rf "$home/new"
git clone --quiet --no-local "$ROOT" "$home/new"
status=0
{
    # The build of an earlier run may stay.
    in_root "apt-get update -q
        cd /root && if [ -d verisum/target ]; then mv verisum/target new/; fi
        rm -rf verisum && mv new verisum && cd verisum
        set -x; $(readme_commands); $command"
} 2>&1 | tee "$log" || status=$?

say "what was missing:"
grep -ohE 'cannot be skipped in CI: .*|[^ ]+: (command )?not found|No such file or directory.*' "$log" | sort | uniq -c || true
say "$command ended with $status; all that was printed is in $log"
exit "$status"
