//===- ChoiceStream.h - From events to a choice, as they come ---*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_CHOICESTREAM_H
#define MOE_RUNTIME_SERVE_API_CHOICESTREAM_H

#include "runtime/chat/ToolCalls.h"
#include "runtime/serve/api/ChatCall.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

class Tokenizer;

/// The forms in which a reply writes calls of tools.
struct ToolUse {
  /// Null: replies have no calls.
  std::shared_ptr<const std::vector<ToolFormat>> formats = nullptr;
  std::vector<Tool> tools = {};
  /// Same meaning as in ChatCall.
  std::map<std::string, ToolOrigin> origins = {};
  /// Names a call that the model gave no name.
  std::function<std::string()> newCallId = {};
};

/// Collects one choice from the events of its generation, and finds calls of
/// tools in its text. Not for several threads at a time.
class ChoiceStream {
public:
  /// Called with each piece when the choice has it already.
  using Emit = std::function<void(const Delta &)>;

  /// `tokenizer`, `use` and `choice`, which receives the pieces, must outlive
  /// this.
  ChoiceStream(const Tokenizer &tokenizer, const ToolUse &use, Choice &choice);

  /// Takes the next event. The last one sets all of the choice but its stop
  /// string, unless there is a failure.
  void receive(GenerationEvent &event, const Emit &emit);

  /// Whether nothing follows: the last event came, or a malformed call.
  bool hasEnded() const { return hasEnded_; }
  /// The reason why the choice is not complete; Cancelled if its generation
  /// was.
  const Status &failure() const { return failure_; }
  /// Whether the failure is a call that the model wrote wrongly. Its generation
  /// may go on: cancel it.
  bool isMalformed() const { return isMalformed_; }

private:
  void addText(std::string_view text, const Emit &emit);
  void addToolEvents(std::vector<ToolEvent> events, const Emit &emit);
  void dropMarks(std::vector<TokenLogprob> &logprobs, size_t textBytes) const;
  void end(GenerationEvent &event, const Emit &emit);

  const Tokenizer &tokenizer_;
  const ToolUse &use_;
  Choice &choice_;
  std::optional<ToolCallParser> parser_;
  /// Probabilities of text that is held back.
  std::vector<TokenLogprob> logprobs_;
  std::vector<int32_t> tokens_;   ///< Tokens since the last text.
  bool followsReasoning_ = false; ///< Whether the next text follows reasoning.
  bool hasEnded_ = false, isMalformed_ = false;
  Status failure_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_CHOICESTREAM_H
