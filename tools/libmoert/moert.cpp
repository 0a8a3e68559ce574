#include "runtime/moert.h"

#include "runtime/chat/Generate.h"
#include "runtime/plan/PlanTokenizer.h"
#include "tools/common/Remedies.h"

#include <algorithm>
#include <cstring>
#include <new>

using namespace moert;

struct moert_engine {
  std::unique_ptr<Engine> engine;
  std::optional<Tokenizer> tokenizer;
  /// Why there is no tokenizer; reported by the calls that need one.
  Status noTokenizer;
  std::string error;
  std::string remedy;   ///< The command that mends it; "" where there is none.
  size_t sequences = 0; ///< That are not destroyed yet.
};

struct moert_sequence {
  moert_sequence(moert_engine *owner, Sequence &&taken)
      : engine(owner), sequence(std::move(taken)) {
    sequence.setCancel(&cancel);
    ++engine->sequences;
  }
  ~moert_sequence() { --engine->sequences; }

  moert_engine *engine;
  std::atomic<bool> cancel = false;
  Sequence sequence;
};

namespace {

moert_status toC(StatusCode code) {
  return static_cast<moert_status>(exitCode(code));
}

void remember(moert_engine &engine, const Status &failure) {
  engine.error = failure.message();
  if (failure.remedy())
    engine.remedy = moetool::commandText(*failure.remedy()).line;
}

/// Runs `body`, which returns a Status, and keeps its failure in the engine.
/// What is thrown (in practice out of memory) ends here.
template <class F> moert_status guarded(moert_engine *handle, F body) {
  try {
    handle->error.clear();
    handle->remedy.clear();
    Status status = body();
    if (!status.isOk())
      remember(*handle, status);
    return toC(status.code());
  } catch (const std::bad_alloc &) {
    handle->error.assign("out of memory"); // fits the small-string buffer
    return MOERT_DOES_NOT_FIT;
  } catch (...) {
    handle->error.assign("internal error");
    return MOERT_INTERNAL;
  }
}

/// guarded(), for calls that need an open plan.
template <class F> moert_status withPlan(moert_engine *handle, F body) {
  return guarded(handle, [&]() -> Status {
    if (!handle->engine)
      return Status(StatusCode::Usage, "no plan is open: call moert_open");
    return body(*handle->engine);
  });
}

/// guarded(), for calls that work on a sequence.
template <class F> moert_status withSequence(moert_sequence *handle, F body) {
  return guarded(handle->engine, [&]() -> Status {
    handle->cancel = false;
    return body(*handle->engine->engine);
  });
}

Status nullPointer() {
  return Status(StatusCode::Usage, "a pointer argument is null");
}

/// Options as a caller gave them over `defaults`: fields that it does not know
/// stay as they are, fields that we do not know are left out.
template <class T> StatusOr<T> optionsFrom(const T *given, T defaults = {}) {
  if (!given)
    return defaults;
  if (given->size < sizeof(size_t))
    return Status(StatusCode::Usage, "an options struct has no size: set size "
                                     "to its sizeof");
  std::memcpy(&defaults, given, std::min(given->size, sizeof(T)));
  return defaults;
}

moert_generate_options generateDefaults() {
  SamplerParams params;
  return {sizeof(moert_generate_options),
          -1,
          params.temperature,
          static_cast<int32_t>(params.topK),
          params.topP,
          params.minP,
          params.repetitionPenalty,
          static_cast<int32_t>(params.repetitionWindow),
          params.seed,
          nullptr,
          0,
          0};
}

SamplerParams samplingOf(const moert_generate_options &options) {
  SamplerParams result;
  result.temperature = options.temperature;
  result.topK = static_cast<uint32_t>(std::max(0, options.top_k));
  result.topP = options.top_p;
  result.minP = options.min_p;
  result.repetitionPenalty = options.repeat_penalty;
  result.repetitionWindow =
      static_cast<uint32_t>(std::max(0, options.repeat_last_n));
  result.seed = options.seed;
  return result;
}

ReplyOptions replyOf(const moert_generate_options &options) {
  ReplyOptions result;
  result.maxTokens = options.max_tokens;
  result.ignoreEos = options.ignore_eos != 0;
  for (size_t i = 0; options.stops && i < options.stop_count; ++i)
    result.stops.emplace_back(options.stops[i]);
  return result;
}

StatusOr<SequenceOptions> fromC(const moert_sequence_options *given) {
  MOE_ASSIGN_OR_RETURN(moert_sequence_options options,
                       optionsFrom<moert_sequence_options>(given));
  return SequenceOptions{.sharePrefixes = options.private_prefix == 0};
}
} // namespace

