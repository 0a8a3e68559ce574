// Functions of generations.
#include "runtime/chat/ReplyGrammar.h"
#include "tools/libmoert/Generations.h"

#include "runtime/serve/api/openai/OpenAi.h"
#include "tools/libmoert/Requests.h"

using namespace moert;
using namespace moert::capi;

Failure &moert::capi::threadFailure() {
  thread_local Failure failure;
  return failure;
}

std::optional<std::chrono::steady_clock::time_point>
moert::capi::deadlineOf(int32_t milliseconds) {
  if (milliseconds < 0)
    return std::nullopt;
  return std::chrono::steady_clock::now() +
         std::chrono::milliseconds(milliseconds);
}

void GenerationState::receive(GenerationEvent event) {
  std::deque<OwnedEvent> made;
  // After a malformed call nothing follows but the generation's end.
  const bool wasOver = pieces.hasEnded();
  pieces.receive(event,
                 [&](const Delta &delta) { made.emplace_back(delta, choice); });
  if (pieces.hasEnded() && !wasOver) {
    made.emplace_back(choice, pieces.failure());
    made.back().setResults(event.isEnd ? event.reply.stop : -1,
                           choice.tokens.empty() ? std::move(event.reply.tokens)
                                                 : std::move(choice.tokens),
                           event.stats, std::move(event.embedding));
  }
  std::lock_guard lock(inbox->mutex);
  hasEnded |= event.isEnd;
  if (pieces.isMalformed())
    cancel();
  if (!handle || made.empty())
    return;
  if (events.empty())
    place = inbox->ready.insert(inbox->ready.end(), shared_from_this());
  std::ranges::move(made, std::back_inserter(events));
  changed.notify_all();
  inbox->any.notify_all();
}

void GenerationState::cancel() {
  isCancelled = true;
  // The generation has not ended, so that the scheduler still waits for its
  // end.
  if (id != 0 && !hasEnded)
    scheduler.cancel(id);
}

void GenerationState::setId(GenerationId given) {
  std::lock_guard lock(inbox->mutex);
  id = given;
  if (isCancelled)
    cancel();
}

std::optional<OwnedEvent> GenerationState::take() {
  if (events.empty())
    return std::nullopt;
  std::optional<OwnedEvent> first(std::move(events.front()));
  events.pop_front();
  if (events.empty())
    inbox->ready.erase(place);
  return first;
}

void GenerationState::clear() {
  if (!events.empty())
    inbox->ready.erase(place);
  events.clear();
}

namespace {
/// Queues the request with what the options say.
Status submit(moert_scheduler &scheduler, GenerationRequest request,
              ToolUse tools, const moert_submit_options &options,
              moert_generation **generation) {
  if (options.client)
    request.client = options.client;
  request.priority = options.priority;
  auto made = std::make_unique<moert_generation>();
  made->user = options.user;
  made->state = std::make_shared<GenerationState>(
      scheduler.inbox, *scheduler.scheduler, scheduler.tokenizer(),
      std::move(tools));
  made->state->handle = made.get();
  // When its events come, a caller may find and destroy the handle.
  std::shared_ptr<GenerationState> state = made->state;
  MOE_ASSIGN_OR_RETURN(GenerationId id,
                       scheduler.scheduler->submit(
                           std::move(request), [state](GenerationEvent event) {
                             state->receive(std::move(event));
                           }));
  *generation = made.release();
  state->setId(id);
  return Status::ok();
}

StatusOr<Pooling> poolingOf(const Engine &engine, int32_t pooling) {
  switch (pooling) {
  case MOERT_POOL_DEFAULT: {
    const auto *name = engine.plan().table().pooling();
    return trainedPooling(name ? name->string_view() : "");
  }
  case MOERT_POOL_MEAN:
    return Pooling::Mean;
  case MOERT_POOL_LAST:
    return Pooling::Last;
  default:
    return Status(StatusCode::Usage, "pooling is not a moert_pooling");
  }
}

/// Reads a conversation with what the options say.
StatusOr<RunPlan> planOf(const moert_scheduler &scheduler,
                         std::string_view text,
                         const moert_submit_options &options) {
  if (!scheduler.chat)
    return Status(StatusCode::Unsupported,
                  "the model has no chat template: submit a prompt of tokens, "
                  "or give the scheduler a template");
  ApiSettings settings;
  ChatCall call;
  MOE_RETURN_IF_ERROR(readJson("request", text, [&](const Field &request) {
    if (request.object())
      readOpenAiChat(request, settings, call);
    if (call.generate.choices != 1)
      request["n"].fail("must be 1: submit the request several times");
  }));
  // Events of the library have no kind for it.
  call.generate.reportsProgress = false;
  if (options.constraint) {
    if (call.generate.format.automaton)
      return Status(StatusCode::Usage,
                    "the options have a constraint, and the request has a "
                    "format of the answer too");
    call.generate.format = options.constraint->format;
  }
  Prepared prepared = prepareChat(scheduler, settings, call);
  if (auto *error = std::get_if<ApiError>(&prepared))
    return Status(StatusCode::Usage, error->message);
  return std::get<RunPlan>(std::move(prepared));
}
} // namespace

