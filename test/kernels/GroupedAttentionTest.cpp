// Attention whose heads share keys and values, compared with float64.
#include "test/kernels/GroupedAttention.h"

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(AttentionTest, Attention);
MOE_KERNEL_SUITE(KvStoreTest, KvStore);

struct Case {
  int32_t heads, kvHeads, key, value, tokens, position;
  int32_t window = 0, splits = 1;
  float softcap = 0;
  /// Magnitude of the sinks, which have either sign; 0: no sinks.
  float sinks = 0;
  /// A cache row and a query token of the first head that are NaN, and a row
  /// whose value is.
  int64_t nanRow = -1, nanQuery = -1, nanValue = -1;
  float scale = 0.2f;
  int64_t gap = 16; ///< Bytes between two rows of the cache.
  float size = 1;   ///< Factor of the queries.
};

class Checked {
public:
  Checked(const KernelInfo &kernel, KvType type, const Case &c)
      : kernel(kernel), c(c), random(uint32_t(c.heads * 131 + c.position)),
        rows(c.position + c.tokens), q(c.tokens, c.heads * c.key, 5),
        out(c.tokens, c.heads * c.value, 3), sinks(1, c.heads),
        cache(type, gqaKvWidth(c.kvHeads, c.key, c.value), rows + 70, rows,
              random, c.gap),
        rounding(roundingOf(kernel, type)) {
    q.fill(random, c.size);
    for (int64_t h = 0; h < c.heads; ++h)
      sinks.at(0, h) = (h % 3 == 1 ? -1 : 1) * c.sinks;
    spoilUnseen();
    if (c.nanRow >= 0)
      cache.set(c.nanRow, 0, NAN);
    if (c.nanQuery >= 0)
      q.at(c.nanQuery, 1) = NAN;
    if (c.nanValue >= 0)
      cache.set(c.nanValue, valueColumn(0, c.kvHeads, c.key, c.value), NAN);
  }

  void run() {
    AttentionArgs args{};
    args.q = q.data();
    args.qStride = q.stride;
    args.kv = cache.view;
    args.sinks = c.sinks != 0 ? sinks.data() : nullptr;
    args.heads = c.heads, args.kvHeads = c.kvHeads;
    args.key = c.key, args.value = c.value;
    args.splits = c.splits, args.window = c.window;
    args.scale = c.scale, args.softcap = c.softcap;
    runAttention(kernel, args, {c.tokens, c.position}, out);
    std::vector<Attention> attentions;
    for (int64_t t = 0; t < c.tokens; ++t)
      for (int64_t h = 0; h < c.heads; ++h)
        attentions.push_back(attentionOf(t, h));
    expectClose(out, [&](int64_t t, int64_t column) {
      int64_t head = column / c.value;
      int64_t at = valueColumn(group(head), c.kvHeads, c.key, c.value) +
                   column % c.value;
      return wanted(attentions[size_t(t * c.heads + head)], t, at);
    });
  }

private:
  int64_t group(int64_t head) const { return head / (c.heads / c.kvHeads); }
  double gpuError() const {
    return gpuRounding(kernel, cache.view.type, c.tokens);
  }
  int64_t firstSeen(int64_t token) const {
    return c.window ? std::max<int64_t>(0, c.position + token + 1 - c.window)
                    : 0;
  }

  /// Makes rows after the last token, and those that no window reaches, NaN or
  /// large: no kernel may read them.
  void spoilUnseen() {
    for (int64_t row = 0; row < cache.view.capacity; ++row) {
      if (row >= firstSeen(0) && row < rows)
        continue;
      cache.fill(row, [](int64_t) { return 1e4f; });
      for (int64_t column = 0; row % 3 != 0 && column < cache.view.width;
           column += kKvBlock)
        cache.set(row, column, NAN);
    }
  }

  Attention attentionOf(int64_t t, int64_t h) const {
    const float *head = q.row(t) + h * c.key;
    std::vector<double> query =
        rounding ? rounded(head, c.key, float(rounding->query))
                 : std::vector<double>(head, head + c.key);
    int64_t column = keyColumn(group(h), c.key);
    AttentionRules rules;
    rules.begin = firstSeen(t);
    rules.cap = c.softcap;
    if (c.sinks != 0)
      rules.sink = sinks.at(0, h);
    return {c.position + t + 1, double(c.scale), double(c.key),
            [&](int64_t k) {
              Sum sum;
              for (int64_t i = 0; i < c.key; ++i)
                sum.add(query[size_t(i)] * cache.at(k, column + i));
              sum.error = gpuError() * sum.magnitude;
              return sum;
            },
            rules};
  }

