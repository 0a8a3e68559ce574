//===- ReadInput.h - Reads files, pipes and standard input ------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_READINPUT_H
#define MOE_RUNTIME_BASE_READINPUT_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace moert {

/// Maximum size of a text that is given as a whole, such as a prompt, a corpus
/// or the text of a plan.
inline constexpr uint64_t kMostTextBytes = uint64_t(512) << 20;

/// Returns all bytes of a file, FIFO or device, read once from beginning to
/// end, or of standard input for "-". Fails with Io (missing, or a directory)
/// and with InvalidFile, naming `path`, for more than `most` bytes.
/// `checkStart` receives the first 64 KiB, or less if there is less, before the
/// rest is read, so that it can refuse an endless device before memory is full.
StatusOr<std::string>
readInput(const std::string &path, uint64_t most,
          const std::function<Status(std::string_view)> &checkStart = {});

/// Returns the name of an input in messages; "-" is "standard input".
std::string inputName(const std::string &path);

} // namespace moert

#endif // MOE_RUNTIME_BASE_READINPUT_H
