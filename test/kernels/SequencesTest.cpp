// Steps with rows of several sequences, whose cache pages are in arbitrary
// places: every bit must equal that of each sequence alone, in its own cache.
#include "kernels/Ring.h"
#include "test/kernels/GroupedAttention.h"
#include "test/kernels/Phase.h"

#include <numeric>

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(RopeTableSequencesTest, RopeTable);
MOE_KERNEL_SUITE(PositionScaleSequencesTest, PositionScale);
MOE_KERNEL_SUITE(MlaLatentSequencesTest, MlaLatent);
MOE_KERNEL_SUITE(LatentAttentionSequencesTest, LatentAttention);
MOE_KERNEL_SUITE(MlaAttentionSequencesTest, MlaAttention);
MOE_KERNEL_SUITE(KvStoreSequencesTest, KvStore);
MOE_KERNEL_SUITE(AttentionSequencesTest, Attention);

/// A sequence's rows in a step, and its rows before.
struct Lengths {
  int32_t count, position;
};

/// One decoding row, a chunk in the middle of a prompt, and the start of a
/// prompt. Lengths end before, at and after the boundaries of pages and groups.
const std::vector<Lengths> kMixed = {{1, 130}, {40, 44}, {1, 0},
                                     {19, 0},  {1, 63},  {2, 300}};
const std::vector<Lengths> kDecode = {{1, 700}, {1, 64}, {1, 511}};

/// A step, and the pages of its sequences, which are taken from a pool in
/// random order with unused ones in between.
class PagedStep {
public:
  PagedStep(const std::vector<Lengths> &lengths, Random &random) {
    for (const Lengths &each : lengths)
      pageCount += pagesOf(each);
    pageCount += 3;
    std::vector<int32_t> order(size_t(pageCount), 0);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i-- > 1;)
      std::swap(order[i], order[size_t(random.below(int(i + 1)))]);
    int64_t next = 0;
    for (const Lengths &each : lengths) {
      pages.emplace_back(order.begin() + next,
                         order.begin() + next + pagesOf(each));
      next += pagesOf(each);
    }
    for (size_t i = 0; i < lengths.size(); ++i) {
      rows.push_back(
          {tokens, lengths[i].count, lengths[i].position, pages[i].data()});
      tokens += lengths[i].count;
    }
  }

  Step step() const { return {tokens, 0, rows.data(), int32_t(rows.size())}; }
  /// Sequence i's rows as a step of their own, with the cache's first pages.
  static Step alone(const SequenceRows &rows) {
    return {rows.count, rows.position};
  }

  int32_t tokens = 0;
  int64_t pageCount = 0;
  std::vector<SequenceRows> rows;
  std::vector<std::vector<int32_t>> pages;

private:
  static int64_t pagesOf(const Lengths &each) {
    return (each.position + each.count + kKvPage - 1) / kKvPage;
  }
};

/// Bytes between rows, with which they are copied sixteen bytes at a time.
constexpr int64_t kGap = 16;

uint8_t *pageOf(const KvView &kv, int64_t page) {
  return kv.data + page * kKvPage * kv.rowStride;
}

/// Copies the pool's pages of sequence i to a cache of its own.
Cache ownCache(const PagedStep &paged, size_t i, const Cache &pool,
               Random &random) {
  const std::vector<int32_t> &pages = paged.pages[i];
  int64_t capacity = int64_t(pages.size()) * kKvPage;
  Cache own(pool.view.type, pool.view.width, capacity, 0, random, kGap);
  for (size_t p = 0; p < pages.size(); ++p)
    std::memcpy(pageOf(own.view, int64_t(p)), pageOf(pool.view, pages[p]),
                size_t(kKvPage * pool.view.rowStride));
  return own;
}

/// A pool in which every row is filled: of its sequences, and of others.
Cache filledPool(const PagedStep &paged, KvType type, int64_t width,
                 Random &random) {
  int64_t rows = paged.pageCount * kKvPage;
  return Cache(type, width, rows, rows, random, kGap);
}

