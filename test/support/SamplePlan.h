//===- SamplePlan.h - A small MLA and MoE model, planned by hand -*- C++
//-*-===//
//
// One layer with every plan op: embedding, latent attention (absorbed in
// decode, decompressed in prefill), a dense FFN of separate ops, routed experts
// and a shared expert, head with bias. The same model in float64 is the
// reference for what a session computes.
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

  /// What sequences have.
  struct Room {
    int32_t context = kContext;
    int32_t pages = 0;     ///< Of the cache; 0: a context's.
    int32_t sequences = 1; ///< Of which a batch phase takes a token each.
    int32_t ubatch = kUbatch;
    moek::KvType type = moek::KvType::F32;
  };
  explicit SamplePlan(const std::string &isa = "ref")
      : SamplePlan(isa, Room{}) {}
  SamplePlan(const std::string &isa, Room room);

  PlanBuilder builder;

  /// Byte-level BPE over a to z, space and full stop; 0 starts a text, 1 ends
  /// it.
  void addTokenizer();

  /// A phase for a token of each of 2 to `count` sequences, and room for them.
  void addSequences(int32_t count);

  /// Logits after each of `tokens` in float64: [tokens][vocab].
  std::vector<std::vector<double>>
  reference(const std::vector<int32_t> &tokens) const;

  /// Makes every value of a weight's row `value`; reference() does not know.
  void fillRow(std::string_view weight, int64_t matrix, int64_t row,
               float value);

  /// Index of the phase's first instruction of `op`.
  size_t find(std::string_view phase, std::string_view op) const;
  fb::PhaseT &phase(std::string_view name) const;

  /// Gives every worker a copy of a buffer of its own.
  void makePerWorker(std::string_view phase, std::string_view buffer);
  /// Of the phase's first instruction of `op`.
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
