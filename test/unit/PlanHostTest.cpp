// A server loads and unloads plans: on demand, for memory, after an error, and
// while it stops.
#include "runtime/serve/host/PlanHost.h"

#include "SchedulerTestSupport.h"

#include <filesystem>
#include <future>
#include <gmock/gmock.h>
#include <map>

using namespace moert;
using moetest::SamplePlan;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {
using Opened = StatusOr<std::shared_ptr<Backend>>;
constexpr auto kNoDeadline = std::chrono::hours(1);

class PlanHostTest : public ::testing::Test {
protected:
  PlanHostTest() {
    SamplePlan plan;
    plan.addTokenizer();
    path_ = plan.builder.write(folder_);
  }

  void start(std::chrono::milliseconds idle = {}) {
    PlanHostOptions options;
    options.engine.threads = 1;
    options.idle = idle;
    options.open = [this](const std::string &path, std::string id,
                          const EngineOptions &engine,
                          const SchedulerOptions &scheduler,
                          std::optional<Pooling> pooling,
                          const TemplateSettings &chat)
        -> StatusOr<std::unique_ptr<ServedModel>> {
      opening_(id);
      // Memory holds only so many models.
      if (host_->loaded().size() >= most_)
        return Status(StatusCode::DoesNotFit, "no memory for " + id);
      if (auto failure = failures_.find(id); failure != failures_.end())
        return failure->second;
      return ServedModel::open(path, std::move(id), engine, scheduler, pooling,
                               chat);
    };
    auto host = PlanHost::create({{"a", path_}, {"b", path_}, {"c", path_}},
                                 std::move(options));
    ASSERT_TRUE(host.isOk()) << host.status().message();
    host_ = *std::move(host);
  }

  std::future<Opened> ask(const std::string &name) {
    auto promise = std::make_shared<std::promise<Opened>>();
    std::future<Opened> future = promise->get_future();
    host_->open(name, [promise](Opened opened) {
      promise->set_value(std::move(opened));
    });
    return future;
  }
  /// Loads a model and lets it go.
  Status load(const std::string &name) { return ask(name).get().status(); }

  std::vector<std::string> loaded() {
    std::vector<std::string> names;
    for (const auto &model : host_->loaded())
      names.push_back(model->facts().id);
    return names;
  }

  static GenerationRequest longRequest() {
    GenerationRequest request;
    request.prompt = {1, 2, 3};
    request.sampling.temperature = 0;
    request.reply.maxTokens = 1;
    request.reply.ignoreEos = true;
    return request;
  }

  moetest::TempDir folder_;
  std::string path_;
  size_t most_ = 9;
  std::map<std::string, Status> failures_;
  std::function<void(const std::string &)> opening_ = [this](auto &id) {
    opened_.push_back(id);
  };
  /// Written by the host's thread; read while it has no work.
  std::vector<std::string> opened_;
  std::unique_ptr<PlanHost> host_;
};

TEST_F(PlanHostTest, LoadsOnDemandAndOnce) {
  start();
  EXPECT_THAT(loaded(), ElementsAre());
  EXPECT_FALSE(host_->models()[1].isLoaded);
  EXPECT_TRUE(load("b").isOk());
  EXPECT_TRUE(load("b").isOk());
  EXPECT_TRUE(load("").isOk()) << "the first one";
  EXPECT_THAT(loaded(), ElementsAre("a", "b"));
  EXPECT_THAT(opened_, ElementsAre("b", "a"));
  EXPECT_TRUE(host_->models()[1].isLoaded);
  Status unknown = load("x");
  EXPECT_EQ(unknown.code(), StatusCode::Usage);
  EXPECT_THAT(unknown.message(), HasSubstr("\"x\"; this server has a, b, c"));
}

TEST_F(PlanHostTest, RequestsWaitForOneLoad) {
  auto gate = std::make_shared<moetest::Gate>();
  opening_ = [this, gate](const std::string &id) {
    opened_.push_back(id);
    gate->pass();
  };
  start();
  std::future<Opened> first = ask("a");
  gate->waitUntilReached();
  std::future<Opened> second = ask("a");
  EXPECT_EQ(host_->health().state, "loading");
  gate->open();
  Opened one = first.get(), two = second.get();
  ASSERT_TRUE(one && two);
  EXPECT_EQ(*one, *two);
  EXPECT_THAT(opened_, ElementsAre("a"));
  EXPECT_EQ(host_->health().state, "ok");
}

TEST_F(PlanHostTest, TheOneUsedLongestAgoMakesRoom) {
  most_ = 2;
  start();
  ASSERT_TRUE(load("a") && load("b"));
  ASSERT_TRUE(load("a").isOk()); // Now b is the one that was used longest ago.
  EXPECT_TRUE(load("c").isOk());
  EXPECT_THAT(loaded(), ElementsAre("a", "c"));
}

TEST_F(PlanHostTest, AModelInUseMakesNoRoom) {
  most_ = 1;
  start();
  Opened a = ask("a").get();
  ASSERT_TRUE(a.isOk());
  Status refused = load("b");
  EXPECT_EQ(refused.code(), StatusCode::DoesNotFit);
  EXPECT_THAT(refused.message(), HasSubstr("no memory for b"));
  EXPECT_THAT(loaded(), ElementsAre("a"));
  a = Status(StatusCode::Cancelled, "let go");
  EXPECT_TRUE(load("b").isOk()) << "a makes room now";
  EXPECT_THAT(loaded(), ElementsAre("b"));
}

TEST_F(PlanHostTest, AFailureLeavesTheOthersAlone) {
  failures_["b"] = Status(StatusCode::InvalidFile, "b is damaged");
  start();
  ASSERT_TRUE(load("a").isOk());
  EXPECT_EQ(load("b").code(), StatusCode::InvalidFile);
  EXPECT_THAT(loaded(), ElementsAre("a"));
  EXPECT_TRUE(load("a") && load("c"));
  EXPECT_EQ(load("b").code(), StatusCode::InvalidFile) << "tried again";
  EXPECT_THAT(opened_, ElementsAre("a", "b", "c", "b"));
}

TEST_F(PlanHostTest, IdleModelsAreUnloaded) {
  start(std::chrono::milliseconds(1));
  // The test waits for what must happen, however long it takes.
  Opened kept = ask("a").get();
  ASSERT_TRUE(kept && load("b"));
  while (loaded() != std::vector<std::string>{"a"})
    std::this_thread::yield();
  kept = Status(StatusCode::Cancelled, "let go");
  while (!loaded().empty())
    std::this_thread::yield();
  ASSERT_TRUE(load("a").isOk());
}

TEST_F(PlanHostTest, AModelIsKeptForAsLongAsClientsSay) {
  start();
  Opened used = ask("a").get();
  ASSERT_TRUE(used && load("b") && load("c"));
  EXPECT_EQ(host_->keptFor("b"), std::nullopt);
  host_->keep("c", std::chrono::hours(1));
  host_->keep("b", std::chrono::milliseconds(0));
  host_->keep("a", std::chrono::milliseconds(0));
  while (loaded() != std::vector<std::string>{"a", "c"})
    std::this_thread::yield();
  EXPECT_EQ(host_->keptFor("a"), std::chrono::milliseconds(0));
  EXPECT_GT(host_->keptFor("c"), std::chrono::minutes(59));
  used = Status(StatusCode::Cancelled, "let go");
  while (loaded() != std::vector<std::string>{"c"})
    std::this_thread::yield();
  // A model that is requested afterwards is loaded again.
  EXPECT_TRUE(load("a").isOk());
  host_->keep("c", std::chrono::milliseconds::max());
  EXPECT_EQ(host_->keptFor("c"), std::nullopt);
}

// Who asks again and again would otherwise keep all models loaded.
TEST_F(PlanHostTest, AskingIsNoUse) {
  start(std::chrono::hours(1));
  ASSERT_TRUE(load("a").isOk());
  const std::vector<std::shared_ptr<Backend>> held = host_->loaded();
  const auto before = host_->keptFor("a");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LT(host_->keptFor("a"), before);
}

TEST_F(PlanHostTest, ClientsUnloadNoneThatIsAlone) {
  PlanHostOptions options;
  options.engine.threads = 1;
  auto host = PlanHost::create({{"a", path_}}, std::move(options));
  ASSERT_TRUE(host.isOk());
  host_ = *std::move(host);
  ASSERT_TRUE(load("a").isOk());
  host_->keep("a", std::chrono::milliseconds(0));
  EXPECT_EQ(host_->keptFor("a"), std::nullopt);
  EXPECT_THAT(loaded(), ElementsAre("a"));
}

TEST_F(PlanHostTest, DrainRefusesWhatWaits) {
  // The thread may still be in pass() when the test is over.
  auto gate = std::make_shared<moetest::Gate>();
  opening_ = [gate](const std::string &) { gate->pass(); };
  start();
  std::future<Opened> waiting = ask("a");
  gate->waitUntilReached();
  EXPECT_FALSE(host_->drain(std::chrono::steady_clock::now() + kNoDeadline));
  EXPECT_EQ(waiting.get().status().code(), StatusCode::Cancelled);
  EXPECT_EQ(load("b").code(), StatusCode::Cancelled);
  EXPECT_EQ(host_->health().state, "draining");
  gate->open();
}

TEST_F(PlanHostTest, DrainLetsGenerationsEnd) {
  start();
  Opened model = ask("a").get();
  ASSERT_TRUE(model.isOk());
  moetest::Received received;
  ASSERT_TRUE((*model)->submit(longRequest(), received.sink()).isOk());
  EXPECT_TRUE(host_->drain(std::chrono::steady_clock::now() + kNoDeadline));
  EXPECT_EQ(received.reply().tokens.size(), 1u);
  EXPECT_EQ((*model)->submit(longRequest(), received.sink()).status().code(),
            StatusCode::Cancelled);
  model = Status(StatusCode::Cancelled, "let go");
}

TEST_F(PlanHostTest, TwoPlansHaveTwoNames) {
  auto host = PlanHost::create({{"a", path_}, {"a", path_}}, {});
  EXPECT_EQ(host.status().code(), StatusCode::Usage);
  EXPECT_THAT(host.status().message(), HasSubstr("have the same name, a"));
  auto empty = plansIn(folder_.path() + "/none");
  EXPECT_EQ(empty.status().code(), StatusCode::Io);
  std::filesystem::create_directory(folder_.file("none"));
  empty = plansIn(folder_.file("none"));
  EXPECT_THAT(empty.status().message(), HasSubstr("has no plans"));
  auto found = plansIn(folder_.path());
  ASSERT_TRUE(found.isOk());
  EXPECT_EQ(found->size(), 1u);
}

} // namespace
