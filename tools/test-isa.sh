#!/usr/bin/env bash
# Runs the tests of kernels and of whole plans as on a CPU that has the instruction set NAME and those
# that it runs, and no other: tools/test.sh --isa NAME [PATTERN]. What this CPU lacks of it is executed
# in software. PATTERN: a regular expression of names of lit tests, instead of all of whole plans but
# those of software GPUs, which take long and say no more about CPUs. The last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
isa=${1:-}
plans=${2:-:: (e2e|data/unit)/}
case "$isa" in
ref | avx2 | avxvnni | avx512 | amx) ;;
*)
  echo "tools/test.sh --isa NAME: ref, avx2, avxvnni, avx512 or amx" >&2
  exit 2
  ;;
esac

[ -f build/build.ninja ] || cmake --preset release
cmake --build --preset release --target moec moert moert-soft test_data \
  KernelConformanceTest GemmConformanceTest AvxVnniTest HostIsaTest
rm -f build/isa-ctest-results.xml build/isa-lit-results.xml
status=0
# Tests of kernels that the limit leaves out are known to ctest, but run nothing.
MOE_TEST_ISA=$isa ctest --test-dir build --output-on-failure -L isa --label-exclude nightly \
  --parallel "$(nproc)" --output-junit "$PWD/build/isa-ctest-results.xml" || status=1
lit=$(sed -n 's/^MOE_LIT:FILEPATH=//p' build/CMakeCache.txt)
python3 "$lit" -sv --param "isa=$isa" --filter "$plans" --filter-out "/gpu-" \
  --xunit-xml-output build/isa-lit-results.xml build/test || status=1
python3 tools/count-tests.py build/isa-ctest-results.xml build/isa-lit-results.xml || status=1
exit "$status"
