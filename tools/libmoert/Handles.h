//===- Handles.h - What the handles of moert.h stand for --------*- C++ -*-===//

#ifndef MOE_TOOLS_LIBMOERT_HANDLES_H
#define MOE_TOOLS_LIBMOERT_HANDLES_H

#include "runtime/chat/Constraint.h"
#include "runtime/chat/ReplyStream.h"
#include "runtime/engine/Engine.h"
#include "runtime/moert.h"
#include "runtime/serve/Scheduler.h"
#include "runtime/serve/api/ChatCall.h"
#include "runtime/text/Sampler.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace moert::capi {
/// The results of the functions for the last failure.
struct Failure {
  std::string error;
  /// The command that solves the problem; "" if there is none.
  std::string remedy;
};
} // namespace moert::capi

struct moert_engine {
  std::unique_ptr<moert::Engine> engine;
  std::optional<moert::Tokenizer> tokenizer;
  /// The reason why there is no tokenizer; reported by the calls that need one.
  moert::Status noTokenizer;
  moert::capi::Failure last;
  /// Numbers of objects that exist; replies also counts samplers that have a
  /// constraint.
  size_t sequences = 0, replies = 0;
  /// The one that uses the engine; null: none.
  moert::Scheduler *scheduler = nullptr;
  /// Created when a constraint first needs it.
  std::shared_ptr<const moert::ConstraintVocabulary> vocabulary;
  /// Created when a reply in a chat first needs it (speechOf()).
  std::shared_ptr<const moert::Speech> speech;
};

struct moert_constraint {
  moert::AnswerFormat format;
};

struct moert_sequence {
  moert_sequence(moert_engine *owner, moert::Sequence &&taken)
      : engine(owner), sequence(std::move(taken)) {
    sequence.setCancel(&cancel);
    ++engine->sequences;
  }
  ~moert_sequence() { --engine->sequences; }

  moert_engine *engine;
  std::atomic<bool> cancel = false;
  moert::Sequence sequence;
};

struct moert_sampler {
  moert_sampler(moert_engine *owner, moert::Sampler &&taken)
      : engine(owner), sampler(std::move(taken)) {}
  ~moert_sampler() { engine->replies -= constraint.has_value(); }

  moert_engine *engine;
  moert::Sampler sampler;
  std::optional<moert::Constraint> constraint;
};

