// Rows of n-grams: why plans are refused, which rows a step requests from the
// system, and that the table stays in its file.
#include "runtime/device/cpu/FileRows.h"
#include "runtime/plan/PlanWeights.h"
#include "runtime/prove/Prove.h"
#include "test/support/PlanEngineTest.h"

using namespace moert;
using moek::Encoding;
using moetest::PhaseBuilder;
using moetest::PlanBuilder;
using moetest::Ref;
using moetest::setInt;
using moetest::TempDir;
namespace fb = moert::fb;

namespace {

/// A plan whose hidden state is rows of a table, gated into two streams.
class NgramPlan {
public:
  static constexpr int32_t kVocab = 20, kContext = 64, kColumns = 4;
  static constexpr int32_t kSize = 3, kHeads = 2, kRows = 29, kPad = 5;
  /// Rows that a token reads from the table.
  static constexpr int32_t kFound = (kSize - 1) * kHeads;
  static constexpr int32_t kHidden = kFound * kColumns;
  static constexpr uint64_t kModuli[kFound] = {7, 11, 13, 5};
  static constexpr uint64_t kOffsets[kFound] = {0, 7, 16, 24};

  NgramPlan() : builder(kHidden, kVocab, kContext, "ref") {
    table = weight("table", {1, kRows, kColumns});
    builder.plan.residency[0] = {0, 0, fb::ResidencyMode::File};
    Ref head = weight("head", {1, kVocab, kHidden});
    std::vector<float> digits, same;
    auto add = [&](uint64_t number) {
      for (int i = 0; i < 4; ++i)
        digits.push_back(float(number >> 16 * i & 0xffff));
    };
    for (uint64_t i = 0; i < kSize; ++i)
      add(multiplier(i));
    for (uint64_t modulus : kModuli)
      add(modulus);
    for (uint64_t offset : kOffsets)
      add(offset);
    for (int i = 0; i < kVocab; ++i)
      same.push_back(float(i));
    hash = builder.constant("hash", digits);
    map = builder.constant("map", same);
    history = builder.kv(1);
    body("decode", 1, 1);
    body("prefill", 2, 4);
    PhaseBuilder l = builder.phase("logits", 1, 1);
    Ref x = l.buffer("x", kHidden), logits = l.buffer("logits", kVocab);
    l.input(x);
    l.output(logits);
    l.emit("linear", {x, head, Ref(), logits}, {0});
  }

  static constexpr uint64_t multiplier(uint64_t i) {
    return 0x123456789abull * (2 * i + 1);
  }
  /// The row that column `column` of the last of `tokens` is.
  static int64_t rowOf(const std::vector<int32_t> &tokens, int32_t column) {
    uint64_t mixed = 0;
    for (int32_t back = 0; back < column / kHeads + 2; ++back) {
      auto at = int64_t(tokens.size()) - 1 - back;
      mixed ^= uint64_t(at < 0 ? kPad : tokens[size_t(at)]) *
               multiplier(uint64_t(back));
    }
    return int64_t(mixed % kModuli[column] + kOffsets[column]);
  }

  fb::InstructionT &decode(const std::string &op) {
    for (auto &one : builder.plan.phases[0]->instructions)
      if (findOp(one->op)->name == op)
        return *one;
    throw std::logic_error(op);
  }
  std::vector<float> &digits() {
    return builder.plan.constants[hash.index]->values;
  }

