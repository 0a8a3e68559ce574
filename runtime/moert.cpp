#include "runtime/moert.h"

#include "runtime/Generate.h"
#include "runtime/PlanTokenizer.h"

#include <algorithm>
#include <new>

using namespace moert;

struct moert_session {
  std::unique_ptr<Session> session;
  std::optional<Tokenizer> tokenizer;
  /// Why there is no tokenizer; reported by the calls that need one.
  Status noTokenizer;
  std::string error;
  std::atomic<bool> cancel = false;
};

namespace {

moert_status toC(StatusCode code) {
  return static_cast<moert_status>(exitCode(code));
}

/// Runs `body`, which returns a Status, and keeps its failure in the session.
/// What the standard library throws (in practice out of memory) ends here.
template <class F> moert_status guarded(moert_session *handle, F body) {
  Status status;
  try {
    handle->error.clear();
    status = body();
    if (!status.isOk())
      handle->error = status.message();
    return toC(status.code());
  } catch (const std::bad_alloc &) {
    handle->error.assign("out of memory"); // fits the small-string buffer
    return MOERT_DOES_NOT_FIT;
  } catch (const std::exception &) {
    handle->error.assign("internal error");
    return MOERT_INTERNAL;
  }
}

/// guarded(), for calls that need an open plan.
template <class F> moert_status withPlan(moert_session *handle, F body) {
  return guarded(handle, [&]() -> Status {
    if (!handle->session)
      return Status(StatusCode::Usage, "no plan is open: call moert_open");
    handle->cancel = false;
    return body(*handle->session);
  });
}

GenerateOptions fromC(const moert_generate_options &options) {
  GenerateOptions result;
  result.maxTokens = options.max_tokens;
  result.ignoreEos = options.ignore_eos != 0;
  result.sampler.temperature = options.temperature;
  result.sampler.topK = static_cast<uint32_t>(std::max(0, options.top_k));
  result.sampler.topP = options.top_p;
  result.sampler.minP = options.min_p;
  result.sampler.repetitionPenalty = options.repeat_penalty;
  result.sampler.repetitionWindow =
      static_cast<uint32_t>(std::max(0, options.repeat_last_n));
  result.sampler.seed = options.seed;
  for (size_t i = 0; options.stops && i < options.stop_count; ++i)
    result.stops.emplace_back(options.stops[i]);
  return result;
}
} // namespace

moert_session *moert_create(void) { return new (std::nothrow) moert_session; }

void moert_destroy(moert_session *session) { delete session; }

const char *moert_last_error(const moert_session *session) {
  return session->error.c_str();
}

moert_status moert_open(moert_session *handle, const char *planPath,
                        const moert_open_options *options) {
  return guarded(handle, [&]() -> Status {
    handle->session.reset();
    handle->tokenizer.reset();
    if (!planPath)
      return Status(StatusCode::Usage, "the plan's path is null");
    SessionOptions sessionOptions;
    if (options) {
      sessionOptions.threads = options->threads;
      sessionOptions.allowPaging = options->allow_paging != 0;
      if (options->model_path)
        sessionOptions.files.models.emplace_back(options->model_path);
      if (options->weights_path)
        sessionOptions.files.packed = options->weights_path;
    }
    MOE_ASSIGN_OR_RETURN(handle->session,
                         Session::open(planPath, sessionOptions));
    handle->session->setCancel(&handle->cancel);
    StatusOr<Tokenizer> tokenizer = planTokenizer(handle->session->plan());
    handle->noTokenizer = tokenizer.status();
    if (tokenizer)
      handle->tokenizer = *std::move(tokenizer);
    return Status::ok();
  });
}

int32_t moert_vocab(const moert_session *handle) {
  return handle->session ? handle->session->vocab() : 0;
}
int32_t moert_context(const moert_session *handle) {
  return handle->session ? handle->session->context() : 0;
}
int32_t moert_position(const moert_session *handle) {
  return handle->session ? handle->session->position() : 0;
}

moert_status moert_tokenize(moert_session *handle, const char *text,
                            size_t bytes, int addBos, int32_t *ids,
                            size_t capacity, size_t *count) {
  return withPlan(handle, [&](Session &) -> Status {
    if ((!text && bytes) || (!ids && capacity) || !count)
      return Status(StatusCode::Usage, "a pointer argument is null");
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

moert_status moert_evaluate(moert_session *handle, const int32_t *ids,
                            size_t count, float *logits) {
  return withPlan(handle, [&](Session &session) -> Status {
    if (!ids && count)
      return Status(StatusCode::Usage, "a pointer argument is null");
    MOE_ASSIGN_OR_RETURN(std::span<const float> last,
                         session.prefill({ids, count}));
    if (logits)
      std::copy(last.begin(), last.end(), logits);
    return Status::ok();
  });
}

moert_status moert_rewind(moert_session *handle, int32_t position) {
  return withPlan(handle,
                  [&](Session &session) { return session.rewind(position); });
}

void moert_default_generate_options(moert_generate_options *options) {
  SamplerParams params;
  *options = {-1,
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

moert_status moert_generate(moert_session *handle, const int32_t *prompt,
                            size_t count, const moert_generate_options *options,
                            moert_text_callback callback, void *user,
                            moert_generate_stats *stats) {
  return withPlan(handle, [&](Session &session) -> Status {
    if ((!prompt && count) || !callback)
      return Status(StatusCode::Usage, "a pointer argument is null");
    MOE_RETURN_IF_ERROR(handle->noTokenizer);
    moert_generate_options chosen;
    moert_default_generate_options(&chosen);
    if (options)
      chosen = *options;
    MOE_ASSIGN_OR_RETURN(
        GenerateStats result,
        generate(session, *handle->tokenizer, {prompt, count}, fromC(chosen),
                 [&](std::string_view text) {
                   if (callback(user, text.data(), text.size()) != 0)
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

void moert_cancel(moert_session *handle) { handle->cancel = true; }
