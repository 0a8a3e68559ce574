//===- KernelCompilerTest.cpp - Kernels as machine code, without a GPU ----===//

#include "compiler/Cuda/KernelCompiler.h"

#include "kernels/Abi.h"
#include "kernels/KvCache.h"
#include "kernels/OpKernels.h"
#include "kernels/Registry.h"
#include "kernels/cuda/Fuse.h"
#include "kernels/cuda/Limits.h"
#include "tools/common/Remedies.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <unistd.h>
#include <utility>

using namespace moec;
using namespace moek;

namespace {

/// Skips tests where there is no NVRTC.
std::optional<Nvrtc> nvrtc() {
  moert::StatusOr<Nvrtc> opened = Nvrtc::open();
  return opened ? std::optional<Nvrtc>(*std::move(opened)) : std::nullopt;
}
#define NEED_NVRTC(name)                                                       \
  std::optional<Nvrtc> name = nvrtc();                                         \
  if (!name)                                                                   \
  GTEST_SKIP() << Nvrtc::open().status().message()

/// The formats for which GPUs have kernels.
constexpr Format kEveryFormat[] = {
#define MOE_FLOAT_FORMAT(name, kernel, id, elements, bytes) Format::name,
#define MOE_BLOCK_FORMAT(name, kernel, id, elements, bytes) Format::name,
#include "kernels/quant/Formats.def"
};
/// One format of each kind.
constexpr Format kSomeFormats[] = {Format::F16, Format::Q4_K, Format::Q8_0};

/// Launches of every op, with DeepSeek-V2-Lite's shapes.
class EveryLaunch {
public:
  explicit EveryLaunch(int arch,
                       std::span<const Format> formats = kEveryFormat) {
    context_.arch = arch;
    context_.maxPositions = 4096;
    for (Format format : formats) {
      addPanels(format);
      addFiles(format);
      if (rows16Shape(format).codeBits % 16 != 0)
        addFused(format);
    }
    for (KvType type : {KvType::F32, KvType::F16, KvType::BF16, KvType::Q8_0})
      addCache(type);
    addOthers();
    addFusedSparse();
  }
  std::vector<cuda::Launch> launches;
  std::set<OpCode> ops; ///< Ops that have launches.

private:
  static WeightView weight(Format format, int64_t outer, int64_t rows,
                           int64_t cols) {
    auto row = int64_t(rowBytes(format, uint64_t(cols)));
    return {nullptr, outer, rows, cols, rows * row, row, format};
  }
  template <OpCode Op> void add(const ArgsOf<Op> &args) {
    std::vector<cuda::Launch> of = launchesOf(Op, &args, context_);
    EXPECT_FALSE(of.empty()) << int(Op);
    ops.insert(Op);
    launches.insert(launches.end(), of.begin(), of.end());
  }
  /// Products with one token, a few and many.
  void addPanels(Format format) {
    if (rows16Shape(format).codeBits % 16 == 0)
      return;
    context_.form = {Encoding::A8, Layout::Rows16};
    LinearArgs linear{.w = weight(format, 1, 2048, 2048)};
    // Too few columns to divide the tiles of the last wave by them.
    LinearArgs undivided{.w = weight(format, 1, 2048, 256)};
    GateUpArgs dense{.gate = linear.w, .up = linear.w};
    // Tiles whose parts are added in place, on GPUs that are chosen for it.
    LinearArgs inPlace{.w = weight(format, 1, 8192, 7168)};
    GateUpArgs denseInPlace{.gate = weight(format, 1, 4096, 7168),
                            .up = weight(format, 1, 4096, 7168)};
    // There are so few rows that a decode block has only some of a panel's.
    const WeightView few = weight(format, 1, 576, 2048),
                     more = weight(format, 1, 1408, 2048);
    ExpertsGateUpArgs gated{.gate = weight(format, 64, 1408, 2048),
                            .up = weight(format, 64, 1408, 2048),
                            .topK = 6};
    for (int32_t tokens : {1, 2, 8, 64, 512}) {
      context_.maxTokens = tokens;
      add<OpCode::Linear>(linear);
      if (tokens <= 8) {
        add<OpCode::Linear>({.w = few});
        add<OpCode::Linear>({.w = more});
        add<OpCode::GateUp>({.gate = few, .up = few});
        add<OpCode::GateUp>({.gate = more, .up = more});
      }
      if (tokens >= 64) {
        add<OpCode::Linear>(undivided);
        add<OpCode::GateUp>(dense);
        const int multiprocessors =
            std::exchange(context_.multiprocessors, tokens == 64 ? 48 : 170);
        add<OpCode::Linear>(inPlace);
        add<OpCode::GateUp>(denseInPlace);
        context_.multiprocessors = multiprocessors;
      }
      if (tokens != 8 && tokens != 64)
        add<OpCode::ExpertsGateUp>(gated);
      if (tokens != 512)
        continue;
      context_.parts = 4; // Steps that stream weights have many tokens.
      for (bool pinned : {false, true}) {
        context_.pinned = pinned;
        add<OpCode::ExpertsGateUp>(gated);
        add<OpCode::ExpertsLinear>(
            {.w = weight(format, 64, 2048, 1408), .topK = 6});
      }
      context_.parts = 0;
    }
    context_.form = {};
  }
  void addFiles(Format format) {
    context_.maxTokens = 8;
    add<OpCode::Linear>({.w = weight(format, 1, 64, 2048)});
    add<OpCode::ExpertsGateUp>({.gate = weight(format, 64, 1408, 2048),
                                .up = weight(format, 64, 1408, 2048),
                                .topK = 6});
    add<OpCode::GateUp>({.gate = weight(format, 1, 1408, 2048),
                         .up = weight(format, 1, 1408, 2048)});
    add<OpCode::ExpertsLinear>(
        {.w = weight(format, 64, 2048, 1408), .topK = 6});
    add<OpCode::HeadLinear>({.w = weight(format, 16, 512, 128), .tail = 64});
    if (formatInfo(format).blockElements == 1)
      addManyRows(format);
    add<OpCode::Embed>(
        {.table = weight(format, 1, 102400, 2048), .cols = 2048});
    add<OpCode::AbsorbQuery>({.w = weight(format, 16, 128, 512),
                              .heads = 16,
                              .nope = 128,
                              .rope = 64,
                              .latent = 512});
  }
  /// Products of floats in prefill: routers, and matrices of many rows.
  void addManyRows(Format format) {
    for (int32_t tokens : {64, 512, 4096}) {
      context_.maxTokens = tokens;
      for (int64_t rows : {64, 256, 2048, 16384})
        add<OpCode::Linear>({.w = weight(format, 1, rows, 2048)});
      add<OpCode::GateUp>({.gate = weight(format, 1, 1408, 2048),
                           .up = weight(format, 1, 1408, 2048)});
      add<OpCode::ExpertsGateUp>({.gate = weight(format, 64, 1408, 2048),
                                  .up = weight(format, 64, 1408, 2048),
                                  .topK = 6});
      add<OpCode::ExpertsLinear>(
          {.w = weight(format, 64, 2048, 1408), .topK = 6});
      add<OpCode::HeadLinear>({.w = weight(format, 16, 512, 128), .tail = 64});
    }
    context_.maxTokens = 8;
  }
  /// Adds an instruction to the fused launch. The numbers identify the memory
  /// that it reads and writes.
  template <OpCode Op>
  void join(const ArgsOf<Op> &args, std::initializer_list<uint64_t> reads,
            std::initializer_list<uint64_t> writes) {
    cuda::Fusible part{launchesOf(Op, &args, context_).at(0), {}};
    for (uint64_t memory : reads)
      part.uses.push_back({memory, 0, 1, false});
    for (uint64_t memory : writes)
      part.uses.push_back({memory, 0, 1, true});
    parts_.push_back(std::move(part));
  }
  void addJoined() {
    std::optional<cuda::Launch> launch = fuse(parts_, context_);
    parts_.clear();
    ASSERT_TRUE(launch);
    launches.push_back(*launch);
  }
  /// Adds the fused launches of a decoded token in layers of DeepSeek-V3.
  void addFused(Format format) {
    constexpr int64_t kHidden = 7168, kInner = 2048;
    const cuda::GemmForm panels{Encoding::A8, Layout::Rows16};
    context_.maxTokens = 1;
    LinearArgs down{.w = weight(format, 1, kHidden, kInner),
                    .accumulate = true};
    RmsNormArgs norm{.groups = 1, .cols = kHidden};
    QuantizeArgs codes{.cols = kHidden, .rowsPerToken = 1, .blockCols = 32};

    context_.form = panels;
    join<OpCode::Linear>({.w = weight(format, 1, 1536, kHidden)}, {1}, {2});
    join<OpCode::Linear>({.w = weight(format, 1, 576, kHidden)}, {1}, {3});
    join<OpCode::RmsNorm>({.groups = 1, .cols = 1536}, {2}, {4});
    KvView kv{nullptr, 576, 4096, kvRowBytes(KvType::F16, 576), KvType::F16};
    join<OpCode::MlaLatent>({.kv = kv, .latent = 512, .rope = 64}, {3}, {9});
    join<OpCode::Quantize>({.cols = 1536, .rowsPerToken = 1, .blockCols = 32},
                           {4}, {5});
    addJoined();

    join<OpCode::Linear>({.w = weight(format, 1, 24576, 1536)}, {1}, {2});
    join<OpCode::Rope>(
        {.heads = 128, .headStride = 192, .offset = 128, .dim = 64}, {}, {2});
    addJoined();

    join<OpCode::Linear>(down, {1}, {2});
    join<OpCode::RmsNorm>(norm, {2}, {4});
    join<OpCode::Quantize>(codes, {4}, {5});
    addJoined();

    context_.form = {};
    join<OpCode::Linear>({.w = weight(Format::F32, 1, 256, kHidden)}, {1}, {2});
    context_.form = panels;
    join<OpCode::GateUp>({.gate = weight(format, 1, kInner, kHidden),
                          .up = weight(format, 1, kInner, kHidden)},
                         {6}, {3});
    join<OpCode::Copy>({.tokenBytes = kHidden * 4}, {1}, {14});
    join<OpCode::Router>({.experts = 256,
                          .topK = 8,
                          .groups = 8,
                          .groupsUsed = 4,
                          .groupBest = 2},
                         {2}, {7, 8});
    join<OpCode::Quantize>({.cols = kInner, .rowsPerToken = 1, .blockCols = 32},
                           {3}, {5});
    join<OpCode::ExpertGroup>({.experts = 256, .topK = 8}, {7}, {10, 11});
    join<OpCode::Copy>({.tokenBytes = 32}, {7}, {12});
    join<OpCode::Copy>({.tokenBytes = 32}, {8}, {13});
    addJoined();

    WeightView expert = weight(format, 256, kInner, kHidden);
    join<OpCode::Linear>(down, {1}, {2});
    join<OpCode::ExpertsGateUp>({.gate = expert, .up = expert, .topK = 8}, {6},
                                {3});
    join<OpCode::Quantize>({.cols = kInner, .rowsPerToken = 8, .blockCols = 32},
                           {3}, {5});
    addJoined();

    join<OpCode::ExpertsLinear>(
        {.w = weight(format, 256, kHidden, kInner), .topK = 8}, {1}, {2});
    join<OpCode::ExpertsCombine>(
        {.cols = kHidden, .topK = 8, .accumulate = true}, {2}, {3});
    join<OpCode::RmsNorm>(norm, {3}, {4});
    join<OpCode::Quantize>(codes, {4}, {5});
    addJoined();

    // The values of a head are one tile, which is quantised.
    context_.form = {};
    join<OpCode::HeadLinear>({.w = weight(format, 128, 128, 512)}, {1}, {2});
    join<OpCode::Quantize>({.cols = 16384, .rowsPerToken = 1, .blockCols = 32},
                           {2}, {5});
    addJoined();
  }
  /// Adds the fused launches of DeepSeek-V3.2's indexers and of V4's streams
  /// and entries.
  void addFusedSparse() {
    // With more columns, one block would take too long.
    constexpr int64_t kHidden = 2048;
    context_.maxTokens = 1;
    context_.form = {};
    auto linear = [&](int64_t rows, uint64_t to) {
      join<OpCode::Linear>({.w = weight(Format::F32, 1, rows, kHidden)}, {1},
                           {to});
    };
    auto cache = [](int64_t width) {
      return KvView{nullptr, width, 4096, kvRowBytes(KvType::F16, width),
                    KvType::F16};
    };
    linear(576, 2);
    linear(128, 3);
    join<OpCode::LayerNorm>({.cols = 128}, {3}, {4});
    join<OpCode::MlaLatent>({.kv = cache(576), .latent = 512, .rope = 64}, {2},
                            {9});
    join<OpCode::Rope>({.heads = 1, .headStride = 128, .dim = 64}, {}, {4});
    join<OpCode::RowStore>({.kv = cache(128)}, {4}, {10});
    addJoined();

    linear(24, 2);
    join<OpCode::HyperWeights>({.cols = 24, .streams = 4, .iterations = 20},
                               {2}, {3});
    join<OpCode::HyperCollapse>({.cols = kHidden, .streams = 4}, {1, 3}, {4});
    join<OpCode::RmsNorm>({.groups = 1, .cols = kHidden}, {4}, {5});
    addJoined();

    linear(512, 2);
    join<OpCode::EntryStore>(
        {.kv = cache(512), .cols = 512, .dim = 64, .ratio = 4}, {2}, {9});
    addJoined();
  }
  /// Attention of prompts: in parts or whole, with windows and caps.
  void addPrompts(KvView kv) {
    cuda::LaunchContext before = context_;
    context_.maxTokens = 512;
    for (auto [key, value] :
         {std::pair{64, 64}, {128, 128}, {80, 96}, {192, 128}, {256, 256}}) {
      kv.width = gqaKvWidth(4, key, value);
      kv.rowStride = kvRowBytes(kv.type, kv.width);
      for (int multiprocessors : {82, 108, 132, 170})
        for (float softcap : {0.0f, 30.0f}) {
          context_.multiprocessors = multiprocessors;
          AttentionArgs args{.kv = kv,
                             .heads = 32,
                             .kvHeads = 4,
                             .key = key,
                             .value = value,
                             .splits = 1,
                             .softcap = softcap};
          add<OpCode::Attention>(args);
          args.window = 128;
          args.ring = 1024;
          add<OpCode::Attention>(args);
        }
    }
    context_ = before;
  }
  void addCache(KvType type) {
    constexpr int64_t kWidth = 576;
    KvView kv{nullptr, kWidth, 4096, kvRowBytes(type, kWidth), type};
    add<OpCode::MlaLatent>({.kv = kv, .latent = 512, .rope = 64});
    LatentAttentionArgs latent{
        .kv = kv, .heads = 16, .latent = 512, .rope = 64, .splits = 64};
    add<OpCode::LatentAttention>(latent);
    latent.kv.rowStride += 8; // Rows are no longer aligned to 16 bytes.
    add<OpCode::LatentAttention>(latent);
    MlaAttentionArgs mla{.kv = kv,
                         .wk = weight(Format::Q8_0, 16, 512, 128),
                         .wv = weight(Format::Q4_K, 16, 128, 512),
                         .heads = 16,
                         .nope = 128,
                         .rope = 64,
                         .latent = 512,
                         .value = 128};
    add<OpCode::MlaAttention>(mla);
    KvView grouped = kv;
    grouped.width = gqaKvWidth(8, 128, 128);
    grouped.rowStride = kvRowBytes(type, grouped.width);
    add<OpCode::KvStore>({.kv = grouped, .heads = 8, .key = 128, .value = 128});
    add<OpCode::Attention>({.kv = grouped,
                            .heads = 64,
                            .kvHeads = 8,
                            .key = 128,
                            .value = 128,
                            .splits = 16});
    addPrompts(grouped);
    add<OpCode::RowStore>({.kv = kv});
    add<OpCode::EntryStore>({.kv = kv, .cols = 576, .dim = 64, .ratio = 4});
    add<OpCode::IndexScores>({.kv = kv, .heads = 64, .key = 128, .ratio = 1});
    add<OpCode::BlockScores>({.kv = kv, .groups = 8, .key = 128, .ratio = 128});
    add<OpCode::BlockAttention>({.kv = grouped,
                                 .heads = 64,
                                 .kvHeads = 8,
                                 .key = 128,
                                 .value = 128,
                                 .topK = 16,
                                 .ratio = 128,
                                 .groups = 8,
                                 .local = 1});
    SparseAttentionArgs sparse{.kv = kv,
                               .entries = kv,
                               .heads = 128,
                               .key = 576,
                               .value = 512,
                               .window = 128,
                               .ratio = 4,
                               .topK = 2048,
                               .pool = 1};
    add<OpCode::SparseAttention>(sparse);
    sparse.key = 570; // The columns are not whole steps of tensor cores.
    add<OpCode::SparseAttention>(sparse);
    // The type differs from that of the window.
    sparse.entries.type = KvType::F32;
    add<OpCode::SparseAttention>(sparse);
  }
  void addOthers() {
    add<OpCode::RopeTable>({.dim = 64});
    add<OpCode::RmsNorm>({.groups = 1, .cols = 2048});
    add<OpCode::Quantize>({.cols = 2048, .rowsPerToken = 1, .blockCols = 32});
    add<OpCode::Quantize>({.cols = 2048, .rowsPerToken = 1, .blockCols = 128});
    for (int32_t i = 0; i < kActivationCount; ++i)
      add<OpCode::ActivationMul>(
          {.cols = 2048, .rowsPerToken = 1, .activation = Activation(i)});
    for (int32_t i = 0; i < kGateCount; ++i)
      for (int64_t gates : {2048, 16})
        add<OpCode::GateMul>(
            {.cols = 2048, .gates = gates, .function = Gate(i)});
    add<OpCode::PositionScale>({.cols = 2048, .length = 8192});
    add<OpCode::EmbedPositions>(
        {.table = weight(Format::F32, 1, 1024, 2048), .cols = 2048});
    add<OpCode::Scale>({.cols = 102400});
    add<OpCode::Add>({.cols = 2048});
    add<OpCode::Copy>({.tokenBytes = 8192});
    for (bool neox : {false, true})
      add<OpCode::Rope>(
          {.heads = 16, .headStride = 192, .dim = 64, .neox = neox});
    add<OpCode::CombineSplits>({.heads = 16, .latent = 512, .splits = 64});
    add<OpCode::Router>({.experts = 64, .topK = 6, .groups = 1});
    add<OpCode::SplitChoices>({.topK = 6, .last = 2});
    add<OpCode::ExpertGroup>({.experts = 64, .topK = 6});
    for (int32_t i = 0; i < kActivationCount; ++i)
      add<OpCode::ExpertsActivationMul>({.cols = 1408,
                                         .experts = 64,
                                         .topK = 6,
                                         .activation = Activation(i)});
    add<OpCode::ExpertsCombine>({.cols = 2048, .topK = 6});
    add<OpCode::Regroup>(
        {.width = 512, .groups = 16, .first = 256, .second = 256});
    for (int32_t taps = 1; taps <= kMaxTaps; ++taps)
      for (int32_t dilation : {1, 3})
        add<OpCode::ShortConv>({.xStride = 8192,
                                .cols = 8192,
                                .taps = taps,
                                .silu = taps != 3,
                                .dilation = dilation});
    add<OpCode::DeltaGates>({.decays = 32, .heads = 32});
    DeltaRuleArgs rule{.keyHeads = 16, .heads = 32, .value = 128};
    for (int32_t tokens : {1, 512}) {
      context_.maxTokens = tokens;
      for (int32_t key : {64, 128, 300, 512, 640}) {
        rule.key = key;
        add<OpCode::DeltaRule>(rule);
      }
    }
    for (int32_t key : {128, 512, 640})
      for (bool sums : {false, true}) {
        rule.key = key, rule.channels = !sums, rule.sums = sums;
        add<OpCode::DeltaRule>(rule);
      }
    add<OpCode::LayerNorm>({.cols = 128});
    add<OpCode::IndexSelect>({.topK = 2048, .ratio = 1, .groups = 1});
    add<OpCode::Compress>({.cols = 512, .ratio = 4, .overlap = true});
    add<OpCode::HyperWeights>({.cols = 24, .streams = 4, .iterations = 20});
    add<OpCode::HyperCollapse>({.cols = 4096, .streams = 4});
    add<OpCode::HyperSpread>({.cols = 4096, .streams = 4});
    add<OpCode::ResidualMix>({.cols = 7168, .count = 8});
    add<OpCode::Concat>({.first = 7168, .second = 7168});
    add<OpCode::ClampedMul>({.cols = 2048, .rowsPerToken = 1});
    add<OpCode::BlockMaxima>({.ratio = 64, .size = 64});
    add<OpCode::KeepBlocks>({.topK = 31, .ratio = 64, .size = 64});
    add<OpCode::GateStreams>({.cols = 4096, .streams = 4});
    add<OpCode::HashRouter>({.experts = 256, .topK = 6});
  }

