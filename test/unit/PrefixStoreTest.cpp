// Evaluated texts in a folder: what is found again, after a restart too, and
// what becomes of files that are damaged, foreign, old or half written.
#include "runtime/serve/PrefixStore.h"

#include "runtime/base/Temporaries.h"
#include "runtime/serve/PrefillShares.h"
#include "test/unit/DeltaPlan.h"
#include "test/unit/SchedulerTestSupport.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <sys/stat.h>

using namespace moert;
using namespace moetest;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {
constexpr int32_t kPage = moek::kKvPage;
const std::string kGroup = "@team";

template <typename PlanT> class StoreFixture : public SchedulerFixture<PlanT> {
protected:
  std::unique_ptr<PrefixStore> store(uint64_t maxBytes = 1 << 30) {
    auto opened = PrefixStore::open(*this->engine_, place(), maxBytes);
    EXPECT_TRUE(opened.isOk()) << opened.status().message();
    return *std::move(opened);
  }
  std::string place() const { return this->folder_.path() + "/store"; }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(place()))
      names.push_back(entry.path().filename().string());
    return names;
  }
  Sequence sequenceOf(const std::vector<int32_t> &text) {
    Sequence sequence = this->engine_->sequence();
    EXPECT_TRUE(this->engine_->append(sequence, text).isOk());
    return sequence;
  }
};

class PrefixStoreTest : public StoreFixture<SamplePlan> {
protected:
  void SetUp() override {
    SchedulerFixture::SetUp();
    openOn(bestIsa(), SamplePlan::Room{4 * kPage, 16, 4, 24});
  }
  static std::vector<int32_t> joined(std::vector<int32_t> text,
                                     std::vector<int32_t> more) {
    text.insert(text.end(), more.begin(), more.end());
    return text;
  }
};

TEST_F(PrefixStoreTest, ATextIsFoundAfterARestart) {
  const std::vector<int32_t> text = textOf(1, kPage + 20);
  ASSERT_TRUE(store()->save(sequenceOf(text), kGroup).isOk());
  reopen();
  auto again = store();
  EXPECT_EQ(again->files(), 1u);
  EXPECT_EQ(again->find(joined(text, {7, 8}), kGroup), kPage + 20);
  EXPECT_EQ(again->find(text, kGroup), kPage + 19)
      << "the last token is wanted";
  EXPECT_EQ(again->find(std::span(text).first(30), kGroup), 29);
  EXPECT_EQ(again->find(std::vector<int32_t>{39, 39}, kGroup), 0);
  auto branch = joined({text.begin(), text.begin() + 40}, {7, 8, 9});
  EXPECT_EQ(again->find(branch, kGroup), 40);
  auto restored = again->restore(branch, kGroup);
  ASSERT_TRUE(restored.isOk()) << restored.status().message();
  EXPECT_EQ(restored->position(), 40);
  EXPECT_EQ(append(*restored, {7}), 1);
}

TEST_F(PrefixStoreTest, AGroupFindsItsOwnTextsAlone) {
  const std::vector<int32_t> text = textOf(1, 60);
  ASSERT_TRUE(store()->save(sequenceOf(text), "a").isOk());
  auto both = store();
  EXPECT_EQ(both->find(text, "b"), 0);
  ASSERT_TRUE(both->save(sequenceOf(joined(text, {1, 2})), "b").isOk());
  // The longer text of another group replaces nothing.
  EXPECT_EQ(files().size(), 2u);
  auto again = store();
  EXPECT_EQ(again->find(joined(text, {1, 2, 3}), "a"), 60);
  EXPECT_EQ(again->find(joined(text, {1, 2, 3}), "b"), 62);
  EXPECT_EQ(again->find(joined(text, {1, 2, 3}), ""), 0);
  EXPECT_FALSE(again->restore(text, "c").isOk());
}

