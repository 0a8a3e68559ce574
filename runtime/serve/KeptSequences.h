//===- KeptSequences.h - Finished sequences that may go on ------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_KEPTSEQUENCES_H
#define MOE_RUNTIME_SERVE_KEPTSEQUENCES_H

#include "runtime/engine/Engine.h"

#include <list>
#include <span>

namespace moert {

/// Number of pages of the cache that so many tokens take.
constexpr int32_t pagesOf(int64_t tokens) {
  return int32_t((tokens + moek::kKvPage - 1) / moek::kKvPage);
}

/// Finished sequences. The engine finds full pages of any earlier text by
/// itself; a sequence that was kept has its last page, too, and its state, so
/// that a text that continues it needs nothing of it evaluated again. The one
/// that is given up first has been used longest ago, by the number of new texts
/// since then; one that went on with another, and a long one, count as used
/// later. So what is left of requests that nobody continues (titles, subagents)
/// goes before a conversation that they come between, and a conversation that
/// has ended goes too. Not for several threads.
class KeptSequences {
public:
  /// `engine` must outlive this. At most `limit` sequences are kept.
  KeptSequences(Engine &engine, size_t limit)
      : engine_(engine), limit_(limit) {}

  /// `turns` is the number that begin() returned.
  void put(Sequence sequence, int32_t turns);

  /// Returns the most recently used sequence of at least so many tokens, and of
  /// at most so many bytes as a file, that was not returned before since it was
  /// put here; null if there is none.
  const Sequence *nextToStore(int32_t leastTokens, uint64_t mostBytes);
  bool hasToStore(int32_t leastTokens) const;

  struct Begun {
    Sequence sequence;
    /// How often a text went on with most of the one before, up to this one.
    int32_t turns = 0;
  };
  /// Returns a sequence with as many of the first tokens of `text` as the cache
  /// holds for a group (SequenceOptions::group), but not the last one, whose
  /// logits are wanted.
  StatusOr<Begun> begin(std::span<const int32_t> text, int32_t group);

  /// Returns how many of the first tokens of `text` those of a group have.
  int32_t shared(std::span<const int32_t> text, int32_t group) const;

  /// Gives up the one that is worth least. Returns whether there was one.
  bool dropLeast();
  /// Gives up some, so that no more than `count` are left.
  void shrinkTo(size_t count);

  size_t size() const { return kept_.size(); }
  /// The most pages that giving up all of them would free.
  int32_t pages() const;

private:
  struct Kept {
    Sequence sequence;
    int32_t turns = 0;
    uint64_t worth = 0;       ///< Least worth is given up first.
    bool wasReturned = false; ///< Whether nextToStore() has returned it.
  };
  uint64_t worthOf(int32_t turns, int32_t tokens) const;

  Engine &engine_;
  size_t limit_;
  std::list<Kept> kept_; ///< Sorted by last use, the earliest first.
  /// Number of new texts: the clock that measures their age.
  uint64_t texts_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_KEPTSEQUENCES_H
