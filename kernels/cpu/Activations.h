//===- Activations.h - Activation functions of an FFN -----------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_ACTIVATIONS_H
#define MOE_KERNELS_CPU_ACTIVATIONS_H

#include "kernels/cpu/Simd.h"

namespace moek {

/// Calls body(fn) once, where fn(g, u) applies the activation to vectors of
/// gate and up values. A NaN in either becomes a NaN in the result because min
/// and max return their second operand when one is NaN.
template <class S, class Body>
MOE_INLINE void withActivation(Activation activation, Body body) {
  using Vec = typename S::Vec;
  switch (activation) {
  case Activation::Silu:
    return body([](Vec g, Vec u) { return S::mul(timesSigmoid<S>(g, g), u); });
  case Activation::Gelu:
    // (1 + tanh z) / 2 equals sigmoid(2 z), which has no difference that
    // cancels.
    return body([](Vec g, Vec u) {
      Vec inner = S::fma(S::mul(g, g), S::set(0.044715f), S::set(1));
      Vec twice = S::mul(S::mul(g, S::set(1.5957691216f)), inner);
      return S::mul(timesSigmoid<S>(g, twice), u);
    });
  case Activation::ClampedSwiglu:
    return body([](Vec g, Vec u) {
      const Vec most = S::set(7), least = S::set(-7);
      g = S::min(most, g);
      u = S::add(S::max(least, S::min(most, u)), S::set(1));
      return S::mul(timesSigmoid<S>(g, S::mul(g, S::set(1.702f))), u);
    });
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_ACTIVATIONS_H
