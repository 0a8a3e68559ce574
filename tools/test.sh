#!/usr/bin/env bash
# Installs missing packages, builds everything and runs all tests except those labelled nightly. The
# last line is "N passed, N failed"; the exit status is 0 only if none failed.
#   tools/test.sh ROOM...            builds and runs the tests of rooms alone, in minutes: --list names them
#   tools/test.sh --changed [REV]    those of what has changed since REV (default: HEAD)
#   tools/test.sh --isa NAME         those of kernels and whole plans, as on a CPU with that instruction set
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --isa ]; then
  exec tools/test-isa.sh "${@:2}"
elif [ $# -gt 0 ]; then
  exec python3 tools/rooms.py "$@"
fi

echo "== 1/3 Packages"
tools/install-deps.sh
echo "== 2/3 Build"
[ -f build/build.ninja ] || cmake --preset release
cmake --build --preset release
echo "== 3/3 Tests"
rm -f build/ctest-results.xml build/lit-results.xml
status=0
ctest --test-dir build --output-on-failure --label-exclude nightly \
  --parallel "$(nproc)" --output-junit "$PWD/build/ctest-results.xml" || status=1
reports=(build/ctest-results.xml build/lit-results.xml)
if grep -qwE 'avx512_vnni|avx_vnni' /proc/cpuinfo; then
  # Most people's CPUs have AVX2 and no more.
  echo "== As with AVX2"
  tools/test-isa.sh avx2 data/unit || status=1
  reports+=(build/isa-ctest-results.xml build/isa-lit-results.xml)
fi
echo "== For Arm, some kernels in an emulator"
tools/cross-aarch64.sh --small || status=1
python3 tools/count-tests.py "${reports[@]}" || status=1
exit "$status"