  Wanted wanted(const Attention &attention, int64_t t, int64_t column) const {
    Wanted w = attention.output(0, [&](int64_t k) {
      Sum v;
      if (k < firstSeen(t))
        return v;
      v.add(cache.at(k, column), 0);
      v.error = gpuError() * std::fabs(v.value);
      return v;
    });
    if (!rounding)
      return w;
    w.tolerance += 1e-29; // Weights below 1e-30 are zero.
    WeightRounding weights{cache, rounding->bytes, attention.weights};
    int64_t end = c.position + t + 1;
    auto [base, length] = groupsOf(t);
    for (int64_t span = base; span < end; span += length)
      for (int64_t at = span; at < std::min(end, span + length);
           at += kQ8Group) {
        int64_t first = std::max(at, firstSeen(t));
        int64_t last = std::min({end, span + length, at + kQ8Group});
        if (first < last)
          w.tolerance += weights.of(first, last, column);
      }
    return w;
  }

  /// Returns where groups of rows begin: at `base`, and anew in every split of
  /// `length`.
  std::pair<int64_t, int64_t> groupsOf(int64_t t) const {
    auto down = [](int64_t row) { return row / kKvTile * kKvTile; };
    if (c.splits == 1) {
      int64_t tokens = attentionTokens(c.heads / c.kvHeads);
      return {down(firstSeen(t / tokens * tokens)), rows};
    }
    int64_t base = down(firstSeen(0));
    int64_t length = std::max((rows - base + c.splits - 1) / c.splits,
                              leastSplitRows(c.splits));
    return {base, (length + kKvTile - 1) / kKvTile * kKvTile};
  }

  const KernelInfo &kernel;
  const Case c;
  Random random;
  int64_t rows;
  Matrix<float> q, out, sinks;
  Cache cache;
  std::optional<Rounding> rounding;
};

void check(const KernelInfo &kernel, KvType type, const Case &c) {
  SCOPED_TRACE(testing::Message()
               << "type " << int(type) << ", " << c.heads << " heads on "
               << c.kvHeads << ", key " << c.key << ", value " << c.value
               << ", " << c.tokens << " tokens at " << c.position << ", window "
               << c.window << ", " << c.splits << " splits, cap " << c.softcap
               << ", sinks " << c.sinks);
  Checked(kernel, type, c).run();
}

TEST_P(AttentionTest, DecodeAtAnyDepth) {
  for (KvType type : kKvTypes)
    for (int position : {0, 63, 64, 300})
      check(GetParam(), type, {8, 2, 64, 64, 1, position});
}

/// Kernels that copy sixteen bytes at a time need rows that begin at a
/// multiple.
TEST_P(AttentionTest, RowsAtAnyAddress) {
  for (KvType type : kKvTypes)
    for (int tokens : {1, 35}) {
      Case c{4, 2, 24, 40, tokens, 70};
      c.gap = 8;
      check(GetParam(), type, c);
    }
}

/// Queries that F16 cannot represent.
TEST_P(AttentionTest, LargeQueries) {
  for (KvType type : kKvTypes)
    for (int tokens : {1, 35}) {
      Case c{4, 2, 64, 24, tokens, 70};
      c.size = 1.2e6f, c.scale = 1e-6f;
      check(GetParam(), type, c);
    }
}

TEST_P(AttentionTest, HeadSizes) {
  for (KvType type : kKvTypes)
    for (int size : {8, 16, 24, 80, 96, 128, 256}) {
      check(GetParam(), type, {4, 2, size, size, 1, 70});
      check(GetParam(), type, {4, 2, size, size, 19, 40});
    }
}

/// Kernels process four queries at a time, then the others, of a token's heads
/// or of a head's tokens.
TEST_P(AttentionTest, GroupsOfAnySize) {
  for (KvType type : {KvType::F16, KvType::Q8_0})
    for (int group : {1, 2, 3, 4, 5, 7, 8, 9, 16, 20}) {
      check(GetParam(), type, {2 * group, 2, 32, 32, 1, 40});
      check(GetParam(), type, {2 * group, 2, 32, 32, 5, 40});
    }
}

TEST_P(AttentionTest, KeysAndValuesOfOtherSizes) {
  for (KvType type : kKvTypes)
    for (int tokens : {1, 17}) {
      check(GetParam(), type, {6, 2, 72, 40, tokens, 30});
      check(GetParam(), type, {6, 3, 10, 130, tokens, 30});
    }
}

