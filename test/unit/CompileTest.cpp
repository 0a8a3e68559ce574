// moec compile as a library: plans for other machines, and their messages.

#include "compiler/Cuda/Nvrtc.h"
#include "compiler/Driver/Driver.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/plan_generated.h"
#include "test/support/SampleModel.h"
#include "test/support/TempDir.h"
#include "test/support/TinyDeepseek.h"
#include "test/support/TinyModel.h"
#include "tools/common/Remedies.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace moetest;

namespace {

constexpr double kGiB = double(1ull << 30);

/// Returns the NVRTC library of the user, or "" if there is none. Kernels are
/// cached in the build folder, as in lit's tests.
std::string nvrtc() {
  static const std::string found = [] {
    std::string path;
    for (const std::string &place : moec::Nvrtc::usualPlaces())
      if (path.empty() && moec::Nvrtc::open(place).isOk())
        path = place;
    ::setenv("XDG_CACHE_HOME", MOE_TEST_CACHE, 1);
    return path;
  }();
  return found;
}

/// The header of DeepSeek-V3 with 61 layers, whose weights are holes, compiled
/// for `target`.
class CompileV3 : public ::testing::Test {
protected:
  moert::StatusOr<moec::CompileReport> compile(const std::string &target) {
    GgufBuilder gguf = deepseekV3Model();
    gguf.write(model_);
    moec::CompileRequest request;
    request.model = model_;
    request.target = target;
    request.context = 8192;
    request.weights = "reference"; // With packing, disks would fill with zeros.
    request.output = plan_;
    request.nvrtc = nvrtc();
    return moec::compileModel(request);
  }

  TempDir folder_;
  std::string model_ = folder_.file("v3.gguf");
  std::string plan_ = folder_.file("v3.fb");
};

bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_F(CompileV3, PutsWhatEveryTokenReadsOnTheGpuAndExpertsThatFit) {
  if (nvrtc().empty())
    GTEST_SKIP() << "needs NVRTC";
  auto report = compile("4090+xeon");
  ASSERT_TRUE(report.isOk()) << report.status().message();
  auto plan = moert::Plan::load(plan_);
  ASSERT_TRUE(plan.isOk()) << plan.status().message();

  unsigned onGpu = 0, attention = 0, shared = 0;
  // There is one entry per phase; a layer's experts may be divided between the
  // devices.
  std::set<std::pair<std::string, int>> experts;
  for (const auto *entry : *plan->table().explanation()) {
    std::string op = moert::labelOf(*entry), device = entry->device()->str();
    EXPECT_FALSE(entry->reason()->str().empty()) << op;
    if (contains(op, ".to_") || op == "overhead" || op == "overlap")
      continue; // A copy has two devices; each device has its own overhead.
    if (contains(op, "ffn_experts")) {
      experts.emplace(entry->phase()->str(), entry->layer());
      onGpu += device == "gpu0";
      continue;
    }
    // A token reads almost nothing of the embedding, so it may be anywhere.
    if (contains(op, "token_embd"))
      continue;
    // While the GPU computes experts, the CPU may compute the layer's shared
    // ones.
    if (contains(op, "ffn_shared")) {
      shared += device == "gpu0";
      continue;
    }
    EXPECT_EQ(device, "gpu0") << op;
    attention += contains(op, "attn_output");
  }
  // Decode and prefill; 58 of the 61 layers have experts.
  EXPECT_EQ(experts.size(), 2 * 58u);
  // Experts of a few layers use the rest of the memory, in both phases.
  EXPECT_GE(onGpu, 2u);
  EXPECT_LE(onGpu, 2 * 4u);
  EXPECT_EQ(attention, 2 * 61u);
  EXPECT_GE(shared, 2 * 56u);

  for (const auto *device : *plan->table().devices()) {
    double bytes = double(device->weight_bytes() + device->kv_bytes() +
                          device->arena_bytes());
    EXPECT_LE(bytes, double(device->memory_bytes())) << device->name()->str();
    if (device->name()->str() == "gpu0") {
      EXPECT_LT(bytes, 24 * kGiB);
      EXPECT_GT(device->weight_bytes(), 5 * kGiB);
    }
  }
}

// An unknown word must not mean "auto".
TEST_F(CompileV3, RefusesUnknownWords) {
  deepseekV3Model().write(model_);
  moec::CompileRequest request;
  request.model = model_;
  request.target = "4090+xeon";
  request.output = plan_;
  request.mla = "foldet";
  auto form = moec::compileModel(request).status();
  EXPECT_EQ(form.code(), moert::StatusCode::Usage);
  EXPECT_TRUE(contains(form.message(),
                       "--mla: expected one of auto, none, factored, folded; "
                       "found \"foldet\""))
      << form.message();
  request.mla = "auto";
  request.weights = "packed";
  auto weights = moec::compileModel(request).status();
  EXPECT_EQ(weights.code(), moert::StatusCode::Usage);
  EXPECT_TRUE(contains(weights.message(), "; found \"packed\""))
      << weights.message();
}

TEST_F(CompileV3, SaysWhatAMachineLacks) {
  moec::CompileRequest request;
  auto report = compile("4090+xeno");
  ASSERT_FALSE(report.isOk());
  EXPECT_EQ(report.status().code(), moert::StatusCode::Usage);
  EXPECT_TRUE(contains(report.status().message(), "did you mean \"xeon\""))
      << report.status().message();
}

TEST_F(CompileV3, RefusesMachinesWithTooLittleMemory) {
  // A description of a small machine.
  std::string target = folder_.write("small.json", R"({
    "kind": "cpu", "isa": "avx2", "cores": 8, "memory_gib": 64,
    "read_gbps": 40, "int8_tops": 1, "float_tflops": 0.5})");
  GgufBuilder gguf = deepseekV3Model();
  gguf.write(model_);
  moec::CompileRequest request;
  request.model = model_;
  request.targetFile = target;
  request.output = plan_;
  auto report = moec::compileModel(request);
  ASSERT_FALSE(report.isOk());
  EXPECT_EQ(report.status().code(), moert::StatusCode::DoesNotFit);
  EXPECT_TRUE(contains(report.status().message(), "64.0 GiB") ||
              contains(report.status().message(), "64 GiB"))
      << report.status().message();
  // No plan is left.
  EXPECT_FALSE(moert::Plan::load(plan_).isOk());
}

