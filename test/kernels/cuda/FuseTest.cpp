//===- FuseTest.cpp - Several instructions in one launch ------------------===//
//
// One launch leaves what the instructions leave one after the other, in every
// byte, in any order of blocks, on this machine's GPU or on the software GPU.
// Those are held to float64 by the suites of test/kernels.
//
//===----------------------------------------------------------------------===//

#include "test/kernels/cuda/FuseScene.h"

#include <gmock/gmock.h>

using namespace moek;
using namespace moek::test;

namespace {

// Two products of the same row run side by side. The result of one is normed
// and quantised; the latent of the other is stored in the cache.
TEST(FuseTest, ProjectionsSideBySideAndWhatFollows) {
  expectOneLaunch(
      [](Scene &s) {
        uint64_t x = s.floats(96), q = s.out(1024 * 4), kv = s.out(96 * 4);
        uint64_t normed = s.out(1024 * 4), codes = s.out(a8RowBytes(1024));
        s.add<OpCode::Linear>({at<uint8_t>(x), 96 * 4, s.f32(1, 1024, 96),
                               nullptr, nullptr, at<float>(q), 1024, false},
                              {x}, {q});
        s.add<OpCode::Linear>({at<uint8_t>(x), 96 * 4, s.f32(1, 96, 96),
                               nullptr, nullptr, at<float>(kv), 96, false},
                              {x}, {kv});
        s.add<OpCode::RmsNorm>({at<float>(q), 1024, at<float>(s.floats(1024)),
                                at<float>(normed), 1024, 1, false, 1024, 1e-5f},
                               {q}, {normed});
        uint64_t cache = s.inOut(256 * 96 / 2), table = s.floats(32);
        s.add<OpCode::MlaLatent>({at<float>(kv),
                                  96,
                                  at<float>(s.floats(64)),
                                  at<float>(table),
                                  {at<uint8_t>(cache), 96, 256,
                                   kvRowBytes(KvType::F16, 96), KvType::F16},
                                  64,
                                  32,
                                  1e-5f},
                                 {kv, table}, {cache});
        s.add<OpCode::Quantize>({at<float>(normed), 1024, at<uint8_t>(codes),
                                 a8RowBytes(1024), 1024, 1, 32},
                                {normed}, {codes});
      },
      "gemm_1_f32__gemm_1_f32__all_rms_norm__all_mla_latent_kv_f16__all_"
      "quantize_32");
}

// Heads are rotated as soon as all their columns are complete.
TEST(FuseTest, HeadsAreRotatedTileByTile) {
  for (bool neox : {false, true})
    expectOneLaunch(
        [&](Scene &s) {
          uint64_t x = s.floats(40), q = s.out(5 * 96 * 4);
          uint64_t table = s.floats(64);
          s.add<OpCode::Linear>({at<uint8_t>(x), 40 * 4, s.f32(1, 480, 40),
                                 nullptr, nullptr, at<float>(q), 480, false},
                                {x}, {q});
          s.add<OpCode::Rope>(
              {at<float>(q), 480, at<float>(table), 5, 96, 32, 64, neox},
              {table}, {q});
        },
        neox ? "gemm_1_f32__tiles0_rope_neox" : "gemm_1_f32__tiles0_rope");
}

// Quantize also follows the tiles of HeadLinear, whose columns are not those of
// a quantisation block.
TEST(FuseTest, CodesOfHeadsTileByTile) {
  for (int64_t rows : {16, 128, 40})
    expectOneLaunch(
        [&](Scene &s) {
          int64_t heads = 8, cols = heads * rows;
          uint64_t x = s.floats(heads * 24), y = s.out(cols * 4);
          uint64_t codes = s.out(a8RowBytes(cols));
          s.add<OpCode::HeadLinear>({at<float>(x), heads * 24,
                                     s.f32(heads, rows, 24), nullptr,
                                     Encoding::F32, at<float>(y), cols, 0},
                                    {x}, {y});
          s.add<OpCode::Quantize>({at<float>(y), cols, at<uint8_t>(codes),
                                   a8RowBytes(cols), cols, 1, 32},
                                  {y}, {codes});
        },
        "gemm_heads_1_f32__tiles0_quantize_32");
}

// Blocks that end with a head's columns, or columns between heads: which of
// them make 128 would not be counted.
TEST(FuseTest, HeadsThatAreNotWholeTilesAreWaitedFor) {
  struct Case {
    int64_t rows, tail;
  };
  for (Case c : {Case{20, 0}, Case{16, 16}})
    expectOneLaunch(
        [&](Scene &s) {
          int64_t heads = 8, cols = heads * c.rows;
          int64_t stride = heads * (c.rows + c.tail);
          uint64_t x = s.floats(heads * (24 + c.tail)), y = s.inOut(stride);
          uint64_t codes = s.out(a8RowBytes(cols));
          s.add<OpCode::HeadLinear>(
              {at<float>(x), heads * (24 + c.tail), s.f32(heads, c.rows, 24),
               nullptr, Encoding::F32, at<float>(y), stride, int32_t(c.tail)},
              {x}, {y});
          s.add<OpCode::Quantize>({at<float>(y), stride, at<uint8_t>(codes),
                                   a8RowBytes(cols), cols, 1, 32},
                                  {y}, {codes});
        },
        "gemm_heads_1_f32__all_quantize_32");
}

// A matrix of few rows has smaller blocks of fewer warps. In one launch, its
// blocks have as many warps as the others, and memory for each.
TEST(FuseTest, ProductsWithBlocksOfTwoSizes) {
  expectOneLaunch(
      [](Scene &s) {
        s.form(Encoding::A8, Layout::Rows16);
        constexpr int64_t kCols = 768;
        int64_t most = s.maxTokens();
        uint64_t x = s.codes(most * a8RowBytes(kCols));
        for (int64_t rows : {160, 32}) {
          uint64_t y = s.out(most * rows * 4);
          s.add<OpCode::Linear>({at<uint8_t>(x), a8RowBytes(kCols),
                                 s.q8(1, rows, kCols), nullptr, nullptr,
                                 at<float>(y), rows, false},
                                {x}, {y});
        }
      },
      "gemv_mma_8_q8_0__gemv_mma_8_q2_q8_0", 5, 8);
}

// Blocks of a matrix of few columns get as many warps as those of the others:
// more than there are units for.
TEST(FuseTest, ProductsWithMoreWarpsThanUnits) {
  expectOneLaunch(
      [](Scene &s) {
        s.form(Encoding::A8, Layout::Rows16);
        int64_t most = s.maxTokens();
        auto multiply = [&](WeightView w) {
          uint64_t x = s.codes(most * a8RowBytes(w.cols));
          uint64_t y = s.out(most * w.rows * 4);
          s.add<OpCode::Linear>({at<uint8_t>(x), a8RowBytes(w.cols), w, nullptr,
                                 nullptr, at<float>(y), w.rows, false},
                                {x}, {y});
        };
        multiply(s.q8(1, 160, 1024));
        constexpr int64_t kRows = 32, kCols = 256, kBytes = kRows * 144;
        multiply(s.matrix(s.codes(kBytes), 1, kRows, kCols, Format::Q4_K));
      },
      "gemv_mma_8_q8_0__gemv_mma_8_q2_q4_k", 5, 8);
}

// The sum of two products' results cannot follow the tiles of either product.
TEST(FuseTest, WhatFollowsTwoProductsWaitsForBoth) {
  expectOneLaunch(
      [](Scene &s) {
        uint64_t x = s.floats(64), y = s.out(256 * 4), z = s.out(256 * 4);
        uint64_t sum = s.out(256 * 4);
        for (uint64_t to : {y, z})
          s.add<OpCode::Linear>({at<uint8_t>(x), 64 * 4, s.f32(1, 256, 64),
                                 nullptr, nullptr, at<float>(to), 256, false},
                                {x}, {to});
        s.add<OpCode::Add>({at<float>(y), at<float>(z), at<float>(sum), 256},
                           {y, z}, {sum});
      },
      "gemm_1_f32__gemm_1_f32__all_add");
}

// An addition to the residual, its norm, and the quantised norm form one
// launch, also for several tokens of a phase for more.
/// A product that is added to the residual, the norm of the sum and its
/// encoding.
static void residualsNorm(Scene &s) {
  int64_t most = s.maxTokens();
  s.form(Encoding::A8, Layout::Rows16);
  uint64_t x = s.codes(most * a8RowBytes(2048));
  uint64_t y = s.inOut(most * 1024), normed = s.out(most * 4096);
  uint64_t codes = s.out(most * a8RowBytes(1024));
  s.add<OpCode::Linear>({at<uint8_t>(x), a8RowBytes(2048), s.q8(1, 1024, 2048),
                         nullptr, nullptr, at<float>(y), 1024, true},
                        {x}, {y});
  s.form({}, {});
  s.add<OpCode::RmsNorm>({at<float>(y), 1024, nullptr, at<float>(normed), 1024,
                          1, false, 1024, 1e-5f},
                         {y}, {normed});
  s.add<OpCode::Quantize>({at<float>(normed), 1024, at<uint8_t>(codes),
                           a8RowBytes(1024), 1024, 1, 128},
                          {normed}, {codes});
}

TEST(FuseTest, TheResidualsNormBehindAllBlocks) {
  for (int32_t tokens : {1, 3})
    expectOneLaunch(residualsNorm,
                    tokens == 1
                        ? "gemv_1_q8_0__all_rms_norm__all_quantize_128"
                        : "gemv_mma_8_q8_0__all_rms_norm__all_quantize_128",
                    tokens, tokens == 1 ? 1 : 4);
}

// All blocks but the one that goes on alone ask L2 for each byte once. The
// software GPU reports addresses that nobody allocated.
TEST(FuseTest, BlocksThatEndBringWeights) {
  if (!GpuTest::get().compiler)
    GTEST_SKIP() << GpuTest::get().why;
  Scene apart(softgpu::Schedule::Forward, 1, 1);
  residualsNorm(apart);
  std::vector<uint8_t> expected = apart.runOneByOne();
  for (bool isOutside : {false, true}) {
    Scene scene(softgpu::Schedule::Forward, 1, 1);
    if (!scene.isSoftware())
      GTEST_SKIP() << "silicon does not report where a prefetch goes";
    residualsNorm(scene);
    constexpr uint64_t kBytes = 4 << 20;
    uint64_t weights = scene.codes(kBytes);
    std::optional<cuda::Launch> launch = scene.fused();
    ASSERT_TRUE(launch && cuda::canPrefetch(*launch));
    std::vector<cuda::Prefetch> ranges = {
        {at<uint8_t>(weights), kBytes / 2},
        {at<uint8_t>(weights + kBytes / 2), kBytes / 2}};
    // The last block, which asks for nothing, is not the only one outside.
    ranges[1].bytes += isOutside ? kBytes : 0;
    cuda::setPrefetch(launch->args, ranges);
    ASSERT_EQ(cuda::prefetchesOf(launch->args).size(), 2u);
    if (isOutside)
      EXPECT_THAT(scene.failureOf(*launch), ::testing::HasSubstr("prefetches"));
    else
      EXPECT_EQ(scene.run({*launch}), expected);
  }
}

// The router's logits run at the same time as a shared expert. Experts are
// chosen and grouped after all blocks, while the shared expert's result is
// quantised tile by tile.
TEST(FuseTest, RouterBesideTheSharedExpert) {
  for (int32_t experts : {64, 7})
    expectOneLaunch(
        [&](Scene &s) {
          uint64_t x = s.floats(256), codes = s.codes(a8RowBytes(256));
          uint64_t logits = s.out(experts * 4), hidden = s.out(352 * 4);
          uint64_t ids = s.out(6 * 4), weights = s.out(6 * 4);
          uint64_t offsets = s.out((experts + 1) * 4), slots = s.out(6 * 4);
          uint64_t made = s.out(a8RowBytes(352));
          s.add<OpCode::Linear>({at<uint8_t>(x), 256 * 4,
                                 s.f32(1, experts, 256), nullptr, nullptr,
                                 at<float>(logits), experts, false},
                                {x}, {logits});
          s.form(Encoding::A8, Layout::Rows16);
          s.add<OpCode::GateUp>({at<uint8_t>(codes), a8RowBytes(256),
                                 s.q8(1, 352, 256), s.q8(1, 352, 256), nullptr,
                                 nullptr, nullptr, nullptr, at<float>(hidden),
                                 352},
                                {codes}, {hidden});
          s.form({}, {});
          s.add<OpCode::Router>(
              {at<float>(logits), experts, at<float>(s.floats(experts)),
               nullptr, at<int32_t>(ids), at<float>(weights), experts, 6,
               experts == 64 ? 8 : 1, experts == 64 ? 4 : 1, 1,
               Scoring::Sigmoid, true, 2.5f},
              {logits}, {ids, weights});
          s.add<OpCode::Quantize>({at<float>(hidden), 352, at<uint8_t>(made),
                                   a8RowBytes(352), 352, 1, 32},
                                  {hidden}, {made});
          s.add<OpCode::ExpertGroup>({at<int32_t>(ids), at<int32_t>(offsets),
                                      at<int32_t>(slots), experts, 6},
                                     {ids}, {offsets, slots});
        },
        "gemm_1_f32__gemv_gate_up_1_q8_0__all_router__tiles1_quantize_32__all_"
        "expert_group");
}

// The lanes of one warp return one by one, while other blocks count their
// completion.
TEST(FuseTest, TheRouterBesideAProduct) {
  expectOneLaunch(
      [](Scene &s) {
        uint64_t logits = s.floats(64), ids = s.out(24), weights = s.out(24);
        uint64_t x = s.floats(64), y = s.out(64 * 4), offsets = s.out(65 * 4);
        uint64_t slots = s.out(24);
        s.add<OpCode::Linear>({at<uint8_t>(x), 64 * 4, s.f32(1, 64, 64),
                               nullptr, nullptr, at<float>(y), 64, false},
                              {x}, {y});
        s.add<OpCode::Router>({at<float>(logits), 64, nullptr, nullptr,
                               at<int32_t>(ids), at<float>(weights), 64, 6, 1,
                               1, 1, Scoring::Softmax, false, 1},
                              {logits}, {ids, weights});
        s.add<OpCode::ExpertGroup>(
            {at<int32_t>(ids), at<int32_t>(offsets), at<int32_t>(slots), 64, 6},
            {ids}, {offsets, slots});
      },
      "gemm_1_f32__router__all_expert_group");
}

// The results of experts are combined tile by tile, in the order of a token's
// choices.
TEST(FuseTest, ExpertsAreCombinedTileByTile) {
  expectOneLaunch(
      [](Scene &s) {
        int64_t cols = 1024;
        s.form(Encoding::A8, Layout::Rows16);
        uint64_t act = s.codes(4 * a8RowBytes(256)), y = s.out(4 * cols * 4);
        uint64_t offsets = s.ints({0, 1, 1, 3, 3, 4}), x = s.inOut(cols);
        uint64_t slots = s.ints({2, 0, 3, 1}), weights = s.floats(4);
        uint64_t normed = s.out(cols * 4);
        s.add<OpCode::ExpertsLinear>({at<uint8_t>(act), a8RowBytes(256),
                                      s.q8(5, cols, 256), nullptr, nullptr,
                                      at<int32_t>(offsets), at<int32_t>(slots),
                                      at<float>(y), cols, 4, false},
                                     {act, offsets, slots}, {y});
        s.form({}, {});
        s.add<OpCode::ExpertsCombine>(
            {at<float>(y), at<float>(weights), at<float>(x), cols, 4, true},
            {y, weights}, {x});
        s.add<OpCode::RmsNorm>({at<float>(x), cols, nullptr, at<float>(normed),
                                cols, 1, false, cols, 1e-5f},
                               {x}, {normed});
      },
      "gemv_experts_1_q8_0__tiles0_experts_combine__all_rms_norm");
}

void smallOnes(Scene &s) {
  uint64_t from = s.floats(128), y = s.out(128 * 4), x = s.inOut(128);
  uint64_t normed = s.out(128 * 4);
  s.add<OpCode::Copy>({at<uint8_t>(from), at<uint8_t>(y), 128 * 4, 0}, {from},
                      {y});
  s.add<OpCode::Add>({at<float>(x), at<float>(y), at<float>(x), 128}, {y}, {x});
  s.add<OpCode::RmsNorm>({at<float>(x), 128, nullptr, at<float>(normed), 128, 1,
                          false, 128, 1e-5f},
                         {x}, {normed});
}

// Without a product, one block may run everything, and needs no counter.
TEST(FuseTest, SmallOnesInOneBlock) {
  expectOneLaunch(smallOnes, "copy__all_add__all_rms_norm");
}

// A launch reads what the host wrote before it set a flag, and sets its own
// flag after its own writes. The software GPU cannot see which memory the host
// uses meanwhile, so this test checks the code.
TEST(FuseTest, FlagsAreInOrderWithTheDataTheySignal) {
  if (!GpuTest::get().compiler)
    GTEST_SKIP() << GpuTest::get().why;
  Scene scene(softgpu::Schedule::Forward, 1, 1);
  smallOnes(scene);
  std::optional<cuda::Launch> launch = scene.fused();
  ASSERT_TRUE(launch);
  auto image = GpuTest::get().compiler->compile({launch->kernel, 89});
  ASSERT_TRUE(image.isOk()) << image.status().message();
  auto count = [&](const std::string &text) {
    size_t found = 0, place = 0;
    for (; (place = image->ptx.find(text, place)) != std::string::npos; ++place)
      ++found;
    return found;
  };
  EXPECT_EQ(count("ld.acquire.sys."), 1u);
  // The head of the step, read after a flag.
  EXPECT_EQ(count("ld.relaxed.sys."), 1u);
  EXPECT_EQ(count("st.release.sys."), 1u);
  // Tells the host that no flag has come.
  EXPECT_EQ(count("st.relaxed.sys."), 1u);
  EXPECT_EQ(count(".sys."), 4u);
}

/// Returns a cache with rows of `width` elements, in the pages of a scene.
KvView cacheOf(Scene &s, uint64_t &cache, int64_t width, KvType type) {
  int64_t bytes = kvRowBytes(type, uint64_t(width));
  cache = s.inOut(256 * bytes / 4);
  return {at<uint8_t>(cache), width, 256, bytes, type};
}

// The instructions for an indexer's key run at the same time as those for the
// latent. Each is one block with several barriers. For sm_120 the compiler puts
// parts of loops after all others.
TEST(FuseTest, RowsOfSeveralCachesBesideEachOther) {
  auto script = [](KvType type) {
    return [type](Scene &s) {
      uint64_t x = s.floats(96), q = s.out(256 * 4), kv = s.out(96 * 4);
      uint64_t key = s.out(128 * 4), qNormed = s.out(256 * 4);
      uint64_t normed = s.out(128 * 4), table = s.floats(32);
      for (auto [to, cols] : {std::pair{q, 256}, {kv, 96}, {key, 128}})
        s.add<OpCode::Linear>({at<uint8_t>(x), 96 * 4, s.f32(1, cols, 96),
                               nullptr, nullptr, at<float>(to), cols, false},
                              {x}, {to});
      s.add<OpCode::RmsNorm>({at<float>(q), 256, nullptr, at<float>(qNormed),
                              256, 1, false, 256, 1e-5f},
                             {q}, {qNormed});
      s.add<OpCode::LayerNorm>({at<float>(key), 128, at<float>(s.floats(128)),
                                at<float>(s.floats(128)), at<float>(normed),
                                128, 128, 1e-5f},
                               {key}, {normed});
      uint64_t latents, keys;
      KvView latentView = cacheOf(s, latents, 96, type);
      KvView keyView = cacheOf(s, keys, 128, type);
      s.add<OpCode::MlaLatent>({at<float>(kv), 96, at<float>(s.floats(64)),
                                at<float>(table), latentView, 64, 32, 1e-5f},
                               {kv, table}, {latents});
      s.add<OpCode::Rope>(
          {at<float>(normed), 128, at<float>(table), 1, 128, 0, 32, true},
          {table}, {normed});
      s.add<OpCode::RowStore>({at<float>(normed), 128, keyView, {}, 1},
                              {normed}, {keys});
    };
  };
  const std::string products = "gemm_1_f32__gemm_1_f32__gemm_1_f32__";
  for (int arch : {75, 89, 120})
    for (auto [type, name] : {std::pair{KvType::F32, "f32"},
                              {KvType::F16, "f16"},
                              {KvType::Q8_0, "q8_0"}})
      expectOneLaunch(script(type),
                      (products +
                       "all_rms_norm__all_layer_norm__all_mla_"
                       "latent_kv_" +
                       name + "__all_rope_neox__all_row_store_kv_" + name)
                          .c_str(),
                      1, 1, arch);
}

// Entries are written by the tokens that complete one.
TEST(FuseTest, EntriesBehindAProduct) {
  for (int32_t ratio : {3, 4})
    expectOneLaunch(
        [&](Scene &s) {
          uint64_t x = s.floats(96), kv = s.out(96 * 4), row = s.out(128 * 4);
          uint64_t entries, latents, table = s.floats(32);
          s.add<OpCode::Linear>({at<uint8_t>(x), 96 * 4, s.f32(1, 96, 96),
                                 nullptr, nullptr, at<float>(kv), 96, false},
                                {x}, {kv});
          s.add<OpCode::Linear>({at<uint8_t>(x), 96 * 4, s.f32(1, 128, 96),
                                 nullptr, nullptr, at<float>(row), 128, false},
                                {x}, {row});
          KvView latentView = cacheOf(s, latents, 96, KvType::F16);
          KvView entryView = cacheOf(s, entries, 128, KvType::F16);
          s.add<OpCode::MlaLatent>({at<float>(kv), 96, at<float>(s.floats(64)),
                                    at<float>(table), latentView, 64, 32,
                                    1e-5f},
                                   {kv, table}, {latents});
          s.add<OpCode::EntryStore>(
              {at<float>(row), 128, at<float>(s.floats(128)),
               at<float>(s.floats(32)), entryView, 128, 64, ratio, 1e-5f},
              {row}, {entries});
        },
        "gemm_1_f32__gemm_1_f32__all_mla_latent_kv_f16__all_entry_store_kv_"
        "f16");
}

// The layer's input is mixed from residual streams as soon as the weights of
// the streams are known.
TEST(FuseTest, WeightsOfStreamsBehindTheirLogits) {
  for (int32_t streams : {4, 8})
    expectOneLaunch(
        [&](Scene &s) {
          int64_t cols = 2 * streams + streams * streams;
          uint64_t x = s.floats(streams * 64), y = s.out(cols * 4);
          uint64_t weights = s.out(cols * 4), out = s.out(64 * 4);
          s.add<OpCode::Linear>({at<uint8_t>(x), streams * 64 * 4,
                                 s.f32(1, cols, streams * 64), nullptr, nullptr,
                                 at<float>(y), cols, false},
                                {x}, {y});
          s.add<OpCode::HyperWeights>(
              {at<float>(y), cols, at<float>(s.floats(3)),
               at<float>(s.floats(cols)), at<float>(weights), cols, cols,
               streams, 20, 1e-6f},
              {y}, {weights});
          s.add<OpCode::HyperCollapse>({at<float>(x), streams * 64,
                                        at<float>(weights), cols,
                                        at<float>(out), 64, 64, streams},
                                       {x, weights}, {out});
        },
        "gemm_1_f32__all_hyper_weights__all_hyper_collapse");
}

/// Adds two products. The second reads `y`, the result of the first, if
/// `isChain` is set.
void twoProducts(Scene &s, bool isChain) {
  uint64_t x = s.floats(64), y = s.out(64 * 4), z = s.out(64 * 4);
  s.add<OpCode::Linear>({at<uint8_t>(x), 64 * 4, s.f32(1, 64, 64), nullptr,
                         nullptr, at<float>(y), 64, false},
                        {x}, {y});
  uint64_t from = isChain ? y : x;
  s.add<OpCode::Linear>({at<uint8_t>(from), 64 * 4, s.f32(1, 64, 64), nullptr,
                         nullptr, at<float>(z), 64, false},
                        {from}, {z});
}

// No block may wait for another, so a product that reads another's result
// begins a new launch.
TEST(FuseTest, AProductOfAnothersResultIsALaunchOfItsOwn) {
  Scene apart(softgpu::Schedule::Forward, 1, 1);
  twoProducts(apart, true);
  EXPECT_FALSE(apart.fused());
  Scene beside(softgpu::Schedule::Forward, 1, 1);
  twoProducts(beside, false);
  EXPECT_TRUE(beside.fused());
}

// A piece that one block runs alone must not take longer than a launch. With
// many rows, a launch costs little in comparison.
TEST(FuseTest, WhatTakesLongIsALaunchOfItsOwn) {
  auto norms = [](int32_t maxTokens, int32_t groups) {
    Scene s(softgpu::Schedule::Forward, 1, maxTokens);
    // Rows of 60 columns are multiplied by one launch for any number of tokens.
    int64_t cols = 64 * groups, inner = 60;
    uint64_t x = s.floats(maxTokens * inner), y = s.out(maxTokens * cols * 4);
    s.add<OpCode::Linear>({at<uint8_t>(x), inner * 4, s.f32(1, cols, inner),
                           nullptr, nullptr, at<float>(y), cols, false},
                          {x}, {y});
    s.add<OpCode::RmsNorm>({at<float>(y), cols, nullptr, at<float>(y), cols,
                            groups, false, 64, 1e-5f},
                           {}, {y});
    return s.fused().has_value();
  };
  EXPECT_TRUE(norms(1, 8));
  EXPECT_FALSE(norms(1, 9));
  EXPECT_TRUE(norms(8, 1));
  EXPECT_FALSE(norms(9, 1));
}

// Bytes that are reused: a tile's end must not overwrite what other tiles'
// blocks still read.
TEST(FuseTest, ReusedMemoryWaitsForAllBlocks) {
  Scene s(softgpu::Schedule::Forward, 1, 1);
  uint64_t x = s.floats(1024), y = s.out(1024 * 4);
  s.add<OpCode::Linear>({at<uint8_t>(x), 1024 * 4, s.f32(1, 1024, 1024),
                         nullptr, nullptr, at<float>(y), 1024, false},
                        {x}, {y});
  s.size(x, a8RowBytes(1024));
  s.add<OpCode::Quantize>(
      {at<float>(y), 1024, at<uint8_t>(x), a8RowBytes(1024), 1024, 1, 32}, {y},
      {x});
  std::optional<cuda::Launch> launch = s.fused();
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->kernel.entry, "fused__gemm_1_f32__all_quantize_32");
}

// Code that watches a router reads its choices after the launch.
TEST(FuseTest, ChoicesAreNotOverwritten) {
  auto isOne = [](bool reuses) {
    Scene s(softgpu::Schedule::Forward, 1, 1);
    uint64_t logits = s.floats(64), ids = s.out(24), weights = s.out(24);
    uint64_t normed = s.out(24);
    s.add<OpCode::Router>({at<float>(logits), 64, nullptr, nullptr,
                           at<int32_t>(ids), at<float>(weights), 64, 6, 1, 1, 1,
                           Scoring::Softmax, false, 1},
                          {logits}, {ids, weights});
    uint64_t to = reuses ? ids : normed;
    s.add<OpCode::RmsNorm>(
        {at<float>(weights), 6, nullptr, at<float>(to), 6, 1, false, 6, 1e-5f},
        {weights}, {to});
    return s.fused().has_value();
  };
  EXPECT_TRUE(isOne(false));
  EXPECT_FALSE(isOne(true));
}

} // namespace
