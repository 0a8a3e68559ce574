//===- OpenAiWriter.h - What writers of completions share -------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_OPENAI_OPENAIWRITER_H
#define MOE_RUNTIME_SERVE_API_OPENAI_OPENAIWRITER_H

#include "runtime/serve/api/ReplyWriter.h"
#include "runtime/serve/api/openai/OpenAi.h"

namespace moert {

/// The ends of a stream of OpenAI's completions.
class OpenAiWriter : public ReplyWriter {
public:
  ErrorStyle errorStyle() const override { return ErrorStyle::OpenAi; }

  std::string error(const ApiError &error) override {
    return sseEvent(errorJson(ErrorStyle::OpenAi, error));
  }

protected:
  OpenAiWriter(ReplyFacts facts, bool includesUsage)
      : facts_(std::move(facts)), includesUsage_(includesUsage) {}

  /// A piece of a stream, with the times up to it where they are wanted.
  std::string pieceEvent(nlohmann::ordered_json json,
                         const Choice &choice) const {
    if (facts_.timesTokens)
      json["timings"] = timingsJson(choice.stats);
    return sseEvent(json);
  }

  /// What ends a stream. With usage it is `chunk`, which has no choices, before
  /// the mark that all streams end in.
  std::string streamEnd(nlohmann::ordered_json chunk,
                        std::span<const Choice> choices) const {
    std::string bytes;
    if (includesUsage_) {
      chunk["usage"] = usageJson(facts_, choices);
      bytes = sseEvent(chunk);
    }
    return bytes + "data: [DONE]\n\n";
  }

  ReplyFacts facts_;
  bool includesUsage_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_OPENAI_OPENAIWRITER_H
