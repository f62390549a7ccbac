#!/usr/bin/env bash
# Tests in programs that scripts/test.sh does without: the pages that nmt makes in headless Chromium, and exported
# models in Firefox's translation engine. Debian: apt-get install chromium chromium-driver nodejs npm.
# SCREENSHOTS names a folder for pictures of the pages; arguments go to pytest.
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
# Without it Node.js does not start the engine's worker: the package was published without this file.
echo '{"type": "commonjs"}' >"$BERGAMOT/node_modules/@browsermt/bergamot-translator/worker/package.json"
exec scripts/test.sh tests/serve/page_in_chromium.py tests/pages/*/page_in_chromium.py tests/interop/bergamot/bergamot_in_node.py "$@"
