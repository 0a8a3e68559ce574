// DeltaRule: the gated delta rule, a sequence's rows one after the other. A
// block keeps 32 columns of a head's matrix S in registers from the first row
// to the last, so that S is read and written once per step, in whole sectors. A
// lane has one column, a warp some of the keys (32 of 128). S^T k and S^T q are
// sums over all keys, hence over the warps, added in their order: two barriers
// per row, or one with MOE_SUMS, which does not need S^T k. With MOE_CHANNELS a
// row's decays are in shared memory beside its keys.
//
// Steps of any size give the same bits, because the computation of a row does
// not depend on where its step began.

#include "kernels/cuda/Rms.cuh"
#include "kernels/cuda/States.cuh"

/// A warp has at most 32 elements of a key, read four at a time from shared
/// memory. Keys of 512, the longest, take 16 warps, for which a multiprocessor
/// has enough registers.
constexpr int kWarps = MOE_KEY <= 128 ? 4 : (MOE_KEY + 31) / 32;
constexpr int kKeys = (MOE_KEY + 4 * kWarps - 1) / (4 * kWarps) * 4;
constexpr int kAll = kKeys * kWarps;
/// Number of rows whose keys, queries and values are loaded to shared memory at
/// a time: 34 KB for 512 keys, with decays 25 KB.
constexpr int kRows = MOE_CHANNELS ? 4 : 8;

struct alignas(16) Row {
  float key[kAll], query[kAll]; // Elements as in x; zeros from MOE_KEY on.
  float decays[MOE_CHANNELS ? kAll : 4];
  float value[32]; // Elements of the block's columns.
  float keyScale, queryScale, strength, decay;
};

MOE_KERNEL(32 * kWarps, 1, DeltaRuleArgs) {
  __shared__ Row rows[kRows];
  // A row has a single barrier, so that the next row's answers need other
  // memory.
  __shared__ float found[kWarps][32], answers[1 + MOE_SUMS][kWarps][32];
  if (blockIdx.z >= a.step->sequences)
    return;
  const Sequence &s = a.step->sequence[blockIdx.z];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int head = blockIdx.y, column = blockIdx.x * 32 + lane;
  const DeltaColumns at = columnsOf(a, head);
  bool isColumn = column < a.value;
  float skip = a.skip ? a.skip[head] : 0;

  float *state =
      stateOf(a.state, s) + a.begin + i64(head) * MOE_KEY * a.value + column;
  float S[kKeys];
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    int d = warp * kKeys + i;
    S[i] =
        s.position > 0 && isColumn && d < MOE_KEY ? state[i64(d) * a.value] : 0;
  }

  auto load = [&](Row &row, int t) {
    const float *all = a.x + t * a.xStride, *decays = decaysOf(a, t, head);
    float ofKey = 0, ofQuery = 0;
    for (int d = lane; d < kAll; d += 32) {
      float k = d < MOE_KEY ? all[at.key + d] : 0;
      float x = d < MOE_KEY ? all[at.query + d] : 0;
      if (MOE_CHANNELS)
        row.decays[d] = d < MOE_KEY ? decays[d] : 0;
      row.key[d] = k;
      row.query[d] = x;
      ofKey = fmaf(k, k, ofKey);
      ofQuery = fmaf(x, x, ofQuery);
    }
    row.value[lane] = isColumn ? all[at.value + column] : 0;
    ofKey = MOE_SUMS ? 1 : unitScale(ofKey, a.eps);
    ofQuery = MOE_SUMS ? 1 : unitScale(ofQuery, a.eps) / sqrtf(float(MOE_KEY));
    if (lane == 0) {
      row.keyScale = ofKey;
      row.queryScale = ofQuery;
      row.strength = a.gates[t * a.gatesStride + head];
      row.decay = MOE_CHANNELS ? 1 : decays[0];
    }
  };
  auto total = [&](const float(&parts)[kWarps][32]) {
    float sum = parts[0][lane];
#pragma unroll
    for (int w = 1; w < kWarps; ++w)
      sum += parts[w][lane];
    return sum;
  };

  for (int first = s.begin; first < s.begin + s.count; first += kRows) {
    int count = min(kRows, s.begin + s.count - first);
    __syncthreads(); // No thread reads the previous rows any more.
    for (int r = warp; r < count; r += kWarps)
      load(rows[r], first + r);
    __syncthreads();
    for (int r = 0; r < count; ++r) {
      const Row &row = rows[r];
      const auto *keys = (const float4 *)(row.key + warp * kKeys);
      const auto *queries = (const float4 *)(row.query + warp * kKeys);
      float decay = row.decay, sum = 0;
      if (MOE_CHANNELS) {
        const auto *decays = (const float4 *)(row.decays + warp * kKeys);
#pragma unroll
        for (int i = 0; i < kKeys / 4; ++i) {
          float4 g = decays[i];
          S[4 * i] *= g.x, S[4 * i + 1] *= g.y;
          S[4 * i + 2] *= g.z, S[4 * i + 3] *= g.w;
        }
      }
      float written = row.strength * row.value[lane];
      if (!MOE_SUMS) {
#pragma unroll
        for (int i = 0; i < kKeys / 4; ++i) {
          float4 k = keys[i];
          sum = fmaf(k.x, S[4 * i], sum);
          sum = fmaf(k.y, S[4 * i + 1], sum);
          sum = fmaf(k.z, S[4 * i + 2], sum);
          sum = fmaf(k.w, S[4 * i + 3], sum);
        }
        found[warp][lane] = sum;
        __syncthreads();
        written = row.strength * row.keyScale *
                  (row.value[lane] - decay * row.keyScale * total(found));
      }
      sum = 0;
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i) {
        float4 k = keys[i], q = queries[i];
        S[4 * i] = fmaf(k.x, written, decay * S[4 * i]);
        S[4 * i + 1] = fmaf(k.y, written, decay * S[4 * i + 1]);
        S[4 * i + 2] = fmaf(k.z, written, decay * S[4 * i + 2]);
        S[4 * i + 3] = fmaf(k.w, written, decay * S[4 * i + 3]);
        sum = fmaf(q.x, S[4 * i], sum);
        sum = fmaf(q.y, S[4 * i + 1], sum);
        sum = fmaf(q.z, S[4 * i + 2], sum);
        sum = fmaf(q.w, S[4 * i + 3], sum);
      }
      auto &parts = answers[MOE_SUMS ? r % 2 : 0];
      parts[warp][lane] = sum;
      __syncthreads();
      if (warp == r % kWarps && isColumn)
        a.out[(first + r) * a.outStride + i64(head) * a.value + column] =
            fmaf(skip, row.value[lane], row.queryScale * total(parts));
    }
  }
#pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    int d = warp * kKeys + i;
    if (isColumn && d < MOE_KEY)
      state[i64(d) * a.value] = S[i];
  }
}
