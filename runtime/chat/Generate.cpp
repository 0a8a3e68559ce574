#include "runtime/chat/Generate.h"

#include <algorithm>
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

double GenerateStats::promptRate() const {
  return rate(promptTokens, promptSeconds);
}
double GenerateStats::decodeRate() const {
  return rate(decodeSteps, decodeSeconds);
}

StatusOr<int32_t> keepShared(Sequence &sequence,
                             std::span<const int32_t> prompt) {
  std::span<const int32_t> known = sequence.tokens();
  size_t most = std::min(known.size(), prompt.empty() ? 0 : prompt.size() - 1);
  auto differs = std::mismatch(prompt.begin(), prompt.begin() + int64_t(most),
                               known.begin())
                     .first;
  auto shared = int32_t(differs - prompt.begin());
  MOE_RETURN_IF_ERROR(sequence.rewind(shared));
  return shared;
}

StatusOr<GenerateStats>
generate(Engine &engine, Sequence &sequence, std::span<const int32_t> prompt,
         const SamplerParams &sampling, ReplyStream &reply,
         const std::function<Status(const ReplyEvent &)> &sink,
         Constraint *constraint) {
  GenerateStats stats;
  MOE_RETURN_IF_ERROR(engine.mayGenerate());
  MOE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(sampling));
  auto send = [&](const std::vector<ReplyEvent> &events) {
    for (const ReplyEvent &event : events)
      MOE_RETURN_IF_ERROR(sink(event));
    return Status::ok();
  };
  auto finish = [&](StopReason reason) -> StatusOr<GenerateStats> {
    MOE_RETURN_IF_ERROR(send(reply.finish(reason)));
    stats.reason = *reply.reply().reason;
    stats.generatedTokens = int32_t(reply.reply().tokens.size());
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
    sampler.acceptPrompt(token);

  while (reply.takesMore()) {
    std::span<const uint64_t> allowed;
    if (constraint) {
      MOE_ASSIGN_OR_RETURN(allowed, constraint->allowed());
    }
    MOE_ASSIGN_OR_RETURN(int32_t token, sampler.sample(*logits, allowed));
    sampler.accept(token);
    if (constraint)
      MOE_RETURN_IF_ERROR(constraint->accept(token));
    MOE_RETURN_IF_ERROR(send(reply.push(token)));
    if (!reply.takesMore())
      break;
    if (constraint && constraint->hasEnded())
      return finish(StopReason::EndOfText);
    if (sequence.position() == engine.context())
      return finish(StopReason::ContextFull);
    Stopwatch watch;
    logits = engine.append(sequence, token);
    if (!logits && logits.status().code() == StatusCode::Cancelled)
      return finish(StopReason::Cancelled);
    MOE_RETURN_IF_ERROR(logits.status());
    stats.decodeSeconds += watch.seconds();
    ++stats.decodeSteps;
  }
  return finish(StopReason::Length);
}

} // namespace moert
