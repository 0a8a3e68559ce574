#!/usr/bin/env bash
# From a fresh Debian bookworm to generated text: installs missing packages, builds, compiles the
# included model for this machine, and runs it.
#   tools/quickstart.sh [PROMPT]
set -euo pipefail
cd "$(dirname "$0")/.."
prompt=${1:-"In the beginning God created"}

echo "== 1/4 Packages"
tools/install-deps.sh
echo "== 2/4 Build (the first takes minutes, a second one seconds)"
[ -f build/build.ninja ] || cmake --preset release
cmake --build --preset release --target moec moert
model=models/tiny-kjv/tiny-kjv-q4_k_m.gguf
plan=build/tiny-kjv.fb
echo "== 3/4 moec compile $model --target native -o $plan"
build/bin/moec compile "$model" --target native -o "$plan"
echo "== 4/4 moert run $plan -p \"$prompt\" -n 64"
build/bin/moert run "$plan" -p "$prompt" -n 64
