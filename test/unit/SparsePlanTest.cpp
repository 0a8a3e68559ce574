// Why plans with attention to chosen rows, compressed entries and residual
// streams are refused.
#include "kernels/Entries.h"
#include "kernels/KvCache.h"
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

/// A plan with one of each instruction; its numbers have no meaning.
class SparsePlan {
public:
  static constexpr int32_t kHidden = 16, kVocab = 20, kContext = 64;
  static constexpr int32_t kRatio = 4, kTopK = 2, kStreams = 2;
  static constexpr int32_t kGroups = 2, kLocal = 1;

  SparsePlan() : builder(kHidden, kVocab, kContext, "ref") {
    Ref embed = weight("embed", {1, kVocab, kHidden});
    Ref vector = weight("vector", {1, 1, kHidden});
    Ref two = weight("two", {1, 2, kHidden});
    Ref eight = weight("eight", {1, 8, kHidden});
    Ref scale = weight("scale", {1, 1, 3}), base = weight("base", {1, 1, 8});
    Ref ape = weight("ape", {1, kRatio, kHidden});
    Ref table = weight("table", {1, kVocab, 2});
    Ref factors = weight("factors", {1, 8, 1});
    builder.plan.weights[table.index]->format = uint8_t(moek::Format::I32);
    Ref turns = builder.constant("inv_freq", {1, 0.1f});
    Ref keys = builder.kv(8), rows = builder.kv(8), entries = builder.kv(8);
    Ref compressed = builder.kv(kHidden);
    Ref grouped = builder.kv(moek::gqaKvWidth(2, 8, 8));
    Ref state = builder.state(moek::compressStateWidth(kHidden, false), 4);
    PhaseBuilder p = builder.phase("decode", 1, 1);
    auto f32 = [&](const char *name, int64_t cols) {
      return p.buffer(name, cols);
    };
    Ref ids = p.buffer("tokens", 1, Encoding::I32), h = f32("h", kHidden);
    Ref n = f32("n", kHidden), w = f32("w", 2), k = f32("k", 8);
    Ref scores = f32("scores", kContext), o = f32("o", kHidden);
    Ref chosen = p.buffer("chosen", kTopK, Encoding::I32);
    Ref blockScores = f32("block_scores", kGroups * kContext / kRatio);
    Ref blocks = p.buffer("blocks", kGroups * kTopK, Encoding::I32);
    Ref sum = f32("sum", kHidden), mix = f32("mix", 8);
    Ref streams = f32("streams", kStreams * kHidden);
    Ref stack = f32("stack", 2 * kHidden);
    Ref out = f32("out", kHidden), spread = f32("spread", kStreams * kHidden);
    Ref experts = p.buffer("experts", 2, Encoding::I32);
    Ref shares = f32("shares", 2);
    Ref one = p.buffer("one", 1, Encoding::I32), oneShare = f32("one_share", 1);
    Ref other = p.buffer("other", 1, Encoding::I32);
    Ref otherShare = f32("other_share", 1);
    Ref offsets = p.buffer("offsets", 9, Encoding::I32, 0, 1);
    Ref slots = p.buffer("slots", 1, Encoding::I32);
    const Ref none;
    p.input(ids);
    p.output(out);
    p.emit("embed", {ids, embed, h}, {0});
    p.emit("layer_norm", {h, vector, vector, n}, {}, {1e-6});
    p.emit("linear", {n, two, none, w}, {0});
    p.emit("linear", {n, eight, none, k}, {0});
    p.emit("row_store", {k, keys}, {1});
    p.emit("row_store", {k, rows}, {1});
    p.emit("row_store", {k, entries}, {1});
    p.emit("hash_router", {k, ids, table, none, experts, shares}, {8, 2, 4, 1},
           {1.0});
    p.emit("split_choices", {experts, shares, one, oneShare, other, otherShare},
           {8, 2, 1});
    p.emit("expert_group", {other, offsets, slots, none}, {8, 1, 0, 0});
    p.emit("experts_activation_mul", {h, n, factors, none, offsets, slots, sum},
           {8, 1, 0});
    p.emit("index_scores", {n, w, keys, scores}, {2, 8, 1}, {0.5});
    p.emit("index_select", {scores, chosen}, {kTopK, 1, 1, 0});
    p.emit("sparse_attention", {n, rows, entries, chosen, none, o},
           {2, 8, 8, 5, 1, kTopK, 1}, {0.5});
    p.emit("kv_store", {n, n, grouped}, {2, 8, 8});
    p.emit("block_scores", {n, keys, blockScores},
           {kGroups, 8, kRatio, kLocal});
    p.emit("index_select", {blockScores, blocks},
           {kTopK, kRatio, kGroups, kLocal});
    p.emit("block_attention", {n, grouped, blocks, o},
           {2, 2, 8, 8, kTopK, kRatio, kGroups, kLocal}, {0.5});
    p.emit("compress", {h, o, ape, state, sum}, {kRatio, 0});
    p.emit("entry_store", {sum, vector, turns, compressed}, {kRatio, 0, 0},
           {1e-6});
    p.emit("linear", {o, eight, none, k}, {0});
    p.emit("hyper_weights", {k, scale, base, mix}, {kStreams, 3}, {1e-6});
    p.emit("hyper_spread", {h, none, none, streams}, {kStreams});
    p.emit("hyper_spread", {o, streams, mix, spread}, {kStreams});
    p.emit("hyper_collapse", {spread, mix, n}, {kStreams});
    p.emit("concat", {n, h, stack});
    p.emit("residual_mix", {o, stack, vector, n}, {2}, {1e-6});
    p.emit("clamped_mul", {n, o, out}, {}, {1.5, 0});
    PhaseBuilder l = builder.phase("logits", 1, 1);
    Ref x = l.buffer("x", kHidden), logits = l.buffer("logits", kVocab);
    l.input(x);
    l.output(logits);
    l.emit("linear", {x, embed, none, logits}, {0});
  }

