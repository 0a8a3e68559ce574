//===- DeepseekTest.cpp - The graph of deepseek2 files --------------------===//

#include "dialects/moe/WeightTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "models/Model.h"
#include "test/support/SampleModel.h"
#include "test/support/TempDir.h"
#include "test/support/TinyDeepseek.h"

#include <cmath>
#include <gmock/gmock.h>

using namespace mlir;
using moetest::TinyDeepseek;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {
struct Deepseek : testing::Test {
  ModuleOp import(const std::string &path) {
    auto model = moec::GgufModel::open(path);
    EXPECT_TRUE(model.isOk()) << model.status().message();
    auto imported = moec::importModel(context, *model);
    EXPECT_TRUE(imported.isOk()) << imported.status().message();
    if (!imported)
      return module.get();
    module = *std::move(imported);
    return module.get();
  }
  ModuleOp import(const TinyDeepseek &tiny) {
    return import(tiny.build().write(dir.file("tiny.gguf")));
  }

  /// Returns the only op with this label.
  template <typename OpT> OpT find(StringRef label) {
    OpT found;
    module.get().walk([&](OpT op) {
      if (moe::labelOf(op) == label) {
        EXPECT_FALSE(found) << label.str() << " appears twice";
        found = op;
      }
    });
    EXPECT_TRUE(found) << label.str() << " is missing";
    return found;
  }

  std::vector<std::string> notes() {
    std::vector<std::string> result;
    for (auto note : module.get()
                         ->getAttrOfType<ArrayAttr>(moe::kNotesAttr)
                         .getAsRange<StringAttr>())
      result.push_back(note.str());
    return result;
  }
  int64_t fact(StringRef name) {
    return module.get()
        ->getAttrOfType<DictionaryAttr>(moe::kModelAttr)
        .getAs<IntegerAttr>(name)
        .getInt();
  }
  /// The symbol of a weight: for a tensor, its name.
  static std::string tensorOf(Value weight) {
    return moe::weightSymbol(weight).str();
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  moetest::TempDir dir;
  OwningOpRef<ModuleOp> module;
};

std::string unit(const char *name) {
  return std::string(MOE_TEST_DATA) + "/unit/deepseek2-" + name + ".gguf";
}
} // namespace

TEST_F(Deepseek, PropertiesAndFiles) {
  ModuleOp module = import(unit("lite"));
  EXPECT_EQ(fact("hidden"), 64);
  EXPECT_EQ(fact("vocab"), 320);
  EXPECT_EQ(fact("layers"), 3);
  EXPECT_EQ(fact("context_length"), 163840);
  EXPECT_EQ(fact("heads"), 4);
  EXPECT_EQ(fact("experts"), 8);
  EXPECT_EQ(fact("experts_used"), 3);
  EXPECT_EQ(fact("latent"), 64);
  EXPECT_EQ(fact("rope"), 16);
  auto files = module->getAttrOfType<ArrayAttr>(moe::kFilesAttr);
  ASSERT_EQ(files.size(), 1u);
  auto file = cast<DictionaryAttr>(files[0]);
  EXPECT_EQ(file.getAs<StringAttr>("path").str(), unit("lite"));
  EXPECT_EQ(file.getAs<StringAttr>("header_hash").size(), 32u);
  EXPECT_GT(file.getAs<IntegerAttr>("bytes").getInt(),
            file.getAs<IntegerAttr>("header_bytes").getInt());
  EXPECT_THAT(notes(), ElementsAre());
}

// Plans record these numbers, and moert relies on them.
TEST_F(Deepseek, WorkOfAnyStepFollowsFromItsTerms) {
  const std::pair<int64_t, int64_t> steps[] = {
      {1, 0}, {1, 1000}, {2, 3}, {7, 0}, {64, 512}};
  int instructions = 0;
  ModuleOp module = import(unit("lite"));
  module.walk([&](moe::LowerableOpInterface op) {
    SmallVector<moe::WorkTerms> terms = moe::workTerms(op);
    for (auto [tokens, cached] : steps) {
      moe::Instructions all = op.getInstructions({tokens, cached});
      ASSERT_EQ(all.size(), terms.size());
      for (auto [instruction, term] : llvm::zip(all, terms)) {
        auto count = double(tokens), rows = double(cached + tokens);
        double seen = count * (double(cached) + (count + 1) / 2);
        double ops =
            count * term.tokenOps + seen * term.seenOps + rows * term.rowOps;
        double bytes = 0;
        for (int64_t i = 0; i < tokens; ++i)
          bytes += term.firstBytes * std::pow(term.again, i);
        moe::Cost cost = instruction.work.cost();
        EXPECT_NEAR(ops, cost.flops, 1e-9 * cost.flops)
            << op->getName().getStringRef().str();
        EXPECT_NEAR(bytes, cost.weightBytes, 1e-9 * cost.weightBytes)
            << op->getName().getStringRef().str();
        ++instructions;
      }
    }
  });
  EXPECT_GT(instructions, 100);
}

TEST_F(Deepseek, ParametersCountEveryElementOnce) {
  TinyDeepseek tiny;
  int64_t expected = 0;
  for (const auto &[name, tensor] : tiny.tensors) {
    int64_t elements = 1;
    for (uint64_t size : tensor.shape)
      elements *= int64_t(size);
    expected += elements;
  }
  import(tiny);
  EXPECT_EQ(fact("parameters"), expected);
}

TEST_F(Deepseek, AttentionScaleOfYarnIsMscaleSquared) {
  import(unit("lite"));
  auto attention = find<moe::MlaAttentionOp>("blk.2.attention");
  // mscale = 1 + 0.1 * ln(40); 48 elements in a head.
  EXPECT_NEAR(attention.getScale().convertToDouble(),
              1.3688879454113936 * 1.3688879454113936 / std::sqrt(48.0), 1e-8);
  auto rope = find<moe::RopeOp>("blk.2.attn_q_rope").getRope();
  EXPECT_EQ(rope.getFactor(), 40.0);
  EXPECT_EQ(rope.getOriginalContext(), 4096);
  EXPECT_EQ(rope.getBetaFast(), 32.0);
  EXPECT_FALSE(rope.getNeox());
}

TEST_F(Deepseek, LinearScalingLeavesTheScoresAlone) {
  TinyDeepseek tiny;
  tiny.keys["rope.scaling.type"] = "linear";
  tiny.keys["rope.scaling.factor"] = 4.0f;
  tiny.keys["rope.scaling.yarn_log_multiplier"] = 0.1f;
  import(tiny);
  auto rope = find<moe::RopeOp>("blk.0.attn_q_rope").getRope();
  EXPECT_EQ(rope.getFactor(), 4.0);
  EXPECT_EQ(rope.getOriginalContext(), 0);
  EXPECT_DOUBLE_EQ(
      find<moe::MlaAttentionOp>("blk.0.attention").getScale().convertToDouble(),
      1 / std::sqrt(48.0));
}

TEST_F(Deepseek, OldLayoutSplitsKvB) {
  import(unit("lite"));
  auto attention = find<moe::MlaAttentionOp>("blk.0.attention");
  EXPECT_FALSE(attention.getKTransposed());
  EXPECT_EQ(tensorOf(attention.getWk()), "blk.0.attn_kv_b.weight.keys");
  EXPECT_EQ(tensorOf(attention.getWv()), "blk.0.attn_kv_b.weight.values");
  moe::WeightTable weights(*module);
  moe::WeightOp values = weights.of(attention.getWv());
  EXPECT_EQ(weights.residentOf(values).getSymName(), "blk.0.attn_kv_b.weight");
  // Each head has 32 rows of keys, of 64 floats, before its values.
  auto whole = weights.locate(weights.residentOf(values));
  auto view = weights.locate(values);
  ASSERT_TRUE(whole && view);
  EXPECT_EQ(view->offset - whole->offset, 32 * 64 * 4);
  EXPECT_EQ(view->outerStride, whole->outerStride);
  // The tensors show that there is no query LoRA.
  EXPECT_EQ(tensorOf(find<moe::LinearOp>("blk.0.attn_q").getWeight()),
            "blk.0.attn_q.weight");
}

TEST_F(Deepseek, NewLayoutHasTransposedKeys) {
  import(unit("split"));
  auto attention = find<moe::MlaAttentionOp>("blk.0.attention");
  EXPECT_TRUE(attention.getKTransposed());
  EXPECT_EQ(tensorOf(attention.getWk()), "blk.0.attn_k_b.weight");
  EXPECT_THAT(cast<ShapedType>(attention.getWk().getType()).getShape(),
              ElementsAre(4, 64, 32));
  EXPECT_THAT(cast<ShapedType>(attention.getWv().getType()).getShape(),
              ElementsAre(4, 32, 64));
  // Keys that end in _mla give a head's sizes.
  EXPECT_EQ(attention.getNope(), 32u);
  EXPECT_EQ(attention.getValue(), 32u);
  // The query LoRA.
  auto last = find<moe::LinearOp>("blk.0.attn_q_b");
  auto norm = last.getX().getDefiningOp<moe::RmsNormOp>();
  ASSERT_TRUE(norm);
  EXPECT_EQ(tensorOf(norm.getWeight()), "blk.0.attn_q_a_norm.weight");
}

TEST_F(Deepseek, OfAllThreeKvTensorsOneFormIsUsed) {
  TinyDeepseek tiny;
  for (std::string block : {"blk.0.", "blk.1."}) {
    tiny.tensors[block + "attn_k_b.weight"] = {{32, 64, 2}};
    tiny.tensors[block + "attn_v_b.weight"] = {{64, 32, 2}};
  }
  import(tiny);
  EXPECT_EQ(tensorOf(find<moe::MlaAttentionOp>("blk.1.attention").getWk()),
            "blk.1.attn_kv_b.weight.keys");
  EXPECT_THAT(notes(), ElementsAre("4 tensors of the file are not used: "
                                   "\"blk.0.attn_k_b.weight\", "
                                   "\"blk.0.attn_v_b.weight\", "
                                   "\"blk.1.attn_k_b.weight\", ..."));
}

TEST_F(Deepseek, DenseAndRoutedBlocks) {
  import(unit("lite"));
  find<moe::FfnOp>("blk.0.ffn");
  auto experts = find<moe::ExpertsOp>("blk.1.ffn_experts");
  EXPECT_EQ(tensorOf(experts.getGate()), "blk.1.ffn_gate_exps.weight");
  EXPECT_EQ(tensorOf(experts.getUp()), "blk.1.ffn_up_exps.weight");
  EXPECT_EQ(tensorOf(experts.getDown()), "blk.1.ffn_down_exps.weight");
  auto shared = find<moe::FfnOp>("blk.1.ffn_shared");
  // Two shared experts side by side.
  EXPECT_EQ(cast<ShapedType>(shared.getGate().getType()).getDimSize(0), 64);
  // Both read the same normalised activations.
  EXPECT_EQ(shared.getX(), experts.getX());
  EXPECT_TRUE(shared.getX().getDefiningOp<moe::RmsNormOp>());
}

TEST_F(Deepseek, SoftmaxRouterByDefault) {
  TinyDeepseek tiny;
  import(tiny);
  auto router = find<moe::RouterOp>("blk.1.router");
  EXPECT_EQ(router.getScoring(), moe::Scoring::Softmax);
  EXPECT_FALSE(router.getNormalize());
  EXPECT_FALSE(router.getBias());
  EXPECT_EQ(router.getGroups(), 1u);
  EXPECT_EQ(router.getScale().convertToDouble(), 1.0);
  EXPECT_EQ(router.getTopK(), 3u);
}

TEST_F(Deepseek, SigmoidRouterWithBiasGroupsNormAndScale) {
  import(unit("groups"));
  auto router = find<moe::RouterOp>("blk.2.router");
  EXPECT_EQ(router.getScoring(), moe::Scoring::Sigmoid);
  EXPECT_TRUE(router.getNormalize());
  EXPECT_EQ(tensorOf(router.getBias()), "blk.2.exp_probs_b.bias");
  EXPECT_EQ(router.getGroups(), 4u);
  EXPECT_EQ(router.getGroupsUsed(), 2u);
  EXPECT_EQ(router.getScale().convertToDouble(), 2.5);
}

TEST_F(Deepseek, AScaleOfZeroMeansNone) {
  TinyDeepseek tiny;
  tiny.keys["expert_weights_scale"] = 0.0f;
  import(tiny);
  EXPECT_EQ(find<moe::RouterOp>("blk.1.router").getScale().convertToDouble(),
            1.0);
}

TEST_F(Deepseek, GlmFlashLeavesOutItsSigmoid) {
  TinyDeepseek tiny;
  tiny.keys["block_count"] = uint32_t(47);
  tiny.keys["leading_dense_block_count"] = uint32_t(46);
  tiny.keys["vocab_size"] = uint32_t(154880);
  for (const char *name : {"token_embd.weight", "output.weight"})
    tiny.tensors[name].shape[1] = 154880;
  std::map<std::string, TinyDeepseek::Tensor> tensors = tiny.tensors;
  for (const auto &[name, tensor] : tensors) {
    if (name.starts_with("blk.0."))
      for (int block = 1; block < 46; ++block)
        tiny.tensors["blk." + std::to_string(block) + name.substr(5)] = tensor;
    if (name.starts_with("blk.1."))
      tiny.tensors["blk.46" + name.substr(5)] = tensor;
  }
  import(tiny);
  EXPECT_EQ(find<moe::RouterOp>("blk.46.router").getScoring(),
            moe::Scoring::Sigmoid);
}

TEST_F(Deepseek, SharedExpertsThatAreNotCounted) {
  TinyDeepseek tiny;
  tiny.keys.erase("expert_shared_count");
  import(tiny);
  find<moe::FfnOp>("blk.1.ffn_shared");
}

TEST_F(Deepseek, ABiasNextToAProjectionIsAdded) {
  TinyDeepseek tiny;
  tiny.tensors["blk.0.attn_output.bias"] = {{64}};
  import(tiny);
  EXPECT_EQ(tensorOf(find<moe::LinearOp>("blk.0.attn_output").getBias()),
            "blk.0.attn_output.bias");
  EXPECT_FALSE(find<moe::LinearOp>("blk.1.attn_output").getBias());
}

TEST_F(Deepseek, FusedGateAndUpAreTwoViews) {
  TinyDeepseek tiny;
  tiny.tensors.erase("blk.1.ffn_gate_exps.weight");
  tiny.tensors.erase("blk.1.ffn_up_exps.weight");
  tiny.tensors["blk.1.ffn_gate_up_exps.weight"] = {{64, 64, 8}};
  import(tiny);
  auto experts = find<moe::ExpertsOp>("blk.1.ffn_experts");
  moe::WeightTable weights(*module);
  auto sliceOf = [&](Value weight) {
    return cast<moe::WeightSliceAttr>(weights.of(weight).getSource());
  };
  EXPECT_EQ(tensorOf(experts.getGate()), "blk.1.ffn_gate_up_exps.weight.0");
  EXPECT_EQ(tensorOf(experts.getUp()), "blk.1.ffn_gate_up_exps.weight.32");
  EXPECT_EQ(sliceOf(experts.getGate()).getBegin(), 0);
  EXPECT_EQ(sliceOf(experts.getUp()).getBegin(), 32);
  EXPECT_THAT(cast<ShapedType>(experts.getUp().getType()).getShape(),
              ElementsAre(8, 32, 64));
  EXPECT_THAT(notes(), ElementsAre());
}

TEST_F(Deepseek, TiedOutput) {
  TinyDeepseek tiny;
  tiny.tensors.erase("output.weight");
  import(tiny);
  EXPECT_EQ(tensorOf(find<moe::LmHeadOp>("output").getWeight()),
            "token_embd.weight");
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("output.weight is absent")));
}

