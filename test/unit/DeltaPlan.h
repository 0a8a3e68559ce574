//===- DeltaPlan.h - A plan with a state and a KV cache ---------*- C++ -*-===//

#ifndef MOE_TEST_UNIT_DELTAPLAN_H
#define MOE_TEST_UNIT_DELTAPLAN_H

#include "kernels/KvCache.h"
#include "test/support/SmallModel.h"

#include <cmath>

namespace moetest {

inline constexpr int32_t kPage = moek::kKvPage;

class DeltaPlan : public SmallModel {
public:
  static constexpr int32_t kHidden = 16, kVocab = 40, kContext = 4 * kPage;
  static constexpr int32_t kKeyHeads = 2, kHeads = 4, kKey = 6, kValue = 5;
  static constexpr int32_t kTaps = 3, kDim = 8, kUbatch = 24, kSequences = 3;
  static constexpr int32_t kMixed = 2 * kKeyHeads * kKey + kHeads * kValue;
  static constexpr double kEps = 1e-3, kScale = 0.4;

  /// `attends` adds the layer with a KV cache.
  explicit DeltaPlan(const std::string &isa, int32_t slots = 6,
                     bool attends = true, int32_t pages = 12)
      : SmallModel(kHidden, kVocab, kContext, isa, kEps), attends_(attends) {
    weight("mix", {1, kMixed, kHidden});
    weight("beta", {1, kHeads, kHidden});
    weight("alpha", {1, kHeads, kHidden});
    weight("conv", {1, kMixed, kTaps});
    weight("a", {1, 1, kHeads}, -0.7);
    weight("dt", {1, 1, kHeads});
    weight("o", {1, kHidden, kHeads * kValue});
    weight("wq", {1, 2 * kDim, kHidden});
    weight("wk", {1, kDim, kHidden});
    weight("wo", {1, kHidden, kDim});
    if (attends_)
      refs["kv"] =
          builder.kv(moek::gqaKvWidth(1, kDim, kDim), moek::KvType::F32, pages);
    refs["state"] = builder.state(
        moek::deltaStateWidth(kTaps, kMixed, kHeads, kKey, kValue), slots);
    builder.plan.sequences = kSequences;
    body("decode", 1, 1);
    body("batch", 1, kSequences);
    body("prefill", 2, kUbatch);
    head();
  }

  /// Returns the logits after each of `tokens`.
  std::vector<Values> reference(const Tokens &tokens) const {
    std::vector<Values> inputs, keys, result;
    Values S(kHeads * kKey * kValue, 0);
    for (int32_t token : tokens) {
      Values h = embedded(token);
      Values n = norm(h);
      inputs.push_back(product("mix", n));
      add(h, product("o", delta(S, convolution(inputs), product("beta", n),
                                product("alpha", n))));
      if (attends_) {
        n = norm(h);
        keys.push_back(product("wk", n));
        add(h, product("wo", attention(product("wq", n), keys)));
      }
      result.push_back(product("out", h));
    }
    return result;
  }

private:
  bool attends_;

