//===- SamplePlan.h - A small MoE model with MLA as a plan ------*- C++ -*-===//
//
// One layer with every plan op: embedding, latent attention (absorbed in
// decode, decompressed in prefill), a dense FFN of separate ops, routed experts
// and a shared expert, head with bias. The same model in float64 is the
// reference for a session's results.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_SAMPLEPLAN_H
#define MOE_TEST_SUPPORT_SAMPLEPLAN_H

#include "test/support/PlanBuilder.h"

#include <map>
#include <string>
#include <vector>

namespace moetest {

class SamplePlan {
public:
  static constexpr int32_t kHidden = 32, kVocab = 40, kContext = 24;
  static constexpr int32_t kUbatch = 5, kLogitRows = 3;
  static constexpr int32_t kHeads = 2, kNope = 4, kRope = 4, kLatent = 8,
                           kValue = 6;
  static constexpr int32_t kExperts = 4, kTopK = 2, kExpertWidth = 16,
                           kDenseWidth = 24;
  static constexpr double kEps = 1e-5, kScale = 0.35, kRouterScale = 1.5;

  /// Capacity of the plan.
  struct Room {
    int32_t context = kContext;
    int32_t pages = 0;     ///< Pages of the cache; 0: enough for a context.
    int32_t sequences = 1; ///< A batch phase takes one token of each.
    int32_t ubatch = kUbatch;
    moek::KvType type = moek::KvType::F32;
  };
  explicit SamplePlan(const std::string &isa = "ref")
      : SamplePlan(isa, Room{}) {}
  SamplePlan(const std::string &isa, Room room);

  PlanBuilder builder;

  /// Adds byte-level BPE over a to z, space and full stop; token 0 starts a
  /// text, 1 ends it.
  void addTokenizer();
  /// The token of addTokenizer() that is a line's end.
  static constexpr int32_t kLineEnd = 32;

  /// Adds a phase for one token of each of 2 to `count` sequences, and capacity
  /// for them.
  void addSequences(int32_t count);

  /// Returns logits after each of `tokens` in float64: [tokens][vocab].
  std::vector<std::vector<double>>
  reference(const std::vector<int32_t> &tokens) const;

  /// Returns the hidden states of `tokens`, after the output norm, in float64:
  /// [tokens][hidden].
  std::vector<std::vector<double>>
  hiddenReference(const std::vector<int32_t> &tokens) const;

  /// Sets every value of a weight's row to `value`; reference() does not
  /// include it.
  void fillRow(std::string_view weight, int64_t matrix, int64_t row,
               float value);

  /// Returns the index of the phase's first instruction of `op`.
  size_t find(std::string_view phase, std::string_view op) const;
  fb::PhaseT &phase(std::string_view name) const;

  /// Gives every worker its own copy of a buffer.
  void makePerWorker(std::string_view phase, std::string_view buffer);
  /// Removes the barrier of the phase's first instruction of `op`.
  void dropBarrier(std::string_view phase, std::string_view op);

private:
  Ref weight(const std::string &name, std::vector<int64_t> shape,
             double center = 0);
  void addBatch(int32_t sequences);
  void addBody(const std::string &name, int32_t maxTokens, bool absorbed);
  void addHead();
  void addWork(moert::fb::InstructionT &instruction) const;

  std::map<std::string, Ref> refs_;
  std::map<std::string, std::vector<float>> values_;
  uint64_t state_ = 7;
};

} // namespace moetest

#endif // MOE_TEST_SUPPORT_SAMPLEPLAN_H
