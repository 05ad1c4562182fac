#!/usr/bin/env bash
# Removes what install.sh put below $DESTDIR$PREFIX, and those directories of its own that are then
# empty.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
documents=$DESTDIR$PREFIX/share/doc/verisum
list=$documents/installed-files
[ -f "$list" ] || die "nothing to remove: $list does not exist"

count=0
while IFS= read -r path; do
    rm -f "$DESTDIR$path"
    count=$((count + 1))
done < <(cat "$list")
rmdir "$documents/docs/results" "$documents/docs" "$documents/examples" "$documents" "$DESTDIR$PREFIX/libexec/verisum" 2>/dev/null || true
if [ -z "$DESTDIR" ] && [ "$(id -u)" -eq 0 ] && have ldconfig; then
    ldconfig
fi
say "removed $count files below $DESTDIR$PREFIX"
