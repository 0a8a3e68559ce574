//===- GgufPart.h - One file of a model -------------------------*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_GGUFPART_H
#define MOE_COMPILER_IMPORT_GGUFPART_H

#include "compiler/Import/GgufMetadata.h"
#include "compiler/Import/GgufTensorTable.h"

namespace moec {

/// One GGUF file whose header has been read. Contains views into the mapping.
struct GgufPart {
  moert::MappedFile file;
  uint32_t version;
  /// Everything before the first tensor byte.
  uint64_t headerBytes;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;
};

moert::StatusOr<GgufPart> openGgufPart(const std::string &path);

/// Returns the integer value of `key`, or nullopt without the key. Fails for
/// another type or a negative number. `path` is for the message.
moert::StatusOr<std::optional<uint64_t>> getUint(const GgufMetadata &metadata,
                                                 const std::string &path,
                                                 std::string_view key);

/// Returns the error "expected X, found Y" for the value of `key`, with its
/// place.
moert::Status ggufTypeError(const std::string &path, std::string_view key,
                            const GgufValue &value, std::string_view expected);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_GGUFPART_H
