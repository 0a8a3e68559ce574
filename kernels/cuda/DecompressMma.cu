// Decompress with tensor cores: computes keys or values of heads from latent
// cache rows of F16, BF16 or Q8_0, as 16-bit rows that FlashAttention.cu reads.
// The product is [positions, latent] x [latent, columns]; sums are floats.
//
// A block has 64 columns of a head, whose weights it decodes once, and takes
// 128 positions at a time, sixteen for each of eight warps. Per sixteen columns
// of the latent a warp loads operands by five ldmatrix.x4, which are 20
// wavefronts of shared memory, for eight mma. These take 64 cycles of a 4090's
// multiprocessor and 16 of an A100's. Latents are copied in the background, 64
// columns at a time, in two stages; codes of Q8_0 are converted to BF16 on the
// way, without cp.async.
//
// Weights and results are rounded to the 16 bits of the cache's type, or BF16,
// as the cache has rounded the latents (see FlashAttention.cu).
//
// Shared memory: weights [64][latent] (or [latent][64], if the matrix is
// transposed: MOE_TRANSPOSED), 64 KB for 512; two stages of latents [128][64],
// 32 KB. Of each 64 columns of a row, the sixteen bytes with number i are at
// place i ^ (row % 8), so that ldmatrix reads eight rows from all banks.

#include "kernels/cuda/Gguf.cuh"
#include "kernels/cuda/KvHalf.cuh"

constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kRows = 16 * kWarps, kCols = 64, kDepth = 64;
constexpr int kChunks = (MOE_LATENT + kDepth - 1) / kDepth;
#ifdef MOE_TRANSPOSED
constexpr int kPitch = kCols * 2;
#else
constexpr int kPitch = kChunks * kDepth * 2;
#endif

struct Shared {
  u8 weights[kCols * kChunks * kDepth * 2];
  u8 latents[2][kRows * kDepth * 2];
  i64 rows[kRows]; ///< Row in the cache of each position; -1: none.
};

MOE_DEVICE int swizzled(int row, int chunk) { return (chunk ^ (row & 7)) * 16; }

/// Decodes weights of 64 output columns, from `first` on, to 16-bit numbers in
/// shared memory, with zeros beyond the matrix.
MOE_DEVICE void decodeWeights(u8 *to, const DecompressRowsArgs &a, const u8 *w,
                              int first) {
  auto at = [&](int n, int c) {
    if (first + n >= a.cols || c >= MOE_LATENT)
      return 0.0f;
#ifdef MOE_TRANSPOSED
    return gguf::valueAt(w + c * a.w.rowStride, first + n);
#else
    return gguf::valueAt(w + (first + n) * a.w.rowStride, c);
#endif
  };
  constexpr int kPairs = kPitch / 4;
  for (int i = threadIdx.x; i < int(sizeof(Shared::weights)) / 4;
       i += kThreads) {
    int row = i / kPairs, col = i % kPairs * 2;
#ifdef MOE_TRANSPOSED
    u32 pair = narrow(at(col, row), at(col + 1, row));
#else
    u32 pair = narrow(at(row, col), at(row, col + 1));
#endif
    *(u32 *)(to + row * kPitch + swizzled(row, col / 8) + col % 8 * 2) = pair;
  }
}

/// rows[r] = the cache row of position `first` + r, or -1. Positions are
/// numbered through all sequences; those of a sequence begin at a multiple of
/// sixteen, so that there are gaps of up to fifteen.
MOE_DEVICE void findRows(i64 *rows, const Step *step, i64 first) {
  for (int r = threadIdx.x; r < kRows; r += kThreads) {
    i64 position = first + r, row = -1;
    for (int s = 0; s < step->sequences && position >= 0; ++s) {
      const Sequence &sequence = step->sequence[s];
      int visible = sequence.position + sequence.count;
      if (position < visible)
        row = cacheRow(sequence.pages, int(position));
      position -= (visible + 15) / 16 * 16;
    }
    rows[r] = row;
  }
}

