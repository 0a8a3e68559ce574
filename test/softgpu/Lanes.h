//===- Lanes.h - Makes handlers from functions of one lane ------*- C++ -*-===//
//
// A handler is a plain loop over 32 lanes, which the compiler vectorises.
// Inactive lanes compute too; their results are dropped.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_LANES_H
#define MOE_TEST_SOFTGPU_LANES_H

#include "test/softgpu/Warp.h"

namespace softgpu {

/// result = F(sources...); all registers have the width of their type.
template <auto F, class D, class A>
void unary(Warp &warp, const Op &op, Mask mask) {
  const A *a = warp.lanes<A>(op.r[1]);
  alignas(64) D out[kLanes];
  for (int i = 0; i < kLanes; ++i)
    out[i] = F(a[i]);
  store(warp.lanes<D>(op.r[0]), out, mask);
}

template <auto F, class D, class A, class B>
void binary(Warp &warp, const Op &op, Mask mask) {
  const A *a = warp.lanes<A>(op.r[1]);
  const B *b = warp.lanes<B>(op.r[2]);
  alignas(64) D out[kLanes];
  for (int i = 0; i < kLanes; ++i)
    out[i] = F(a[i], b[i]);
  store(warp.lanes<D>(op.r[0]), out, mask);
}

template <auto F, class D, class A, class B, class C>
void ternary(Warp &warp, const Op &op, Mask mask) {
  const A *a = warp.lanes<A>(op.r[1]);
  const B *b = warp.lanes<B>(op.r[2]);
  const C *c = warp.lanes<C>(op.r[3]);
  alignas(64) D out[kLanes];
  for (int i = 0; i < kLanes; ++i)
    out[i] = F(a[i], b[i], c[i]);
  store(warp.lanes<D>(op.r[0]), out, mask);
}

/// Packs 32 bytes that are 0 or 1 into a mask with one bit per lane.
inline Mask maskOf(const uint8_t *bytes) {
  Mask mask = 0;
  for (int i = 0; i < kLanes; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, bytes + i, 8);
    mask |= Mask(eight * 0x0102040810204080ull >> 56) << i;
  }
  return mask;
}

inline void storeMask(Mask &to, Mask from, Mask mask) {
  to = (to & ~mask) | (from & mask);
}

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_LANES_H
