#!/usr/bin/env bash
# Runs the whole test suite in the environment of scripts/setup.sh, in one process more than there are cores, and in eight
# at most.
# Arguments go to pytest: `scripts/test.sh -n 0 tests/decoding/search/test_search.py` runs one file in one process.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# The tests start many processes. Where PYTHONDONTWRITEBYTECODE is set, each of them would compile nmt again.
.venv/bin/python -m compileall -q nmt
exec .venv/bin/python -m pytest -n auto --maxprocesses 8 --dist loadfile "$@"
