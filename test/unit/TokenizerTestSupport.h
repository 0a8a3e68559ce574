//===- TokenizerTestSupport.h - Tokenizers for tests ------------*- C++ -*-===//

#ifndef MOE_TEST_UNIT_TOKENIZERTESTSUPPORT_H
#define MOE_TEST_UNIT_TOKENIZERTESTSUPPORT_H

#include "compiler/Import/TokenizerMetadata.h"
#include "runtime/text/Tokenizer.h"

#include <gtest/gtest.h>

#ifdef MOE_TEST_DATA
/// The folder of real vocabularies.
inline constexpr const char *vocabularies = MOE_TEST_DATA "/vocab/";
#endif

/// Returns the tokenizer of a GGUF file; fails the test and exits if there is
/// none.
inline moert::Tokenizer loadTokenizer(const std::string &path) {
  auto check = [&](const moert::Status &status) {
    if (!status) {
      ADD_FAILURE() << path << ": " << status.message();
      std::exit(1);
    }
  };
  moert::StatusOr<moec::GgufModel> model = moec::GgufModel::open(path);
  check(model.status());
  moert::StatusOr<moert::TokenizerSpec> spec =
      moec::tokenizerSpecFromGguf(*model);
  check(spec.status());
  moert::StatusOr<moert::Tokenizer> tokenizer = moert::Tokenizer::create(*spec);
  check(tokenizer.status());
  return *std::move(tokenizer);
}

#endif // MOE_TEST_UNIT_TOKENIZERTESTSUPPORT_H
