//===- Jobs.cuh - The matrix and rows that a block multiplies ---*- C++ -*-===//
//
// MOE_JOBS selects the kind of product. Tokens: all rows are multiplied with a
// single matrix. Heads: each has a matrix (blockIdx.z), which is multiplied
// with every token. Experts: each has a matrix, which is multiplied with the
// slots that ExpertGroup assigned to it, elements offsets[expert] ..
// offsets[expert + 1] - 1 of `slots`.
//
// A block multiplies at most MOE_ROWS rows, which blockIdx.y selects: that
// group of tokens, or a group of slots that begins with number blockIdx.y in
// `slots`. The grid is for every number, because only the GPU knows where
// groups begin; a block whose number begins no group has nothing to do.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_JOBS_CUH
#define MOE_KERNELS_CUDA_JOBS_CUH

#include "kernels/cuda/Device.cuh"

#ifdef MOE_BRING
#include "kernels/cuda/Bring.cuh"
/// Arguments of a product with experts that launches copy in parts (Bring.cuh).
#define MOE_GEMM_ARGS GemmPartArgs
#define MOE_BRING_NEXT(a)                                                      \
  if (blockIdx.z == 0) {                                                       \
    bring(a.next, i64(blockIdx.y) * gridDim.x + blockIdx.x,                    \
          i64(gridDim.x) * gridDim.y);                                         \
    return;                                                                    \
  }
#else
#define MOE_GEMM_ARGS GemmArgs
#define MOE_BRING_NEXT(a)
#endif

#define MOE_TOKENS 0
#define MOE_HEADS 1
#define MOE_EXPERTS 2

/// Rows `first` .. `first` + `count` - 1 (of `slots`, with experts) and their
/// matrix.
struct Job {
  int matrix, first, count; ///< count 0: the block has nothing to do.
};

#if MOE_JOBS == MOE_EXPERTS
/// Returns the expert of slot number `p` in expert order. Every warp computes
/// it for itself, 32 experts per step.
MOE_DEVICE int expertOf(const GemmArgs &a, int p) {
  int lane = threadIdx.x % 32;
  for (int e = lane; e - lane < a.experts; e += 32) {
    bool isIt = e < a.experts && a.offsets[e] <= p && p < a.offsets[e + 1];
    if (u32 found = __ballot_sync(kAllLanes, isIt))
      return e - lane + __ffs(int(found)) - 1;
  }
  return 0;
}
#endif

/// Returns the job of the block with index `blockIdx`.
MOE_DEVICE Job findJob(const GemmArgs &a, const uint3 blockIdx) {
#if MOE_JOBS == MOE_EXPERTS
  // Slots of experts on other devices are in no group. If this is a part, the
  // slots of the parts before it are skipped.
  int p = blockIdx.y;
#ifdef MOE_PART
  p += a.offsets[0];
#endif
  if (p >= a.offsets[a.experts])
    return {0, 0, 0};
  int expert = expertOf(a, p);
  if ((p - a.offsets[expert]) % MOE_ROWS != 0)
    return {0, 0, 0};
  return {expert, p, min(a.offsets[expert + 1] - p, MOE_ROWS)};
#else
  int first = blockIdx.y * MOE_ROWS;
  return {int(blockIdx.z), first, min(a.step->tokens - first, MOE_ROWS)};
#endif
}

/// Addresses from which row `i` of the job is read, and to which its results
/// are written.
MOE_DEVICE const u8 *actRow(const GemmArgs &a, const Job &job, int i) {
#if MOE_JOBS == MOE_EXPERTS
  int slot = a.slots[job.first + i];
  return a.act + (a.actPerToken ? slot / a.topK : slot) * a.actStride;
#elif MOE_JOBS == MOE_HEADS
  return a.act + (job.first + i) * a.actStride +
         job.matrix * (a.w.cols + a.tail) * 4;
#else
  return a.act + (job.first + i) * a.actStride;
#endif
}
MOE_DEVICE float *outRow(const GemmArgs &a, const Job &job, int i) {
#if MOE_JOBS == MOE_EXPERTS
  return a.out + a.slots[job.first + i] * a.outStride;
#elif MOE_JOBS == MOE_HEADS
  return a.out + (job.first + i) * a.outStride +
         job.matrix * (a.w.rows + a.tail);
#else
  return a.out + (job.first + i) * a.outStride;
#endif
}

/// The epilogue: makes the result of weight row `row` of matrix `matrix` from
/// its sum (and from `up`, that of the second matrix), and stores it in
/// out[row].
MOE_DEVICE void finish(const GemmArgs &a, int matrix, float *out, i64 row,
                       float sum, float up) {
  if (a.bias)
    sum += a.bias[matrix * a.w.rows + row];
#ifdef MOE_GATE
  if (a.upBias)
    up += a.upBias[matrix * a.w.rows + row];
  out[row] = activate(sum, up);
#else
  out[row] = a.accumulate ? sum + out[row] : sum;
#endif
}

#endif // MOE_KERNELS_CUDA_JOBS_CUH