TEST_F(PrefixStoreTest, NoOtherUserCanReadIt) {
  auto modeOf = [](const std::string &path) {
    return fs::status(path).permissions() & fs::perms::all;
  };
  const mode_t before = ::umask(0);
  ASSERT_TRUE(store()->save(sequenceOf(textOf(1, 30)), kGroup).isOk());
  const std::string file = place() + "/" + files()[0];
  EXPECT_EQ(modeOf(place()), fs::perms::owner_all);
  EXPECT_EQ(modeOf(file), fs::perms::owner_read | fs::perms::owner_write);
  // Folders that an earlier version has made lose the rights of others.
  fs::permissions(place(), fs::perms(0755));
  fs::permissions(file, fs::perms(0644));
  store();
  ::umask(before);
  EXPECT_EQ(modeOf(place()), fs::perms::owner_all);
  EXPECT_EQ(modeOf(file), fs::perms::owner_read | fs::perms::owner_write);
  // A folder with other files is its user's affair.
  fs::permissions(place(), fs::perms(0755));
  std::ofstream(place() + "/notes") << "x";
  auto refused = PrefixStore::open(*engine_, place(), 1 << 30);
  ASSERT_FALSE(refused.isOk());
  EXPECT_THAT(refused.status().message(), HasSubstr("chmod 700 " + place()));
  EXPECT_EQ(modeOf(place()), fs::perms(0755));
}

TEST_F(PrefixStoreTest, ALongerTextReplacesItsBeginning) {
  auto each = store();
  const std::vector<int32_t> text = textOf(1, 30);
  ASSERT_TRUE(each->save(sequenceOf(text), kGroup).isOk());
  ASSERT_TRUE(each->save(sequenceOf(text), kGroup).isOk());
  ASSERT_TRUE(each->save(sequenceOf(textOf(2, 30)), kGroup).isOk());
  EXPECT_EQ(files().size(), 2u);
  ASSERT_TRUE(each->save(sequenceOf(joined(text, {1, 2, 3})), kGroup).isOk());
  EXPECT_EQ(files().size(), 2u);
  EXPECT_EQ(each->files(), 2u);
  EXPECT_EQ(each->find(joined(text, {9}), kGroup), 30);
}

TEST_F(PrefixStoreTest, TheOldestGoWhenTheLimitIsReached) {
  Sequence first = sequenceOf(textOf(1, 30));
  const uint64_t size = first.savedBytes();
  auto each = store(3 * size + size / 2);
  const auto begin = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (uint32_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(each->save(sequenceOf(textOf(i, 30)), kGroup).isOk());
    for (const std::string &name : files())
      if (fs::last_write_time(place() + "/" + name) >
          begin + std::chrono::minutes(30))
        fs::last_write_time(place() + "/" + name,
                            begin + std::chrono::minutes(i));
  }
  EXPECT_EQ(each->bytes(), 3 * size);
  // The first is used again, so that the second is the oldest.
  ASSERT_TRUE(each->restore(joined(textOf(1, 30), {5}), kGroup).isOk());
  ASSERT_TRUE(each->save(sequenceOf(textOf(4, 30)), kGroup).isOk());
  EXPECT_EQ(each->bytes(), 3 * size);
  EXPECT_EQ(each->files(), 3u);
  EXPECT_EQ(each->find(joined(textOf(1, 30), {5}), kGroup), 30);
  EXPECT_LT(each->find(joined(textOf(2, 30), {5}), kGroup), 30);
  // A sequence larger than the limit is not written at all.
  ASSERT_TRUE(store(size - 1)->save(first, kGroup).isOk());
  EXPECT_TRUE(files().empty()) << "a smaller limit holds at the start, too";
}

