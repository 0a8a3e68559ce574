// EntryStore: normalises and rotates an entry and stores it in a cache, at the
// last of its tokens. A block has one token; it assembles the row in shared
// memory.

#include "kernels/cuda/KvRow.cuh"
#include "kernels/cuda/Rms.cuh"
#include "kernels/cuda/Turn.cuh"

extern __shared__ float row[]; // [width], for Q8_0 padded to whole blocks

MOE_KERNEL(256, 2, EntryStoreArgs) {
  __shared__ float shared[32];
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  Place place = placeOf(a.step, t);
  if ((place.position + 1) % a.ratio != 0)
    return;
  const float *x = a.x + t * a.xStride;
  float scale = rmsScale(x, a.cols, a.eps, shared);
  for (int c = threadIdx.x; c < a.cols; c += blockDim.x)
    row[c] = x[c] * scale * a.weight[c];
  __syncthreads();
  int lead = a.cols - a.dim - a.tail, first = place.position + 1 - a.ratio;
  for (int i = threadIdx.x; i < a.dim / 2; i += blockDim.x) {
    Turned turned = turn(double(first) * double(a.invFreq[i]));
    float c = float(turned.cosine), s = float(turned.sine);
    float *one = row + lead + (a.neox ? i : 2 * i);
    float *other = one + (a.neox ? a.dim / 2 : 1);
    float u = *one, v = *other;
    *one = u * c - v * s;
    *other = v * c + u * s;
  }
  storeRow(a.kv, cacheRow(place.pages, place.position), row, a.cols);
}
