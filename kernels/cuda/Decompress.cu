// Decompress: multiplies cached latents with a head's matrix to get its keys or
// values for MlaAttention.cu (DecompressArgs). A block has eight positions,
// whose latents it converts to floats in shared memory. If the matrix's rows
// are the outputs, a warp computes one output at a time, with its lanes along
// the latent; if the matrix is transposed (MOE_TRANSPOSED), a thread computes
// one output.

#include "kernels/cuda/Gguf.cuh"
#include "kernels/cuda/KvCache.cuh"

constexpr int kRows = 8;

extern __shared__ float latents[]; // [kRows][latent]

MOE_KERNEL(256, 2, DecompressArgs) {
  // The block's positions, numbered across all sequences.
  i64 first = i64(blockIdx.x) * kRows, base = 0;
  int head = blockIdx.y, lane = threadIdx.x % 32;
  int count = 0;
  for (int s = 0; s < a.step->sequences; ++s) {
    const Sequence &sequence = a.step->sequence[s];
    int visible = sequence.position + sequence.count;
    for (int r = 0; r < kRows; ++r) {
      i64 position = first + r - base;
      if (position < 0 || position >= visible)
        continue;
      i64 row = cacheRow(sequence.pages, int(position));
      for (int c = threadIdx.x; c < a.latent; c += blockDim.x)
        latents[r * a.latent + c] = loadKv(a.kv, row, c);
      count = r + 1;
    }
    base += visible;
  }
  if (count == 0)
    return;
  __syncthreads();
  const u8 *w = a.w.data + (a.firstHead + head) * a.w.outerStride;
  float *out = a.out + (head * a.positions + first) * a.width + a.column;
#ifdef MOE_TRANSPOSED
  for (int n = threadIdx.x; n < a.cols; n += blockDim.x) {
    float sums[kRows] = {};
    for (int c = 0; c < a.latent; ++c) {
      float weight = gguf::valueAt(w + c * a.w.rowStride, n);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        if (r < count)
          sums[r] = fmaf(weight, latents[r * a.latent + c], sums[r]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (r < count)
        out[i64(r) * a.width + n] = sums[r];
  }
#else
  for (int n = threadIdx.x / 32; n < a.cols; n += blockDim.x / 32) {
    float sums[kRows] = {};
    for (int c = lane; c < a.latent; c += 32) {
      float weight = gguf::valueAt(w + n * a.w.rowStride, c);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        if (r < count)
          sums[r] = fmaf(weight, latents[r * a.latent + c], sums[r]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float sum = warpSum(sums[r]);
      if (r < count && lane == r)
        out[i64(r) * a.width + n] = sum;
    }
  }
#endif
}
