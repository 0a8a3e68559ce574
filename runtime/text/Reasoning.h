//===- Reasoning.h - Separates reasoning from the answer --------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_REASONING_H
#define MOE_RUNTIME_TEXT_REASONING_H

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// A text that separates reasoning from the answer, or precedes either.
struct ReasoningMark {
  std::string_view text;
  enum class Effect { Begin, End, None } effect;
};

/// Those of all model families.
std::span<const ReasoningMark> reasoningMarks();

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

  /// Whether text that comes next is reasoning, if it is no mark.
  bool isReasoning() const { return isReasoning_; }
  /// Whether text is held back.
  bool holdsText() const { return !held_.empty(); }

private:
  void emit(std::string_view text, std::vector<Part> &parts);
  std::vector<Part> split(bool isEnd);

  std::string held_;
  bool isReasoning_ = false;
  bool startsPart_ = true; ///< True where line ends are to be removed.
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_REASONING_H
