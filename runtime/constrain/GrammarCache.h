//===- GrammarCache.h - Compiled grammars by their text ---------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_GRAMMARCACHE_H
#define MOE_RUNTIME_CONSTRAIN_GRAMMARCACHE_H

#include "runtime/constrain/Automaton.h"

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace moert {

/// Keeps the grammars that were used last, so that requests with the same
/// schema or the same tools share one, and what its masks have taught
/// (MatcherPool.h). Threads may share it.
class GrammarCache {
public:
  using Compiled = StatusOr<std::shared_ptr<const Automaton>>;

  /// Most grammars, and most bytes of all their keys and states.
  static constexpr size_t kMost = 64, kMostBytes = size_t(128) << 20;

  /// Returns the grammar of a key, which says all that `make` depends on. Calls
  /// `make` if there is none; failures are not kept.
  Compiled get(std::string key, const std::function<Compiled()> &make);

private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Automaton> automaton;
    size_t bytes;
  };
  std::mutex mutex_;
  std::list<Entry> entries_; ///< Sorted by last use, the latest first.
  size_t bytes_ = 0;
};

/// The cache of this process.
GrammarCache &sharedGrammars();

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_GRAMMARCACHE_H
