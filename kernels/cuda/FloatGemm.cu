// Products of floats with weights in the file's layout: F32, F16 and BF16,
// which models use for routers and small projections, and every other format
// for weights that were not repacked. Sums are float.
//
// The columns of a weight row are divided among MOE_SPLIT of a block's eight
// warps, whose sums are added in the order of warps; matrices of few rows have
// too few warps otherwise. A warp has MOE_WARP_ROWS weight rows: one, but with
// more than two rows of activations four, or two with a gate or experts,
// because all of them use what a load of activations brings, which comes from
// L1 for all warps. Lanes go along the columns, sixteen bytes of weights at a
// time if addresses allow it.
//
// A lane has kAhead loads of each row of weights in flight before it
// multiplies, as many as registers hold: with four blocks of eight warps a
// multiprocessor requests 64 KB, with eight rows of activations 32 KB, where
// bandwidth times latency is 5 KB on a 4090 and 15 on an H100.

#include "kernels/cuda/Gguf.cuh"
#include "kernels/cuda/Jobs.cuh"

#if MOE_FORMAT == MOE_F32
#define MOE_VECTOR 4
#elif MOE_FORMAT == MOE_F16 || MOE_FORMAT == MOE_BF16
#define MOE_VECTOR 8
#endif // Other formats have no vectors.

constexpr int kAhead = MOE_WARP_ROWS == 1 ? 4 : MOE_ROWS > 4 ? 1 : 2;

#ifdef MOE_VECTOR
/// Converts sixteen bytes, which are MOE_VECTOR neighbouring weights, to
/// floats.
MOE_DEVICE void unpack(const uint4 &bits, float (&out)[MOE_VECTOR]) {
  u32 word[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#if MOE_FORMAT == MOE_F32
    out[i] = __int_as_float(int(word[i]));
#elif MOE_FORMAT == MOE_F16
    out[2 * i] = f16ToFloat(u16(word[i]));
    out[2 * i + 1] = f16ToFloat(u16(word[i] >> 16));
#else
    out[2 * i] = __int_as_float(int(word[i] << 16));
    out[2 * i + 1] = __int_as_float(int(word[i] & 0xffff0000));
#endif
  }
}
#endif

using Sums = float[MOE_WARP_ROWS][MOE_ROWS];

/// sums[r][i] += w[r] * x[i] over this lane's columns, for the first `count`
/// rows of activations. The warp is number `part` of the MOE_SPLIT that share
/// the rows; it takes every MOE_SPLIT-th group of 32 vectors, eights or
/// elements.
MOE_DEVICE void multiply(Sums &sums, const u8 *const (&w)[MOE_WARP_ROWS],
                         const float *const (&x)[MOE_ROWS], int count, i64 cols,
                         bool isAligned, int part) {
  i64 lane = part * 32 + threadIdx.x % 32;
#ifdef MOE_VECTOR
  if (isAligned) {
    constexpr int kBytes = 16 / MOE_VECTOR, kStep = 32 * MOE_VECTOR * MOE_SPLIT;
#pragma unroll 1 // Unrolling more would spill registers, and on sm_120 64 bits.
    for (int c = int(lane) * MOE_VECTOR; c < int(cols); c += kStep * kAhead) {
      uint4 bits[kAhead][MOE_WARP_ROWS] = {};
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (c + k * kStep < cols)
#pragma unroll
          for (int r = 0; r < MOE_WARP_ROWS; ++r)
            bits[k][r] = loadOnce(w[r] + (c + k * kStep) * kBytes);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (c + k * kStep >= cols)
          break;
        float weight[MOE_WARP_ROWS][MOE_VECTOR];
#pragma unroll
        for (int r = 0; r < MOE_WARP_ROWS; ++r)
          unpack(bits[k][r], weight[r]);
#pragma unroll
        for (int i = 0; i < MOE_ROWS; ++i)
          if (i < count)
#pragma unroll
            for (int v = 0; v < MOE_VECTOR; v += 4) {
              float4 act = *(const float4 *)(x[i] + c + k * kStep + v);
#pragma unroll
              for (int r = 0; r < MOE_WARP_ROWS; ++r) {
                float &sum = sums[r][i];
                sum = fmaf(weight[r][v], act.x, sum);
                sum = fmaf(weight[r][v + 1], act.y, sum);
                sum = fmaf(weight[r][v + 2], act.z, sum);
                sum = fmaf(weight[r][v + 3], act.w, sum);
              }
            }
      }
    }
    return;
  }
