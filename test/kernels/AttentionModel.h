//===- AttentionModel.h - Reference of attention in float64 -----*- C++ -*-===//
//
// Attention in float64, and the error that kernels may have: those that
// multiply integers round queries, weights and scales in known ways.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_KERNELS_ATTENTIONMODEL_H
#define MOE_TEST_KERNELS_ATTENTIONMODEL_H

#include "test/kernels/KernelTest.h"

#include <optional>

namespace moek::test {

/// A sum and the sum of its terms' magnitudes.
struct Sum {
  double value = 0, magnitude = 0;
  double error = 0; ///< Possible error besides that of float rounding.
  void add(double term, double size) {
    value += term;
    magnitude += size;
  }
  void add(double term) { add(term, std::fabs(term)); }
};

/// Returns the gemm for rows of `format` as in a file and activations of
/// `encoding`, of the kernel's instruction set or the next one below it.
inline const GemmInfo &gemmFor(Format format, Encoding encoding, Isa isa) {
  const GemmInfo *best = nullptr;
  for (const GemmInfo &info : gemmTable())
    if (info.format == format && info.activation == encoding &&
        info.layout == Layout::Gguf && runsOn(info.isa, isa) &&
        (!best || info.isa > best->isa))
      best = &info;
  return *best;
}

/// Options of softmax attention.
struct AttentionRules {
  int64_t begin = 0;       ///< First visible row.
  double cap = 0;          ///< Softcap of scores; 0: none.
  double sink = -INFINITY; ///< Score of a sink, which has no value.
};

/// Softmax attention of one query over rows up to `keys`, in float64. score(k)
/// and value(k, c) return magnitudes too; an error of d in a score changes a
/// weight by a factor of about 1 + d.
struct Attention {
  /// One for each row; 0 for rows that are not visible.
  std::vector<double> weights;
  double scoreError = 0;

  template <class Score>
  Attention(int64_t keys, double scale, double terms, Score score,
            const AttentionRules &rules = {})
      : weights(size_t(rules.begin), 0) {
    double most = rules.sink, total = 0;
    for (int64_t k = rules.begin; k < keys; ++k) {
      Sum s = score(k);
      double value = s.value * scale;
      if (rules.cap > 0)
        value = rules.cap * std::tanh(value / rules.cap);
      weights.push_back(value);
      most = std::fmax(most, value);
      scoreError = std::fmax(scoreError,
                             sumTolerance(int64_t(terms), s.magnitude * scale) +
                                 s.error * scale + 8 * kEps * rules.cap);
    }
    for (int64_t k = rules.begin; k < keys; ++k)
      total += weights[size_t(k)] = std::exp(weights[size_t(k)] - most);
    total += std::exp(rules.sink - most);
    for (double &w : weights)
      w /= total;
  }

  template <class Value> Wanted output(double valueTerms, Value value) const {
    Sum sum;
    double valueError = 0;
    for (size_t k = 0; k < weights.size(); ++k) {
      Sum v = value(int64_t(k));
      sum.add(weights[k] * v.value, weights[k] * std::fabs(v.value));
      valueError += weights[k] *
                    (sumTolerance(int64_t(valueTerms), v.magnitude) + v.error);
    }
    return {sum.value,
            (2 * scoreError + kEps * 64) * sum.magnitude +
                sumTolerance(int64_t(weights.size()), sum.magnitude) +
                valueError};
  }
};

/// Roundings of a kernel that multiplies integers.
struct Rounding {
  int query; ///< Largest integer in a block of a query.
  /// Weights above eight times their mean have fewer bits; the others are bytes
  /// in units of a 255th of that. If false, all are in units of a 32767th of
  /// the largest.
  bool bytes;
};

inline std::optional<Rounding> roundingOf(const KernelInfo &kernel,
                                          KvType type) {
  if (type == KvType::Q8_0 && kernel.isa == Isa::Avx512)
    return Rounding{127, true};
  if (type == KvType::Q8_0 && kernel.isa == Isa::Avx2)
    return Rounding{32767, false};
  return std::nullopt;
}

/// A number of tokens that is enough for prefill kernels.
inline constexpr int32_t kPrefillTokens = 100;

/// A GPU's tensor cores multiply queries and weights as sums of two 16-bit
/// numbers, of up to 32 tokens, or as one, of the type of the cache or BF16.
/// Returns the relative error of either.
inline double gpuRounding(const KernelInfo &kernel, KvType type,
                          int32_t tokens) {
  if (kernel.isa != Isa::Cuda || type == KvType::F32)
    return 0;
  if (tokens < 30) // Phases in tests have a few tokens more than decode.
    return type == KvType::F16 ? 0x1p-21 : 0x1p-16;
  return type == KvType::F16 ? 0x1p-11 : 0x1p-8;
}

/// The possible error of a head's weighted sum if weights and scales of rows
/// are rounded: the arithmetic of cpu/*/Q8Products.h for each group of rows.
struct WeightRounding {
  const Cache &cache;
  bool bytes;
  std::vector<double> weights;

  double unitOf(int64_t begin, int64_t end) const {
    double top = 0, bulk = 0, sum = 0;
    for (int64_t k = begin; k < end; ++k) {
      top = std::fmax(top, weights[size_t(k)]);
      bulk += weights[size_t(k)] * 8 / double(end - begin);
    }
    if (!bytes)
      return top / 32767;
    for (int64_t k = begin; k < end; ++k)
      sum += std::fmin(weights[size_t(k)], bulk);
    bulk = std::fmin(bulk, sum * 8 / double(end - begin));
    return std::fmax(std::fmin(top, bulk) / 255, top / 32767);
  }

  double of(int64_t begin, int64_t end, int64_t col) const {
    double scale = 0, error = 0, unit = unitOf(begin, end) * 1.001;
    for (int64_t k = begin; k < end; ++k)
      scale = std::fmax(scale, cache.scaleAt(k, col));
    for (int64_t k = begin; k < end; ++k) {
      double value = std::fabs(cache.at(k, col));
      double code = value / cache.scaleAt(k, col);
      error += unit / 2 * (value + code * scale) +
               weights[size_t(k)] * code * scale / 32767;
    }
    return error;
  }

  /// Error over all groups; they start anew in every split of `length` rows.
  double of(int64_t length, int64_t col) const {
    auto rows = int64_t(weights.size());
    double error = 0;
    for (int64_t span = 0; span < rows; span += length)
      for (int64_t at = span; at < std::min(rows, span + length);
           at += kQ8Group)
        error += of(at, std::min({rows, span + length, at + kQ8Group}), col);
    return error;
  }
};

/// Returns a head's query after rounding to integers up to `largest` per block
/// of kKvBlock.
inline std::vector<double> rounded(const float *q, int64_t width,
                                   float largest) {
  std::vector<double> result(static_cast<size_t>(width));
  for (int64_t begin = 0; begin < width; begin += kKvBlock) {
    int64_t end = std::min(width, begin + kKvBlock);
    float most = 0;
    for (int64_t c = begin; c < end; ++c)
      most = std::isnan(q[c]) ? NAN : std::fmax(most, std::fabs(q[c]));
    for (int64_t c = begin; c < end; ++c)
      result[size_t(c)] =
          std::nearbyint(q[c] * (largest / most)) * double(most / largest);
  }
  return result;
}

} // namespace moek::test

#endif // MOE_TEST_KERNELS_ATTENTIONMODEL_H
