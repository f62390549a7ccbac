#!/usr/bin/env bash
# Runs the whole test suite in the environment of scripts/setup.sh, a process for each core, eight at most; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
exec .venv/bin/python -m pytest -n auto --maxprocesses 8 --dist loadfile "$@"