void expectRows(const Matrix<float> &got, int64_t first,
                const Matrix<float> &want) {
  for (int64_t r = 0; r < want.rows; ++r)
    ASSERT_EQ(std::memcmp(got.row(first + r), want.row(r),
                          size_t(want.cols) * sizeof(float)),
              0)
        << "row " << first + r;
}

TEST_P(RopeTableSequencesTest, AsAlone) {
  Random random(51);
  PagedStep paged(kMixed, random);
  const float invFreq[] = {1, 0.1f, 0.001f};
  Matrix<float> out(paged.tokens, 6);
  RopeTableArgs args{invFreq, 6, out.data(), 1};
  runKernel(GetParam(), &args, paged.step(), 0, {&out});
  for (const SequenceRows &rows : paged.rows) {
    Matrix<float> alone(rows.count, 6);
    args.out = alone.data();
    runKernel(GetParam(), &args, PagedStep::alone(rows), 0, {&alone});
    expectRows(out, rows.begin, alone);
  }
}

TEST_P(PositionScaleSequencesTest, AsAlone) {
  Random random(53);
  PagedStep paged(kMixed, random);
  Matrix<float> x(paged.tokens, 20), out(paged.tokens, 20);
  x.fill(random);
  PositionScaleArgs args{x.data(), out.data(), 20, 3, 1, 0.2f};
  runKernel(GetParam(), &args, paged.step(), 0, {&out});
  for (const SequenceRows &rows : paged.rows) {
    Matrix<float> alone(rows.count, 20);
    args.x = x.row(rows.begin), args.out = alone.data();
    runKernel(GetParam(), &args, PagedStep::alone(rows), 0, {&alone});
    expectRows(out, rows.begin, alone);
  }
}

TEST_P(MlaLatentSequencesTest, AsAlone) {
  Random random(52);
  int32_t latent = 96, rope = 8;
  PagedStep paged(kMixed, random);
  Matrix<float> x(paged.tokens, latent + rope, 3), weight(1, latent);
  Matrix<float> table(paged.tokens, rope);
  x.fill(random);
  weight.fill(random);
  table.fill(random);
  for (KvType type : kKvTypes) {
    SCOPED_TRACE(testing::Message() << "type " << int(type));
    Cache pool = filledPool(paged, type, latent + rope, random);
    std::vector<Cache> own;
    for (size_t i = 0; i < paged.rows.size(); ++i)
      own.push_back(ownCache(paged, i, pool, random));
    std::vector<std::vector<uint8_t>> before;
    for (int64_t r = 0; r < pool.view.capacity; ++r)
      before.push_back(pool.rowBytes(r));
    pool.memory.keepAsInitial();
    MlaLatentArgs args{x.data(),  x.stride, weight.data(), table.data(),
                       pool.view, latent,   rope,          1e-6f};
    runKernel(GetParam(), &args, paged.step(), 0, {&pool.memory});
    std::vector<bool> written(before.size(), false);
    for (size_t i = 0; i < paged.rows.size(); ++i) {
      const SequenceRows &rows = paged.rows[i];
      args.x = x.row(rows.begin);
      args.table = table.row(rows.begin);
      args.kv = own[i].view;
      own[i].memory.keepAsInitial();
      runKernel(GetParam(), &args, PagedStep::alone(rows), 0, {&own[i].memory});
      for (int32_t p = rows.position; p < rows.position + rows.count; ++p) {
        int64_t row = SequenceCache{pool.view, rows.pages}.row(p);
        EXPECT_EQ(pool.rowBytes(row), own[i].rowBytes(p)) << "position " << p;
        written[size_t(row)] = true;
      }
    }
    for (size_t r = 0; r < before.size(); ++r)
      if (!written[r]) {
        EXPECT_EQ(pool.rowBytes(int64_t(r)), before[r]) << "row " << r;
      }
  }
}