TEST_F(Deepseek, PredictionLayersAreSkipped) {
  TinyDeepseek tiny;
  tiny.keys["block_count"] = uint32_t(3);
  tiny.keys["nextn_predict_layers"] = uint32_t(1);
  tiny.tensors["blk.2.nextn.eh_proj.weight"] = {{128, 64}};
  import(tiny);
  EXPECT_EQ(fact("layers"), 2);
  EXPECT_THAT(notes(), ElementsAre("blk.2 predicts further tokens ahead and is "
                                   "skipped; --mtp keeps it"));
}

TEST_F(Deepseek, PredictionLayersThatAreMissing) {
  TinyDeepseek tiny;
  auto mtp = [&] {
    auto path = tiny.build().write(dir.file("tiny.gguf"));
    auto model = moec::GgufModel::open(path);
    EXPECT_TRUE(model.isOk());
    return moec::importModel(context, *model, {.mtp = true}).status().message();
  };
  EXPECT_THAT(mtp(), HasSubstr("the file has no blk.2.nextn.eh_proj.weight"));
  tiny.keys["block_count"] = uint32_t(3);
  tiny.keys["nextn_predict_layers"] = uint32_t(1);
  EXPECT_THAT(mtp(), HasSubstr("the file has no blk.2.nextn.eh_proj.weight"));
}

