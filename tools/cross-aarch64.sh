#!/usr/bin/env bash
# Builds the runtime for aarch64 into build-aarch64:
#   tools/cross-aarch64.sh [TARGET...]    builds; by default moert and the tests of kernels
#   tools/cross-aarch64.sh --test         and runs the tests of kernels, on three emulated CPUs
#   tools/cross-aarch64.sh --small        those of detection, of gemms of Q4_K and of attention alone, built into
#                                         build-aarch64-small: what CI runs of this, three minutes of CPU.
#                                         Where the packages cannot be had, says so and does nothing.
# Installs Debian's cross compiler and QEMU's user emulation if they are missing. The target's libraries
# are unpacked into a folder of the user's cache and change nothing on this machine: packages of two
# architectures of which both are installed must have the same version, so that installing them would
# upgrade this machine's.
set -euo pipefail
cd "$(dirname "$0")/.."

# What tools/install-deps.sh has for the runtime and its tests, as far as it is code; and the C and C++ libraries, with
# which the emulator runs programs.
packages=(
  libc6 libgcc-s1 libstdc++6
  libfmt9 libfmt-dev
  libpcre2-8-0 libpcre2-dev
  libutf8proc2 libutf8proc-dev
  libxxhash0 libxxhash-dev
  libedit2 libedit-dev libbsd0 libmd0 libtinfo6
  libssl3 libssl-dev
  libsqlite3-0 libsqlite3-dev
  zlib1g zlib1g-dev
  libgtest-dev libgmock-dev
)
sysroot="${XDG_CACHE_HOME:-$HOME/.cache}/moec/aarch64"

# Ends with the reason why packages cannot be had: an error, but for --small.
mode=${1:-}
lack() {
  [ "$mode" != --small ] || {
    echo "SKIPPED tests for aarch64: $1"
    exit 0
  }
  echo "error: $1" >&2
  exit 1
}

install_tools() {
  local root=()
  [ "$(id -u)" -eq 0 ] || root=(sudo)
  "${root[@]}" apt-get update -q &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
      g++-aarch64-linux-gnu qemu-user
}
if ! command -v aarch64-linux-gnu-g++ >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
  command -v apt-get >/dev/null || lack "install these by other means: g++-aarch64-linux-gnu qemu-user"
  install_tools || lack "g++-aarch64-linux-gnu and qemu-user cannot be installed"
fi

# The list of what is unpacked is written last, so that an interrupted run is repeated.
unpack() {
  echo "== Unpacking ${#packages[@]} packages for arm64 into $sysroot"
  rm -rf "$sysroot"
  mkdir -p "$sysroot"/{usr/lib,apt/state/lists/partial,apt/cache/archives/partial}
  ln -s usr/lib "$sysroot/lib"
  touch "$sysroot/apt/status"
  apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
    -o "Dir::State=$sysroot/apt/state" -o "Dir::State::status=$sysroot/apt/status" -o "Dir::Cache=$sysroot/apt/cache")
  "${apt[@]}" update || return
  (cd "$sysroot/apt/cache" && "${apt[@]}" download "${packages[@]}") || return
  for file in "$sysroot"/apt/cache/*.deb; do
    dpkg-deb --fsys-tarfile "$file" | tar -x -C "$sysroot" --keep-directory-symlink || return
  done
  rm -rf "$sysroot/apt"
  echo "${packages[*]}" >"$sysroot/packages"
}
if [ "$(cat "$sysroot/packages" 2>/dev/null)" != "${packages[*]}" ]; then
  unpack || lack "the target's libraries cannot be downloaded"
fi

folder=build-aarch64
only=()
if [ "$mode" = --small ]; then
  folder=build-aarch64-small
  only=(-B "$folder" "-DMOE_KERNEL_FORMATS=Q4_K;F32;F16")
fi
cmake --preset aarch64 "${only[@]}" -DMOE_SYSROOT="$sysroot"
build() {
  cmake --build "$folder" --target "$@"
}
# run PROGRAM [ARGUMENT...]: on $cpus, by default CPUs with I8MM, with dot products only, and with neither.
run() {
  for cpu in ${cpus:-max neoverse-n1 cortex-a72}; do
    echo "== $1 on $cpu"
    qemu-aarch64 -cpu "$cpu" -L "$sysroot" "$folder/bin/$1" --gtest_brief=1 "${@:2}"
  done
}
case "$mode" in
--small)
  build HostIsaTest GemmConformanceTest KernelConformanceTest
  run HostIsaTest
  cpus="max neoverse-n1" run GemmConformanceTest --gtest_filter='*q4_k*neon*:-*EachWeight*'
  cpus=neoverse-n1 run KernelConformanceTest --gtest_filter='*/AttentionTest.*neon*'
  ;;
--test)
  build HostIsaTest GemmConformanceTest KernelConformanceTest
  run HostIsaTest
  # The reference is tested where this machine runs it itself.
  run GemmConformanceTest --gtest_filter='*neon*'
  run KernelConformanceTest --gtest_filter='*neon*'
  ;;
"") build moert HostIsaTest GemmConformanceTest KernelConformanceTest ;;
*) build "$@" ;;
esac
