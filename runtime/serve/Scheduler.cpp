// The scheduler's thread, its queue and what other threads may ask of it.
#include "runtime/serve/Scheduler.h"

#include "runtime/base/FairLock.h"
#include "runtime/base/Text.h"
#include "runtime/serve/Batch.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <thread>

namespace moert {

namespace {
constexpr int32_t kMostRetrySeconds = 300;
/// How long a drain may go on after its deadline to write finished texts.
constexpr std::chrono::seconds kMostStoreTime(20);
/// Assumed duration of a generation before one has ended.
constexpr double kFirstSeconds = 2;
/// Weight of a new duration in the average.
constexpr double kNewWeight = 1.0 / 8;

Status checkOptions(const SchedulerOptions &options) {
  auto refuse = [](std::string_view name, auto value, std::string_view range) {
    return Status(StatusCode::Usage,
                  fmt::format("the scheduler's {} is {}; expected {}", name,
                              value, range));
  };
  struct Least {
    std::string_view name;
    int32_t value, least;
  };
  for (Least each : {Least{"number of sequences", options.sequences, 0},
                     {"queue", options.queue, 1},
                     {"queue of a client", options.queuePerClient, 1},
                     {"running limit of a client", options.runningPerClient, 0},
                     {"prefill chunk", options.prefillChunk, 0},
                     {"number of assumed tokens", options.assumedTokens, 1},
                     {"work on masks", options.maskSteps, 1},
                     {"number of kept sequences", options.keptSequences, 0},
                     {"least tokens of a file", options.storeLeastTokens, 1}})
    if (each.value < each.least)
      return refuse(each.name, each.value,
                    fmt::format("at least {}", each.least));
  if (!(options.storeIdleSeconds >= 0 && options.storeIdleSeconds <= 86400))
    return refuse("idle time of the store", options.storeIdleSeconds,
                  "0 to 86400 seconds");
  if (!(options.stepFactor > 1) || !std::isfinite(options.stepFactor))
    return refuse("step factor", options.stepFactor, "a number above 1");
  return Status::ok();
}
} // namespace

class Scheduler::Impl {
public:
  Impl(Engine &engine, const Tokenizer &tokenizer,
       const SchedulerOptions &options)
      : engine_(engine), tokenizer_(tokenizer), options_(options),
        room_(Batch::roomOf(engine)), batch_(engine, options) {}
  /// Opens the store and starts the thread.
  Status start();
  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      accepting_ = false;
      stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable())
      thread_.join();
  }

  StatusOr<GenerationId> submit(GenerationRequest request, GenerationSink sink);
  void cancel(GenerationId id);
  Status withEngine(int32_t pages, const std::function<Status()> &use);
  bool drain(std::chrono::steady_clock::time_point deadline);
  int32_t retryAfterSeconds() const {
    std::lock_guard lock(mutex_);
    return retrySeconds();
  }
  SchedulerStats stats() const {
    std::lock_guard lock(mutex_);
    SchedulerStats stats = stats_;
    stats.submitted = lastId_;
    stats.refused = refused_;
    stats.isDraining = !accepting_;
    return stats;
  }

private:
  // These are called with the lock held.
  Status mayQueue(const GenerationRequest &request);
  int32_t retrySeconds() const;
  void cancelAll();

  // These are called on the thread.
  void work();
  /// Waits for something to do; returns false if nothing will come any more.
  bool collect();
  LiveGenerations endCancelled();
  void count(const LiveGeneration &ended);
  /// Lets other threads see this moment, in which some have ended.
  void publish(const LiveGenerations &ended);

  /// Tells generations that wait that there may be pages or files for them now.
  /// May be called by any thread.
  void wakeWaiting();
  Status checkLength(int64_t tokens) const;
  std::shared_ptr<const ConstraintVocabulary> vocabulary();

  Engine &engine_;
  const Tokenizer &tokenizer_;
  const SchedulerOptions options_;
  const int32_t room_;
  std::once_flag vocabularyMade_;
  std::shared_ptr<const ConstraintVocabulary> vocabulary_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, ended_;
  // Guarded by the lock.
  LiveGenerations arrivals_;
  /// Generations that have not ended.
  std::map<GenerationId, LiveGeneration *> live_;
  int32_t queued_ = 0; ///< Number of arrivals and of generations that wait.
  std::map<std::string, int32_t, std::less<>> queuedOf_; ///< Key: the client.
  GenerationId lastId_ = 0;
  uint64_t refused_ = 0;
  double meanSeconds_ = kFirstSeconds;
  bool accepting_ = true, stopping_ = false;
  /// Generations that wait cannot begin before another one gives pages back, or
  /// a file has been read.
  bool lacksPages_ = false;
  /// Whether a finished sequence is to be stored in a file.
  bool hasToStore_ = false;
  SchedulerStats stats_;

  /// The thread that uses the engine.
  FairLock engineTurn_;

  // Used by the scheduler's thread; the batch also by the holder of
  // engineTurn_.
  LiveGenerations waiting_;
  Batch batch_;
  uint64_t finished_ = 0, cancelled_ = 0, failed_ = 0, generated_ = 0;
  std::thread thread_;
};

