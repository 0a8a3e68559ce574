//===- ChatTemplate.h - Renders messages to a prompt ------------*- C++ -*-===//
//
// Jinja templates as Hugging Face renders them: trim_blocks and lstrip_blocks,
// break and continue, generation, an immutable sandbox, tojson without HTML
// escapes, raise_exception and strftime_now. Limits bound parsing and rendering
// of any template. Values, lexer, parser and interpreter are in jinja/.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_CHATTEMPLATE_H
#define MOE_RUNTIME_TEXT_CHATTEMPLATE_H

#include "runtime/base/Deadline.h"
#include "runtime/base/Status.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moert {

/// Variables for a template. JSON is passed as text and checked when rendering.
struct ChatInput {
  /// An object of variables: messages, tools, add_generation_prompt, and any
  /// other. A strftime_now of "YYYY-MM-DD HH:MM:SS" sets the clock; otherwise
  /// it is local time.
  std::string json = "{}";
  /// String variables, used if `json` has none of that name.
  std::vector<std::pair<std::string, std::string>> strings = {};
  /// Deadline after which rendering fails.
  Deadline deadline = {};
};

class ChatTemplate {
public:
  /// Fails with InvalidFile, line and column if `source` is not a valid
  /// template. Bytes that are not UTF-8 become U+FFFD.
  static StatusOr<ChatTemplate> parse(std::string_view source);

  ChatTemplate(ChatTemplate &&) noexcept;
  ChatTemplate &operator=(ChatTemplate &&) noexcept;
  ~ChatTemplate();

  /// Renders the template. Fails with Usage and the template's message if it
  /// raises an exception; with Usage for a malformed strftime_now; with
  /// InvalidFile for input that is not a JSON object; with InvalidFile, line
  /// and column for a run-time error in the template or an exceeded limit.
  StatusOr<std::string> render(const ChatInput &input) const;

private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_CHATTEMPLATE_H