  PlanBuilder builder;
  Ref table, hash, map, history;

private:
  Ref weight(const char *name, std::vector<int64_t> shape) {
    std::vector<float> x(size_t(shape[1] * shape[2]));
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = float(i % 17) / 16;
    return builder.weight(name, std::move(shape), x);
  }
  void body(const char *name, int32_t least, int32_t most) {
    PhaseBuilder p = builder.phase(name, least, most);
    Ref ids = p.buffer("tokens", 1, Encoding::I32);
    Ref found = p.buffer("found", kHidden), out = p.buffer("out", kHidden);
    Ref value = p.buffer("value", kHidden / 2);
    p.input(ids);
    p.output(out);
    p.emit("ngram_embed", {ids, table, map, hash, history, found},
           {kSize, kHeads, kPad, 0});
    p.emit("regroup", {found, value}, {1, 0, kHidden / 2, 0, 0});
    p.emit("gate_streams", {found, found, value, out}, {2});
  }
};

TEST(NgramPlanTest, IsTakenAsItIs) {
  TempDir folder;
  NgramPlan plan;
  auto engine = Engine::open(plan.builder.write(folder), {});
  ASSERT_TRUE(engine.isOk()) << engine.status().message();
  Sequence sequence = (*engine)->sequence();
  std::vector<int32_t> tokens{3, 7, 1, 5, 5, 19};
  auto logits = (*engine)->append(sequence, tokens);
  EXPECT_TRUE(logits.isOk()) << logits.status().message();
}

TEST(NgramPlanTest, TableIsNoMemoryOfTheHost) {
  TempDir folder;
  NgramPlan plan;
  std::string path = plan.builder.write(folder);
  uint64_t head = NgramPlan::kVocab * NgramPlan::kHidden * 4;
  EXPECT_EQ(hostWeightBytes(*Plan::load(path)), head);
  plan.builder.plan.residency[0] = {0, 0, fb::ResidencyMode::Resident};
  path = plan.builder.write(folder);
  // A plan whose table is resident is refused, so only the sum is looked at.
  EXPECT_FALSE(Plan::load(path).isOk());
}

/// Binds a phase of the plan and lists the rows that steps request.
class Requests {
public:
  explicit Requests(NgramPlan &own)
      : path_(own.builder.write(folder_)), plan_(*Plan::load(path_)),
        files_(*WeightFiles::open(plan_, {})),
        proven_(*provePlan(plan_, files_)), arena_(4096), kv_(4096) {
    std::byte *arenas[] = {arena_.data()};
    CpuMemory memory{arenas, kv_.data()};
    bound_ = *bindPhase(plan_, proven_[1], 0, memory, files_);
    rows_.emplace(proven_[1], bound_);
    table_ = files_.bytes(0).data() + plan_.table().weights()->Get(0)->offset();
  }
  /// `history` are the tokens of earlier steps, which page 0 has.
  std::vector<int64_t> of(const std::vector<int32_t> &history,
                          const std::vector<int32_t> &tokens) {
    for (size_t i = 0; i < history.size(); ++i)
      reinterpret_cast<float *>(kv_.data())[i] = float(history[i]);
    std::memcpy(arena_.data(), tokens.data(), tokens.size() * 4);
    std::vector<int64_t> requested;
    moek::Step step{int32_t(tokens.size()), int32_t(history.size())};
    rows_->request(step, [&](const uint8_t *row, size_t bytes) {
      EXPECT_EQ(bytes, size_t(NgramPlan::kColumns) * 4);
      requested.push_back((row - table_) / int64_t(bytes));
    });
    return requested;
  }

private:
  TempDir folder_;
  std::string path_;
  Plan plan_;
  WeightFiles files_;
  std::vector<ProvenPhase> proven_;
  std::vector<std::byte> arena_, kv_;
  BoundPhase bound_;
  std::optional<FileRows> rows_;
  const uint8_t *table_ = nullptr;
};

TEST(NgramPlanTest, RowsAreRequestedWhenAStepBegins) {
  NgramPlan plan;
  Requests requests(plan);
  for (std::vector<int32_t> history :
       {std::vector<int32_t>{}, {9}, {3, 14, 11, 2}}) {
    std::vector<int32_t> tokens{6, 1, 18}, text = history;
    std::vector<int64_t> wanted;
    for (int32_t token : tokens) {
      text.push_back(token);
      for (int32_t column = 0; column < NgramPlan::kFound; ++column)
        wanted.push_back(NgramPlan::rowOf(text, column));
    }
    EXPECT_EQ(requests.of(history, tokens), wanted) << history.size();
  }
}

using Refusal = moetest::Refusal<NgramPlan>;

class NgramProofTest : public testing::TestWithParam<Refusal> {};

TEST_P(NgramProofTest, Refuses) {
  NgramPlan plan;
  GetParam().damage(plan);
  moetest::expectRefused(plan.builder, GetParam().message);
}

auto setDigit(size_t number, size_t digit, float value) {
  return [=](NgramPlan &p) { p.digits()[number * 4 + digit] = value; };
}

INSTANTIATE_TEST_SUITE_P(
    Cases, NgramProofTest,
    testing::ValuesIn(std::vector<Refusal>{
        {"Size", "size = 1, expected 2 to 8", setInt("ngram_embed", 0, 1)},
        {"Heads", "operand out has 1 rows of 16 elements per token",
         setInt("ngram_embed", 1, 3)},
        {"Pad", "pad = -1", setInt("ngram_embed", 2, -1)},
        {"Ends", "ends = 2", setInt("ngram_embed", 3, 2)},
        {"Numbers", "hash has a multiplier for each token of an n-gram",
         [](NgramPlan &p) { p.digits().pop_back(); }},
        {"Digit", "hash has digits of 16 bits", setDigit(0, 1, 65536)},
        {"Fraction", "hash has digits of 16 bits", setDigit(2, 0, 0.5f)},
        {"NoRows", "each modulus and offset give rows of the table",
         setDigit(3, 0, 0)},
        {"Modulus", "each modulus and offset give rows of the table",
         setDigit(6, 0, 6)},
        {"Offset", "each modulus and offset give rows of the table",
         setDigit(10, 3, 1)},
        {"Map", "the map's length",
         [](NgramPlan &p) {
           p.builder.plan.constants[p.map.index]->values.pop_back();
         }},
        {"MapNumber", "map has numbers below 2^24",
         [](NgramPlan &p) {
           p.builder.plan.constants[p.map.index]->values[3] = -1;
         }},
        {"HistoryWidth", "the cache's width",
         [](NgramPlan &p) {
           p.builder.plan.kv[0]->width = 2;
           p.builder.plan.devices[0]->kv_bytes *= 2;
         }},
        {"HistoryType", "the history's type",
         [](NgramPlan &p) {
           p.builder.plan.kv[0]->type = uint8_t(moek::KvType::F16);
         }},
        {"Resident", "a weight that device 0 does not read from its file",
         [](NgramPlan &p) {
           p.builder.plan.residency[0] = {0, 0, fb::ResidencyMode::Resident};
         }},
        {"OtherOfFile", "a weight that device 0 does not have",
         [](NgramPlan &p) {
           p.builder.plan.residency[1] = {1, 0, fb::ResidencyMode::File};
         }},
        {"Streams", "streams = 9, expected 1 to 8",
         setInt("gate_streams", 0, 9)},
        {"StreamColumns", "operand q has 1 rows of 16 elements per token",
         setInt("gate_streams", 0, 3)},
    }),
    Refusal::nameOf);

} // namespace