TEST_P(KvStoreSequencesTest, AsAlone) {
  Random random(55);
  int32_t heads = 2, key = 24, value = 72;
  PagedStep paged(kMixed, random);
  Matrix<float> k(paged.tokens, heads * key, 3);
  Matrix<float> v(paged.tokens, heads * value, 1);
  k.fill(random);
  v.fill(random);
  for (KvType type : kKvTypes) {
    SCOPED_TRACE(testing::Message() << "type " << int(type));
    Cache pool = filledPool(paged, type, gqaKvWidth(heads, key, value), random);
    KvStoreArgs args{k.data(),  k.stride, v.data(), v.stride,
                     pool.view, heads,    key,      value};
    runKernel(GetParam(), &args, paged.step(), 0, {&pool.memory});
    for (size_t i = 0; i < paged.rows.size(); ++i) {
      const SequenceRows &rows = paged.rows[i];
      Cache own = ownCache(paged, i, pool, random);
      args.k = k.row(rows.begin);
      args.v = v.row(rows.begin);
      args.kv = own.view;
      own.memory.keepAsInitial();
      runKernel(GetParam(), &args, PagedStep::alone(rows), 0, {&own.memory});
      for (int32_t p = 0; p < rows.position + rows.count; ++p) {
        int64_t row = SequenceCache{pool.view, rows.pages}.row(p);
        EXPECT_EQ(pool.rowBytes(row), own.rowBytes(p)) << "position " << p;
      }
    }
  }
}

/// Gives every sequence of the step a ring, in another order than the
/// sequences.
Cache ringsOf(PagedStep &paged, KvType type, int64_t width, int64_t ring,
              Random &random) {
  auto count = int32_t(paged.rows.size());
  for (int32_t i = 0; i < count; ++i)
    paged.rows[size_t(i)].state = count - 1 - i;
  return Cache(type, width, count * ring, count * ring, random, kGap);
}

// Rows stored in rings equal those stored in pages.
TEST_P(KvStoreSequencesTest, RingsAsPages) {
  Random random(57);
  int32_t heads = 2, key = 24, value = 72;
  PagedStep paged(kMixed, random);
  Matrix<float> k(paged.tokens, heads * key, 3);
  Matrix<float> v(paged.tokens, heads * value, 1);
  k.fill(random);
  v.fill(random);
  const int64_t width = gqaKvWidth(heads, key, value);
  const auto ring = int32_t(kvRingRows(20, paged.tokens));
  for (KvType type : kKvTypes) {
    SCOPED_TRACE(testing::Message() << "type " << int(type));
    Cache pool = filledPool(paged, type, width, random);
    Cache rings = ringsOf(paged, type, width, ring, random);
    KvStoreArgs args{k.data(),  k.stride, v.data(), v.stride,
                     pool.view, heads,    key,      value};
    runKernel(GetParam(), &args, paged.step(), 0, {&pool.memory});
    args.kv = rings.view;
    args.ring = ring;
    rings.memory.keepAsInitial();
    std::vector<std::vector<uint8_t>> before;
    for (int64_t r = 0; r < rings.view.capacity; ++r)
      before.push_back(rings.rowBytes(r));
    runKernel(GetParam(), &args, paged.step(), 0, {&rings.memory});
    for (const SequenceRows &rows : paged.rows)
      for (int32_t p = rows.position; p < rows.position + rows.count; ++p) {
        int64_t row = rows.state * ring + p % ring;
        EXPECT_EQ(rings.rowBytes(row),
                  pool.rowBytes(SequenceCache{pool.view, rows.pages}.row(p)))
            << "position " << p;
        before[size_t(row)] = rings.rowBytes(row);
      }
    for (size_t r = 0; r < before.size(); ++r)
      EXPECT_EQ(rings.rowBytes(int64_t(r)), before[r]) << "row " << r;
  }
}