  cuda::LaunchContext context_;
  std::vector<cuda::Fusible> parts_;
};

//===----------------------------------------------------------------------===//
// Names, without NVRTC
//===----------------------------------------------------------------------===//

// Every name in Kernels.def and Gemms.def has launch code.
TEST(CudaNamesTest, EveryDriverLaunchesSomething) {
  EveryLaunch every(89);
  for (const KernelInfo &kernel : kernelTable())
    if (kernel.isa == Isa::Cuda) {
      EXPECT_TRUE(every.ops.contains(kernel.op)) << kernel.name;
    }
}

TEST(CudaNamesTest, EveryGemmLaunchesSomethingForAnyRows) {
  int gemms = 0;
  for (const GemmInfo &gemm : gemmTable()) {
    if (gemm.isa != Isa::Cuda)
      continue;
    ++gemms;
    LinearArgs args{.w = {nullptr, 1, 64, 256, 0, 0, gemm.format}};
    for (int32_t tokens : {1, 2, 3, 8, 9, 64, 512}) {
      cuda::LaunchContext context = cuda::contextOf(tokens, 1, 512, 89, 128);
      context.form = {gemm.activation, gemm.layout};
      EXPECT_FALSE(launchesOf(OpCode::Linear, &args, context).empty())
          << gemm.name << ", " << tokens << " tokens";
    }
  }
  EXPECT_EQ(gemms, 45); // 24 formats as in files, and 21 of them in panels.
}

// The runtime finds the module of a launch by the name of its function, so
// equal names must mean equal specs.
TEST(CudaNamesTest, AFunctionsNameTellsHowItWasCompiled) {
  for (int arch : {75, 89}) {
    std::map<std::string, cuda::KernelSpec> byName;
    for (const cuda::Launch &launch : EveryLaunch(arch).launches) {
      auto [known, isNew] = byName.emplace(launch.kernel.entry, launch.kernel);
      EXPECT_TRUE(isNew || known->second == launch.kernel)
          << launch.kernel.entry;
    }
  }
}

// A plan stores a kernel's spec as words.
TEST(CudaNamesTest, WordsOfAPlanGiveTheSpecBack) {
  bool hasPieces = false;
  for (const cuda::Launch &launch : EveryLaunch(89).launches) {
    const cuda::KernelSpec &spec = launch.kernel;
    EXPECT_EQ(cuda::specOf(spec.file, spec.entry, wordsOf(spec)), spec)
        << spec.entry;
    hasPieces |= !spec.pieces.empty();
  }
  EXPECT_TRUE(hasPieces);
}

TEST(CudaContextTest, SequencesAreNoMoreThanTokensAndEachMaySeeAContext) {
  cuda::LaunchContext one = cuda::contextOf(1, 8, 4096, 89, 128);
  EXPECT_EQ(one.maxTokens, 1);
  EXPECT_EQ(one.maxSequences, 1);
  EXPECT_EQ(one.maxPositions, 4096);
  cuda::LaunchContext many = cuda::contextOf(512, 8, 4096, 89, 128);
  EXPECT_EQ(many.maxSequences, 8);
  EXPECT_EQ(many.maxPositions, 8 * 4096);
}

// The rows that one token of DeepSeek-V3.2 attends to are divided into splits,
// which keep a 4090 busy, and a second launch adds up the results. Many tokens
// need no splits.
TEST(SparseLaunchTest, FewTokensAreCutIntoSpans) {
  KvView kv{nullptr, 576, 65536, 1152, KvType::F16};
  SparseAttentionArgs args{.entries = kv,
                           .heads = 128,
                           .key = 576,
                           .value = 512,
                           .ratio = 1,
                           .topK = 2048,
                           .pool = 1};
  auto launchesFor = [&](int32_t tokens, int64_t positions) {
    return launchesOf(OpCode::SparseAttention, &args,
                      cuda::contextOf(tokens, 1, positions, 89, 128));
  };
  std::vector<cuda::Launch> one = launchesFor(1, 65536);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0].grid[1], 32u); // 2048 rows in parts of at least 64.
  EXPECT_EQ(launchesFor(1, 100)[0].grid[1], 2u);
  EXPECT_EQ(launchesFor(1, 64).size(), 1u);
  std::vector<cuda::Launch> many = launchesFor(512, 65536);
  ASSERT_EQ(many.size(), 1u);
  EXPECT_EQ(many[0].grid[1], 1u);
  int64_t bytes = cuda::workspaceBytes(OpCode::SparseAttention, &args,
                                       cuda::contextOf(1, 1, 65536, 89, 128));
  EXPECT_EQ(bytes, 32 * 128 * (512 + 2) * 4);
}

