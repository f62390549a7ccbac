#!/usr/bin/env bash
# Makes .venv with nmt and the tools of its tests, at the versions in scripts/constraints.txt.
# Safe to run again: it installs only when pyproject.toml, the constraints or this script have changed.
# PYTHON names the interpreter to use (default: python3.11, else python3).
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-$(command -v python3.11 || command -v python3)}
wanted=$(cat pyproject.toml scripts/constraints.txt scripts/setup.sh | cksum)
if [ -x .venv/bin/nmt ] && [ "$(cat .venv/installed 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "setup: $python is $("$python" --version), and nmt needs Python 3.11 or newer: set PYTHON=/path/to/python3.11" >&2
    exit 1
}
echo "setup: installing into .venv (PyTorch is large: this takes a while the first time)" >&2
# Without the pip that venv would copy, which some systems leave out; pip installs itself.
"$python" -m venv --without-pip .venv
"$python" -m pip --python .venv/bin/python install --quiet --no-compile --constraint scripts/constraints.txt \
    pip --editable '.[dev]'
# pip would compile with one core. Some packages bring files for newer versions of Python, which do not compile.
.venv/bin/python -m compileall -qq -j 0 -x '/tests/' .venv/lib || true
echo "$wanted" >.venv/installed
