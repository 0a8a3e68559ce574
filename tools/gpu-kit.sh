#!/bin/sh
# Ten minutes on a lent GPU: make a folder here, run it there, read its report here.
#   tools/gpu-kit.sh make DIR              a folder of at most 60 MiB, from a finished build
#   ./gpu-kit.sh run [correctness|speed]   in that folder: report.jsonl, a line a step, and report.md
#   tools/gpu-kit.sh read REPORT.jsonl     measured beside predicted, and a calibrated target
# --help after any of them describes its options.
here=$(dirname "$(readlink -f "$0")")
exec python3 -B "$here/gpu-kit/kit.py" "$@"
