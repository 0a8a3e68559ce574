//===- LimitIsa.cpp - Tests of kernels as on a lesser CPU -----------------===//
//
// Which tests there are depends on the instruction sets of the CPU, so the
// limit must be known before main(): `tools/test.sh --isa` passes it as
// MOE_TEST_ISA.
//
//===----------------------------------------------------------------------===//

#include "kernels/Registry.h"

#include <cstdio>
#include <cstdlib>

namespace {
[[maybe_unused]] const bool isLimited = [] {
  const char *name = std::getenv("MOE_TEST_ISA");
  if (!name || !*name)
    return false;
  auto most = moek::isaFromName(name);
  if (!most) {
    std::fprintf(stderr, "MOE_TEST_ISA: %s is no instruction set\n", name);
    std::exit(2);
  }
  moek::limitHostIsa(most);
  return true;
}();
} // namespace
