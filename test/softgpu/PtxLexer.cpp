//===- PtxLexer.cpp -------------------------------------------------------===//

#include "test/softgpu/PtxLexer.h"

#include "test/softgpu/Ptx.h"

#include <cctype>

namespace softgpu {

static bool isWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         c == '%' || c == '.';
}

void PtxLexer::skipSpace() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    std::string_view two = text_.substr(at_, 2);
    if (two == "//") {
      while (at_ < text_.size() && text_[at_] != '\n')
        ++at_;
    } else if (two == "/*") {
      size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos)
        throw PtxError{line_, "the comment has no end"};
      for (; at_ < end + 2; ++at_)
        line_ += text_[at_] == '\n';
    } else if (std::isspace(static_cast<unsigned char>(c)) || c == '\0') {
      line_ += c == '\n'; // The text of an image ends with a zero byte.
      ++at_;
    } else {
      return;
    }
  }
}

void PtxLexer::next() {
  skipSpace();
  token_ = {PtxToken::End, {}, line_};
  if (at_ == text_.size())
    return;
  size_t begin = at_;
  char c = text_[at_];
  if (c == '"') {
    size_t end = text_.find('"', at_ + 1);
    if (end == std::string_view::npos)
      throw PtxError{line_, "the string has no end"};
    at_ = end + 1;
    token_ = {PtxToken::String, text_.substr(begin + 1, end - begin - 1),
              line_};
    return;
  }
  if (!isWord(c)) {
    ++at_;
    token_ = {PtxToken::Punctuation, text_.substr(begin, 1), line_};
    return;
  }
  while (at_ < text_.size() &&
         (isWord(text_[at_]) || text_.substr(at_, 2) == "::"))
    at_ += text_[at_] == ':' ? 2 : 1;
  bool isNumber = std::isdigit(static_cast<unsigned char>(c));
  token_ = {isNumber ? PtxToken::Number : PtxToken::Word,
            text_.substr(begin, at_ - begin), line_};
}

} // namespace softgpu
