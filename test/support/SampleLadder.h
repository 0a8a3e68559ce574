//===- SampleLadder.h - A file with SamplePlans for several contexts ------===//

#ifndef MOE_TEST_SUPPORT_SAMPLELADDER_H
#define MOE_TEST_SUPPORT_SAMPLELADDER_H

#include "runtime/schema/OpTable.h"
#include "test/support/SamplePlan.h"

#include <memory>
#include <string>
#include <vector>

namespace moetest {

/// One file with a plan (rung) for each context; all read one plan.weights.
/// Tests edit `plan`.
class SampleLadder {
public:
  explicit SampleLadder(const std::vector<int32_t> &contexts) {
    plan.schema_version = moert::kSchemaVersion;
    plan.compiler = "test";
    for (int32_t context : contexts)
      add(SamplePlan::Room{.context = context});
  }

  fb::PlanT &rung(size_t index) { return *plan.rungs[index]; }
  std::vector<uint8_t> bytes() const {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(fb::Plan::Pack(builder, &plan), fb::PlanIdentifier());
    return {builder.GetBufferPointer(),
            builder.GetBufferPointer() + builder.GetSize()};
  }
  /// Writes the files and returns the path of plan.fb.
  std::string write(const TempDir &folder) const {
    folder.write("plan.weights", std::span<const uint8_t>(weights_));
    std::vector<uint8_t> content = bytes();
    return folder.write("plan.fb", std::span<const uint8_t>(content));
  }

  fb::PlanT plan;

private:
  void add(const SamplePlan::Room &room) {
    SamplePlan sample("ref", room);
    sample.addTokenizer();
    (void)sample.builder.bytes(); // Sets `files`.
    weights_.assign(sample.builder.weightBytes().begin(),
                    sample.builder.weightBytes().end());
    plan.tokenizer = std::move(sample.builder.plan.tokenizer);
    plan.rungs.push_back(
        std::make_unique<fb::PlanT>(std::move(sample.builder.plan)));
  }

  std::vector<uint8_t> weights_;
};

} // namespace moetest

#endif // MOE_TEST_SUPPORT_SAMPLELADDER_H
