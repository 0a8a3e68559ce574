//===- HeadKeysValues.h - Decompresses a head's keys and values -*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_HEADKEYSVALUES_H
#define MOE_KERNELS_CPU_HEADKEYSVALUES_H

#include "kernels/Abi.h"
#include "kernels/cpu/HeadLinear.h"
#include "kernels/cpu/KvRows.h"

namespace moek {

/// Decompresses blocks of kKeyTile latent cache rows for one head: keys are
/// [W_UK latent | rope key], values W_UV latent.
template <class S> class HeadKeysValues {
public:
  /// Takes the scratch memory that it needs from the start of `scratch`.
  HeadKeysValues(const MlaAttentionArgs &args, std::byte *&scratch) : a(args) {
    auto *next = reinterpret_cast<float *>(scratch);
    auto take = [&](int64_t floats) {
      float *part = next;
      next += floats;
      return part;
    };
    wk = take(kHeadRows * scratchFloats(a.nope));
    cacheStride = scratchFloats(a.latent + a.rope);
    cache = take(kKeyTile * cacheStride);
    rowStride = scratchFloats(a.nope > a.value ? a.nope : a.value);
    rows = take(kKeyTile * rowStride);
    act = reinterpret_cast<const uint8_t **>(next);
    encoded = reinterpret_cast<std::byte *>(act + kKeyTile);
    scratch = encoded + kKeyTile * a8RowBytes(a.latent);
  }

  /// Reads the cache rows of `n` positions, from which the following calls
  /// compute.
  void read(const RingCache &from, int64_t ofHead, int64_t first, int64_t n) {
    head = ofHead;
    count = n;
    readKvRows<S>(from, first, n, 0, a.latent + a.rope, cache, cacheStride);
    encodeRows<S>(a.encoding, cache, cacheStride, n, a.latent, encoded, act);
  }
  /// Returns [n][nope], valid until values() is called.
  Rows keys() {
    if (a.keyGemm)
      multiply(a.keyGemm, a.wk);
    else
      headSums<S>(a.wk, head, 0, a.nope, {cache, cacheStride}, count, rows,
                  rowStride, wk);
    return {rows, rowStride};
  }
  /// Returns [n][rope].
  Rows ropeKeys() const { return {cache + a.latent, cacheStride}; }
  /// Returns [n][value].
  Rows values() {
    multiply(a.valueGemm, a.wv);
    return {rows, rowStride};
  }

private:
  /// Multiplies the head's matrix with the encoded latents.
  void multiply(GemmFn gemm, const WeightView &w) {
    gemm(w.data + head * w.outerStride, w.rowStride, w.rows, act, count, w.cols,
         rows, rowStride);
  }

  const MlaAttentionArgs &a;
  int64_t cacheStride, rowStride;
  float *wk, *cache, *rows;
  const uint8_t **act;
  std::byte *encoded;
  int64_t head = 0, count = 0;
};

} // namespace moek

#endif // MOE_KERNELS_CPU_HEADKEYSVALUES_H
