// Weights that are laid out while they load: what they compute, what memory
// they need, what is said where it is missing, and damage that is found on the
// way.
#include "runtime/plan/LoadedWeights.h"

#include "kernels/KvCache.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/engine/MemoryFit.h"
#include "runtime/schema/OpTable.h"
#include "test/support/OneSequence.h"
#include "test/support/SamplePlan.h"
#include "tools/common/Remedies.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <map>
#include <set>

using namespace moert;
using moetest::OneSequence;
using moetest::SamplePlan;
using testing::HasSubstr;
using testing::Not;

namespace {

class LoadedWeightsTest : public ::testing::Test {
protected:
  LoadedWeightsTest() {
    std::filesystem::create_directories(folder_.file("fs/cgroup"));
    options_.threads = 1;
    options_.systemRoot = folder_.path();
    expected_ = logits(sample_.builder.write(folder_));
    loadProducts();
  }

  std::vector<float> logits(const std::string &path) {
    auto one = OneSequence::open(path, options_);
    EXPECT_TRUE(one.isOk()) << one.status().message();
    if (!one)
      return {};
    note_ = one->engine->mappingNote();
    need_ = one->engine->fit().need;
    auto row = one->append(std::vector<int32_t>{3, 10, 17});
    EXPECT_TRUE(row.isOk()) << row.status().message();
    return row ? std::vector<float>(row->begin(), row->end())
               : std::vector<float>();
  }

  /// Calls `visit(operand, gemm)` for each weight that an instruction reads.
  template <class Visit> void forEachWeight(Visit visit) {
    for (auto &phase : sample_.builder.plan.phases)
      for (auto &instruction : phase->instructions)
        for (size_t i = 0; i < instruction->operands.size(); ++i)
          if (instruction->operands[i].kind() ==
              moetest::fb::OperandKind::Weight)
            visit(instruction->operands[i],
                  findOp(unsigned(instruction->op))->operands[i].gemm);
  }

  /// Lets every weight that is only multiplied be made of one in the model
  /// file.
  void loadProducts() {
    auto &plan = sample_.builder.plan;
    sample_.builder.recordsContent = true;
    sample_.builder.bytes(); // Computes the description of the file.
    plan.files[0]->kind = moetest::fb::FileKind::Model;
    auto file = std::make_unique<moetest::fb::FileT>();
    file->kind = moetest::fb::FileKind::Loaded;
    std::set<uint32_t> others;
    forEachWeight([&](auto &operand, bool isGemm) {
      if (!isGemm)
        others.insert(operand.index());
    });
    std::map<uint32_t, uint32_t> copies;
    forEachWeight([&](auto &operand, bool) {
      if (others.contains(operand.index()))
        return;
      auto [copy, isNew] =
          copies.try_emplace(operand.index(), uint32_t(plan.weights.size()));
      if (isNew) {
        auto weight = std::make_unique<moetest::fb::WeightT>(
            *plan.weights[operand.index()]);
        weight->file = 1;
        weight->offset = alignUp(file->bytes, 64);
        weight->checksum.clear();
        weight->sources = {operand.index()};
        file->bytes =
            weight->offset + uint64_t(weight->outer * weight->outer_stride);
        plan.weights.push_back(std::move(weight));
      }
      operand = {moetest::fb::OperandKind::Weight, copy->second};
    });
    plan.files.push_back(std::move(file));
    for (auto &residency : plan.residency)
      if (auto copy = copies.find(residency.weight()); copy != copies.end())
        residency = {copy->second, residency.device(), residency.mode()};
    std::vector<uint8_t> bytes = sample_.builder.pack();
    path_ = folder_.write("plan.fb", std::span<const uint8_t>(bytes));
  }

