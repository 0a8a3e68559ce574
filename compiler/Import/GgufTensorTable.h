//===- GgufTensorTable.h - Reading the tensor table -------------*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_GGUFTENSORTABLE_H
#define MOE_COMPILER_IMPORT_GGUFTENSORTABLE_H

#include "compiler/Import/ByteCursor.h"
#include "compiler/Import/GgufFile.h"

namespace moec {

struct GgufTensorTable {
  /// In file order; `file` is left 0.
  std::vector<GgufTensor> tensors;
  /// Where the tensor data begins: the end of the table, aligned.
  uint64_t dataOffset = 0;
};

/// Reads `count` entries, which start at the cursor, of a file of `fileBytes`.
/// Every tensor lies inside the file, begins at a multiple of `alignment` after
/// dataOffset, overlaps no other, and has rows of whole blocks.
moert::StatusOr<GgufTensorTable>
readGgufTensorTable(ByteCursor &cursor, uint64_t count, uint64_t countOffset,
                    uint64_t alignment, uint64_t fileBytes);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_GGUFTENSORTABLE_H
