// RopeTable: cosines and sines of the step's positions, times a scale.

#include "kernels/cuda/Turn.cuh"

MOE_KERNEL(128, 4, RopeTableArgs) {
  int t = blockIdx.x, half = a.dim / 2;
  if (t >= a.step->tokens)
    return;
  int position = placeOf(a.step, t).position;
  float *row = a.out + i64(t) * a.dim;
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    Turned turned = turn(double(position) * double(a.invFreq[i]));
    row[i] = float(turned.cosine * a.scale);
    row[half + i] = float(turned.sine * a.scale);
  }
}