// Few rows are processed one after the other, and many in chunks. Rows of
// different sequences are in different chunks.
TEST(DeltaRuleLaunchTest, ManyRowsAreDoneInChunks) {
  DeltaRuleArgs args{.keyHeads = 16, .heads = 32, .key = 128, .value = 128};
  auto launchesFor = [&](int32_t tokens, int32_t sequences) {
    return launchesOf(OpCode::DeltaRule, &args,
                      cuda::contextOf(tokens, sequences, 4096, 89, 128));
  };
  EXPECT_EQ(launchesFor(1, 1).size(), 1u);
  EXPECT_EQ(launchesFor(8, 4).size(), 1u);
  std::vector<cuda::Launch> many = launchesFor(100, 3);
  ASSERT_EQ(many.size(), 2u);
  EXPECT_EQ(many[0].grid[0], 7u + 2);
  EXPECT_EQ(many[1].grid[2], 3u);
  int64_t bytes = cuda::workspaceBytes(OpCode::DeltaRule, &args,
                                       cuda::contextOf(100, 3, 4096, 89, 128));
  EXPECT_EQ(bytes, 9 * (16 * 2 * 128 * 16 + 32 * 544) * 4);
  args.key = 256; // The kernel needs more shared memory than a block has.
  EXPECT_EQ(launchesFor(100, 3).size(), 1u);
}