Status Scheduler::Impl::start() {
  if (!options_.storeFolder.empty()) {
    MOE_ASSIGN_OR_RETURN(std::unique_ptr<PrefixStore> store,
                         PrefixStore::open(engine_, options_.storeFolder,
                                           options_.storeBytes,
                                           [this] { wakeWaiting(); }));
    batch_.setStore(std::move(store));
  }
  publish({});
  thread_ = std::thread([this] { work(); });
  return Status::ok();
}

void Scheduler::Impl::wakeWaiting() {
  {
    std::lock_guard lock(mutex_);
    lacksPages_ = false;
  }
  wake_.notify_all();
}

Status Scheduler::Impl::checkLength(int64_t tokens) const {
  if (tokens <= room_)
    return Status::ok();
  Status failure(StatusCode::Usage,
                 fmt::format("the prompt of {} does not fit the context of {}",
                             counted(size_t(tokens), "token"), room_));
  return engine_.adviseContext(std::move(failure), tokens);
}

std::shared_ptr<const ConstraintVocabulary> Scheduler::Impl::vocabulary() {
  std::call_once(vocabularyMade_, [&] {
    vocabulary_ = std::make_shared<const ConstraintVocabulary>(tokenizer_);
  });
  return vocabulary_;
}

int32_t Scheduler::Impl::retrySeconds() const {
  const double rounds = double(queued_ + 1) / batch_.mostRunning();
  return int32_t(std::clamp(std::ceil(rounds * meanSeconds_), 1.0,
                            double(kMostRetrySeconds)));
}

Status Scheduler::Impl::mayQueue(const GenerationRequest &request) {
  if (!accepting_)
    return Status(StatusCode::Cancelled,
                  "the server is about to stop and takes no new requests");
  if (request.isFurtherChoice)
    return Status::ok();
  auto of = queuedOf_.find(request.client);
  const int32_t own = of == queuedOf_.end() ? 0 : of->second;
  if (queued_ < options_.queue && own < options_.queuePerClient)
    return Status::ok();
  const int32_t waiting = queued_ < options_.queue ? own : queued_;
  return Status(StatusCode::DoesNotFit,
                fmt::format("{}{} {} already; try again in {}",
                            counted(size_t(waiting), "request"),
                            queued_ < options_.queue ? " of this client" : "",
                            waiting == 1 ? "waits" : "wait",
                            counted(size_t(retrySeconds()), "second")));
}

StatusOr<GenerationId> Scheduler::Impl::submit(GenerationRequest request,
                                               GenerationSink sink) {
  auto refuse = [&](Status status) {
    ++refused_;
    return status;
  };
  // An overloaded server refuses before it does any work for a request.
  {
    std::lock_guard lock(mutex_);
    if (Status may = mayQueue(request); !may.isOk())
      return refuse(std::move(may));
  }
  auto prepare = [&]() -> StatusOr<std::unique_ptr<LiveGeneration>> {
    if (!request.embed && !request.classifies)
      MOE_RETURN_IF_ERROR(engine_.mayGenerate());
    // A text to embed gets one token more (LiveGeneration::embeds()).
    MOE_RETURN_IF_ERROR(checkLength(int64_t(request.prompt.size()) +
                                    int64_t(request.embed.has_value())));
    return LiveGeneration::create(std::move(request), std::move(sink),
                                  tokenizer_, engine_.vocab(), room_,
                                  [this] { return vocabulary(); });
  };
  StatusOr<std::unique_ptr<LiveGeneration>> made = prepare();
  GenerationId id = 0;
  {
    std::lock_guard lock(mutex_);
    if (!made)
      return refuse(made.status());
    LiveGeneration &generation = **made;
    if (Status may = mayQueue(generation.request()); !may.isOk())
      return refuse(std::move(may));
    id = generation.id = ++lastId_;
    ++queued_;
    ++queuedOf_[generation.client()];
    live_.emplace(id, &generation);
    arrivals_.push_back(*std::move(made));
  }
  wake_.notify_all();
  return id;
}

void Scheduler::Impl::cancel(GenerationId id) {
  {
    std::lock_guard lock(mutex_);
    auto it = live_.find(id);
    if (it == live_.end())
      return;
    it->second->cancel();
    lacksPages_ = false;
  }
  wake_.notify_all();
}

Status Scheduler::Impl::withEngine(int32_t pages,
                                   const std::function<Status()> &use) {
  Status status;
  {
    std::lock_guard turn(engineTurn_);
    batch_.dropKept(pages);
    status = use();
  }
  wakeWaiting();
  return status;
}

void Scheduler::Impl::cancelAll() {
  for (auto &[id, generation] : live_)
    generation->cancel();
}

bool Scheduler::Impl::drain(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  accepting_ = false;
  auto allEnded = [&] { return live_.empty(); };
  wake_.notify_all();
  // A deadline in the past cancels without letting anything run in between.
  const bool endedByThemselves =
      std::chrono::steady_clock::now() < deadline
          ? ended_.wait_until(lock, deadline, allEnded)
          : allEnded();
  if (!endedByThemselves) {
    cancelAll();
    wake_.notify_all();
    ended_.wait(lock, allEnded);
  }
  ended_.wait_until(
      lock,
      std::max(deadline, std::chrono::steady_clock::now() + kMostStoreTime),
      [&] { return !hasToStore_; });
  return endedByThemselves;
}

