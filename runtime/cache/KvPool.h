//===- KvPool.h - Allocation and sharing of KV cache pages ------*- C++ -*-===//
//
// A page is kKvPage rows (one per token) of every layer's cache. Sequences hold
// pages; several may hold the same page, which none of them then writes to. A
// full page is published under the token ids from the beginning of the text to
// its end: a sequence that begins with the same tokens, and is of the same
// group, takes the page instead of computing it. A published page that no
// sequence holds is kept until its memory is needed; the page that was released
// first goes first.
//
// The pool knows page numbers and token ids only; KvPages has the memory.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CACHE_KVPOOL_H
#define MOE_RUNTIME_CACHE_KVPOOL_H

#include "kernels/KvCache.h"

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace moert {

class KvPool {
public:
  static constexpr int32_t kNone = -1;
  /// Stands for the page before the first page of the sequences of a group,
  /// whose number is at least 0.
  static constexpr int32_t root(int32_t group) { return -1 - group; }

  explicit KvPool(int32_t pages);

  int32_t pages() const { return int32_t(pages_.size()); }
  /// Number of pages that allocate() can still return.
  int32_t available() const { return int32_t(free_.size() + idle_.size()); }

  /// Returns a page for the caller to write to, or nothing if all pages are
  /// held.
  std::optional<int32_t> allocate();

  /// Returns a number that changes whenever rows of the page may change. Facts
  /// about its rows hold as long as the number is the same.
  uint64_t generation(int32_t page) const { return at(page).generation; }
  /// Announces that the only holder will write to the page.
  void touch(int32_t page) { ++at(page).generation; }

  /// Adds a holder.
  void retain(int32_t page);
  /// Removes a holder. A sequence must release its last page first: a page can
  /// only be found through the pages before it, so these must not be reused
  /// sooner.
  void release(int32_t page);

  /// Returns whether several sequences hold the page. The only holder of a page
  /// may write to it, but has to withdraw() a published page first.
  bool isShared(int32_t page) const { return at(page).holders > 1; }
  bool isPublished(int32_t page) const { return at(page).published; }

  /// Returns the published page with these kKvPage tokens after `previous`,
  /// which is published or a root, and makes the caller a holder. Returns kNone
  /// if none exists.
  int32_t find(int32_t previous, std::span<const int32_t> tokens);

  /// Makes a page findable that the caller holds and will not write to any
  /// more. If another page already has these tokens after `previous`, the
  /// caller holds that page in place of `page`. Returns the page that the
  /// caller now holds.
  int32_t publish(int32_t page, int32_t previous,
                  std::span<const int32_t> tokens);

  /// Undoes publish() of a page that has one holder. Pages published after it,
  /// which nobody holds, are freed.
  void withdraw(int32_t page);

private:
  struct Page {
    int32_t holders = 0;
    uint64_t generation = 0;
    bool published = false;
    int32_t previous = kNone;
    std::vector<int32_t> next;   ///< Published pages that follow this one.
    std::vector<int32_t> tokens; ///< Tokens of a published page.
    /// Position in idle_ if nobody holds the page.
    std::list<int32_t>::iterator idle;
  };
  Page &at(int32_t page) { return pages_[size_t(page)]; }
  const Page &at(int32_t page) const { return pages_[size_t(page)]; }
  int32_t lookUp(int32_t previous, std::span<const int32_t> tokens) const;
  void unpublish(int32_t page);

  std::vector<Page> pages_;
  std::vector<int32_t> free_; ///< Pages that are neither held nor published.
  /// Published pages that nobody holds, oldest first.
  std::list<int32_t> idle_;
  /// Published pages by hash of the preceding page and their tokens.
  std::unordered_multimap<uint64_t, int32_t> index_;
};

} // namespace moert

#endif // MOE_RUNTIME_CACHE_KVPOOL_H
