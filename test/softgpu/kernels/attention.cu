// Flash-style attention of F16 with tensor cores: a warp has 16 queries, keys
// pass through shared memory 16 at a time, and softmax is computed online in
// F32.

constexpr int kHead = 64,
              // Padding puts 8 rows of a matrix into all banks.
    kRow = kHead + 8;

__device__ unsigned pack(float low, float high) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

__device__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                    unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ float exp2Approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// q: queries x 64, k and v: keys x 64, of F16. out: queries x 64. keys,
/// queries: multiples of 16. A block is a warp.
extern "C" __global__ void __launch_bounds__(32)
    attention(const unsigned short *q, const unsigned short *k,
              const unsigned short *v, float *out, int keys, float scale) {
  __shared__ __align__(16) unsigned short tileK[16 * kRow], tileV[16 * kRow];
  unsigned sharedK = (unsigned)__cvta_generic_to_shared(tileK);
  unsigned sharedV = (unsigned)__cvta_generic_to_shared(tileV);
  int lane = threadIdx.x, row = blockIdx.x * 16 + lane / 4, pair = lane % 4 * 2;
  unsigned fq[4][4];
  for (int d = 0; d < 4; ++d)
    for (int r = 0; r < 4; ++r)
      fq[d][r] = *(const unsigned *)(q + (row + r % 2 * 8) * kHead + d * 16 +
                                     r / 2 * 8 + pair);
  float sum[8][4] = {}, most[2] = {-1e30f, -1e30f}, total[2] = {0, 0};
  for (int key0 = 0; key0 < keys; key0 += 16) {
    for (int i = lane; i < 16 * 8; i += 32) {
      int r = i / 8, c = i % 8 * 8;
      *(uint4 *)(tileK + r * kRow + c) =
          *(const uint4 *)(k + (key0 + r) * kHead + c);
      *(uint4 *)(tileV + r * kRow + c) =
          *(const uint4 *)(v + (key0 + r) * kHead + c);
    }
    __syncwarp();
    float score[2][4] = {};
    for (int d = 0; d < 4; ++d) {
      unsigned b[4];
      unsigned address =
          sharedK +
          ((lane % 8 + lane / 16 * 8) * kRow + d * 16 + lane / 8 % 2 * 8) * 2;
      asm volatile(
          "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
          : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
          : "r"(address));
      mma(score[0], fq[d], b[0], b[1]);
      mma(score[1], fq[d], b[2], b[3]);
    }
    // Row lane / 4, then row lane / 4 + 8.
    for (int half = 0; half < 2; ++half) {
      float top = most[half];
      for (int j = 0; j < 2; ++j)
        for (int e = 0; e < 2; ++e)
          top = fmaxf(top, score[j][half * 2 + e] *= scale);
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      float keep = exp2Approx(most[half] - top);
      most[half] = top;
      total[half] *= keep;
      for (int d = 0; d < 8; ++d)
        sum[d][half * 2] *= keep, sum[d][half * 2 + 1] *= keep;
      for (int j = 0; j < 2; ++j)
        for (int e = 0; e < 2; ++e)
          total[half] += score[j][half * 2 + e] =
              exp2Approx(score[j][half * 2 + e] - top);
    }
    unsigned p[4] = {
        pack(score[0][0], score[0][1]), pack(score[0][2], score[0][3]),
        pack(score[1][0], score[1][1]), pack(score[1][2], score[1][3])};
    for (int d = 0; d < 8; d += 2) {
      unsigned b[4];
      unsigned address =
          sharedV + (lane % 16 * kRow + d * 8 + lane / 16 * 8) * 2;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, "
                   "%2, %3}, [%4];"
                   : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                   : "r"(address));
      mma(sum[d], p, b[0], b[1]);
      mma(sum[d + 1], p, b[2], b[3]);
    }
    __syncwarp();
  }
  for (int half = 0; half < 2; ++half) {
    float all = total[half];
    all += __shfl_xor_sync(~0u, all, 1);
    all += __shfl_xor_sync(~0u, all, 2);
    for (int d = 0; d < 8; ++d)
      for (int e = 0; e < 2; ++e)
        out[(row + half * 8) * kHead + d * 8 + pair + e] =
            sum[d][half * 2 + e] / all;
  }
}
