//===- Activations.h - Activation functions of an FFN -----------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_ACTIVATIONS_H
#define MOE_KERNELS_CPU_ACTIVATIONS_H

#include "kernels/cpu/Simd.h"

namespace moek {

/// x * (1 + erf(x / sqrt(2))) / 2. With z = |x| / sqrt(2), erfc(z) is t e^(p(t)
/// - z^2) for t = 1 / (1 + z / 2), and the polynomial p is a Chebyshev fit of
/// ln(erfc(z) / t) + z^2 for t from 0.12, where erfc underflows, to 1: off by
/// 7e-8, and by 3e-7 with the rounding of floats. The result is max(x, 0) -
/// |x| erfc(z) / 2, which needs no case for either sign.
template <class S> MOE_INLINE typename S::Vec geluErf(typename S::Vec x) {
  using Vec = typename S::Vec;
  Vec size = S::max(S::sub(S::zero(), x), x);
  Vec z = S::mul(size, S::set(0.70710678f));
  Vec t = S::div(S::set(1), S::fma(z, S::set(0.5f), S::set(1)));
  Vec p = S::set(0.16738101f);
  for (float c :
       {-0.80132526f, 1.43554546f, -1.06009939f, 0.213782741f, -0.150773007f,
        0.0846820954f, 0.376550192f, 0.999756808f, -1.26550058f})
    p = S::fma(p, t, S::set(c));
  Vec half = S::mul(S::mul(t, S::set(0.5f)), S::exp(S::sub(p, S::mul(z, z))));
  // An infinite x has no tail: 0 times it would be NaN.
  Vec tail = S::mul(S::min(S::set(1e30f), size), half);
  return S::sub(S::max(S::zero(), x), tail);
}

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
  case Activation::Relu:
    return body([](Vec g, Vec u) { return S::mul(S::max(S::zero(), g), u); });
  case Activation::GeluErf:
    return body([](Vec g, Vec u) { return S::mul(geluErf<S>(g), u); });
  }
}

/// ln(1 + e^x) = max(x, 0) + ln(1 + e), where e = e^-|x| is at most 1. ln(1 +
/// e) is 2 artanh(t) with t = e / (2 + e), at most 1/3; seven terms of its
/// series leave 2e-8 of it.
template <class S> MOE_INLINE typename S::Vec softplus(typename S::Vec x) {
  using Vec = typename S::Vec;
  Vec e = S::exp(S::min(x, S::sub(S::zero(), x)));
  Vec t = S::div(e, S::add(S::set(2), e)), square = S::mul(t, t);
  Vec sum = S::set(1.0f / 13);
  for (float n : {11.0f, 9.0f, 7.0f, 5.0f, 3.0f, 1.0f})
    sum = S::fma(sum, square, S::set(1 / n));
  return S::fma(S::add(t, t), sum, S::max(S::zero(), x));
}

/// Calls body(fn) once, where fn(x, g) multiplies x by the gate of g.
template <class S, class Body> MOE_INLINE void withGate(Gate gate, Body body) {
  using Vec = typename S::Vec;
  switch (gate) {
  case Gate::Sigmoid:
    return body([](Vec x, Vec g) { return timesSigmoid<S>(x, g); });
  case Gate::Softplus:
    return body([](Vec x, Vec g) { return S::mul(x, softplus<S>(g)); });
  case Gate::Identity:
    return body([](Vec x, Vec g) { return S::mul(x, g); });
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_ACTIVATIONS_H
