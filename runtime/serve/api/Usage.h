//===- Usage.h - Who has used how much --------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_USAGE_H
#define MOE_RUNTIME_SERVE_API_USAGE_H

#include "runtime/serve/Generation.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace moert {

/// Counts of what was answered since the server's start.
struct Usage {
  uint64_t requests = 0;
  uint64_t promptTokens = 0, cachedTokens = 0, generatedTokens = 0;
};

/// The usage of each client and model. Threads may share it.
class UsageBook {
public:
  /// Adds one answer. Beyond many clients, which only servers without keys
  /// have, further ones count as the client "".
  void add(const std::string &client, const std::string &model,
           const GenerationStats &stats) {
    constexpr size_t most = 10'000;
    std::lock_guard lock(mutex_);
    std::pair key(client, model);
    if (entries_.size() >= most && !entries_.contains(key))
      key.first.clear();
    Usage &usage = entries_[key];
    ++usage.requests;
    usage.promptTokens += uint64_t(stats.promptTokens);
    usage.cachedTokens += uint64_t(stats.cachedTokens);
    usage.generatedTokens += uint64_t(stats.generatedTokens);
  }

  /// The entries, each with its client and model, in the order of these.
  std::vector<std::pair<std::pair<std::string, std::string>, Usage>>
  entries() const {
    std::lock_guard lock(mutex_);
    return {entries_.begin(), entries_.end()};
  }

private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Usage> entries_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_USAGE_H
