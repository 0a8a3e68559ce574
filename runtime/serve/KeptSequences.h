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

/// Finished sequences, the least recently used one first. The engine finds full
/// pages of any earlier text by itself; a sequence that was kept has its last
/// page, too, and its state, so that a text that continues it needs nothing of
/// it evaluated again. Not for several threads.
class KeptSequences {
public:
  /// `engine` must outlive this. At most `limit` sequences are kept.
  KeptSequences(Engine &engine, size_t limit)
      : engine_(engine), limit_(limit) {}

  void put(Sequence sequence);

  /// Returns the most recently used sequence of at least so many tokens, and of
  /// at most so many bytes as a file, that was not returned before since it was
  /// put here; null if there is none.
  const Sequence *nextToStore(int32_t leastTokens, uint64_t mostBytes);
  bool hasToStore(int32_t leastTokens) const;

  /// Returns a sequence with as many of the first tokens of `text` as the cache
  /// holds for a group (SequenceOptions::group), but not the last one, whose
  /// logits are wanted.
  StatusOr<Sequence> begin(std::span<const int32_t> text, int32_t group);

  /// Gives up the least recently used one. Returns whether there was one.
  bool dropOldest();
  /// Gives up some, so that no more than `count` are left.
  void shrinkTo(size_t count);

  size_t size() const { return kept_.size(); }
  /// The most pages that giving up all of them would free.
  int32_t pages() const;

private:
  struct Kept {
    Sequence sequence;
    bool wasReturned = false; ///< By nextToStore().
  };

  Engine &engine_;
  size_t limit_;
  std::list<Kept> kept_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_KEPTSEQUENCES_H
