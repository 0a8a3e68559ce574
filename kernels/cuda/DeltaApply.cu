// DeltaApply: the gated delta rule in chunks of sixteen rows, with the names of
// DeltaChunk.cuh. A block keeps 32 columns of a head's matrix S [keys, columns]
// in registers from a sequence's first row to its last, so that S is read and
// written once per step. Each of four warps has a quarter of the keys, and a
// thread every fourth of those by four columns. S^T k and S^T q are sums over
// all keys, hence over the warps; they are added in the order of warps.

#include "kernels/cuda/DeltaChunk.cuh"
#include "kernels/cuda/States.cuh"

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kKeys = kAll / kWarps; ///< Number of keys of a warp.
constexpr int kTile = kKeys / 4;     ///< Number of keys of a thread.
constexpr int kColumns = 32;
/// Rows of a warp in `parts`: first its keys' rows of S, then its partial sums
/// of S^T k (16 rows) and of S^T q (16 rows).
constexpr int kPart = kKeys > 2 * kChunk ? kKeys : 2 * kChunk;

struct alignas(16) Shared {
  float keys[2][kAll][kChunk]; ///< [0]: keys, [1]: queries.
  float parts[kWarps][kPart][kColumns];
  /// For each row i: v_i - D_i,-1 S^T k_i; u_i; and D_15,i u_i.
  float asked[kChunk][kColumns], written[kChunk][kColumns],
      left[kChunk][kColumns];
  ChunkMix mix;
};
static_assert(sizeof(Shared) <= 48 * 1024);

MOE_DEVICE const float4 &four(const float &x) { return *(const float4 *)&x; }
MOE_DEVICE float4 &four(float &x) { return *(float4 *)&x; }
MOE_DEVICE void addTimes(float (&sum)[4], float x, const float4 &y) {
  sum[0] = fmaf(x, y.x, sum[0]);
  sum[1] = fmaf(x, y.y, sum[1]);
  sum[2] = fmaf(x, y.z, sum[2]);
  sum[3] = fmaf(x, y.w, sum[3]);
}
MOE_DEVICE float4 asFour(const float (&x)[4]) {
  return {x[0], x[1], x[2], x[3]};
}

/// sum += `triangle` * x, columns `column` .. + 3, where `triangle` is row
/// `row` of a lower triangular matrix. Entries above the diagonal are not read,
/// because a NaN in a later row must have no effect. A warp has rows 4 * warp
/// .. + 3, so that columns before 4 * warp need no comparison.
MOE_DEVICE void addLower(float (&sum)[4], const float (&triangle)[kChunk],
                         const float (&x)[kChunk][kColumns], int column,
                         int warp, int row) {
  for (int j = 0; j < 4 * warp; j += 4) {
    float4 t = four(triangle[j]);
    addTimes(sum, t.x, four(x[j][column]));
    addTimes(sum, t.y, four(x[j + 1][column]));
    addTimes(sum, t.z, four(x[j + 2][column]));
    addTimes(sum, t.w, four(x[j + 3][column]));
  }
  for (int j = 4 * warp; j <= row; ++j)
    addTimes(sum, triangle[j], four(x[j][column]));
}

MOE_KERNEL(kThreads, 2, DeltaChunkArgs) {
  __shared__ Shared shared;
  if (blockIdx.z >= a.step->sequences)
    return;
  const Sequence &s = a.step->sequence[blockIdx.z];
  int tile = 0;
  for (int i = 0; i < blockIdx.z; ++i)
    tile += chunksOf(a.step->sequence[i]);
  int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  int group = lane / 8, column = lane % 8 * 4; // The first key and column of S,
  int row = thread / 8; // or the row of a chunk it computes.
  int head = blockIdx.y,
      keyHead = a.tiled ? head % a.keyHeads : head / (a.heads / a.keyHeads);
  int firstColumn = blockIdx.x * kColumns + column;
  // Columns of the four that exist.
  int columns = min(max(a.value - firstColumn, 0), 4);
  const float *values =
      a.x + 2 * i64(a.keyHeads) * MOE_KEY + i64(head) * a.value + firstColumn;
  float *out = a.out + i64(head) * a.value + firstColumn;

  float *state = stateOf(a.state, s) + a.begin + i64(head) * MOE_KEY * a.value +
                 firstColumn;
  int firstKey = warp * kKeys + group;
  float S[kTile][4];
#pragma unroll
  for (int i = 0; i < kTile; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      int d = firstKey + 4 * i;
      S[i][e] = s.position > 0 && e < columns && d < MOE_KEY
                    ? state[i64(d) * a.value + e]
                    : 0;
    }

  // Data of the next chunk, loaded while this one is computed.
  constexpr int kFours = sizeof(ChunkKeys) / sizeof(float4) / kThreads;
  constexpr int kMixFours = sizeof(ChunkMix) / sizeof(float4);
  float4 keys[kFours], mix[2];
  float value[4];
  auto fetch = [&](int chunk) {
    const auto *from = (const float4 *)&(
        (const ChunkKeys *)a.keys)[i64(tile + chunk) * a.keyHeads + keyHead];
#pragma unroll
    for (int i = 0; i < kFours; ++i)
      keys[i] = from[thread + kThreads * i];
    from = (const float4 *)&(
        (const ChunkMix *)a.mixes)[i64(tile + chunk) * a.heads + head];
    mix[0] = from[thread];
    if (thread < kMixFours - kThreads)
      mix[1] = from[thread + kThreads];
    int t = chunk * kChunk + row;
#pragma unroll
    for (int e = 0; e < 4; ++e)
      value[e] = t < s.count && e < columns
                     ? values[(s.begin + t) * a.xStride + e]
                     : 0;
  };

  int chunks = chunksOf(s);
  fetch(0);
  for (int chunk = 0; chunk < chunks; ++chunk) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      int at = thread + kThreads * i, key = at / 4; // A key has 4 x 4 floats.
      four(shared.keys[key / kAll][key % kAll][at % 4 * 4]) = keys[i];
    }
    ((float4 *)&shared.mix)[thread] = mix[0];
    if (thread < kMixFours - kThreads)
      ((float4 *)&shared.mix)[thread + kThreads] = mix[1];
    float mine[4] = {value[0], value[1], value[2], value[3]};
    auto &part = shared.parts[warp];