// The numbers are those of NVIDIA's occupancy calculator.
TEST(ResidentWarpsTest, WhatIsScarceDecides) {
  // The number of warps is the limit.
  EXPECT_EQ(cuda::residentWarps(89, 256, 40, 0), 48);
  EXPECT_EQ(cuda::residentWarps(90, 256, 32, 0), 64);
  // Registers are the limit.
  EXPECT_EQ(cuda::residentWarps(90, 128, 168, 0), 12);
  // Shared memory is the limit.
  EXPECT_EQ(cuda::residentWarps(86, 128, 40, 99 * 1024), 4);
  // The number of blocks is the limit.
  EXPECT_EQ(cuda::residentWarps(75, 32, 16, 0), 16);
  EXPECT_EQ(cuda::residentWarps(89, 32, 16, 0), 24);
  // A block needs more than there is.
  EXPECT_EQ(cuda::residentWarps(86, 128, 40, 100 * 1024), 0);
}

struct Compiled {
  int arch;
  std::span<const Format> formats;
};
void PrintTo(const Compiled &compiled, std::ostream *out) {
  *out << "sm_" << compiled.arch;
}
class KernelResourcesTest : public testing::TestWithParam<Compiled> {};

/// Returns a folder next to this program, because cached kernels belong to a
/// build like its objects.
std::string cacheFolder() {
  std::error_code error;
  auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : (self.parent_path() / "cuda-kernels").string();
}

