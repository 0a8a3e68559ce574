// Tests the proof of an instruction, which precedes its binding on any device:
// shapes, encodings, kernels, barriers, and the sources of indices.
#include "runtime/engine/Engine.h"
#include "runtime/prove/Prove.h"
#include "test/support/FakeDevice.h"
#include "test/support/SamplePlan.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace moert;
using moetest::SamplePlan;
using moetest::TempDir;
namespace fb = moert::fb;

namespace {

struct Case {
  const char *name;
  const char *message;
  std::function<void(SamplePlan &)> damage;
};

void PrintTo(const Case &damage, std::ostream *out) { *out << damage.name; }

fb::InstructionT &decode(SamplePlan &s, const char *op) {
  return *s.phase("decode").instructions[s.find("decode", op)];
}
uint32_t bufferIndex(SamplePlan &s, const char *name) {
  auto &buffers = s.phase("decode").buffers;
  for (uint32_t i = 0; i < buffers.size(); ++i)
    if (buffers[i]->name == name)
      return i;
  throw std::logic_error(name);
}
fb::BufferT &buffer(SamplePlan &s, const char *name) {
  return *s.phase("decode").buffers[bufferIndex(s, name)];
}
fb::WeightT &weight(SamplePlan &s, const char *name) {
  for (auto &candidate : s.builder.plan.weights)
    if (candidate->name == name)
      return *candidate;
  throw std::logic_error(name);
}
/// Makes a weight of 32 columns one of Q8_0 in panels of 16 rows.
void packRows(fb::WeightT &w) {
  w.format = uint8_t(moek::Format::Q8_0);
  w.layout = uint8_t(moek::Layout::Rows16);
  w.row_stride = 34;
  w.outer_stride = moek::storedRows(moek::Layout::Rows16, w.rows) * 34;
}
/// Points operand `index` of `op` at another buffer.
void useBuffer(SamplePlan &s, const char *op, size_t index, const char *name) {
  decode(s, op).operands[index] =
      fb::Operand(fb::OperandKind::Buffer, bufferIndex(s, name));
}
void useWeight(SamplePlan &s, const char *op, size_t index, const char *name) {
  auto &weights = s.builder.plan.weights;
  for (uint32_t i = 0; i < weights.size(); ++i)
    if (weights[i]->name == name)
      decode(s, op).operands[index] = fb::Operand(fb::OperandKind::Weight, i);
}
void useKernel(SamplePlan &s, const char *op, size_t index, const char *name) {
  decode(s, op).kernels[index] = s.builder.kernel(name);
}

const Case shapeCases[] = {
    {"EmbedTable", "the table's row count is 39, but the vocabulary is 40",
     [](auto &s) { weight(s, "embed").rows = 39; }},
    {"EmbedLayout", "operand table has layout rows16, expected gguf",
     [](auto &s) { packRows(weight(s, "embed")); }},
    {"EmbedColumns", "the table has the columns that are read",
     [](auto &s) { decode(s, "embed").ints[0] = 1; }},
    {"EmbedBegin", "begin = -1",
     [](auto &s) { decode(s, "embed").ints[0] = -1; }},
    {"RopeTable",
     "operand out has 1 rows of 4 elements per token, expected 1 "
     "of 6",
     [](auto &s) { s.builder.plan.constants[0]->values.push_back(1); }},
    {"RopeTableEmpty", "expected 1 of 0",
     [](auto &s) { s.builder.plan.constants[0]->values.clear(); }},
    {"NormGroups", "groups divide the columns of x",
     [](auto &s) { decode(s, "rms_norm").ints[0] = 3; }},
    {"NormGroupsZero", "groups = 0",
     [](auto &s) { decode(s, "rms_norm").ints[0] = 0; }},
    {"NormGroupsHuge", "groups = 9223372036854775807",
     [](auto &s) { decode(s, "rms_norm").ints[0] = INT64_MAX; }},
    {"NormWeight", "operand weight is 1 x 8, expected 1 x 32",
     [](auto &s) { useWeight(s, "rms_norm", 1, "kv_norm"); }},
    {"NormWeightFormat", "operand weight has format F16, expected F32",
     [](auto &s) {
       weight(s, "attn_norm").format = uint8_t(moek::Format::F16);
     }},
    {"NormEps", "eps is not negative",
     [](auto &s) { decode(s, "rms_norm").floats[0] = -1; }},
    {"FloatRange", "eps = 1e+300, too large",
     [](auto &s) { decode(s, "rms_norm").floats[0] = 1e300; }},
    {"QuantizeEncoding", "operand out has encoding F32, expected A8 or A8K",
     [](auto &s) { buffer(s, "n8").encoding = uint8_t(moek::Encoding::F32); }},
    {"LinearIn",
     "operand act has 1 rows of 12 elements per token, expected 1 "
     "of 32",
     [](auto &s) {
       useWeight(s, "linear", 1, "dense_gate"), useBuffer(s, "linear", 0, "v"),
           useBuffer(s, "linear", 3, "gate");
     }},
    {"LinearOut",
     "operand out has 1 rows of 16 elements per token, expected "
     "1 of 12",
     [](auto &s) { useWeight(s, "linear", 1, "wkv"); }},
    {"LinearBias", "operand bias is 1 x 4, expected 1 x 16",
     [](auto &s) { useWeight(s, "linear", 2, "router_bias"); }},
    {"LinearManyMatrices", "operand w is 4 matrices, expected one",
     [](auto &s) { useWeight(s, "linear", 1, "gate"); }},
    {"LinearAccumulate", "accumulate = 2",
     [](auto &s) { decode(s, "linear").ints[0] = 2; }},
    {"LinearTokens", "operand act has encoding I32, expected F32 or A8",
     [](auto &s) { useBuffer(s, "linear", 0, "tokens"); }},
    {"GateUpRows", "up's row count is 24, but gate's is 16",
     [](auto &s) { useWeight(s, "gate_up", 2, "dense_up"); }},
    {"ActivationMul", "operand up has 1 rows of 16 elements per token",
     [](auto &s) { useBuffer(s, "activation_mul", 1, "q"); }},
    {"Add", "operand y has 1 rows of 16 elements per token, expected 1 of 32",
     [](auto &s) { useBuffer(s, "add", 1, "q"); }},
    {"RopeHeads",
     "operand x has 1 rows of 16 elements per token, expected 1 "
     "of 24",
     [](auto &s) { decode(s, "rope").ints[0] = 3; }},
    {"RopeOffset", "offset = 5, expected 0 to 4",
     [](auto &s) { decode(s, "rope").ints[2] = 5; }},
    {"RopeOdd", "the rotated part has an even size",
     [](auto &s) { decode(s, "rope").ints[3] = 3; }},
    {"RopeDim", "offset = 4, expected 0 to 0",
     [](auto &s) { decode(s, "rope").ints[3] = 16; }},
    {"MlaLatentWidth", "expected 1 of 13",
     [](auto &s) { decode(s, "mla_latent").ints[0] = 9; }},
    {"MlaLatentCache", "the cache's width is 11, but latent + rope is 12",
     [](auto &s) { s.builder.plan.kv[0]->width = 11; }},
    {"AbsorbHeads", "the key weight's head count is 4, but heads is 2",
     [](auto &s) { useWeight(s, "absorb_query", 1, "gate"); }},
    {"AbsorbNope", "the key weight's row count is 4, but nope is 6",
     [](auto &s) {
       decode(s, "absorb_query").ints[1] = 6;
       decode(s, "absorb_query").ints[2] = 2;
     }},
    {"AbsorbOverflow", "heads = 2147483647",
     [](auto &s) { decode(s, "absorb_query").ints[0] = INT32_MAX; }},
    {"AttentionOut", "operand out has 1 rows of 12 elements per token",
     [](auto &s) { useBuffer(s, "latent_attention", 2, "v"); }},
    {"AttentionSpans",
     "operand out has 1 rows of 16 elements per token, "
     "expected 2 of 20",
     [](auto &s) { decode(s, "latent_attention").ints[3] = 2; }},
    {"AttentionSplits", "splits = 513, expected 1 to 512",
     [](auto &s) { decode(s, "latent_attention").ints[3] = 513; }},
    {"HeadLinearRows", "the head weight's row count is 6, but rows is 5",
     [](auto &s) { decode(s, "head_linear").ints[1] = 5; }},
    {"HeadLinearTail",
     "operand x has 1 rows of 16 elements per token, expected 1 of 20",
     [](auto &s) { decode(s, "head_linear").ints[3] = 2; }},
    {"RouterTopK", "top_k = 5, expected 1 to 4",
     [](auto &s) { decode(s, "router").ints[1] = 5; }},
    {"RouterGroups", "groups divide the experts",
     [](auto &s) { decode(s, "router").ints[2] = 3; }},
    {"RouterGroupsUsed", "the groups used hold top_k experts",
     [](auto &s) { decode(s, "router").ints[2] = 4; }},
    {"RouterGroupBest", "a group has at least group_best experts",
     [](auto &s) {
       fb::InstructionT &router = decode(s, "router");
       router.ints[2] = router.ints[3] = 4;
       router.ints[4] = 2;
     }},
    {"RouterScoring", "scoring = 6",
     [](auto &s) { decode(s, "router").ints[5] = 6; }},
    {"RouterIds", "operand ids has encoding F32, expected I32",
     [](auto &s) { useBuffer(s, "router", 3, "s"); }},
    {"GroupTopK",
     "operand ids has 1 rows of 2 elements per token, expected 1 of 1",
     [](auto &s) { decode(s, "expert_group").ints[1] = 1; }},
    {"GroupOffsets", "operand offsets has 4 fixed elements, expected 5",
     [](auto &s) { buffer(s, "offsets").cols = 4; }},
    {"GroupSlots", "operand slots has 1 rows of 1 elements per token",
     [](auto &s) { buffer(s, "slots").rows_per_token = 1; }},
    {"ExpertsOut",
     "operand out has 2 rows of 32 elements per token, expected "
     "2 of 16",
     [](auto &s) { useBuffer(s, "experts_gate_up", 7, "y"); }},
    {"ExpertsAct", "expected 1 of 16",
     [](auto &s) { decode(s, "experts_linear").ints[1] = 1; }},
    {"CombineWeights",
     "operand weights has 1 rows of 2 elements per token, "
     "expected 1 of 1",
     [](auto &s) {
       decode(s, "experts_combine").ints[0] = 1;
       useBuffer(s, "experts_combine", 0, "d");
     }},
    {"DamagedNorm",
     "weight \"attn_norm\" holds nan at index 0; the model "
     "file is damaged",
     [](auto &s) {
       // The bytes of this weight become those of the NaN vector at the end of
       // the file.
       std::vector<float> nan(SamplePlan::kHidden, NAN);
       s.builder.weight("nan", {1, 1, SamplePlan::kHidden}, nan);
       weight(s, "attn_norm").offset = weight(s, "nan").offset;
     }},
};

const Case kernelCases[] = {
    {"DriverOfAnotherOp", "kernel \"add_ref\" is not a kernel of linear",
     [](auto &s) { useKernel(s, "linear", 0, "add_ref"); }},
    {"GemmAsDriver", "kernel \"gemm_f32_ref\" is not a kernel of add",
     [](auto &s) { useKernel(s, "add", 0, "gemm_f32_ref"); }},
    {"DriverAsGemm", "kernel \"add_ref\" does not multiply",
     [](auto &s) { useKernel(s, "linear", 1, "add_ref"); }},
    {"GemmOfAnotherFormat",
     "kernel gemm_f16_ref reads F16, but operand w has "
     "format F32",
     [](auto &s) { useKernel(s, "linear", 1, "gemm_f16_ref"); }},
    {"GemmOfAnotherLayout",
     "kernel gemm_q8_0_avx2 reads layout gguf, but operand w has layout rows16",
     [](auto &s) {
       packRows(weight(s, "wq"));
       useKernel(s, "linear", 1, "gemm_q8_0_avx2");
     }},
    {"GemmOfPackedRows",
     "kernel gemm_q8_0_rows16_avx512 reads layout rows16, but operand w has "
     "layout gguf",
     [](auto &s) {
       weight(s, "wq").format = uint8_t(moek::Format::Q8_0);
       useKernel(s, "linear", 1, "gemm_q8_0_rows16_avx512");
     }},
    {"GemmOfAnotherEncoding",
     "takes F32 activations, but operand act has "
     "encoding A8",
     [](auto &s) { useBuffer(s, "gate_up", 0, "n8"); }},
    {"KernelCount", "names 1 kernels, expected 2",
     [](auto &s) { decode(s, "linear").kernels.pop_back(); }},
    {"CopyShape", "a copy has the same shape as its source",
     [](auto &s) {
       useBuffer(s, "add", 1, "q");
       fb::InstructionT &add = decode(s, "add");
       add.op = uint8_t(moek::OpCode::Copy);
       add.operands.erase(add.operands.begin());
       useKernel(s, "copy", 0, "copy_ref");
     }},
};

/// Errors that only a device can detect.
const Case deviceCases[] = {
    {"Scratch",
     "bytes of scratch memory per worker, the plan gives 100: it was compiled "
     "for other kernels; compile the model again",
     [](auto &s) { s.builder.plan.devices[0]->scratch_bytes = 100; }},
    {"CudaKernel", "kernel add_cuda needs cuda",
     [](auto &s) { useKernel(s, "add", 0, "add_cuda"); }},
};

const Case flowCases[] = {
    {"ReadBeforeWrite",
     "instruction 2 (rms_norm): reads buffer \"d\" as x, "
     "which nothing wrote before",
     [](auto &s) { useBuffer(s, "rms_norm", 0, "d"); }},
    {"OverwrittenSince", "which nothing wrote before or which was overwritten",
     [](auto &s) {
       // The rotary table overlaps the residual stream.
       buffer(s, "table").offset = buffer(s, "h").offset;
     }},
    {"OutputNotWritten", "no instruction writes its output",
     [](auto &s) {
       s.phase("decode").output = bufferIndex(s, "d"),
       s.phase("decode").instructions.resize(3);
     }},
    {"OverlapWithin",
     "operands act (buffer \"n\") and out (buffer \"q\") "
     "overlap",
     [](auto &s) { buffer(s, "q").offset = buffer(s, "n").offset; }},
    {"PartialOverlapInPlace", "overlap",
     [](auto &s) { buffer(s, "n").offset = buffer(s, "h").offset + 64; }},
    {"NoBarrier",
     "reads buffer \"n\", which instruction 2 writes with no "
     "barrier between them",
     [](auto &s) {
       auto &list = s.phase("decode").instructions;
       list[3]->barrier = list[4]->barrier = false;
     }},
    {"NoBarrierBetweenWrites",
     "writes buffer \"q\", which instruction 3 writes with no barrier",
     [](auto &s) {
       buffer(s, "q").offset = buffer(s, "n8").offset;
       s.phase("decode").instructions[4]->barrier = false;
     }},
    {"NoBarrierBeforeOverwrite",
     "writes buffer \"latent\", which instruction 5 reads with no barrier",
     [](auto &s) {
       buffer(s, "latent").offset = buffer(s, "table").offset;
       s.phase("decode").instructions[6]->barrier = false;
     }},
    {"NoBarrierForCache", "reads cache 0, which instruction",
     [](auto &s) {
       auto &list = s.phase("decode").instructions;
       for (size_t i = 8; i < 10; ++i)
         list[i]->barrier = false;
       // The order was: absorb, mla_latent, attention.
       std::swap(list[7], list[8]);
       list[8]->barrier = true;
     }},
    {"SharedBesideOwn",
     "writes buffer \"weights\", of which each worker has "
     "its own, and buffer \"ids\", which all share",
     [](auto &s) { s.makePerWorker("decode", "weights"); }},
    {"TokensNotTheInput", "operand tokens is not the phase's input",
     [](auto &s) {
       // Routed slots, which happen to have the same shape, would index the
       // table.
       auto &phase = s.phase("decode");
       auto again = std::make_unique<fb::InstructionT>(*phase.instructions[0]);
       buffer(s, "offsets").fixed_rows = 5;
       buffer(s, "offsets").cols = 1;
       buffer(s, "offsets").rows_per_token = 1;
       s.builder.plan.devices[0]->arena_bytes += 1 << 16;
       buffer(s, "offsets").offset =
           s.builder.plan.devices[0]->arena_bytes - (1 << 16);
       buffer(s, "offsets").offset &= ~uint64_t(63);
       again->operands[0] =
           fb::Operand(fb::OperandKind::Buffer, bufferIndex(s, "offsets"));
       phase.instructions.push_back(std::move(again));
     }},
    {"IdsNotFromARouter", "operand ids does not hold a router's choice",
     [](auto &s) {
       decode(s, "expert_group").ints[0] = 3;
       buffer(s, "offsets").cols = 5;
     }},
    {"GroupsOfOtherExperts", "groups 2 of 4 experts, but takes 2 of 2",
     [](auto &s) {
       for (const char *name : {"gate", "up", "down"})
         weight(s, name).outer = 2;
     }},
    {"OffsetsAndSlotsApart", "do not come from one expert_group",
     [](auto &s) {
       // Two groupings; the second one has its own offsets.
       auto &phase = s.phase("decode");
       auto other = std::make_unique<fb::BufferT>(
           *phase.buffers[bufferIndex(s, "offsets")]);
       auto &arena = s.builder.plan.devices[0]->arena_bytes;
       other->name = "other";
       other->offset = arena;
       arena += 64;
       phase.buffers.push_back(std::move(other));
       size_t at = s.find("decode", "expert_group");
       auto second =
           std::make_unique<fb::InstructionT>(*phase.instructions[at]);
       second->operands[1] =
           fb::Operand(fb::OperandKind::Buffer, bufferIndex(s, "other"));
       phase.instructions.insert(phase.instructions.begin() + long(at) + 1,
                                 std::move(second));
     }},
    {"SlotsOverwritten", "reads buffer \"slots\" as slots, which",
     [](auto &s) {
       auto &list = s.phase("decode").instructions;
       buffer(s, "n8").offset = buffer(s, "slots").offset;
       auto quantize =
           std::make_unique<fb::InstructionT>(decode(s, "quantize"));
       list.insert(list.begin() + long(s.find("decode", "experts_linear")),
                   std::move(quantize));
     }},
};

class DamageTest : public ::testing::TestWithParam<Case> {
protected:
  static void damage(SamplePlan &sample) {
    GetParam().damage(sample);
    // Otherwise loading would refuse an instruction whose recorded work reads
    // more of a weight than there is.
    for (auto &phase : sample.builder.plan.phases)
      for (auto &instruction : phase->instructions)
        instruction->work = nullptr;
  }
};

class BindTest : public DamageTest {};

TEST_P(BindTest, IsRefusedBeforeItRuns) {
  TempDir folder;
  SamplePlan sample;
  damage(sample);
  EngineOptions options;
  options.threads = 1;
  auto engine = Engine::open(sample.builder.write(folder), options);
  ASSERT_FALSE(engine.isOk());
  EXPECT_NE(engine.status().message().find(GetParam().message),
            std::string::npos)
      << "got:      " << engine.status().message()
      << "\nexpected: " << GetParam().message;
}

std::string caseName(const ::testing::TestParamInfo<Case> &info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Devices, BindTest, ::testing::ValuesIn(deviceCases),
                         caseName);

/// Proves the sample's plan without a device.
Status prove(const std::string &path) {
  MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(path));
  MOE_ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::open(plan, {}));
  return provePlan(plan, files).status();
}
Status prove(SamplePlan &sample) {
  TempDir folder;
  return prove(sample.builder.write(folder));
}

