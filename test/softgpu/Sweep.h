//===- Sweep.h - Every instruction, to compare with silicon -----*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_SWEEP_H
#define MOE_TEST_SOFTGPU_SWEEP_H

#include "test/softgpu/PtxTest.h"

#include <string>
#include <vector>

namespace softgpu {

/// What operands are: their edge cases, and random bits.
enum class Values : uint8_t {
  Integers,
  Floats,
  Doubles,
  Halves,
  Bfloats,
  Bytes
};

/// %d from %a, %b, %c, %e, of these widths.
struct SweepCase {
  std::string text;
  Widths widths;
  Values values;
};

/// Every opcode with every modifier and type that the decoder takes, in the
/// forms that PTX has on sm_90.
std::vector<SweepCase> sweepCases();

/// Approximations, of which silicon gives other bits, and whose results are
/// exact only where `sweepRows` of them are infinite, zero or NaN.
std::vector<SweepCase> approximateCases();

/// Operands of a case, the same on every machine; a multiple of 96.
std::vector<Operands> sweepRows(const SweepCase &sweep);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_SWEEP_H
