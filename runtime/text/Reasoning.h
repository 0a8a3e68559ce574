//===- Reasoning.h - What a model thinks and what it says -------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_REASONING_H
#define MOE_RUNTIME_TEXT_REASONING_H

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Tells a reply's reasoning from its answer as the text comes, by the marks of
/// the families that reason: <think> and </think> (Qwen, DeepSeek, GLM,
/// MiniMax, Kimi), the channels of gpt-oss, the thought channel of Gemma 4.
/// The marks themselves are left out; so are line ends around reasoning.
class ReasoningSplitter {
public:
  struct Part {
    bool isReasoning;
    std::string text;
  };

  /// `prompt`: what the reply follows; it may have begun the reasoning.
  explicit ReasoningSplitter(std::string_view prompt);

  /// The parts that `text` makes certain; a possible start of a mark is held
  /// back.
  std::vector<Part> push(std::string_view text);
  /// The rest.
  std::vector<Part> finish();

private:
  void emit(std::string_view text, std::vector<Part> &parts);
  std::vector<Part> split(bool isEnd);

  std::string held_;
  bool isReasoning_ = false;
  bool startsPart_ = true; ///< Line ends are left out here.
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_REASONING_H
