//===- GgufFile.h - The header and tensor table of a GGUF file --*- C++ -*-===//
//
// Reads metadata and the tensor table only; tensor bytes are never touched, so
// a file of hundreds of gigabytes opens in milliseconds. Every size and offset
// goes through checked arithmetic, and every error names the file, the byte
// offset, the key or tensor, and what was expected and found. No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_IMPORT_GGUFFILE_H
#define MOE_COMPILER_IMPORT_GGUFFILE_H

#include "kernels/quant/Format.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace moec {

/// GGUF metadata value types, with their on-disk numbers.
enum class GgufType : uint32_t {
  U8 = 0,
  I8 = 1,
  U16 = 2,
  I16 = 3,
  U32 = 4,
  I32 = 5,
  F32 = 6,
  Bool = 7,
  String = 8,
  Array = 9,
  U64 = 10,
  I64 = 11,
  F64 = 12,
};

/// An array value. Integers of every width are widened to int64_t (u64 values
/// beyond that range are an error), floats to double. Nested arrays are
/// validated and skipped, so all vectors are empty.
struct GgufArray {
  GgufType elementType;
  uint64_t count = 0;
  std::vector<int64_t> integers; ///< Elements of integer and bool types.
  std::vector<double> floats;
  std::vector<std::string_view> strings; ///< They point into the mapped header.

  bool operator==(const GgufArray &) const = default;
};

struct GgufValue {
  GgufType type;
  uint64_t fileOffset; ///< Offset of the key, for diagnostics.
  std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>
      data;
};

struct GgufTensor {
  std::string_view name;
  moek::Format format;
  /// ggml order: shape[0] is the contiguous dimension (columns). Unused = 1.
  std::array<uint64_t, 4> shape;
  unsigned rank;
  uint64_t offset; ///< Offset in its file.
  uint64_t bytes;
  uint32_t file; ///< Index into GgufModel::paths; 0 for a single file.
};

/// One model: a GGUF file, or all parts of a split one
/// (name-00001-of-00005.gguf). Any part may be named; all must be present.
class GgufModel {
public:
  static moert::StatusOr<GgufModel> open(const std::string &path);

  GgufModel(GgufModel &&) noexcept;
  GgufModel &operator=(GgufModel &&) noexcept;
  ~GgufModel();

  std::span<const std::string> paths() const;
  /// Size in bytes of part `file`, and of its header, which is everything
  /// before the first tensor byte. The header's hash identifies the model in a
  /// plan.
  uint64_t fileBytes(size_t file) const;
  uint64_t headerBytes(size_t file) const;
  std::span<const uint8_t> header(size_t file) const;
  std::span<const uint8_t> tensorBytes(const GgufTensor &tensor) const;

  uint32_t version() const;
  std::string_view architecture() const; ///< general.architecture

  const std::vector<GgufTensor> &tensors() const;
  const GgufTensor *findTensor(std::string_view name) const;
  /// Keys in file order.
  const std::vector<std::pair<std::string_view, GgufValue>> &metadata() const;
  const GgufValue *find(std::string_view key) const;

  /// Typed access. A missing key gives nullopt. A key of another type or an
  /// integer out of range is an error that names key, expected and found.
  moert::StatusOr<std::optional<uint64_t>> getUint(std::string_view key) const;
  moert::StatusOr<std::optional<double>> getFloat(std::string_view key) const;
  moert::StatusOr<std::optional<bool>> getBool(std::string_view key) const;
  moert::StatusOr<std::optional<std::string_view>>
  getString(std::string_view key) const;
  /// Returns the array under `key`, or null without the key. Its elements must
  /// be of `elementType`; U32 stands for any integer type, F32 for any float.
  moert::StatusOr<const GgufArray *> getArray(std::string_view key,
                                              GgufType elementType) const;

private:
  struct Impl;
  explicit GgufModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace moec

#endif // MOE_COMPILER_IMPORT_GGUFFILE_H
