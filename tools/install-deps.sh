#!/usr/bin/env bash
# Installs the Debian packages needed to build and test, and NVRTC if it is missing. Does nothing if
# all are installed. Called by quickstart.sh and test.sh.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache python3            # Build tools; lit needs python3.
  python3-pip                                     # Installs NVRTC.
  llvm-19-dev llvm-19-tools libmlir-19-dev mlir-19-tools
  libzstd-dev zlib1g-dev libxml2-dev              # Needed by LLVM's CMake files.
  flatbuffers-compiler libflatbuffers-dev libfmt-dev libcli11-dev
  libpcre2-dev libutf8proc-dev libedit-dev nlohmann-json3-dev libxxhash-dev
  libyaml-dev
  libboost1.81-dev                                # Headers of Beast and Asio, for the HTTP server.
  libssl-dev                                      # For TLS, and for hashes of keys.
  libsqlite3-dev                                  # For the store of objects that clients keep on a server.
  libgtest-dev libgmock-dev
  libzydis-dev                                    # For tests that decode machine code.
  libjs-katex fonts-katex                         # For formulas in the web page of moert serve,
  node-prismjs                                    # and for coloured code.
  pkg-config                                      # A test builds a program with the installed files.
)

# NVRTC compiles GPU kernels. It comes from a CUDA toolkit, or from its own package, which pip
# installs into the user's cache folder. Without it, tests of GPU kernels are skipped.
install_nvrtc() {
  local folder="${XDG_CACHE_HOME:-$HOME/.cache}/moec/nvrtc"
  compgen -G "$folder/nvidia/*/lib/libnvrtc.so.1[23]" >/dev/null && return
  ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so\.1[23]' && return
  compgen -G '/usr/local/cuda/lib64/libnvrtc.so.1[23]' >/dev/null && return
  echo "== Installing NVRTC into $folder"
  python3 -m pip install --quiet --no-deps --target "$folder" nvidia-cuda-nvrtc ||
    echo "warning: no NVRTC: tests of kernels for GPUs will be skipped" >&2
}

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  install_nvrtc
  exit 0
fi

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
install_nvrtc
