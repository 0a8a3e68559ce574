//===- Elementwise.h - CPU kernels without a matrix product -----*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_ELEMENTWISE_H
#define MOE_KERNELS_CPU_ELEMENTWISE_H

#include "kernels/Abi.h"
#include "kernels/Activation.h"
#include "kernels/cpu/Activations.h"
#include "kernels/cpu/WeightRows.h"

#include <cmath>
#include <limits>

namespace moek {

/// Elementwise work is divided in multiples of this many elements: 2 KiB of
/// floats, whole cache lines.
inline constexpr int64_t kFlatGrain = 512;
/// Columns in which a row is divided among workers: whole cache lines.
inline constexpr int64_t kNormGrain = 128;
/// Work is divided in multiples of this many A8 blocks: 512 floats, and whole
/// cache lines of 8-bit values.
inline constexpr int64_t kA8Grain = 16;

template <class S>
void run(const EmbedArgs &a, const Step &step, const Worker &worker) {
  Range tokens = shareOf(step.tokens, 1, worker);
  for (int64_t t = tokens.begin; t < tokens.end; ++t)
    weightRow<S>(a.table, 0, a.tokens[t], a.begin, a.cols,
                 a.out + t * a.outStride);
}

/// Returns 1 / sqrt(mean of squares + eps), or NaN if the mean is infinite:
/// with a scale of zero, a row of too large numbers would become a row of
/// zeros.
template <class S>
typename S::Num rmsScale(const float *x, int64_t cols, float eps) {
  using Vec = typename S::Vec;
  Vec even = S::zero(), odd = S::zero();
  constexpr int64_t kPair = 2 * S::kWidth;
  int64_t pairs = cols / kPair * kPair;
  for (int64_t i = 0; i < pairs; i += kPair) {
    Vec u = S::load(x + i), v = S::load(x + i + S::kWidth);
    even = S::fma(u, u, even);
    odd = S::fma(v, v, odd);
  }
  forVectors<S>(pairs, cols, [&](int64_t i, auto lanes) {
    Vec u = lanes.load(x + i);
    even = S::fma(u, u, even);
  });
  double mean = double(S::reduceAdd(S::add(even, odd))) / double(cols);
  return typename S::Num(mean < std::numeric_limits<double>::infinity()
                             ? 1 / std::sqrt(mean + double(eps))
                             : std::numeric_limits<double>::quiet_NaN());
}

/// out = x * scale * weight. A null weight means all 1.
template <class S>
void scaleRow(const float *x, typename S::Num scale, const float *weight,
              int64_t cols, float *out) {
  forVectors<S>(0, cols, [&](int64_t i, auto lanes) {
    auto scaled = S::mul(lanes.load(x + i), S::set(scale));
    lanes.store(out + i,
                weight ? S::mul(scaled, lanes.load(weight + i)) : scaled);
  });
}

template <class S>
void run(const RmsNormArgs &a, const Step &step, const Worker &worker) {
  int64_t count = step.tokens * a.groups;
  Range rows{0, count}, columns{0, a.cols};
  // With fewer rows than workers, each worker computes the sums of all rows
  // (the cheaper half) and writes its own columns. In place this would be a
  // race.
  if (count < worker.count && a.x != a.out)
    columns = shareOf(a.cols, kNormGrain, worker);
  else
    rows = shareOf(count, 1, worker);
  if (columns.begin == columns.end)
    return;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    int64_t t = i / a.groups, group = i % a.groups * a.cols;
    const float *x = a.x + t * a.xStride + group;
    const float *weight = a.whole ? a.weight + group : a.weight;
    scaleRow<S>(x + columns.begin, rmsScale<S>(x, a.cols, a.eps),
                a.weight ? weight + columns.begin : nullptr,
                columns.end - columns.begin,
                a.out + t * a.outStride + group + columns.begin);
  }
}

/// Writes the blocks `blocks` of a row in an A8 encoding. A block has
/// `blockCols` columns (the last may be shorter) that share a scale. A block
/// with a NaN or an infinity gets a NaN scale, so that every result computed
/// from it is NaN. A block whose largest value is below 1e-36 becomes zero,
/// because its inverse scale would overflow.
template <class S>
void quantizeBlocks(const float *x, int64_t cols, int64_t blockCols,
                    Range blocks, uint8_t *out) {
  auto *q = reinterpret_cast<int8_t *>(out);
  auto *scales = reinterpret_cast<float *>(out + a8ScaleOffset(cols));
  auto *sums = reinterpret_cast<int16_t *>(out + a8SumOffset(cols));
  for (int64_t block = blocks.begin; block < blocks.end; ++block) {
    int64_t begin = block * blockCols;
    int64_t end = cols - begin < blockCols ? cols : begin + blockCols;
    bool finite = true;
    float biggest = 0;
    for (int64_t c = begin; c < end; c += kA8Block) {
      bool partFinite;
      float part = S::maxAbs32(x + c, partFinite);
      biggest = part > biggest ? part : biggest;
      finite = finite && partFinite;
    }
    for (int64_t c = begin; c < end; c += kA8Block) {
      int64_t i = c / kA8Block;
      if (finite && biggest >= 1e-36f) {
        scales[i] = biggest / 127;
        S::quantize32(x + c, 127 / biggest, q + c, sums + 2 * i);
        continue;
      }
      scales[i] = finite ? 0 : std::numeric_limits<float>::quiet_NaN();
      std::memset(q + c, 0, kA8Block);
      sums[2 * i] = sums[2 * i + 1] = 0;
    }
  }
}

