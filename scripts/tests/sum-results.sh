#!/usr/bin/env bash
# Tests the sum of the test runners' closing lines.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/tests/assert.sh
. "$here/assert.sh"

sum() { awk -v broken="$1" -f "$here/../sum-results.awk" || echo "status $?"; }

same "cargo, unittest and plain lines" "21 passed, 0 failed, 5 skipped" "$(sum 0 <<'END'
test result: ok. 12 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
Ran 5 tests in 0.002s

OK (skipped=2)
Ran 1 test in 0.002s

OK
5 passed, 0 failed, 1 skipped
END
)"
same "failures are counted and change the status" "13 passed, 4 failed, 1 skipped
status 1" "$(sum 3 <<'END'
test result: FAILED. 10 passed; 1 failed; 0 ignored; 0 measured
Ran 6 tests in 0.002s
FAILED (failures=1, errors=1, skipped=1)
0 passed, 1 failed
END
)"
same "pytest names only what there is" "185 passed, 3 failed, 2 skipped
status 1" "$(sum 0 <<'END'
181 passed in 31.77s
1 failed, 4 passed, 2 skipped, 3 warnings, 2 errors in 63.02s (0:01:03)
END
)"
same "a stage that broke off without a word is a failure" "3 passed, 1 failed, 0 skipped
status 1" "$(echo 'test result: ok. 3 passed; 0 failed; 0 ignored' | sum 1)"
same "no test at all is a failure" "0 passed, 0 failed, 0 skipped
status 1" "$(sum 0 </dev/null)"

finish
