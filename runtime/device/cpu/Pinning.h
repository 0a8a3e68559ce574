//===- Pinning.h - Keeping a thread on one CPU ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_PINNING_H
#define MOE_RUNTIME_DEVICE_CPU_PINNING_H

#include <sched.h>

namespace moert {

/// Pins the calling thread to `cpu` while it lives, and restores its affinity
/// mask at the end; -1 changes nothing. Pinning is an optimisation: if the
/// system refuses, the thread stays unpinned.
class PinnedHere {
public:
  explicit PinnedHere(int cpu) {
    if (cpu < 0 || ::sched_getaffinity(0, sizeof(before_), &before_) != 0)
      return;
    cpu_set_t mask;
    CPU_ZERO(&mask);
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
