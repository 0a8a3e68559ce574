//===- Sweep.h - Cases that compare instructions with silicon ---*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_SWEEP_H
#define MOE_TEST_SOFTGPU_SWEEP_H

#include "test/softgpu/PtxTest.h"

#include <string>
#include <vector>

namespace softgpu {

/// Kinds of operand values; each has its edge cases, and random bits.
enum class Values : uint8_t {
  Integers,
  Floats,
  Doubles,
  Halves,
  Bfloats,
  Bytes
};

/// Computes %d from %a, %b, %c and %e, which have these widths.
struct SweepCase {
  std::string text;
  Widths widths;
  Values values;
};

/// Returns every opcode with every modifier and type that the decoder accepts,
/// in the forms that PTX has on sm_90.
std::vector<SweepCase> sweepCases();

/// Returns approximations. Silicon gives other bits for them; results are exact
/// only where they are infinite, zero or NaN.
std::vector<SweepCase> approximateCases();

/// Returns the operands of a case, the same on every machine; their number is a
/// multiple of 96.
std::vector<Operands> sweepRows(const SweepCase &sweep);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_SWEEP_H
