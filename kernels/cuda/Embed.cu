// Embed: converts columns of rows of the embedding table to floats. A block has
// one token. With MOE_POSITIONS it is EmbedPositions, and a token's position
// selects the row.

#include "kernels/cuda/Gguf.cuh"

#ifdef MOE_POSITIONS
MOE_KERNEL(256, 4, EmbedPositionsArgs) {
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  const u8 *row =
      a.table.data + i64(placeOf(a.step, t).position) * a.table.rowStride;
  for (i64 c = threadIdx.x; c < a.cols; c += blockDim.x)
    a.out[t * a.cols + c] = gguf::valueAt(row, c);
}
#else
MOE_KERNEL(256, 4, EmbedArgs) {
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  const u8 *row = a.table.data + i64(a.tokens[t]) * a.table.rowStride;
  float *out = a.out + t * a.outStride;
  for (i64 c = threadIdx.x; c < a.cols; c += blockDim.x)
    out[c] = gguf::valueAt(row, a.begin + c);
}
#endif
