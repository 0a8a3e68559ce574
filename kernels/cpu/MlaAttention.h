//===- MlaAttention.h - Attention on decompressed keys and values ---------===//
//
// Decompressing a cached row for one head costs (nope + value) * latent
// multiply-adds, as much as some 400 queries spend on it. So a worker takes a
// head, goes over the cache in blocks of kKeyTile rows, decompresses a block
// once and lets all its queries (up to kQuerySpan) pass in tiles: key blocks
// are the outer loop, queries the inner one. Running maxima and sums of the
// span are kept in scratch, weighted sums grow in the output. Keys are
// transposed: then scores are sums of columns like the weighted sums are, with
// no sum over lanes, which takes as long as a third of a key's products.
//
// V2-Lite: a block of cache rows is 144 KiB as floats, its keys and values 80.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_MLAATTENTION_H
#define MOE_KERNELS_CPU_MLAATTENTION_H

#include "kernels/cpu/HeadLinear.h"
#include "kernels/cpu/LatentAttention.h"

namespace moek {

template <class S> class HeadAttention {
public:
  HeadAttention(const MlaAttentionArgs &args, const Step &step,
                std::byte *scratch)
      : a(args), step(step), width(args.nope + args.rope) {
    auto *next = reinterpret_cast<float *>(scratch);
    auto take = [&](int64_t floats) {
      float *part = next;
      next += floats;
      return part;
    };
    wk = take(a.latent * scratchFloats(a.nope));
    cacheStride = scratchFloats(a.latent + a.rope);
    cache = take(kKeyTile * cacheStride);
    columns = take(width * kKeyTile);
    valueStride = scratchFloats(a.nope > a.value ? a.nope : a.value);
    values = take(kKeyTile * valueStride);
    scores = take(kQueryTile * kKeyTile);
    alpha = take(kQueryTile);
    most = take(kQuerySpan);
    sum = take(kQuerySpan);
    act = reinterpret_cast<const uint8_t **>(next);
    encoded = reinterpret_cast<std::byte *>(act + kKeyTile);
  }

  /// All of attention for queries [begin, end) of `head`; begin is a multiple
  /// of kQueryTile.
  void attend(int64_t ofHead, int64_t begin, int64_t end) {
    head = ofHead;
    if (!a.keyGemm)
      headRows<S>(a.wk, head, 0, a.wk.rows, 0, a.wk.cols, wk);
    q = a.q + head * width;
    out = a.out + head * a.value;
    for (int64_t t = begin; t < end; t += kQuerySpan)
      attendSpan(t, end - t < kQuerySpan ? end : t + kQuerySpan);
  }

private:
  void attendSpan(int64_t begin, int64_t end) {
    for (int64_t i = 0; i < end - begin; ++i) {
      most[i] = kMinusInfinity;
      sum[i] = 0;
    }
    // Whole blocks, seen by these queries or not: what a gemm's last bits are
    // goes by the number of its rows, which must not go by the worker's share.
    int64_t cached = step.position + step.tokens;
    for (int64_t first = 0; first < step.position + end; first += kKeyTile) {
      int64_t n = cached - first < kKeyTile ? cached - first : kKeyTile;
      decompress(first, n);
      // Tiles whose last query does not see the block are skipped.
      int64_t tile = first - step.position;
      tile = tile > begin ? tile / kQueryTile * kQueryTile : begin;
      for (; tile < end; tile += kQueryTile) {
        int64_t queries = end - tile < kQueryTile ? end - tile : kQueryTile;
        attendTile(tile, queries, first, n, most + (tile - begin),
                   sum + (tile - begin));
      }
    }
    for (int64_t t = begin; t < end; ++t)
      divideRow<S>(out + t * a.outStride, a.value, sum[t - begin]);
  }

  /// Keys [W_UK latent | rope key], as columns, and values W_UV latent of `n`
  /// cache rows.
  void decompress(int64_t first, int64_t n) {
    readKvRows<S>(a.kv, first, n, a.latent + a.rope, cache, cacheStride);
    encodeRows<S>(a.encoding, cache, cacheStride, n, a.latent, encoded, act);
    float *keys = values; // Until they are columns.
    if (a.keyGemm)
      multiply(a.keyGemm, a.wk, n, keys);
    else
      sumRows<S>({cache, cacheStride}, n, {true}, {wk, scratchFloats(a.nope)},
                 a.latent, a.nope, keys, valueStride);
    transpose({keys, valueStride}, n, a.nope, columns);
    transpose({cache + a.latent, cacheStride}, n, a.rope,
              columns + a.nope * kKeyTile);
    multiply(a.valueGemm, a.wv, n, values);
  }

  /// `n` rows, times the scale of scores, to columns of kKeyTile; rows past the
  /// last are zero.
  void transpose(Rows rows, int64_t n, int64_t count, float *to) const {
    for (int64_t c = 0; c < count; ++c, to += kKeyTile) {
      for (int64_t k = 0; k < n; ++k)
        to[k] = a.scale * rows.data[k * rows.stride + c];
      for (int64_t k = n; k < kKeyTile; ++k)
        to[k] = 0;
    }
  }

  /// The head's matrix times `n` encoded latents.
  void multiply(GemmFn gemm, const WeightView &w, int64_t n, float *to) {
    gemm(w.data + head * w.outerStride, w.rowStride, w.rows, act, n, w.cols, to,
         valueStride);
  }

  /// Rows of the block that starts at `first` which query t sees.
  int64_t visibleTo(int64_t t, int64_t first, int64_t n) const {
    int64_t visible = step.position + t + 1 - first;
    return visible < 0 ? 0 : visible < n ? visible : n;
  }

  void attendTile(int64_t tile, int64_t queries, int64_t first, int64_t n,
                  float *tileMost, float *tileSum) {
    // In whole vectors; the weights of rows past those a query sees are not
    // looked at.
    constexpr int64_t kColumns = S::kSumVecs * S::kWidth;
    static_assert(kKeyTile % kColumns == 0);
    int64_t seen = visibleTo(tile + queries - 1, first, n);
    sumRows<S>({q + tile * a.qStride, a.qStride}, queries, {true},
               {columns, kKeyTile}, width,
               (seen + kColumns - 1) / kColumns * kColumns, scores, kKeyTile);
    for (int64_t i = 0; i < queries; ++i)
      alpha[i] =
          softmaxBlock<S>(scores + i * kKeyTile, visibleTo(tile + i, first, n),
                          tileMost[i], tileSum[i]);
    // What the first query sees all see; the rest, on the diagonal, goes row by
    // row, as a weight of zero would not hide a NaN.
    int64_t common = visibleTo(tile, first, n);
    float *rows = out + tile * a.outStride;
    sumRows<S>({scores, kKeyTile}, queries, {first == 0, alpha},
               {values, valueStride}, common, a.value, rows, a.outStride);
    for (int64_t i = 1; i < queries; ++i)
      sumRows<S>({scores + i * kKeyTile + common, kKeyTile}, 1, {false},
                 {values + common * valueStride, valueStride},
                 visibleTo(tile + i, first, n) - common, a.value,
                 rows + i * a.outStride, a.outStride);
  }

  const MlaAttentionArgs &a;
  const Step &step;
  int64_t width, cacheStride, valueStride;
  float *wk, *cache, *columns, *values, *scores, *alpha, *most, *sum;
  const uint8_t **act;
  std::byte *encoded;
  int64_t head = 0;
  const float *q = nullptr;
  float *out = nullptr;
};

template <class S>
void run(const MlaAttentionArgs &a, const Step &step, const Worker &worker) {
  int64_t tiles = (step.tokens + kQueryTile - 1) / kQueryTile;
  Range share =
      causalShare(a.heads, tiles, 1, step.position / kQueryTile, worker);
  HeadAttention<S> attention(a, step, worker.scratch);
  for (int64_t item = share.begin; item < share.end;) {
    int64_t head = item / tiles, first = item % tiles;
    int64_t last =
        tiles < first + share.end - item ? tiles : first + share.end - item;
    int64_t end = last * kQueryTile;
    attention.attend(head, first * kQueryTile,
                     end < step.tokens ? end : step.tokens);
    item += last - first;
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_MLAATTENTION_H
