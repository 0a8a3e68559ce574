//===- MatcherPool.h - Matchers that have learnt their grammar --*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_MATCHERPOOL_H
#define MOE_RUNTIME_CONSTRAIN_MATCHERPOOL_H

#include "runtime/constrain/Matcher.h"

#include <list>
#include <memory>
#include <mutex>

namespace moert {

/// Keeps matchers between texts. One that has followed a text of a grammar
/// knows masks that cost it milliseconds each with a large vocabulary; requests
/// tend to have the same few grammars. Threads may share it.
class MatcherPool {
public:
  /// Most matchers that are kept, and most bytes that one of them may hold.
  static constexpr size_t kMost = 8, kMostBytes = size_t(64) << 20;

  explicit MatcherPool(std::shared_ptr<const TokenTrie> tokens)
      : tokens_(std::move(tokens)), library_(std::make_shared<ScanLibrary>()) {}

  /// Returns a matcher at the beginning of a text: a kept one of an equal
  /// grammar, or a new one.
  std::unique_ptr<Matcher> take(std::shared_ptr<const Automaton> automaton);
  /// Keeps a matcher that take() returned, for a while.
  void put(std::unique_ptr<Matcher> matcher);

private:
  std::shared_ptr<const TokenTrie> tokens_;
  std::shared_ptr<ScanLibrary> library_;
  std::mutex mutex_;
  /// The matcher that was returned last is in front.
  std::list<std::unique_ptr<Matcher>> idle_;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_MATCHERPOOL_H