template <class S>
void run(const QuantizeArgs &a, const Step &step, const Worker &worker) {
  int64_t perRow = (a.cols + a.blockCols - 1) / a.blockCols;
  Range share = shareOf(int64_t(step.tokens) * a.rowsPerToken * perRow,
                        kA8Grain * kA8Block / a.blockCols, worker);
  while (share.begin < share.end) {
    int64_t r = share.begin / perRow, first = r * perRow;
    int64_t end = share.end - first < perRow ? share.end - first : perRow;
    quantizeBlocks<S>(a.x + r * a.xStride, a.cols, a.blockCols,
                      {share.begin - first, end}, a.out + r * a.outStride);
    share.begin = first + end;
  }
}

template <class S>
void run(const ActivationMulArgs &a, const Step &step, const Worker &worker) {
  Range range = shareOf(int64_t(step.tokens) * a.rowsPerToken * a.cols,
                        kFlatGrain, worker);
  withActivation<S>(a.activation, [&](auto activation) {
    forVectors<S>(range.begin, range.end, [&](int64_t i, auto lanes) {
      auto up = a.up ? lanes.load(a.up + i) : S::set(1);
      lanes.store(a.out + i, activation(lanes.load(a.gate + i), up));
    });
  });
}

template <class S>
void run(const GateMulArgs &a, const Step &step, const Worker &worker) {
  Range range = shareOf(step.tokens * a.cols, kFlatGrain, worker);
  const int64_t width = a.cols / a.gates;
  withGate<S>(a.function, [&](auto gated) {
    if (width == 1)
      return forVectors<S>(range.begin, range.end, [&](int64_t i, auto lanes) {
        lanes.store(a.out + i,
                    gated(lanes.load(a.x + i), lanes.load(a.gate + i)));
      });
    while (range.begin < range.end) {
      int64_t group = range.begin / width, groupEnd = (group + 1) * width;
      int64_t end = groupEnd < range.end ? groupEnd : range.end;
      auto gate = S::set(a.gate[group]);
      forVectors<S>(range.begin, end, [&](int64_t i, auto lanes) {
        lanes.store(a.out + i, gated(lanes.load(a.x + i), gate));
      });
      range.begin = end;
    }
  });
}

template <class S>
void run(const ScaleArgs &a, const Step &step, const Worker &worker) {
  Range range = shareOf(step.tokens * a.cols, kFlatGrain, worker);
  forVectors<S>(range.begin, range.end, [&](int64_t i, auto lanes) {
    auto scaled = S::mul(lanes.load(a.x + i), S::set(a.factor));
    if (a.softcap > 0)
      scaled = softcapped<S>(scaled, a.softcap);
    // With the bound as the first operand, a NaN stays a NaN.
    if (a.limit > 0)
      scaled = S::max(S::set(-a.limit), S::min(S::set(a.limit), scaled));
    lanes.store(a.out + i, scaled);
  });
}

template <class S>
void run(const AddArgs &a, const Step &step, const Worker &worker) {
  Range range = shareOf(step.tokens * a.cols, kFlatGrain, worker);
  forVectors<S>(range.begin, range.end, [&](int64_t i, auto lanes) {
    lanes.store(a.out + i, S::add(lanes.load(a.x + i), lanes.load(a.y + i)));
  });
}

template <class S>
void run(const ExpertsCombineArgs &a, const Step &step, const Worker &worker) {
  int64_t parts = (a.cols + kFlatGrain - 1) / kFlatGrain;
  Range range = shareOf(step.tokens * parts, 1, worker);
  for (int64_t i = range.begin; i < range.end; ++i) {
    int64_t t = i / parts, begin = i % parts * kFlatGrain;
    int64_t end = begin + kFlatGrain < a.cols ? begin + kFlatGrain : a.cols;
    const float *y = a.y + t * a.topK * a.cols;
    const float *weights = a.weights + t * a.topK;
    const int32_t *ids = a.ids ? a.ids + t * a.topK : nullptr;
    float *out = a.out + t * a.cols;
    forVectors<S>(begin, end, [&](int64_t c, auto lanes) {
      auto sum = a.accumulate ? lanes.load(out + c) : S::zero();
      for (int32_t j = 0; j < a.topK; ++j)
        if (!ids || a.slice.numberOf(ids[j]) >= 0)
          sum = S::fma(S::set(weights[j]), lanes.load(y + j * a.cols + c), sum);
      lanes.store(out + c, sum);
    });
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_ELEMENTWISE_H
