//===- Messages.h - The messages of a conversation --------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_MESSAGES_H
#define MOE_RUNTIME_CHAT_MESSAGES_H

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace moert {

/// Conversations and their templates are text that people wrote.
inline constexpr uint64_t kMostConversationBytes = uint64_t{64} << 20;
/// Deeper values are refused before anything recurses into them.
inline constexpr int kMostConversationNesting = 100;

/// The variables that a chat template sees: the messages, and others such as
/// tools and add_generation_prompt. Every message is an object with a string
/// `role`; its `content` is whatever the template takes, as a rule a string.
class Messages {
public:
  Messages() = default;

  /// A JSON text: a list of messages, or an object that has it among other
  /// variables. Errors name `file` and the line.
  static StatusOr<Messages> parse(std::string_view text, std::string_view file);
  /// The same of JSON that was parsed already, as the body of a request is, and
  /// is at most kMostConversationNesting deep (parseJson() of JsonPlace.h);
  /// fails with Usage.
  static StatusOr<Messages> fromJson(nlohmann::ordered_json json);

  /// Appends a message. Bytes that are not UTF-8 become U+FFFD.
  void add(std::string_view role, std::string_view content,
           std::string_view reasoning = {});
  void dropLast() { list().erase(list().size() - 1); }
  /// Leaves the system's message alone, where there is one.
  void reset();
  void setSystem(std::string_view text);
  bool isEmpty() const { return list().empty(); }
  /// "" where there are no messages.
  std::string lastRole() const;

  nlohmann::ordered_json &list() { return variables_["messages"]; }
  const nlohmann::ordered_json &list() const { return variables_["messages"]; }
  /// All variables; "messages" is one of them.
  nlohmann::ordered_json &variables() { return variables_; }
  const nlohmann::ordered_json &variables() const { return variables_; }

  /// The text that parse() reads.
  std::string json() const { return variables_.dump(2) + "\n"; }

private:
  nlohmann::ordered_json variables_ = {
      {"messages", nlohmann::ordered_json::array()}};
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_MESSAGES_H
