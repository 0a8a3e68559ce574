#include "runtime/chat/ProbeCalls.h"

#include "runtime/chat/MarkText.h"

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
constexpr std::string_view kQuestion = "zqquestion";

Json parametersOf(const Json &arguments) {
  Json properties = Json::object();
  for (const auto &[key, value] : arguments.items()) {
    std::string type =
        value.is_number_integer() ? "integer" : value.type_name();
    properties[key] = {{"type", type}, {"description", "d"}};
  }
  return {{"type", "object"},
          {"properties", properties},
          {"required", Json::array()}};
}

Json toolList(const std::vector<Tool> &tools) {
  Json list = Json::array();
  for (const Tool &tool : tools)
    list.push_back({{"type", "function"},
                    {"function",
                     {{"name", tool.name},
                      {"description", tool.description},
                      {"parameters", tool.parameters}}}});
  return list;
}
} // namespace

Json probeQuestion() { return {{"role", "user"}, {"content", kQuestion}}; }

std::string_view afterQuestion(std::string_view text) {
  const size_t at = text.rfind(kQuestion);
  return at == text.npos ? std::string_view()
                         : text.substr(at + kQuestion.size());
}

ProbeCall textCall(size_t index) {
  return {kProbeNames[index],
          {{kProbeKeys[0], kProbeValues[0]}, {kProbeKeys[1], kProbeValues[1]}}};
}

ProbeCall typedCall() {
  return {kProbeNames[0],
          {{"zqstring", "vq"},
           {"zqinteger", 7},
           {"zqnumber", 2.5},
           {"zqboolean", true},
           {"zqnull", nullptr},
           {"zqarray", {"vq", 1}},
           {"zqobject", {{"vk", "vq"}}}}};
}

std::vector<Tool> probeTools(const std::vector<ProbeCall> &calls) {
  std::vector<Tool> tools;
  for (const ProbeCall &call : calls)
    tools.push_back({.name = std::string(call.name),
                     .description = "d",
                     .parameters = parametersOf(call.arguments)});
  return tools;
}

std::string CallWriter::toolsText() const {
  const std::vector<ProbeCall> calls = {textCall(0)};
  auto text = render_({{"messages", Json::array({probeQuestion()})},
                       {"tools", toolList(probeTools(calls))},
                       {"add_generation_prompt", true}});
  return text ? *text : std::string();
}

std::string CallWriter::idOf(size_t index, std::string_view name) const {
  return variant_.hasFunctionIds
             ? "functions." + std::string(name) + ":" + std::to_string(index)
             : "zqidaaa0" + std::to_string(index + 1);
}

std::optional<WrittenCalls>
CallWriter::write(const std::vector<ProbeCall> &calls) const {
  WrittenCalls written{calls, {}, {}};
  Json list = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    written.ids.push_back(idOf(i, calls[i].name));
    const Json &arguments = calls[i].arguments;
    list.push_back(
        {{"id", written.ids.back()},
         {"type", "function"},
         {"function",
          {{"name", calls[i].name},
           {"arguments",
            variant_.hasTextArguments ? Json(arguments.dump()) : arguments}}}});
  }
  Json messages = Json::array({probeQuestion()});
  messages.push_back({{"role", "assistant"},
                      {"content", variant_.hasNoContent ? Json() : Json("")},
                      {"tool_calls", std::move(list)}});
  if (variant_.hasResults)
    for (size_t i = 0; i < calls.size(); ++i)
      messages.push_back({{"role", "tool"},
                          {"name", calls[i].name},
                          {"tool_call_id", written.ids[i]},
                          {"content", "zqresult"}});
  auto text = render_({{"messages", messages},
                       {"tools", toolList(probeTools(calls))},
                       {"add_generation_prompt", false}});
  if (!text)
    return std::nullopt;
  const std::string tail(afterQuestion(*text));
  for (const ProbeCall &call : calls)
    if (tail.find(call.name) == tail.npos)
      return std::nullopt;
  written.text = said(tail);
  return written;
}

/// Returns the model's words from the text after the question: without the
/// header in front of its answers, and up to the end of its turn.
std::string CallWriter::said(std::string_view tail) const {
  tail = tail.substr(0, tail.find("zqresult"));
  // Some templates write more behind the last message, whatever it is.
  tail.remove_suffix(commonEnd(tail, setting_.answerTail).size());
  tail.remove_prefix(commonBegin(tail, setting_.answerHead).size());
  std::string text = withControls(tail, tokenizer_);
  // Without a token that ends the turn, the text behind calls is that behind
  // answers.
  text.resize(
      text.size() -
      commonEnd(text, withControls(setting_.answerTail, tokenizer_)).size());
  for (bool isLess = true; isLess;) {
    isLess = false;
    for (const std::string &mark : setting_.answerMarks)
      if (!mark.empty() && withoutBlanks(text).starts_with(mark)) {
        text = withoutBlanks(text).substr(mark.size());
        isLess = true;
      }
  }
  if (*setting_.channels) {
    const std::string &body = (*setting_.channels)->body;
    if (const size_t at = text.find(body); at != text.npos)
      text.erase(0, at + body.size());
  }
  text.insert(0, begun_);
  return text;
}

/// Whether a call's name is written in its id and beside it.
static bool hasNameBesideId(const WrittenCalls &written) {
  std::string text = written.text;
  const size_t at = text.find(written.ids[0]);
  if (at == text.npos)
    return false;
  text.erase(at, written.ids[0].size());
  return text.find(written.calls[0].name) != text.npos;
}

std::optional<CallSamples> CallWriter::samples() {
  for (unsigned bits = 0; bits < 16; ++bits) {
    variant_ = {.hasFunctionIds = (bits & 8) == 0,
                .hasTextArguments = (bits & 4) != 0,
                .hasNoContent = (bits & 2) != 0,
                .hasResults = (bits & 1) != 0};
    auto one = write({textCall(0)});
    // Ids that contain the function's name are for templates that write the
    // name nowhere else. Where it also stands beside the id, other ids are
    // tried, so that the id is not taken for the name.
    if (!one || (variant_.hasFunctionIds && hasNameBesideId(*one)))
      continue;
    CallSamples samples{*std::move(one), {}};
    // Each message has a call of its own where headers name them.
    if (!*setting_.channels)
      samples.two = write({textCall(0), textCall(1)});
    findBegun(samples);
    return samples;
  }
  return std::nullopt;
}

/// If nothing stands before the first call, the mark before the second one may
/// be the end of prompts.
void CallWriter::findBegun(CallSamples &samples) {
  if (!samples.two || !samples.two->text.starts_with(kProbeNames[0]))
    return;
  const std::string_view text = samples.two->text;
  const std::string_view mark =
      commonEnd(text.substr(0, text.find(kProbeNames[1])), setting_.prompt);
  if (withoutBlanks(mark).empty())
    return;
  begun_ = mark;
  samples.one.text.insert(0, begun_);
  samples.two->text.insert(0, begun_);
}

} // namespace moert
