//===- ReplyWriter.h - Choices as bytes of an interface ---------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_REPLYWRITER_H
#define MOE_RUNTIME_SERVE_API_REPLYWRITER_H

#include "runtime/serve/api/ApiError.h"
#include "runtime/serve/api/ChatCall.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moert {

class Tokenizer;

/// Facts about a reply that answers contain.
struct ReplyFacts {
  std::string id;      ///< Random digits, without the prefix of an interface.
  std::string model;   ///< The model's id.
  int64_t created = 0; ///< Seconds since 1970.
  int32_t choices = 1, choicesPerPrompt = 1;
  int32_t promptTokens = 0; ///< Tokens of all prompts.
  const Tokenizer *tokenizer = nullptr;
  /// Same meaning as in ChatCall.
  std::map<std::string, ToolOrigin> origins = {};
  bool timesTokens = false; ///< Same meaning as in GenerateCall.

  /// What the client knows of a tool, or null if that is the model's function.
  const ToolOrigin *origin(const std::string &tool) const {
    auto found = origins.find(tool);
    return found == origins.end() ? nullptr : &found->second;
  }
};

/// The arguments of a call as an object; nothing if they were cut off.
std::optional<nlohmann::ordered_json>
argumentsObject(const std::string &arguments);
/// The input of a call of a custom tool: the argument `input`. Arguments that
/// were cut off are the input themselves.
std::string customInput(const std::string &arguments);

/// Writes what is generated for one request as its interface does. Functions
/// are called one at a time, from any thread.
class ReplyWriter {
public:
  virtual ~ReplyWriter() = default;

  virtual ErrorStyle errorStyle() const = 0;
  /// Whether its functions may wait for the disk, at any event; whole() and
  /// end() of all may.
  virtual bool mayWait() const { return false; }
  /// The whole answer of a request that does not stream.
  virtual nlohmann::ordered_json whole(std::span<const Choice> choices) = 0;

  // For a request that streams, the bytes to send. All but error() may be "".
  virtual std::string_view contentType() const { return "text/event-stream"; }
  /// Returns the bytes to send if nothing else was sent for a while.
  virtual std::string ping() const { return ": ping\n\n"; }
  virtual std::string begin() { return {}; }
  /// `choice` has the delta in it already.
  virtual std::string delta(size_t index, const Choice &choice,
                            const Delta &delta) = 0;
  virtual std::string choiceEnd(size_t index, const Choice &choice) {
    return {};
  }
  virtual std::string end(std::span<const Choice> choices) { return {}; }
  /// The last bytes, after an error.
  virtual std::string error(const ApiError &error) = 0;
};

/// A server-sent event; `event` may be "".
std::string sseEvent(const nlohmann::ordered_json &data,
                     std::string_view event = {});

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_REPLYWRITER_H
