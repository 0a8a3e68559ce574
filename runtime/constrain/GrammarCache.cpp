#include "runtime/constrain/GrammarCache.h"

#include <algorithm>

namespace moert {

GrammarCache::Compiled
GrammarCache::get(std::string key, const std::function<Compiled()> &make) {
  {
    std::lock_guard lock(mutex_);
    auto it = std::ranges::find(entries_, key, &Entry::key);
    if (it != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, it);
      return it->automaton;
    }
  }
  // Compiles without the lock, so that others need not wait. Two threads may
  // compile the same grammar.
  MOE_ASSIGN_OR_RETURN(std::shared_ptr<const Automaton> automaton, make());
  if (!automaton)
    return automaton;
  const size_t bytes = key.size() + automaton->bytes();
  std::lock_guard lock(mutex_);
  auto it = std::ranges::find(entries_, key, &Entry::key);
  if (it != entries_.end())
    return it->automaton;
  entries_.push_front({std::move(key), automaton, bytes});
  bytes_ += bytes;
  while (entries_.size() > kMost ||
         (bytes_ > kMostBytes && entries_.size() > 1)) {
    bytes_ -= entries_.back().bytes;
    entries_.pop_back();
  }
  return automaton;
}

GrammarCache &sharedGrammars() {
  static GrammarCache cache;
  return cache;
}

} // namespace moert
