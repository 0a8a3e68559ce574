#include "runtime/constrain/MatcherPool.h"

#include <algorithm>

namespace moert {

std::unique_ptr<Matcher>
MatcherPool::take(std::shared_ptr<const Automaton> automaton) {
  {
    std::lock_guard lock(mutex_);
    auto it = std::ranges::find_if(idle_, [&](const auto &matcher) {
      return matcher->sharedAutomaton() == automaton ||
             matcher->automaton() == *automaton;
    });
    if (it != idle_.end()) {
      std::unique_ptr<Matcher> found = std::move(*it);
      idle_.erase(it);
      return found;
    }
  }
  return std::make_unique<Matcher>(std::move(automaton), tokens_,
                                   MatcherLimits(), library_);
}

void MatcherPool::put(std::unique_ptr<Matcher> matcher) {
  if (matcher->bytes() > kMostBytes || matcher->isSpent())
    return;
  matcher->restart();
  std::unique_ptr<Matcher> dropped; // Destroyed after the lock is released.
  std::lock_guard lock(mutex_);
  idle_.push_front(std::move(matcher));
  if (idle_.size() > kMost) {
    dropped = std::move(idle_.back());
    idle_.pop_back();
  }
}

} // namespace moert