/// Attention on rings must equal attention on pages.
void checkRings(const KernelInfo &kernel, const std::vector<Lengths> &lengths,
                int32_t splits, int32_t window) {
  Random random(58);
  int32_t heads = 6, kvHeads = 2, key = 72, value = 40;
  PagedStep paged(lengths, random);
  Matrix<float> q(paged.tokens, heads * key, 5);
  q.fill(random);
  const int64_t width = gqaKvWidth(kvHeads, key, value);
  // Whole tiles are copied.
  const auto ring = int32_t(kvRingRows(window + kKvTile, paged.tokens));
  for (KvType type : kKvTypes) {
    SCOPED_TRACE(testing::Message() << "type " << int(type));
    Cache pool = filledPool(paged, type, width, random);
    Cache rings = ringsOf(paged, type, width, ring, random);
    for (const SequenceRows &rows : paged.rows) {
      int64_t first = std::max(0, rows.position + 1 - window);
      for (int64_t p = first / kKvTile * kKvTile;
           p < rows.position + rows.count; p += kKvTile) {
        int64_t from = SequenceCache{pool.view, rows.pages}.row(p);
        int64_t to = rows.state * ring + p % ring;
        std::memcpy(rings.view.data + to * rings.view.rowStride,
                    pool.view.data + from * pool.view.rowStride,
                    size_t(kKvTile * pool.view.rowStride));
      }
    }
    AttentionArgs args{};
    args.q = q.data();
    args.qStride = q.stride;
    args.heads = heads, args.kvHeads = kvHeads;
    args.key = key, args.value = value;
    args.splits = splits, args.window = window;
    args.scale = 0.2f;
    args.kv = pool.view;
    Matrix<float> want(paged.tokens, heads * value, 3);
    runAttention(kernel, args, paged.step(), want);
    args.kv = rings.view;
    args.ring = ring;
    Matrix<float> got(paged.tokens, heads * value, 3);
    runAttention(kernel, args, paged.step(), got);
    expectRows(got, 0, want);
  }
}

TEST_P(AttentionSequencesTest, RingsAsPages) {
  checkRings(GetParam(), kMixed, 1, 50);
  checkRings(GetParam(), kDecode, 3, 140);
}

void checkGrouped(const KernelInfo &kernel, const std::vector<Lengths> &lengths,
                  int32_t splits, int32_t window) {
  Random random(56);
  int32_t heads = 6, kvHeads = 2, key = 72, value = 40;
  PagedStep paged(lengths, random);
  Matrix<float> q(paged.tokens, heads * key, 5), sinks(1, heads);
  q.fill(random);
  sinks.fill(random);
  for (KvType type : kKvTypes) {
    SCOPED_TRACE(testing::Message() << "type " << int(type));
    Cache pool =
        filledPool(paged, type, gqaKvWidth(kvHeads, key, value), random);
    auto run = [&](const float *rows, const KvView &kv, const Step &step) {
      Matrix<float> out(step.tokens, heads * value, 3);
      AttentionArgs args{};
      args.q = rows;
      args.qStride = q.stride;
      args.kv = kv;
      args.sinks = sinks.data();
      args.heads = heads, args.kvHeads = kvHeads;
      args.key = key, args.value = value;
      args.splits = splits, args.window = window;
      args.scale = 0.2f;
      runAttention(kernel, args, step, out);
      return out;
    };
    Matrix<float> out = run(q.data(), pool.view, paged.step());
    phase() = {paged.tokens, int32_t(paged.rows.size())};
    for (size_t i = 0; i < paged.rows.size(); ++i) {
      const SequenceRows &rows = paged.rows[i];
      Cache own = ownCache(paged, i, pool, random);
      expectRows(out, rows.begin,
                 run(q.row(rows.begin), own.view, PagedStep::alone(rows)));
    }
    phase() = {};
  }
}

TEST_P(AttentionSequencesTest, AsAlone) {
  checkGrouped(GetParam(), kMixed, 1, 0);
  checkGrouped(GetParam(), kMixed, 1, 50);
}

TEST_P(AttentionSequencesTest, SpansAreEachSequences) {
  checkGrouped(GetParam(), kDecode, 5, 0);
  checkGrouped(GetParam(), kMixed, 3, 140);
}

