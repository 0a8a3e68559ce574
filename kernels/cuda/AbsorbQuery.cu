// AbsorbQuery: [W_UK^T q_nope | q_rope] per head, for W_UK in the file's
// layout, whose columns are the outputs. A thread computes one column of a
// head: it loops over the matrix's rows, for up to eight tokens. (With a
// transposed W_UK the op is a HeadLinear.)

#include "kernels/cuda/Gguf.cuh"

MOE_KERNEL(128, 4, AbsorbQueryArgs) {
  constexpr int kRows = 8;
  int first = blockIdx.y * kRows, head = blockIdx.z;
  int count = min(a.step->tokens - first, kRows);
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (count <= 0 || c >= a.latent + a.rope)
    return;
  const float *q = a.q + first * a.qStride + i64(head) * (a.nope + a.rope);
  float *out =
      a.out + first * a.outStride + i64(head) * (a.latent + a.rope) + c;
  if (c >= a.latent) {
    for (int i = 0; i < count; ++i)
      out[i * a.outStride] = q[i * a.qStride + a.nope + c - a.latent];
    return;
  }
  const u8 *w = a.w.data + head * a.w.outerStride;
  float sums[kRows] = {};
  for (int r = 0; r < a.nope; ++r, w += a.w.rowStride) {
    float weight = gguf::valueAt(w, c);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      if (i < count)
        sums[i] = fmaf(weight, q[i * a.qStride + r], sums[i]);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i)
    if (i < count)
      out[i * a.outStride] = sums[i];
}
