//===- CallProbe.h - Learns the form of a model's calls ---------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_CALLPROBE_H
#define MOE_RUNTIME_CHAT_CALLPROBE_H

#include "runtime/chat/SpeechProbe.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// What a model is known to say before its calls are looked for.
struct CallProbeSetting {
  /// What stands between the user's text and an answer, and the answer's whole
  /// text after it.
  std::string answerHead, answerTail;
  /// Marks of reasoning and answer, which may stand before calls.
  std::vector<std::string> answerMarks;
  const std::optional<Channels> *channels = nullptr;
};

/// The forms in which the template writes calls, or of which what it tells the
/// model of its tools has the signs; the template's own is first. Each form
/// that the template writes reads back what was written.
std::vector<ToolFormat> learnCalls(const RenderVariables &render,
                                   const Tokenizer &tokenizer,
                                   const CallProbeSetting &setting);

/// A user's message to which probes are answers, and the text after it in what
/// was rendered; "" if it is not there.
nlohmann::ordered_json probeQuestion();
std::string_view afterQuestion(std::string_view text);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CALLPROBE_H