#endif
#ifdef MOE_EIGHT
  if (isAligned && cols % 8 == 0) {
#pragma unroll 1 // Unrolling would spill registers.
    for (i64 c = lane * 8; c < cols; c += 32 * 8 * MOE_SPLIT) {
      float weight[MOE_WARP_ROWS][8];
#pragma unroll
      for (int r = 0; r < MOE_WARP_ROWS; ++r)
        gguf::eightAt(w[r], c, weight[r]);
#pragma unroll
      for (int i = 0; i < MOE_ROWS; ++i)
        if (i < count)
#pragma unroll
          for (int v = 0; v < 8; v += 4) {
            float4 act = *(const float4 *)(x[i] + c + v);
#pragma unroll
            for (int r = 0; r < MOE_WARP_ROWS; ++r) {
              float &sum = sums[r][i];
              sum = fmaf(weight[r][v], act.x, sum);
              sum = fmaf(weight[r][v + 1], act.y, sum);
              sum = fmaf(weight[r][v + 2], act.z, sum);
              sum = fmaf(weight[r][v + 3], act.w, sum);
            }
          }
    }
    return;
  }
#endif
  for (i64 c = lane; c < cols; c += 32 * MOE_SPLIT)
#pragma unroll
    for (int r = 0; r < MOE_WARP_ROWS; ++r) {
      float weight = gguf::valueAt(w[r], c);
#pragma unroll
      for (int i = 0; i < MOE_ROWS; ++i)
        if (i < count)
          sums[r][i] = fmaf(weight, x[i][c], sums[r][i]);
    }
}

#if defined(MOE_GATE) && MOE_JOBS == MOE_EXPERTS && __CUDA_ARCH__ >= 1200
// Two blocks would spill registers.
constexpr int kBlocksPerSm = MOE_ROWS == 1 ? 4 : 1;
#else
constexpr int kBlocksPerSm = MOE_ROWS == 1 ? 4 : 2;
#endif

#ifdef MOE_GATE
constexpr int kMatrices = 2;
#else
constexpr int kMatrices = 1;
#endif
/// Weight rows of a block.
constexpr int kBlockRows = 8 / MOE_SPLIT * MOE_WARP_ROWS;

MOE_KERNEL(256, kBlocksPerSm, MOE_GEMM_ARGS) {
  MOE_BRING_NEXT(a)
  __shared__ float parts[kMatrices][MOE_SPLIT][kBlockRows][MOE_ROWS];
  Job job = findJob(a, blockIdx);
  if (job.count <= 0)
    return;
  const float *x[MOE_ROWS];
  u64 address = u64(a.w.data) | a.w.outerStride | a.w.rowStride;
#ifdef MOE_VECTOR // The last 16 bytes of a row must not pass its end.
  address |= a.w.cols % MOE_VECTOR * (16 / MOE_VECTOR);
#endif
#ifdef MOE_GATE
  address |= u64(a.up.data) | a.up.outerStride | a.up.rowStride;
#endif
#pragma unroll
  for (int i = 0; i < MOE_ROWS; ++i) {
    x[i] = (const float *)actRow(a, job, i < job.count ? i : 0);
    address |= u64(x[i]);
  }
#if MOE_JOBS == MOE_HEADS
  if (blockIdx.x == 0)
    for (int i = 0; i < job.count; ++i)
      for (int c = threadIdx.x; c < a.tail; c += blockDim.x)
        outRow(a, job, i)[a.w.rows + c] = x[i][a.w.cols + c];
#endif
  i64 blockRow = i64(blockIdx.x) * kBlockRows;
  int part = threadIdx.x / 32 % MOE_SPLIT;
  int first = threadIdx.x / 32 / MOE_SPLIT * MOE_WARP_ROWS;
  bool isAligned = address % 16 == 0;
#ifdef MOE_VECTOR
#pragma unroll
#else
#pragma unroll 1 // On sm_120, two copies of the product would spill registers.
#endif
  for (int m = 0; m < kMatrices; ++m) {
    const Matrix &matrix = m ? a.up : a.w;
    const u8 *w[MOE_WARP_ROWS];
#pragma unroll
    for (int r = 0; r < MOE_WARP_ROWS; ++r) {
      i64 row = blockRow + first + r;
      // Results of repeated rows are not stored.
      row = row < a.w.rows ? row : a.w.rows - 1;
      w[r] = matrix.data + job.matrix * matrix.outerStride +
             row * matrix.rowStride;
    }
    Sums sums = {};
    multiply(sums, w, x, job.count, a.w.cols, isAligned, part);
#pragma unroll
    for (int r = 0; r < MOE_WARP_ROWS; ++r)
#pragma unroll
      for (int i = 0; i < MOE_ROWS; ++i) {
        float sum = warpSum(sums[r][i]);
        if (threadIdx.x % 32 == i)
          parts[m][part][first + r][i] = sum;
      }
  }
  __syncthreads();
  for (int at = threadIdx.x; at < kBlockRows * job.count; at += blockDim.x) {
    int r = at % kBlockRows, i = at / kBlockRows;
    if (blockRow + r >= a.w.rows)
      continue;
    float sum = 0, up = 0;
#pragma unroll
    for (int k = 0; k < MOE_SPLIT; ++k) {
      sum += parts[0][k][r][i];
#ifdef MOE_GATE
      up += parts[1][k][r][i];
#endif
    }
    finish(a, job.matrix, outRow(a, job, i), blockRow + r, sum, up);
  }
}
