#include "runtime/chat/ReplyKey.h"

#include <fmt/format.h>
#include <type_traits>

namespace moert {

namespace {
/// Puts values behind each other so that different ones give different texts:
/// texts and lists have their size in front. Structures are taken apart by
/// structured bindings, which have to name every member.
class KeyWriter {
public:
  template <class... Values> void add(const Values &...values) {
    (addOne(values), ...);
  }
  std::string take() { return std::move(key_); }

private:
  void addOne(std::string_view text) {
    key_ += fmt::format("{}:", text.size());
    key_ += text;
  }
  void addOne(const std::string &text) { addOne(std::string_view(text)); }
  void addOne(const nlohmann::ordered_json &value) {
    addOne(value.dump(-1, ' ', false,
                      nlohmann::ordered_json::error_handler_t::replace));
  }
  template <class Value>
  requires std::is_integral_v<Value> || std::is_enum_v<Value>
  void addOne(Value value) { key_ += fmt::format("{};", int64_t(value)); }
  template <class Value> void addOne(const std::vector<Value> &list) {
    addOne(list.size());
    for (const Value &each : list)
      addOne(each);
  }
  void addOne(const std::map<std::string, std::string> &map) {
    addOne(map.size());
    for (const auto &[name, value] : map)
      add(name, value);
  }

  void addOne(const Channels &channels) {
    const auto &[start, body, ends, channel, reasoning, answer, call] =
        channels;
    add(start, body, ends, channel, reasoning, answer, call);
  }

  void addOne(const ToolFormat &form) {
    const auto &[name, body, sectionOpen, sectionClose, open, close, between,
                 nameClose, headEnd, attributes, idOpen, idClose, nameKey,
                 argumentsKey, idKey, idIsFirst, parameterOpen,
                 parameterNameClose, valueOpen, parameterClose, textOpen,
                 textClose, typeAttributes, values, nameIsId, isBare] = form;
    add(name, body, sectionOpen, sectionClose, open, close, between, nameClose,
        headEnd, attributes, idOpen, idClose, nameKey, argumentsKey, idKey,
        idIsFirst, parameterOpen, parameterNameClose, valueOpen, parameterClose,
        textOpen, textClose, typeAttributes, values, nameIsId, isBare);
  }

  void addOne(const Tool &tool) {
    // A description has no effect.
    const auto &[name, description, parameters, isStrict] = tool;
    add(name, parameters, isStrict);
  }

  std::string key_;
};
} // namespace

std::string replyKey(const ReplyWish &wish) {
  // The key of the answer's grammar identifies it. The deadline is no part of
  // the key, because a grammar that it ends is not kept.
  const auto &[speech, prompt, tools, forms, mustCall, isParallel, answer,
               answerKey, deadline] = wish;
  // The grammar takes the forms of calls from the wish instead of `calls`. The
  // other members that are not added below have no effect on it.
  const auto &[reasoningBegin, reasoningEnd, answerBegin, answerEnds,
               beginsInside, begun, channels, calls, tellsTools, ends] =
      *speech;
  KeyWriter key;
  key.add(mustCall, isParallel, answer != nullptr, answerKey, reasoningBegin,
          reasoningEnd, answerBegin, answerEnds, channels.has_value());
  if (channels)
    key.add(*channels);
  // Only what the prompt has begun matters, not its text.
  key.add(speech->isInside(prompt), speech->begunMark(prompt),
          speech->hasBegunMessage(prompt), tools != nullptr);
  if (tools)
    key.add(*forms, *tools);
  return key.take();
}

} // namespace moert
