//===- Delays.h - Queues that fall behind each other ------------*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_DELAYS_H
#define MOE_TEST_SUPPORT_DELAYS_H

#include "runtime/device/cpu/Bind.h"
#include "runtime/engine/MakeDevices.h"

#include <chrono>
#include <memory>
#include <random>
#include <thread>

namespace moetest {

/// A kernel that sleeps first, now and then.
struct Delayed {
  moek::KernelFn kernel;
  const void *args;
  uint32_t seed;
};

inline void runDelayed(const void *args, const moek::Step &step,
                       const moek::Worker &worker) {
  const auto &delayed = *static_cast<const Delayed *>(args);
  // Every step and worker another one; no state, so that workers share nothing.
  uint32_t dice = (delayed.seed + uint32_t(step.position) * 2654435761u +
                   uint32_t(worker.index) * 40503u) *
                  2246822519u;
  if (dice >> 30 == 0)
    std::this_thread::sleep_for(std::chrono::microseconds((dice >> 20) % 300));
  delayed.kernel(delayed.args, step, worker);
}

/// For DeviceOptions::instrument: delays by `seed` in every queue.
inline decltype(moert::DeviceOptions::instrument) delays(uint32_t seed) {
  auto random = std::make_shared<std::mt19937>(seed);
  return [random](moert::BoundInstruction &instruction,
                  moert::ArgumentStore &store, size_t workers) {
    auto keep = [&](const void *args) {
      return store.keep(
          Delayed{instruction.kernel, args, uint32_t((*random)())});
    };
    if (instruction.ownArgs) {
      auto **own = store.makeArray<const void *>(workers);
      for (size_t i = 0; i < workers; ++i)
        own[i] = keep(instruction.ownArgs[i]);
      instruction.ownArgs = own;
    }
    instruction.args = keep(instruction.args);
    instruction.kernel = runDelayed;
  };
}

} // namespace moetest

#endif // MOE_TEST_SUPPORT_DELAYS_H
