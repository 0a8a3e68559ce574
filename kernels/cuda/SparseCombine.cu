// SparseCombine: combines the KV splits of a token's list (SparseAttention.cu,
// LatentMma.cu). A block has MOE_COLUMNS columns of a head of a token.

#include "kernels/cuda/Combine.cuh"
#include "kernels/cuda/Listed.cuh"

MOE_KERNEL(256, kColumns == 4 ? 2 : 3, ListedArgs) {
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  Listed list = listedFor(a, placeOf(a.step, t).position);
  int used = (list.count() + list.length - 1) / list.length;
  i64 stride = i64(a.heads) * (a.value + 2);
  combineSplits(a.spans + t * a.splits * stride, stride, used, a.heads, a.value,
                blockIdx.y, blockIdx.z, a.out + t * a.outStride);
}
