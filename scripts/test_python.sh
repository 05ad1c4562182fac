#!/usr/bin/env bash
# Builds the Python package, installs it with what its tests need into a fresh virtual environment, and runs the tests.
# Options go to pytest.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_rust
cd "$ROOT"
env=target/python-env
python=$env/bin/python

rm -rf "$env"
python3 -m venv "$env"
"$python" -m pip install --quiet --disable-pip-version-check -r python/tests/requirements.txt
"$python" -m pip install --quiet --disable-pip-version-check -r python/tests/requirements-engines.txt ||
    warn "ray and pyspark cannot be installed: their examples are NOT TESTED"
# The profile of the other tests: most of it is built already, and it checks arithmetic.
VERISUM_WHEEL_PROFILE=dev "$python" -m pip install --quiet --disable-pip-version-check --no-deps ./python
# A cache would land beside the sources.
exec "$python" -m pytest -q -p no:cacheprovider python/tests "$@"