const char *moert_thread_error(void) { return threadFailure().error.c_str(); }
const char *moert_thread_remedy(void) { return threadFailure().remedy.c_str(); }

moert_status moert_submit(moert_scheduler *scheduler, const int32_t *ids,
                          size_t count, const moert_generate_options *given,
                          const moert_submit_options *givenOptions,
                          moert_generation **generation) {
  return guarded(threadFailure(), [&]() -> Status {
    if (!scheduler || (!ids && count) || !generation)
      return nullPointer();
    MOE_ASSIGN_OR_RETURN(moert_generate_options generate,
                         optionsFrom(given, generateDefaults()));
    MOE_ASSIGN_OR_RETURN(moert_submit_options options,
                         optionsFrom<moert_submit_options>(givenOptions));
    if (options.logprobs < 0)
      return Status(StatusCode::Usage, "logprobs is a number from 0");
    GenerationRequest request;
    request.prompt.assign(ids, ids + count);
    MOE_ASSIGN_OR_RETURN(request.sampling, samplingOf(generate));
    MOE_ASSIGN_OR_RETURN(request.reply, replyOptionsOf(generate));
    request.topLogprobs = options.logprobs - 1;
    if (options.constraint)
      request.grammar = options.constraint->format.automaton;
    if (options.is_chat != 0) {
      request.reply.speech = scheduler->chat ? scheduler->chat->speech()
                                             : speechOf(*scheduler->engine);
      MOE_RETURN_IF_ERROR(
          checkTokens(*scheduler->engine->engine, request.prompt));
      request.promptText = bytesOf(scheduler->tokenizer(), request.prompt,
                                   /*controlNames=*/true);
      if (options.constraint) {
        MOE_ASSIGN_OR_RETURN(
            request.grammar,
            answerGrammar(*options.constraint->format.grammar,
                          *request.reply.speech, request.promptText));
      }
    }
    return submit(*scheduler, std::move(request), {}, options, generation);
  });
}

moert_status moert_submit_embedding(moert_scheduler *scheduler,
                                    const int32_t *ids, size_t count,
                                    int32_t pooling,
                                    const moert_submit_options *given,
                                    moert_generation **generation) {
  return guarded(threadFailure(), [&]() -> Status {
    if (!scheduler || (!ids && count) || !generation)
      return nullPointer();
    MOE_ASSIGN_OR_RETURN(moert_submit_options options,
                         optionsFrom<moert_submit_options>(given));
    GenerationRequest request;
    request.prompt.assign(ids, ids + count);
    MOE_ASSIGN_OR_RETURN(request.embed,
                         poolingOf(*scheduler->engine->engine, pooling));
    return submit(*scheduler, std::move(request), {}, options, generation);
  });
}

moert_status moert_submit_chat(moert_scheduler *scheduler, const char *request,
                               size_t bytes, const moert_submit_options *given,
                               moert_generation **generation) {
  return guarded(threadFailure(), [&]() -> Status {
    if (!scheduler || (!request && bytes) || !generation)
      return nullPointer();
    MOE_ASSIGN_OR_RETURN(moert_submit_options options,
                         optionsFrom<moert_submit_options>(given));
    MOE_ASSIGN_OR_RETURN(RunPlan plan,
                         planOf(*scheduler, {request, bytes}, options));
    return submit(*scheduler, std::move(plan.requests[0]),
                  std::move(plan.toolUse), options, generation);
  });
}

void moert_generation_destroy(moert_generation *generation) {
  if (!generation)
    return;
  {
    std::lock_guard lock(generation->state->inbox->mutex);
    generation->state->cancel();
    generation->state->clear();
    generation->state->handle = nullptr;
  }
  delete generation;
}

void *moert_generation_user(const moert_generation *generation) {
  return generation ? generation->user : nullptr;
}

void moert_generation_cancel(moert_generation *generation) {
  if (!generation)
    return;
  std::lock_guard lock(generation->state->inbox->mutex);
  generation->state->cancel();
}

moert_status moert_generation_next(moert_generation *generation,
                                   int32_t timeout, const moert_event **event) {
  return guarded(threadFailure(), [&]() -> Status {
    if (!generation || !event)
      return nullPointer();
    *event = nullptr;
    if (generation->hasEnded)
      return Status::ok();
    GenerationState &state = *generation->state;
    std::unique_lock lock(state.inbox->mutex);
    waitFor(state.changed, lock, timeout,
            [&] { return !state.events.empty(); });
    generation->current = state.take();
    if (!generation->current)
      return Status::ok();
    *event = &generation->current->view();
    generation->hasEnded = (*event)->kind == MOERT_EVENT_END;
    return Status::ok();
  });
}
