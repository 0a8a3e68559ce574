//===- HostView.h - When the host and a kernel see writes -------*- C++ -*-===//
//
// A kernel and the host share mapped memory. PTX orders what they see of each
// other by releases, acquires and fences of system scope only; without them a
// GPU may make a store visible at any later time, and may have loaded a value
// before. Here it does both as late, and as early, as PTX allows:
//
//   weak store      visible to the host when a thread releases or fences at
//                   system scope after it (in its own order, or ordered by
//                   barriers and by releases and acquires between blocks), at
//                   the latest when the launch ends; other threads of the GPU
//                   see it at once
//   weak load       of what the host changes while the kernel runs: the value
//                   from the kernel's start, until the thread has acquired or
//                   fenced at system scope, or a barrier orders it after one
//                   that has
//   strong access   at once
//
// Copies of mapped memory are made for kernels that have strong loads of system
// scope, of allocations of up to 1 MiB. cp.async loads current values.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_HOSTVIEW_H
#define MOE_TEST_SOFTGPU_HOSTVIEW_H

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace softgpu {

struct Kernel;
struct Warp;
class DeviceMemory;

/// A launch's view of mapped memory. Ranges are those of the lanes' accesses,
/// at most 32 bytes and aligned to their size.
class HostView {
public:
  void begin(const DeviceMemory &memory, const Kernel &kernel);
  /// Stores `bytes` of lane `lane`.
  void store(const Warp &warp, int lane, uint8_t *host, const void *value,
             uint32_t bytes, bool isStrong);
  /// Replaces the bytes of `value`, which were read at `host`, by those that
  /// the warp's lanes see.
  void load(const Warp &warp, const uint8_t *host, uint8_t *value,
            uint32_t bytes, bool isStrong) const;
  /// Makes all stores to what lies around `host` visible, before an atomic.
  void publishAt(const uint8_t *host);
  /// The lanes release or fence at system scope.
  void release(const Warp &warp, uint32_t lanes);
  /// The warp acquires or fences at system scope.
  void acquire(Warp &warp);
  /// Makes all stores visible.
  void end();

private:
  static constexpr uint32_t kLine = 32;
  struct Store {
    uint8_t *host;
    uint32_t bytes, block, agent, clock; ///< clock: that of the warp.
    int warp, lane;
    std::array<uint8_t, kLine> value;
  };
  struct Copy {
    const uint8_t *host;
    std::vector<uint8_t> bytes;
  };
  static uintptr_t lineOf(const uint8_t *host) {
    return reinterpret_cast<uintptr_t>(host) / kLine;
  }
  static bool isBefore(const Store &store, const Warp &warp, uint32_t lanes);
  /// Makes the first `count` stores to a line visible.
  void publish(std::vector<Store> &line, size_t count);

  /// Stores that the host does not see yet, in their order.
  std::unordered_map<uintptr_t, std::vector<Store>> lines_;
  std::vector<Copy> copies_;
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_HOSTVIEW_H