TEST_P(KernelResourcesTest, NothingSpills) {
  NEED_NVRTC(library);
  const auto &[arch, formats] = GetParam();
  if (!std::count(library->archs().begin(), library->archs().end(), arch))
    GTEST_SKIP() << "this NVRTC does not know sm_" << arch;
  EveryLaunch every(arch, formats);
  std::vector<KernelJob> jobs;
  for (const cuda::Launch &launch : every.launches)
    jobs.push_back({launch.kernel, arch});
  KernelCompiler compiler(*library, cacheFolder());
  moert::StatusOr<std::vector<KernelImage>> images = compiler.compile(jobs);
  ASSERT_TRUE(images.isOk()) << images.status().message();
  for (size_t i = 0; i < jobs.size(); ++i) {
    const KernelImage &image = (*images)[i];
    const cuda::Launch &launch = every.launches[i];
    SCOPED_TRACE(launch.kernel.entry);
    EXPECT_EQ(image.spilledBytes, 0);
    EXPECT_EQ(image.stackBytes, 0);
    EXPECT_FALSE(image.isSerialized);
    EXPECT_GT(image.registers, 0);
    // Registers are given to warps in units of 256; a block must fit.
    int64_t registers = (int64_t(image.registers) * 32 + 255) / 256 * 256 *
                        (launch.threads / 32);
    EXPECT_LE(registers, 65536);
    EXPECT_LE(int64_t(launch.sharedBytes) + image.sharedBytes,
              cuda::maxSharedBytes(arch));
    EXPECT_NE(image.ptx.find(launch.kernel.entry), std::string::npos);
  }
}

