#!/usr/bin/env bash
# Runs the whole test suite in the environment of scripts/setup.sh, a process for each core and eight at most.
# Arguments go to pytest: `scripts/test.sh -n 0 tests/decoding/search/test_search.py` runs one file in one process.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
exec .venv/bin/python -m pytest -n auto --maxprocesses 8 --dist loadfile "$@"
