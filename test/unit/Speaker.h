//===- Speaker.h - What a model says by its description ---------*- C++ -*-===//
//
// Writes a turn as Speech describes it, for models whose templates do not write
// all that the model says: some leave out the reasoning of earlier turns, or
// all calls but one.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_UNIT_SPEAKER_H
#define MOE_TEST_UNIT_SPEAKER_H

#include "runtime/chat/Speech.h"
#include "runtime/text/StreamDecoder.h"

#include <string>

namespace moetest {

using namespace moert;

class Speaker {
public:
  using Json = nlohmann::ordered_json;
  explicit Speaker(const Speech &speech) : speech_(speech) {}

  /// The text with the names of control tokens, without the end of the turn.
  template <class Turn>
  std::string say(const Turn &turn, std::string_view prompt) const {
    std::string text;
    if (speech_.channels) {
      text = inChannels(turn);
    } else {
      if (!turn.reasoning.empty())
        text = (speech_.isInside(prompt) ? "" : speech_.reasoningBegin) +
               turn.reasoning + speech_.reasoningEnd;
      else if (speech_.isInside(prompt))
        text = speech_.reasoningEnd;
      if (!turn.content.empty()) {
        text += speech_.answerBegin + turn.content;
        // The mark of a call may begin with what ends an answer.
        if (!speech_.answerEnds.empty() &&
            (turn.calls.empty() ||
             !form().firstMark().starts_with(speech_.answerEnds.front())))
          text += speech_.answerEnds.front();
      }
      text += calls(turn.calls);
      text.erase(0, speech_.begunMark(prompt).size());
    }
    return namedControls(text);
  }

private:
  const ToolFormat &form() const { return speech_.calls.front(); }

  static std::string replaced(std::string text, char mark,
                              const std::string &by) {
    if (const size_t at = text.find(mark); at != text.npos)
      text.replace(at, 1, by);
    return text;
  }

  template <class Turn> std::string inChannels(const Turn &turn) const {
    const Channels &channels = *speech_.channels;
    std::string text;
    auto add = [&](const std::string &header, const std::string &body) {
      if (!text.empty())
        text += channels.ends.front() + channels.start;
      text += header + channels.body + body;
    };
    if (!turn.reasoning.empty())
      add(channels.reasoning, turn.reasoning);
    if (!turn.content.empty()) {
      // Beside calls, text is in their channel.
      const std::string &name = channels.channel;
      add(turn.calls.empty() || name.empty() ? channels.answer
                                             : name + "commentary",
          turn.content);
    }
    const bool isHeader =
        !speech_.calls.empty() && form().nameClose == channels.body;
    for (size_t i = 0; i < turn.calls.size(); ++i)
      add(replaced(channels.call, ToolFormat::kKey, turn.calls[i].name),
          isHeader ? turn.calls[i].arguments.dump()
                   : form().sectionOpen +
                         call(turn.calls[i].name, turn.calls[i].arguments, i) +
                         form().sectionClose);
    return text;
  }

  template <class Calls> std::string calls(const Calls &all) const {
    if (all.empty())
      return {};
    std::string text = form().sectionOpen;
    const bool isList = form().body == ToolFormat::Body::JsonList;
    text += isList && !form().opensList() ? "[" : "";
    for (size_t i = 0; i < all.size(); ++i)
      text +=
          (i ? form().between : "") + call(all[i].name, all[i].arguments, i);
    text += isList && !form().sectionClose.starts_with(']') ? "]" : "";
    return text + form().sectionClose;
  }

  std::string call(const std::string &name, const Json &arguments,
                   size_t index) const {
    const ToolFormat &f = form();
    const std::string id = "abcdefgh" + std::to_string(index);
    std::string text = f.open;
    switch (f.body) {
    case ToolFormat::Body::Json:
    case ToolFormat::Body::JsonList: {
      Json object;
      if (f.nameKey.empty()) {
        object[name] = arguments;
      } else {
        if (!f.idKey.empty())
          object[f.idKey] = id;
        object[f.nameKey] = name;
        object[f.argumentsKey] = arguments;
      }
      return text + object.dump() + f.close;
    }
    case ToolFormat::Body::Keywords: {
      text += name + f.nameClose;
      bool isFirst = true;
      for (const auto &[key, value] : arguments.items()) {
        text += (isFirst ? "" : ", ") + key + "=" + value.dump();
        isFirst = false;
      }
      return text + f.close;
    }
    default:
      break;
    }
    if (!f.idClose.empty())
      text += id + f.idClose;
    text +=
        f.nameIsId ? "functions." + name + ":" + std::to_string(index) : name;
    text +=
        f.nameClose +
        replaced(f.attributes, ToolFormat::kNumber, std::to_string(index + 1)) +
        f.headEnd;
    if (f.body != ToolFormat::Body::Tagged)
      return text + arguments.dump() + f.close;
    for (const auto &[key, value] : arguments.items())
      text += f.parameterOpen + key + f.parameterNameClose +
              f.attributesOf(value.is_number_integer() ? "integer"
                                                       : value.type_name()) +
              f.valueOpen +
              (value.is_string() ? value.template get<std::string>()
                                 : value.dump()) +
              f.closeOf(key);
    return text + f.close;
  }

  const Speech &speech_;
};

} // namespace moetest

#endif // MOE_TEST_UNIT_SPEAKER_H
