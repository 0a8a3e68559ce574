//===- GgufSplit.h - Models that are split into several files ---*- C++ -*-===//
//
// The parts of a split model are NAME-00001-of-0000N.gguf and so on. Every part
// has split.no (from 0), split.count and split.tensors.count (of all parts);
// the first one has the model's metadata.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_IMPORT_GGUFSPLIT_H
#define MOE_COMPILER_IMPORT_GGUFSPLIT_H

#include "compiler/Import/GgufPart.h"

namespace moec {

/// A file name of the form PREFIX-00002-of-00005.gguf.
struct SplitName {
  std::string prefix;
  unsigned number; ///< Counted from 1, as in the file's name.
  unsigned count;

  static std::optional<SplitName> parse(std::string_view path);
  std::string path(unsigned number) const;
};

/// Opens `path` and, if it is part of a split model, all other parts. Returns
/// them in order. Checks that the parts belong together.
moert::StatusOr<std::vector<GgufPart>> openGgufParts(const std::string &path);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_GGUFSPLIT_H
