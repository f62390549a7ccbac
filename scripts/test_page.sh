#!/usr/bin/env bash
# Runs the tests that need other programs: nmt's pages in headless Chromium, and exported models in Firefox's translation
# engine. Debian: apt-get install chromium chromium-driver nodejs npm.
# SCREENSHOTS is a folder for pictures of the pages; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in chromium chromedriver node npm; do
    command -v "$program" >/dev/null || {
        echo "test_page: $program is not installed: apt-get install chromium chromium-driver nodejs npm" >&2
        exit 1
    }
done
export BERGAMOT="$PWD/.venv/bergamot" # for scripts/bergamot_translate.mjs
mkdir -p "$BERGAMOT"
npm install --silent --no-fund --prefix "$BERGAMOT" @browsermt/bergamot-translator@0.4.9 axe-core@4.14.1
export AXE="$BERGAMOT/node_modules/axe-core/axe.min.js" # finds what hinders people with disabilities
# Node.js needs this file to start the engine's worker, and the published package does not have it.
echo '{"type": "commonjs"}' >"$BERGAMOT/node_modules/@browsermt/bergamot-translator/worker/package.json"
exec scripts/test.sh tests/serve/page_in_chromium.py tests/pages/*/page_in_chromium.py tests/interop/bergamot/bergamot_in_node.py "$@"
