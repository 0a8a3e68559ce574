// Functions of sequences, samplers and steps.
#include "runtime/chat/Generate.h"
#include "tools/libmoert/Handles.h"

using namespace moert;
using namespace moert::capi;

namespace {
StatusOr<SequenceOptions> fromC(const moert_sequence_options *given) {
  MOE_ASSIGN_OR_RETURN(moert_sequence_options options,
                       optionsFrom<moert_sequence_options>(given));
  return SequenceOptions{.sharePrefixes = options.private_prefix == 0};
}

moert_sampler_options samplerDefaults() {
  moert_sampler_options options = {};
  setSamplingDefaults(options);
  return options;
}

moert_generate_options generateDefaults() {
  moert_generate_options options = {};
  setSamplingDefaults(options);
  options.max_tokens = -1;
  return options;
}

template <class T> void setDefaults(T *options, T defaults) {
  if (!options || options->size < sizeof(size_t))
    return;
  defaults.size = options->size;
  std::memcpy(options, &defaults, std::min(options->size, sizeof(defaults)));
}

template <class F> moert_status withSampler(moert_sampler *handle, F body) {
  return handle ? guarded(handle->engine, body) : MOERT_USAGE;
}
} // namespace

moert_status moert_sequence_create(moert_engine *handle,
                                   const moert_sequence_options *given,
                                   moert_sequence **sequence) {
  return withPlan(handle, [&](Engine &engine) -> Status {
    if (!sequence)
      return nullPointer();
    MOE_ASSIGN_OR_RETURN(SequenceOptions options, fromC(given));
    *sequence = new moert_sequence(handle, engine.sequence(options));
    return Status::ok();
  });
}

void moert_sequence_destroy(moert_sequence *sequence) { delete sequence; }

int32_t moert_sequence_position(const moert_sequence *sequence) {
  return sequence ? sequence->sequence.position() : 0;
}

moert_status moert_sequence_rewind(moert_sequence *handle, int32_t position) {
  return withSequence(
      handle, [&](Engine &) { return handle->sequence.rewind(position); });
}

moert_status moert_sequence_fork(moert_sequence *handle,
                                 moert_sequence **fork) {
  return withSequence(handle, [&](Engine &) -> Status {
    if (!fork)
      return nullPointer();
    *fork = new moert_sequence(handle->engine, handle->sequence.fork());
    return Status::ok();
  });
}

moert_status moert_sequence_save(moert_sequence *handle, const char *path) {
  return withSequence(handle, [&](Engine &) -> Status {
    return path ? handle->sequence.save(path) : nullPointer();
  });
}

moert_status moert_sequence_restore(moert_engine *handle, const char *path,
                                    const moert_sequence_options *given,
                                    moert_sequence **sequence) {
  return withPlan(handle, [&](Engine &engine) -> Status {
    if (!path || !sequence)
      return nullPointer();
    MOE_ASSIGN_OR_RETURN(SequenceOptions options, fromC(given));
    MOE_ASSIGN_OR_RETURN(Sequence restored, engine.restore(path, options));
    *sequence = new moert_sequence(handle, std::move(restored));
    return Status::ok();
  });
}

void moert_cancel(moert_sequence *sequence) {
  if (sequence)
    sequence->cancel = true;
}

moert_status moert_evaluate(moert_sequence *handle, const int32_t *ids,
                            size_t count, float *logits) {
  return withSequence(handle, [&](Engine &engine) -> Status {
    if (!ids && count)
      return nullPointer();
    MOE_ASSIGN_OR_RETURN(std::span<const float> last,
                         engine.append(handle->sequence, {ids, count}));
    if (logits)
      std::copy(last.begin(), last.end(), logits);
    return Status::ok();
  });
}

moert_status moert_step(moert_engine *handle, moert_request *requests,
                        size_t count) {
  return withPlan(handle, [&](Engine &engine) -> Status {
    if (!requests && count)
      return nullPointer();
    std::vector<Request> wanted;
    for (moert_request &request : std::span(requests, count)) {
      if (!request.sequence || (!request.ids && request.count))
        return nullPointer();
      request.sequence->cancel = false;
      wanted.push_back(
          {&request.sequence->sequence,
           {request.ids, request.count},
           request.logits ? Request::Logits::Last : Request::Logits::None});
      if (request.count == 0)
        wanted.back().status =
            Status(StatusCode::Usage, "there are no tokens to process");
    }
    Status status = engine.step(
        wanted, [&](size_t i, int32_t, std::span<const float> logits) {
          std::copy(logits.begin(), logits.end(), requests[i].logits);
          return Status::ok();
        });
    for (size_t i = 0; i < count; ++i) {
      requests[i].taken = requests[i].count - wanted[i].tokens.size();
      requests[i].status = toC(wanted[i].status.code());
      if (handle->error.empty())
        remember(*handle, wanted[i].status);
    }
    return status;
  });
}

