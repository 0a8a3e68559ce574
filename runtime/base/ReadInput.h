//===- ReadInput.h - Input that need not be a file --------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_READINPUT_H
#define MOE_RUNTIME_BASE_READINPUT_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>

namespace moert {

/// All bytes of a file, FIFO or device, read once from its beginning to its
/// end; of standard input for "-". Fails with Io (missing, a directory) and,
/// for more than `most` bytes, with InvalidFile, naming `path`.
StatusOr<std::string> readInput(const std::string &path,
                                uint64_t most = UINT64_MAX);

/// How messages name an input: "-" is "standard input".
std::string inputName(const std::string &path);

} // namespace moert

#endif // MOE_RUNTIME_BASE_READINPUT_H
