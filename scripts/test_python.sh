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

# install REQUIREMENTS: with uv, in half of pip's time. Where that cannot reach the registry as pip does, with pip.
install() {
    "$env/bin/uv" pip install --quiet --python "$python" -r "$1" ||
        "$python" -m pip install --quiet --disable-pip-version-check --no-compile -r "$1"
}

# Modules are compiled when they are used: most never are. A cache would land beside the sources.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$ROOT/$env/cache

rm -rf "$env"
python3 -m venv "$env"
"$python" -m pip install --quiet --disable-pip-version-check --no-compile "$(grep '^uv==' python/tests/requirements.txt)"
install python/tests/requirements.txt
install python/tests/requirements-engines.txt ||
    warn "ray and pyspark cannot be installed: their examples are NOT TESTED"
# The profile of the other tests: most of it is built already, and it checks arithmetic.
VERISUM_WHEEL_PROFILE=dev "$python" -m pip install --quiet --disable-pip-version-check --no-deps ./python
# A Python without the GIL has no stable interface yet, so it takes a wheel of its own. PyO3 refuses those before 3.14.
free=$(command -v python3.15t || command -v python3.14t || true)
if [ -n "$free" ]; then
    rm -rf "$env-free"
    "$free" -m venv "$env-free"
    VERISUM_WHEEL_PROFILE=dev "$env-free/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps ./python
    "$env-free/bin/python" python/tests/free_threaded.py
else
    warn "there is no Python without the GIL here (python3.14t or newer): the package is NOT TESTED with one"
fi
exec "$python" -m pytest -q -p no:cacheprovider python/tests "$@"