moert_engine *moert_create(void) { return new (std::nothrow) moert_engine; }

void moert_destroy(moert_engine *engine) { delete engine; }

const char *moert_last_error(const moert_engine *engine) {
  return engine->error.c_str();
}

const char *moert_last_remedy(const moert_engine *engine) {
  return engine->remedy.c_str();
}

moert_status moert_open(moert_engine *handle, const char *planPath,
                        const moert_open_options *given) {
  return guarded(handle, [&]() -> Status {
    if (handle->sequences > 0)
      return Status(StatusCode::Usage, "sequences of the plan before are left: "
                                       "call moert_sequence_destroy");
    handle->engine.reset();
    handle->tokenizer.reset();
    if (!planPath)
      return Status(StatusCode::Usage, "the plan's path is null");
    MOE_ASSIGN_OR_RETURN(moert_open_options options,
                         optionsFrom<moert_open_options>(given));
    EngineOptions engineOptions;
    engineOptions.threads = options.threads;
    engineOptions.allowPaging = options.allow_paging != 0;
    engineOptions.rung = {uint32_t(std::max(options.rung, 0)),
                          std::max(options.context, 0)};
    if (options.model_path)
      engineOptions.files.models.emplace_back(options.model_path);
    if (options.weights_path)
      engineOptions.files.packed = options.weights_path;
    MOE_ASSIGN_OR_RETURN(handle->engine, Engine::open(planPath, engineOptions));
    StatusOr<Tokenizer> tokenizer = planTokenizer(handle->engine->plan());
    handle->noTokenizer = tokenizer.status();
    if (tokenizer)
      handle->tokenizer = *std::move(tokenizer);
    return Status::ok();
  });
}

int32_t moert_vocab(const moert_engine *handle) {
  return handle->engine ? handle->engine->vocab() : 0;
}
int32_t moert_context(const moert_engine *handle) {
  return handle->engine ? handle->engine->context() : 0;
}
int32_t moert_batch(const moert_engine *handle) {
  return handle->engine ? handle->engine->batch() : 0;
}
int32_t moert_ubatch(const moert_engine *handle) {
  return handle->engine ? handle->engine->ubatch() : 0;
}

moert_status moert_tokenize(moert_engine *handle, const char *text,
                            size_t bytes, int addBos, int32_t *ids,
                            size_t capacity, size_t *count) {
  return withPlan(handle, [&](Engine &) -> Status {
    if ((!text && bytes) || (!ids && capacity) || !count)
      return nullPointer();
    MOE_RETURN_IF_ERROR(handle->noTokenizer);
    EncodeOptions options;
    options.addBos = addBos != 0;
    MOE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                         handle->tokenizer->encode({text, bytes}, options));
    *count = tokens.size();
    if (tokens.size() > capacity)
      return Status(StatusCode::Usage, "the text has " +
                                           std::to_string(tokens.size()) +
                                           " tokens, the buffer room for " +
                                           std::to_string(capacity));
    std::copy(tokens.begin(), tokens.end(), ids);
    return Status::ok();
  });
}

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
  return sequence->sequence.position();
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

void moert_cancel(moert_sequence *sequence) { sequence->cancel = true; }

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

void moert_default_generate_options(moert_generate_options *options) {
  moert_generate_options defaults = generateDefaults();
  defaults.size = options->size;
  std::memcpy(options, &defaults, std::min(options->size, sizeof(defaults)));
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
    MOE_ASSIGN_OR_RETURN(
        ReplyStream reply,
        ReplyStream::create(*handle->engine->tokenizer, {}, replyOf(options)));
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