TEST_P(AttentionTest, CausalOverManyTokens) {
  for (KvType type : kKvTypes) {
    check(GetParam(), type, {8, 1, 24, 24, 70, 0});
    check(GetParam(), type, {2, 2, 40, 16, 150, 200});
    check(GetParam(), type, {4, 2, 16, 16, 40, 250});
  }
}

/// Windows begin at, before and after the boundaries of tiles, blocks and
/// groups of rows.
TEST_P(AttentionTest, SlidingWindows) {
  for (KvType type : kKvTypes)
    for (int window : {1, 5, 16, 63, 65, 260}) {
      check(GetParam(), type, {4, 2, 12, 12, 1, 300, window});
      check(GetParam(), type, {4, 2, 12, 12, 37, window - 1, window});
      check(GetParam(), type, {16, 2, 12, 12, 18, 310, window});
      check(GetParam(), type, {1, 1, 12, 12, 200, 60, window});
    }
}

TEST_P(AttentionTest, SpansOfTheCache) {
  for (KvType type : kKvTypes) {
    check(GetParam(), type, {8, 2, 40, 24, 3, 300, 0, 8});
    check(GetParam(), type, {9, 3, 32, 32, 9, 124, 0, 64});
    check(GetParam(), type, {4, 1, 16, 16, 1, 1100, 0, 3});
    check(GetParam(), type, {4, 1, 16, 16, 1, 5, 0, 2});
    // With so many splits, each has at least 64 rows.
    check(GetParam(), type, {4, 2, 16, 16, 2, 700, 0, 200});
    // Later tokens see nothing of the first split, earlier ones nothing of the
    // last.
    check(GetParam(), type, {4, 2, 16, 16, 150, 100, 130, 4});
    check(GetParam(), type, {4, 2, 16, 16, 3, 700, 400, 3});
  }
}

TEST_P(AttentionTest, SinksAreScoresWithoutValues) {
  for (KvType type : {KvType::F32, KvType::Q8_0})
    for (float sinks : {0.5f, 8.0f, 80.0f, 1e30f}) {
      check(GetParam(), type, {4, 1, 12, 12, 1, 90, 0, 1, 0, sinks});
      check(GetParam(), type, {4, 1, 12, 12, 20, 90, 33, 1, 0, sinks});
      check(GetParam(), type, {4, 1, 12, 12, 2, 300, 0, 3, 0, sinks});
      check(GetParam(), type, {4, 1, 12, 12, 40, 200, 130, 4, 0, sinks});
    }
}

TEST_P(AttentionTest, SoftCaps) {
  for (KvType type : {KvType::F32, KvType::Q8_0})
    for (float cap : {0.5f, 5.0f, 50.0f}) {
      check(GetParam(), type, {4, 2, 12, 12, 1, 90, 0, 1, cap});
      check(GetParam(), type, {4, 2, 12, 12, 20, 90, 50, 1, cap, 2.0f});
      check(GetParam(), type, {4, 2, 12, 12, 2, 300, 0, 3, cap});
    }
}

TEST_P(AttentionTest, AnyShape) {
  Random random(78);
  for (int i = 0; i < 40; ++i) {
    Case c{};
    c.kvHeads = 1 + random.below(3);
    c.heads = c.kvHeads * (1 + random.below(9));
    c.key = 1 + random.below(100);
    c.value = 1 + random.below(100);
    c.tokens = 1 + random.below(i % 5 == 0 ? 40 : 4);
    c.position = random.below(i % 5 == 0 ? 100 : 300);
    c.window = random.below(2) * (1 + random.below(200));
    c.splits = 1 + random.below(2) * random.below(5);
    c.softcap = float(random.below(2)) * 3;
    c.sinks = float(random.below(2)) * 2;
    c.scale = 0.03f * float(1 + random.below(10));
    check(GetParam(), kKvTypes[i % int(std::size(kKvTypes))], c);
  }
}

TEST_P(AttentionTest, NaNStaysWhereItIsSeen) {
  for (KvType type : kKvTypes) {
    // Row 12 belongs to token 2: tokens 0 and 1 do not see it.
    check(GetParam(), type, {4, 2, 16, 16, 5, 10, 0, 1, 0, 0, 12});
    check(GetParam(), type, {4, 2, 16, 16, 5, 10, 0, 1, 0, 0, -1, 3});
    // Tokens whose window begins after the row do not see it either.
    check(GetParam(), type, {4, 2, 16, 16, 40, 10, 9, 1, 0, 0, 12});
    check(GetParam(), type, {4, 2, 16, 16, 5, 150, 0, 2, 0, 0, 152});
    check(GetParam(), type, {4, 2, 16, 16, 60, 150, 20, 3, 0, 0, 152});
    // KvStore would put the NaN of a value into the block's key.
    if (type == KvType::Q8_0)
      continue;
    // A weight of zero does not hide a NaN in a value.
    check(GetParam(), type, {4, 2, 16, 16, 5, 10, 0, 1, 0, 0, -1, -1, 12});
    check(GetParam(), type, {4, 2, 16, 16, 40, 10, 9, 1, 0, 0, -1, -1, 12});
    // Only some of the tokens that a GPU's block has see the first tile of 32
    // rows, or the last one; all of them see the tiles between.
    check(GetParam(), type, {8, 1, 16, 16, 40, 300, 236, 1, 0, 0, -1, -1, 70});
    check(GetParam(), type, {8, 1, 16, 16, 40, 300, 0, 1, 0, 0, -1, -1, 330});
  }
}

