#include "runtime/chat/Speech.h"

#include "runtime/base/Text.h"
#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

namespace {
/// A mark as people read it: line ends as \n, what stands for a name or a
/// number as NAME and N, and nothing that controls a terminal.
std::string shown(std::string_view mark) {
  std::string text;
  for (char c : namedControls(mark))
    text += c == '\n'                  ? std::string("\\n")
            : c == ToolFormat::kKey    ? std::string("NAME")
            : c == ToolFormat::kNumber ? std::string("N")
                                       : std::string(1, c);
  return terminalSafe(text);
}

std::string formText(const ToolFormat &form) {
  using Body = ToolFormat::Body;
  std::string body;
  const std::string id = form.idOpen.empty() ? "" : "[" + form.idOpen + "ID]";
  switch (form.body) {
  case Body::Json:
  case Body::JsonList:
    body = form.nameKey.empty()
               ? "{\"NAME\": {...}}"
               : fmt::format("{{\"{}\": \"NAME\", \"{}\": {{...}}}}",
                             form.nameKey, form.argumentsKey);
    if (form.body == Body::JsonList)
      body = (form.opensList() ? "" : "[") + body +
             (form.sectionClose.starts_with("]") ? "" : "]");
    break;
  case Body::NamedJson:
    body = "NAME" + id + form.nameClose + "{\"KEY\": VALUE}";
    break;
  case Body::NamedBare:
    body = "NAME{KEY:VALUE}";
    break;
  case Body::Tagged:
    body = "NAME" + form.nameClose + form.attributes + form.headEnd +
           form.parameterOpen + "KEY" + form.parameterNameClose +
           form.attributesOf("string") + form.valueOpen + "VALUE" +
           form.closeOf("KEY");
    break;
  case Body::Keywords:
    body = "NAME" + form.nameClose + "KEY=VALUE";
    break;
  }
  return shown(form.sectionOpen + form.open + body + form.close +
               form.sectionClose);
}
} // namespace

bool Speech::isInside(std::string_view prompt) const {
  const std::string begin = namedControls(reasoningBegin);
  const std::string_view mark = withoutBlanks(begin);
  return !mark.empty() && withoutBlanksAtEnd(prompt).ends_with(mark);
}

std::string_view Speech::begunMark(std::string_view prompt) const {
  return prompt.ends_with(begun) ? std::string_view(begun) : std::string_view();
}

bool Speech::hasBegunMessage(std::string_view prompt) const {
  if (!channels)
    return false;
  const size_t at = prompt.rfind(namedControls(channels->start));
  return at != prompt.npos &&
         prompt.find(namedControls(channels->body), at) != prompt.npos;
}

std::vector<std::pair<std::string, std::string>> Speech::rows() const {
  std::vector<std::pair<std::string, std::string>> rows;
  if (channels) {
    rows.emplace_back("messages",
                      fmt::format("{}HEADER{}", shown(channels->start),
                                  shown(channels->body)));
    rows.emplace_back("reasoning", shown(channels->reasoning));
    rows.emplace_back("answer", shown(channels->answer));
    if (!channels->call.empty())
      rows.emplace_back("calls", shown(channels->call));
  } else if (reasons()) {
    rows.emplace_back("reasoning",
                      fmt::format("{} ... {}{}", shown(reasoningBegin),
                                  shown(reasoningEnd),
                                  beginsInside ? ", begun by the prompt" : ""));
    std::string end;
    for (const std::string &mark : answerEnds)
      end += shown(mark);
    if (!answerBegin.empty() || !end.empty())
      rows.emplace_back("answer",
                        fmt::format("{} ... {}", shown(answerBegin), end));
  } else {
    rows.emplace_back("reasoning", "none");
  }
  for (const ToolFormat &form : calls)
    rows.emplace_back("tool calls",
                      fmt::format("{} ({})", formText(form), form.name));
  if (!knowsTools())
    rows.emplace_back("tools", "described in the system message");
  std::string names;
  for (const std::string &end : ends)
    names += (names.empty() ? "" : " ") + shown(end);
  if (!names.empty())
    rows.emplace_back("turn ends", names);
  return rows;
}

const Speech &plainSpeech() {
  static const Speech plain;
  return plain;
}

std::string_view withoutBlanksAtEnd(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::string_view withoutBlanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return withoutBlanksAtEnd(text);
}

std::string_view markOf(std::string_view mark) {
  const std::string_view inner = withoutBlanks(mark);
  return inner.empty() ? mark : inner;
}

} // namespace moert