/// Begins the copies of columns 64 `chunk` .. 64 `chunk` + 63 of all rows to
/// `to`; columns beyond the latent, and rows that are -1, become zero.
MOE_DEVICE void copyLatents(u8 *to, const i64 *rows, const Kv &kv, int chunk) {
#if MOE_KV == MOE_KV_Q8_0
  // A thread reads sixteen bytes, which are four columns of four rows.
  for (int i = threadIdx.x; i < kRows * kDepth / 16; i += kThreads) {
    int r = i / (kDepth / 4) * 4, word = i % (kDepth / 4);
    i64 row = rows[r];
    uint4 codes = make_uint4(0, 0, 0, 0);
    float4 scales = make_float4(0, 0, 0, 0);
    if (row >= 0) {
      codes = *(const uint4 *)(kvCodes(kv, row) + chunk * 1024 + word * 64);
      scales = *(const float4 *)kvScale(kv, row, chunk);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      u32 x = j == 0 ? codes.x : j == 1 ? codes.y : j == 2 ? codes.z : codes.w;
      float scale = j == 0   ? scales.x
                    : j == 1 ? scales.y
                    : j == 2 ? scales.z
                             : scales.w;
      float values[4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
        values[k] = chunk * kDepth + word * 4 + k < MOE_LATENT
                        ? scale * float(int(x >> 8 * k & 255) - 128)
                        : 0;
      uint2 pairs = rows[r + j] >= 0 ? make_uint2(narrow(values[0], values[1]),
                                                  narrow(values[2], values[3]))
                                     : make_uint2(0, 0);
      *(uint2 *)(to + (r + j) * kDepth * 2 + swizzled(r + j, word / 2) +
                 word % 2 * 8) = pairs;
    }
  }
#else
#pragma unroll
  for (int i = 0; i < kRows * kDepth / 8 / kThreads; ++i) {
    int index = i * kThreads + threadIdx.x, r = index / 8, of = index % 8;
    i64 row = rows[r];
    int left = (MOE_LATENT - chunk * kDepth - of * 8) * 2;
    int bytes = row >= 0 ? min(max(left, 0), 16) : 0;
    copyAsync(to + r * kDepth * 2 + swizzled(r, of),
              bytes
                  ? kv.data + row * kv.rowStride + chunk * kDepth * 2 + of * 16
                  : kv.data,
              bytes);
  }
#endif
  commitCopies();
}

MOE_KERNEL(256, 1, DecompressRowsArgs) {
  extern __shared__ uint4 memory[];
  Shared &shared = *(Shared *)memory;
  int head = blockIdx.y, first = blockIdx.z * kCols;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int g = lane / 4, c = lane % 4;
  i64 positions = 0;
  for (int s = 0; s < a.step->sequences; ++s)
    positions +=
        (a.step->sequence[s].position + a.step->sequence[s].count + 15) / 16 *
        16;
  i64 begin = i64(blockIdx.x) * kRows;
  if (begin >= positions)
    return;
  decodeWeights(shared.weights, a,
                a.w.data + (a.firstHead + head) * a.w.outerStride, first);
  for (; begin < positions; begin += i64(gridDim.x) * kRows) {
    __syncthreads(); // No thread reads the previous rows any more.
    findRows(shared.rows, a.step, begin);
    __syncthreads();
    copyLatents(shared.latents[0], shared.rows, a.kv, 0);
    float sums[kCols / 8][4] = {};
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      waitCopies<0>();
      __syncthreads(); // This chunk is complete, and the other stage is free.
      if (chunk + 1 < kChunks)
        copyLatents(shared.latents[(chunk + 1) % 2], shared.rows, a.kv,
                    chunk + 1);
      const u8 *latents = shared.latents[chunk % 2];
#pragma unroll
      for (int step = 0; step < kDepth / 16; ++step) {
        int row = 16 * warp + lane % 16;
        u32 x[4];
        loadMatrices(x, latents + row * kDepth * 2 +
                            swizzled(row, 2 * step + lane / 16));
#pragma unroll
        for (int i = 0; i < kCols / 8; i += 2) {
          u32 b[4];
#ifdef MOE_TRANSPOSED
          int k = chunk * kDepth + 16 * step + lane / 8 % 2 * 8 + lane % 8;
          loadTransposed(b, shared.weights + k * kPitch +
                                swizzled(k, i + lane / 16));
#else
          int n = 8 * i + lane / 16 * 8 + lane % 8;
          int of = chunk * kDepth / 8 + 2 * step + lane / 8 % 2;
          loadMatrices(b, shared.weights + n * kPitch + swizzled(n, of));
#endif
          mma(sums[i], x, b[0], b[1]);
          mma(sums[i + 1], x, b[2], b[3]);
        }
      }
    }
    // Rows of the result, with zeros after the last column.
    int at = a.at + head * a.headPitch;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int r = 16 * warp + g + 8 * half;
      if (shared.rows[r] < 0)
        continue;
      u16 *out = a.out + (begin + r) * a.rowElements + at;
#pragma unroll
      for (int i = 0; i < kCols / 8; ++i) {
        int column = first + 8 * i + 2 * c;
        u32 pair = narrow(sums[i][2 * half], sums[i][2 * half + 1]);
        if (column + 1 < a.cols)
          *(u32 *)(out + column) = pair;
        else if (column < a.cols)
          out[column] = u16(pair);
      }
    }
    if (blockIdx.z == 0)
      for (int r = warp; r < kRows; r += kWarps) {
        i64 row = shared.rows[r];
        for (int i = lane; row >= 0 && i < a.headPitch - a.cols; i += 32)
          a.out[(begin + r) * a.rowElements + at + a.cols + i] = u16(
              narrow(i < a.rope ? loadKv(a.kv, row, MOE_LATENT + i) : 0, 0));
      }
  }
}