  /// Opens the plan in a process that may use `bytes`, of which `used` are in
  /// use.
  std::string refusalWith(uint64_t bytes, uint64_t used = 0) {
    folder_.write("fs/cgroup/memory.max", std::to_string(bytes));
    folder_.write("fs/cgroup/memory.current", std::to_string(used));
    Status status = Engine::open(path_, options_).status();
    EXPECT_EQ(status.code(), StatusCode::DoesNotFit) << status.message();
    return moetool::fullMessage(status);
  }
  MemoryNeed need() {
    auto plan = Plan::load(path_);
    EXPECT_TRUE(plan.isOk()) << plan.status().message();
    return memoryFit(*plan, 1, false, {}).need;
  }

  moetest::TempDir folder_;
  SamplePlan sample_{"ref", {.context = 512}};
  std::string path_, note_;
  EngineOptions options_;
  std::vector<float> expected_;
  MemoryNeed need_;
};

TEST_F(LoadedWeightsTest, GiveTheSameLogits) {
  EXPECT_EQ(logits(path_), expected_);
  EXPECT_EQ(note_, "");
  EXPECT_GT(need_.loaded, need_.weights / 2);
  EXPECT_EQ(need_.resident(), need_.withoutWeights() + need_.loaded);
}

TEST_F(LoadedWeightsTest, OpenToTheByte) {
  folder_.write("fs/cgroup/memory.max", std::to_string(need().total()));
  EXPECT_TRUE(Engine::open(path_, options_).isOk());
  EXPECT_THAT(refusalWith(need().resident() - 1),
              HasSubstr("the limit of its control group"));
}

TEST_F(LoadedWeightsTest, MemoryThatOthersUseIsNotThere) {
  const uint64_t used = 1 << 20, limit = used + need().resident();
  folder_.write("fs/cgroup/memory.max", std::to_string(limit));
  folder_.write("fs/cgroup/memory.current", std::to_string(used));
  EXPECT_TRUE(Engine::open(path_, options_).isOk());
  EXPECT_THAT(refusalWith(limit, used + 1),
              HasSubstr("what is free of the limit of its control group"));
  // Cached files are free.
  folder_.write("fs/cgroup/memory.stat", "anon 5\ninactive_file 1\n");
  EXPECT_TRUE(Engine::open(path_, options_).isOk());
}

TEST_F(LoadedWeightsTest, TheMessageSaysWhatWouldFit) {
  const uint64_t kv = need().kv;
  std::string text = refusalWith(need().resident() - kv / 2);
  EXPECT_THAT(text, HasSubstr("--allow-paging reads weights from the mapped "
                              "model file instead"));
  EXPECT_THAT(text, HasSubstr("--ctx "));
}

TEST_F(LoadedWeightsTest, PagingReadsTheMappedModel) {
  options_.allowPaging = true;
  EXPECT_EQ(logits(path_), expected_);
  EXPECT_EQ(note_, "") << "they fit";
  folder_.write("fs/cgroup/memory.max", std::to_string(need().resident() - 1));
  EXPECT_EQ(logits(path_), expected_);
  EXPECT_THAT(note_, HasSubstr("mapped model file"));
  EXPECT_EQ(need_.loaded, 0u);
  EXPECT_THAT(refusalWith(need_.withoutWeights() - 1),
              Not(HasSubstr("--allow-paging")));
}

TEST_F(LoadedWeightsTest, DamageIsFoundWhileTheyLoad) {
  std::span<const uint8_t> written = sample_.builder.weightBytes();
  std::string weights(written.begin(), written.end());
  for (const auto &weight : sample_.builder.plan.weights)
    if (weight->name == "down" && weight->sources.empty())
      weights[weight->offset + 200] ^= 1;
  // Samples would find it first in so small a file.
  sample_.builder.plan.files[0]->sample_hash.clear();
  std::vector<uint8_t> bytes = sample_.builder.pack();
  folder_.write("plan.fb", std::span<const uint8_t>(bytes));
  folder_.write("plan.weights", weights);
  Status status = Engine::open(path_, options_).status();
  EXPECT_EQ(status.code(), StatusCode::InvalidFile);
  EXPECT_THAT(status.message(), HasSubstr("plan.weights: weight down is "
                                          "damaged: it has the checksum"));
}

} // namespace
