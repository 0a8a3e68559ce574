//===- CallProbe.h - Learns the form of a model's calls ---------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_CALLPROBE_H
#define MOE_RUNTIME_CHAT_CALLPROBE_H

#include "runtime/chat/SpeechProbe.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Facts about a model that are known before its calls are searched for.
struct CallProbeSetting {
  /// What stands between the user's text and an answer, and the answer's whole
  /// text after it.
  std::string answerHead, answerTail;
  /// Text between the user's text and a reply: the prompt's end.
  std::string prompt;
  /// Marks of reasoning and answer, which may stand before calls.
  std::vector<std::string> answerMarks;
  const std::optional<Channels> *channels = nullptr;
};

struct LearnedCalls {
  /// First the form that the template writes, which parses a rendered call back
  /// to what was given; then known forms whose marks are in what the template
  /// tells the model of its tools.
  std::vector<ToolFormat> forms;
  /// The mark of a call that prompts end with (Speech::begun), or "".
  std::string begun;
};
LearnedCalls learnCalls(const RenderVariables &render,
                        const Tokenizer &tokenizer,
                        const CallProbeSetting &setting);

/// The user's message that stands before the answers of probes.
nlohmann::ordered_json probeQuestion();
/// The part of a rendered text after that message; "" if the message is not in
/// it.
std::string_view afterQuestion(std::string_view text);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CALLPROBE_H
