//===- GgufTensorTable.h - Reads the tensor table ---------------*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_GGUFTENSORTABLE_H
#define MOE_COMPILER_IMPORT_GGUFTENSORTABLE_H

#include "compiler/Import/ByteCursor.h"
#include "compiler/Import/GgufFile.h"

namespace moec {

struct GgufTensorTable {
  /// In the order of the file; `file` is 0.
  std::vector<GgufTensor> tensors;
  /// Offset of the tensor data: the end of the table, aligned.
  uint64_t dataOffset = 0;
};

/// Reads `count` entries at the cursor, of a file of `fileBytes` bytes. Checks
/// that every tensor is inside the file, begins at a multiple of `alignment`
/// after dataOffset, overlaps no other tensor, and has rows of whole blocks.
moert::StatusOr<GgufTensorTable>
readGgufTensorTable(ByteCursor &cursor, uint64_t count, uint64_t countOffset,
                    uint64_t alignment, uint64_t fileBytes);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_GGUFTENSORTABLE_H
