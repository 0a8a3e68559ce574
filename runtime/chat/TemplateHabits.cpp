#include "runtime/chat/TemplateHabits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// Words that occur in no template, none a part of another.
constexpr std::array kWords = {"vurqoma", "tisqelo", "nabqiru",
                               "fenqudo", "gosqawe", "lixqapu"};
constexpr const char *kName = "zeqtool", *kKey = "zeqkey";
/// The ids that OpenAI's clients send, and the shortest that others take.
constexpr const char *kLongId = "call_0123456789abcdef01234567";
constexpr const char *kNineId = "aB3dE6gH9";

size_t countOf(std::string_view text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos;
       at = text.find(word, at + word.size()))
    ++count;
  return count;
}

/// Renders small conversations and looks for their words.
class Probe {
public:
  Probe(const RenderVariables &render, bool hasTools)
      : render_(render), hasTools_(hasTools) {}

  TemplateHabits habits();

private:
  Json content(size_t word) const {
    if (!habits_.wantsParts)
      return kWords[word];
    return Json::array({{{"type", "text"}, {"text", kWords[word]}}});
  }
  Json said(const char *role, size_t word) const {
    return {{"role", role}, {"content", content(word)}};
  }
  Json user(size_t word) const { return said("user", word); }
  Json assistant(size_t word) const { return said("assistant", word); }
  Json system(size_t word) const {
    return said(habits_.systemRole.c_str(), word);
  }

  std::string idOf(const std::string &name, size_t number) const {
    switch (habits_.ids) {
    case TemplateHabits::Ids::Nine:
      return kNineId;
    case TemplateHabits::Ids::Name:
      return "functions." + name + ":" + std::to_string(number);
    case TemplateHabits::Ids::Any:
      break;
    }
    return kLongId;
  }
  Json call(Json arguments, size_t number = 0) const {
    if (!habits_.takesObjects && arguments.is_object())
      arguments = arguments.dump();
    return {
        {"id", idOf(kName, number)},
        {"type", "function"},
        {"function", {{"name", kName}, {"arguments", std::move(arguments)}}}};
  }
  Json calls(std::initializer_list<size_t> words) const {
    Json message = {{"role", "assistant"}, {"content", ""}};
    if (habits_.wantsNullBesideCall)
      message["content"] = nullptr;
    else if (habits_.wantsParts)
      message["content"] = Json::array();
    size_t number = 0;
    for (size_t word : words)
      message["tool_calls"].push_back(call({{kKey, kWords[word]}}, number++));
    return message;
  }
  Json result(size_t word, size_t number = 0) const {
    Json message = said("tool", word);
    message["tool_call_id"] = idOf(kName, number);
    message["name"] = kName;
    return message;
  }

  std::string rendered(const Json &messages) const {
    Json tools = nullptr;
    if (habits_.wantsToolList)
      tools = Json::array();
    if (hasTools_) {
      Json properties = {{"probed", {{"type", "string"}}}};
      if (probesTypes_)
        properties.update({{"probedlist", {{"type", "array"}}},
                           {"probedobject", {{"type", "object"}}},
                           {"probednull", {{"type", {"string", "null"}}}}});
      for (Json &property : properties)
        fitParameter(property, habits_);
      tools = Json::array({{{"type", "function"},
                            {"function",
                             {{"name", "probe"},
                              {"description", "A tool."},
                              {"parameters",
                               {{"type", "object"},
                                {"properties", std::move(properties)},
                                {"required", Json::array()}}}}}}});
    }
    StatusOr<std::string> text = render_({{"messages", messages},
                                          {"tools", std::move(tools)},
                                          {"add_generation_prompt", true}});
    return text ? *std::move(text) : "";
  }

  /// Whether the first `count` words are in the result, each once and in their
  /// order.
  bool takes(const Json &messages, size_t count) const {
    const std::string text = rendered(messages);
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
      if (countOf(text, kWords[i]) != 1)
        return false;
      const size_t found = text.find(kWords[i]);
      if (found < at)
        return false;
      at = found;
    }
    return true;
  }

  /// Whether `text`, in which a message of this role is first, differs in more
  /// than the role's name from that of a role that no template knows.
  bool knows(const std::string &role, std::string text) const {
    constexpr const char *unknown = "zeqrole";
    for (size_t at = text.find(role); at != text.npos; at = text.find(role, at))
      text.replace(at, role.size(), unknown);
    return text != rendered({said(unknown, 0), user(1)});
  }

  bool findWishes();
  void findCalls();
  void findReasoningNames();

  const RenderVariables &render_;
  bool hasTools_;
  bool probesTypes_ = true; ///< Whether tools have parameters of several types.
  TemplateHabits habits_;
};

void Probe::findCalls() {
  using Ids = TemplateHabits::Ids;
  auto isWritten = [&] {
    Json list = {user(0), calls({1}), result(2)};
    if (!takes(list, 3))
      return false;
    const std::string text = rendered(list);
    return text.find(kName) != text.npos && text.find(kKey) != text.npos;
  };
  habits_.takesCalls = false;
  for (Ids ids : {Ids::Any, Ids::Nine, Ids::Name})
    for (bool takesObjects : {true, false})
      for (bool wantsNull : {false, true}) {
        if (habits_.takesCalls)
          break;
        habits_.ids = ids;
        habits_.takesObjects = takesObjects;
        habits_.wantsNullBesideCall = wantsNull;
        habits_.takesCalls = isWritten();
      }
  if (!habits_.takesCalls)
    return;

  // These are the arguments of a call that was cut off while the model wrote
  // it.
  Json broken = calls({1});
  broken["tool_calls"][0]["function"]["arguments"] =
      std::string("{\"") + kKey + "\": \"" + kWords[1];
  habits_.takesBrokenArguments = takes({user(0), broken, result(2)}, 3);

  Json beside = calls({2});
  beside["content"] = content(1);
  // Some templates take the text for reasoning, and leave it out of earlier
  // turns.
  habits_.takesTextBesideCall =
      takes({user(0), beside, result(3)}, 4) &&
      takes({user(0), beside, result(3), assistant(4), user(5)}, 6);
  habits_.takesCallAfterText =
      takes({user(0), assistant(1), calls({2}), result(3)}, 4);
  habits_.takesSeveralCalls =
      takes({user(0), calls({1, 2}), result(3, 0), result(4, 1)}, 5);
  habits_.takesUserAfterTool =
      takes({user(0), calls({1}), result(2), user(3)}, 4);
  habits_.takesLooseResults =
      takes({user(0), assistant(1), result(2), user(3)}, 4);
}

