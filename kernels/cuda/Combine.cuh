//===- Combine.cuh - Combines the KV splits of attention --------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_COMBINE_CUH
#define MOE_KERNELS_CUDA_COMBINE_CUH

#include "kernels/cuda/Device.cuh"

/// A block combines kCombined columns of a head; each lane of a warp has
/// kColumns neighbouring ones, which it loads with one instruction.
constexpr int kCombined = MOE_COLUMNS, kColumns = kCombined / 32;
struct alignas(4 * kColumns) Columns {
  float of[kColumns];
};
/// Each of kWarps warps has the loads of kAhead splits in flight at a time.
constexpr int kWarps = 8, kAhead = 8, kTogether = kWarps * kAhead;

static_assert(kAhead <= 32, "a lane for each split of a warp");

/// out = sum over splits of e_s x_s / sum over splits of e_s w_s, with e_s =
/// exp(maximum of split s - largest maximum), for kCombined columns of a
/// token's head from column `block` * kCombined on. x_s are the weighted sums
/// of split s and w_s its sum of weights, of `used` splits; the row of a split
/// is [heads * value sums | heads maxima | heads sums of weights], and rows are
/// `stride` floats apart.
///
/// Needs 256 threads. Warp w takes splits w, w + 8, ..., relative to its own
/// running maximum; the warps' results are added in the order of warps. Loads
/// have no branch around them: beyond the last split they read the last one
/// again, and its weight is zero.
MOE_DEVICE void combineSplits(const float *rows, i64 stride, int used,
                              int heads, int value, int head, int block,
                              float *out) {
  __shared__ float parts[kWarps][kCombined], stats[kWarps][2];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int column = block * kCombined + lane * kColumns;
  const float *x = rows + i64(head) * value + min(column, value - kColumns);
  const float *maxima = rows + i64(heads) * value + head;
  u32 pitch = u32(stride) * 4; // Distance of rows in bytes.
  auto rowOf = [&](const float *from, int i) {
    return (const float *)((const char *)from +
                           u64(u32(min(i, used - 1))) * pitch);
  };
  float most = -infinity(), total = 0, sums[kColumns] = {};
  for (int at = warp; at < used; at += kTogether) {
    // Lane j < kAhead has the maximum and the sum of weights of the warp's j-th
    // split of this round.
    int own = at + kWarps * lane;
    bool isThere = lane < kAhead && own < used;
    const float *of = rowOf(maxima, isThere ? own : at);
    float maximum = of[0], weight = of[heads];
    Columns ahead[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      ahead[j] = *(const Columns *)rowOf(x, at + kWarps * j);
    // Lanes from kAhead on repeat another lane's value.
    float next = fmaxf(most, warpMax(maximum));
    float shift = next == -infinity() ? 0 : next, alpha = expf(most - shift);
    float factor = isThere ? expf(maximum - shift) : 0;
    most = next;
    total = fmaf(factor, weight, total * alpha);
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      sums[c] *= alpha;
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      float each = __shfl_sync(kAllLanes, factor, j);
      bool isUsed = at + kWarps * j < used;
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        sums[c] = fmaf(each, isUsed ? ahead[j].of[c] : 0, sums[c]);
    }
  }
  total = warpSum(total);
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    parts[warp][lane * kColumns + c] = sums[c];
  if (lane == 0) {
    stats[warp][0] = most;
    stats[warp][1] = total;
  }
  __syncthreads();
  int own = threadIdx.x, c = block * kCombined + own;
  if (own >= kCombined || c >= value)
    return;
  float top = -infinity(), sum = 0, all = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w)
    top = fmaxf(top, stats[w][0]);
  float shift = top == -infinity() ? 0 : top;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    float factor = expf(stats[w][0] - shift);
    sum = fmaf(factor, parts[w][own], sum);
    all = fmaf(factor, stats[w][1], all);
  }
  out[i64(head) * value + c] = sum / all;
}

#endif // MOE_KERNELS_CUDA_COMBINE_CUH