std::string nameOf(const testing::TestParamInfo<Compiled> &info) {
  return "sm_" + std::to_string(info.param.arch);
}
INSTANTIATE_TEST_SUITE_P(SomeFormats, KernelResourcesTest,
                         testing::Values(Compiled{89, kSomeFormats}), nameOf);
// All architectures that NVRTC 13 supports.
INSTANTIATE_TEST_SUITE_P(
    EveryFormat, KernelResourcesTest,
    testing::Values(Compiled{75, kEveryFormat}, Compiled{80, kEveryFormat},
                    Compiled{86, kEveryFormat}, Compiled{87, kEveryFormat},
                    Compiled{88, kEveryFormat}, Compiled{89, kEveryFormat},
                    Compiled{90, kEveryFormat}, Compiled{100, kEveryFormat},
                    Compiled{103, kEveryFormat}, Compiled{110, kEveryFormat},
                    Compiled{120, kEveryFormat}, Compiled{121, kEveryFormat}),
    nameOf);

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

TEST(NvrtcTest, NoLibraryAtAPathIsTheUsersError) {
  moert::StatusOr<Nvrtc> opened = Nvrtc::open("/no/such/libnvrtc.so");
  ASSERT_FALSE(opened.isOk());
  EXPECT_EQ(opened.status().code(), moert::StatusCode::Usage);
  EXPECT_NE(opened.status().message().find("/no/such/libnvrtc.so"),
            std::string::npos);
}

