//===- Reasoning.h - Separates reasoning from the answer --------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_REASONING_H
#define MOE_RUNTIME_TEXT_REASONING_H

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Separates a reply's reasoning from its answer while the text arrives, by the
/// marks of the model families: <think> and </think> (Qwen, DeepSeek, GLM,
/// MiniMax, Kimi), the channels of gpt-oss, and the thought channel of Gemma 4.
/// Marks, and line ends around reasoning, are removed.
class ReasoningSplitter {
public:
  struct Part {
    bool isReasoning;
    std::string text;
  };

  /// `prompt` is the text before the reply; it may have begun the reasoning.
  explicit ReasoningSplitter(std::string_view prompt);

  /// Takes more text and returns the parts that are certain. Text that may be
  /// the beginning of a mark is held back.
  std::vector<Part> push(std::string_view text);
  /// Returns the text that was held back.
  std::vector<Part> finish();

private:
  void emit(std::string_view text, std::vector<Part> &parts);
  std::vector<Part> split(bool isEnd);

  std::string held_;
  bool isReasoning_ = false;
  bool startsPart_ = true; ///< True where line ends are to be removed.
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_REASONING_H
