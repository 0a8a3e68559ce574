//===- InputTexts.h - Texts that a command reads once -----------*- C++ -*-===//

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

/// Inputs of a command that are read as a whole, each only once: a pipe can be
/// read only once, and all parts of a command must see the same text.
class InputTexts {
public:
  struct Text {
    std::string role, path, text;
    /// Identity of a pipe or another stream; none for a regular file.
    std::optional<std::pair<dev_t, ino_t>> stream;
  };

  /// Returns the text of `path`, at most `most` bytes. `role` describes it, as
  /// in "the router profile". Returns the errors of readInput(), and Usage if
  /// the same stream was already read in another role. The text lives as long
  /// as this object.
  StatusOr<const std::string *> read(const std::string &role,
                                     const std::string &path, uint64_t most);

  /// All texts read so far.
  const std::deque<Text> &all() const { return texts_; }

private:
  std::deque<Text> texts_;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_INPUTTEXTS_H