TEST(NvrtcTest, AnotherLibraryIsRefused) {
  moert::StatusOr<Nvrtc> opened = Nvrtc::open("libm.so.6");
  ASSERT_FALSE(opened.isOk());
  EXPECT_EQ(opened.status().code(), moert::StatusCode::Unsupported);
}

TEST(NvrtcTest, WithoutOneTheMessageInstallsIt) {
  moert::StatusOr<Nvrtc> opened = Nvrtc::openAmong({"/no/libnvrtc.so.13"});
  ASSERT_FALSE(opened.isOk());
  EXPECT_EQ(opened.status().code(), moert::StatusCode::Unsupported);
  std::string message = moetool::fullMessage(opened.status());
  EXPECT_NE(
      message.find("install it, or name it with --nvrtc\n  run: python3 -m pip "
                   "install"),
      std::string::npos);
  EXPECT_NE(message.find("/moec/nvrtc nvidia-cuda-nvrtc"), std::string::npos);
}

TEST(NvrtcTest, WrongSourceSaysWhere) {
  NEED_NVRTC(library);
  moert::StatusOr<NvrtcOutput> output = library->compile(
      "wrong.cu", "int x = ;", {}, {}, library->archs().back());
  ASSERT_FALSE(output.isOk());
  EXPECT_NE(output.status().message().find("wrong.cu(1)"), std::string::npos)
      << output.status().message();
}

