// DeltaPrepare: computes from keys, queries and gates what chunks of the gated
// delta rule need (DeltaChunk.cuh). A block has one chunk and key head; its
// warps divide the heads that use this key head.

#include "kernels/cuda/DeltaChunk.cuh"
#include "kernels/cuda/Rms.cuh"

constexpr int kWarps = 4;

MOE_KERNEL(32 * kWarps, 4, DeltaChunkArgs) {
  // Rows of keys, then of queries. With this stride the same columns of eight
  // consecutive rows are in different banks.
  __shared__ __align__(16) float rows[2][kChunk][kAll + 4];
  __shared__ __align__(16) float dots[2][kChunk][kChunk];
  __shared__ __align__(16) float lower[kWarps][kChunk][kChunk];
  int tile = blockIdx.x, keyHead = blockIdx.y, s = 0, at = tile;
  for (; s < a.step->sequences && at >= chunksOf(a.step->sequence[s]); ++s)
    at -= chunksOf(a.step->sequence[s]);
  if (s == a.step->sequences)
    return;
  int first = a.step->sequence[s].begin + at * kChunk;
  int count = min(a.step->sequence[s].count - at * kChunk, kChunk);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  for (int row = warp; row < 2 * kChunk; row += kWarps) {
    bool isQuery = row >= kChunk;
    int t = row % kChunk;
    const float *x = a.x + (first + t) * a.xStride +
                     i64(keyHead + (isQuery ? 0 : a.keyHeads)) * MOE_KEY;
    float mine[kAll / 32 + 1], squares = 0;
#pragma unroll
    for (int i = 0; i <= kAll / 32; ++i) {
      int d = lane + 32 * i;
      mine[i] = t < count && d < MOE_KEY ? x[d] : 0;
      squares = fmaf(mine[i], mine[i], squares);
    }
    float scale = unitScale(squares, a.eps);
    if (isQuery)
      scale /= sqrtf(float(MOE_KEY));
#pragma unroll
    for (int i = 0; i <= kAll / 32; ++i)
      if (lane + 32 * i < kAll)
        rows[isQuery][t][lane + 32 * i] = mine[i] * scale;
  }
  __syncthreads();

  float *to =
      &((ChunkKeys *)a.keys)[i64(tile) * a.keyHeads + keyHead].keys[0][0];
  for (int i = threadIdx.x; i < 2 * kAll * kChunk; i += 32 * kWarps)
    to[i] = rows[i / (kAll * kChunk)][i % kChunk][i / kChunk % kAll];
  {
    // dots[0] = keys x keys^T, dots[1] = queries x keys^T. Each half of the
    // block computes one of them, a thread rows i, i + 8 by columns j, j + 8.
    int of = threadIdx.x / 64, i = threadIdx.x / 8 % 8, j = threadIdx.x % 8;
    float sums[2][2] = {};
#pragma unroll 4
    for (int d = 0; d < kAll; d += 4) {
      float4 x[2], y[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        x[r] = *(const float4 *)&rows[of][i + 8 * r][d];
        y[r] = *(const float4 *)&rows[0][j + 8 * r][d];
      }
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float sum = fmaf(x[r].x, y[c].x, sums[r][c]);
          sum = fmaf(x[r].y, y[c].y, sum);
          sum = fmaf(x[r].z, y[c].z, sum);
          sums[r][c] = fmaf(x[r].w, y[c].w, sum);
        }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        dots[of][i + 8 * r][j + 8 * c] = sums[r][c];
  }
  __syncthreads();

  // Lane j % 16 computes column j of a matrix, from the first row down: in the
  // first half of a warp A and the inverse of I + A, in the second half `seen`.
  int sharing = a.heads / a.keyHeads, j = lane % kChunk;
  bool isSeen = lane >= kChunk;
  for (int h = warp; h < sharing; h += kWarps) {
    int head = a.tiled ? h * a.keyHeads + keyHead : keyHead * sharing + h;
    ChunkMix &mix = ((ChunkMix *)a.mixes)[i64(tile) * a.heads + head];
    const float *gates = a.gates + i64(first + j) * 2 * a.heads + head;
    float strength = j < count ? gates[0] : 0;
    float decay = j < count ? gates[a.heads] : 1;
    float ratio = 1, all = 1, kept = 1;
    __syncwarp(); // No lane reads the previous head's data any more.
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      float g = __shfl_sync(kAllLanes, decay, i);
      float b = __shfl_sync(kAllLanes, strength, i);
      all *= g;
      kept = i == j ? all : kept;
      ratio = i > j ? ratio * g : 1;
      if (isSeen)
        mix.seen[i][j] = i >= j ? ratio * dots[1][i][j] : 0;
      else
        lower[warp][i][j] = i > j ? b * ratio * dots[0][i][j] : 0;
    }
    __syncwarp();
    if (isSeen)
      continue;
    mix.kept[j] = kept;
    mix.left[j] = ratio;
    float column[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      column[i] = i == j ? 1 : 0;
#pragma unroll
      for (int m = 0; m < i; ++m)
        column[i] = fmaf(-lower[warp][i][m], column[m], column[i]);
      mix.solved[i][j] = column[i] * strength;
    }
  }
}
