//===- SchedulerTestSupport.h - Schedulers of small plans -------*- C++ -*-===//

#ifndef MOE_TEST_UNIT_SCHEDULERTESTSUPPORT_H
#define MOE_TEST_UNIT_SCHEDULERTESTSUPPORT_H

#include "runtime/chat/Generate.h"
#include "runtime/plan/PlanTokenizer.h"
#include "runtime/serve/Scheduler.h"
#include "test/support/PlanEngineTest.h"
#include "test/support/SamplePlan.h"

#include <condition_variable>
#include <mutex>

namespace moetest {

/// Receives the events of one generation. Threads may share it.
class Received {
public:
  /// `onEvent`, if set, is called with each event on the scheduler's thread.
  explicit Received(
      std::function<void(const moert::GenerationEvent &)> onEvent = nullptr)
      : onEvent_(std::move(onEvent)) {}

  moert::GenerationSink sink() {
    return [this](moert::GenerationEvent event) {
      if (onEvent_)
        onEvent_(event);
      std::lock_guard lock(mutex_);
      for (const moert::ReplyEvent &part : event.events) {
        if (part.kind == moert::ReplyEvent::Kind::Text)
          text_ += part.text;
        hasEndEvent_ |= part.kind == moert::ReplyEvent::Kind::End;
      }
      for (moert::TokenLogprob &each : event.logprobs)
        logprobs_.push_back(std::move(each));
      events_ += 1;
      if (!event.isEnd)
        return;
      ++ends_;
      last_ = std::move(event);
      changed_.notify_all();
    };
  }

  /// Waits for the last event.
  const moert::GenerationEvent &end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ > 0; });
    return last_;
  }
  const moert::Reply &reply() { return end().reply; }
  const moert::GenerationStats &stats() { return end().stats; }
  bool hasEnded() {
    std::lock_guard lock(mutex_);
    return ends_ > 0;
  }
  int ends() {
    std::lock_guard lock(mutex_);
    return ends_;
  }
  /// The text of all events; hasEndEvent: they included the reply's end.
  std::string text() {
    std::lock_guard lock(mutex_);
    return text_;
  }
  bool hasEndEvent() {
    std::lock_guard lock(mutex_);
    return hasEndEvent_;
  }
  std::vector<moert::TokenLogprob> logprobs() {
    std::lock_guard lock(mutex_);
    return logprobs_;
  }

private:
  std::function<void(const moert::GenerationEvent &)> onEvent_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  std::vector<moert::TokenLogprob> logprobs_;
  int ends_ = 0, events_ = 0;
  bool hasEndEvent_ = false;
  moert::GenerationEvent last_;
};

/// Closed until it is opened: holds up a scheduler's thread inside a sink.
class Gate {
public:
  void open() {
    std::lock_guard lock(mutex_);
    isOpen_ = true;
    changed_.notify_all();
  }
  /// Returns when the gate is open.
  void pass() {
    std::unique_lock lock(mutex_);
    isReached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return isOpen_; });
  }
  /// Returns when a thread waits in pass(), or has passed.
  void waitUntilReached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return isReached_; });
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool isOpen_ = false, isReached_ = false;
};

/// A fixture for schedulers on `PlanT`, which may have no tokenizer: then that
/// of SamplePlan is used, with as many tokens.
template <typename PlanT>
class SchedulerFixture : public PlanEngineTest<PlanT> {
protected:
  void SetUp() override {
    SamplePlan plan;
    static_assert(SamplePlan::kVocab == PlanT::kVocab);
    plan.addTokenizer();
    auto loaded = moert::Plan::load(plan.builder.write(tokenizerFolder_));
    ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
    auto tokenizer = moert::planTokenizer(*loaded);
    ASSERT_TRUE(tokenizer.isOk()) << tokenizer.status().message();
    tokenizer_.emplace(*std::move(tokenizer));
  }

  moert::Scheduler &start(moert::SchedulerOptions options = {}) {
    scheduler_.reset();
    auto made = moert::Scheduler::create(*this->engine_, *tokenizer_, options);
    EXPECT_TRUE(made.isOk()) << made.status().message();
    scheduler_ = *std::move(made);
    return *scheduler_;
  }

  /// A greedy request, which no end-of-generation token ends.
  static moert::GenerationRequest greedy(std::vector<int32_t> prompt,
                                         int32_t maxTokens,
                                         std::string client = "") {
    moert::GenerationRequest request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.reply.maxTokens = maxTokens;
    request.reply.ignoreEos = true;
    request.client = std::move(client);
    return request;
  }
  moert::GenerationId submit(moert::GenerationRequest request,
                             Received &received) {
    auto id = scheduler_->submit(std::move(request), received.sink());
    EXPECT_TRUE(id.isOk()) << id.status().message();
    return id.isOk() ? *id : 0;
  }
  /// Submits a request and waits for its end.
  std::unique_ptr<Received> complete(moert::GenerationRequest request) {
    auto received = std::make_unique<Received>();
    submit(std::move(request), *received);
    received->end();
    return received;
  }

  /// Waits until all have ended and statistics say so; nothing new can come.
  void waitForAll() {
    EXPECT_TRUE(scheduler_->drain(std::chrono::steady_clock::now() +
                                  std::chrono::hours(1)));
  }

  /// What the request's sequence generates alone, on another engine of the
  /// same plan.
  std::vector<int32_t> alone(const moert::GenerationRequest &request) {
    if (!other_) {
      auto opened = moert::Engine::open(this->path_);
      EXPECT_TRUE(opened.isOk()) << opened.status().message();
      other_ = *std::move(opened);
    }
    moert::Sequence sequence = other_->sequence({.sharePrefixes = false});
    auto reply = moert::ReplyStream::create(*tokenizer_, request.promptText,
                                            request.reply);
    EXPECT_TRUE(reply.isOk());
    auto stats = moert::generate(
        *other_, sequence, request.prompt, request.sampling, *reply,
        [](const moert::ReplyEvent &) { return moert::Status::ok(); });
    EXPECT_TRUE(stats.isOk()) << stats.status().message();
    return reply->reply().tokens;
  }

  /// Ends the scheduler and expects that its sequences left nothing behind.
  void expectNoPageIsLost() {
    scheduler_.reset();
    EXPECT_EQ(this->engine_->freePages(), this->engine_->pages());
  }

  TempDir tokenizerFolder_;
  std::optional<moert::Tokenizer> tokenizer_;
  std::unique_ptr<moert::Engine> other_;
  std::unique_ptr<moert::Scheduler> scheduler_;
};

} // namespace moetest

#endif // MOE_TEST_UNIT_SCHEDULERTESTSUPPORT_H