/// Returns what creating devices says of the plan, with a fake device.
Status bringToFake(const std::string &path, moetest::DeviceLog &log) {
  MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(path));
  MOE_ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::open(plan, {}));
  DeviceList devices;
  devices.push_back(std::make_unique<moetest::FakeDevice>(plan, 0, log));
  return Devices::create(plan, files, std::move(devices)).status();
}

class ProofTest : public DamageTest {};

// The plan is refused before a device is asked for anything.
TEST_P(ProofTest, MessageDoesNotDependOnTheDevice) {
  TempDir folder;
  SamplePlan sample;
  damage(sample);
  std::string path = sample.builder.write(folder);
  std::string message = prove(path).message();
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  EngineOptions options;
  options.threads = 1;
  EXPECT_EQ(Engine::open(path, options).status().message(), message);

  moetest::DeviceLog log;
  EXPECT_EQ(bringToFake(path, log).message(), message);
  sample.builder.plan.devices[0]->kind = fb::DeviceKind::Cuda;
  sample.builder.plan.devices[0]->isa = "cuda";
  EXPECT_EQ(bringToFake(sample.builder.write(folder), log).message(), message);
  EXPECT_TRUE(log.take().empty());
}
INSTANTIATE_TEST_SUITE_P(Shapes, ProofTest, ::testing::ValuesIn(shapeCases),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Kernels, ProofTest, ::testing::ValuesIn(kernelCases),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Flow, ProofTest, ::testing::ValuesIn(flowCases),
                         caseName);

