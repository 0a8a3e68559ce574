//===- FreeMemory.h - Memory that is free goes back -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_FREEMEMORY_H
#define MOE_RUNTIME_BASE_FREEMEMORY_H

#include <cstddef>

namespace moert {

/// Bytes of a work's input from which on it leaves much memory that is free.
inline constexpr size_t kMuchMemory = size_t(1) << 20;

/// Gives memory that the process has freed back to the system. The allocator
/// keeps what many small values took, for the thread that freed it.
void returnFreeMemory();

} // namespace moert

#endif // MOE_RUNTIME_BASE_FREEMEMORY_H
