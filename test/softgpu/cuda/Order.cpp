//===- Order.cpp ----------------------------------------------------------===//

#include "test/softgpu/cuda/Order.h"

#include <fmt/format.h>

namespace softcuda {

void Clock::join(const Clock &other) {
  if (latest_.size() < other.latest_.size())
    latest_.resize(other.latest_.size());
  for (size_t i = 0; i < other.latest_.size(); ++i)
    latest_[i] = std::max(latest_[i], other.latest_[i]);
}

void Clock::add(Stamp stamp) {
  if (latest_.size() <= stamp.chain)
    latest_.resize(stamp.chain + 1);
  latest_[stamp.chain] = std::max(latest_[stamp.chain], stamp.number);
}

void FlagOrder::write(uint64_t address, uint32_t value, const Clock &clock,
                      bool isReleased) {
  writes_[address] = {value, isReleased ? clock : Clock()};
  if (isReleased)
    all_.join(clock);
}

void FlagOrder::read(uint64_t address, uint32_t value, Clock &clock) const {
  auto it = writes_.find(address);
  bool isByGpu = it != writes_.end() && it->second.value == value;
  clock.join(isByGpu ? it->second.clock : all_);
}

void FlagOrder::forget(softgpu::Range range) {
  writes_.erase(writes_.lower_bound(range.begin),
                writes_.lower_bound(range.end));
}

/// Splits the segment across `address`, and returns the first one that does not
/// begin before it.
AccessOrder::Segments::iterator AccessOrder::splitAt(uint64_t address) {
  auto next = segments_.lower_bound(address);
  if (next == segments_.begin())
    return next;
  auto before = std::prev(next);
  if (before->second.end <= address)
    return next;
  Segment upper = before->second;
  before->second.end = address;
  return segments_.emplace_hint(next, address, std::move(upper));
}

std::optional<std::string> AccessOrder::touch(softgpu::AccessedRanges &touched,
                                              Stamp stamp, const Clock &clock,
                                              const Name &name) {
  std::optional<std::string> found;
  auto check = [&](const Access &other, uint64_t at, const char *mine,
                   const char *theirs) {
    if (found || !other.name || clock.has(other.stamp))
      return;
    found = fmt::format("{} {} {:#x}, which {} {}, and nothing orders the two",
                        *name, mine, at, *other.name, theirs);
  };
  // Visits every segment within the range; missing ones are created.
  auto each = [&](softgpu::Range range, auto body) {
    splitAt(range.end);
    auto it = splitAt(range.begin);
    uint64_t at = range.begin;
    while (at < range.end) {
      if (it == segments_.end() || it->first > at) {
        uint64_t end =
            it == segments_.end() ? range.end : std::min(range.end, it->first);
        it = segments_.emplace_hint(it, at, Segment{end, {}, {}});
      }
      body(at, it->second);
      at = it->second.end;
      ++it;
    }
  };
  for (softgpu::Range range : touched.reads.settled())
    each(range, [&](uint64_t at, Segment &segment) {
      check(segment.writer, at, "reads", "writes");
      for (Access &reader : segment.readers)
        if (reader.stamp.chain == stamp.chain) {
          reader = {stamp, name};
          return;
        }
      segment.readers.push_back({stamp, name});
    });
  for (softgpu::Range range : touched.writes.settled()) {
    each(range, [&](uint64_t at, Segment &segment) {
      check(segment.writer, at, "writes", "writes");
      for (const Access &reader : segment.readers)
        if (reader.stamp.chain != stamp.chain ||
            reader.stamp.number != stamp.number)
          check(reader, at, "writes", "reads");
    });
    // Merges the range to one segment.
    forget(range);
    segments_[range.begin] = {range.end, {stamp, name}, {}};
  }
  return found;
}

void AccessOrder::forget(softgpu::Range range) {
  auto end = splitAt(range.end);
  auto begin = splitAt(range.begin);
  segments_.erase(begin, end);
}

} // namespace softcuda
