// Small kernels between the large ones: RMS norm, router, grouping by expert.

/// out = x / rms(x) * weight. A block of 256 threads has a row of `columns`.
extern "C" __global__ void __launch_bounds__(256)
    rmsNorm(const float *x, const float *weight, float *out, int columns,
            float epsilon) {
  __shared__ float parts[8];
  const float *row = x + (long long)blockIdx.x * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 256)
    sum += row[i] * row[i];
  for (int step = 16; step; step /= 2)
    sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0;
  for (int i = 0; i < 8; ++i)
    total += parts[i];
  float inverse = rsqrtf(total / columns + epsilon);
  for (int i = threadIdx.x; i < columns; i += 256)
    out[(long long)blockIdx.x * columns + i] = row[i] * inverse * weight[i];
}

/// Finds the `top` largest of 64 logits per token with their softmax weights;
/// ties go to the smaller expert. One warp per token.
extern "C" __global__ void __launch_bounds__(128)
    router(const float *logits, int *ids, float *weights, int tokens, int top) {
  int token = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (token >= tokens)
    return;
  float x[2] = {logits[token * 64 + lane], logits[token * 64 + 32 + lane]};
  float most = fmaxf(x[0], x[1]);
  for (int step = 16; step; step /= 2)
    most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  float sum = expf(x[0] - most) + expf(x[1] - most);
  for (int step = 16; step; step /= 2)
    sum += __shfl_xor_sync(~0u, sum, step);
  for (int slot = 0; slot < top; ++slot) {
    bool second = x[1] > x[0];
    float best = second ? x[1] : x[0];
    int id = lane + (second ? 32 : 0);
    for (int step = 16; step; step /= 2) {
      float other = __shfl_xor_sync(~0u, best, step);
      int otherId = __shfl_xor_sync(~0u, id, step);
      if (other > best || (other == best && otherId < id))
        best = other, id = otherId;
    }
    if (lane == 0) {
      ids[token * top + slot] = id;
      weights[token * top + slot] = expf(best - most) / sum;
    }
    if (id % 32 == lane)
      x[id / 32] = -1e30f;
  }
}

/// Sorts slots by expert, keeping their order within an expert. starts: 65. One
/// block of 256 threads: counts by shared atomics, a prefix sum, ranks by
/// ballots.
extern "C" __global__ void __launch_bounds__(256)
    group(const int *ids, int *order, int *starts, int slots) {
  __shared__ int counts[64], next[64];
  if (threadIdx.x < 64)
    counts[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < slots; i += 256)
    atomicAdd(&counts[ids[i]], 1);
  __syncthreads();
  if (threadIdx.x < 32) {
    int a = counts[2 * threadIdx.x], b = counts[2 * threadIdx.x + 1],
        sum = a + b;
    for (int step = 1; step < 32; step *= 2) {
      int before = __shfl_up_sync(~0u, sum, step);
      if (threadIdx.x >= step)
        sum += before;
    }
    starts[2 * threadIdx.x] = next[2 * threadIdx.x] = sum - a - b;
    starts[2 * threadIdx.x + 1] = next[2 * threadIdx.x + 1] = sum - b;
    if (threadIdx.x == 31)
      starts[64] = sum;
  }
  __syncthreads();
  // A warp has 8 experts and goes over all slots.
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int expert = warp * 8; expert < warp * 8 + 8; ++expert) {
    int at = next[expert];
    for (int base = 0; base < slots; base += 32) {
      bool mine = base + lane < slots && ids[base + lane] == expert;
      unsigned all = __ballot_sync(~0u, mine);
      if (mine)
        order[at + __popc(all & ((1u << lane) - 1))] = base + lane;
      at += __popc(all);
    }
  }
}
