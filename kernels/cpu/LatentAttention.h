//===- LatentAttention.h - Attention on the latent cache --------*- C++ -*-===//
//
// Keys and values are the cache rows themselves (multi-query: all heads share
// them). A block of kKeyTile rows becomes floats in L2 once and serves all of
// the worker's heads of a token; sums grow in the output, rescaled when a
// block raises the maximum (online softmax).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LATENTATTENTION_H
#define MOE_KERNELS_CPU_LATENTATTENTION_H

#include "kernels/cpu/Blocks.h"
#include "kernels/cpu/Softmax.h"

namespace moek {

/// Cache rows [first, first + n) as floats, `stride` apart.
template <class S>
void readKvRows(const KvView &kv, int64_t first, int64_t n, int64_t width,
                float *out, int64_t stride) {
  for (int64_t k = 0; k < n; ++k)
    readKv<S>(kv.type, kv.data + (first + k) * kv.rowStride, width,
              out + k * stride);
}

template <class S>
void run(const LatentAttentionArgs &a, const Step &step, const Worker &worker) {
  int64_t width = a.latent + a.rope, stride = scratchFloats(width);
  auto *block = reinterpret_cast<float *>(worker.scratch);
  float *scores = block + kKeyTile * stride;
  float *most = scores + a.heads * kKeyTile;
  float *sum = most + scratchFloats(a.heads);
  float *alpha = sum + scratchFloats(a.heads);

  Range share = causalShare(1, step.tokens, a.heads, step.position, worker);
  for (int64_t item = share.begin; item < share.end;) {
    int64_t t = item / a.heads, head = item % a.heads;
    int64_t heads = a.heads - head;
    if (heads > share.end - item)
      heads = share.end - item;
    item += heads;

    Rows q{a.q + t * a.qStride + head * width, width};
    float *out = a.out + t * a.outStride + head * a.latent;
    for (int64_t h = 0; h < heads; ++h) {
      most[h] = kMinusInfinity;
      sum[h] = 0;
    }
    int64_t visible = step.position + t + 1;
    for (int64_t first = 0; first < visible; first += kKeyTile) {
      int64_t keys = visible - first < kKeyTile ? visible - first : kKeyTile;
      readKvRows<S>(a.kv, first, keys, width, block, stride);
      dotRows<S>(q, heads, {block, stride}, keys, width, a.scale, scores,
                 kKeyTile);
      for (int64_t h = 0; h < heads; ++h)
        alpha[h] =
            softmaxBlock<S>(scores + h * kKeyTile, keys, most[h], sum[h]);
      sumRows<S>({scores, kKeyTile}, heads, {first == 0, alpha},
                 {block, stride}, keys, a.latent, out, a.latent);
    }
    for (int64_t h = 0; h < heads; ++h)
      divideRow<S>(out + h * a.latent, a.latent, sum[h]);
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_LATENTATTENTION_H
