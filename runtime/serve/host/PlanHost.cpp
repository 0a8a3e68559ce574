#include "runtime/serve/host/PlanHost.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>

namespace moert {

namespace stdfs = std::filesystem;

StatusOr<std::vector<NamedPlan>> plansIn(const std::string &folder) {
  std::error_code error;
  std::vector<NamedPlan> plans;
  for (stdfs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() == ".fb")
      plans.push_back({at->path().stem().string(), at->path().string()});
  if (error)
    return Status(StatusCode::Io,
                  fmt::format("{}: {}", folder, error.message()));
  if (plans.empty())
    return Status(StatusCode::Usage,
                  fmt::format("{} has no plans: expected files with names that "
                              "end in .fb, which moec compile writes",
                              folder));
  std::ranges::sort(plans, {}, &NamedPlan::id);
  return plans;
}

StatusOr<std::unique_ptr<PlanHost>>
PlanHost::create(std::vector<NamedPlan> plans, PlanHostOptions options) {
  std::unique_ptr<PlanHost> host(new PlanHost(std::move(options)));
  for (NamedPlan &named : plans) {
    MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(named.path));
    for (const auto &other : host->entries_)
      if (other->facts.id == named.id)
        return Status(StatusCode::Usage,
                      fmt::format("{} and {} have the same name, {}",
                                  other->path, named.path, named.id));
    auto entry = std::make_unique<Entry>();
    entry->facts = factsOf(plan, named.path, std::move(named.id));
    if (!host->options_.chat.source.empty())
      entry->facts.chatTemplate = host->options_.chat.source;
    entry->path = std::move(named.path);
    host->entries_.push_back(std::move(entry));
  }
  host->thread_ = std::thread([host = host.get()] { host->run(); });
  return host;
}

PlanHost::~PlanHost() {
  if (!thread_.joinable())
    return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  for (auto &entry : entries_)
    entry->model.reset();
}

std::vector<ModelFacts> PlanHost::models() const {
  std::lock_guard lock(mutex_);
  std::vector<ModelFacts> all;
  for (const auto &entry : entries_)
    all.push_back(entry->model ? entry->model->facts() : entry->facts);
  return all;
}

std::vector<std::shared_ptr<Backend>> PlanHost::loaded() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Backend>> all;
  for (const auto &entry : entries_)
    if (entry->model)
      all.push_back(entry->model);
  return all;
}

void PlanHost::open(const std::string &name, OpenThen then) {
  std::unique_lock lock(mutex_);
  if (draining_ || stop_) {
    lock.unlock();
    return then(Status(StatusCode::Cancelled, "the server is shutting down"));
  }
  Entry *found = find(name);
  if (!found) {
    std::string names;
    for (const auto &entry : entries_)
      names += (names.empty() ? "" : ", ") + entry->facts.id;
    lock.unlock();
    return then(Status(StatusCode::Usage,
                       fmt::format("there is no model {}; this server has {}",
                                   moert::quoted(name), names)));
  }
  Entry &entry = *found;
  entry.used = Clock::now();
  if (std::shared_ptr<ServedModel> model = entry.model) {
    lock.unlock();
    return then(std::shared_ptr<Backend>(std::move(model)));
  }
  entry.waiting.push_back(std::move(then));
  lock.unlock();
  wake_.notify_all();
}

PlanHost::Entry *PlanHost::find(const std::string &name) const {
  auto found = std::ranges::find_if(entries_, [&](const auto &entry) {
    return name.empty() || entry->facts.id == name;
  });
  return found == entries_.end() ? nullptr : found->get();
}

void PlanHost::keep(const std::string &name, KeepTime time) {
  {
    std::lock_guard lock(mutex_);
    if (entries_.size() < 2)
      return;
    if (Entry *entry = find(name))
      entry->keep = time;
  }
  wake_.notify_all();
}

ModelHost::KeepTime PlanHost::keptFor(const std::string &name) const {
  std::lock_guard lock(mutex_);
  Entry *entry = find(name);
  if (!entry || keepTime(*entry) == std::chrono::milliseconds::max())
    return std::nullopt;
  // A request for the state has a reference, and does not use the model.
  const auto passed =
      entry->model && isBusy(*entry->model)
          ? std::chrono::milliseconds(0)
          : std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() -
                                                                  entry->used);
  return std::max(std::chrono::milliseconds(0), keepTime(*entry) - passed);
}

std::chrono::milliseconds PlanHost::keepTime(const Entry &entry) const {
  if (entry.keep)
    return *entry.keep;
  return options_.idle.count() > 0 ? options_.idle
                                   : std::chrono::milliseconds::max();
}

bool PlanHost::isBusy(const ServedModel &model) {
  const BackendStats stats = model.stats();
  return stats.running + stats.queued > 0;
}

bool PlanHost::isUsed(Entry &entry) {
  // The host has one reference; whoever has another one is about to submit.
  if (!isBusy(*entry.model) && entry.model.use_count() <= 1)
    return false;
  entry.used = Clock::now();
  return true;
}

std::chrono::milliseconds PlanHost::untilNextLook() const {
  constexpr std::chrono::milliseconds least{10};
  auto next = std::chrono::milliseconds::max();
  for (const auto &entry : entries_)
    if (entry->model && keepTime(*entry) != std::chrono::milliseconds::max())
      next = std::min(next, std::max(keepTime(*entry) / 4, least));
  return next;
}

