#!/bin/sh
# Runs a compiler through ccache, for CMakeLists.txt.
#   tools/cached-compiler.sh BASE CCACHE COMPILER ARGUMENT...
# Paths are relative to BASE, so that clones share the cache. ccache needs this sloppiness to cache files
# with precompiled headers. A header is precompiled in depend mode, which hashes the files that it
# includes: by the output of the preprocessor, which has no #define, a change of macros alone would give
# back what was made before it.
export CCACHE_BASEDIR="$1" CCACHE_SLOPPINESS=pch_defines,time_macros
shift
previous=
for argument; do
  case "$previous $argument" in
  "-o "*.gch) export CCACHE_DEPEND=1 ;;
  esac
  previous=$argument
done
exec "$@"
