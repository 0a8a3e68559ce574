//===- InputSet.h - Files that an output must not replace -------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_INPUTSET_H
#define MOE_RUNTIME_BASE_INPUTSET_H

#include "runtime/base/OutputPlace.h"

#include <optional>
#include <string>
#include <vector>

namespace moert {

/// The files that a command reads. They are identified by device and inode, so
/// that different spellings and links are recognised. A name without a file is
/// identified by its folder.
class InputSet {
public:
  /// Adds a file. `role` describes it, as in "the model"; `path` "-" is
  /// standard input. Missing files and devices are left out, because their
  /// bytes cannot be lost.
  void add(std::string role, const std::string &path);

  /// Fails with Usage, naming both files, if writing to `output`, which leads
  /// to `place`, would destroy one of the inputs.
  Status refuse(const std::string &output, const OutputPlace &place) const;

private:
  struct Identity {
    dev_t device;
    ino_t inode;
    /// Name in the folder that has this inode; "" if the inode is the file.
    std::string name;

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
