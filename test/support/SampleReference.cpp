// Computes the sample model in float64, in the simplest possible way.
#include "test/support/SamplePlan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moetest {

namespace {
using Row = std::vector<double>;

Row normed(const Row &x, const std::vector<float> &weight, size_t count) {
  double squares = 0;
  for (size_t i = 0; i < count; ++i)
    squares += x[i] * x[i];
  double scale = 1 / std::sqrt(squares / double(count) + SamplePlan::kEps);
  Row out(x);
  for (size_t i = 0; i < count; ++i)
    out[i] = x[i] * scale * weight[i];
  return out;
}

/// Multiplies rows [first, first + rows) of `w`, a matrix as wide as x, with x.
Row times(const std::vector<float> &w, const Row &x, size_t first,
          size_t rows) {
  Row out(rows);
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < x.size(); ++c)
      out[r] += double(w[(first + r) * x.size() + c]) * x[c];
  return out;
}

/// Rotates pairs (2i, 2i + 1) of x[begin ...] by position * frequency.
void rotate(Row &x, size_t begin, size_t position) {
  constexpr double frequencies[] = {1.0, double(0.1f)};
  for (size_t i = 0; i < 2; ++i) {
    double angle = double(position) * frequencies[i];
    double a = x[begin + 2 * i], b = x[begin + 2 * i + 1];
    x[begin + 2 * i] = a * std::cos(angle) - b * std::sin(angle);
    x[begin + 2 * i + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
}

Row gated(const Row &gate, const Row &up) {
  Row out(gate.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return out;
}

void addTo(Row &h, const Row &y, double factor = 1) {
  for (size_t i = 0; i < h.size(); ++i)
    h[i] += factor * y[i];
}
} // namespace

std::vector<std::vector<double>>
SamplePlan::hiddenReference(const std::vector<int32_t> &tokens) const {
  auto w = [&](const char *name) -> const std::vector<float> & {
    return values_.at(name);
  };
  std::vector<Row> latents, keys, result;
  for (size_t t = 0; t < tokens.size(); ++t) {
    auto first = w("embed").begin() + tokens[t] * kHidden;
    Row h(first, first + kHidden);

    // Attention on keys and values that are decompressed from the latent.
    Row n = normed(h, w("attn_norm"), kHidden);
    Row q = times(w("wq"), n, 0, kHeads * (kNope + kRope));
    Row kv =
        normed(times(w("wkv"), n, 0, kLatent + kRope), w("kv_norm"), kLatent);
    rotate(kv, kLatent, t);
    latents.emplace_back(kv.begin(), kv.begin() + kLatent);
    keys.emplace_back(kv.begin() + kLatent, kv.end());
    Row values;
    for (size_t head = 0; head < kHeads; ++head) {
      size_t at = head * (kNope + kRope);
      rotate(q, at + kNope, t);
      Row scores;
      for (size_t s = 0; s <= t; ++s) {
        Row key = times(w("wk"), latents[s], head * kNope, kNope);
        key.insert(key.end(), keys[s].begin(), keys[s].end());
        scores.push_back(
            std::exp(kScale * std::inner_product(key.begin(), key.end(),
                                                 q.begin() + long(at), 0.0)));
      }
      double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
      Row value(kValue);
      for (size_t s = 0; s <= t; ++s)
        addTo(value, times(w("wv"), latents[s], head * kValue, kValue),
              scores[s] / sum);
      values.insert(values.end(), value.begin(), value.end());
    }
    addTo(h, times(w("wo"), values, 0, kHidden));

    n = normed(h, w("dense_norm"), kHidden);
    addTo(h, times(w("dense_down"),
                   gated(times(w("dense_gate"), n, 0, kDenseWidth),
                         times(w("dense_up"), n, 0, kDenseWidth)),
                   0, kHidden));

    n = normed(h, w("moe_norm"), kHidden);
    Row scores = times(w("router"), n, 0, kExperts);
    for (double &score : scores)
      score = 1 / (1 + std::exp(-score));
    std::vector<size_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return scores[a] + w("router_bias")[a] > scores[b] + w("router_bias")[b];
    });
    double chosen = 0;
    for (size_t j = 0; j < kTopK; ++j)
      chosen += scores[order[j]];
    Row before = n;
    for (size_t j = 0; j < kTopK; ++j) {
      size_t e = order[j];
      addTo(
          h,
          times(w("down"),
                gated(times(w("gate"), before, e * kExpertWidth, kExpertWidth),
                      times(w("up"), before, e * kExpertWidth, kExpertWidth)),
                e * kHidden, kHidden),
          scores[e] / chosen * kRouterScale);
    }
    addTo(h, times(w("shared_down"),
                   gated(times(w("shared_gate"), before, 0, kExpertWidth),
                         times(w("shared_up"), before, 0, kExpertWidth)),
                   0, kHidden));

    result.push_back(normed(h, w("out_norm"), kHidden));
  }
  return result;
}

std::vector<std::vector<double>>
SamplePlan::reference(const std::vector<int32_t> &tokens) const {
  std::vector<Row> result = hiddenReference(tokens);
  for (Row &row : result) {
    row = times(values_.at("out"), row, 0, kVocab);
    for (size_t i = 0; i < kVocab; ++i)
      row[i] += values_.at("out_bias")[i];
  }
  return result;
}

} // namespace moetest
