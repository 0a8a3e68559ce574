//===- FuseAttentionTest.cpp - KV splits combined in their launch ---------===//
//
// Of the blocks that read a head of keys and values, the one that ends last
// combines the splits of its queries, and goes on with what needs only these.
//
//===----------------------------------------------------------------------===//

#include "test/kernels/cuda/FuseScene.h"

using namespace moek;
using namespace moek::test;

namespace {

struct Heads {
  int32_t heads, kvHeads, columns, splits;
  KvType type = KvType::F16;
  int32_t window = 0;
};

/// Attention of `tokens` rows and the combination of its splits; then their
/// quantisation, if `isQuantized`.
Script attention(const Heads &h, bool isQuantized = false) {
  return [=](Scene &s) {
    int64_t tokens = s.maxTokens(), cols = int64_t(h.heads) * h.columns;
    int64_t width = gqaKvWidth(h.kvHeads, h.columns, h.columns);
    int64_t stride = int64_t(h.heads) * (h.columns + 2), capacity = 1024;
    int64_t bytes = kvBytes(h.type, width, capacity);
    uint64_t q = s.floats(tokens * cols), kv = s.codes(bytes);
    uint64_t spans = s.unread(tokens * h.splits * stride * 4);
    uint64_t out = s.out(tokens * cols * 4);
    AttentionArgs args{};
    args.q = at<float>(q), args.qStride = cols;
    args.kv = {at<uint8_t>(kv), width, capacity, kvRowBytes(h.type, width),
               h.type};
    args.out = at<float>(spans), args.outStride = stride;
    args.heads = h.heads, args.kvHeads = h.kvHeads;
    args.key = args.value = h.columns;
    args.splits = h.splits, args.window = h.window, args.scale = 0.1f;
    s.add<OpCode::Attention>(args, {q, kv}, {spans});
    s.add<OpCode::CombineSplits>({at<float>(spans), stride, at<float>(out),
                                  cols, h.heads, h.columns, h.splits, h.window},
                                 {spans}, {out});
    if (!isQuantized)
      return;
    uint64_t codes = s.out(tokens * a8RowBytes(cols));
    s.add<OpCode::Quantize>({at<float>(out), cols, at<uint8_t>(codes),
                             a8RowBytes(cols), cols, 1, 32},
                            {out}, {codes});
  };
}

// One token, whose splits are 64 rows or more; the last has a few.
TEST(FuseAttentionTest, SplitsAreCombinedHeadByHead) {
  for (int arch : {80, 89})
    expectOneLaunch(
        attention({16, 2, 64, 5}),
        "flash_decode8_8x64_64_kv_f16_pairs__tiles0_combine_heads_64_2", 1, 1,
        arch, 300);
}

// More splits than are loaded at once, and than a warp has lanes.
TEST(FuseAttentionTest, ManySplits) {
  expectOneLaunch(
      attention({2, 1, 32, 40, KvType::BF16}),
      "flash_decode8_2x32_32_kv_bf16_pairs__tiles0_combine_heads_32_1", 1, 1,
      89, 999);
}

// A token's heads have tiles of their own, of which all are waited for.
TEST(FuseAttentionTest, MoreQueriesThanATile) {
  expectOneLaunch(
      attention({24, 1, 128, 3, KvType::Q8_0}),
      "flash_decode16_24x128_128_kv_q8_0_pairs__tiles0_combine_heads_128_4", 1,
      1, 89, 190);
  expectOneLaunch(
      attention({12, 2, 64, 3}),
      "flash_decode16_6x64_64_kv_f16_pairs__tiles0_combine_heads_64_2", 3, 4,
      89, 189);
}

// The window's splits begin at a multiple of sixteen rows.
TEST(FuseAttentionTest, SplitsOfAWindow) {
  Heads h{8, 2, 64, 3};
  h.window = 130;
  expectOneLaunch(
      attention(h),
      "flash_decode8_4x64_64_kv_f16_pairs__tiles0_combine_heads_64_2", 1, 1, 89,
      500);
}

// A float cache, whose kernel has fewer queries a tile.
TEST(FuseAttentionTest, SplitsOfFloats) {
  expectOneLaunch(attention({4, 2, 32, 3, KvType::F32}),
                  "attention_32_kv_f32__tiles0_combine_heads_32_1", 1, 1, 89,
                  150);
}

// The columns of a KV head's queries are whole tiles of Quantize.
TEST(FuseAttentionTest, CodesBehindTheCombination) {
  expectOneLaunch(
      attention({16, 2, 64, 3}, true),
      "flash_decode8_8x64_64_kv_f16_pairs__tiles0_combine_heads_64_2__"
      "tiles1_quantize_32",
      1, 1, 89, 180);
}

// Heads of 32 columns are not quantised early: they wait for all three.
TEST(FuseAttentionTest, CodesOfHeadsThatAreNotWholeTiles) {
  expectOneLaunch(
      attention({6, 2, 32, 3}, true),
      "flash_decode8_3x32_32_kv_f16_pairs__tiles0_combine_heads_32_1__"
      "all_quantize_32",
      1, 1, 89, 180);
}

// One block must not combine what takes longer than a launch.
TEST(FuseAttentionTest, ManyTokensAreCombinedByALaunchOfTheirOwn) {
  for (auto [tokens, isOne] : {std::pair{4, true}, {5, false}}) {
    Scene s(softgpu::Schedule::Forward, 1, tokens);
    attention({8, 1, 128, 3})(s);
    EXPECT_EQ(s.fused().has_value(), isOne) << tokens;
  }
}

// Two teams of warps on a latent have barriers of their own: in no order of
// warps is one released by the other's.
TEST(FuseAttentionTest, TeamsOfWarpsInAnyOrder) {
  if (!GpuTest::get().compiler)
    GTEST_SKIP() << GpuTest::get().why;
  constexpr int32_t kHeads = 32, kLatent = 64, kRope = 64;
  constexpr int64_t kWidth = kLatent + kRope, kCapacity = 192;
  std::vector<uint8_t> expected;
  for (softgpu::Schedule schedule :
       {softgpu::Schedule::Forward, softgpu::Schedule::Reversed,
        softgpu::Schedule::Shuffled}) {
    Scene s(schedule, 1, 1, 89, 100);
    uint64_t q = s.floats(kHeads * kWidth);
    uint64_t kv = s.codes(kCapacity * kWidth * 2);
    uint64_t out = s.out(kHeads * kLatent * 4);
    s.add<OpCode::LatentAttention>(
        {at<float>(q),
         kHeads * kWidth,
         {at<uint8_t>(kv), kWidth, kCapacity, kWidth * 2, KvType::F16},
         at<float>(out),
         kHeads * kLatent,
         kHeads,
         kLatent,
         kRope,
         1,
         0.1f},
        {q, kv}, {out});
    std::vector<uint8_t> found = s.runOneByOne();
    if (expected.empty())
      expected = found;
    EXPECT_EQ(found, expected);
  }
}

} // namespace
