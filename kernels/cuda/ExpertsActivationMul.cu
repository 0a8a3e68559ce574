// ExpertsActivationMul: out = activate(gate, up) for each slot, with factors of
// its expert. A thread computes one element; blockIdx.y is the slot's place in
// the experts' lists (ExpertGroup), which tells its expert.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, ExpertsActivationMulArgs) {
  int i = blockIdx.y;
  i64 c = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.offsets[a.experts] || c >= a.cols)
    return;
  // Find the last expert whose list begins at or before i.
  int expert = 0, end = a.experts;
  while (end - expert > 1) {
    int middle = (expert + end) / 2;
    if (a.offsets[middle] <= i)
      expert = middle;
    else
      end = middle;
  }
  i64 at = a.slots[i] * a.cols + c;
  float gate = a.gateScale ? a.gateScale[expert] * a.gate[at] : a.gate[at];
  float up = a.upScale ? a.upScale[expert] * a.up[at] : a.up[at];
  a.out[at] = activate(gate, up);
}