  fb::InstructionT &decode(const std::string &op, int skipped = 0) {
    for (auto &one : builder.plan.phases[0]->instructions)
      if (findOp(one->op)->name == op && skipped-- == 0)
        return *one;
    throw std::logic_error(op);
  }

  PlanBuilder builder;

private:
  Ref weight(const char *name, std::vector<int64_t> shape) {
    std::vector<float> x(size_t(shape[1] * shape[2]), 0.25f);
    return builder.weight(name, std::move(shape), x);
  }
};

/// Sets `operand` of decode's `op` to operand `other` of `from`.
auto setOperand(const char *op, size_t operand, const char *from,
                size_t other) {
  return [=](SparsePlan &p) {
    p.decode(op).operands[operand] = p.decode(from).operands[other];
  };
}
auto setFloat(const char *op, double value) {
  return [=](SparsePlan &p) { p.decode(op).floats[0] = value; };
}

using Refusal = moetest::Refusal<SparsePlan>;

class SparseProofTest : public testing::TestWithParam<Refusal> {};

TEST(SparsePlanTest, IsTakenAsItIs) {
  TempDir folder;
  SparsePlan plan;
  auto engine = Engine::open(plan.builder.write(folder), {});
  EXPECT_TRUE(engine.isOk()) << engine.status().message();
}

