#include "runtime/chat/CallTrial.h"

#include "runtime/chat/ReplyGrammar.h"
#include "runtime/chat/ToolCalls.h"
#include "runtime/constrain/Matcher.h"

#include <algorithm>

namespace moert {

using Json = nlohmann::ordered_json;

bool readsCalls(const ToolFormat &form, const WrittenCalls &written) {
  const std::vector<ToolFormat> forms = {form};
  const std::vector<Tool> tools = probeTools(written.calls);
  ToolCallParser parser(forms, tools);
  std::vector<ToolEvent> events = parser.push(written.text);
  std::ranges::move(parser.finish(), std::back_inserter(events));
  std::vector<std::pair<std::string, std::string>> found;
  for (const ToolEvent &event : events)
    switch (event.kind) {
    case ToolEvent::Kind::Begin:
      found.emplace_back(event.text, "");
      break;
    case ToolEvent::Kind::Arguments:
      found.back().second += event.text;
      break;
    case ToolEvent::Kind::Text:
      if (!withoutBlanks(event.text).empty())
        return false;
      break;
    case ToolEvent::Kind::End:
      break;
    case ToolEvent::Kind::Error:
      return false;
    }
  if (found.size() != written.calls.size())
    return false;
  for (size_t i = 0; i < found.size(); ++i) {
    const Json read = Json::parse(found[i].second, nullptr, false);
    // Templates may write members in another order.
    if (found[i].first != written.calls[i].name || read.is_discarded() ||
        nlohmann::json(read) != nlohmann::json(written.calls[i].arguments))
      return false;
  }
  return true;
}

bool saysCalls(const ToolFormat &form, const WrittenCalls &written) {
  static const std::vector<std::string> bytes = [] {
    std::vector<std::string> all;
    for (int byte = 0; byte < 256; ++byte)
      all.emplace_back(1, char(byte));
    return all;
  }();
  static const auto trie = std::make_shared<const TokenTrie>(
      std::vector<std::string_view>(bytes.begin(), bytes.end()),
      std::vector<int32_t>());
  const std::vector<ToolFormat> forms = {form};
  const std::vector<Tool> tools = probeTools(written.calls);
  ReplyWish wish;
  wish.tools = &tools;
  wish.forms = &forms;
  wish.mustCall = true;
  auto grammar = replyGrammar(wish);
  if (!grammar || !*grammar)
    return false;
  Matcher matcher(*grammar, trie);
  for (char byte : withoutBlanks(written.text))
    if (!matcher.accept(uint8_t(byte)))
      return false;
  return matcher.canEnd();
}

} // namespace moert
