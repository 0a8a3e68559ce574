//===- HostAmx.h - Whether tile instructions run here -----------*- C++ -*-===//

#ifndef MOE_KERNELS_HOSTAMX_H
#define MOE_KERNELS_HOSTAMX_H

#include <string_view>

namespace moek {

/// What has to come together before a process may use AMX.
struct AmxFacts {
  bool cpu = false;   ///< The CPU has AMX-TILE, AMX-INT8 and AMX-BF16.
  bool saved = false; ///< The system switches the tile registers with threads.
  int permissionError = 0; ///< errno of asking the system for them, or 0.
};

/// Of this machine. Where CPU and system allow it, asks the system to let this
/// process use tile registers; asking again is harmless.
AmxFacts hostAmxFacts();

inline constexpr std::string_view kCpuLacksIsa = "which this one lacks";

/// Why not, as a clause behind "needs a CPU with amx, ", or "".
std::string_view amxRefusalFor(const AmxFacts &facts);

/// The same for this machine. In an object file of its own: tests that execute
/// tile instructions in software link another one instead.
std::string_view amxRefusal();

} // namespace moek

#endif // MOE_KERNELS_HOSTAMX_H