// The proof needs neither kernels that this CPU has nor a device's scratch.
TEST(ProofTest, NeedsNoDevice) {
  SamplePlan sample;
  for (auto &kernel : sample.builder.plan.kernels)
    if (size_t end = kernel.rfind("_ref"); kernel != "quantize_ref")
      kernel.replace(end, 4, "_cuda");
  sample.builder.plan.devices[0]->scratch_bytes = 0;
  Status status = prove(sample);
  EXPECT_TRUE(status.isOk()) << status.message();
  useBuffer(sample, "add", 1, "q");
  EXPECT_EQ(prove(sample).code(), StatusCode::InvalidFile);
}

// Memory is reused where lifetimes allow, and aliases are the same buffer.
TEST(DataflowTest, ReuseAndAliasesAreAllowed) {
  TempDir folder;
  SamplePlan sample;
  // The dense FFN's buffers are not used any more when the experts run.
  buffer(sample, "s").offset = buffer(sample, "gate").offset;
  // The values are the same, seen as two rows of 16 instead of one of 32.
  auto &phase = sample.phase("decode");
  auto alias = std::make_unique<fb::BufferT>(buffer(sample, "n"));
  alias->name = "alias";
  alias->cols = 16;
  alias->rows_per_token = 2;
  phase.buffers.push_back(std::move(alias));
  useBuffer(sample, "experts_gate_up", 0, "alias");
  // Two readers of one buffer need no barrier between them.
  size_t up = sample.find("decode", "activation_mul") - 1;
  phase.instructions[up]->barrier = false;
  EngineOptions options;
  options.threads = 1;
  auto engine = Engine::open(sample.builder.write(folder), options);
  EXPECT_TRUE(engine.isOk()) << engine.status().message();
}

} // namespace
