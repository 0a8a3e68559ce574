//===- TinyDeepseek.h - A deepseek2 file to break on purpose ----*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_TINYDEEPSEEK_H
#define MOE_TEST_SUPPORT_TINYDEEPSEEK_H

#include "test/support/GgufBuilder.h"

namespace moetest {

/// Two layers, one dense and one of experts, without tensor data. Every key and
/// tensor can be replaced or erased before build().
struct TinyDeepseek {
  using Value = std::variant<uint32_t, float, bool, std::string>;
  struct Tensor {
    std::vector<uint64_t> shape; ///< Columns first.
    moek::Format format = moek::Format::F32;
  };

  /// Old layout: attn_kv_b, no query LoRA, softmax router. Hidden 64, 2 heads
  /// of 32 + 16 and value 32, latent 64, 8 experts of which 3 are used, 96
  /// tokens.
  TinyDeepseek();

  GgufBuilder build() const;

  std::string architecture = "deepseek2";
  std::map<std::string, Value> keys; ///< Without "deepseek2.".
  std::map<std::string, Tensor> tensors;
};

} // namespace moetest

#endif // MOE_TEST_SUPPORT_TINYDEEPSEEK_H
