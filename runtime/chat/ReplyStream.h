//===- ReplyStream.h - From tokens to a reply, as they come -----*- C++ -*-===//
//
// What turns generated tokens into what a person or a program receives: tokens
// become whole characters, stop strings and end-of-generation tokens end the
// reply, reasoning is told from the answer. It knows no engine and does no I/O:
// a server has one for each request, pushes the token that a step sampled for
// it, and sends the events that come back.
//
//   MOE_ASSIGN_OR_RETURN(ReplyStream stream,
//                        ReplyStream::create(tokenizer, prompt.text, options));
//   while (stream.takesMore())
//     for (ReplyEvent &event : stream.push(nextToken()))
//       send(event);
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_REPLYSTREAM_H
#define MOE_RUNTIME_CHAT_REPLYSTREAM_H

#include "runtime/base/Status.h"
#include "runtime/text/Reasoning.h"
#include "runtime/text/StreamDecoder.h"
#include "runtime/text/Tokenizer.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Why a reply ended.
enum class StopReason {
  Length,      ///< ReplyOptions::maxTokens.
  EndOfText,   ///< The model's end-of-generation token.
  StopString,  ///< One of ReplyOptions::stops.
  ContextFull, ///< Said by the caller: there is no room for the last token.
  Cancelled,   ///< Said by the caller.
};

/// "length", "eos", "stop", "context", "cancelled".
std::string_view stopReasonName(StopReason reason);

struct ReplyOptions {
  int32_t maxTokens = -1;         ///< -1: until something else ends it.
  std::vector<std::string> stops; ///< Text that ends it, and is not shown.
  bool ignoreEos = false;         ///< Go on after an end-of-generation token.
  bool showControl = false; ///< Control tokens' names are part of the text.
  /// Tell reasoning from the answer. The marks between them may be control
  /// tokens: needs showControl.
  bool splitReasoning = false;

  /// Of a chat's reply.
  static ReplyOptions forChat() {
    return {.stops = {}, .showControl = true, .splitReasoning = true};
  }
};

/// A piece of a reply. The last event of a stream is its end.
struct ReplyEvent {
  enum class Kind { Text, Reasoning, End };
  Kind kind = Kind::Text;
  std::string text = {}; ///< Of Text and Reasoning: whole characters, not "".
  StopReason reason = StopReason::Length; ///< Of End.
};

/// All of a reply so far.
struct Reply {
  std::string text;      ///< Without reasoning.
  std::string reasoning; ///< "" where it is not told from the text.
  std::string raw;       ///< As the model wrote it: both, with their marks.
  /// The tokens that were generated; an end-of-generation token that ended the
  /// reply is none of them, those of a stop string are.
  std::vector<int32_t> tokens;
  std::optional<StopReason> reason; ///< None before the end.
  int stop = -1; ///< The index of the stop string that ended it, or -1.
};

class ReplyStream {
public:
  /// `prompt` is what the reply follows: it may have begun the reasoning.
  /// `tokenizer` must outlive the stream. Fails with Usage for an empty stop
  /// string.
  static StatusOr<ReplyStream> create(const Tokenizer &tokenizer,
                                      std::string_view prompt = {},
                                      ReplyOptions options = {});

  /// What `token` makes certain, and the end where it ends the reply. After
  /// the end nothing comes.
  std::vector<ReplyEvent> push(int32_t token);
  /// No more tokens come: what was held back, and the end. Nothing where it has
  /// ended already.
  std::vector<ReplyEvent> finish(StopReason reason);

  bool hasEnded() const { return reply_.reason.has_value(); }
  /// Whether another token has a place: not after the end, nor where none were
  /// asked for (maxTokens 0), which finish() ends.
  bool takesMore() const {
    return !hasEnded() && (options_.maxTokens < 0 ||
                           reply_.tokens.size() < size_t(options_.maxTokens));
  }
  const Reply &reply() const { return reply_; }

private:
  ReplyStream(const Tokenizer &tokenizer, StreamDecoder decoder,
              std::string_view prompt, ReplyOptions options)
      : tokenizer_(&tokenizer), decoder_(std::move(decoder)), splitter_(prompt),
        options_(std::move(options)) {}

  void add(std::string text, std::vector<ReplyEvent> &events);
  void add(std::vector<ReasoningSplitter::Part> parts,
           std::vector<ReplyEvent> &events);
  void end(StopReason reason, std::vector<ReplyEvent> &events);

  const Tokenizer *tokenizer_;
  StreamDecoder decoder_;
  ReasoningSplitter splitter_;
  ReplyOptions options_;
  Reply reply_;
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_REPLYSTREAM_H
