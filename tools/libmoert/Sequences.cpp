// Functions of sequences, samplers and steps.
#include "runtime/chat/ReplyGrammar.h"
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

template <class T> void setDefaults(T *options, T defaults) {
  if (!options || options->size < sizeof(size_t))
    return;
  defaults.size = options->size;
  std::memcpy(options, &defaults, std::min(options->size, sizeof(defaults)));
}

/// Tokens that this call may append: the context is the limit.
size_t tokensOf(const Engine &engine, size_t prompt, int32_t most) {
  size_t context = size_t(engine.context());
  return most < 0 ? context : std::min(context, prompt + size_t(most));
}

template <class F> moert_status withSampler(moert_sampler *handle, F body) {
  return handle ? guarded(handle->engine, body) : MOERT_USAGE;
}
} // namespace

moert_generate_options moert::capi::generateDefaults() {
  moert_generate_options options = {};
  setSamplingDefaults(options);
  options.max_tokens = -1;
  return options;
}

moert_status moert_sequence_create(moert_engine *handle,
                                   const moert_sequence_options *given,
                                   moert_sequence **sequence) {
  return withPlan(handle, [&](Engine &engine) -> Status {
    if (!sequence)
      return nullPointer();
    MOE_ASSIGN_OR_RETURN(SequenceOptions options, fromC(given));
    return between(*handle, 0, 0, [&] {
      *sequence = new moert_sequence(handle, engine.sequence(options));
      return Status::ok();
    });
  });
}

void moert_sequence_destroy(moert_sequence *sequence) {
  if (sequence)
    (void)between(*sequence->engine, 0, 0, [&] {
      delete sequence;
      return Status::ok();
    });
}

int32_t moert_sequence_position(const moert_sequence *sequence) {
  return sequence ? sequence->sequence.position() : 0;
}

moert_status moert_sequence_rewind(moert_sequence *handle, int32_t position) {
  return withSequence(
      handle, 0, [&](Engine &) { return handle->sequence.rewind(position); });
}

moert_status moert_sequence_fork(moert_sequence *handle,
                                 moert_sequence **fork) {
  return withSequence(handle, 0, [&](Engine &) -> Status {
    if (!fork)
      return nullPointer();
    *fork = new moert_sequence(handle->engine, handle->sequence.fork());
    return Status::ok();
  });
}

moert_status moert_sequence_save(moert_sequence *handle, const char *path) {
  return withSequence(handle, 0, [&](Engine &) -> Status {
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
    size_t tokens = 0;
    if (handle->scheduler) { // The scheduler must make room for these tokens.
      MOE_ASSIGN_OR_RETURN(std::vector<int32_t> saved,
                           engine.savedTokens(path));
      tokens = saved.size();
    }
    return between(*handle, tokens, 1, [&]() -> Status {
      MOE_ASSIGN_OR_RETURN(Sequence restored, engine.restore(path, options));
      *sequence = new moert_sequence(handle, std::move(restored));
      return Status::ok();
    });
  });
}

void moert_cancel(moert_sequence *sequence) {
  if (sequence)
    sequence->cancel = true;
}

