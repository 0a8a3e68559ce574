// The pages that sequences hold, against a model that remembers the content of
// each page.
#include "runtime/cache/KvPool.h"

#include "runtime/cache/KvPages.h"
#include "runtime/engine/MakeDevices.h"
#include "runtime/text/Sampler.h"
#include "test/support/FakeDevice.h"
#include "test/support/SamplePlan.h"
#include "test/support/TempDir.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace moert;
using moetest::TempDir;

namespace {
using Tokens = std::vector<int32_t>;
constexpr size_t kPage = size_t(moek::kKvPage);

Tokens pageOf(int32_t token) { return Tokens(kPage, token); }

TEST(KvPoolTest, GivesEveryPageOnce) {
  KvPool pool(3);
  std::set<int32_t> pages;
  for (int i = 0; i < 3; ++i)
    pages.insert(pool.allocate().value());
  EXPECT_EQ(pages, (std::set<int32_t>{0, 1, 2}));
  EXPECT_FALSE(pool.allocate());
  EXPECT_EQ(pool.available(), 0);
  pool.release(1);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_EQ(pool.allocate(), 1);
}

TEST(KvPoolTest, APrefixIsFoundByItsTokensAndWhatIsBeforeThem) {
  KvPool pool(4);
  int32_t a = *pool.allocate(), b = *pool.allocate();
  EXPECT_EQ(pool.publish(a, KvPool::kNone, pageOf(1)), a);
  EXPECT_EQ(pool.publish(b, a, pageOf(2)), b);
  EXPECT_EQ(pool.find(KvPool::kNone, pageOf(1)), a);
  EXPECT_EQ(pool.find(a, pageOf(2)), b);
  EXPECT_EQ(pool.find(KvPool::kNone, pageOf(2)), KvPool::kNone);
  EXPECT_EQ(pool.find(b, pageOf(2)), KvPool::kNone);
  Tokens almost = pageOf(1);
  almost.back() = 2;
  EXPECT_EQ(pool.find(KvPool::kNone, almost), KvPool::kNone);
  EXPECT_TRUE(pool.isShared(a));
  // The same tokens after another page. (Both pages have the same hash, because
  // the page before and the first token differ in the same bit.)
  Tokens next = pageOf(6);
  next[0] = 6 ^ a ^ b;
  EXPECT_EQ(pool.find(a, next), KvPool::kNone);
  int32_t c = *pool.allocate();
  EXPECT_EQ(pool.publish(c, b, pageOf(6)), c);
  EXPECT_EQ(pool.find(a, next), KvPool::kNone);
}

TEST(KvPoolTest, OneOfTwoEqualPagesIsKept) {
  KvPool pool(3);
  int32_t a = *pool.allocate(), b = *pool.allocate();
  EXPECT_EQ(pool.publish(a, KvPool::kNone, pageOf(1)), a);
  EXPECT_EQ(pool.publish(b, KvPool::kNone, pageOf(1)), a);
  EXPECT_EQ(pool.available(), 2);
  pool.release(a);
  EXPECT_EQ(pool.available(), 2);
  pool.release(a);
  EXPECT_EQ(pool.available(), 3);
}

TEST(KvPoolTest, TheLeastRecentlyHeldGoesFirst) {
  KvPool pool(3);
  std::vector<int32_t> pages;
  for (int32_t token : {1, 2, 3})
    pages.push_back(
        pool.publish(*pool.allocate(), KvPool::kNone, pageOf(token)));
  for (int32_t page : pages)
    pool.release(page);
  // The first page is used again, so the second is now the oldest.
  EXPECT_EQ(pool.find(KvPool::kNone, pageOf(1)), pages[0]);
  pool.release(pages[0]);
  EXPECT_EQ(pool.allocate(), pages[1]);
  EXPECT_EQ(pool.find(KvPool::kNone, pageOf(2)), KvPool::kNone);
  EXPECT_EQ(pool.find(KvPool::kNone, pageOf(3)), pages[2]);
}

TEST(KvPoolTest, WithdrawingLosesWhatIsBehind) {
  KvPool pool(4);
  int32_t a = pool.publish(*pool.allocate(), KvPool::kNone, pageOf(1));
  int32_t b = pool.publish(*pool.allocate(), a, pageOf(2));
  int32_t c = pool.publish(*pool.allocate(), b, pageOf(3));
  int32_t d = pool.publish(*pool.allocate(), a, pageOf(4));
  for (int32_t page : {d, c, b})
    pool.release(page);
  pool.withdraw(a);
  EXPECT_FALSE(pool.isPublished(a));
  EXPECT_EQ(pool.available(), 3);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(pool.allocate());
  EXPECT_FALSE(pool.allocate());
}

/// A model that runs in parallel to a pool: it remembers what sequences hold
/// and what every written page contains.
class Model {
public:
  explicit Model(uint64_t seed) : random_(seed) {}

  void step() {
    switch (random_.next() % 5) {
    case 0:
      if (sequences_.size() < 8)
        sequences_.emplace_back();
      return;
    case 1:
      if (Sequence *s = any())
        grow(*s);
      return;
    case 2:
      if (Sequence *s = any())
        cut(*s, random_.next() % (s->pages.size() + 1));
      return;
    case 3:
      if (Sequence *s = any(); s && sequences_.size() < 8) {
        Sequence copy = *s;
        for (int32_t page : copy.pages)
          pool_.retain(page);
        sequences_.push_back(copy);
      }
      return;
    default:
      if (Sequence *s = any()) {
        cut(*s, 0);
        sequences_.erase(sequences_.begin() + (s - sequences_.data()));
      }
    }
  }

