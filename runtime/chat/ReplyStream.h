//===- ReplyStream.h - From tokens to a reply, as they come -----*- C++ -*-===//
//
// Converts generated tokens to the events that a person or a program receives:
// it forms whole characters, ends the reply at stop strings and
// end-of-generation tokens, and separates reasoning from the answer. It knows
// no engine and does no I/O: a server has one stream per request, pushes each
// token that a step sampled for the request, and sends the events that push()
// returns.
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
#include "runtime/chat/ReplySplitter.h"
#include "runtime/text/StreamDecoder.h"
#include "runtime/text/Tokenizer.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The reason why a reply ended.
enum class StopReason {
  Length,      ///< ReplyOptions::maxTokens were generated.
  EndOfText,   ///< The model generated its end-of-generation token.
  StopString,  ///< The text contains one of ReplyOptions::stops.
  ContextFull, ///< Set by the caller: there is no room for the last token.
  Cancelled,   ///< Set by the caller.
};

/// Returns "length", "eos", "stop", "context" or "cancelled".
std::string_view stopReasonName(StopReason reason);

struct ReplyOptions {
  int32_t maxTokens = -1;         ///< -1: no limit.
  std::vector<std::string> stops; ///< Texts that end the reply; not shown.
  /// Continues after an end-of-generation token.
  bool ignoreEos = false;
  /// How the model speaks: separates its reasoning from its answer. Null: all
  /// is text, in which control tokens are left out.
  std::shared_ptr<const Speech> speech = nullptr;
  /// The answer keeps its control tokens, as controlBytes(), for a
  /// ToolCallParser. Needs `speech`.
  bool findsCalls = false;
};

/// A piece of a reply. The last event of a stream is its end.
struct ReplyEvent {
  enum class Kind { Text, Reasoning, End };
  Kind kind = Kind::Text;
  /// Whole characters, at least one; "" if the kind is End.
  std::string text = {};
  StopReason reason = StopReason::Length; ///< Only for End.
};

/// The whole reply so far.
struct Reply {
  std::string text;      ///< The answer, without reasoning and marks.
  std::string reasoning; ///< "" if reasoning is not separated.
  std::string raw; ///< Answer, reasoning and marks as the model generated them.
  /// All generated tokens, including those of a stop string, but not an
  /// end-of-generation token that ended the reply.
  std::vector<int32_t> tokens;
  std::optional<StopReason> reason; ///< Empty until the reply has ended.
  int stop = -1; ///< The index of the stop string that ended it, or -1.
};

class ReplyStream {
public:
  /// `prompt` is the text that the reply follows; it may already have begun the
  /// reasoning. `tokenizer` must outlive the stream. Fails with Usage for an
  /// empty stop string.
  static StatusOr<ReplyStream> create(const Tokenizer &tokenizer,
                                      std::string_view prompt = {},
                                      ReplyOptions options = {});

  /// Adds a token and returns the text that has become certain, and the end if
  /// the token ends the reply. Returns nothing after the end.
  std::vector<ReplyEvent> push(int32_t token);
  /// Ends the reply for this reason. Returns the text that was held back, and
  /// the end; nothing if the reply has already ended.
  std::vector<ReplyEvent> finish(StopReason reason);

  bool hasEnded() const { return reply_.reason.has_value(); }
  /// Returns whether push() accepts another token. It is false after the end,
  /// and from the start if maxTokens is 0; then call finish().
  bool takesMore() const {
    return !hasEnded() && (options_.maxTokens < 0 ||
                           reply_.tokens.size() < size_t(options_.maxTokens));
  }
  const Reply &reply() const { return reply_; }

private:
  ReplyStream(const Tokenizer &tokenizer, StreamDecoder decoder,
              std::string_view prompt, ReplyOptions options);

  void add(std::string text, std::vector<ReplyEvent> &events);
  void add(std::vector<ReplySplitter::Part> parts,
           std::vector<ReplyEvent> &events);
  void end(StopReason reason, std::vector<ReplyEvent> &events);

  const Tokenizer *tokenizer_;
  StreamDecoder decoder_;
  std::optional<ReplySplitter> splitter_;
  ReplyOptions options_;
  Reply reply_;
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_REPLYSTREAM_H