  void body(const std::string &name, int32_t least, int32_t most) {
    PhaseBuilder p = builder.phase(name, least, most);
    auto w = [&](const char *weight) { return refs.at(weight); };
    const Ref none;
    Ref ids = p.buffer("tokens", 1, moek::Encoding::I32),
        h = p.buffer("h", kHidden);
    Ref n = p.buffer("n", kHidden), mix = p.buffer("mix", kMixed);
    Ref beta = p.buffer("beta", kHeads), alpha = p.buffer("alpha", kHeads);
    Ref conv = p.buffer("conv", kMixed), gates = p.buffer("gates", 2 * kHeads);
    Ref o = p.buffer("o", kHeads * kValue), both = p.buffer("both", 2 * kDim);
    Ref q = p.buffer("q", kDim), gate = p.buffer("gate", kDim);
    Ref k = p.buffer("k", kDim), y = p.buffer("y", kDim);
    p.input(ids);
    p.output(h);
    p.emit("embed", {ids, w("embed"), h}, {0});
    p.emit("rms_norm", {h, w("norm"), n}, {1, 0}, {kEps});
    p.emit("linear", {n, w("mix"), none, mix}, {0});
    p.emit("linear", {n, w("beta"), none, beta}, {0});
    p.emit("linear", {n, w("alpha"), none, alpha}, {0});
    p.emit("short_conv",
           {mix, none, none, w("conv"), none, none, none, w("state"), conv},
           {kTaps, 1, 1});
    p.emit("delta_gates", {beta, alpha, w("a"), w("dt"), gates}, {}, {0.0});
    p.emit("delta_rule", {conv, gates, none, w("state"), o},
           {kKeyHeads, kHeads, kKey, kValue,
            moek::deltaStateBegin(kTaps, kMixed), 1, 0, 0},
           {kEps});
    p.emit("linear", {o, w("o"), none, h}, {1});
    if (!attends_)
      return;
    p.emit("rms_norm", {h, w("norm"), n}, {1, 0}, {kEps});
    p.emit("linear", {n, w("wq"), none, both}, {0});
    p.emit("regroup", {both, q}, {1, 0, kDim, 0, 0});
    p.emit("regroup", {both, gate}, {1, kDim, kDim, 0, 0});
    p.emit("linear", {n, w("wk"), none, k}, {0});
    p.emit("kv_store", {k, k, w("kv")}, {1, kDim, kDim});
    p.emit("attention", {q, w("kv"), none, y}, {1, 1, kDim, kDim, 1, 0},
           {kScale, 0});
    p.emit("gate_mul", {y, gate, y});
    p.emit("linear", {y, w("wo"), none, h}, {1});
  }

  Values convolution(const std::vector<Values> &inputs) const {
    Values out(kMixed, 0);
    for (int64_t c = 0; c < kMixed; ++c) {
      for (int64_t j = 0; j < kTaps; ++j)
        if (int64_t t = int64_t(inputs.size()) - kTaps + j; t >= 0)
          out[size_t(c)] +=
              at("conv", c * kTaps + j) * inputs[size_t(t)][size_t(c)];
      out[size_t(c)] *= sigmoid(out[size_t(c)]);
    }
    return out;
  }
  Values delta(Values &S, const Values &x, const Values &beta,
               const Values &alpha) const {
    auto unit = [&](int64_t begin) {
      Values v(x.begin() + begin, x.begin() + begin + kKey);
      double squares = kEps;
      for (double value : v)
        squares += value * value;
      for (double &value : v)
        value /= std::sqrt(squares);
      return v;
    };
    Values out;
    for (int64_t h = 0; h < kHeads; ++h) {
      Values q = unit(h % kKeyHeads * kKey);
      Values k = unit((kKeyHeads + h % kKeyHeads) * kKey);
      double decay = std::exp(
          at("a", h) * std::log1p(std::exp(alpha[size_t(h)] + at("dt", h))));
      for (int64_t c = 0; c < kValue; ++c) {
        auto s = [&](int64_t i) -> double & {
          return S[size_t((h * kKey + i) * kValue + c)];
        };
        double found = 0, answer = 0;
        for (int64_t i = 0; i < kKey; ++i)
          found += (s(i) *= decay) * k[size_t(i)];
        double v = x[size_t(2 * kKeyHeads * kKey + h * kValue + c)];
        double e = sigmoid(beta[size_t(h)]) * (v - found);
        for (int64_t i = 0; i < kKey; ++i)
          answer += (s(i) += k[size_t(i)] * e) * q[size_t(i)];
        out.push_back(answer / std::sqrt(double(kKey)));
      }
    }
    return out;
  }
  static Values attention(const Values &both, const std::vector<Values> &keys) {
    Values out(kDim, 0);
    double total = 0;
    for (const Values &key : keys) {
      double score = 0;
      for (size_t i = 0; i < kDim; ++i)
        score += both[i] * key[i];
      double weight = std::exp(kScale * score);
      total += weight;
      for (size_t i = 0; i < kDim; ++i)
        out[i] += weight * key[i];
    }
    for (size_t i = 0; i < kDim; ++i)
      out[i] = out[i] / total * sigmoid(both[kDim + i]);
    return out;
  }
};

} // namespace moetest

#endif // MOE_TEST_UNIT_DELTAPLAN_H
