//===- TestedGemms.cpp - The gemms that this CPU can run ------------------===//

#include "test/kernels/GemmProblem.h"

namespace moek::test {

std::vector<GemmInfo> testedGemms() {
  std::vector<GemmInfo> result;
  for (const GemmInfo &info : gemmTable())
    if (info.isa != Isa::Cuda && hostSupports(info.isa) &&
        resolveGemm(info.name)) // A build may leave some formats out.
      result.push_back(info);
  return result;
}

} // namespace moek::test
