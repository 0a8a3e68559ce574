//===- TinyDeepseek.h - A deepseek2 file for tests to damage ----*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_TINYDEEPSEEK_H
#define MOE_TEST_SUPPORT_TINYDEEPSEEK_H

#include "test/support/TinyModel.h"

namespace moetest {

/// One dense layer and one with experts. Old layout: attn_kv_b, no query LoRA,
/// softmax router. Hidden 64, 2 heads of 32 + 16 and value 32, latent 64, 8
/// experts of which 3 are used, 96 tokens.
struct TinyDeepseek : TinyModel {
  TinyDeepseek();
};

} // namespace moetest

#endif // MOE_TEST_SUPPORT_TINYDEEPSEEK_H
