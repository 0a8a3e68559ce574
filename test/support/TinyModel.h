//===- TinyModel.h - Model files for tests to damage ------------*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_TINYMODEL_H
#define MOE_TEST_SUPPORT_TINYMODEL_H

#include "test/support/GgufBuilder.h"

#include <map>
#include <variant>

namespace moetest {

/// A model of two layers without tensor data. Every key and tensor can be
/// replaced or erased before build().
struct TinyModel {
  using Value = std::variant<uint32_t, float, double, bool, std::string,
                             std::vector<int32_t>, std::vector<bool>>;
  struct Tensor {
    std::vector<uint64_t> shape; ///< Dimensions, columns first.
    moek::Format format = moek::Format::F32;
  };

  GgufBuilder build() const;
  /// Adds tensor `name`.weight.
  void add(const std::string &name, std::vector<uint64_t> shape) {
    tensors[name + ".weight"] = {std::move(shape)};
  }

  std::string architecture;
  /// Keys without the architecture's prefix.
  std::map<std::string, Value> keys;
  std::map<std::string, Tensor> tensors;
};

/// Attention whose heads share keys and values, and routed experts: what llama,
/// qwen2moe and others have in common. Hidden 64, 4 heads of 32 with 2 KV
/// heads, 8 experts of 32 of which 3 are used, 96 tokens.
struct TinyTransformer : TinyModel {
  explicit TinyTransformer(std::string architecture);
};

} // namespace moetest

#endif // MOE_TEST_SUPPORT_TINYMODEL_H
