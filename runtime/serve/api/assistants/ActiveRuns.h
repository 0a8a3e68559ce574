//===- ActiveRuns.h - Runs of assistants that generate now ------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_ASSISTANTS_ACTIVERUNS_H
#define MOE_RUNTIME_SERVE_API_ASSISTANTS_ACTIVERUNS_H

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace moert {

class RunRecord;

/// Finds the record of a run by its id, for requests that cancel or change it.
/// Any thread may use it.
class ActiveRuns {
public:
  void add(const std::string &id, std::weak_ptr<RunRecord> record) {
    std::lock_guard lock(mutex_);
    records_[id] = std::move(record);
  }
  void remove(const std::string &id) {
    std::lock_guard lock(mutex_);
    records_.erase(id);
  }
  /// Null if the run does not generate.
  std::shared_ptr<RunRecord> find(const std::string &id) const {
    std::lock_guard lock(mutex_);
    auto found = records_.find(id);
    return found == records_.end() ? nullptr : found->second.lock();
  }

private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<RunRecord>> records_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_ASSISTANTS_ACTIVERUNS_H
