// AbsorbQuery: out = [W_UK^T q_nope | q_rope] for each head, with W_UK in the
// file's layout: a row has the `latent` outputs. A lane computes kEach outputs,
// of one token or of up to four, in kRows * kEach registers: eight outputs
// where the format can be decoded eight elements at a time (MOE_EIGHT), so that
// a block has 256, otherwise two, so that it has 64. The block's eight warps
// take the matrix's rows in turn (a head has 128); their sums are added in the
// order of warps. For one token a warp has eight rows in flight: the 32 blocks
// of DeepSeek-V2-Lite do not fill a GPU, and with 16 rows a warp they wait for
// memory twice. The last block along x of a head copies q_rope. (With a
// transposed W_UK the op is a HeadLinear.)

#include "kernels/cuda/Gguf.cuh"

#ifdef MOE_EIGHT
constexpr int kEach = 8;
#else
constexpr int kEach = 2;
#endif
constexpr int kRows = MOE_ROWS, kWarps = 8, kLanes = 32;
constexpr int kUnrolled = kRows == 1 ? 8 : 2;
constexpr int kColumns = kLanes * kEach;

/// sums[t][i] += w[r][c + i] * q[t][r] over the warp's rows r, for the first
/// `count` tokens. `IsWhole`: columns c .. c + 7 exist and are loaded together.
/// Otherwise columns beyond `latent` count as zero.
template <bool IsWhole>
MOE_DEVICE void multiply(const AbsorbQueryArgs &a, const u8 *w, const float *q,
                         int c, int count, float (&sums)[kRows][kEach]) {
#pragma unroll(IsWhole ? kUnrolled : 1)
  for (int r = threadIdx.x / kLanes; r < a.nope; r += kWarps) {
    const u8 *row = w + r * a.w.rowStride;
    float weights[kEach];
#ifdef MOE_EIGHT
    if constexpr (IsWhole)
      gguf::eightAt(row, c, weights);
    else
#endif
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        weights[i] = c + i < a.latent ? gguf::valueAt(row, c + i) : 0;
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
      float x = t < count ? q[t * a.qStride + r] : 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        sums[t][i] = fmaf(weights[i], x, sums[t][i]);
    }
  }
}

MOE_KERNEL(256, 2, AbsorbQueryArgs) {
  __shared__ float parts[kWarps][kColumns];
  int first = blockIdx.y * kRows, head = blockIdx.z;
  int count = min(a.step->tokens - first, kRows);
  if (count <= 0)
    return;
  int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  int begin = blockIdx.x * kColumns, c = begin + lane * kEach;
  const float *q = a.q + first * a.qStride + i64(head) * (a.nope + a.rope);
  float *out = a.out + first * a.outStride + i64(head) * (a.latent + a.rope);
  float sums[kRows][kEach] = {};
  const u8 *w = a.w.data + head * a.w.outerStride;
#ifdef MOE_EIGHT
  if (c + kEach <= a.latent && (u64(w) | u64(a.w.rowStride)) % 8 == 0)
    multiply<true>(a, w, q, c, count, sums);
  else
#endif
      if (c < a.latent)
    multiply<false>(a, w, q, c, count, sums);
#pragma unroll
  for (int t = 0; t < kRows; ++t) {
    if (t >= count)
      break;
#pragma unroll
    for (int i = 0; i < kEach; ++i) // Lanes write to different banks.
      parts[warp][i * kLanes + lane] = sums[t][i];
    __syncthreads();
    if (threadIdx.x < kColumns && begin + int(threadIdx.x) < a.latent) {
      int own = threadIdx.x % kEach * kLanes + threadIdx.x / kEach;
      float sum = 0;
#pragma unroll
      for (int k = 0; k < kWarps; ++k)
        sum += parts[k][own];
      out[t * a.outStride + begin + threadIdx.x] = sum;
    }
    __syncthreads();
  }
  if (blockIdx.x == gridDim.x - 1)
    for (int i = threadIdx.x; i < count * a.rope; i += blockDim.x) {
      int t = i / a.rope, k = i % a.rope;
      out[t * a.outStride + a.latent + k] = q[t * a.qStride + a.nope + k];
    }
}