void moert_default_sampler_options(moert_sampler_options *options) {
  setDefaults(options, samplerDefaults());
}

moert_status moert_sampler_create(moert_engine *handle,
                                  const moert_sampler_options *given,
                                  moert_sampler **sampler) {
  return guarded(handle, [&]() -> Status {
    if (!sampler)
      return nullPointer();
    MOE_ASSIGN_OR_RETURN(moert_sampler_options options,
                         optionsFrom(given, samplerDefaults()));
    MOE_ASSIGN_OR_RETURN(Sampler made, Sampler::create(samplingOf(options)));
    *sampler = new moert_sampler{handle, std::move(made)};
    return Status::ok();
  });
}

void moert_sampler_destroy(moert_sampler *sampler) { delete sampler; }

moert_status moert_sampler_accept(moert_sampler *handle, const int32_t *ids,
                                  size_t count) {
  return withSampler(handle, [&]() -> Status {
    if (!ids && count)
      return nullPointer();
    for (int32_t id : std::span(ids, count))
      handle->sampler.accept(id);
    return Status::ok();
  });
}

moert_status moert_sampler_choose(moert_sampler *handle, const float *logits,
                                  size_t count, int32_t *token) {
  return withSampler(handle, [&]() -> Status {
    if (!logits || !token)
      return nullPointer();
    MOE_ASSIGN_OR_RETURN(*token, handle->sampler.sample({logits, count}));
    return Status::ok();
  });
}

moert_status moert_sampler_save(moert_sampler *handle, uint64_t *random,
                                int32_t *recent, size_t capacity,
                                size_t *count) {
  return withSampler(handle, [&]() -> Status {
    if (!random)
      return nullPointer();
    Sampler::State state = handle->sampler.state();
    MOE_RETURN_IF_ERROR(
        copyOut(state.recent, "token", recent, capacity, count));
    *random = state.random;
    return Status::ok();
  });
}

moert_status moert_sampler_load(moert_sampler *handle, uint64_t random,
                                const int32_t *recent, size_t count) {
  return withSampler(handle, [&]() -> Status {
    if (!recent && count)
      return nullPointer();
    handle->sampler.resume({random, {recent, recent + count}});
    return Status::ok();
  });
}

void moert_default_generate_options(moert_generate_options *options) {
  setDefaults(options, generateDefaults());
}

moert_status moert_generate(moert_sequence *handle, const int32_t *prompt,
                            size_t count, const moert_generate_options *given,
                            moert_text_callback callback, void *user,
                            moert_generate_stats *stats) {
  return withSequence(handle, [&](Engine &engine) -> Status {
    if ((!prompt && count) || !callback)
      return nullPointer();
    MOE_RETURN_IF_ERROR(handle->engine->noTokenizer);
    MOE_ASSIGN_OR_RETURN(moert_generate_options options,
                         optionsFrom(given, generateDefaults()));
    ReplyOptions wanted;
    wanted.maxTokens = options.max_tokens;
    wanted.ignoreEos = options.ignore_eos != 0;
    MOE_ASSIGN_OR_RETURN(wanted.stops,
                         stopsOf(options.stops, options.stop_count));
    MOE_ASSIGN_OR_RETURN(
        ReplyStream reply,
        ReplyStream::create(*handle->engine->tokenizer, {}, std::move(wanted)));
    MOE_ASSIGN_OR_RETURN(
        GenerateStats result,
        generate(engine, handle->sequence, {prompt, count}, samplingOf(options),
                 reply, [&](const ReplyEvent &event) {
                   const std::string &text = event.text;
                   if (!text.empty() &&
                       callback(user, text.data(), text.size()) != 0)
                     handle->cancel = true;
                   return Status::ok();
                 }));
    if (stats)
      *stats = {result.promptTokens, result.generatedTokens,
                result.promptSeconds, result.decodeSeconds};
    if (result.reason == StopReason::Cancelled)
      return Status(StatusCode::Cancelled, "interrupted");
    return Status::ok();
  });
}
