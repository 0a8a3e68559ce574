#include "runtime/schema/OpTable.h"

#include "kernels/Scratch.h"

#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

using namespace moert;

namespace {

// Plan files contain these numbers.
TEST(OpTableTest, NumbersAreThoseOfPlanFiles) {
  const std::vector<std::string_view> names = {"embed",
                                               "rope_table",
                                               "rms_norm",
                                               "quantize",
                                               "linear",
                                               "gate_up",
                                               "activation_mul",
                                               "add",
                                               "rope",
                                               "mla_latent",
                                               "absorb_query",
                                               "latent_attention",
                                               "head_linear",
                                               "mla_attention",
                                               "router",
                                               "expert_group",
                                               "experts_linear",
                                               "experts_gate_up",
                                               "experts_combine",
                                               "copy",
                                               "combine_splits",
                                               "kv_store",
                                               "attention",
                                               "gate_mul",
                                               "scale",
                                               "regroup",
                                               "short_conv",
                                               "delta_gates",
                                               "delta_rule",
                                               "layer_norm",
                                               "row_store",
                                               "index_scores",
                                               "index_select",
                                               "sparse_attention",
                                               "compress",
                                               "entry_store",
                                               "hyper_weights",
                                               "hyper_collapse",
                                               "hyper_spread",
                                               "clamped_mul",
                                               "hash_router",
                                               "split_choices",
                                               "experts_activation_mul",
                                               "position_scale",
                                               "embed_positions",
                                               "block_scores",
                                               "block_attention",
                                               "residual_mix",
                                               "concat",
                                               "ngram_embed",
                                               "gate_streams",
                                               "block_maxima",
                                               "keep_blocks"};
  ASSERT_GE(opTable().size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(opTable()[i].name, names[i]);
    EXPECT_EQ(size_t(opTable()[i].op), i);
  }
}

TEST(OpTableTest, OperandsAndParametersHaveNamesOfTheirOwn) {
  for (const OpSpec &spec : opTable()) {
    std::set<std::string_view> names;
    bool writes = false;
    for (const OperandSpec &operand : spec.operands) {
      EXPECT_TRUE(names.insert(operand.name).second)
          << spec.name << " " << operand.name;
      writes |= operand.role == OperandRole::Write ||
                operand.role == OperandRole::ReadWrite ||
                operand.role == OperandRole::KvWrite;
      if (operand.gemm) {
        EXPECT_EQ(operand.role, OperandRole::Weight) << spec.name;
      }
    }
    EXPECT_TRUE(writes) << spec.name;
    for (std::string_view name : spec.ints)
      EXPECT_TRUE(names.insert(name).second) << spec.name << " " << name;
    for (std::string_view name : spec.floats)
      EXPECT_TRUE(names.insert(name).second) << spec.name << " " << name;
  }
}

// Formulas for scratch memory use parameters that the op has.
TEST(OpTableTest, ScratchIsOfTheOpsParameters) {
  for (const OpSpec &spec : opTable()) {
    int64_t bytes = spec.scratchBytes([&](std::string_view name) {
      bool known = false;
      for (std::string_view parameter : spec.ints)
        known |= parameter == name;
      EXPECT_TRUE(known) << spec.name << " has no " << name;
      return int64_t(64);
    });
    EXPECT_EQ(bytes % 8, 0) << spec.name;
  }
  auto sixtyFour = [](std::string_view) { return int64_t(64); };
  EXPECT_EQ(findOp("linear")->scratchBytes(sixtyFour),
            moek::gemmScratchBytes());
  EXPECT_EQ(findOp("router")->scratchBytes(sixtyFour),
            moek::routerScratchBytes(64));
  EXPECT_EQ(findOp("add")->scratchBytes(sixtyFour), 0);
}

// Every kind of index that kernels read is written by an op that bounds it.
TEST(OpTableTest, IndicesThatAreReadAreWrittenSomewhere) {
  auto some = [](OperandRole role, Indices indices) {
    for (const OpSpec &spec : opTable())
      for (const OperandSpec &operand : spec.operands)
        if (operand.role == role && operand.indices == indices)
          return true;
    return false;
  };
  for (Indices indices : {Indices::Experts, Indices::GroupOffsets,
                          Indices::GroupSlots, Indices::Entries}) {
    EXPECT_TRUE(some(OperandRole::Write, indices));
    EXPECT_TRUE(some(OperandRole::Read, indices));
  }
  // Token ids are the phase's input.
  EXPECT_TRUE(some(OperandRole::Read, Indices::Tokens));
}

} // namespace
