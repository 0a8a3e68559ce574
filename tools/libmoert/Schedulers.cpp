// Functions of schedulers.
#include "runtime/plan/PlanTokenizer.h"
#include "tools/libmoert/Generations.h"

using namespace moert;
using namespace moert::capi;

namespace {
StatusOr<SchedulerOptions> fromC(const moert_scheduler_options &options) {
  SchedulerOptions result;
  // 0 asks for the default; the scheduler refuses what is out of range.
  auto set = [](auto &value, auto option) {
    if (option != 0)
      value = option;
  };
  set(result.sequences, options.sequences);
  set(result.queue, options.queue);
  set(result.queuePerClient, options.queue_per_client);
  set(result.runningPerClient, options.running_per_client);
  set(result.prefillChunk, options.prefill_chunk);
  set(result.stepFactor, options.step_factor);
  set(result.assumedTokens, options.assumed_tokens);
  set(result.keptSequences, options.kept_sequences);
  if (options.kept_sequences == -1)
    result.keptSequences = 0;
  set(result.storeBytes, options.store_bytes);
  if (options.store_folder)
    result.storeFolder = options.store_folder;
  switch (options.speculation) {
  case MOERT_SPECULATE_WHERE_PAYS:
    break;
  case MOERT_SPECULATE_OFF:
    result.speculation = Speculation::Off;
    break;
  case MOERT_SPECULATE_ALWAYS:
    result.speculation = Speculation::Always;
    break;
  default:
    return Status(StatusCode::Usage, "speculation is not a moert_speculation");
  }
  return result;
}

/// Returns the facts about the plan that requests need.
ModelFacts factsOf(const Engine &engine, const char *chatTemplate) {
  ModelFacts facts;
  const auto *name = engine.plan().table().model_name();
  facts.id = name && name->size() > 0 ? name->str() : "of the plan";
  facts.chatTemplate =
      chatTemplate ? chatTemplate : planChatTemplateSource(engine.plan());
  facts.contextTokens = engine.context();
  facts.sequences = engine.batch();
  return facts;
}

moert_scheduler_stats toC(const SchedulerStats &from) {
  moert_scheduler_stats to = {};
  to.waiting = from.waiting;
  to.running = from.running;
  to.most_running = from.mostRunning;
  to.pages = from.pages;
  to.free_pages = from.freePages;
  to.kept_sequences = from.keptSequences;
  to.prefill_chunk = from.prefillChunk;
  to.is_draining = from.isDraining;
  to.submitted = from.submitted;
  to.refused = from.refused;
  to.finished = from.finished;
  to.cancelled = from.cancelled;
  to.failed = from.failed;
  to.steps = from.steps;
  to.preempted = from.preempted;
  to.prompt_tokens = from.promptTokens;
  to.cached_tokens = from.cachedTokens;
  to.restored_tokens = from.restoredTokens;
  to.evaluated_tokens = from.evaluatedTokens;
  to.generated_tokens = from.generatedTokens;
  to.drafted_tokens = from.draftedTokens;
  to.accepted_tokens = from.acceptedTokens;
  to.step_seconds = from.stepSeconds.sum();
  return to;
}
} // namespace

moert_status moert_scheduler_create(moert_engine *handle,
                                    const moert_scheduler_options *given,
                                    moert_scheduler **scheduler) {
  return withTokenizer(
      handle, [&](Engine &engine, const Tokenizer &tokenizer) -> Status {
        if (!scheduler)
          return nullPointer();
        if (handle->scheduler)
          return Status(StatusCode::Usage,
                        "the engine has a scheduler already: use it, or "
                        "destroy it first");
        MOE_ASSIGN_OR_RETURN(moert_scheduler_options options,
                             optionsFrom<moert_scheduler_options>(given));
        MOE_ASSIGN_OR_RETURN(SchedulerOptions wanted, fromC(options));
        auto made = std::make_unique<moert_scheduler>();
        made->engine = handle;
        made->modelFacts = factsOf(engine, options.chat_template);
        if (!made->modelFacts.chatTemplate.empty()) {
          MOE_ASSIGN_OR_RETURN(made->chat,
                               ChatFormat::fromTemplate(
                                   made->modelFacts.chatTemplate, tokenizer));
        }
        made->inbox = std::make_shared<Inbox>();
        MOE_ASSIGN_OR_RETURN(made->scheduler,
                             Scheduler::create(engine, tokenizer, wanted));
        handle->scheduler = made->scheduler.get();
        *scheduler = made.release();
        return Status::ok();
      });
}

void moert_scheduler_destroy(moert_scheduler *scheduler) {
  if (scheduler)
    scheduler->engine->scheduler = nullptr;
  delete scheduler;
}

moert_status moert_scheduler_wait(moert_scheduler *scheduler, int32_t timeout,
                                  moert_generation **generation) {
  return guarded(threadFailure(), [&]() -> Status {
    if (!scheduler || !generation)
      return nullPointer();
    Inbox &inbox = *scheduler->inbox;
    std::unique_lock lock(inbox.mutex);
    waitFor(inbox.any, lock, timeout,
            [&] { return inbox.wake || !inbox.ready.empty(); });
    *generation = nullptr;
    if (std::exchange(inbox.wake, false) || inbox.ready.empty())
      return Status::ok();
    inbox.ready.splice(inbox.ready.end(), inbox.ready, inbox.ready.begin());
    *generation = inbox.ready.back()->handle;
    return Status::ok();
  });
}

void moert_scheduler_wake(moert_scheduler *scheduler) {
  if (!scheduler)
    return;
  std::lock_guard lock(scheduler->inbox->mutex);
  scheduler->inbox->wake = true;
  scheduler->inbox->any.notify_all();
}

moert_status moert_scheduler_drain(moert_scheduler *scheduler, int32_t timeout,
                                   int32_t *allEnded) {
  return guarded(threadFailure(), [&]() -> Status {
    if (!scheduler)
      return nullPointer();
    // A limit that nobody lives to see.
    constexpr auto forever = std::chrono::hours(24 * 365 * 10);
    bool ended = scheduler->scheduler->drain(deadlineOf(timeout).value_or(
        std::chrono::steady_clock::now() + forever));
    if (allEnded)
      *allEnded = ended;
    return Status::ok();
  });
}

int32_t moert_scheduler_retry_after(const moert_scheduler *scheduler) {
  return scheduler ? scheduler->scheduler->retryAfterSeconds() : 0;
}

moert_status moert_scheduler_get_stats(moert_scheduler *scheduler,
                                       moert_scheduler_stats *stats) {
  return guarded(threadFailure(), [&]() -> Status {
    if (!scheduler)
      return nullPointer();
    return fill(stats, toC(scheduler->scheduler->stats()));
  });
}