/// A small model with packed weights, whose vocabulary tests damage.
class CompileTokenizer : public ::testing::Test {
protected:
  CompileTokenizer() {
    for (int i = 0; i < 96; ++i)
      tokens_.push_back(i == 0 ? "<s>" : "t" + std::to_string(i));
  }

  moert::StatusOr<moec::CompileReport> compile() {
    GgufBuilder gguf = TinyDeepseek().build();
    gguf.add("tokenizer.ggml.model", model_);
    gguf.add("tokenizer.ggml.pre", pre_);
    gguf.addStrings("tokenizer.ggml.tokens", tokens_);
    gguf.addStrings("tokenizer.ggml.merges", merges_);
    request_.model = gguf.write(folder_.file("m.gguf"));
    request_.target = "xeon";
    request_.weights = "pack";
    request_.output = plan_;
    request_.progress = [this](const char *, uint64_t, uint64_t) {
      return packed_ = true;
    };
    return moec::compileModel(request_);
  }

  void expectRefused(moert::StatusCode code, std::string_view why) {
    packed_ = false;
    auto report = compile();
    ASSERT_FALSE(report.isOk()) << why;
    EXPECT_EQ(report.status().code(), code);
    EXPECT_TRUE(contains(report.status().message(), why))
        << report.status().message();
    EXPECT_TRUE(contains(report.status().message(), "m.gguf"));
    std::string shown = moetool::fullMessage(report.status());
    EXPECT_TRUE(contains(shown, "--no-tokenizer")) << shown;
    EXPECT_FALSE(packed_) << "weights were packed for nothing";
  }

  TempDir folder_;
  moec::CompileRequest request_;
  std::string plan_ = folder_.file("m.fb");
  std::string model_ = "gpt2", pre_ = "deepseek-llm";
  std::vector<std::string> tokens_, merges_;
  bool packed_ = false;
};

TEST_F(CompileTokenizer, ErrorsOfRunAreFoundBeforePacking) {
  auto report = compile();
  ASSERT_TRUE(report.isOk()) << report.status().message();
  EXPECT_TRUE(packed_);

  model_ = "bert";
  expectRefused(moert::StatusCode::Unsupported,
                "tokenizer model \"bert\" (WordPiece) is not supported");
  model_ = "t5";
  expectRefused(moert::StatusCode::Unsupported,
                "tokenizer model \"t5\" (Unigram) is not supported");
  model_ = "gpt2";
  pre_ = "of-tomorrow";
  expectRefused(moert::StatusCode::Unsupported, "of-tomorrow");
  pre_ = "deepseek-llm";
  merges_ = {"t1unknown"};
  packed_ = false;
  report = compile();
  ASSERT_FALSE(report.isOk());
  EXPECT_EQ(report.status().code(), moert::StatusCode::InvalidFile);
  EXPECT_TRUE(contains(report.status().message(), "merge 0"));
  EXPECT_FALSE(packed_) << "weights were packed for nothing";
}

TEST_F(CompileTokenizer, MoreTokensThanLogitsAreRefused) {
  tokens_.push_back("one more");
  expectRefused(moert::StatusCode::InvalidFile,
                "tokenizer.ggml.tokens has 97 entries, but the model has "
                "logits for 96");
}

