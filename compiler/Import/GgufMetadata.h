//===- GgufMetadata.h - Reads the key-value section -------------*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_GGUFMETADATA_H
#define MOE_COMPILER_IMPORT_GGUFMETADATA_H

#include "compiler/Import/ByteCursor.h"
#include "compiler/Import/GgufFile.h"
#include "compiler/Import/NameIndex.h"

namespace moec {

/// The key-value section of one file, in the order of the file.
struct GgufMetadata {
  std::vector<std::pair<std::string_view, GgufValue>> entries;
  NameIndex index;

  const GgufValue *find(std::string_view key) const;
};

/// Reads `count` entries at the cursor. `countOffset` is the offset of the
/// count in the file. Fails on an unknown type, a duplicate key and anything
/// that the remaining bytes cannot contain.
moert::StatusOr<GgufMetadata>
readGgufMetadata(ByteCursor &cursor, uint64_t count, uint64_t countOffset);

/// Returns general.alignment, or 32 without the key. It must be a u32, a power
/// of two and a multiple of 8.
moert::StatusOr<uint64_t> ggufAlignment(ByteCursor &cursor,
                                        const GgufMetadata &metadata);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_GGUFMETADATA_H
