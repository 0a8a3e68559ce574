//===- PlanHost.h - The plans that a server offers --------------*- C++ -*-===//
//
// Plans are loaded when a request first asks for them, by one thread, so that
// two never compete for the same memory. Where memory does not hold one more,
// the models that have had nothing to do for longest make room.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_HOST_PLANHOST_H
#define MOE_RUNTIME_SERVE_HOST_PLANHOST_H

#include "runtime/serve/host/ServedModel.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace moert {

/// A plan by the name that requests choose it by.
struct NamedPlan {
  std::string id, path;
};

struct PlanHostOptions {
  EngineOptions engine;
  SchedulerOptions scheduler;
  /// Same meaning as in ServedModel::open().
  std::optional<Pooling> pooling = {};
  TemplateSettings chat = {}; ///< Same meaning as in ServedModel::open().
  /// A model that has had nothing to do for so long is unloaded; 0: never.
  std::chrono::milliseconds idle{0};
  /// Whoever creates the host opens the first plan at once. Until it has been
  /// loaded, health() says that the host loads.
  bool loadsFirst = false;
  /// Loads a plan, on the host's thread. Tests take its place.
  std::function<decltype(ServedModel::open)> open = ServedModel::open;
};

/// Returns the plans in a folder, by the names of their files without ".fb" and
/// in their order. Fails with Usage if there are none, and with Io if the
/// folder cannot be read.
StatusOr<std::vector<NamedPlan>> plansIn(const std::string &folder);

/// Functions may be called from any thread, but the destructor and drain() not
/// from a sink.
class PlanHost final : public ModelHost {
public:
  /// Reads the plans without loading weights. Fails as Plan::load() does, and
  /// with Usage if two have the same name.
  static StatusOr<std::unique_ptr<PlanHost>>
  create(std::vector<NamedPlan> plans, PlanHostOptions options);
  /// Unloads all models. No reference to one may be left outside.
  ~PlanHost() override;

  std::vector<ModelFacts> models() const override;
  std::vector<std::shared_ptr<Backend>> loaded() const override;
  void open(const std::string &name, OpenThen then) override;
  void keep(const std::string &name, KeepTime time) override;
  KeepTime keptFor(const std::string &name) const override;
  Health health() const override;

  /// Refuses new requests and waits until the running ones have ended; cancels
  /// those that have not at `deadline`. Returns whether all ended by
  /// themselves.
  bool drain(std::chrono::steady_clock::time_point deadline);

private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    ModelFacts facts;
    std::string path;
    std::shared_ptr<ServedModel> model; ///< Null if it is not loaded.
    /// Functions to call when the model is loaded.
    std::vector<OpenThen> waiting;
    Clock::time_point used; ///< The last time at which it had something to do.
    KeepTime keep;          ///< Value of the last call of keep().
  };

  explicit PlanHost(PlanHostOptions options) : options_(std::move(options)) {}
  void run();
  /// Returns null if there is none.
  Entry *find(const std::string &name) const;
  /// Time for which an idle model is kept; max(): for ever.
  std::chrono::milliseconds keepTime(const Entry &entry) const;
  /// Whether the model works on requests.
  static bool isBusy(const ServedModel &model);
  /// Whether somebody uses a loaded model. If so, it is used now.
  static bool isUsed(Entry &entry);
  /// Returns the time until a model may count as idle for long; max(): never.
  std::chrono::milliseconds untilNextLook() const;
  /// The next entry to load; null if there is none.
  Entry *wanted();
  void load(std::unique_lock<std::mutex> &lock, Entry &entry);
  StatusOr<std::shared_ptr<ServedModel>> openPlan(const std::string &path,
                                                  const std::string &id);
  /// Unloads the model without work that was used longest ago; with `isDue`, of
  /// those that have not been used for as long as they are kept. Returns
  /// whether there was one.
  bool unloadOne(std::unique_lock<std::mutex> &lock, bool isDue);
  /// Destroys models that nobody refers to any more.
  void bury(std::unique_lock<std::mutex> &lock);

  PlanHostOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::unique_ptr<Entry>> entries_;
  /// Models whose last reference is gone. They are destroyed by the host's
  /// thread, as that reference may have been a sink's.
  std::vector<std::unique_ptr<ServedModel>> unused_;
  bool stop_ = false, draining_ = false, loading_ = false;
  /// Whether any plan was loaded since the host was created.
  bool hasLoaded_ = false;
  std::atomic<double> progress_{0};
  std::thread thread_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HOST_PLANHOST_H