#pragma unroll
    for (int i = 0; i < kTile; ++i)
      four(part[group + 4 * i][column]) = asFour(S[i]);
    __syncthreads();
    if (chunk + 1 < chunks)
      fetch(chunk + 1);

    // Partial sums over the warp's keys, for four columns: of S^T k for rows 4
    // group .. + 3 in found[0 .. 3], of S^T q for the same rows in found[4 ..
    // 7].
    float found[8][4] = {};
#pragma unroll 4
    for (int d = 0; d < kKeys; ++d) {
      float4 k = four(shared.keys[0][warp * kKeys + d][4 * group]);
      float4 q = four(shared.keys[1][warp * kKeys + d][4 * group]);
      float4 x = four(part[d][column]);
      addTimes(found[0], k.x, x);
      addTimes(found[1], k.y, x);
      addTimes(found[2], k.z, x);
      addTimes(found[3], k.w, x);
      addTimes(found[4], q.x, x);
      addTimes(found[5], q.y, x);
      addTimes(found[6], q.z, x);
      addTimes(found[7], q.w, x);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; ++i)
      four(part[i / 4 * kChunk + 4 * group + i % 4][column]) = asFour(found[i]);
    __syncthreads();

    float answer[4] = {}, sum[4] = {};
    float kept = shared.mix.kept[row];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      addTimes(sum, 1, four(shared.parts[w][row][column]));
      addTimes(answer, 1, four(shared.parts[w][kChunk + row][column]));
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      mine[e] = fmaf(-kept, sum[e], mine[e]);
      answer[e] *= kept;
      sum[e] = 0;
    }
    four(shared.asked[row][column]) = asFour(mine);
    __syncthreads();
    addLower(sum, shared.mix.solved[row], shared.asked, column, warp, row);
    four(shared.written[row][column]) = asFour(sum);
    float left = shared.mix.left[row];
#pragma unroll
    for (int e = 0; e < 4; ++e)
      sum[e] *= left;
    four(shared.left[row][column]) = asFour(sum);
    __syncthreads();
    addLower(answer, shared.mix.seen[row], shared.written, column, warp, row);
    int t = chunk * kChunk + row;
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (t < s.count && e < columns)
        out[(s.begin + t) * a.outStride + e] = answer[e];

    kept = shared.mix.kept[kChunk - 1];
#pragma unroll
    for (int i = 0; i < kTile; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        S[i][e] *= kept;
#pragma unroll
    for (int j = 0; j < kChunk; j += 4) {
      float4 u[4];
#pragma unroll
      for (int r = 0; r < 4; ++r)
        u[r] = four(shared.left[j + r][column]);
#pragma unroll
      for (int i = 0; i < kTile; ++i) {
        float4 k = four(shared.keys[0][firstKey + 4 * i][j]);
        addTimes(S[i], k.x, u[0]);
        addTimes(S[i], k.y, u[1]);
        addTimes(S[i], k.z, u[2]);
        addTimes(S[i], k.w, u[3]);
      }
    }
    __syncthreads(); // No thread reads this chunk's data any more.
  }
#pragma unroll
  for (int i = 0; i < kTile; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (int d = firstKey + 4 * i; e < columns && d < MOE_KEY)
        state[i64(d) * a.value + e] = S[i][e];
}