moert_status moert_evaluate(moert_sequence *handle, const int32_t *ids,
                            size_t count, float *logits) {
  return withSequence(handle, count, [&](Engine &engine) -> Status {
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
    size_t tokens = 0;
    for (moert_request &request : std::span(requests, count)) {
      if (!request.sequence || (!request.ids && request.count))
        return nullPointer();
      request.sequence->cancel = false;
      tokens += request.count;
      wanted.push_back(
          {&request.sequence->sequence,
           {request.ids, request.count},
           request.logits ? Request::Logits::Last : Request::Logits::None});
      if (request.count == 0)
        wanted.back().status =
            Status(StatusCode::Usage, "there are no tokens to process");
    }
    tokens = std::min(tokens, count + size_t(engine.ubatch()));
    Status status = between(*handle, tokens, count, [&] {
      return engine.step(
          wanted, [&](size_t i, int32_t, std::span<const float> logits) {
            std::copy(logits.begin(), logits.end(), requests[i].logits);
            return Status::ok();
          });
    });
    for (size_t i = 0; i < count; ++i) {
      requests[i].taken = requests[i].count - wanted[i].tokens.size();
      requests[i].status = toC(wanted[i].status.code());
      if (handle->last.error.empty())
        remember(handle->last, wanted[i].status);
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
    MOE_ASSIGN_OR_RETURN(SamplerParams params, samplingOf(options));
    MOE_ASSIGN_OR_RETURN(Sampler made, Sampler::create(params));
    *sampler = new moert_sampler(handle, std::move(made));
    return Status::ok();
  });
}

void moert_sampler_destroy(moert_sampler *sampler) { delete sampler; }

moert_status moert_sampler_accept(moert_sampler *handle, const int32_t *ids,
                                  size_t count) {
  return withSampler(handle, [&]() -> Status {
    if (!ids && count)
      return nullPointer();
    for (int32_t id : std::span(ids, count)) {
      if (handle->constraint)
        MOE_RETURN_IF_ERROR(handle->constraint->accept(id));
      handle->sampler.accept(id);
    }
    return Status::ok();
  });
}

moert_status moert_sampler_choose(moert_sampler *handle, const float *logits,
                                  size_t count, int32_t *token) {
  return withSampler(handle, [&]() -> Status {
    if (!logits || !token)
      return nullPointer();
    std::span<const uint64_t> allowed;
    if (handle->constraint) {
      MOE_ASSIGN_OR_RETURN(allowed, handle->constraint->allowed());
    }
    MOE_ASSIGN_OR_RETURN(*token,
                         handle->sampler.sample({logits, count}, allowed));
    return Status::ok();
  });
}

moert_status moert_sampler_constrain(moert_sampler *handle,
                                     const moert_constraint *constraint,
                                     const char *prompt, size_t bytes) {
  if (!handle)
    return MOERT_USAGE;
  return withTokenizer(
      handle->engine, [&](Engine &, const Tokenizer &tokenizer) -> Status {
        if (!prompt && bytes)
          return nullPointer();
        handle->engine->replies -= handle->constraint.has_value();
        handle->constraint.reset();
        if (!constraint)
          return Status::ok();
        auto &vocabulary = handle->engine->vocabulary;
        if (!vocabulary)
          vocabulary = std::make_shared<const ConstraintVocabulary>(tokenizer);
        std::shared_ptr<const Automaton> automaton =
            constraint->format.automaton;
        if (prompt) {
          MOE_ASSIGN_OR_RETURN(
              automaton,
              answerGrammar(*constraint->format.grammar,
                            *speechOf(*handle->engine), {prompt, bytes}));
        }
        handle->constraint.emplace(std::move(automaton), vocabulary);
        ++handle->engine->replies;
        return Status::ok();
      });
}

int32_t moert_sampler_has_ended(const moert_sampler *handle) {
  return handle && handle->constraint && handle->constraint->hasEnded();
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
  if (!handle)
    return MOERT_USAGE;
  return guarded(handle->engine, [&]() -> Status {
    handle->cancel = false;
    Engine &engine = *handle->engine->engine;
    if ((!prompt && count) || !callback)
      return nullPointer();
    MOE_RETURN_IF_ERROR(handle->engine->noTokenizer);
    MOE_ASSIGN_OR_RETURN(moert_generate_options options,
                         optionsFrom(given, generateDefaults()));
    MOE_ASSIGN_OR_RETURN(SamplerParams sampling, samplingOf(options));
    MOE_ASSIGN_OR_RETURN(ReplyOptions wanted, replyOptionsOf(options));
    MOE_ASSIGN_OR_RETURN(
        ReplyStream reply,
        ReplyStream::create(*handle->engine->tokenizer, {}, std::move(wanted)));
    GenerateStats result;
    size_t tokens = tokensOf(engine, count, options.max_tokens);
    MOE_RETURN_IF_ERROR(between(*handle->engine, tokens, 1, [&]() -> Status {
      MOE_ASSIGN_OR_RETURN(
          result, generate(engine, handle->sequence, {prompt, count}, sampling,
                           reply, [&](const ReplyEvent &event) {
                             const std::string &text = event.text;
                             if (!text.empty() &&
                                 callback(user, text.data(), text.size()) != 0)
                               handle->cancel = true;
                             return Status::ok();
                           }));
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
