#!/usr/bin/env bash
# Installs the Debian packages that building and testing need, and nothing when
# all are there already. Called by quickstart.sh and test.sh.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache python3            # build tools; lit needs python3
  llvm-19-dev llvm-19-tools libmlir-19-dev mlir-19-tools
  libzstd-dev zlib1g-dev libxml2-dev              # what LLVM's CMake files ask for
  flatbuffers-compiler libflatbuffers-dev libfmt-dev libcli11-dev
  libpcre2-dev libutf8proc-dev libedit-dev nlohmann-json3-dev libxxhash-dev
  libgtest-dev libgmock-dev
  libzydis-dev                                    # tests decode machine code
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "error: this script installs Debian packages and found no apt-get; install these by other means: ${missing[*]}" >&2
  exit 1
fi
root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "error: installing packages needs root; run as root: apt-get install ${missing[*]}" >&2
    exit 1
  }
  root=(sudo)
fi
echo "== Installing ${#missing[@]} packages: ${missing[*]}"
"${root[@]}" apt-get update -q
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
