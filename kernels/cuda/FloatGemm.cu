// Products of floats with weights in the file's layout: F32, F16 and BF16,
// which models use for routers and small projections, and every other format
// for weights that were not repacked. Sums are float.
//
// A warp has one weight row, a block eight; lanes go along the columns, sixteen
// bytes of weights at a time if addresses allow it. Each weight row is
// multiplied with up to eight rows of activations, which come from L1 because
// all warps read the same ones.

#include "kernels/cuda/Gguf.cuh"
#include "kernels/cuda/Jobs.cuh"

#if MOE_FORMAT == MOE_F32
#define MOE_VECTOR 4
#elif MOE_FORMAT == MOE_F16 || MOE_FORMAT == MOE_BF16
#define MOE_VECTOR 8
#endif // Other formats have no vectors.

#ifdef MOE_VECTOR
/// Loads MOE_VECTOR neighbours from an address that is a multiple of 16.
MOE_DEVICE void loadVector(const u8 *p, float *out) {
  uint4 bits = *(const uint4 *)p;
  u32 word[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#if MOE_FORMAT == MOE_F32
    out[i] = __int_as_float(int(word[i]));
#elif MOE_FORMAT == MOE_F16
    out[2 * i] = f16ToFloat(u16(word[i]));
    out[2 * i + 1] = f16ToFloat(u16(word[i] >> 16));
#else
    out[2 * i] = bf16ToFloat(u16(word[i]));
    out[2 * i + 1] = bf16ToFloat(u16(word[i] >> 16));
#endif
  }
}
#endif

/// sums[i] = w * x[i] over this lane's columns.
MOE_DEVICE void multiply(const u8 *w, const float *const *x, int count,
                         i64 cols, bool isAligned, float *sums) {
  i64 lane = threadIdx.x % 32;
#ifdef MOE_VECTOR
  if (isAligned) {
    constexpr int kBytes = 16 / MOE_VECTOR;
#pragma unroll 1 // Unrolling more would spill.
    for (i64 c = lane * MOE_VECTOR; c < cols; c += 32 * MOE_VECTOR) {
      float weight[MOE_VECTOR];
      loadVector(w + c * kBytes, weight);
#pragma unroll
      for (int i = 0; i < MOE_ROWS; ++i)
        if (i < count)
#pragma unroll
          for (int v = 0; v < MOE_VECTOR; v += 4) {
            float4 act = *(const float4 *)(x[i] + c + v);
            sums[i] = fmaf(weight[v], act.x, sums[i]);
            sums[i] = fmaf(weight[v + 1], act.y, sums[i]);
            sums[i] = fmaf(weight[v + 2], act.z, sums[i]);
            sums[i] = fmaf(weight[v + 3], act.w, sums[i]);
          }
    }
    return;
  }
#endif
  for (i64 c = lane; c < cols; c += 32) {
    float weight = gguf::valueAt(w, c);
#pragma unroll
    for (int i = 0; i < MOE_ROWS; ++i)
      if (i < count)
        sums[i] = fmaf(weight, x[i][c], sums[i]);
  }
}

#if defined(MOE_GATE) && MOE_VECTOR == 8 && MOE_ROWS > 4
constexpr int kBlocksPerSm = 1; // Two would spill.
#else
constexpr int kBlocksPerSm = 2;
#endif

MOE_KERNEL(256, kBlocksPerSm, MOE_GEMM_ARGS) {
  MOE_BRING_NEXT(a)
  Job job = findJob(a, blockIdx);
  if (job.count <= 0)
    return;
  const float *x[MOE_ROWS];
  u64 address =
      u64(a.w.data) | a.w.outerStride | a.w.rowStride | a.w.cols % 8 * 4;
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
  i64 row = i64(blockIdx.x) * 8 + threadIdx.x / 32;
  if (row >= a.w.rows)
    return;
  bool isAligned = address % 16 == 0;
  float sums[MOE_ROWS] = {}, ups[MOE_ROWS] = {};
  multiply(a.w.data + job.matrix * a.w.outerStride + row * a.w.rowStride, x,
           job.count, a.w.cols, isAligned, sums);
#ifdef MOE_GATE
  multiply(a.up.data + job.matrix * a.up.outerStride + row * a.up.rowStride, x,
           job.count, a.w.cols, isAligned, ups);
#endif
#pragma unroll
  for (int i = 0; i < MOE_ROWS; ++i) {
    sums[i] = warpSum(sums[i]);
#ifdef MOE_GATE
    ups[i] = warpSum(ups[i]);
#endif
    if (i < job.count && threadIdx.x % 32 == i)
      finish(a, job.matrix, outRow(a, job, i), row, sums[i], ups[i]);
  }
}
