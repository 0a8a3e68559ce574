//===- Parts.h - Contents of messages as text -------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_PARTS_H
#define MOE_RUNTIME_SERVE_API_PARTS_H

#include "runtime/serve/api/Fields.h"

#include <string>
#include <string_view>

namespace moert {

/// A part of a message that a model of text cannot read.
struct UnreadPart {
  std::string place; ///< Name of the part's field; "": it has none.
  std::string kind;  ///< "image", "audio", "video" or "file".
};

/// The content of a message.
struct Content {
  std::string text;
  std::string reasoning; ///< Parts that are the assistant's thoughts.
  /// The first one. The text has a note in the place of each.
  UnreadPart unread = {};
};

/// Reads a content: a string or a list of parts, of all interfaces. Texts,
/// refusals, documents, search results and references to tools are text. What
/// cannot be read becomes a note, and parts of unknown types are text as far as
/// they have any.
Content readContent(const Field &content);

/// Reads one part of a list and adds it.
void readPart(const Field &part, Content &content);

/// Returns a text such as "[image omitted: this model reads text only]".
std::string omitted(std::string_view what);

/// An item of a conversation that has no form of its own here, as text: its
/// type and its members, without long encoded data.
std::string itemText(const Field &item);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_PARTS_H