TEST_F(CompileTokenizer, NoTokenizerCompilesForTokenIds) {
  model_ = "bert";
  request_.noTokenizer = true;
  auto report = compile();
  ASSERT_TRUE(report.isOk()) << report.status().message();
  EXPECT_TRUE(contains(report->notes.back(), "--no-tokenizer"));
  auto plan = moert::Plan::load(plan_);
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  EXPECT_EQ(plan->table().tokenizer(), nullptr);
  EXPECT_TRUE(contains(plan->table().options()->str(), "--no-tokenizer"));
}

// Text does not contain the vocabulary, so it is not checked.
TEST_F(CompileTokenizer, TextNeedsNoTokenizer) {
  model_ = "bert";
  request_.emit = moec::Emit::Plan;
  auto report = compile();
  EXPECT_TRUE(report.isOk()) << report.status().message();
}

TEST(CompileNotes, APlanForAGpuSaysThatMoertRunsOnCpus) {
  if (nvrtc().empty())
    GTEST_SKIP() << "needs NVRTC";
  TempDir folder;
  moec::CompileRequest request;
  request.model = TinyDeepseek().build().write(folder.file("m.gguf"));
  request.output = folder.file("m.fb");
  request.nvrtc = nvrtc();
  auto notes = [&](const std::string &target) {
    request.target = target;
    auto report = moec::compileModel(request);
    EXPECT_TRUE(report.isOk()) << report.status().message();
    return report->notes;
  };
  auto has = [](const std::vector<std::string> &notes) {
    return std::ranges::count(notes, moert::kGpuPlanNote);
  };
  EXPECT_EQ(has(notes("xeon")), 0);
  // The host is faster with such a small model.
  EXPECT_EQ(has(notes("3060+xeon")), 0);
  request.place = {"*=gpu0"};
  EXPECT_EQ(has(notes("3060+xeon")), 1);
}

/// A small model with room for 4 sequences, compiled for what fits.
class AutoLadder : public ::testing::Test {
protected:
  moert::StatusOr<moec::CompileReport> compile(uint32_t trained,
                                               int64_t dramLimit = 0) {
    TinyTransformer model("llama");
    model.keys["context_length"] = trained;
    model.build().write(folder_.file("m.gguf"));
    moec::CompileRequest request;
    request.model = folder_.file("m.gguf");
    request.target = "xeon";
    request.ladder = *moec::parseLadder("auto");
    request.sequences = 4;
    request.dramLimit = dramLimit;
    request.weights = "reference";
    request.noTokenizer = true;
    request.output = folder_.file("m.fb");
    return moec::compileModel(request);
  }
  /// Contexts of the rungs, and whether the cache holds one for each sequence.
  std::vector<std::pair<uint32_t, bool>> rungs() {
    auto plan = moert::Plan::load(folder_.file("m.fb"));
    EXPECT_TRUE(plan.isOk()) << plan.status().message();
    std::vector<std::pair<uint32_t, bool>> rungs;
    for (uint32_t i = 1; i <= std::max(1u, plan->rungs()); ++i) {
      const auto &rung = plan->rung(i);
      rungs.emplace_back(rung.context(), rung.kv()->Get(0)->capacity() >=
                                             4 * int64_t(rung.context()));
    }
    return rungs;
  }

  TempDir folder_;
};

TEST_F(AutoLadder, GoesUpToWhatTheModelWasTrainedFor) {
  using Rungs = std::vector<std::pair<uint32_t, bool>>;
  auto report = compile(40000);
  ASSERT_TRUE(report.isOk()) << report.status().message();
  EXPECT_EQ(rungs(), (Rungs{{4096, true},
                            {8192, true},
                            {16384, true},
                            {32768, true},
                            {40000, true}}));
  ASSERT_TRUE(compile(4096).isOk());
  EXPECT_EQ(rungs(), (Rungs{{4096, true}}));
  ASSERT_TRUE(compile(100).isOk());
  EXPECT_EQ(rungs(), (Rungs{{100, true}}));
}

TEST_F(AutoLadder, SequencesShareAContextWhereMemoryHoldsNoMore) {
  // A token takes 1 KiB of cache: 4 contexts of 65536 are 256 MiB.
  auto report = compile(65536, 200 << 20);
  ASSERT_TRUE(report.isOk()) << report.status().message();
  auto all = rungs();
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[3], std::pair(32768u, true));
  EXPECT_EQ(all[4], std::pair(65536u, false));
  // No rung of the usual contexts fits, so that shorter contexts are left.
  report = compile(1 << 20, 200 << 20);
  ASSERT_TRUE(report.isOk()) << report.status().message();
  all = rungs();
  EXPECT_EQ(all.back(), std::pair(131072u, false));
  // Nothing fits: the error is that of a plan without a ladder.
  report = compile(65536, 1 << 20);
  ASSERT_FALSE(report.isOk());
  EXPECT_EQ(report.status().code(), moert::StatusCode::DoesNotFit);
}

} // namespace
