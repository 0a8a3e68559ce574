//===- ReadInput.h - Input that need not be a file --------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_READINPUT_H
#define MOE_RUNTIME_BASE_READINPUT_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace moert {

/// A text that people or tools give whole, such as a prompt, a corpus or the
/// text of a plan, is no longer than this.
inline constexpr uint64_t kMostTextBytes = uint64_t(512) << 20;

/// All bytes of a file, FIFO or device, read once from its beginning to its
/// end; of standard input for "-". Fails with Io (missing, a directory) and,
/// for more than `most` bytes, with InvalidFile, naming `path`. `checkStart`
/// sees the first 64 KiB, or all there is, before the rest is read; a device
/// that never ends is refused by it before memory is full.
StatusOr<std::string>
readInput(const std::string &path, uint64_t most,
          const std::function<Status(std::string_view)> &checkStart = {});

/// How messages name an input: "-" is "standard input".
std::string inputName(const std::string &path);

} // namespace moert

#endif // MOE_RUNTIME_BASE_READINPUT_H
