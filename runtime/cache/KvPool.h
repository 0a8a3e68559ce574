//===- KvPool.h - Who holds which pages of the KV cache ---------*- C++ -*-===//
//
// A page is kKvPage rows of every layer's cache. Sequences hold pages, one page
// may be held by several, and nobody writes to a page that others hold. Full
// pages are published by the token ids up to their end: a sequence that begins
// with the same tokens takes them instead of computing them. A published page
// that nobody holds stays until its memory is needed; the least recently held
// goes first.
//
// Knows page numbers and token ids only, no memory.
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
  /// Before the first page of a sequence.
  static constexpr int32_t kNone = -1;

  explicit KvPool(int32_t pages);

  int32_t pages() const { return int32_t(pages_.size()); }
  /// Pages that allocate() can still give.
  int32_t available() const { return int32_t(free_.size() + idle_.size()); }

  /// A page for the caller to write to; none where all are held.
  std::optional<int32_t> allocate();

  /// Changes whenever rows of the page may: what is known of them holds as long
  /// as this is the same.
  uint64_t generation(int32_t page) const { return at(page).generation; }
  /// The only holder will write to it.
  void touch(int32_t page) { ++at(page).generation; }

  /// One more holder.
  void retain(int32_t page);
  /// One holder less. Of a sequence, the last page first: nobody can find a
  /// page without those before it, so that these must not go sooner.
  void release(int32_t page);

  /// Whether the only holder may write to the page: a published one must be
  /// withdrawn first.
  bool isShared(int32_t page) const { return at(page).holders > 1; }
  bool isPublished(int32_t page) const { return at(page).published; }

  /// The published page with these kKvPage tokens after `previous`, itself
  /// published or kNone; the caller then holds it. kNone if there is none.
  int32_t find(int32_t previous, std::span<const int32_t> tokens);

  /// Makes a page findable that the caller holds and will not write to any
  /// more. Where there was another with these tokens after `previous`, the
  /// caller holds that one in place of `page`. Returns the page it now holds.
  int32_t publish(int32_t page, int32_t previous,
                  std::span<const int32_t> tokens);

  /// Undoes publish() of a page that has one holder; those behind it, which
  /// nobody holds, are lost.
  void withdraw(int32_t page);

private:
  struct Page {
    int32_t holders = 0;
    uint64_t generation = 0;
    bool published = false;
    int32_t previous = kNone;
    std::vector<int32_t> next;         ///< Published ones behind it.
    std::vector<int32_t> tokens;       ///< Of a published one.
    std::list<int32_t>::iterator idle; ///< In idle_, of one nobody holds.
  };
  Page &at(int32_t page) { return pages_[size_t(page)]; }
  const Page &at(int32_t page) const { return pages_[size_t(page)]; }
  int32_t lookUp(int32_t previous, std::span<const int32_t> tokens) const;
  void unpublish(int32_t page);

  std::vector<Page> pages_;
  std::vector<int32_t> free_; ///< Neither held nor published.
  std::list<int32_t> idle_;   ///< Published, not held; the oldest first.
  /// By hash of what is before and in a published page.
  std::unordered_multimap<uint64_t, int32_t> index_;
};

} // namespace moert

#endif // MOE_RUNTIME_CACHE_KVPOOL_H
