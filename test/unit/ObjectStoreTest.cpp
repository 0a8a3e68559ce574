// What clients keep on a server: lists, limits, and a process that is killed.
#include "runtime/serve/store/ObjectStore.h"

#include "test/support/TempDir.h"

#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace moert;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

class ObjectStoreTest : public ::testing::Test {
protected:
  ObjectStoreTest() { open(); }
  void open(StoreLimits limits = {}) {
    store_.reset();
    auto store = ObjectStore::open(path_, limits);
    ASSERT_TRUE(store.isOk()) << store.status().message();
    store_ = *std::move(store);
  }

  StoredObject object(std::string id, std::string kind = "thread",
                      std::string parent = "", std::string status = "") {
    return {.id = std::move(id),
            .kind = std::move(kind),
            .owner = "alice",
            .parent = std::move(parent),
            .status = std::move(status),
            .body = "{}",
            .created = 7};
  }

  std::vector<std::string> ids(const StoreQuery &query) {
    auto page = store_->list(query);
    std::vector<std::string> list;
    if (!page)
      return {page.status().message()};
    for (const StoredObject &each : page->objects)
      list.push_back(each.id);
    if (page->hasMore)
      list.push_back("more");
    return list;
  }

  bool has(std::string_view kind, std::string_view id) {
    auto found = store_->find(kind, id, "alice");
    EXPECT_TRUE(found.isOk()) << found.status().message();
    return found && found->has_value();
  }

  moetest::TempDir folder_;
  std::string path_ = folder_.file("store.db");
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(ObjectStoreTest, KeepsObjectsOverARestart) {
  ASSERT_TRUE(store_->add({object("a")}).isOk());
  open();
  auto found = store_->find("thread", "a", "alice");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->body, "{}");
  EXPECT_EQ((*found)->created, 7);
  EXPECT_FALSE(has("run", "a")) << "of another kind";
  EXPECT_FALSE(store_->find("thread", "a", "bob")->has_value());
}

TEST_F(ObjectStoreTest, ListsInBothOrders) {
  ASSERT_TRUE(
      store_->add({object("a"), object("b"), object("c"), object("d")}).isOk());
  StoreQuery query{.kind = "thread", .owner = "alice", .limit = 2};
  EXPECT_THAT(ids(query), ElementsAre("d", "c", "more"));
  query.after = "c";
  EXPECT_THAT(ids(query), ElementsAre("b", "a"));
  query.after = "";
  query.before = "b";
  EXPECT_THAT(ids(query), ElementsAre("d", "c"));
  query = {.kind = "thread", .owner = "alice", .newestFirst = false};
  EXPECT_THAT(ids(query), ElementsAre("a", "b", "c", "d"));
  query.after = "a";
  query.before = "d";
  EXPECT_THAT(ids(query), ElementsAre("b", "c"));
  query.after = "nothing";
  EXPECT_THAT(ids(query), ElementsAre(HasSubstr("\"nothing\" is not in")));
  query = {.kind = "thread", .owner = "bob"};
  EXPECT_THAT(ids(query), ElementsAre());
}

TEST_F(ObjectStoreTest, PartsGoWithTheWhole) {
  StoredObject message = object("m", "message", "a");
  message.tag = "r";
  ASSERT_TRUE(
      store_
          ->add({object("a"), object("r", "run", "a", "completed"), message,
                 object("s", "step", "r"), object("n", "message", "a")})
          .isOk());
  auto items = store_->threadItems("a");
  ASSERT_TRUE(items.isOk());
  ASSERT_EQ(items->size(), 3u);
  EXPECT_EQ((*items)[1].id, "s");
  EXPECT_THAT(
      ids({.kind = "message", .owner = "alice", .parent = "a", .tag = "r"}),
      ElementsAre("m"));
  EXPECT_TRUE(*store_->remove("thread", "a", "alice"));
  EXPECT_FALSE(*store_->remove("thread", "a", "alice"));
  for (auto [kind, id] :
       {std::pair("run", "r"), {"message", "m"}, {"step", "s"}})
    EXPECT_FALSE(has(kind, id)) << id;
  Status orphan = store_->add({object("o", "message", "a")});
  EXPECT_EQ(orphan.code(), StatusCode::Usage) << orphan.message();
}

TEST_F(ObjectStoreTest, AThreadHasOneRunThatIsNotOver) {
  ASSERT_TRUE(
      store_->add({object("a"), object("r", "run", "a", "queued")}).isOk());
  EXPECT_EQ(store_->add({object("q", "run", "a", "queued")}).code(),
            StatusCode::Usage);
  EXPECT_FALSE(*store_->replace("r", "in_progress", "completed", "x"));
  EXPECT_TRUE(*store_->replace("r", "queued", "completed", "x"));
  EXPECT_TRUE(store_->add({object("q", "run", "a", "queued")}).isOk());
  EXPECT_EQ(store_->withStatus("run", "queued")->size(), 1u);
}

