#include "runtime/engine/Generate.h"

#include "runtime/text/StreamDecoder.h"

#include <chrono>

namespace moert {

namespace {
class Stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

double rate(int32_t tokens, double seconds) {
  return seconds > 0 ? tokens / seconds : 0;
}
} // namespace

std::string_view stopReasonName(StopReason reason) {
  constexpr std::string_view names[] = {"length", "eos", "stop", "context",
                                        "cancelled"};
  return names[static_cast<size_t>(reason)];
}

double GenerateStats::promptRate() const {
  return rate(promptTokens, promptSeconds);
}
double GenerateStats::decodeRate() const {
  return rate(decodeSteps, decodeSeconds);
}

StatusOr<GenerateStats>
generate(Engine &engine, Sequence &sequence, const Tokenizer &tokenizer,
         std::span<const int32_t> prompt, const GenerateOptions &options,
         const std::function<Status(std::string_view)> &sink) {
  GenerateStats stats;
  MOE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(options.sampler));
  MOE_ASSIGN_OR_RETURN(
      StreamDecoder decoder,
      StreamDecoder::create(tokenizer, options.stops, options.showControl));
  auto show = [&](const std::string &text) {
    return text.empty() ? Status::ok() : sink(text);
  };
  auto finish = [&](StopReason reason) -> StatusOr<GenerateStats> {
    stats.reason = reason;
    MOE_RETURN_IF_ERROR(show(decoder.finish()));
    return stats;
  };

  Stopwatch promptWatch;
  StatusOr<std::span<const float>> logits = engine.append(sequence, prompt);
  stats.promptSeconds = promptWatch.seconds();
  if (!logits && logits.status().code() == StatusCode::Cancelled)
    return finish(StopReason::Cancelled);
  MOE_RETURN_IF_ERROR(logits.status());
  stats.promptTokens = static_cast<int32_t>(prompt.size());
  for (int32_t token : sequence.tokens())
    sampler.accept(token);

  while (options.maxTokens < 0 || stats.generatedTokens < options.maxTokens) {
    MOE_ASSIGN_OR_RETURN(int32_t token, sampler.sample(*logits));
    if (!options.ignoreEos && tokenizer.isEndOfGeneration(token))
      return finish(StopReason::EndOfText);
    sampler.accept(token);
    ++stats.generatedTokens;
    stats.pending = token;
    MOE_RETURN_IF_ERROR(show(decoder.push(token)));
    if (decoder.stopped())
      return finish(StopReason::StopString);
    if (stats.generatedTokens == options.maxTokens)
      break;
    if (sequence.position() == engine.context())
      return finish(StopReason::ContextFull);
    Stopwatch watch;
    logits = engine.append(sequence, token);
    if (!logits && logits.status().code() == StatusCode::Cancelled)
      return finish(StopReason::Cancelled);
    MOE_RETURN_IF_ERROR(logits.status());
    stats.pending.reset();
    stats.decodeSeconds += watch.seconds();
    ++stats.decodeSteps;
  }
  return finish(StopReason::Length);
}

} // namespace moert
