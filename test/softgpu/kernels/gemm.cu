// C = A B^T of int8 with tensor cores: tiles by cp.async in two stages,
// fragments by ldmatrix.

constexpr int kTile = 64,
              // A block computes 64 x 64 of C, with 4 warps of 32 x 32.
    kDepth = 64;

/// A row of 64 bytes is four pieces of 16. Their places depend on the row, so
/// that 8 rows of a matrix use all 32 banks.
__device__ unsigned place(int row, int piece) {
  return row * kDepth + ((piece ^ (row >> 1 & 3)) << 4);
}

__device__ void load(unsigned tile, const signed char *from, int row0, int rows,
                     int depth, int k0) {
  for (int i = threadIdx.x; i < kTile * 4; i += 128) {
    int row = i / 4, piece = i % 4;
    bool inside = row0 + row < rows;
    const signed char *source =
        from + (long long)(inside ? row0 + row : 0) * depth + k0 + piece * 16;
    int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     tile + place(row, piece)),
                 "l"(__cvta_generic_to_global(source)), "r"(bytes));
  }
}

__device__ void fragments(unsigned (&r)[4], unsigned address) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(address));
}

/// a: m x depth, b: n x depth, c: m x n. depth: a multiple of 64.
extern "C" __global__ void __launch_bounds__(128)
    gemm(const signed char *a, const signed char *b, int *c, int m, int n,
         int depth) {
  __shared__ __align__(128) signed char tiles[2][2][kTile * kDepth];
  unsigned base = (unsigned)__cvta_generic_to_shared(tiles);
  int row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int warpRow = warp / 2 * 32, warpColumn = warp % 2 * 32;
  int sum[2][4][4] = {};
  auto stage = [&](int k0, int s) {
    load(base + s * 2 * kTile * kDepth, a, row0, m, depth, k0);
    load(base + (s * 2 + 1) * kTile * kDepth, b, column0, n, depth, k0);
    asm volatile("cp.async.commit_group;");
  };
  stage(0, 0);
  for (int k0 = 0, s = 0; k0 < depth; k0 += kDepth, s ^= 1) {
    if (k0 + kDepth < depth) {
      stage(k0 + kDepth, s ^ 1);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    unsigned tileA = base + s * 2 * kTile * kDepth,
             tileB = tileA + kTile * kDepth;
    // A step has 32 columns: two pieces of 16.
    for (int k = 0; k < kDepth / 16; k += 2) {
      unsigned fa[2][4], fb[2][4];
      // Rows 0-7 and 8-15, then the same rows of the other 16 columns.
      for (int i = 0; i < 2; ++i)
        fragments(fa[i],
                  tileA + place(warpRow + 16 * i + lane % 16, k + lane / 16));
      // Both pieces of 8 columns, then those of the next 8.
      for (int j = 0; j < 2; ++j)
        fragments(fb[j],
                  tileB + place(warpColumn + 16 * j + lane % 8 + lane / 16 * 8,
                                k + lane / 8 % 2));
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
          asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, "
                       "%1, %2, %3}, "
                       "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                       : "+r"(sum[i][j][0]), "+r"(sum[i][j][1]),
                         "+r"(sum[i][j][2]), "+r"(sum[i][j][3])
                       : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]),
                         "r"(fa[i][3]), "r"(fb[j / 2][j % 2 * 2]),
                         "r"(fb[j / 2][j % 2 * 2 + 1]));
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int r = 0; r < 4; ++r) {
        int row = row0 + warpRow + 16 * i + lane / 4 + r / 2 * 8;
        int column = column0 + warpColumn + 8 * j + lane % 4 * 2 + r % 2;
        if (row < m && column < n)
          c[(long long)row * n + column] = sum[i][j][r];
      }
}
