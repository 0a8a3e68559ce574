// ShortConv: out[t] = bias + sum over taps j of weight[j] * x[t - (MOE_TAPS - 1
// - j) * MOE_DILATION] for each column, with MOE_SILU its SiLU. A block has 128
// columns of up to 32 rows of a sequence, a thread one column. Only the block
// with a sequence's first rows reads the state, and it also writes the new
// state, whose inputs exist already: so no block waits for another.

#include "kernels/cuda/States.cuh"

constexpr int kRows = 32, kLast = MOE_TAPS - 1;
constexpr int kBefore = kLast * MOE_DILATION;
static_assert(kBefore <= kRows, "blocks behind the first need no state");

MOE_KERNEL(128, 4, ShortConvArgs) {
  int tile = blockIdx.y, s = 0;
  for (; s < a.step->sequences; ++s) {
    int tiles = (a.step->sequence[s].count + kRows - 1) / kRows;
    if (tile < tiles)
      break;
    tile -= tiles;
  }
  i64 c = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (s == a.step->sequences || c >= a.cols)
    return;
  const Sequence &sequence = a.step->sequence[s];
  int part = int(c / a.xStride), column = int(c % a.xStride);
  const float *x = (part == 0 ? a.x : part == 1 ? a.second : a.third) + column;
  const float *weights = part == 0   ? a.weight
                         : part == 1 ? a.secondWeight
                                     : a.thirdWeight;
  float *kept = stateOf(a.state, sequence) + c;
  // Returns the input of the sequence's row `t`; rows before the first are in
  // the state.
  auto inputOf = [&](int t) -> float {
    if (t >= 0)
      return x[(sequence.begin + t) * a.xStride];
    return sequence.position > 0 ? kept[(t + kBefore) * a.cols] : 0;
  };
  int first = tile * kRows, end = min(first + kRows, sequence.count);
  float weight[MOE_TAPS], inputs[MOE_TAPS];
#pragma unroll
  for (int j = 0; j < MOE_TAPS; ++j) {
    weight[j] = weights[column * MOE_TAPS + j];
    inputs[j] = j < kLast && MOE_DILATION == 1 ? inputOf(first - kLast + j) : 0;
  }
  float bias = a.bias ? a.bias[c] : 0;
#pragma unroll 4
  for (int t = first; t < end; ++t) {
    inputs[kLast] = inputOf(t);
    float y = fmaf(weight[kLast], inputs[kLast], bias);
#pragma unroll
    for (int j = 0; j < kLast; ++j) {
      if (MOE_DILATION > 1) {
        y = fmaf(weight[j], inputOf(t - kBefore + j * MOE_DILATION), y);
      } else {
        y = fmaf(weight[j], inputs[j], y);
        inputs[j] = inputs[j + 1];
      }
    }
    a.out[(sequence.begin + t) * a.outStride + c] =
        MOE_SILU ? timesSigmoid(y, y) : y;
  }
  if (tile == 0)
    for (int j = 0; j < kBefore;
         ++j) // Ascending order, so that no row is read after it is written.
      kept[j * a.cols] = inputOf(sequence.count - kBefore + j);
}
