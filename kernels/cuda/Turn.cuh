//===- Turn.cuh - Cosine and sine of RoPE angles ----------------*- C++ -*-===//
//
// In double, because at position 10^6 a float angle would be off by 0.03. The
// library's sine keeps a table in local memory for larger angles than occur
// here: position times at most one radian is below 2^31.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_TURN_CUH
#define MOE_KERNELS_CUDA_TURN_CUH

#include "kernels/cuda/Device.cuh"

struct Turned {
  double cosine, sine;
};

MOE_DEVICE Turned turn(double angle) {
  // angle - k pi / 2, with pi / 2 in two parts: for k below 2^31 the rest is
  // exact to 2^-53 of pi / 4 within a few units, far more precise than a float.
  double k = rint(angle * 0.63661977236758134);
  double x = fma(-k, 1.5707963267948966, angle);
  x = fma(-k, 6.123233995736766e-17, x);
  // Taylor series on [-pi/4, pi/4]: the first omitted terms are below 3e-17.
  double y = x * x;
  double s = -7.6471637318198165e-13; // Coefficient -1/15!
  s = fma(s, y, 1.6059043836821613e-10);
  s = fma(s, y, -2.5052108385441719e-08);
  s = fma(s, y, 2.7557319223985893e-06);
  s = fma(s, y, -1.9841269841269841e-04);
  s = fma(s, y, 8.3333333333333333e-03);
  s = fma(s, y, -1.6666666666666667e-01);
  s = fma(s * y, x, x);
  double c = 4.7794773323873853e-14; // Coefficient 1/16!
  c = fma(c, y, -1.1470745597729725e-11);
  c = fma(c, y, 2.0876756987868099e-09);
  c = fma(c, y, -2.7557319223985891e-07);
  c = fma(c, y, 2.4801587301587302e-05);
  c = fma(c, y, -1.3888888888888889e-03);
  c = fma(c, y, 4.1666666666666667e-02);
  c = fma(c, y, -0.5);
  c = fma(c, y, 1.0);
  int quarter = int(i64(k) & 3);
  double cosine = quarter & 1 ? s : c, sine = quarter & 1 ? c : s;
  return {quarter == 1 || quarter == 2 ? -cosine : cosine,
          quarter >= 2 ? -sine : sine};
}

#endif // MOE_KERNELS_CUDA_TURN_CUH
