// A kernel whose slowness the simulation must show: decode attention of grouped
// heads as kernels/cuda/Attention.cu was before it used tensor cores, reduced
// to F16 caches and one token. One block has a KV head; a thread loads one
// column of a row, an element of two bytes at an address that needs the row's
// page, and stores it before it loads the next row; scores and sums are scalar
// floats.
//
// Floats in shared memory: keys [32][129] or values [32][128]; queries
// [16][128].

typedef unsigned short u16;
typedef long long i64;

constexpr int kKeys = 32, kQueries = 16, kOwn = 4, kThreads = 128;
constexpr int kColumns = 128, kPage = 64;

struct SerialAttentionArgs {
  const float *q;   ///< [heads * 128]
  const u16 *kv;    ///< Rows are [kvHeads * 128 keys | kvHeads * 128 values].
  const int *pages; ///< [positions / 64]
  float *out;       ///< [heads * 128]
  int heads, kvHeads, positions;
};

extern __shared__ float shared[];

__device__ float f16ToFloat(u16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

template <class F> __device__ float overWarp(float x, F combine) {
#pragma unroll
  for (int i = 16; i; i /= 2)
    x = combine(x, __shfl_xor_sync(~0u, x, i));
  return x;
}

__device__ void loadRows(float *to, int stride, const SerialAttentionArgs &a,
                         int at, int count, int from) {
  int width = 2 * a.kvHeads * kColumns;
  for (int r = 0; r < count; ++r) {
    i64 row = i64(a.pages[(at + r) / kPage]) * kPage + (at + r) % kPage;
    for (int c = threadIdx.x; c < kColumns; c += kThreads)
      to[r * stride + c] = f16ToFloat(a.kv[row * width + from + c]);
  }
}

extern "C" __global__ void __launch_bounds__(128, 2)
    serial_attention(SerialAttentionArgs a) {
  __shared__ float weights[kQueries][kKeys];
  int kvHead = blockIdx.x, group = a.heads / a.kvHeads;
  int lane = threadIdx.x % 32, own = threadIdx.x / 32 * kOwn;
  constexpr int kStride = kColumns | 1;
  float *rows = shared, *queries = rows + kKeys * kStride;
  for (int i = threadIdx.x; i < kQueries * kColumns; i += kThreads)
    queries[i] = i / kColumns < group ? a.q[kvHead * group * kColumns + i] : 0;
  float most[kOwn], sum[kOwn], sums[kOwn][kColumns / 32];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    most[i] = -1e30f, sum[i] = 0;
#pragma unroll
    for (int j = 0; j < kColumns / 32; ++j)
      sums[i][j] = 0;
  }
  for (int at = 0; at < a.positions; at += kKeys) {
    int count = min(a.positions - at, kKeys);
    __syncthreads();
    loadRows(rows, kStride, a, at, count, kvHead * kColumns);
    __syncthreads();
    float score[kOwn] = {};
    for (int c = 0; c < kColumns; ++c) {
      float key = rows[lane * kStride + c];
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
        score[i] = fmaf(key, queries[(own + i) * kColumns + c], score[i]);
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      float x = lane < count ? score[i] * 0.1f : -1e30f;
      float next = fmaxf(
          most[i], overWarp(x, [](float a, float b) { return fmaxf(a, b); }));
      float weight = lane < count ? expf(x - next) : 0;
      float alpha = expf(most[i] - next);
      sum[i] = sum[i] * alpha +
               overWarp(weight, [](float a, float b) { return a + b; });
      most[i] = next;
      weights[own + i][lane] = weight;
#pragma unroll
      for (int j = 0; j < kColumns / 32; ++j)
        sums[i][j] *= alpha;
    }
    __syncthreads(); // No thread reads the previous keys any more.
    loadRows(rows, kColumns, a, at, count, (a.kvHeads + kvHead) * kColumns);
    __syncthreads();
    for (int r = 0; r < count; ++r)
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kColumns / 32; ++j)
          sums[i][j] = fmaf(weights[own + i][r],
                            rows[r * kColumns + lane + 32 * j], sums[i][j]);
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kColumns / 32; ++j)
      if (own + i < group)
        a.out[(kvHead * group + own + i) * kColumns + lane + 32 * j] =
            sums[i][j] / sum[i];
}
