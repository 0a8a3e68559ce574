//===- ProbeCalls.h - Calls that templates are given ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_PROBECALLS_H
#define MOE_RUNTIME_CHAT_PROBECALLS_H

#include "runtime/chat/CallProbe.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Words that no template has: the names of the two calls of texts, and the
/// keys and values of each.
inline constexpr std::string_view kProbeNames[] = {"zqfirst", "zqsecond"};
inline constexpr std::string_view kProbeKeys[] = {"zqalpha", "zqbeta"};
inline constexpr std::string_view kProbeValues[] = {"vqone", "vqtwo"};

/// A call that a template is given to write.
struct ProbeCall {
  std::string_view name;
  nlohmann::ordered_json arguments;
};
/// The call `index` whose arguments are texts.
ProbeCall textCall(size_t index);
/// A call with arguments of every type, each under a key of its own.
ProbeCall typedCall();
std::vector<Tool> probeTools(const std::vector<ProbeCall> &calls);

/// The part of a rendered text in which the model writes calls.
struct WrittenCalls {
  std::vector<ProbeCall> calls;
  std::vector<std::string> ids;
  std::string text; ///< Control tokens are written as controlBytes().
};

/// One call, and two if the template writes several in one message.
struct CallSamples {
  WrittenCalls one;
  std::optional<WrittenCalls> two;

  const WrittenCalls &most() const { return two ? *two : one; }
};

/// Makes a template write calls. The constructor's arguments must outlive the
/// object.
class CallWriter {
public:
  CallWriter(const RenderVariables &render, const Tokenizer &tokenizer,
             const CallProbeSetting &setting)
      : render_(render), tokenizer_(tokenizer), setting_(setting) {}

  /// What the template writes in front of a reply if there are tools.
  std::string toolsText() const;
  /// Finds how the template wants to be given calls; absent if it writes none.
  std::optional<CallSamples> samples();
  /// The mark of a call that prompts end with, which the text of a reply lacks;
  /// known after samples(), and then in front of all that is written.
  const std::string &begun() const { return begun_; }
  /// Absent if the template refuses the calls or leaves one out.
  std::optional<WrittenCalls> write(const std::vector<ProbeCall> &calls) const;

private:
  /// The form in which a template expects calls.
  struct Variant {
    /// Whether ids are like functions.f:0, not nine letters.
    bool hasFunctionIds;
    bool hasTextArguments; ///< Whether arguments are JSON text, not objects.
    /// Whether the content beside the calls is null, not "".
    bool hasNoContent;
    bool hasResults; ///< Whether answers of the tools follow.
  };
  std::string idOf(size_t index, std::string_view name) const;
  std::string said(std::string_view tail) const;
  void findBegun(CallSamples &samples);

  const RenderVariables &render_;
  const Tokenizer &tokenizer_;
  const CallProbeSetting &setting_;
  Variant variant_ = {};
  std::string begun_;
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_PROBECALLS_H
