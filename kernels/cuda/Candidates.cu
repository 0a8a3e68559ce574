// BlockMaxima: the largest score of each block of entries before a token's own.
// With MOE_KEEP, KeepBlocks: minus infinity for entries outside of chosen
// blocks. A block has one token.

#include "kernels/cuda/Device.cuh"

#ifdef MOE_KEEP
MOE_KERNEL(256, 4, KeepBlocksArgs) {
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  int position = placeOf(a.step, t).position;
  const float *scores = a.scores + t * a.scoresStride;
  const int *chosen = a.chosen + i64(t) * a.topK;
  float *out = a.out + t * a.scoresStride;
  int seen = (position + 1) / (a.ratio / a.size), own = position / a.ratio;
  for (int i = threadIdx.x; i < seen; i += blockDim.x)
    if (i / a.size != own)
      out[i] = -infinity();
  __syncthreads();
  // Chosen blocks are distinct, and the token's own block is not among them, so
  // no entry is written twice.
  for (i64 i = threadIdx.x; i < i64(a.topK + 1) * a.size; i += blockDim.x) {
    int k = int(i / a.size), block = k < a.topK ? chosen[k] : own;
    int entry = block * a.size + int(i % a.size);
    if (block >= 0 && entry < seen)
      out[entry] = scores[entry];
  }
}
#else
MOE_KERNEL(256, 4, BlockMaximaArgs) {
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  int blocks = placeOf(a.step, t).position / a.ratio;
  const float *scores = a.scores + t * a.scoresStride;
  float *out = a.out + t * a.outStride;
  for (int block = threadIdx.x; block < blocks; block += blockDim.x) {
    float most = -infinity();
    for (int i = 0; i < a.size; ++i) {
      float score = scores[i64(block) * a.size + i];
      // A NaN is larger than all numbers, as IndexSelect ranks it.
      if (score != score || most != most)
        most = nanValue();
      else
        most = fmaxf(most, score);
    }
    out[block] = most;
  }
}
#endif