ModelHost::Health PlanHost::health() const {
  std::lock_guard lock(mutex_);
  if (draining_ || stop_)
    return {.state = "draining", .progress = 1};
  bool isAnyLoaded = std::ranges::any_of(
      entries_, [](const auto &entry) { return entry->model != nullptr; });
  bool isLoading = loading_ || (options_.loadsFirst && !hasLoaded_);
  if (isLoading && !isAnyLoaded)
    return {.state = "loading", .progress = progress_};
  return {};
}

bool PlanHost::drain(Clock::time_point deadline) {
  std::vector<std::shared_ptr<ServedModel>> models;
  std::vector<OpenThen> refused;
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
    for (auto &entry : entries_) {
      if (entry->model)
        models.push_back(entry->model);
      for (OpenThen &then : entry->waiting)
        refused.push_back(std::move(then));
      entry->waiting.clear();
    }
  }
  for (OpenThen &then : refused)
    then(Status(StatusCode::Cancelled, "the server is shutting down"));
  bool isAll = refused.empty();
  for (const auto &model : models)
    isAll &= model->drain(deadline);
  return isAll;
}

//===----------------------------------------------------------------------===//
// The host's thread
//===----------------------------------------------------------------------===//

void PlanHost::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    bury(lock);
    if (Entry *entry = wanted()) {
      load(lock, *entry);
      continue;
    }
    while (unloadOne(lock, /*isDue=*/true))
      bury(lock);
    const auto pause = untilNextLook();
    auto hasWork = [&] {
      return stop_ || !unused_.empty() || wanted() || untilNextLook() < pause;
    };
    if (pause == std::chrono::milliseconds::max())
      wake_.wait(lock, hasWork);
    else
      wake_.wait_for(lock, pause, hasWork);
  }
  std::vector<OpenThen> refused;
  for (auto &entry : entries_) {
    std::ranges::move(entry->waiting, std::back_inserter(refused));
    entry->waiting.clear();
  }
  lock.unlock();
  for (OpenThen &then : refused)
    then(Status(StatusCode::Cancelled, "the server is shutting down"));
  lock.lock();
  bury(lock);
}

PlanHost::Entry *PlanHost::wanted() {
  for (auto &entry : entries_)
    if (!entry->waiting.empty())
      return entry.get();
  return nullptr;
}

void PlanHost::load(std::unique_lock<std::mutex> &lock, Entry &entry) {
  loading_ = true;
  progress_ = 0;
  StatusOr<std::shared_ptr<ServedModel>> opened =
      std::shared_ptr<ServedModel>();
  while (true) {
    lock.unlock();
    opened = openPlan(entry.path, entry.facts.id);
    lock.lock();
    if (opened || opened.status().code() != StatusCode::DoesNotFit ||
        !unloadOne(lock, /*isDue=*/false))
      break;
    bury(lock);
  }
  loading_ = false;
  std::vector<OpenThen> waiting = std::exchange(entry.waiting, {});
  if (opened) {
    entry.model = *opened;
    hasLoaded_ = true;
    entry.used = Clock::now();
  }
  lock.unlock();
  for (OpenThen &then : waiting)
    if (opened)
      then(std::shared_ptr<Backend>(*opened));
    else
      then(opened.status());
  opened = std::shared_ptr<ServedModel>();
  waiting.clear();
  lock.lock();
}

StatusOr<std::shared_ptr<ServedModel>>
PlanHost::openPlan(const std::string &path, const std::string &id) {
  EngineOptions engine = options_.engine;
  engine.loading = [this, next = engine.loading](
                       std::string_view device, uint64_t done, uint64_t total) {
    progress_ = total > 0 ? double(done) / double(total) : 1;
    if (next)
      next(device, done, total);
  };
  MOE_ASSIGN_OR_RETURN(
      std::unique_ptr<ServedModel> model,
      options_.open(path, id, engine, options_.scheduler, options_.pooling,
                    options_.chat));
  return std::shared_ptr<ServedModel>(model.release(),
                                      [this](ServedModel *unused) {
                                        std::lock_guard lock(mutex_);
                                        unused_.emplace_back(unused);
                                        wake_.notify_all();
                                      });
}

bool PlanHost::unloadOne(std::unique_lock<std::mutex> &lock, bool isDue) {
  Entry *oldest = nullptr;
  for (auto &entry : entries_) {
    if (!entry->model || isUsed(*entry))
      continue;
    const bool mayGo =
        !isDue || (keepTime(*entry) != std::chrono::milliseconds::max() &&
                   Clock::now() - entry->used >= keepTime(*entry));
    if (mayGo && (!oldest || entry->used < oldest->used))
      oldest = entry.get();
  }
  if (!oldest)
    return false;
  std::shared_ptr<ServedModel> model = std::exchange(oldest->model, nullptr);
  lock.unlock();
  model.reset();
  lock.lock();
  return true;
}

void PlanHost::bury(std::unique_lock<std::mutex> &lock) {
  std::vector<std::unique_ptr<ServedModel>> unused = std::move(unused_);
  unused_.clear();
  lock.unlock();
  unused.clear();
  lock.lock();
}

} // namespace moert
