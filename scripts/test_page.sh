#!/usr/bin/env bash
# Tests the pages that nmt makes in headless Chromium (Debian: apt-get install chromium chromium-driver), which
# scripts/test.sh does without. SCREENSHOTS names a folder for pictures of them; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in chromium chromedriver; do
    command -v "$program" >/dev/null || {
        echo "test_page: $program is not installed: apt-get install chromium chromium-driver" >&2
        exit 1
    }
done
exec scripts/test.sh tests/commands/*/page_in_chromium.py "$@"
