//===- ToolCalls.h - Finds calls of tools in a reply ------------*- C++ -*-===//
//
// A model writes calls of tools as text in the form that its chat template
// taught it (ToolFormat.h). The parser works while the text arrives: a call's
// name comes as soon as it is known, then its arguments in fragments that are
// valid JSON together.
//
// Control tokens in the text are as controlBytes() of StreamDecoder.h: they are
// marks of calls, or no part of what comes out. Where a mark that is no control
// token is followed by something else than a call, it is text.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_TOOLCALLS_H
#define MOE_RUNTIME_CHAT_TOOLCALLS_H

#include "runtime/chat/JsonScanner.h"
#include "runtime/chat/ToolFormat.h"
#include "runtime/chat/ValueText.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// A part of a reply.
struct ToolEvent {
  enum class Kind {
    Text,      ///< Text of the reply outside of calls.
    Begin,     ///< A call begins: `text` is the tool's name.
    Arguments, ///< The next fragment of its arguments.
    End,       ///< The call is complete.
    Error,     ///< The call is malformed: `text` says how. Nothing follows.
  };
  Kind kind;
  std::string text = {};
  std::string id = {}; ///< For Begin: the id that the model wrote, or "".
  bool operator==(const ToolEvent &) const = default;
};

class ToolCallParser {
public:
  /// A reply may have calls in any of `formats`, at least one. `tools` tells
  /// the types of tagged parameters. Both must outlive the parser.
  ToolCallParser(const std::vector<ToolFormat> &formats,
                 const std::vector<Tool> &tools)
      : formats_(&formats), form_(&formats.front()), tools_(&tools) {}

  /// Takes more text and returns what is certain. What comes in all does not
  /// depend on how the text is cut, if no control token is. White space before
  /// and after calls is removed.
  std::vector<ToolEvent> push(std::string_view text);
  /// The text has ended: returns what was held back, or the error of a call
  /// that is not complete.
  std::vector<ToolEvent> finish();

private:
  /// Longer names and attributes are taken for a call that was never closed.
  static constexpr size_t kMostNameBytes = 512;

  enum class Place {
    Text,
    Section, ///< Between two calls of a section.
    Head,    ///< In a call's name.
    HeadEnd, ///< In the attributes that follow a name.
    Object,  ///< In the object of a call of form Json.
    Arguments,
    BareArguments, ///< In the arguments of form NamedBare.
    Keywords,      ///< In the arguments of form Keywords.
    Parameters,    ///< Between parameters of form Tagged.
    ParameterName,
    Value,
    TextValue,
    Close, ///< In front of the mark that closes a call.
    Failed,
  };

  /// Each works on the held text and returns whether another step may follow;
  /// if not, more text is needed.
  bool step();
  bool stepText();
  bool stepSection();
  bool stepHead();
  bool stepHeadEnd();
  bool stepObject();
  bool stepArguments();
  bool stepBareArguments();
  bool stepKeywords();
  bool stepParameters();
  bool stepParameterName();
  bool stepValue();
  bool stepTextValue();
  bool stepClose();

  /// Scans the next byte of JSON and returns it: line ends and the like inside
  /// strings, which models forget to escape, become escapes.
  std::optional<std::string> scan(char byte);
  bool atObjectByte(char byte);
  bool endMember();
  bool setName(std::string name);
  bool setArguments(std::string_view text);
  bool isArguments(std::string_view key) const;
  bool isTextParameter() const;
  std::string valueOf(std::string_view text) const;

  void emitText(std::string_view text);
  void addArguments(std::string_view text);
  /// Enters the form form_ after a mark of all calls, or of one.
  void enterForm(bool isSection);
  void enterCall();
  /// Fails where the text has no name.
  bool begin(std::string_view name, std::string id = {});
  void endCall();
  bool fail(std::string_view what);
  /// Fails if a call has begun. Otherwise the mark before it may be that of
  /// another form, or text.
  bool failOrText(std::string_view what);

  /// Removes bytes from the front of the held text.
  void consume(size_t bytes);
  /// Whether the held text begins with `mark`, which is then removed.
  bool take(std::string_view mark);
  /// Whether more text could make the held text begin with `mark`.
  bool mayBecome(std::string_view mark) const;
  void skipBlanks();

  const std::vector<ToolFormat> *formats_;
  /// The form of the current call, or of the last one.
  const ToolFormat *form_;
  const std::vector<Tool> *tools_;
  Place place_ = Place::Text;
  std::string held_; ///< Text that may turn out to be a call or an answer.
  std::vector<ToolEvent> events_;
  bool isInSection_ = false;
  bool hasText_ = false; ///< Whether there was text other than blanks.
  /// Whether a call has been read, and no text after it.
  bool followsCall_ = false;
  /// Whether white space that follows a call is removed.
  bool dropsBlanks_ = false;
  /// A call came without the mark that begins its section; the section's end
  /// may follow all the same, and is removed.
  bool dropsSectionClose_ = false;
  size_t calls_ = 0;

  // Of the current call, or of what may become one:
  /// Whether the supposed call may still turn out to be text.
  bool isTentative_ = false;
  bool needsKnownTool_ = false;
  /// Text read since the mark, as long as the call is tentative.
  std::string seen_;
  size_t markBytes_ = 0;
  JsonScanner scanner_;
  KeywordScanner keywords_;
  std::string name_;
  bool hasBegun_ = false;
  /// For Json: a member of the object, and arguments that came before the name.
  std::string key_, piece_, earlyArguments_, id_;
  bool hasArguments_ = false;
  /// For Tagged: the current parameter.
  std::string parameter_, attributes_;
  std::string valueClose_; ///< Text that ends the parameter's value.
  size_t parameters_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_TOOLCALLS_H
