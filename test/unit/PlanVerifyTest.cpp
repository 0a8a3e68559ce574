// Every number in a plan is checked before it is used: each case damages one
// field, which the message must name.
#include "kernels/Layout.h"
#include "runtime/engine/Engine.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/PlanChecksum.h"
#include "runtime/schema/PlanFields.h"
#include "test/support/SamplePlan.h"

#include <array>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <set>

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

fb::PlanT &plan(SamplePlan &s) { return s.builder.plan; }
fb::InstructionT &decode(SamplePlan &s, const char *op) {
  return *s.phase("decode").instructions[s.find("decode", op)];
}
/// Sets the work of an instruction in decode: {token_ops, seen_ops, row_ops,
/// first_bytes, again}.
void setWork(SamplePlan &s, const char *op, std::array<double, 5> w) {
  decode(s, op).work = std::make_unique<fb::Work>(w[0], w[1], w[2], w[3], w[4]);
}
fb::BufferT &buffer(SamplePlan &s, const char *name) {
  for (auto &candidate : s.phase("decode").buffers)
    if (candidate->name == name)
      return *candidate;
  throw std::logic_error(name);
}
fb::WeightT &weight(SamplePlan &s, const char *name) {
  for (auto &candidate : plan(s).weights)
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
void setOperand(fb::InstructionT &instruction, size_t index,
                fb::OperandKind kind, uint32_t value) {
  instruction.operands[index] = fb::Operand(kind, value);
}

std::vector<std::unique_ptr<fb::InstructionT>> &list(SamplePlan &s) {
  return s.phase("decode").instructions;
}
/// Adds a GPU without instructions; returns its queue, which is followed by the
/// one for copies.
uint32_t addGpu(SamplePlan &s) {
  auto gpu = std::make_unique<fb::DeviceT>();
  gpu->name = "gpu0";
  gpu->kind = fb::DeviceKind::Cuda;
  gpu->isa = "cuda";
  gpu->arch = 89;
  plan(s).devices.push_back(std::move(gpu));
  for (auto kind : {fb::QueueKind::Compute, fb::QueueKind::Copy}) {
    plan(s).queues.push_back(std::make_unique<fb::QueueT>());
    plan(s).queues.back()->device = 1;
    plan(s).queues.back()->kind = kind;
  }
  return 1;
}
fb::ImageT &addImage(fb::ModuleT &module, int arch) {
  auto image = std::make_unique<fb::ImageT>();
  image->arch = arch;
  image->cubin = {1, 2, 3};
  image->ptx = ".version 9.0";
  module.images.push_back(std::move(image));
  return *module.images.back();
}
fb::ModuleT &addModule(SamplePlan &s) {
  addGpu(s);
  auto module = std::make_unique<fb::ModuleT>();
  module->entry = "add";
  module->file = "kernels/cuda/Pair.cu";
  addImage(*module, 89);
  plan(s).modules.push_back(std::move(module));
  return *plan(s).modules.back();
}
/// Adds an instruction on a GPU whose operands are on the CPU.
void addLaunch(SamplePlan &s, fb::Launch launch) {
  addModule(s);
  decode(s, "add").queue = 1;
  decode(s, "add").launches.push_back(launch);
}

void resident(SamplePlan &s, uint32_t weight, uint32_t device, int mode = 0) {
  plan(s).residency[0] = fb::Residency(weight, device, fb::ResidencyMode(mode));
}

constexpr int64_t huge = std::numeric_limits<int64_t>::max();

const Case tableCases[] = {
    {"Hidden", "the hidden size is 0", [](auto &s) { plan(s).hidden = 0; }},
    {"Vocab", "the vocabulary size is -1", [](auto &s) { plan(s).vocab = -1; }},
    {"Context", "the context is 0", [](auto &s) { plan(s).context = 0; }},
    {"NoSequences", "the number of sequences is 0, expected 1 to 64",
     [](auto &s) { plan(s).sequences = 0; }},
    {"Sequences", "the number of sequences is 65, expected 1 to 64",
     [](auto &s) { plan(s).sequences = 65; }},
    {"ExpertsUsed", "the number of experts used is 5",
     [](auto &s) { plan(s).experts_used = 5; }},
    {"WeightFile", "has file 1 of 1",
     [](auto &s) { weight(s, "wq").file = 1; }},
    {"WeightFormat", "unknown format 200",
     [](auto &s) { weight(s, "wq").format = 200; }},
    {"WeightFormatWithoutKernels", "format Q8_1, for which there are no",
     [](auto &s) { weight(s, "wq").format = 9; }},
    {"WeightLayout", "unknown layout 9",
     [](auto &s) { weight(s, "wq").layout = 9; }},
    {"WeightLayoutFormat", "layout rows16, which rows of 32 F32 elements lack",
     [](auto &s) { weight(s, "wq").layout = 1; }},
    {"WeightLayoutRowStride",
     "has row stride 36, but rows of 34 bytes in layout rows16",
     [](auto &s) {
       packRows(weight(s, "wq")), weight(s, "wq").row_stride = 36;
     }},
    {"WeightLayoutOuterStride", "outer stride 578, less than 32 rows",
     [](auto &s) {
       weight(s, "gate").rows = 17;
       packRows(weight(s, "gate"));
       weight(s, "gate").outer_stride = 17 * 34;
     }},
    // The last panel takes the room of 16 rows, even if it has fewer.
    {"WeightLayoutEnd", "ends beyond its file",
     [](auto &s) {
       packRows(weight(s, "out"));
       weight(s, "out").offset = s.builder.weightBytes().size() - 40 * 34;
     }},
    {"WeightBlock", "has 32 columns, not a multiple of Q4_K's block of 256",
     [](auto &s) { weight(s, "wq").format = 12; }},
    {"WeightRows", "rows is 0", [](auto &s) { weight(s, "wq").rows = 0; }},
    {"WeightCols", "cols is 9223372036854775807",
     [](auto &s) { weight(s, "wq").cols = huge; }},
    {"WeightOuter", "outer is -3",
     [](auto &s) { weight(s, "gate").outer = -3; }},
    {"WeightRowStride", "row stride 124, less than a row of 128",
     [](auto &s) { weight(s, "wq").row_stride = 124; }},
    {"WeightOuterStride", "outer stride 2000, less than 16 rows",
     [](auto &s) { weight(s, "gate").outer_stride = 2000; }},
    {"WeightStrideOverflow", "outer stride",
     [](auto &s) { weight(s, "wq").row_stride = huge; }},
    {"WeightOffset", "ends beyond its file",
     [](auto &s) { weight(s, "wq").offset = UINT64_MAX - 3; }},
    {"WeightEnd", "ends beyond its file",
     [](auto &s) { weight(s, "wq").rows = 10000; }},
    {"WeightAlignment", "F32 needs multiples of 4",
     [](auto &s) { weight(s, "wq").offset += 2; }},
    {"ConstantNaN", "value nan at index 1",
     [](auto &s) { plan(s).constants[0]->values[1] = NAN; }},
    {"NoDevices", "has no devices", [](auto &s) { plan(s).devices.clear(); }},
    {"DeviceKind", "has kind 7",
     [](auto &s) { plan(s).devices[0]->kind = fb::DeviceKind(7); }},
    {"DeviceIsa", "has ISA \"mmx\", which no CPU has",
     [](auto &s) { plan(s).devices[0]->isa = "mmx"; }},
    {"DeviceArena", "more than any memory",
     [](auto &s) { plan(s).devices[0]->arena_bytes = UINT64_MAX; }},
    {"DeviceSharesItsOwnMemory", "is a CPU and shares the CPU's memory",
     [](auto &s) { plan(s).devices[0]->shares_memory = true; }},
    {"DeviceCores", "cores is 0",
     [](auto &s) { plan(s).devices[0]->cores = 0; }},
    {"QueueDevice", "queue 0: has device 7 of 1",
     [](auto &s) { plan(s).queues[0]->device = 7; }},
    {"QueueKind", "queue 0: has kind 2",
     [](auto &s) { plan(s).queues[0]->kind = fb::QueueKind(2); }},
    {"QueueOfCopies", "copies on a CPU",
     [](auto &s) { plan(s).queues[0]->kind = fb::QueueKind::Copy; }},
    {"QueueTwice", "queue 1: is the second of its kind on device 0",
     [](auto &s) { plan(s).queues.push_back(std::make_unique<fb::QueueT>()); }},
    {"ModuleEntry", "module 0 \"\": has an empty name",
     [](auto &s) { addModule(s).entry.clear(); }},
    {"ModuleFile", "module 0 \"add\": has an empty name",
     [](auto &s) { addModule(s).file.clear(); }},
    {"ModuleCode", "module 0 \"add\": has no code",
     [](auto &s) { addModule(s).images.clear(); }},
    {"ModuleForNewerGpus",
     "has code for sm_90 and later, but \"gpu0\" is sm_89",
     [](auto &s) { addModule(s).images[0]->arch = 90; }},
    {"ImageOrder", "arch is 89, expected 90 to",
     [](auto &s) { addImage(addModule(s), 89); }},
    {"ImageArch", "arch is -1, expected 1 to",
     [](auto &s) { addModule(s).images[0]->arch = -1; }},
    {"ImageCubin", "has no code for sm_89",
     [](auto &s) { addModule(s).images[0]->cubin.clear(); }},
    {"ImagePtx", "has no code for sm_89",
     [](auto &s) { addModule(s).images[0]->ptx.clear(); }},
    {"ImagePtxText", "has PTX with a NUL byte",
     [](auto &s) { addModule(s).images[0]->ptx += '\0'; }},
    {"ImageRegisters", "registers is -1, expected 0 to",
     [](auto &s) { addModule(s).images[0]->registers = -1; }},
    {"ImageShared", "shared bytes is -1, expected 0 to",
     [](auto &s) { addModule(s).images[0]->shared_bytes = -1; }},
    {"DeviceMultiprocessors", "multiprocessors is 4, expected 0 to 0",
     [](auto &s) { plan(s).devices[0]->multiprocessors = 4; }},
    {"DeviceWorkspace", "more than any memory",
     [](auto &s) { plan(s).devices[0]->workspace_bytes = UINT64_MAX; }},
    {"ResidencyWeight", "residency 0: has weight 99 of",
     [](auto &s) { resident(s, 99, 0); }},
    {"ResidencyDevice", "has device 5 of 1",
     [](auto &s) { resident(s, 0, 5); }},
    {"ResidencyMode", "residency 0: has mode 4",
     [](auto &s) { resident(s, 0, 0, 4); }},
    {"ResidencyStreamed", "residency 0 streams to a CPU",
     [](auto &s) { resident(s, 0, 0, 1); }},
    {"ResidencyPinned", "residency 0 streams to a CPU",
     [](auto &s) { resident(s, 0, 0, 3); }},
    {"ResidencyTwice", "weight 0 is on device 0 twice",
     [](auto &s) { plan(s).residency[1] = plan(s).residency[0]; }},
    {"KvDevice", "has device 4 of 1",
     [](auto &s) { plan(s).kv[0]->device = 4; }},
    {"ExplainedLayer", "layer is 99, expected -1 to 0",
     [](auto &s) { plan(s).explanation[0]->layer = 99; }},
    {"ExplainedLayerNegative", "layer is -2",
     [](auto &s) { plan(s).explanation[0]->layer = -2; }},
    {"KvType", "unknown type 4", [](auto &s) { plan(s).kv[0]->type = 4; }},
    {"KvWidth", "width is 0", [](auto &s) { plan(s).kv[0]->width = 0; }},
    {"KvCapacity",
     "capacity 96, expected a multiple of 64 that holds the plan's context of "
     "24",
     [](auto &s) { plan(s).kv[0]->capacity = 96; }},
    {"KvContext",
     "capacity 64, expected a multiple of 64 that holds the plan's context of "
     "65",
     [](auto &s) { plan(s).context = 65; }},
    {"KvLeastCapacity", "capacity 0, expected a multiple of 64",
     [](auto &s) { plan(s).kv[0]->capacity = 0; }},
    {"KvMostCapacity", "expected a multiple of 64",
     [](auto &s) { plan(s).kv[0]->capacity = int64_t(1) << 31; }},
    {"KvCapacities", "capacity 128, but cache 0 has 64",
     [](auto &s) {
       s.builder.kv(12);
       plan(s).kv[1]->capacity = 128;
     }},
    {"KvLayer", "layer is 1", [](auto &s) { plan(s).kv[0]->layer = 1; }},
    {"KvEnd", "ends beyond the device's",
     [](auto &s) { plan(s).kv[0]->offset = 64; }},
    {"KvAlignment", "not a multiple of 64",
     [](auto &s) { plan(s).kv[0]->offset = 8; }},
    {"KvOverlap", "caches 0 and 1 overlap",
     [](auto &s) {
       s.builder.kv(12);
       plan(s).kv[1]->offset = 64;
     }},
    {"KernelName", "kernel \"linear_mmx\" is unknown to this moert",
     [](auto &s) { plan(s).kernels[0] = "linear_mmx"; }},
    {"TokenCount", "has 41 tokens, but the model's vocabulary has 40",
     [](auto &s) {
       s.addTokenizer();
       plan(s).tokenizer->tokens.push_back("x");
       plan(s).tokenizer->types.push_back(1);
     }},
    {"TokenTypes", "has 39 token types for 40 tokens",
     [](auto &s) {
       s.addTokenizer();
       plan(s).tokenizer->types.pop_back();
     }},
    {"Bos", "has BOS token 40, expected -1 to 39",
     [](auto &s) {
       s.addTokenizer();
       plan(s).tokenizer->bos = 40;
     }},
    {"Eos", "has EOS token -2",
     [](auto &s) {
       s.addTokenizer();
       plan(s).tokenizer->eos = -2;
     }},
};

const Case phaseCases[] = {
    {"PhaseName", "is named \"dream\"",
     [](auto &s) { s.phase("decode").name = "dream"; }},
    {"PhaseTwice", "two phases named decode",
     [](auto &s) { s.phase("prefill").name = "decode"; }},
    {"PhaseMissing", "there is no phase named logits",
     [](auto &s) { plan(s).phases.pop_back(); }},
    {"PhaseStreamedAlone", "expected one more than the most of phase prefill",
     [](auto &s) { s.phase("prefill").name = "streamed_prefill"; }},
    {"PhaseTokens", "takes 1 to 0 tokens",
     [](auto &s) { s.phase("decode").max_tokens = 0; }},
    {"PhaseMinimum", "takes at least 2 tokens, expected 1",
     [](auto &s) { s.phase("logits").min_tokens = 2; }},
    {"BatchMissing", "is for 3 sequences, but there is no phase named batch",
     [](auto &s) { plan(s).sequences = 3; }},
    {"BatchMinimum", "takes at least 3 tokens, expected 2",
     [](auto &s) {
       s.addSequences(3);
       s.phase("batch").min_tokens = 3;
     }},
    {"BatchTokens", "takes at most 2 tokens, but the plan is for 3 sequences",
     [](auto &s) {
       s.addSequences(3);
       s.phase("batch").min_tokens = s.phase("batch").max_tokens = 2;
     }},
    {"PhaseTokensBeyondArena", "ends beyond the device's arena",
     [](auto &s) { s.phase("prefill").max_tokens = 4096; }},
    {"PhaseInput", "input buffer 99",
     [](auto &s) { s.phase("decode").input = 99; }},
    {"PhaseInputKind", "has an input of encoding 0",
     [](auto &s) { s.phase("decode").input = s.phase("decode").output; }},
    {"PhaseOutputWidth", "has an output of encoding 0 with 8 elements",
     [](auto &s) {
       auto &phase = s.phase("decode");
       for (uint32_t i = 0; i < phase.buffers.size(); ++i)
         if (phase.buffers[i]->name == "q")
           phase.output = i;
       plan(s).hidden = 32;
       buffer(s, "q").cols = 8;
     }},
    {"BufferDevice", "has device 1 of 1",
     [](auto &s) { buffer(s, "q").device = 1; }},
    {"BufferEncoding", "unknown encoding 4",
     [](auto &s) { buffer(s, "q").encoding = 4; }},
    {"BufferCols", "has 0 columns", [](auto &s) { buffer(s, "q").cols = 0; }},
    {"BufferColsHuge", "columns", [](auto &s) { buffer(s, "q").cols = huge; }},
    {"BufferA8Cols", "not a multiple of 32",
     [](auto &s) { buffer(s, "n8").cols = 33; }},
    {"BufferRows", "has -1 rows per token",
     [](auto &s) { buffer(s, "q").rows_per_token = -1; }},
    {"BufferRowsHuge", "makes no buffer",
     [](auto &s) { buffer(s, "q").rows_per_token = huge; }},
    {"BufferAlignment", "not a multiple of 64",
     [](auto &s) { buffer(s, "q").offset += 4; }},
    {"BufferEnd", "ends beyond the device's arena",
     [](auto &s) { buffer(s, "q").offset = uint64_t(1) << 40; }},
    {"BufferOverflow", "ends beyond the device's arena",
     [](auto &s) { buffer(s, "q").offset = UINT64_MAX - 63; }},
    {"BufferPerWorkerEnd",
     "ends beyond the device's arena of 64 bytes per "
     "worker",
     [](auto &s) {
       s.builder.plan.devices[0]->worker_bytes = 64;
       buffer(s, "q").per_worker = true;
     }},
    {"OutputPerWorker", "has an output in per-worker memory",
     [](auto &s) {
       s.builder.plan.devices[0]->worker_bytes = 1 << 20;
       buffer(s, "h").per_worker = true;
     }},
    {"HiddenOutsideDraft", "has buffer 0 of",
     [](auto &s) { s.builder.plan.phases[0]->hidden = 0; }},
    {"DraftWithoutPhases", "belong together",
     [](auto &s) { s.builder.plan.mtp_layers = 1; }},
    {"DraftLayers", "the count of MTP layers is 2",
     [](auto &s) { s.builder.plan.mtp_layers = 2; }},
    {"DeviceWorkerBytes", "more than any memory",
     [](auto &s) { s.builder.plan.devices[0]->worker_bytes = UINT64_MAX; }},
    {"OpNumber", "unknown op 200", [](auto &s) { decode(s, "add").op = 200; }},
    {"InstructionQueue", "has queue 3 of 1",
     [](auto &s) { decode(s, "add").queue = 3; }},
    {"InstructionInCopies", "is in a queue of copies",
     [](auto &s) { decode(s, "add").queue = addGpu(s) + 1; }},
    {"InstructionOfAnotherDevice", "operand x is on another device",
     [](auto &s) { decode(s, "add").queue = addGpu(s); }},
    {"WeightElsewhere",
     "operand weight is a weight that device 0 does not have",
     [](auto &s) { plan(s).residency.erase(plan(s).residency.begin() + 1); }},
    {"LaunchModule", "has module 1 of 1",
     [](auto &s) {
       addLaunch(s, {1, 1, 1, 1, 32, 0});
     }},
    {"LaunchNothing", "launches a grid of 1 x 0 x 1 blocks",
     [](auto &s) {
       addLaunch(s, {0, 1, 0, 1, 32, 0});
     }},
    {"LaunchGrid", "launches a grid of 1 x 65536 x 1 blocks",
     [](auto &s) {
       addLaunch(s, {0, 1, 65536, 1, 32, 0});
     }},
    {"LaunchThreads", "launches blocks of 1025 threads",
     [](auto &s) {
       addLaunch(s, {0, 1, 1, 1, 1025, 0});
     }},
    {"LaunchShared", "launches blocks with 232449 bytes of shared memory",
     [](auto &s) {
       addLaunch(s, {0, 1, 1, 1, 32, 227 * 1024 + 1});
     }},
    {"LaunchOnCpu", "launches kernels on \"cpu0\", which is a CPU",
     [](auto &s) {
       addLaunch(s, {0, 1, 1, 1, 32, 0});
       decode(s, "add").queue = 0;
     }},
    // The remaining error is that its operands are on another device.
    {"LaunchAtTheLimits", "operand x is on another device",
     [](auto &s) {
       addLaunch(s, {0, INT32_MAX, 65535, 65535, 1024, 227 * 1024});
     }},
    {"LaunchCount", "launches 4097 kernels, at most 4096 are allowed",
     [](auto &s) {
       addLaunch(s, {0, 1, 1, 1, 32, 0});
       decode(s, "add").launches.resize(4097, decode(s, "add").launches[0]);
     }},
    {"WaitsTooEarly", "waits for event 0, which no instruction before it",
     [](auto &s) { decode(s, "add").waits = {0}; }},
    {"WaitsInDisorder", "waits for event 0 after event 0",
     [](auto &s) {
       addGpu(s);
       list(s)[0]->signal = 0;
       s.phase("decode").events = 1;
       auto copy = std::make_unique<fb::InstructionT>(decode(s, "add"));
       copy->op = uint8_t(moek::OpCode::Copy);
       copy->operands.pop_back();
       copy->queue = 2;
       copy->waits = {0, 0};
       list(s).push_back(std::move(copy));
     }},
    {"WaitsForItself", "waits for event 0 of its own queue",
     [](auto &s) {
       list(s)[0]->signal = 0;
       decode(s, "add").waits = {0};
     }},
    {"SignalsTwice", "signals event 0, but the next one is 1",
     [](auto &s) { list(s)[0]->signal = list(s)[1]->signal = 0; }},
    {"SignalsInDisorder", "signals event 1, but the next one is 0",
     [](auto &s) { list(s)[0]->signal = 1; }},
    {"SignalsNegative", "signals event -2",
     [](auto &s) { list(s)[0]->signal = -2; }},
    {"EventCount", "has 1 events, but 0 are signalled",
     [](auto &s) { s.phase("decode").events = 1; }},
    {"KernelIndex", "has kernels 1000 of",
     [](auto &s) { decode(s, "add").kernels[0] = 1000; }},
    {"OperandCount", "has 2 operands, expected 3",
     [](auto &s) { decode(s, "add").operands.pop_back(); }},
    {"IntCount", "has 0 integers, expected 1",
     [](auto &s) { decode(s, "linear").ints.clear(); }},
    {"FloatCount", "has 2 floats, expected 1",
     [](auto &s) { decode(s, "router").floats.push_back(1); }},
    {"FloatNaN", "has eps = nan",
     [](auto &s) { decode(s, "rms_norm").floats[0] = NAN; }},
    {"WorkOfATokenNegative",
     "has work with token_ops = -1, expected 0 to 1e+18",
     [](auto &s) {
       setWork(s, "add", {-1, 0, 0, 0, 0});
     }},
    {"WorkOfATokenInfinite", "has work with token_ops = inf",
     [](auto &s) {
       setWork(s, "add", {INFINITY, 0, 0, 0, 0});
     }},
    {"WorkOfATokenAbsurd", "has work with token_ops = 2e+18",
     [](auto &s) {
       setWork(s, "add", {2e18, 0, 0, 0, 0});
     }},
    {"WorkOfPairsNegative", "has work with seen_ops = -1",
     [](auto &s) {
       setWork(s, "add", {0, -1, 0, 0, 0});
     }},
    {"WorkOfRowsNaN", "has work with row_ops = nan",
     [](auto &s) {
       setWork(s, "add", {0, 0, NAN, 0, 0});
     }},
    {"WorkWithoutWeights", "has work with first_bytes = 1, expected 0 to 0",
     [](auto &s) {
       setWork(s, "add", {0, 0, 0, 1, 0});
     }},
    {"WorkBeyondItsWeights", "has work with first_bytes = ",
     [](auto &s) {
       double bytes = decode(s, "linear").work->first_bytes();
       setWork(s, "linear", {0, 0, 0, bytes + 1, 0});
     }},
    {"WorkReadTwiceByAToken", "has work with again = 1.5, expected 0 to 1",
     [](auto &s) {
       setWork(s, "add", {0, 0, 0, 0, 1.5});
     }},
    {"OperandKindNumber", "operand x: has kind 9, expected 0 to 4",
     [](auto &s) { setOperand(decode(s, "add"), 0, fb::OperandKind(9), 0); }},
    {"OperandKindWrong", "operand w is a Buffer, expected a Weight",
     [](auto &s) {
       setOperand(decode(s, "linear"), 1, fb::OperandKind::Buffer, 0);
     }},
    {"OperandMissing", "operand x is a None, expected a Buffer",
     [](auto &s) {
       setOperand(decode(s, "add"), 0, fb::OperandKind::None, 0);
     }},
    {"OperandBuffer", "operand x is Buffer 77",
     [](auto &s) {
       setOperand(decode(s, "add"), 0, fb::OperandKind::Buffer, 77);
     }},
    {"OperandWeight", "operand w is Weight 4000000000",
     [](auto &s) {
       setOperand(decode(s, "linear"), 1, fb::OperandKind::Weight, 4000000000u);
     }},
    {"OperandKv", "operand kv is Kv 1 of 1",
     [](auto &s) {
       setOperand(decode(s, "mla_latent"), 3, fb::OperandKind::Kv, 1);
     }},
    {"OperandConstant", "operand inv_freq is Constant 1 of 1",
     [](auto &s) {
       setOperand(decode(s, "rope_table"), 0, fb::OperandKind::Constant, 1);
     }},
    {"Explain", "is explained by entry 5 of 1",
     [](auto &s) { decode(s, "add").explain = 5; }},
};

class PlanVerifyTest : public ::testing::TestWithParam<Case> {};

TEST_P(PlanVerifyTest, IsRefusedAtLoad) {
  SamplePlan sample;
  GetParam().damage(sample);
  StatusOr<Plan> plan = Plan::fromBytes(sample.builder.bytes(), "plan.fb");
  ASSERT_FALSE(plan.isOk());
  EXPECT_NE(plan.status().message().find(GetParam().message), std::string::npos)
      << "got:      " << plan.status().message()
      << "\nexpected: " << GetParam().message;
}

std::string caseName(const ::testing::TestParamInfo<Case> &info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Tables, PlanVerifyTest,
                         ::testing::ValuesIn(tableCases), caseName);
INSTANTIATE_TEST_SUITE_P(Phases, PlanVerifyTest,
                         ::testing::ValuesIn(phaseCases), caseName);

template <class T, class Visit>
void visitFields(const T *table, const Visit &visit);
template <class T, class Visit>
void visitFields(const flatbuffers::Vector<flatbuffers::Offset<T>> *tables,
                 const Visit &visit) {
  for (uint32_t i = 0; i < count(tables); ++i)
    visitFields(tables->Get(i), visit);
}
/// Calls `visit(table, field)` for each field of a table and of tables in it.
template <class T, class Visit>
void visitFields(const T *table, const Visit &visit) {
  if constexpr (requires { typename T::NativeTableType; })
    forEachField<T>([&](auto field) {
      visit(*table, field);
      if constexpr (std::is_pointer_v<typename decltype(field)::Type>)
        if (auto inner = field.of(*table))
          visitFields(inner, visit);
    });
}

template <class Field> constexpr bool isIndex() {
  bool result = false;
  forEachField<fb::Plan>(
      [&](auto list) { result |= kIsIndexInto<Field, decltype(list)>; });
  return result;
}

// Fails if fields of some table are not verified, or a kind of field is not.
TEST(PlanFields, AreAllVerified) {
  SamplePlan sample;
  sample.addTokenizer();
  addModule(sample);
  sample.builder.bytes();
  flatbuffers::FlatBufferBuilder builder;
  // Stores fields that have their default value, too.
  builder.ForceDefaults(true);
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &plan(sample)));
  std::vector<uint8_t> bytes(builder.GetBufferPointer(),
                             builder.GetBufferPointer() + builder.GetSize());
  auto verify = [&] {
    setPlanChecksum(bytes);
    return Plan::fromBytes(bytes, "plan.fb").status();
  };
  ASSERT_TRUE(verify().isOk()) << verify().message();
  std::set<std::string> seen;
  visitFields(fb::GetPlan(bytes.data()), [&]<class T, class Field>(
                                             const T &table, Field) {
    using Type = typename Field::Type;
    if constexpr (std::is_same_v<Type, bool> || std::is_enum_v<Type> ||
                  (std::is_same_v<Type, uint32_t> && isIndex<Field>())) {
      auto *stored = const_cast<uint8_t *>(Field::stored(table));
      const std::vector<uint8_t> good(stored, stored + sizeof(Type));
      std::ranges::fill_n(stored, sizeof(Type), 0xff);
      std::string name = fmt::format("{}.{}", T::Traits::name, Field::name);
      EXPECT_NE(verify().message().find(fmt::format("has {} ", Field::name)),
                std::string::npos)
          << name << ": " << verify().message();
      seen.insert(std::move(name));
      std::ranges::copy(good, stored);
    }
  });
  EXPECT_GE(seen.size(), 17u) << fmt::format("{}", fmt::join(seen, " "));
}

} // namespace
