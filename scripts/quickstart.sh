#!/usr/bin/env bash
# The main job from nothing, in a few minutes on two CPU cores: a demo corpus, a translator trained on
# it, the mean of its last checkpoints, its translations and its BLEU on sentences it has never seen.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

corpus=data/demo run=runs/demo
say() { printf '\n\033[1m%s\033[0m\n' "$*" >&2; }

say "1. A corpus: numbers, times, prices and short sentences, English and German"
.venv/bin/python scripts/make_demo_corpus.py "$corpus"

say "2. Vocabulary, encoded data, training (Ctrl-C saves; run the command again to resume)"
.venv/bin/nmt train configs/demo.yaml

say "3. The mean of the last 5 checkpoints"
.venv/bin/nmt average-checkpoints "$run" --last 5 --output "$run/averaged.safetensors"

say "4. Translations of test sentences: source, translation, reference"
.venv/bin/nmt translate "$run/averaged.safetensors" "$corpus/test.en" --output "$run/test.de"
paste -d '\n' "$corpus/test.en" "$run/test.de" "$corpus/test.de" | awk 'NR <= 18 { print } NR % 3 == 0 && NR <= 18 { print "" }'

say "5. Scores on the whole test set"
.venv/bin/nmt evaluate "$run/averaged.safetensors" --source "$corpus/test.en" --reference "$corpus/test.de"
