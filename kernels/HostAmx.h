//===- HostAmx.h - Whether this machine can run AMX -------------*- C++ -*-===//

#ifndef MOE_KERNELS_HOSTAMX_H
#define MOE_KERNELS_HOSTAMX_H

#include <string_view>

namespace moek {

/// The conditions that must all hold before a process may use AMX.
struct AmxSupport {
  bool cpu = false;   ///< Whether the CPU has AMX-TILE, AMX-INT8 and AMX-BF16.
  bool saved = false; ///< Whether the system saves tile registers.
  int permissionError = 0; ///< errno of the request for permission, or 0.
};

/// Returns the conditions on this machine. Where CPU and system allow AMX, this
/// also asks the system to let the process use tile registers; asking again is
/// harmless.
AmxSupport hostAmxSupport();

inline constexpr std::string_view kCpuLacksIsa = "which this one lacks";

/// Returns why AMX cannot be used, as a clause that follows "needs a CPU with
/// amx, ", or "" if it can be used.
std::string_view amxRefusalFor(const AmxSupport &facts);

/// Returns amxRefusalFor() of this machine. It has an object file of its own
/// because tests that execute tile instructions in software link another
/// definition.
std::string_view amxRefusal();

} // namespace moek

#endif // MOE_KERNELS_HOSTAMX_H
