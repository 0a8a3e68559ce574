//===- Messages.h - The messages of a conversation --------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_MESSAGES_H
#define MOE_RUNTIME_CHAT_MESSAGES_H

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace moert {

/// The most bytes of a file with a conversation or a chat template. People
/// write such files, so larger ones are refused.
inline constexpr uint64_t kMostConversationBytes = uint64_t{64} << 20;
/// The deepest nesting of values. Deeper ones are refused before any recursion.
inline constexpr int kMostConversationNesting = 100;

/// The variables that a chat template sees: the messages, and others such as
/// tools and add_generation_prompt. Every message is an object with a string
/// `role`. Its `content` is usually a string, but may be any value that the
/// template accepts.
class Messages {
public:
  Messages() = default;

  /// Parses JSON text: a list of messages, or an object of variables with such
  /// a list as its member "messages". Errors name `file` and the line.
  static StatusOr<Messages> parse(std::string_view text, std::string_view file);
  /// Converts parsed JSON, such as the body of a request, which parseJson() of
  /// JsonPlace.h has limited to a depth of kMostConversationNesting. Fails with
  /// Usage.
  static StatusOr<Messages> fromJson(nlohmann::ordered_json json);

  /// Appends a message. Bytes that are not UTF-8 become U+FFFD.
  void add(std::string_view role, std::string_view content,
           std::string_view reasoning = {});
  void dropLast() { list().erase(list().size() - 1); }
  /// Removes all messages but the system message.
  void reset();
  void setSystem(std::string_view text);
  bool isEmpty() const { return list().empty(); }
  /// Returns the role of the last message, or "" if there are no messages.
  std::string lastRole() const;

  nlohmann::ordered_json &list() { return variables_["messages"]; }
  const nlohmann::ordered_json &list() const { return variables_["messages"]; }
  /// All variables, including "messages".
  nlohmann::ordered_json &variables() { return variables_; }
  const nlohmann::ordered_json &variables() const { return variables_; }

  /// Returns JSON text that parse() reads back.
  std::string json() const { return variables_.dump(2) + "\n"; }

private:
  nlohmann::ordered_json variables_ = {
      {"messages", nlohmann::ordered_json::array()}};
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_MESSAGES_H