  void check() {
    std::map<int32_t, int32_t> holders;
    for (const Sequence &s : sequences_)
      for (size_t i = 0; i < s.pages.size(); ++i) {
        ++holders[s.pages[i]];
        // The page was written with the tokens that the sequence has.
        Tokens prefix(s.tokens.begin(), s.tokens.begin() + int64_t(i) + 1);
        ASSERT_EQ(written_.at(s.pages[i]), prefix);
      }
    ASSERT_EQ(pool_.available() + int32_t(holders.size()), kPages);
    for (auto [page, count] : holders)
      ASSERT_EQ(pool_.isShared(page), count > 1);
  }

private:
  static constexpr int32_t kPages = 24;
  /// A sequence of whole pages; a page has one token kPage times.
  struct Sequence {
    std::vector<int32_t> pages;
    Tokens tokens;
  };

  Sequence *any() {
    return sequences_.empty() ? nullptr
                              : &sequences_[random_.next() % sequences_.size()];
  }

  void grow(Sequence &s) {
    auto token = int32_t(random_.next() % 3);
    int32_t previous = s.pages.empty() ? KvPool::kNone : s.pages.back();
    s.tokens.push_back(token);
    if (int32_t page = pool_.find(previous, pageOf(token));
        page != KvPool::kNone) {
      s.pages.push_back(page);
      return;
    }
    std::optional<int32_t> page = pool_.allocate();
    if (!page) {
      s.tokens.pop_back();
      return;
    }
    // No sequence may hold a page that is given to another one.
    for (const Sequence &other : sequences_)
      ASSERT_EQ(std::ranges::count(other.pages, *page), 0);
    written_[*page] = s.tokens;
    s.pages.push_back(pool_.publish(*page, previous, pageOf(token)));
  }

  /// Keeps `count` pages, and sometimes writes to the last one.
  void cut(Sequence &s, size_t count) {
    while (s.pages.size() > count) {
      pool_.release(s.pages.back());
      s.pages.pop_back();
      s.tokens.pop_back();
    }
    if (s.pages.empty() || random_.next() % 4 || pool_.isShared(s.pages.back()))
      return;
    int32_t page = s.pages.back();
    pool_.withdraw(page);
    s.tokens.back() = int32_t(random_.next() % 3);
    written_[page] = s.tokens;
    int32_t previous =
        s.pages.size() > 1 ? s.pages[s.pages.size() - 2] : KvPool::kNone;
    s.pages.back() = pool_.publish(page, previous, pageOf(s.tokens.back()));
  }

  SplitMix64 random_;
  KvPool pool_{kPages};
  std::vector<Sequence> sequences_;
  std::map<int32_t, Tokens> written_;
};

TEST(KvPoolTest, RandomOperationsLoseAndMixUpNothing) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Model model(seed);
    for (int i = 0; i < 5000; ++i) {
      model.step();
      if (i % 8 == 0)
        model.check();
      ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed;
    }
  }
}

// Caches of layers may have different element types.
TEST(KvPagesTest, APageHasTheBytesOfEachCache) {
  moetest::SamplePlan sample("ref", {.pages = 3, .type = moek::KvType::F32});
  moetest::PlanBuilder &builder = sample.builder;
  builder.kv(70, moek::KvType::F32, 3);
  builder.kv(70, moek::KvType::Q8_0, 3);
  TempDir folder;
  StatusOr<Plan> plan = Plan::load(builder.write(folder));
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  StatusOr<WeightFiles> files = WeightFiles::open(*plan, {});
  ASSERT_TRUE(files.isOk()) << files.status().message();
  moetest::DeviceLog log;
  DeviceList list;
  list.push_back(std::make_unique<moetest::FakeDevice>(*plan, 0, log));
  auto devices = Devices::create(*plan, *files, std::move(list));
  ASSERT_TRUE(devices.isOk()) << devices.status().message();
  KvPages pages(plan->table(), **devices);
  EXPECT_EQ(pages.count(), 3);
  // Q8_0 rows have two blocks of 64 quantised values and a scale.
  EXPECT_EQ(pages.bytes(), size_t(64 * (12 * 4 + 70 * 4 + 2 * 68)));

  // Every byte that is written to a page is stored exactly once.
  std::vector<std::byte> content[3];
  for (int32_t page = 0; page < 3; ++page) {
    content[page].assign(pages.bytes(), std::byte(page + 1));
    ASSERT_TRUE(pages.write(page, content[page].data()).isOk());
  }
  uint64_t all = builder.plan.devices[0]->kv_bytes;
  auto memory = (*devices)->device(0).read({DeviceRegion::Memory::Kv, 0, all});
  ASSERT_TRUE(memory.isOk()) << memory.status().message();
  for (int32_t page = 0; page < 3; ++page)
    EXPECT_EQ(size_t(std::ranges::count(*memory, std::byte(page + 1))),
              pages.bytes());
  ASSERT_TRUE(pages.copy(2, 0).isOk());
  std::vector<std::byte> read(pages.bytes());
  ASSERT_TRUE(pages.read(0, read.data()).isOk());
  EXPECT_EQ(read, content[2]);
  ASSERT_TRUE(pages.read(1, read.data()).isOk());
  EXPECT_EQ(read, content[1]);
}

} // namespace
