//===- FlashSoftmax.cuh - Weights and sums of queries -----------*- C++ -*-===//
//
// Included by FlashAttention.cu, after its queries. Scores and sums are
// fragments of mma: lane 4 g + c has queries g (elements 0 and 1) and g + 8
// (elements 2 and 3) of sixteen, or of eight (kHalves 1) query g in elements 0
// and 1.
//
//===----------------------------------------------------------------------===//

/// 2^x, within two units in the last place.
MOE_DEVICE float exp2Of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#ifdef MOE_SOFTCAP
/// Prepares capScores(). A product times `unit` is a score times log2(e); with
/// z = score / softcap, a product times `inside` is 2 z log2(e). Capped scores
/// need no further factor, so that `unit` becomes 1.
MOE_DEVICE void insideCap(float (&inside)[kHalves], float (&unit)[kHalves],
                          float softcap) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    inside[half] = unit[half] * (2 / softcap);
    unit[half] = 1;
  }
}
/// Replaces products by cap * tanh z, where `cap` is softcap * log2(e), as cap
/// - 2 cap / (e^2z + 1). The error is one epsilon of the cap.
template <int Count>
MOE_DEVICE void capScores(float (&scores)[Count][4],
                          const float (&inside)[kHalves], float cap) {
#pragma unroll
  for (int i = 0; i < Count; ++i)
#pragma unroll
    for (int k = 0; k < 2 * kHalves; ++k)
      scores[i][k] = cap - 2 * cap / (exp2Of(scores[i][k] * inside[k / 2]) + 1);
}
#endif

/// Makes the scores of keys that a query does not see minus infinity. `at` is
/// the position of the tile's first key.
template <int Count>
MOE_DEVICE void hideUnseen(float (&scores)[Count][4], int at, int c,
                           const Span (&seen)[kHalves]) {
#pragma unroll
  for (int i = 0; i < Count; ++i)
#pragma unroll
    for (int k = 0; k < 2 * kHalves; ++k)
      if (!seen[k / 2].has(at + keyOf(i, k, c)))
        scores[i][k] = -infinity();
}

/// Sets the maximum and the sum of weights, of the lane's queries among those
/// from `first` on, to their values before any key: minus infinity and 0. A
/// query with a sink begins with the sink's score and a weight of one instead,
/// if `isOwn`; of several warps with the same queries only one adds the sink.
MOE_DEVICE void startSums(float (&most)[kHalves], float (&sum)[kHalves],
                          const Work &work, int first, bool isOwn) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    int i = first + 8 * half + lane / 4;
    // A sink is a score in the first split that its token sees.
    bool hasSink =
        work.a.sinks && i < work.count && isOwn &&
        work.span.begin <=
            firstVisible(work.sequence.position + i / kHeads, work.a.window);
    most[half] = hasSink
                     ? work.a.sinks[work.kvHead * kHeads + i % kHeads] * kLog2E
                     : -infinity();
    // The four lanes of a query add up parts of its sum.
    sum[half] = hasSink && lane % 4 == 0 ? kOne : 0;
  }
}

/// Replaces scores by weights kOne * 2^(score * unit - most), where `most` is
/// the query's largest score so far, or at most kSlack less; updates `most` and
/// the lane's part of `sum`. Sums of the tiles before must be multiplied by
/// `alpha`; returns whether a factor of this lane is not 1.
template <int Count>
MOE_DEVICE bool weigh(float (&scores)[Count][4], float (&alpha)[kHalves],
                      float (&most)[kHalves], float (&sum)[kHalves],
                      const float (&unit)[kHalves]) {
  float shift[kHalves];
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    // fmaxf drops a NaN, but the NaN's own weight is NaN.
    float next = -infinity();
#pragma unroll
    for (int i = 0; i < Count; ++i)
      next = fmaxf(next, fmaxf(scores[i][2 * half], scores[i][2 * half + 1]));
    next = fmaxf(next * unit[half], most[half]);
    next = fmaxf(next, __shfl_xor_sync(kAllLanes, next, 1));
    next = fmaxf(next, __shfl_xor_sync(kAllLanes, next, 2));
    if (next <= most[half] + float(kSlack))
      next = most[half];
    float top = next == -infinity() ? 0 : next;
    shift[half] = float(kOneExponent) - top;
    alpha[half] = exp2Of(most[half] - top);
    sum[half] *= alpha[half];
    most[half] = next;
  }
#pragma unroll
  for (int i = 0; i < Count; ++i)
#pragma unroll
    for (int k = 0; k < 2 * kHalves; ++k) {
      scores[i][k] = exp2Of(fmaf(scores[i][k], unit[k / 2], shift[k / 2]));
      sum[k / 2] += scores[i][k];
    }
  return alpha[0] != 1 || alpha[kHalves - 1] != 1;
}

MOE_DEVICE void rescale(float (&sums)[kColumnTiles][4],
                        const float (&alpha)[kHalves]) {
#pragma unroll
  for (int i = 0; i < kColumnTiles; ++i)
#pragma unroll
    for (int k = 0; k < 4; ++k)
      sums[i][k] *= alpha[kHalves == 2 ? k / 2 : 0];
}

/// Adds the parts of a query's sum of weights that its four lanes have.
MOE_DEVICE void addLanes(float (&sum)[kHalves]) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    sum[half] += __shfl_xor_sync(kAllLanes, sum[half], 1);
    sum[half] += __shfl_xor_sync(kAllLanes, sum[half], 2);
  }
}

/// For a KV split, writes the query's largest score, as an exponent of e, and
/// its sum of weights behind the weighted sums, where the kernel that combines
/// splits reads both.
MOE_DEVICE void writeStats(const Work &work, int query, float most, float sum) {
  if (!work.isSplit())
    return;
  float *stats =
      work.outOf(query) + i64(work.a.heads) * MOE_VALUE + work.headOf(query);
  stats[0] = most * kLn2;
  stats[work.a.heads] = sum / kOne;
}
/// The factor of weighted sums as they are stored: the sums of a KV split are
/// not divided by the sum of weights.
MOE_DEVICE float factorOf(const Work &work, float sum) {
  return work.isSplit() ? 1 / kOne : 1 / sum;
}

/// Writes the results, or a KV split's sums, of sixteen queries from `first`
/// on.
MOE_DEVICE void writeSums(const Work &work, int first, const float (&most)[2],
                          const float (&sum)[2],
                          const float (&sums)[kColumnTiles][4]) {
  int lane = threadIdx.x % 32, c = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int i = first + 8 * half + lane / 4;
    Span seen = work.seenBy(i);
    if (i >= work.count || seen.begin >= seen.end)
      continue;
    if (c == 0)
      writeStats(work, i, most[half], sum[half]);
    float factor = factorOf(work, sum[half]);
    float *out = work.outOf(i) + i64(work.headOf(i)) * MOE_VALUE;
    forPairs([&](int j, int k, int otherJ, int otherK) {
      int column = valueColumn(j, k, c);
      storePair(out + column, sums[j][2 * half + k] * factor,
                sums[otherJ][2 * half + otherK] * factor, MOE_VALUE - column);
    });
  }
}