namespace moert::capi {

inline moert_status toC(StatusCode code) {
  return static_cast<moert_status>(exitCode(code));
}

/// How the engine's model speaks, by the plan's chat template; without one it
/// has no marks. The engine has a tokenizer.
const std::shared_ptr<const Speech> &speechOf(moert_engine &handle);

inline Status nullPointer() {
  return Status(StatusCode::Usage, "a pointer argument is null");
}

/// Keeps the failure for moert_last_error() and moert_last_remedy().
void remember(Failure &last, const Status &failure);

/// Runs `body`, which returns a Status, and keeps its failure in `last`. What
/// is thrown (in practice out of memory) ends here.
template <class F> moert_status guarded(Failure &last, F body) {
  try {
    last.error.clear();
    last.remedy.clear();
    Status status = body();
    if (!status.isOk())
      remember(last, status);
    return toC(status.code());
  } catch (const std::bad_alloc &) {
    // So short that the string allocates no memory.
    last.error.assign("out of memory");
    return MOERT_DOES_NOT_FIT;
  } catch (const std::length_error &) {
    last.error.assign("out of memory");
    return MOERT_DOES_NOT_FIT;
  } catch (...) {
    last.error.assign("internal error");
    return MOERT_INTERNAL;
  }
}

/// Calls a function of this engine in the same way.
template <class F> moert_status guarded(moert_engine *handle, F body) {
  return handle ? guarded(handle->last, body) : MOERT_USAGE;
}

/// Calls guarded() and requires an open plan.
template <class F> moert_status withPlan(moert_engine *handle, F body) {
  return guarded(handle, [&]() -> Status {
    if (!handle->engine)
      return Status(StatusCode::Usage, "no plan is open: call moert_open");
    return body(*handle->engine);
  });
}

/// Calls guarded() and requires that the plan has a tokenizer.
template <class F> moert_status withTokenizer(moert_engine *handle, F body) {
  return withPlan(handle, [&](Engine &engine) -> Status {
    MOE_RETURN_IF_ERROR(handle->noTokenizer);
    return body(engine, *handle->tokenizer);
  });
}

/// Runs `body`, which uses the engine's sequences and appends up to `tokens`
/// tokens in `sequences` of them, when no step of a scheduler runs.
template <class F>
Status between(moert_engine &handle, size_t tokens, size_t sequences, F body) {
  if (!handle.scheduler)
    return body();
  // The last page of each may have to be copied.
  size_t pages = tokens / size_t(moek::kKvPage) + 2 * sequences;
  return handle.scheduler->withEngine(
      int32_t(std::min(pages, size_t(handle.engine->pages()))), body);
}

/// Calls guarded() for a function that appends up to `tokens` tokens to a
/// sequence.
template <class F>
moert_status withSequence(moert_sequence *handle, size_t tokens, F body) {
  if (!handle)
    return MOERT_USAGE;
  return guarded(handle->engine, [&]() -> Status {
    handle->cancel = false;
    return between(*handle->engine, tokens, 1,
                   [&] { return body(*handle->engine->engine); });
  });
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

/// Copies results to the caller's struct, as many fields as its size has room
/// for.
template <class T> Status fill(T *result, T values) {
  if (!result)
    return nullPointer();
  if (result->size < sizeof(size_t))
    return Status(StatusCode::Usage, "a struct for results has no size: set "
                                     "size to its sizeof");
  values.size = result->size;
  std::memcpy(result, &values, std::min(result->size, sizeof(T)));
  return Status::ok();
}

/// Copies a result of unknown length to the caller's buffer (see moert.h).
/// `unit` is "token" or "byte".
template <class Elements, class T>
Status copyOut(const Elements &elements, const char *unit, T *buffer,
               size_t capacity, size_t *count) {
  if ((!buffer && capacity > 0) || !count)
    return nullPointer();
  *count = elements.size();
  if (elements.size() > capacity)
    return Status(StatusCode::Usage, "the result has " +
                                         std::to_string(elements.size()) + " " +
                                         unit + "s, the buffer room for " +
                                         std::to_string(capacity));
  std::copy(elements.begin(), elements.end(), buffer);
  return Status::ok();
}

/// Returns the bytes of tokens; control tokens give their names if requested.
std::string bytesOf(const Tokenizer &tokenizer, std::span<const int32_t> ids,
                    bool controlNames);

/// Fails with Usage for a token outside the vocabulary.
Status checkTokens(const Engine &engine, std::span<const int32_t> ids);

/// Converts the strings that a caller passed.
inline StatusOr<std::vector<std::string>> stopsOf(const char *const *stops,
                                                  size_t count) {
  std::vector<std::string> result;
  if (!stops && count > 0)
    return nullPointer();
  for (size_t i = 0; i < count; ++i) {
    if (!stops[i])
      return nullPointer();
    result.emplace_back(stops[i]);
  }
  return result;
}

/// Converts sampling options from either of the structs that have them.
template <class T> StatusOr<SamplerParams> samplingOf(const T &options) {
  SamplerParams result;
  result.temperature = options.temperature;
  result.topK = static_cast<uint32_t>(std::max(0, options.top_k));
  result.topP = options.top_p;
  result.minP = options.min_p;
  result.repetitionPenalty = options.repeat_penalty;
  result.repetitionWindow =
      static_cast<uint32_t>(std::max(0, options.repeat_last_n));
  result.seed = options.seed;
  result.presencePenalty = options.presence_penalty;
  result.frequencyPenalty = options.frequency_penalty;
  if ((!options.bias_tokens || !options.biases) && options.bias_count > 0)
    return nullPointer();
  for (size_t i = 0; i < options.bias_count; ++i)
    result.logitBias[options.bias_tokens[i]] = options.biases[i];
  return result;
}

/// Converts what a moert_generate_options says of the reply.
inline StatusOr<ReplyOptions>
replyOptionsOf(const moert_generate_options &options) {
  ReplyOptions result;
  result.maxTokens = options.max_tokens;
  result.ignoreEos = options.ignore_eos != 0;
  MOE_ASSIGN_OR_RETURN(result.stops,
                       stopsOf(options.stops, options.stop_count));
  return result;
}

/// The defaults of moert run.
moert_generate_options generateDefaults();

/// Sets the defaults of the sampling options.
template <class T> void setSamplingDefaults(T &options) {
  SamplerParams params;
  options.temperature = params.temperature;
  options.top_k = static_cast<int32_t>(params.topK);
  options.top_p = params.topP;
  options.min_p = params.minP;
  options.repeat_penalty = params.repetitionPenalty;
  options.repeat_last_n = static_cast<int32_t>(params.repetitionWindow);
  options.seed = params.seed;
}

} // namespace moert::capi

#endif // MOE_TOOLS_LIBMOERT_HANDLES_H
