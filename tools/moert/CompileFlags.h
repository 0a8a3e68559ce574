//===- CompileFlags.h - Options of moec compile in moert --------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_COMPILEFLAGS_H
#define MOE_TOOLS_MOERT_COMPILEFLAGS_H

#include "runtime/base/OptionInfo.h"
#include "tools/common/CliFwd.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// Options of moec compile that were given to a command of moert, because it
/// was to compile a model first.
class CompileFlags {
public:
  /// Adds to a command the options that shape a plan, but for those whose names
  /// it has. Help names them in one line. Call it after the command's own
  /// options have been added. `*this` must outlive the parsing.
  void add(CLI::App &command);

  /// Returns the words for moec, in the order of its table: "--n-gpu-layers",
  /// "99".
  std::vector<std::string> words() const;
  /// Returns text that differs if a plan made with these options may differ:
  /// words, and of files that they name size and time.
  std::string key() const;
  struct Given {
    OptionInfo info;
    std::string value; ///< "" for a flag.
  };
  const std::vector<Given> &given() const { return given_; }
  bool isEmpty() const { return given_.empty(); }
  /// The name of one that was given.
  std::string_view firstName() const { return longName(given_.front().info); }

private:
  std::vector<Given> given_;
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_COMPILEFLAGS_H