void Probe::findReasoningNames() {
  auto countWith = [&](const std::vector<std::string> &names) {
    // Some templates write the reasoning of a message before a tool's result
    // alone.
    Json message = habits_.takesCalls ? calls({1}) : assistant(1);
    for (const std::string &name : names)
      message[name] = kWords[2];
    Json list = {user(0), std::move(message)};
    if (habits_.takesCalls)
      list.push_back(result(3));
    return countOf(rendered(list), kWords[2]);
  };
  if (countWith(habits_.reasoningNames) < 2)
    return;
  for (const std::string &name : habits_.reasoningNames)
    if (countWith({name}) == 1) {
      habits_.reasoningNames = {name};
      return;
    }
}

/// Finds the fewest wishes with which the template takes a message; none if it
/// takes it with none of them.
bool Probe::findWishes() {
  constexpr bool TemplateHabits::*wishes[] = {
      &TemplateHabits::wantsToolList, &TemplateHabits::wantsDescriptions,
      &TemplateHabits::wantsInnerSchemas, &TemplateHabits::wantsNoNullTypes,
      &TemplateHabits::wantsParts};
  std::array<unsigned, 1u << std::size(wishes)> sets;
  std::iota(sets.begin(), sets.end(), 0u);
  std::ranges::stable_sort(sets, {},
                           [](unsigned set) { return std::popcount(set); });
  auto wish = [&](unsigned set) {
    for (size_t i = 0; i < std::size(wishes); ++i)
      habits_.*wishes[i] = (set >> i & 1) != 0;
  };
  for (unsigned set : sets) {
    wish(set);
    if (takes(Json::array({user(0)}), 1))
      return true;
  }
  wish(0);
  return false;
}

TemplateHabits Probe::habits() {
  // Templates that write no such parameters at all are probed with a text.
  if (!findWishes()) {
    probesTypes_ = false;
    findWishes();
  }
  // Some templates put instructions behind earlier turns: the order of the two
  // does not matter.
  habits_.systemRole = "";
  for (const std::string role : {"system", "developer"}) {
    const std::string text = rendered({said(role.c_str(), 0), user(1)});
    if (countOf(text, kWords[0]) == 1 && countOf(text, kWords[1]) == 1 &&
        (role == "system" || knows(role, text))) {
      habits_.systemRole = role;
      break;
    }
  }
  const bool takesSystem = !habits_.systemRole.empty();
  habits_.takesSystemsInARow =
      takesSystem && takes({system(0), system(1), user(2)}, 3);
  habits_.takesLateSystem =
      takesSystem &&
      takes({system(0), user(1), system(2), assistant(3), system(4), user(5)},
            6);
  habits_.takesSystemAlone = takesSystem && takes(Json::array({system(0)}), 1);

  habits_.takesAssistantFirst = takes({assistant(0), user(1)}, 2);
  habits_.takesUsersInARow = takes({user(0), user(1)}, 2);
  habits_.takesAssistantsInARow =
      takes({user(0), assistant(1), assistant(2), user(3)}, 4);
  findCalls();
  // Some templates treat the first message as the user's, whatever its role is.
  if (habits_.takesCalls && !takes({calls({0}), result(1), user(2)}, 3))
    habits_.takesAssistantFirst = false;
  findReasoningNames();
  return std::move(habits_);
}
} // namespace

TemplateHabits TemplateHabits::plainest() {
  TemplateHabits habits;
  habits.systemRole = "";
  habits.takesSystemsInARow = habits.takesLateSystem = habits.takesSystemAlone =
      false;
  habits.takesAssistantFirst = habits.takesUsersInARow =
      habits.takesAssistantsInARow = false;
  habits.takesCalls = false;
  return habits;
}

void fitParameter(Json &parameter, const TemplateHabits &habits) {
  if (!parameter.is_object())
    return;
  if (habits.wantsDescriptions)
    parameter.emplace("description", "");
  if (auto type = parameter.find("type");
      habits.wantsNoNullTypes && type != parameter.end()) {
    Json types = type->is_array() ? *type : Json::array({*type});
    types.erase(std::remove(types.begin(), types.end(), Json("null")),
                types.end());
    if (types.empty())
      parameter.erase("type");
    else
      parameter["type"] = types.size() == 1 ? Json(types[0]) : types;
  }
  if (!habits.wantsInnerSchemas)
    return;
  for (auto [type, inner] : {std::pair("array", "items"),
                             std::pair("object", "additionalProperties")})
    if (parameter.value("type", Json()) == type)
      parameter.emplace(inner, Json::object());
  for (const char *inner : {"items", "additionalProperties"})
    if (auto found = parameter.find(inner); found != parameter.end())
      fitParameter(*found, habits);
}

TemplateHabits habitsOf(const RenderVariables &render, bool hasTools) {
  return Probe(render, hasTools).habits();
}

} // namespace moert
