//===- Pinning.h - Keeping a thread on one CPU ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_PINNING_H
#define MOE_RUNTIME_DEVICE_CPU_PINNING_H

#include <sched.h>
#include <span>

namespace moert {

/// Keeps the calling thread on `cpus` while it lives, and restores its affinity
/// mask at the end; none changes nothing. Pinning is an optimisation: if the
/// system refuses, the thread stays unpinned.
class PinnedHere {
public:
  explicit PinnedHere(std::span<const int> cpus) {
    if (cpus.empty() || ::sched_getaffinity(0, sizeof(before_), &before_) != 0)
      return;
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (int cpu : cpus)
      CPU_SET(cpu, &mask);
    pinned_ = ::sched_setaffinity(0, sizeof(mask), &mask) == 0;
  }
  ~PinnedHere() {
    if (pinned_)
      (void)::sched_setaffinity(0, sizeof(before_), &before_);
  }
  PinnedHere(const PinnedHere &) = delete;
  PinnedHere &operator=(const PinnedHere &) = delete;

private:
  cpu_set_t before_;
  bool pinned_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_PINNING_H