/// Runs KvStore on random keys and values, changed by `spoil`.
template <class Spoil>
void checkStore(const KernelInfo &kernel, KvType type, int32_t heads,
                int32_t key, int32_t value, Spoil spoil) {
  SCOPED_TRACE(testing::Message() << "type " << int(type) << ", " << heads
                                  << " x " << key << ", " << value);
  Random random(79);
  int32_t tokens = 5, position = 14;
  Matrix<float> k(tokens, heads * key, 3), v(tokens, heads * value, 1);
  k.fill(random);
  v.fill(random);
  spoil(k, v);
  Cache cache(type, gqaKvWidth(heads, key, value), 40, position, random);
  KvStoreArgs args{k.data(),   k.stride, v.data(), v.stride,
                   cache.view, heads,    key,      value};
  std::vector<std::vector<uint8_t>> before;
  for (int64_t row = 0; row < cache.view.capacity; ++row)
    before.push_back(cache.rowBytes(row));
  runKernel(kernel, &args, {tokens, position}, 0, {&cache.memory});
  for (int64_t row = 0; row < cache.view.capacity; ++row) {
    int64_t t = row - position;
    if (t < 0 || t >= tokens) {
      ASSERT_EQ(cache.rowBytes(row), before[size_t(row)]) << "row " << row;
      continue;
    }
    for (int64_t h = 0; h < heads; ++h) {
      bool finite = true;
      auto check = [&](const float *x, int64_t column, int64_t cols) {
        for (int64_t c = 0; c < gqaPaddedWidth(cols); ++c) {
          double step = type == KvType::Q8_0
                            ? cache.scaleAt(row, column + c) / 2
                        : type == KvType::F32 ? 0
                        : type == KvType::F16 ? std::fabs(x[c]) * 0x1p-11
                                              : std::fabs(x[c]) * 0x1p-8;
          double got = cache.at(row, column + c);
          if (c >= cols)
            ASSERT_EQ(got, 0) << "padding";
          else
            ASSERT_NEAR(got, x[c], step * 1.001) << t << ", " << c;
        }
      };
      for (int64_t c = 0; c < key; ++c)
        finite &= std::fabs(k.at(t, h * key + c)) < 65520;
      for (int64_t c = 0; c < value; ++c)
        finite &= std::fabs(v.at(t, h * value + c)) < 65520;
      if (finite) {
        check(k.row(t) + h * key, keyColumn(h, key), key);
        check(v.row(t) + h * value, valueColumn(h, heads, key, value), value);
      } else {
        ASSERT_TRUE(std::isnan(cache.at(row, keyColumn(h, key))))
            << "head " << h << " of token " << t;
      }
    }
  }
}

TEST_P(KvStoreTest, HeadsApartAndPadded) {
  auto nothing = [](auto &, auto &) {};
  for (KvType type : kKvTypes) {
    checkStore(GetParam(), type, 4, 64, 64, nothing);
    checkStore(GetParam(), type, 3, 80, 24, nothing);
    checkStore(GetParam(), type, 1, 1, 300, nothing);
    checkStore(GetParam(), type, 2, 256, 128, nothing);
  }
}

/// Queries that see the row must get a NaN as its score, and other heads must
/// not.
TEST_P(KvStoreTest, NonFiniteKeysAndValuesShowInScores) {
  for (KvType type : kKvTypes)
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      checkStore(GetParam(), type, 3, 80, 24,
                 [&](auto &k, auto &) { k.at(1, 80 + 79) = bad; });
      checkStore(GetParam(), type, 3, 80, 24,
                 [&](auto &, auto &v) { v.at(4, 2 * 24 + 5) = bad; });
    }
  checkStore(GetParam(), KvType::F16, 3, 80, 24,
             [&](auto &, auto &v) { v.at(4, 5) = 65520; });
}

} // namespace
