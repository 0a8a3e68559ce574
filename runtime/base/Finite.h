//===- Finite.h - Tests floats for NaN and infinity -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_FINITE_H
#define MOE_RUNTIME_BASE_FINITE_H

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace moert {

/// Returns whether no value is NaN or infinite. The exponent bits of such
/// values are all ones, so adding one to the exponent carries into the sign
/// bit. These integer operations exist as vector operations on every CPU, and
/// the fixed number of lanes lets the compiler use them.
inline bool allFinite(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  auto carry = [](float value) {
    return (std::bit_cast<uint32_t>(value) & 0x7fffffff) + 0x00800000;
  };
  uint32_t carries[kLanes] = {}, any = 0;
  size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      carries[lane] |= carry(values[i + lane]);
  for (size_t i = whole; i < values.size(); ++i)
    any |= carry(values[i]);
  for (uint32_t lane : carries)
    any |= lane;
  return (any & 0x80000000) == 0;
}

} // namespace moert

#endif // MOE_RUNTIME_BASE_FINITE_H
