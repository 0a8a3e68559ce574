#include "compiler/Machine/CostModel/Memories.h"

#include <algorithm>

namespace moec {

MemoryBudgets::MemoryBudgets(const TargetDesc &target) {
  for (size_t i = 0; i < target.devices.size(); ++i) {
    budgets_.push_back(int64_t(target.devices[i].budgetBytes()));
    memory_.push_back(target.memoryOf(i));
  }
}

int64_t MemoryBudgets::of(size_t device) const {
  return std::min(budgets_[device], budgets_[memory_[device]]);
}

int64_t MemoryBudgets::left(size_t device,
                            std::span<const int64_t> used) const {
  int64_t together = 0;
  for (size_t i = 0; i < used.size(); ++i)
    together += isSame(i, device) ? used[i] : 0;
  return std::min(budgets_[device] - used[device],
                  budgets_[memory_[device]] - together);
}

bool MemoryBudgets::fit(std::span<const int64_t> used) const {
  for (size_t i = 0; i < used.size(); ++i)
    if (left(i, used) < 0)
      return false;
  return true;
}

MemoryTraffic::MemoryTraffic(const TargetDesc &target)
    : memories_(target.devices.size()) {
  for (size_t i = 0; i < target.devices.size(); ++i) {
    memory_.push_back(target.memoryOf(i));
    Memory &memory = memories_[memory_[i]];
    memory.bytesPerSecond =
        std::max(memory.bytesPerSecond,
                 target.devices[i].read.planned(Peak::kAssumedRead));
    memory.isShared |= memory_[i] != i;
  }
}

double MemoryTraffic::end(size_t device, double start, double seconds,
                          double bytes) {
  Memory &memory = memories_[memory_[device]];
  double alone = start + seconds;
  if (!memory.isShared)
    return alone;
  double left = std::min(seconds, bytes / memory.bytesPerSecond);
  if (left <= 0)
    return alone;
  // Takes the memory whenever it is free, from `start` on.
  auto &busy = memory.busy;
  auto first = std::ranges::lower_bound(busy, start, {},
                                        &std::pair<double, double>::second);
  double begin = start, at = start;
  auto last = first;
  for (; last != busy.end() && last->first < at + left; ++last) {
    begin = std::min(begin, last->first);
    left -= std::max(0., last->first - at);
    at = std::max(at, last->second);
  }
  double read = at + left;
  first = busy.erase(first, last);
  busy.insert(first, {begin, read});
  return std::max(alone, read);
}

} // namespace moec