TEST_P(SparseProofTest, Refuses) {
  SparsePlan plan;
  GetParam().damage(plan);
  moetest::expectRefused(plan.builder, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, SparseProofTest,
    testing::ValuesIn(std::vector<Refusal>{
        {"NormEps", "eps is not negative", setFloat("layer_norm", -1)},
        {"NormWeight", "operand weight is 1 x 3",
         setOperand("layer_norm", 1, "hyper_weights", 1)},
        {"RowWidth", "the cache's width",
         setOperand("row_store", 1, "entry_store", 3)},
        {"RowState", "the cache's rings are whole pages of rows",
         setOperand("row_store", 1, "compress", 3)},
        {"IndexHeads", "operand q has 1 rows of 16 elements per token",
         setInt("index_scores", 0, 3)},
        {"IndexRatio", "ratio = 0", setInt("index_scores", 2, 0)},
        {"ScoresTooFew", "there is a score for each entry of a context",
         [](SparsePlan &p) {
           p.decode("index_select").operands[0] =
               p.decode("layer_norm").operands[0];
         }},
        {"ChosenFrom", "does not hold an index_select's choice",
         setOperand("sparse_attention", 3, "hash_router", 4)},
        {"ChosenRatio", "does not hold an index_select's choice of 2 entries",
         setInt("sparse_attention", 4, 4)},
        {"ChosenPool", "does not hold an index_select's choice of 2 entries",
         setInt("sparse_attention", 6, 2)},
        {"NoPool", "pool = 0", setInt("sparse_attention", 6, 0)},
        {"PoolOfAll", "pool = 2, expected 1 to 1",
         [](SparsePlan &p) {
           fb::InstructionT &one = p.decode("sparse_attention");
           one.operands[3] = fb::Operand();
           one.ints[5] = 0;
           one.ints[6] = 2;
         }},
        {"RowRatio", "ratio = 0", setInt("row_store", 0, 0)},
        {"ChosenCount", "operand chosen has 1 rows of 2 elements per token",
         setInt("sparse_attention", 5, 3)},
        {"BlockScoresTooFew", "there is a score for each entry of a context",
         setInt("block_scores", 2, 3)},
        {"NoBlockGroups", "groups = 0", setInt("block_scores", 0, 0)},
        {"NoSelectGroups", "groups = 0", setInt("index_select", 2, 0)},
        {"NoBlockRatio", "ratio = 0", setInt("block_attention", 5, 0)},
        {"NoKeyHeads", "kv_heads = 0", setInt("block_attention", 1, 0)},
        {"NegativeLocal", "local = -1", setInt("block_scores", 3, -1)},
        {"NegativeTail", "tail = -1", setInt("entry_store", 1, -1)},
        {"BlockGroups", "there is one group of choices, or one for each",
         setInt("block_attention", 6, 3)},
        {"BlockHeads", "kv_heads divides heads",
         setInt("block_attention", 0, 3)},
        {"BlockCache", "the cache's width", setInt("block_attention", 3, 65)},
        {"BlocksOfOther", "operand chosen has 1 rows of 2 elements per token",
         setOperand("block_attention", 2, "sparse_attention", 3)},
        {"BlocksRatio", "does not hold an index_select's choice",
         setInt("block_attention", 5, 8)},
        {"BlocksLocal", "does not hold an index_select's choice",
         setInt("block_attention", 7, 0)},
        {"NoRows", "a token sees at least one row",
         [](SparsePlan &p) {
           fb::InstructionT &one = p.decode("sparse_attention");
           one.operands[1] = fb::Operand();
           one.ints[3] = 0;
           one.ints[4] = 4;
           p.decode("index_select").ints[1] = 4;
         }},
        {"Window", "window = 0", setInt("sparse_attention", 3, 0)},
        {"Value", "value = 9, expected 1 to 8",
         setInt("sparse_attention", 2, 9)},
        {"Overlap", "operand kv has 1 rows of 16 elements per token",
         setInt("compress", 1, 1)},
        {"Ape", "operand ape is 4 x 16, expected 5 x 16",
         setInt("compress", 0, 5)},
        {"CompressState", "the state has a row for each sequence",
         setOperand("compress", 3, "row_store", 1)},
        {"EntryRatio", "ratio = 0", setInt("entry_store", 0, 0)},
        {"Streams", "streams = 9, expected 1 to 8",
         setInt("hyper_collapse", 0, 9)},
        {"Weights", "x has a column for each weight",
         setInt("hyper_weights", 0, 3)},
        {"Spread", "operand out has 1 rows of 32 elements per token",
         setInt("hyper_spread", 0, 4)},
        {"Limit", "limit is above zero", setFloat("clamped_mul", 0)},
        {"SoftLimit", "soft is not negative",
         [](SparsePlan &p) { p.decode("clamped_mul").floats[1] = -1; }},
        {"StackOfMore", "operand stack has 1 rows of 32 elements per token",
         setInt("residual_mix", 0, 3)},
        {"NoStack", "count = 0", setInt("residual_mix", 0, 0)},
        {"MixWeight", "operand weight is 1 x 3",
         setOperand("residual_mix", 2, "hyper_weights", 1)},
        {"MixEps", "eps is not negative", setFloat("residual_mix", -1)},
        {"ConcatWidth", "operand out has 1 rows of 16 elements per token",
         setOperand("concat", 2, "clamped_mul", 2)},
        {"Table", "operand table has format F32, expected I32",
         [](SparsePlan &p) {
           p.builder.plan.weights[p.decode("hash_router").operands[2].index()]
               ->format = uint8_t(moek::Format::F32);
         }},
        {"TableColumns", "the table's column count",
         setInt("hash_router", 1, 3)},
        {"Scoring", "all experts have scores", setInt("hash_router", 2, 3)},
        {"SplitAll", "last = 2, expected 1 to 1",
         setInt("split_choices", 2, 2)},
        {"SplitOthers", "does not hold a router's choice of 2 from 9 experts",
         setInt("split_choices", 0, 9)},
        {"SplitRest", "operand last_ids has 1 rows of 2 elements per token",
         setOperand("split_choices", 4, "hash_router", 4)},
        {"SplitWeights", "operand first_weights has 1 rows of 2 elements",
         setOperand("split_choices", 3, "linear", 3)},
        {"Factors", "operand gate_scale is 8 x 1, expected 7 x 1",
         setInt("experts_activation_mul", 0, 7)},
        {"FactorsOfOthers", "groups 1 of 8 experts, but takes 1 of 7",
         [](SparsePlan &p) {
           fb::InstructionT &one = p.decode("experts_activation_mul");
           one.operands[2] = fb::Operand();
           one.ints[0] = 7;
         }},
        {"FactorsRows", "operand up has 1 rows of 2 elements per token",
         setOperand("experts_activation_mul", 1, "linear", 3)},
        {"FactorsActivation", "activation = 9",
         setInt("experts_activation_mul", 2, 9)},
        {"SplitGroups", "operand ids has 1 rows of 1 elements per token",
         setInt("expert_group", 1, 2)},
    }),
    Refusal::nameOf);

} // namespace
