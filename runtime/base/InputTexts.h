//===- InputTexts.h - The texts that a command reads ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_INPUTTEXTS_H
#define MOE_RUNTIME_BASE_INPUTTEXTS_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>

namespace moert {

/// The inputs of a command that are read whole, each once however often it is
/// asked for: a pipe has its bytes only once, and the parts of a command have
/// to see the same text.
class InputTexts {
public:
  struct Text {
    std::string role, path, text;
    /// Of a pipe or another stream; none for a regular file.
    std::optional<std::pair<dev_t, ino_t>> stream;
  };

  /// The text of `path`, which is `role`, as in "the router profile"; at most
  /// `most` bytes. Fails as readInput(), and with Usage where the same stream
  /// was read in another role. What it gives lives as long as this object.
  StatusOr<const std::string *> read(const std::string &role,
                                     const std::string &path, uint64_t most);

  /// What was read so far.
  const std::deque<Text> &all() const { return texts_; }

private:
  std::deque<Text> texts_;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_INPUTTEXTS_H