void checkLatent(const KernelInfo &kernel, const std::vector<Lengths> &lengths,
                 int32_t splits) {
  Random random(53);
  int32_t heads = 5, latent = 96, rope = 16;
  PagedStep paged(lengths, random);
  Matrix<float> q(paged.tokens, heads * (latent + rope), 5);
  q.fill(random);
  size_t scratch = size_t(latentAttentionScratchBytes(heads, latent, rope));
  auto run = [&](LatentAttentionArgs args, Step step) {
    Matrix<float> out(step.tokens, heads * latent, 3);
    Matrix<float> spans(step.tokens * splits, heads * (latent + 2), 3);
    Matrix<float> &to = splits > 1 ? spans : out;
    args.out = to.data();
    args.outStride = to.stride;
    runKernel(kernel, &args, step, scratch, {&to});
    CombineSplitsArgs combine{spans.data(), spans.stride, out.data(),
                              out.stride,   heads,        latent,
                              splits};
    for (const KernelInfo &other : kernelsOf(OpCode::CombineSplits))
      if (splits > 1 && other.isa == kernel.isa)
        runKernel(other, &combine, step, 0, {&out});
    return out;
  };
  for (KvType type : kKvTypes) {
    SCOPED_TRACE(testing::Message() << "type " << int(type));
    Cache pool = filledPool(paged, type, latent + rope, random);
    LatentAttentionArgs args{q.data(), q.stride, pool.view, nullptr, 0,
                             heads,    latent,   rope,      splits,  0.2f};
    Matrix<float> out = run(args, paged.step());
    for (size_t i = 0; i < paged.rows.size(); ++i) {
      const SequenceRows &rows = paged.rows[i];
      Cache own = ownCache(paged, i, pool, random);
      args.q = q.row(rows.begin);
      args.kv = own.view;
      expectRows(out, rows.begin, run(args, PagedStep::alone(rows)));
    }
  }
}

TEST_P(LatentAttentionSequencesTest, AsAlone) {
  checkLatent(GetParam(), kMixed, 1);
}

TEST_P(LatentAttentionSequencesTest, SpansAreEachSequences) {
  checkLatent(GetParam(), kDecode, 5);
  checkLatent(GetParam(), kMixed, 3);
}

TEST_P(MlaAttentionSequencesTest, AsAlone) {
  Random random(54);
  int32_t heads = 3, nope = 48, rope = 16, latent = 64, value = 40;
  PagedStep paged(kMixed, random);
  Matrix<float> q(paged.tokens, heads * (nope + rope), 5);
  Matrix<float> out(paged.tokens, heads * value, 3);
  q.fill(random);
  Weights wk(Format::F32, heads, nope, latent, random);
  Weights wv(Format::F32, heads, value, latent, random);
  GemmFn gemm = resolveGemm(gemmFor(Format::F32, Encoding::F32, Isa::Ref).name);
  size_t scratch = size_t(mlaAttentionScratchBytes(nope, rope, latent, value));
  for (KvType type : kKvTypes) {
    SCOPED_TRACE(testing::Message() << "type " << int(type));
    Cache pool = filledPool(paged, type, latent + rope, random);
    MlaAttentionArgs args{q.data(),   q.stride,   pool.view, wk.view,
                          gemm,       wv.view,    gemm,      Encoding::F32,
                          out.data(), out.stride, heads,     nope,
                          rope,       latent,     value,     0.15f};
    runKernel(GetParam(), &args, paged.step(), scratch, {&out});
    phase() = {paged.tokens, int32_t(paged.rows.size())};
    for (size_t i = 0; i < paged.rows.size(); ++i) {
      const SequenceRows &rows = paged.rows[i];
      Cache own = ownCache(paged, i, pool, random);
      Matrix<float> alone(rows.count, heads * value, 3);
      args.q = q.row(rows.begin);
      args.kv = own.view;
      args.out = alone.data();
      runKernel(GetParam(), &args, PagedStep::alone(rows), scratch, {&alone});
      expectRows(out, rows.begin, alone);
      args.out = out.data();
    }
    phase() = {};
  }
}

} // namespace