TEST_F(Deepseek, VocabularyFromTheTokenizer) {
  TinyDeepseek tiny;
  tiny.keys.erase("vocab_size");
  moetest::GgufBuilder gguf = tiny.build();
  std::vector<std::string> tokens;
  for (int i = 0; i < 96; ++i)
    tokens.push_back("t" + std::to_string(i));
  gguf.addStrings("tokenizer.ggml.tokens", tokens);
  import(gguf.write(dir.file("tiny.gguf")));
  EXPECT_EQ(fact("vocab"), 96);
}

TEST_F(Deepseek, WholeV3) {
  import(moetest::deepseekV3Model().write(dir.file("v3.gguf")));
  EXPECT_EQ(fact("layers"), 61);
  EXPECT_GT(fact("parameters"), 671'000'000'000);
  EXPECT_LT(fact("parameters"), 672'000'000'000);
  find<moe::RouterOp>("blk.60.router");

  // Published: 36.6 billion active parameters, of which 20.4 are routed (the
  // head, in @logits, has 0.9); 70 KB of cache per token in BF16.
  auto forward = module->lookupSymbol<func::FuncOp>("forward");
  moe::Cost total, routed;
  forward.walk([&](moe::CostOpInterface op) {
    moe::Cost cost = op.getCost(/*tokens=*/1, /*context=*/0);
    total += cost;
    if (isa<moe::ExpertsOp>(op))
      routed += cost;
  });
  EXPECT_NEAR(total.flops / 2, 35.6e9, 0.5e9);
  EXPECT_NEAR(routed.flops / 2, 20.4e9, 0.1e9);
  double cached = 0;
  forward.walk(
      [&](moe::MlaLatentOp op) { cached += op.getCost(1, 0).kvBytes; });
  EXPECT_EQ(cached, 61 * 576 * 2);
}
