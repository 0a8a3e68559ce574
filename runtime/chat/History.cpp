#include "runtime/chat/History.h"

#include "runtime/base/ContentHash.h"
#include "runtime/chat/ChatFormat.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <map>
#include <set>

namespace moert {

using Json = nlohmann::ordered_json;
using Ids = TemplateHabits::Ids;

namespace {
/// What parts two messages of one role, and messages that cannot be neighbours.
constexpr const char *kUserBridge = "Go on.";
constexpr const char *kAssistantBridge = "Understood.";

/// The member `key` if it is a text, else "".
std::string textOf(const Json &object, const char *key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : "";
}

bool isRole(const Json &message, std::string_view role) {
  auto found = message.find("role");
  return found != message.end() && *found == role;
}

bool isInstruction(const Json &message) {
  return isRole(message, "system") || isRole(message, "developer");
}

bool hasCalls(const Json &message) {
  auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

/// The text of a message, which may be a list of parts.
std::string contentOf(const Json &message) {
  const Json content = message.value("content", Json());
  if (content.is_string())
    return content;
  std::string text;
  if (content.is_array())
    for (const Json &part : content)
      if (part.is_object() && part.contains("text") && part["text"].is_string())
        text += part["text"];
  return text;
}

void append(std::string &text, std::string_view more,
            std::string_view between = "\n\n") {
  if (!text.empty() && !more.empty())
    text += between;
  text += more;
}

std::string framed(const std::string &role, const std::string &text) {
  return fmt::format("[{0}]\n{1}\n[/{0}]", role, text);
}

/// Adds to a content, which is a string. In place: there may be many.
void addText(Json &message, std::string_view text,
             std::string_view between = "\n\n") {
  append(message["content"].get_ref<std::string &>(), text, between);
}

void prependText(Json &message, std::string text) {
  append(text, contentOf(message));
  message["content"] = std::move(text);
}

//===----------------------------------------------------------------------===//
// Calls of tools
//===----------------------------------------------------------------------===//

bool isNineId(std::string_view id) {
  return id.size() == 9 && std::ranges::all_of(id, [](char c) {
           return isalnum(uint8_t(c)) != 0;
         });
}

/// Nine letters or digits that stand for `id`: the same ones each time, so that
/// the prompts of a conversation have a common beginning.
std::string nineId(const std::string &id, int attempt) {
  constexpr std::string_view digits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const std::string text = fmt::format("{}:{}", attempt, id);
  uint64_t hash =
      hash64({{reinterpret_cast<const uint8_t *>(text.data()), text.size()}});
  std::string result;
  for (int i = 0; i < 9; ++i, hash /= digits.size())
    result += digits[hash % digits.size()];
  return result;
}

/// Gives calls and their results ids of the form that a template takes.
class IdWriter {
public:
  explicit IdWriter(Ids ids) : ids_(ids) {}

  void write(Json &list) {
    for (Json &message : list) {
      if (hasCalls(message)) {
        open_.clear();
        for (Json &call : message["tool_calls"])
          writeCall(call);
      } else if (isRole(message, "tool")) {
        writeResult(message);
      }
    }
  }

private:
  struct Open {
    std::string given, written, name;
  };

  void writeCall(Json &call) {
    Open open{.given = textOf(call, "id"),
              .written = "",
              .name = textOf(call["function"], "name")};
    open.written = written(open.given, open.name);
    call["id"] = open.written;
    ++number_;
    open_.push_back(std::move(open));
  }

  void writeResult(Json &message) {
    const std::string given = textOf(message, "tool_call_id");
    const std::string name = textOf(message, "name");
    // Ollama's clients name the tool, or nothing: results have the order of the
    // calls.
    auto found = std::ranges::find_if(open_, [&](const Open &open) {
      return given.empty() ? name.empty() || open.name == name
                           : open.given == given;
    });
    if (found == open_.end()) {
      if (!given.empty())
        message["tool_call_id"] = written(given, name);
      return;
    }
    message["tool_call_id"] = found->written;
    if (name.empty())
      message["name"] = found->name;
    open_.erase(found);
  }

  std::string written(const std::string &given, const std::string &name) {
    if (ids_ == Ids::Name)
      return given.find(name) != given.npos
                 ? given
                 : fmt::format("functions.{}:{}", name, number_);
    if (given.empty())
      return fmt::format("call{:05}", number_ % 100000);
    if (ids_ == Ids::Any)
      return given;
    if (auto known = nine_.find(given); known != nine_.end())
      return known->second;
    if (isNineId(given) && used_.insert(given).second)
      return nine_[given] = given;
    std::string id = nineId(given, 0);
    for (int attempt = 1; !used_.insert(id).second; ++attempt)
      id = nineId(given, attempt);
    return nine_[given] = id;
  }

  Ids ids_;
  size_t number_ = 0;      ///< Number of calls that were seen.
  std::vector<Open> open_; ///< Calls of the last message without a result.
  std::map<std::string, std::string> nine_;
  std::set<std::string> used_;
};

/// Writes the arguments of a call as the template takes them.
void fitArguments(Json &function, const TemplateHabits &habits) {
  Json &arguments = function["arguments"];
  if (arguments.is_null())
    arguments = Json::object();
  if (arguments.is_string()) {
    const std::string &text = arguments.get_ref<const std::string &>();
    const bool isBlank = text.find_first_not_of(" \t\r\n") == text.npos;
    Json parsed = isBlank ? Json::object()
                          : Json::parse(text, nullptr, /*exceptions=*/false);
    if (parsed.is_object())
      arguments = std::move(parsed);
  }
  if (arguments.is_object()) {
    if (!habits.takesObjects)
      arguments = arguments.dump();
  } else if (!arguments.is_string() || !habits.takesBrokenArguments) {
    // The model did not write an object: its text becomes a value of one.
    Json object = {{"arguments", std::move(arguments)}};
    arguments = habits.takesObjects ? std::move(object) : Json(object.dump());
  }
}

/// One message for each call, each before its results, for templates that take
/// one call at a time.
Json withSingleCalls(Json list) {
  Json result = Json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    if (!hasCalls(list[i]) || list[i]["tool_calls"].size() < 2) {
      result.push_back(std::move(list[i]));
      continue;
    }
    size_t end = i + 1;
    while (end < list.size() && isRole(list[end], "tool"))
      ++end;
    Json message = std::move(list[i]);
    const Json calls = std::exchange(message["tool_calls"], Json::array());
    std::vector<bool> isTaken(end, false);
    for (const Json &call : calls) {
      Json single = std::move(message);
      single["tool_calls"] = Json::array({call});
      result.push_back(std::move(single));
      message = {{"role", "assistant"}, {"content", ""}};
      for (size_t k = i + 1; k < end; ++k)
        if (!isTaken[k] &&
            textOf(list[k], "tool_call_id") == textOf(call, "id")) {
          result.push_back(list[k]);
          isTaken[k] = true;
        }
    }
    for (size_t k = i + 1; k < end; ++k)
      if (!isTaken[k])
        result.push_back(std::move(list[k]));
    i = end - 1;
  }
  return result;
}

/// A text beside a call is a message of its own, before the call.
Json withTextBeforeCalls(Json list) {
  Json result = Json::array();
  for (Json &message : list) {
    if (hasCalls(message) && !contentOf(message).empty()) {
      result.push_back(
          {{"role", "assistant"}, {"content", message["content"]}});
      message["content"] = "";
    }
    result.push_back(std::move(message));
  }
  return result;
}

/// Turns results that follow no call into messages of the user.
Json withoutLooseResults(Json list) {
  Json result = Json::array();
  bool followsCall = false;
  for (Json &message : list) {
    followsCall = hasCalls(message) || (followsCall && isRole(message, "tool"));
    if (isRole(message, "tool") && !followsCall) {
      const std::string name = textOf(message, "name");
      message = {{"role", "user"},
                 {"content", framed(name.empty() ? "tool" : "tool " + name,
                                    contentOf(message))}};
    }
    result.push_back(std::move(message));
  }
  return result;
}

/// Calls as the model would have written them.
std::string callText(const Json &calls) {
  std::string text;
  for (const Json &call : calls) {
    if (!call.is_object() || !call.contains("function"))
      continue;
    const Json &function = call["function"];
    const Json arguments = function.value("arguments", Json::object());
    Json name = function.value("name", Json(""));
    text += fmt::format(
        "{}<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>",
        text.empty() ? "" : "\n", name.dump(),
        arguments.is_string() ? arguments.get<std::string>()
                              : arguments.dump());
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Puts an instruction that stands between other messages into a neighbour.
void foldInstruction(Json &done, Json &list, size_t next,
                     const std::string &text) {
  const std::string frame = framed("system", text);
  const bool hasNext = next < list.size();
  if (hasNext && (isRole(list[next], "user") || isRole(list[next], "tool")))
    prependText(list[next], frame);
  else if (!done.empty() && isRole(done.back(), "user"))
    addText(done.back(), frame);
  else
    done.push_back({{"role", "user"}, {"content", frame}});
}

Json withInstructions(Json list, const TemplateHabits &habits) {
  size_t first = 0;
  while (first < list.size() && isInstruction(list[first]))
    ++first;
  const bool hasUser = std::ranges::any_of(
      list, [](const Json &message) { return isRole(message, "user"); });

  Json done = Json::array();
  std::string text;
  for (size_t i = 0; i < first; ++i) {
    if (habits.takesSystemsInARow)
      done.push_back(
          {{"role", habits.systemRole}, {"content", contentOf(list[i])}});
    append(text, contentOf(list[i]));
  }
  const bool isTaken =
      !habits.systemRole.empty() && (hasUser || habits.takesSystemAlone);
  if (!isTaken)
    done = Json::array();
  if (first > 0 && isTaken && !habits.takesSystemsInARow)
    done.push_back({{"role", habits.systemRole}, {"content", text}});
  if (first > 0 && !isTaken) {
    if (first < list.size() && isRole(list[first], "user"))
      prependText(list[first], text);
    else
      done.push_back({{"role", "user"}, {"content", text}});
  }

  for (size_t i = first; i < list.size(); ++i) {
    if (!isInstruction(list[i])) {
      done.push_back(std::move(list[i]));
      continue;
    }
    if (habits.takesLateSystem) {
      list[i]["role"] = habits.systemRole;
      done.push_back(std::move(list[i]));
      continue;
    }
    std::string late = contentOf(list[i]);
    while (i + 1 < list.size() && isInstruction(list[i + 1]))
      append(late, contentOf(list[++i]));
    foldInstruction(done, list, i + 1, late);
  }
  return done;
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

void join(Json &message, const Json &next) {
  addText(message, contentOf(next));
  for (const char *name : {"reasoning_content", "thinking", "reasoning"})
    if (next.contains(name)) {
      std::string text = textOf(message, name);
      append(text, textOf(next, name));
      message[name] = std::move(text);
    }
  if (hasCalls(next))
    message["tool_calls"] = next["tool_calls"];
}

/// Whether a template that wants a message of the user has none.
bool lacksUser(const Json &list, const TemplateHabits &habits) {
  return !habits.takesSystemAlone && !list.empty() &&
         !isRole(list.back(), "assistant") &&
         std::ranges::none_of(
             list, [](const Json &message) { return isRole(message, "user"); });
}

Json withTurns(Json list, const TemplateHabits &habits) {
  Json done = Json::array();
  auto part = [&](const char *role, const char *text) {
    done.push_back({{"role", role}, {"content", text}});
  };
  for (Json &message : list) {
    const bool isUser = isRole(message, "user");
    const bool isAssistant = isRole(message, "assistant");
    const bool isFirst = done.empty() || isInstruction(done.back());
    if (isFirst) {
      if (isAssistant && !habits.takesAssistantFirst)
        part("user", kUserBridge);
      done.push_back(std::move(message));
      continue;
    }
    Json &last = done.back();
    if (isUser && isRole(last, "user") && !habits.takesUsersInARow) {
      join(last, message);
      continue;
    }
    if (isUser && (isRole(last, "tool") || hasCalls(last)) &&
        !habits.takesUserAfterTool)
      part("assistant", kAssistantBridge);
    if (isAssistant && isRole(last, "assistant") && !hasCalls(last)) {
      const bool mayFollow = hasCalls(message) ? habits.takesCallAfterText
                                               : habits.takesAssistantsInARow;
      if (!mayFollow && (!hasCalls(message) || habits.takesTextBesideCall)) {
        join(last, message);
        continue;
      }
      if (!mayFollow)
        part("user", kUserBridge);
    }
    done.push_back(std::move(message));
  }
  if (lacksUser(done, habits))
    part("user", kUserBridge);
  return done;
}

/// Templates count on members of a tool's schema that clients leave out.
void fitTools(Json &variables, const TemplateHabits &habits) {
  Json &tools = variables["tools"];
  if (tools.empty() && habits.wantsToolList)
    tools = Json::array();
  for (Json &tool : tools) {
    if (!tool.is_object() || !tool.contains("function") ||
        !tool["function"].is_object())
      continue;
    Json &parameters = tool["function"]["parameters"];
    if (parameters.is_null())
      parameters = Json::object();
    if (!parameters.is_object())
      continue;
    if (parameters.empty() || parameters.value("type", Json()) == "object")
      parameters.emplace("type", "object");
    if (parameters.value("type", Json()) == "object")
      parameters.emplace("properties", Json::object());
    if (auto all = parameters.find("properties");
        all != parameters.end() && all->is_object())
      for (Json &property : *all)
        fitParameter(property, habits);
  }
}

void fitReasoning(Json &message, const TemplateHabits &habits) {
  std::string reasoning;
  for (const char *name : {"reasoning_content", "reasoning", "thinking"})
    if (auto found = message.find(name); found != message.end()) {
      if (reasoning.empty() && found->is_string())
        reasoning = *found;
      message.erase(name);
    }
  if (!reasoning.empty())
    for (const std::string &name : habits.reasoningNames)
      message[name] = reasoning;
}
} // namespace

const TemplateHabits &History::habits(const Json &variables) const {
  auto tools = variables.find("tools");
  return tools != variables.end() && !tools->empty() ? withTools_ : alone_;
}

Messages withCallsAsText(Messages messages) {
  Json list = Json::array();
  bool wasTool = false;
  for (Json &message : messages.list()) {
    if (isRole(message, "tool")) {
      std::string answer =
          "<tool_response>\n" + contentOf(message) + "\n</tool_response>";
      // The answers to calls of one message are one message.
      if (wasTool)
        addText(list.back(), answer, "\n");
      else
        list.push_back({{"role", "user"}, {"content", answer}});
      wasTool = true;
      continue;
    }
    if (isRole(message, "user") && wasTool) {
      addText(list.back(), contentOf(message), "\n");
      wasTool = false;
      continue;
    }
    wasTool = false;
    if (hasCalls(message)) {
      message["content"] = contentOf(message);
      addText(message, callText(message["tool_calls"]), "\n");
    }
    message.erase("tool_calls");
    list.push_back(std::move(message));
  }
  messages.list() = std::move(list);
  return messages;
}

Messages fitMessages(Messages messages, const TemplateHabits &habits) {
  for (Json &message : messages.list()) {
    message["content"] = contentOf(message);
    fitReasoning(message, habits);
  }
  if (habits.takesCalls) {
    Json &list = messages.list();
    IdWriter(habits.ids).write(list);
    for (Json &message : list)
      if (hasCalls(message))
        for (Json &call : message["tool_calls"])
          fitArguments(call["function"], habits);
    if (!habits.takesLooseResults)
      list = withoutLooseResults(std::move(list));
    if (!habits.takesSeveralCalls)
      list = withSingleCalls(std::move(list));
    if (!habits.takesTextBesideCall)
      list = withTextBeforeCalls(std::move(list));
  } else {
    messages = withCallsAsText(std::move(messages));
  }
  fitTools(messages.variables(), habits);
  Json list = withInstructions(std::move(messages.list()), habits);
  messages.list() = withTurns(std::move(list), habits);
  if (habits.wantsParts)
    for (Json &message : messages.list()) {
      Json parts = Json::array();
      if (std::string text = contentOf(message); !text.empty())
        parts.push_back({{"type", "text"}, {"text", std::move(text)}});
      message["content"] = std::move(parts);
    }
  if (habits.wantsNullBesideCall)
    for (Json &message : messages.list())
      if (hasCalls(message) && contentOf(message).empty())
        message["content"] = nullptr;
  return messages;
}

std::variant<ChatPrompt, FitFault> fitPrompt(const ChatFormat &format,
                                             const Messages &messages,
                                             const ChatOptions &options) {
  const TemplateHabits &habits = format.history().habits(messages.variables());
  auto prompt = [&](const Messages &list, const ChatOptions &how) {
    StatusOr<ChatPrompt> made = format.prompt(fitMessages(list, habits), how);
    if (!made)
      if (StatusOr<ChatPrompt> plain =
              format.prompt(fitMessages(list, TemplateHabits::plainest()), how))
        return plain;
    return made;
  };
  StatusOr<ChatPrompt> made = prompt(messages, options);
  if (made)
    return *std::move(made);
  // If the time is over, no message is at fault.
  if (options.deadline.hasPassed())
    return FitFault{.message = 0, .status = made.status()};
  // The shortest beginning of the conversation that is not taken ends in the
  // message at fault. To look for it in a long one would take too long.
  constexpr size_t most = 4096;
  if (messages.list().size() > most)
    return FitFault{.message = messages.list().size() - 1,
                    .status = made.status()};
  size_t taken = 0, refused = messages.list().size();
  ChatOptions whole = options;
  whole.continuesLast = false;
  while (taken + 1 < refused) {
    const size_t middle = taken + (refused - taken) / 2;
    Messages begin = messages;
    Json &list = begin.list();
    list.erase(list.begin() + ptrdiff_t(middle), list.end());
    (prompt(begin, whole) ? taken : refused) = middle;
  }
  return FitFault{.message = refused == 0 ? 0 : refused - 1,
                  .status = made.status()};
}

} // namespace moert
