//===- Speech.h - How a model speaks ----------------------------*- C++ -*-===//
//
// What a model writes besides text: the marks around its reasoning and its
// answer, the form of its calls of tools, the headers of its messages. It is
// derived once from the model's chat template and vocabulary (learnSpeech() of
// SpeechProbe.h); what renders prompts, masks tokens, and splits and parses
// replies reads it here, so that they agree.
//
// All marks have control tokens as controlBytes() (StreamDecoder.h): the name
// of a control token that a model spells is text, and no mark. Marks that are
// "" do not exist.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_SPEECH_H
#define MOE_RUNTIME_CHAT_SPEECH_H

#include "runtime/chat/ToolFormat.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Headers that name each message of a reply (gpt-oss, Muse): `start`, which
/// the prompt ends with, a header, `body`, the message, and one of `ends`. A
/// header may name a channel after `channel`, and whom the message is to after
/// "to=".
struct Channels {
  std::string start, body;
  std::vector<std::string> ends;
  std::string channel; ///< The mark in front of a channel's name, or "".
  /// Whole headers, as templates write them: of reasoning, and of an answer.
  std::string reasoning, answer;
  /// The header of a call, in which ToolFormat::kKey stands for the tool.
  std::string call;
};

struct Speech {
  /// Around the reasoning, which is one part at the beginning of a reply. A
  /// model without `reasoningEnd` does not reason.
  std::string reasoningBegin, reasoningEnd;
  /// Before the answer, and what may follow it up to the end of the turn.
  std::string answerBegin;
  std::vector<std::string> answerEnds;
  /// Whether the model's prompts begin the reasoning themselves.
  bool beginsInside = false;
  /// What the model's prompts end with that is the beginning of the reply's
  /// first mark, of the answer or of a call: functionary's ">>>". A text.
  std::string begun;
  std::optional<Channels> channels;
  /// The forms of calls: the model's own, then others that its prompt shows.
  std::vector<ToolFormat> calls;
  /// Whether the template tells the model of its tools. If not, or if `calls`
  /// is empty, they have to be told in words (GenericTools.h).
  bool tellsTools = false;
  /// The names of tokens that end a turn.
  std::vector<std::string> ends;

  bool reasons() const { return channels || !reasoningEnd.empty(); }
  bool knowsTools() const { return tellsTools && !calls.empty(); }
  /// Whether `prompt`, the text before a reply with the names of control
  /// tokens, has begun the reasoning.
  bool isInside(std::string_view prompt) const;
  /// `begun` if `prompt` ends with it, else "".
  std::string_view begunMark(std::string_view prompt) const;
  /// Whether `prompt` ends inside a message that a header names.
  bool hasBegunMessage(std::string_view prompt) const;
  /// Lines that describe this to a person, safe to print.
  std::vector<std::pair<std::string, std::string>> rows() const;
};

/// The speech of a model that has no marks: all it writes is its answer.
const Speech &plainSpeech();

/// Blanks and line ends.
inline constexpr std::string_view kBlanks = " \t\r\n";
/// `text` without them at both ends, or at its end.
std::string_view withoutBlanks(std::string_view text);
std::string_view withoutBlanksAtEnd(std::string_view text);
/// A mark as parsers compare it: without blanks, unless it has nothing else.
std::string_view markOf(std::string_view mark);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_SPEECH_H