//===----------------------------------------------------------------------===//
// Cache and determinism
//===----------------------------------------------------------------------===//

struct Folder {
  Folder()
      : path(testing::TempDir() + "moe-kernels-" + std::to_string(getpid())) {
    std::filesystem::remove_all(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

std::vector<KernelJob> fewJobs() {
  cuda::KernelSpec copy{"kernels/cuda/Copy.cu", "copy", {}};
  cuda::KernelSpec add{"kernels/cuda/Pair.cu", "add", {}};
  cuda::KernelSpec silu{
      "kernels/cuda/Pair.cu", "activation_mul", {{"MOE_ACTIVATION", 0}}};
  return {{copy, 89}, {add, 89}, {silu, 89}, {copy, 80}, {copy, 89}};
}

std::string bytesOf(const std::vector<KernelImage> &images) {
  std::string all;
  for (const KernelImage &image : images)
    all += image.cubin + image.ptx + std::to_string(image.registers);
  return all;
}

TEST(KernelCompilerTest, TheSameBytesAlwaysAndFromTheCache) {
  NEED_NVRTC(library);
  Folder folder;
  KernelCompiler plain(*library), first(*library, folder.path);
  KernelCompiler second(*library, folder.path);
  std::vector<KernelJob> jobs = fewJobs();
  auto a = plain.compile(jobs, {.threads = 1});
  auto b = first.compile(jobs, {.threads = 3});
  ASSERT_TRUE(a.isOk() && b.isOk());
  EXPECT_TRUE(bytesOf(*a) == bytesOf(*b));
  EXPECT_EQ(first.cached(), 0);
  auto c = second.compile(jobs);
  ASSERT_TRUE(c.isOk());
  EXPECT_TRUE(bytesOf(*a) == bytesOf(*c));
  EXPECT_EQ(second.cached(), 4); // Two of the five jobs are equal.
  EXPECT_TRUE((*a)[0].cubin == (*a)[4].cubin);
  EXPECT_FALSE((*a)[0].cubin == (*a)[3].cubin);
  EXPECT_FALSE((*a)[1].cubin == (*a)[2].cubin);
}

TEST(KernelCompilerTest, DamagedFilesAreCompiledAgain) {
  NEED_NVRTC(library);
  Folder folder;
  KernelJob job = fewJobs()[1];
  KernelCompiler first(*library, folder.path);
  auto right = first.compile(job);
  ASSERT_TRUE(right.isOk());
  for (const auto &file : std::filesystem::directory_iterator(folder.path))
    std::filesystem::resize_file(file, file.file_size() / 2);
  KernelCompiler second(*library, folder.path);
  auto again = second.compile(job);
  ASSERT_TRUE(again.isOk());
  EXPECT_EQ(second.cached(), 0);
  EXPECT_TRUE(again->cubin == right->cubin);
}

TEST(KernelCompilerTest, AFolderThatCannotBeWrittenIsNoError) {
  NEED_NVRTC(library);
  KernelCompiler compiler(*library, "/proc/no-folder");
  EXPECT_TRUE(compiler.compile(fewJobs()[0]).isOk());
}

} // namespace