TEST_F(PrefixStoreTest, DamagedFilesAreRemoved) {
  const std::vector<int32_t> text = textOf(1, kPage + 20);
  ASSERT_TRUE(store()->save(sequenceOf(text), kGroup).isOk());
  ASSERT_EQ(files().size(), 1u);
  const std::string path = place() + "/" + files()[0];
  std::ifstream in(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  auto write = [&](std::string_view bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  // The damage is in the content, which is checked when it is needed.
  std::string bad = good;
  bad[bad.size() / 2] ^= 1;
  write(bad);
  reopen();
  auto each = store();
  EXPECT_EQ(each->files(), 1u);
  auto restored = each->restore(joined(text, {5}), kGroup);
  ASSERT_FALSE(restored.isOk());
  EXPECT_EQ(restored.status().code(), StatusCode::InvalidFile);
  EXPECT_EQ(each->files(), 0u);
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(engine_->freePages(), engine_->pages());
  // The damage is in the beginning, which is read at the start.
  for (std::string start : {good.substr(0, 10), good.substr(0, 100),
                            std::string("<html>"), std::string()}) {
    write(start);
    EXPECT_EQ(store()->files(), 0u);
    EXPECT_TRUE(files().empty()) << start.size();
  }
}

TEST_F(PrefixStoreTest, FilesOfOtherPlansAreLeftAlone) {
  ASSERT_TRUE(store()->save(sequenceOf(textOf(1, 30)), kGroup).isOk());
  std::ofstream(place() + "/notes.txt") << "a file of the user";
  std::ofstream(place() + "/0123456789abcdef-0123.moeseq") << "no name of ours";
  plan_->builder.plan.model_name = "another";
  reopen();
  auto other = store();
  EXPECT_EQ(other->files(), 0u);
  EXPECT_EQ(other->find(textOf(1, 31), kGroup), 0);
  EXPECT_EQ(files().size(), 3u);
  // The files count although they are not listed.
  EXPECT_GT(other->bytes(), 0u);
  EXPECT_EQ(store(1)->bytes(), 0u);
  EXPECT_EQ(files().size(), 2u);
}

// A process that was killed leaves a temporary file.
TEST_F(PrefixStoreTest, HalfWrittenFilesAreRemoved) {
  const std::vector<int32_t> text = textOf(1, 30);
  ASSERT_TRUE(store()->save(sequenceOf(text), kGroup).isOk());
  const std::string name = files()[0];
  fs::rename(place() + "/" + name, place() + "/" + temporaryName(name));
  EXPECT_EQ(store()->files(), 0u);
  EXPECT_TRUE(files().empty());
}

TEST_F(PrefixStoreTest, AFolderThatCannotBeIsAnError) {
  std::ofstream(folder_.path() + "/store") << "a file";
  auto opened = PrefixStore::open(*engine_, place(), 1000);
  ASSERT_FALSE(opened.isOk());
  EXPECT_EQ(opened.status().code(), StatusCode::Io);
  EXPECT_THAT(opened.status().message(), HasSubstr(place()));
}

template <typename PlanT>
class StoredConversationTest : public StoreFixture<PlanT> {
protected:
  uint64_t readAtOnce_ = 1 << 20;
  void reopenScheduler() {
    this->scheduler_.reset();
    this->reopen();
    begin();
  }
  void begin(double idleSeconds = 0) {
    SchedulerOptions options;
    options.storeFolder = this->place();
    options.storeLeastTokens = 20;
    options.storeIdleSeconds = idleSeconds;
    options.storeReadAtOnce = readAtOnce_;
    this->start(options);
  }
};
class DeltaConversationPlan : public DeltaPlan {
public:
  explicit DeltaConversationPlan(const std::string &isa) : DeltaPlan(isa) {}
};
class SampleConversationPlan : public SamplePlan {
public:
  explicit SampleConversationPlan(const std::string &isa)
      : SamplePlan(isa, Room{4 * kPage, 16, 4, 24}) {}
};
using Plans = testing::Types<SampleConversationPlan, DeltaConversationPlan>;
TYPED_TEST_SUITE(StoredConversationTest, Plans);

// Nothing is lost that ended before the server did, however short the time.
TYPED_TEST(StoredConversationTest, IsWrittenBeforeTheEnd) {
  this->openOn(this->bestIsa());
  this->begin(/*idleSeconds=*/3600);
  for (uint32_t i = 0; i < 3; ++i)
    this->complete(this->greedy(this->textOf(i, 30), 5));
  this->waitForAll();
  EXPECT_GE(this->scheduler_->stats().storedFiles, 1);
  EXPECT_EQ(this->scheduler_->stats().storeFailure, "");
  EXPECT_EQ(int32_t(this->files().size()),
            this->scheduler_->stats().storedFiles);
}

// A server that is never idle writes, too.
TYPED_TEST(StoredConversationTest, IsWrittenWhileOthersGenerate) {
  this->openOn(this->bestIsa());
  this->begin();
  std::atomic<bool> stop = false;
  std::atomic<int> running = 0;
  // Two texts alternate, so that one of them runs at any time.
  std::function<void(int)> next = [&](int i) {
    GenerationRequest request = this->greedy(this->textOf(uint32_t(i), 6), 12);
    ++running;
    auto id = this->scheduler_->submit(std::move(request),
                                       [&, i](GenerationEvent event) {
                                         if (!event.isEnd)
                                           return;
                                         if (!stop)
                                           next(i);
                                         --running;
                                       });
    EXPECT_TRUE(id.isOk());
  };
  next(0);
  next(1);
  this->complete(this->greedy(this->textOf(4, 40), 5));
  while (this->scheduler_->stats().storedFiles == 0 &&
         this->scheduler_->stats().storeFailure.empty())
    std::this_thread::yield();
  EXPECT_EQ(this->scheduler_->stats().storeFailure, "");
  stop = true;
  while (running > 0)
    std::this_thread::yield();
  this->waitForAll();
}

// Large files are read on another thread, while others generate or nothing
// does.
TYPED_TEST(StoredConversationTest, OthersGoOnWhileAFileIsRead) {
  this->openOn(this->bestIsa());
  this->begin();
  const std::vector<int32_t> text = this->textOf(4, kPage + 20);
  this->complete(this->greedy(text, 20));
  while (this->scheduler_->stats().storedFiles == 0)
    std::this_thread::yield();
  this->scheduler_.reset();
  this->reopen();
  this->readAtOnce_ = 0;
  this->begin();
  std::vector<int32_t> longer = text;
  for (int32_t token : this->alone(this->greedy(text, 20)))
    longer.push_back(token);
  longer.push_back(7);
  // Nothing else runs: the end of reading wakes the scheduler.
  const GenerationRequest request = this->greedy(longer, 5);
  EXPECT_GT(this->complete(request)->stats().cachedTokens, kPage);
  // One that is cancelled while it waits, and others beside it.
  this->reopenScheduler();
  std::vector<Received> others(3);
  Received cancelled, last;
  const GenerationId id = this->submit(request, cancelled);
  for (Received &each : others)
    this->submit(this->greedy(this->textOf(9, 12), 5), each);
  this->scheduler_->cancel(id);
  cancelled.end();
  this->submit(request, last);
  for (Received &each : others)
    EXPECT_EQ(each.reply().tokens.size(), 5u);
  EXPECT_EQ(last.reply().tokens, this->alone(request));
  this->expectNoPageIsLost();
}

TYPED_TEST(StoredConversationTest, GoesOnAfterARestart) {
  this->openOn(this->bestIsa());
  this->begin();
  std::vector<int32_t> text = this->textOf(4, kPage + 20);
  auto first = this->complete(this->greedy(text, 20));
  ASSERT_TRUE(first->end().status.isOk()) << first->end().status.message();
  while (this->scheduler_->stats().storedFiles == 0) {
    ASSERT_EQ(this->scheduler_->stats().storeFailure, "");
    std::this_thread::yield();
  }
  for (int32_t token : first->reply().tokens)
    text.push_back(token);
  text.push_back(7);
  this->scheduler_.reset();
  this->reopen();
  this->begin();
  this->evaluated_ = 0;
  const GenerationRequest request = this->greedy(text, 5);
  auto second = this->complete(request);
  // Without states, the end of a prompt is evaluated again.
  const int32_t rest = this->engine_->stateSlots() > 0 ? 2 : kPromptEnd;
  EXPECT_EQ(second->stats().cachedTokens, int32_t(text.size()) - rest);
  EXPECT_EQ(this->evaluated_, rest + 4);
  EXPECT_EQ(second->reply().tokens, this->alone(request));
  this->waitForAll();
  EXPECT_EQ(this->scheduler_->stats().restoredTokens, uint64_t(kPage + 39));
  EXPECT_EQ(this->scheduler_->stats().storeFailure, "");
  this->expectNoPageIsLost();
}

} // namespace
