// Embed: converts columns of rows of the embedding table to floats. A block has
// one token.

#include "kernels/cuda/Gguf.cuh"

MOE_KERNEL(256, 4, EmbedArgs) {
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  const u8 *row = a.table.data + i64(a.tokens[t]) * a.table.rowStride;
  float *out = a.out + t * a.outStride;
  for (i64 c = threadIdx.x; c < a.cols; c += blockDim.x)
    out[c] = gguf::valueAt(row, a.begin + c);
}
