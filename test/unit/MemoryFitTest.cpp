// A plan that does not fit into memory is refused before anything is allocated,
// however it is opened. Paging is possible for mapped weights and has to be
// requested.
#include "runtime/engine/MemoryFit.h"

#include "runtime/engine/Engine.h"
#include "runtime/schema/plan_generated.h"
#include "test/support/SamplePlan.h"
#include "tools/common/Remedies.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace moert;
using moetest::SamplePlan;

namespace {

class MemoryFitTest : public ::testing::Test {
protected:
  MemoryFitTest() {
    std::filesystem::create_directories(folder_.file("fs/cgroup"));
    path_ = sample_.builder.write(folder_);
    options_.threads = 1;
    options_.systemRoot = folder_.path();
  }

  MemoryNeed need(int threads = 1, bool copy = false) {
    auto plan = Plan::load(path_);
    EXPECT_TRUE(plan.isOk()) << plan.status().message();
    return memoryFit(*plan, threads, copy, {}).need;
  }
  /// Opens an engine in a process that may use `bytes`.
  StatusOr<std::unique_ptr<Engine>> openWith(uint64_t bytes) {
    folder_.write("fs/cgroup/memory.max", std::to_string(bytes));
    return Engine::open(path_, options_);
  }
  void expectRefused(uint64_t bytes, std::string_view message) {
    Status status = openWith(bytes).status();
    EXPECT_EQ(status.code(), StatusCode::DoesNotFit) << status.message();
    std::string shown = moetool::fullMessage(status);
    EXPECT_NE(shown.find(message), std::string::npos) << shown;
  }

  moetest::TempDir folder_;
  SamplePlan sample_;
  std::string path_;
  EngineOptions options_;
};

TEST_F(MemoryFitTest, CountsWhatThePlanSays) {
  const auto &device = *sample_.builder.plan.devices[0];
  MemoryNeed one = need(1), three = need(3);
  EXPECT_EQ(one.kv, device.kv_bytes);
  EXPECT_EQ(one.activations, device.arena_bytes);
  EXPECT_EQ(one.workers, device.scratch_bytes + device.worker_bytes);
  EXPECT_EQ(three.workers, 3 * one.workers);
  EXPECT_EQ(three.threads, 3);
  // Every element has 4 bytes, and all weights are in one file.
  uint64_t values = 0;
  for (const auto &weight : sample_.builder.plan.weights)
    values += uint64_t(weight->outer * weight->rows * weight->cols);
  EXPECT_EQ(one.weights, 4 * values);
  EXPECT_EQ(one.total(), one.weights + one.kv + one.activations + one.workers);
  EXPECT_EQ(one.resident(), one.total() - one.weights);
  // A copy is of what is read, too.
  EXPECT_EQ(need(1, true).weights, one.weights);
  EXPECT_EQ(need(1, true).resident(), need(1, true).total());
}

TEST_F(MemoryFitTest, OpensToTheByte) {
  EXPECT_TRUE(openWith(need().total()).isOk());
  expectRefused(need().total() - 1, "the limit of its control group");
}

TEST_F(MemoryFitTest, TheMessageHasTheSumAndTheFix) {
  uint64_t bytes = need().total() - need().weights / 2;
  for (const char *part :
       {"needs ", "of memory (weights ", "KV cache ", "for a context of 24",
        "activations ", "1 worker ", "this process may use ",
        "--allow-paging runs it all the same, and reads about "})
    expectRefused(bytes, part);
  // With so little memory there are no weights left to page out, and no pages
  // of the cache.
  expectRefused(need().resident() - 1, "--ubatch 1");
  options_.copyWeights = true;
  expectRefused(need(1, true).total() - 1, "leave out --no-mmap");
}

TEST_F(MemoryFitTest, OnlyMappedWeightsCanBePaged) {
  options_.allowPaging = true;
  uint64_t resident = need().resident();
  auto engine = openWith(resident + need().weights / 2);
  ASSERT_TRUE(engine.isOk()) << engine.status().message();
  std::vector<int32_t> tokens = {3, 10};
  Sequence one = (*engine)->sequence();
  EXPECT_TRUE((*engine)->append(one, tokens).isOk());
  EXPECT_NE(pagingNote((*engine)->plan(), (*engine)->fit()).find("an estimate"),
            std::string::npos);
  expectRefused(resident - 1, "--ubatch 1");
  options_.copyWeights = true;
  expectRefused(need(1, true).total() - 1, "leave out --no-mmap");
}

TEST_F(MemoryFitTest, PagedBytesGrowAsMemoryShrinks) {
  auto plan = Plan::load(path_);
  ASSERT_TRUE(plan.isOk());
  auto paged = [&](uint64_t room) {
    MemoryFit fit = memoryFit(*plan, 1, false, {1, true});
    fit.limit.bytes = fit.need.resident() + room;
    return pagedBytesPerToken(*plan, fit);
  };
  uint64_t weights = need().weights;
  EXPECT_EQ(paged(weights), 0);
  // What is least likely to be used is paged out first: with half of the room,
  // rows of the embedding and of experts are missing.
  double most = paged(0), half = paged(weights / 2);
  EXPECT_GT(half, 0);
  EXPECT_GT(most, half);
  EXPECT_LT(half, double(weights) / 2);
  // A token reads one row of the embedding; if half of them are missing, that
  // is half a row.
  constexpr uint64_t row = SamplePlan::kHidden * 4;
  EXPECT_NEAR(paged(weights - SamplePlan::kVocab / 2 * row), row / 2., 1);
  EXPECT_LT(most, double(weights));
  // If nothing stays in memory, a token reads what decode and logits read: all
  // except the prefill phase's own weights and half of the experts.
  MemoryFit fits = memoryFit(*plan, 1, false, {});
  EXPECT_EQ(pagedBytesPerToken(*plan, fits), 0);
  EXPECT_EQ(pagingNote(*plan, fits), "");
}

} // namespace
