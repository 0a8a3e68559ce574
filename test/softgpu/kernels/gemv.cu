// y = W x with int8 blocks: dp4a, one warp per row, 16-byte loads, sums by
// shuffles.

/// weights: rows x columns int8. scales: rows x columns / 32. x: columns int8,
/// xScales: columns / 32. y: rows. columns: a multiple of 32.
extern "C" __global__ void __launch_bounds__(128)
    gemv(const int4 *weights, const float *scales, const int4 *x,
         const float *xScales, float *y, int rows, int columns) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return;
  const int4 *w = weights + (long long)row * (columns / 16);
  const float *s = scales + (long long)row * (columns / 32);
  float sum = 0;
  // A lane takes half a block at a time.
  for (int i = lane; i < columns / 16; i += 32) {
    int4 a = w[i], b = x[i];
    int dot = __dp4a(a.x, b.x, 0);
    dot = __dp4a(a.y, b.y, dot);
    dot = __dp4a(a.z, b.z, dot);
    dot = __dp4a(a.w, b.w, dot);
    sum += float(dot) * (s[i / 2] * xScales[i / 2]);
  }
  for (int step = 16; step; step /= 2)
    sum += __shfl_xor_sync(~0u, sum, step);
  if (lane == 0)
    y[row] = sum;
}
