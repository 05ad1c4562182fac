#!/usr/bin/env bash
# Tests .ci/run in a tree of stand-ins: what counts towards its exit code.
# shellcheck disable=SC2016 # the stand-ins expand their own variables
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/tests/assert.sh
. "$here/assert.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/.ci" "$work/scripts" "$work/bin"
cp "$here/../../.ci/run" "$work/.ci/run"
printf '#!/bin/sh\n[ "$1" != "${FAILS:-}" ]\n' >"$work/scripts/setup.sh"
cat >"$work/bin/make" <<'END'
#!/bin/sh
for word; do [ "$word" != "${FAILS:-}" ] || exit 1; done
echo "1 passed, 0 failed, 0 skipped"
END
chmod +x "$work/scripts/setup.sh" "$work/bin/make"

# ci FAILS: the exit code of a run in which one part fails.
ci() {
    local code=0
    FAILS=$1 PATH=$work/bin:$PATH TEST_LEVELS_MISSING='' bash "$work/.ci/run" >"$work/out" 2>&1 || code=$?
    echo "$code"
}

same "all is well" 0 "$(ci none)"
for part in build lint test; do
    same "a failed $part counts" 1 "$(ci "$part")"
done
# Only the tools of the tests, which are installed beside the checks.
sed -i 's/"${FAILS:-}" \] || exit 1/never ] || exit 1/' "$work/bin/make"
same "tools that cannot be installed count" 1 "$(ci test)"
same "the sum is the last line" "1 passed, 0 failed, 0 skipped" "$(tail -n 1 "$work/out")"
finish
