//===- Index.cuh - The products of an indexer -------------------*- C++ -*-===//
//
// For kernels of 128 threads: the keys of 32 rows are converted to floats in
// shared memory, and a lane has one row. Queries are processed sixteen at a
// time, four per warp, so that a key read from shared memory is multiplied with
// four queries.
//
// Floats in shared memory: keys [32][key + 1], with an odd stride so that lanes
// read from 32 banks; queries [16][key]. For 128 columns that is 25 KB.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_INDEX_CUH
#define MOE_KERNELS_CUDA_INDEX_CUH

#include "kernels/cuda/KvCache.cuh"

constexpr int kRows = 32, kHeads = 16, kOwn = 4, kWarps = 4;

extern __shared__ float shared[];

struct Index {
  int key, lane, own; ///< own: the first query of the warp
  float *keys, *queries;

  __device__ explicit Index(int key)
      : key(key), lane(threadIdx.x % 32), own(threadIdx.x / 32 * kOwn),
        keys(shared), queries(shared + kRows * (key | 1)) {}

  /// Loads the keys of `count` rows; rowOf(i) is the i-th one's row of the
  /// cache.
  template <class RowOf>
  __device__ void loadKeys(const Kv &kv, int count, RowOf rowOf) const {
    __syncthreads(); // No thread reads the previous contents any more.
    for (int r = 0; r < count; ++r) {
      i64 row = rowOf(r);
      for (int c = threadIdx.x; c < key; c += blockDim.x)
        keys[r * (key | 1) + c] = loadKv(kv, row, c);
    }
  }

  /// Loads `heads` queries, and zeros for the rest of sixteen.
  __device__ void loadQueries(const float *q, int heads) const {
    __syncthreads();
    for (int i = threadIdx.x; i < kHeads * key; i += blockDim.x)
      queries[i] = i < heads * key ? q[i] : 0;
    __syncthreads();
  }

  /// The products of the lane's key with the warp's queries; 0 for lanes from
  /// `count` on.
  __device__ void multiply(int count, float (&score)[kOwn]) const {
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
      score[i] = 0;
    if (lane < count)
      for (int c = 0; c < key; ++c) {
        float k = keys[lane * (key | 1) + c];
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
          score[i] = fmaf(k, queries[(own + i) * key + c], score[i]);
      }
  }
};

#endif // MOE_KERNELS_CUDA_INDEX_CUH
