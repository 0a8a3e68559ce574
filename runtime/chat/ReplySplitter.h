//===- ReplySplitter.h - Separates reasoning from the answer ----*- C++ -*-===//
//
// Works while a reply arrives, by the marks that its model has (Speech.h). A
// reply has at most one part of reasoning, at its beginning: from then on marks
// of reasoning are text. Where headers name each message, each is reasoning or
// answer as its header says.
//
// Text in and out has control tokens as controlBytes() of StreamDecoder.h. A
// call of a tool is a part of the answer. Where a message's header makes it a
// call (gpt-oss), the call comes out in the form of Speech::calls, however the
// model spelled the header.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_REPLYSPLITTER_H
#define MOE_RUNTIME_CHAT_REPLYSPLITTER_H

#include "runtime/chat/Speech.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

class ReplySplitter {
public:
  struct Part {
    bool isReasoning;
    std::string text;
  };

  /// `prompt` is the text before the reply; it may have begun the reasoning.
  /// With `findsCalls`, a call that begins inside the reasoning ends it.
  ReplySplitter(std::shared_ptr<const Speech> speech, std::string_view prompt,
                bool findsCalls);

  /// Takes more text and returns the parts that are certain. Text that may be
  /// the beginning of a mark is held back.
  std::vector<Part> push(std::string_view text);
  /// Returns the text that was held back.
  std::vector<Part> finish();

private:
  enum class Place {
    Start,     ///< Only blanks have been read.
    Reasoning, ///< Inside the reasoning.
    Answer,    ///< Inside the answer, which lasts until the end.
    Header,    ///< In a header of Channels, or in front of one.
    Message,   ///< In a message of Channels.
  };

  /// Each works on the held text and returns whether another step may follow.
  bool step(bool isEnd);
  bool stepStart(bool isEnd);
  bool stepReasoning(bool isEnd);
  bool stepAnswer(bool isEnd);
  bool stepHeader(bool isEnd);
  bool stepMessage(bool isEnd);

  void enterAnswer();
  void enterMessage(std::string_view header);
  void emit(bool isReasoning, std::string_view text);
  void emitAnswer(std::string_view text) { emit(false, text); }

  std::shared_ptr<const Speech> speech_;
  bool findsCalls_;
  Place place_ = Place::Start;
  std::string held_;
  std::string pending_; ///< Text that may be the beginning of a control token.
  std::vector<Part> parts_;
  bool startsPart_ = true;   ///< Whether line ends that follow are removed.
  bool isReasoning_ = false; ///< Whether a Message is reasoning.
  std::string messageEnd_;   ///< The mark that ends the message.
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_REPLYSPLITTER_H
