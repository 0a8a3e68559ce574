// Pairs of kernels that do the same work, one of them with a fault that costs
// time on a GPU and that counters do not show. ClockTest.cpp runs them.

typedef unsigned int u32;

/// out[thread] = the sum of a thread's part of x, four loads of 16 bytes at a
/// time. x: [words], a multiple of 16 times the number of threads.
extern "C" __global__ void stream(const uint4 *x, u32 *out, int words) {
  int threads = gridDim.x * blockDim.x;
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  u32 sum = 0;
  for (int i = thread; i < words / 4; i += 4 * threads) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      v[k] = __ldg(x + i + k * threads);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      sum += v[k].x + v[k].y + v[k].z + v[k].w;
  }
  out[thread] = sum;
}

/// Sums like the kernel above, with 4 bytes a load and one load at a time.
extern "C" __global__ void trickle(const u32 *x, u32 *out, int words) {
  int threads = gridDim.x * blockDim.x;
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  u32 sum = 0;
#pragma unroll 1
  for (int i = thread; i < words; i += threads)
    sum += *(const volatile u32 *)(x + i);
  out[thread] = sum;
}

/// Copies `rows` rows of 128 words to shared memory and adds them up, all
/// loads of a tile of 16 rows before the first store. x: [rows, 128].
extern "C" __global__ void tiles(const u32 *x, u32 *out, int rows) {
  __shared__ u32 tile[16][128];
  u32 sum = 0;
  for (int at = 0; at < rows; at += 16) {
    u32 loaded[16];
#pragma unroll
    for (int r = 0; r < 16; ++r)
      loaded[r] = __ldg(x + (at + r) * 128 + threadIdx.x);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 16; ++r)
      tile[r][threadIdx.x] = loaded[r];
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 16; ++r)
      sum += tile[r][threadIdx.x ^ 1];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// The same where the address of each load comes out of a table, and a row is
/// stored before the next one is loaded. pages: [rows], 0 to rows - 1.
extern "C" __global__ void chain(const u32 *x, const int *pages, u32 *out,
                                 int rows) {
  __shared__ u32 tile[16][128];
  u32 sum = 0;
  for (int at = 0; at < rows; at += 16) {
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < 16; ++r)
      tile[r][threadIdx.x] =
          *(const volatile u32 *)(x + pages[at + r] * 128 + threadIdx.x);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 16; ++r)
      sum += tile[r][threadIdx.x ^ 1];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// Sums like the kernel above, with two barriers for every row.
extern "C" __global__ void barriers(const u32 *x, u32 *out, int rows) {
  __shared__ u32 row[128];
  u32 sum = 0;
  for (int at = 0; at < rows; at += 16) {
    u32 loaded[16];
#pragma unroll
    for (int r = 0; r < 16; ++r)
      loaded[r] = __ldg(x + (at + r) * 128 + threadIdx.x);
#pragma unroll
    for (int r = 0; r < 16; ++r) {
      __syncthreads();
      row[threadIdx.x] = loaded[r];
      __syncthreads();
      sum += row[threadIdx.x ^ 1];
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// Reads shared memory `rounds` times with `stride` words between lanes.
extern "C" __global__ void banks(u32 *out, int stride, int rounds) {
  __shared__ u32 words[32 * 32];
  for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x)
    words[i] = i;
  __syncthreads();
  u32 sum = 0;
  int at = threadIdx.x % 32 * stride;
#pragma unroll 8
  for (int i = 0; i < rounds; ++i)
    sum += words[(at + i) & 1023];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__device__ void copy16(void *to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   (u32)__cvta_generic_to_shared(to)),
               "l"(from));
}

/// Multiplies and adds every word of `tiles` tiles of 512 words 16 times; a
/// tile is copied while the one before is used (stages of 2), or not (1).
template <int Stages>
__device__ void overlapped(const uint4 *x, u32 *out, int tiles) {
  __shared__ uint4 tile[2][128];
  u32 sum = 0;
  if (Stages == 2) {
    copy16(&tile[0][threadIdx.x], x + threadIdx.x);
    asm volatile("cp.async.commit_group;");
  }
  for (int t = 0; t < tiles; ++t) {
    int next = t + Stages - 1;
    if (next < tiles)
      copy16(&tile[next % 2][threadIdx.x], x + next * 128 + threadIdx.x);
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group %0;" ::"n"(Stages - 1));
    __syncthreads();
    uint4 v = tile[t % 2][threadIdx.x ^ 1];
#pragma unroll
    for (int i = 0; i < 48; ++i) {
      v.x = v.x * 5 + v.y;
      v.y = v.y * 3 + v.z;
      v.z = v.z * 7 + v.w;
      v.w = v.w * 9 + v.x;
    }
    sum += v.x ^ v.w;
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void twoStages(const uint4 *x, u32 *out, int tiles) {
  overlapped<2>(x, out, tiles);
}
extern "C" __global__ void oneStage(const uint4 *x, u32 *out, int tiles) {
  overlapped<1>(x, out, tiles);
}
