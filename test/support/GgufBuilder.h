//===- GgufBuilder.h - Writes GGUF files for tests --------------*- C++ -*-===//
//
// Builds a well-formed file by default. Every field can be given a wrong value,
// and the builder returns the byte offset of each field, so that a test can
// expect it in an error.
//
//   GgufBuilder gguf;
//   gguf.add("general.architecture", "test");
//   gguf.add("test.block_count", uint32_t(2));
//   gguf.addTensor("output.weight", moek::Format::F32, {8, 4});
//   std::string path = gguf.write(dir.file("model.gguf"));
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_GGUFBUILDER_H
#define MOE_TEST_SUPPORT_GGUFBUILDER_H

#include "compiler/Import/GgufFile.h"

#include <deque>
#include <map>
#include <type_traits>

namespace moetest {

using Bytes = std::vector<uint8_t>;

/// Appends the little-endian bytes of a number.
template <typename T> void append(Bytes &bytes, T value) {
  static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
  const auto *from = reinterpret_cast<const uint8_t *>(&value);
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes.push_back(from[i]);
}
/// Appends a 64-bit length and the text.
void appendString(Bytes &bytes, std::string_view text);

/// Returns the metadata type that stores a T.
template <typename T> constexpr moec::GgufType ggufTypeOf() {
  using moec::GgufType;
  if constexpr (std::is_same_v<T, bool>)
    return GgufType::Bool;
  else if constexpr (std::is_same_v<T, float>)
    return GgufType::F32;
  else if constexpr (std::is_same_v<T, double>)
    return GgufType::F64;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return GgufType::U8;
  else if constexpr (std::is_same_v<T, int8_t>)
    return GgufType::I8;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return GgufType::U16;
  else if constexpr (std::is_same_v<T, int16_t>)
    return GgufType::I16;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return GgufType::U32;
  else if constexpr (std::is_same_v<T, int32_t>)
    return GgufType::I32;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return GgufType::U64;
  else {
    static_assert(std::is_same_v<T, int64_t>, "GGUF stores no such type");
    return GgufType::I64;
  }
}

/// One entry of the tensor table, as it will be written.
struct TensorSpec {
  std::string name;
  uint32_t type;               ///< ggml type number.
  std::vector<uint64_t> shape; ///< shape[0] is the contiguous dimension.
  Bytes data;                  ///< Empty: zeros, which files have as holes.
  std::optional<uint32_t> rank = {}; ///< If set, replaces shape.size().
  /// If set, replaces the offset of the next free place.
  std::optional<uint64_t> offset = {};
  std::optional<uint64_t> bytes = {}; ///< If set, replaces the true size.
};

class GgufBuilder {
public:
  std::string magic = "GGUF";
  uint32_t version = 3;
  /// If set, replaces the true number of keys.
  std::optional<uint64_t> keyCount;
  /// If set, replaces the true number of tensors.
  std::optional<uint64_t> tensorCount;

  template <typename T>
  requires std::is_arithmetic_v<T> GgufBuilder &add(std::string_view key,
                                                    T value) {
    Bytes payload;
    append(payload, value);
    return addRaw(key, ggufTypeOf<T>(), payload);
  }
  GgufBuilder &add(std::string_view key, std::string_view text);
  GgufBuilder &add(std::string_view key, const char *text) {
    return add(key, std::string_view(text));
  }

  template <typename T>
  GgufBuilder &addArray(std::string_view key, const std::vector<T> &values) {
    Bytes payload;
    append(payload, ggufTypeOf<T>());
    append(payload, uint64_t(values.size()));
    for (T value : values)
      append(payload, value);
    return addRaw(key, moec::GgufType::Array, payload);
  }
  GgufBuilder &addStrings(std::string_view key,
                          const std::vector<std::string> &values);
  /// Adds a key with any type number and payload.
  GgufBuilder &addRaw(std::string_view key, moec::GgufType type,
                      const Bytes &payload);

  /// Adds general.alignment and aligns tensors to it.
  GgufBuilder &setAlignment(uint32_t alignment);

  /// Adds a tensor after the previous ones. The result may be changed until the
  /// file is built.
  TensorSpec &addTensor(std::string_view name, moek::Format format,
                        std::vector<uint64_t> shape, Bytes data = {});
  TensorSpec &addTensor(std::string_view name, std::vector<uint64_t> shape,
                        std::span<const float> values);

  /// Returns everything before the first tensor byte.
  Bytes header() const;
  /// Returns the whole file.
  Bytes build() const;
  /// Writes the whole file; tensors without data become holes. Returns `path`.
  std::string write(const std::string &path) const;
  uint64_t fileBytes() const;

  // Byte offsets in the built file.
  static constexpr uint64_t versionAt = 4;
  static constexpr uint64_t tensorCountAt = 8;
  static constexpr uint64_t keyCountAt = 16;
  uint64_t keyAt(std::string_view key) const;
  uint64_t valueTypeAt(std::string_view key) const;
  uint64_t valueAt(std::string_view key) const;
  uint64_t tensorAt(std::string_view name) const;
  uint64_t rankAt(std::string_view name) const;
  uint64_t dimensionAt(std::string_view name, unsigned dimension) const;
  uint64_t typeAt(std::string_view name) const;
  uint64_t offsetAt(std::string_view name) const;
  uint64_t dataAt() const; ///< Offset of the tensor data.

private:
  struct Key {
    std::string name;
    moec::GgufType type;
    Bytes payload;
  };
  struct Layout {
    Bytes header; ///< Padded to the alignment.
    /// Absolute offset of each tensor's data.
    std::vector<uint64_t> dataOffsets;
    uint64_t fileBytes;
    std::map<std::string, uint64_t, std::less<>> keys;
    std::map<std::string, uint64_t, std::less<>> tensors;
  };
  Layout layout() const;

  std::vector<Key> keys_;
  std::deque<TensorSpec> tensors_;
  uint32_t alignment_ = 32;
};

/// Returns the bytes that a tensor takes according to its type and shape.
uint64_t tensorBytes(const TensorSpec &tensor);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_GGUFBUILDER_H
