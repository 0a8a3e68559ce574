//===- InputSet.h - What an output must not replace -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_INPUTSET_H
#define MOE_RUNTIME_BASE_INPUTSET_H

#include "runtime/base/OutputPlace.h"

#include <optional>
#include <string>
#include <vector>

namespace moert {

/// The files that a command reads, each known by device and inode, so that no
/// spelling, symbolic or hard link hides it. A name at which there is no file
/// yet is known by its folder.
class InputSet {
public:
  /// `role` says what the file is, as in "the model"; `path` "-" is standard
  /// input. What cannot be found, and devices, are left out: their bytes cannot
  /// be lost.
  void add(std::string role, const std::string &path);

  /// Usage, naming both, where writing to `output`, which leads to `place`,
  /// would destroy one of them.
  Status refuse(const std::string &output, const OutputPlace &place) const;

private:
  struct Identity {
    dev_t device;
    ino_t inode;
    std::string name; ///< In the folder that is meant; "" for a file itself.

    bool operator==(const Identity &) const = default;
  };
  struct Input {
    Identity identity;
    std::string role, path;
  };
  static std::optional<Identity> identityOf(const OutputPlace &place);

  std::vector<Input> inputs_;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_INPUTSET_H
