#include "runtime/cache/KvPool.h"

#include <algorithm>
#include <cassert>

namespace moert {

namespace {
uint64_t hashOf(int32_t previous, std::span<const int32_t> tokens) {
  // FNV-1a: a hash collision costs one comparison.
  uint64_t hash = 0xcbf29ce484222325u ^ uint64_t(uint32_t(previous));
  for (int32_t token : tokens)
    hash = (hash ^ uint64_t(uint32_t(token))) * 0x100000001b3u;
  return hash;
}
} // namespace

KvPool::KvPool(int32_t pages) : pages_(size_t(pages)) {
  free_.reserve(pages_.size());
  for (int32_t page = pages; page-- > 0;)
    free_.push_back(page);
}

std::optional<int32_t> KvPool::allocate() {
  if (free_.empty()) {
    if (idle_.empty())
      return std::nullopt;
    int32_t oldest = idle_.front();
    idle_.pop_front();
    unpublish(oldest);
    free_.push_back(oldest);
  }
  int32_t page = free_.back();
  free_.pop_back();
  at(page).holders = 1;
  touch(page);
  return page;
}

void KvPool::retain(int32_t page) {
  if (at(page).holders++ == 0)
    idle_.erase(at(page).idle);
}

void KvPool::release(int32_t page) {
  assert(at(page).holders > 0);
  if (--at(page).holders > 0)
    return;
  if (at(page).published)
    at(page).idle = idle_.insert(idle_.end(), page);
  else
    free_.push_back(page);
}

int32_t KvPool::lookUp(int32_t previous,
                       std::span<const int32_t> tokens) const {
  auto [begin, end] = index_.equal_range(hashOf(previous, tokens));
  for (auto entry = begin; entry != end; ++entry) {
    const Page &page = at(entry->second);
    if (page.previous == previous && std::ranges::equal(page.tokens, tokens))
      return entry->second;
  }
  return kNone;
}

int32_t KvPool::find(int32_t previous, std::span<const int32_t> tokens) {
  assert(tokens.size() == size_t(moek::kKvPage));
  int32_t page = lookUp(previous, tokens);
  if (page != kNone)
    retain(page);
  return page;
}

int32_t KvPool::publish(int32_t page, int32_t previous,
                        std::span<const int32_t> tokens) {
  assert(tokens.size() == size_t(moek::kKvPage));
  assert(previous < 0 || at(previous).published);
  if (int32_t other = find(previous, tokens); other != kNone) {
    release(page);
    return other;
  }
  Page &made = at(page);
  made.published = true;
  made.previous = previous;
  made.tokens.assign(tokens.begin(), tokens.end());
  if (previous >= 0)
    at(previous).next.push_back(page);
  index_.emplace(hashOf(previous, tokens), page);
  return page;
}

void KvPool::withdraw(int32_t page) {
  assert(at(page).published && at(page).holders == 1);
  while (!at(page).next.empty()) {
    // Free the end of a chain first: no page may follow a freed one.
    int32_t last = at(page).next.back();
    while (!at(last).next.empty())
      last = at(last).next.back();
    idle_.erase(at(last).idle);
    unpublish(last);
    free_.push_back(last);
  }
  unpublish(page);
}

/// Removes a page, which no published page may follow, from the index.
void KvPool::unpublish(int32_t page) {
  Page &gone = at(page);
  assert(gone.published && gone.next.empty());
  if (gone.previous >= 0)
    std::erase(at(gone.previous).next, page);
  auto [begin, end] = index_.equal_range(hashOf(gone.previous, gone.tokens));
  index_.erase(std::find_if(
      begin, end, [&](const auto &entry) { return entry.second == page; }));
  gone.published = false;
  gone.previous = kNone;
  gone.tokens.clear();
}

} // namespace moert
