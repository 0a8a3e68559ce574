//===- PtxLexer.h - Splits PTX into tokens ----------------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_PTXLEXER_H
#define MOE_TEST_SOFTGPU_PTXLEXER_H

#include <string_view>

namespace softgpu {

struct PtxToken {
  enum Kind { End, Word, Number, String, Punctuation };
  Kind kind = End;
  std::string_view text;
  int line = 1;
  bool is(std::string_view what) const {
    return kind != String && text == what;
  }
};

/// Words may contain dots and double colons, as opcodes and directives do:
/// "cp.async.cg.shared.global.L2::128B", ".reg", "%tid.x".
class PtxLexer {
public:
  explicit PtxLexer(std::string_view text) : text_(text) { next(); }
  const PtxToken &peek() const { return token_; }
  PtxToken take() {
    PtxToken token = token_;
    next();
    return token;
  }

private:
  void next();
  void skipSpace();

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  PtxToken token_;
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_PTXLEXER_H
