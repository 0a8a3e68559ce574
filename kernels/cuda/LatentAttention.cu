// LatentAttention for any shape and cache type, in float: for cases that
// LatentMma.cu does not support. A block has one token, a KV split and a group
// of heads. Eight rows of the cache at a time are converted to floats in shared
// memory and serve all heads of the group; a warp scores one head; sums
// accumulate in shared memory and are rescaled when a block of rows raises the
// maximum.
//
// Floats in shared memory: queries [kHeads][width], rows [kRows][width], sums
// [kHeads][latent]. With four heads of 576 columns and eight rows that is 9 +
// 18 + 8 = 35 KB; a larger group or block would take too much.

#include "kernels/cuda/Spans.cuh"

constexpr int kHeads = 4, kRows = 8, kThreads = 128;

extern __shared__ float shared[];

MOE_KERNEL(128, 2, LatentAttentionArgs) {
  __shared__ float weights[kHeads][kRows], alphas[kHeads];
  int t = blockIdx.x, span = blockIdx.y, head = blockIdx.z * kHeads;
  if (t >= a.step->tokens)
    return;
  const Sequence &s = a.step->sequence[sequenceOf(a.step, t)];
  int length = spansOf(s, Divisor(u32(a.splits)), 0).length;
  int visible = s.position + t - s.begin + 1;
  int begin = span * length, end = min(begin + length, visible);
  if (begin >= end)
    return;
  int heads = min(a.heads - head, kHeads), width = a.latent + a.rope;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float *q = shared, *rows = q + kHeads * width, *sums = rows + kRows * width;
  for (int i = threadIdx.x; i < heads * width; i += kThreads)
    q[i] = a.q[t * a.qStride + i64(head) * width + i];
  for (int i = threadIdx.x; i < heads * a.latent; i += kThreads)
    sums[i] = 0;
  float most = -infinity(), sum = 0; // Softmax state of the warp's head.
  for (int at = begin; at < end; at += kRows) {
    int count = min(end - at, kRows);
    __syncthreads();
    for (int r = 0; r < count; ++r) {
      i64 row = cacheRow(s.pages, at + r);
      for (int c = threadIdx.x; c < width; c += kThreads)
        rows[r * width + c] = loadKv(a.kv, row, c);
    }
    __syncthreads();
    if (warp < heads) {
      float score = -infinity(); // Lane r keeps the score of row r.
      for (int r = 0; r < count; ++r) {
        float dot = 0;
        for (int c = lane; c < width; c += 32)
          dot = fmaf(q[warp * width + c], rows[r * width + c], dot);
        dot = warpSum(dot) * a.scale;
        score = lane == r ? dot : score;
      }
      // fmaxf drops a NaN, but the NaN's own weight is NaN.
      float next = fmaxf(most, warpMax(score));
      float shift = next == -infinity() ? 0 : next;
      float weight = lane < count ? expf(score - shift) : 0;
      float alpha = expf(most - shift);
      sum = sum * alpha + warpSum(weight);
      most = next;
      if (lane < kRows)
        weights[warp][lane] = weight;
      if (lane == 0)
        alphas[warp] = alpha;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < heads * a.latent; i += kThreads) {
      int h = i / a.latent, c = i % a.latent;
      float x = sums[i] * alphas[h];
      for (int r = 0; r < count; ++r)
        x = fmaf(weights[h][r], rows[r * width + c], x);
      sums[i] = x;
    }
  }
  float *out = a.out + (i64(t) * a.splits + span) * a.outStride;
  if (a.splits > 1 && warp < heads && lane == 0) {
    float *stats = out + i64(a.heads) * a.latent + head + warp;
    stats[0] = most;
    stats[a.heads] = sum;
  }
  __syncthreads();
  if (lane == 0 && warp < kHeads)
    alphas[warp] = a.splits > 1 ? 1 : 1 / sum;
  __syncthreads();
  for (int i = threadIdx.x; i < heads * a.latent; i += kThreads)
    out[i64(head) * a.latent + i] = sums[i] * alphas[i / a.latent];
}