TEST_F(ObjectStoreTest, LimitsHold) {
  open({.bytesPerOwner = 10, .objectsPerOwner = 3, .bytes = 12});
  ASSERT_TRUE(store_->add({object("a"), object("b")}).isOk());
  Status many = store_->add({object("c"), object("d")});
  EXPECT_EQ(many.code(), StatusCode::DoesNotFit);
  EXPECT_THAT(many.message(), HasSubstr("is 3: delete some"));
  EXPECT_FALSE(has("thread", "c")) << "all or none";
  EXPECT_EQ(store_->replace("a", "", "", "123456789").status().code(),
            StatusCode::DoesNotFit);
  ASSERT_TRUE(store_->replace("a", "", "", "12345678").isOk());
  // The sum of all owners bounds each of them.
  StoredObject other = object("x");
  other.owner = "bob";
  ASSERT_TRUE(store_->add({other}).isOk());
  other.id = "y";
  EXPECT_EQ(store_->add({other}).code(), StatusCode::DoesNotFit);
  // Parts count, and give their room back with the whole.
  ASSERT_TRUE(*store_->remove("thread", "a", "alice"));
  ASSERT_TRUE(store_->add({object("p", "message", "b")}).isOk());
  ASSERT_TRUE(*store_->remove("thread", "b", "alice"));
  EXPECT_TRUE(store_->add({object("e"), object("f"), object("g")}).isOk());
}

TEST_F(ObjectStoreTest, TheOldestAreTrimmed) {
  ASSERT_TRUE(store_->add({object("a"), object("b"), object("c")}).isOk());
  ASSERT_TRUE(store_->trim("thread", "alice", 2, 100).isOk());
  EXPECT_THAT(ids({.kind = "thread", .owner = "alice"}), ElementsAre("c", "b"));
  ASSERT_TRUE(store_->trim("thread", "alice", 2, 3).isOk());
  EXPECT_THAT(ids({.kind = "thread", .owner = "alice"}), ElementsAre("c"));
}

TEST_F(ObjectStoreTest, FilesThatAreNotItsOwn) {
  auto second = ObjectStore::open(path_);
  EXPECT_EQ(second.status().code(), StatusCode::Usage);
  EXPECT_THAT(second.status().message(), HasSubstr("another process has"));
  store_.reset();
  std::filesystem::remove(path_);
  std::ofstream(path_) << std::string(5000, 'x');
  auto text = ObjectStore::open(path_);
  EXPECT_EQ(text.status().code(), StatusCode::InvalidFile);
  std::filesystem::remove(path_);
  {
    auto other = SqliteDatabase::open(path_);
    ASSERT_TRUE(other.isOk());
    ASSERT_TRUE(other->run("CREATE TABLE foreign_table (x)").isOk());
  }
  auto foreign = ObjectStore::open(path_);
  EXPECT_THAT(foreign.status().message(), HasSubstr("of another program"));
  std::filesystem::remove(path_);
  open();
  store_.reset();
  {
    auto newer = SqliteDatabase::open(path_);
    ASSERT_TRUE(newer->run("PRAGMA user_version = 99").isOk());
  }
  EXPECT_EQ(ObjectStore::open(path_).status().code(), StatusCode::WrongMachine);
  EXPECT_EQ(ObjectStore::open("/nowhere/store.db").status().code(),
            StatusCode::Io);
}

/// Adds objects until it is killed, and says so of each.
[[noreturn]] void addForever(const std::string &path, int acknowledged) {
  auto store = ObjectStore::open(path);
  for (int i = 0; store; ++i) {
    StoredObject object{.id = fmt::format("n{}", i),
                        .kind = "thread",
                        .owner = "alice",
                        .body = std::string(3000, 'x')};
    if (!(*store)->add({object}) ||
        ::write(acknowledged, &i, sizeof i) != sizeof i)
      break;
    if (i % 16 == 15)
      (*store)->tidy();
  }
  ::_exit(1);
}

TEST_F(ObjectStoreTest, AKilledProcessLosesNothing) {
  store_.reset();
  for (int round = 0; round < 3; ++round) {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + "-wal");
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    pid_t child = ::fork();
    if (child == 0)
      addForever(path_, pipe[1]);
    ::close(pipe[1]);
    int last = -1;
    while (last < 300 + round * 57 &&
           ::read(pipe[0], &last, sizeof last) == sizeof last)
      ;
    ::kill(child, SIGKILL);
    while (::read(pipe[0], &last, sizeof last) == sizeof last)
      ;
    ::close(pipe[0]);
    ::waitpid(child, nullptr, 0);
    ASSERT_GE(last, 300);
    open();
    for (int i = 0; i <= last; ++i)
      EXPECT_TRUE(has("thread", fmt::format("n{}", i))) << i;
    ASSERT_TRUE(store_->add({object("next")}).isOk());
    store_.reset();
    auto database = SqliteDatabase::open(path_);
    auto check = database->prepare("PRAGMA integrity_check");
    ASSERT_TRUE(*check->step());
    EXPECT_EQ(check->text(0), "ok");
  }
}

TEST_F(ObjectStoreTest, NoOtherUserCanReadTheFile) {
  namespace fs = std::filesystem;
  const mode_t before = ::umask(0);
  moetest::TempDir folder;
  for (bool exists : {false, true}) {
    const std::string path = folder.file(exists ? "old.db" : "new.db");
    if (exists) {
      ASSERT_TRUE(ObjectStore::open(path).isOk());
      fs::permissions(path, fs::perms(0644));
    }
    auto store = ObjectStore::open(path);
    ASSERT_TRUE(store.isOk()) << store.status().message();
    ASSERT_TRUE((*store)->add({object("t1")}).isOk());
    for (const std::string &file : {path, path + "-wal"})
      EXPECT_EQ(fs::status(file).permissions(), fs::perms(0600)) << file;
  }
  ::umask(before);
}

} // namespace