bool Scheduler::Impl::collect() {
  std::unique_lock lock(mutex_);
  auto hasWork = [&] {
    return stopping_ || !arrivals_.empty() ||
           (!waiting_.empty() && !lacksPages_) || !batch_.running().empty();
  };
  // Sequences that would be stored when the server ends are stored now.
  auto idle = [&] {
    return std::chrono::duration<double>(accepting_ ? options_.storeIdleSeconds
                                                    : 0);
  };
  auto mayStore = [&] { return !accepting_ || hasWork(); };
  while (hasToStore_ &&
         (!wake_.wait_for(lock, idle(), mayStore) || !hasWork())) {
    lock.unlock();
    {
      std::lock_guard turn(engineTurn_);
      batch_.storeOne();
      publish({});
    }
    lock.lock();
  }
  wake_.wait(lock, hasWork);
  std::ranges::move(arrivals_, std::back_inserter(waiting_));
  arrivals_.clear();
  if (stopping_)
    cancelAll();
  return !stopping_ || !live_.empty();
}

LiveGenerations Scheduler::Impl::endCancelled() {
  LiveGenerations ended;
  for (auto &generation : waiting_)
    if (generation->isCancelled()) {
      generation->finish(StopReason::Cancelled);
      ended.push_back(std::move(generation));
    }
  std::erase(waiting_, nullptr);
  batch_.endCancelled();
  return ended;
}

void Scheduler::Impl::count(const LiveGeneration &ended) {
  generated_ += uint64_t(ended.stats().generatedTokens);
  ++(ended.hasFailed()      ? failed_
     : ended.wasCancelled() ? cancelled_
                            : finished_);
}

void Scheduler::Impl::publish(const LiveGenerations &ended) {
  for (const auto &generation : ended)
    count(*generation);
  SchedulerStats stats;
  batch_.report(stats);
  stats.generatedTokens = generated_;
  for (const GenerationRow &row : stats.rows)
    stats.generatedTokens += uint64_t(row.generatedTokens);
  for (const auto &generation : waiting_) {
    stats.rows.push_back(generation->row());
    stats.generatedTokens += uint64_t(stats.rows.back().generatedTokens);
  }
  stats.finished = finished_;
  stats.cancelled = cancelled_;
  stats.failed = failed_;
  stats.mostWaiting = options_.queue;
  std::lock_guard lock(mutex_);
  hasToStore_ = batch_.hasToStore();
  // Requests that arrived meanwhile count as waiting, too.
  queued_ = int32_t(waiting_.size() + arrivals_.size());
  queuedOf_.clear();
  for (const LiveGenerations *queue : {&waiting_, &arrivals_})
    for (const auto &generation : *queue)
      ++queuedOf_[generation->client()];
  stats.waiting = queued_;
  stats_ = std::move(stats);
  for (const auto &generation : ended) {
    live_.erase(generation->id);
    if (generation->hasBegun())
      meanSeconds_ +=
          kNewWeight * (generation->stats().promptSeconds +
                        generation->stats().decodeSeconds - meanSeconds_);
  }
  if (!ended.empty() || !hasToStore_)
    ended_.notify_all();
}

void Scheduler::Impl::work() {
  while (collect()) {
    std::lock_guard turn(engineTurn_);
    LiveGenerations ended = endCancelled();
    batch_.admit(waiting_);
    std::ranges::move(batch_.takeEnded(), std::back_inserter(ended));
    publish(ended);
    {
      std::lock_guard lock(mutex_);
      lacksPages_ = batch_.running().empty() && !waiting_.empty() &&
                    !batch_.hasReadFile();
    }
    batch_.step(waiting_);
    batch_.storeBehind();
    publish(batch_.takeEnded());
  }
}

Scheduler::Scheduler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scheduler::~Scheduler() = default;

StatusOr<std::unique_ptr<Scheduler>>
Scheduler::create(Engine &engine, const Tokenizer &tokenizer,
                  SchedulerOptions options) {
  MOE_RETURN_IF_ERROR(checkOptions(options));
  auto impl = std::make_unique<Impl>(engine, tokenizer, options);
  MOE_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(impl)));
}

StatusOr<GenerationId> Scheduler::submit(GenerationRequest request,
                                         GenerationSink sink) {
  return impl_->submit(std::move(request), std::move(sink));
}
void Scheduler::cancel(GenerationId id) { impl_->cancel(id); }
Status Scheduler::withEngine(int32_t pages,
                             const std::function<Status()> &use) {
  return impl_->withEngine(pages, use);
}
bool Scheduler::drain(std::chrono::steady_clock::time_point deadline) {
  return impl_->drain(deadline);
}
int32_t Scheduler::retryAfterSeconds() const {
  return impl_->retryAfterSeconds();
}
SchedulerStats Scheduler::stats() const { return impl_->stats(); }

} // namespace moert
