//===- WindowPlan.h - A plan with a ring and a KV cache ---------*- C++ -*-===//

#ifndef MOE_TEST_UNIT_WINDOWPLAN_H
#define MOE_TEST_UNIT_WINDOWPLAN_H

#include "kernels/KvCache.h"
#include "kernels/Ring.h"
#include "test/support/SmallModel.h"

#include <algorithm>
#include <cmath>

namespace moetest {

/// A layer with a window and a ring of rows, before a layer that sees all
/// tokens.
class WindowPlan : public SmallModel {
public:
  static constexpr int32_t kHidden = 16, kVocab = 40,
                           kContext = 5 * moek::kKvPage;
  static constexpr int32_t kHeads = 2, kDim = 8, kSequences = 3;
  /// A ring of one page has exactly the rows that window and step need.
  static constexpr int32_t kUbatch = 24, kWindow = moek::kKvPage + 1 - kUbatch;
  /// A step longer than a page.
  static constexpr int32_t kLargeUbatch = 80;
  static constexpr double kEps = 1e-3, kScale = 0.4;

  explicit WindowPlan(const std::string &isa, int32_t slots = 6,
                      int32_t ubatch = kUbatch, int32_t pages = 15)
      : SmallModel(kHidden, kVocab, kContext, isa, kEps) {
    for (const char *layer : {"near", "far"}) {
      std::string name = layer;
      weight(name + ".q", {1, kHeads * kDim, kHidden});
      weight(name + ".k", {1, kDim, kHidden});
      weight(name + ".v", {1, kDim, kHidden});
      weight(name + ".o", {1, kHidden, kHeads * kDim});
    }
    int64_t width = moek::gqaKvWidth(1, kDim, kDim);
    refs["far.kv"] = builder.kv(width, moek::KvType::F32, pages);
    refs["near.kv"] =
        builder.state(moek::kvRingRows(kWindow, ubatch) * width, slots);
    builder.plan.sequences = kSequences;
    body("decode", 1, 1);
    body("batch", 1, kSequences);
    body("prefill", 2, ubatch);
    head();
  }

  /// Returns the logits after each of `tokens`.
  std::vector<Values> reference(const Tokens &tokens) const {
    std::vector<Values> keys[2], values[2], result;
    for (int32_t token : tokens) {
      Values h = embedded(token);
      for (int i : {0, 1}) {
        std::string name = i == 0 ? "near" : "far";
        Values n = norm(h);
        keys[i].push_back(product(name + ".k", n));
        values[i].push_back(product(name + ".v", n));
        size_t seen = i == 0 ? kWindow : keys[i].size();
        add(h, product(name + ".o", attention(product(name + ".q", n), keys[i],
                                              values[i], seen)));
      }
      result.push_back(product("out", h));
    }
    return result;
  }

private:
  void body(const std::string &name, int32_t least, int32_t most) {
    PhaseBuilder p = builder.phase(name, least, most);
    const Ref none;
    Ref ids = p.buffer("tokens", 1, moek::Encoding::I32),
        h = p.buffer("h", kHidden);
    Ref n = p.buffer("n", kHidden), q = p.buffer("q", kHeads * kDim);
    Ref k = p.buffer("k", kDim), v = p.buffer("v", kDim);
    Ref y = p.buffer("y", kHeads * kDim);
    p.input(ids);
    p.output(h);
    p.emit("embed", {ids, refs.at("embed"), h}, {0});
    for (const char *layer : {"near", "far"}) {
      auto w = [&](const char *part) {
        return refs.at(std::string(layer) + part);
      };
      const int64_t window = layer == std::string("near") ? kWindow : 0;
      p.emit("rms_norm", {h, refs.at("norm"), n}, {1}, {kEps});
      p.emit("linear", {n, w(".q"), none, q}, {0});
      p.emit("linear", {n, w(".k"), none, k}, {0});
      p.emit("linear", {n, w(".v"), none, v}, {0});
      p.emit("kv_store", {k, v, w(".kv")}, {1, kDim, kDim});
      p.emit("attention", {q, w(".kv"), none, y},
             {kHeads, 1, kDim, kDim, 1, window}, {kScale, 0});
      p.emit("linear", {y, w(".o"), none, h}, {1});
    }
  }

  static Values attention(const Values &q, const std::vector<Values> &keys,
                          const std::vector<Values> &values, size_t seen) {
    Values out(kHeads * kDim, 0);
    for (size_t h = 0; h < kHeads; ++h) {
      double total = 0;
      for (size_t t = keys.size() - std::min(seen, keys.size());
           t < keys.size(); ++t) {
        double score = 0;
        for (size_t i = 0; i < kDim; ++i)
          score += q[h * kDim + i] * keys[t][i];
        double weight = std::exp(kScale * score);
        total += weight;
        for (size_t i = 0; i < kDim; ++i)
          out[h * kDim + i] += weight * values[t][i];
      }
      for (size_t i = 0; i < kDim; ++i)
        out[h * kDim + i] /= total;
    }
    return out;
  }
};

} // namespace moetest

#endif // MOE_TEST_UNIT_WINDOWPLAN_H
