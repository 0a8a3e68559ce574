//===- Prepare.h - From a call to requests of a scheduler -------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_PREPARE_H
#define MOE_RUNTIME_SERVE_API_PREPARE_H

#include "runtime/serve/api/ApiSettings.h"
#include "runtime/serve/api/Backend.h"
#include "runtime/serve/api/ChatCall.h"
#include "runtime/serve/api/ReplyWriter.h"
#include "runtime/serve/api/Run.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace moert {

/// Random numbers and the time, which settings may replace.
uint64_t randomNumber(const ApiSettings &settings);
int64_t secondsNow(const ApiSettings &settings);
/// Returns 32 hexadecimal digits.
std::string randomId(const ApiSettings &settings);
/// Names a call of a tool: `prefix` and 24 such digits.
std::string newCallId(const ApiSettings &settings, const std::string &prefix);

/// The run of a request, or the reason why there is none.
using Prepared = std::variant<RunPlan, ApiError>;

/// Renders and encodes a conversation, and holds the reply to its tools.
Prepared prepareChat(const ServedText &backend, const ApiSettings &settings,
                     ChatCall call);
/// Prepares prompts of tokens; each gives `call.choices` choices.
Prepared preparePrompts(const ServedText &backend, const ApiSettings &settings,
                        const GenerateCall &call,
                        std::vector<ChatPrompt> prompts);

/// The error of a text that cannot fit the context, however it is cut into
/// tokens; nothing if it may. Spares the work and the memory of doing so.
std::optional<ApiError> surelyTooLong(const ServedText &backend,
                                      std::string_view text);

/// The prompt of a conversation, or why there is none.
std::variant<ChatPrompt, ApiError> chatPrompt(const ServedText &backend,
                                              const ChatCall &call);

ReplyFacts replyFacts(const ServedText &backend, const ApiSettings &settings,
                      const RunPlan &plan);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_PREPARE_H
