//===- Generations.h - Generations and who waits for them -------*- C++ -*-===//

#ifndef MOE_TOOLS_LIBMOERT_GENERATIONS_H
#define MOE_TOOLS_LIBMOERT_GENERATIONS_H

#include "runtime/serve/api/Prepare.h"
#include "tools/libmoert/Handles.h"
#include "tools/libmoert/OwnedEvent.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>

namespace moert::capi {

struct GenerationState;

/// The generations of a scheduler that have events for their callers. Outlives
/// the scheduler as long as one of its generations.
struct Inbox {
  std::mutex mutex; ///< Guards this struct and the members of GenerationState.
  std::condition_variable any;
  /// Generations that have events.
  std::list<std::shared_ptr<GenerationState>> ready;
  bool wake = false; ///< Whether the next wait should end at once.
};

/// The state of one generation that the scheduler's thread and callers share.
struct GenerationState : std::enable_shared_from_this<GenerationState> {
  GenerationState(std::shared_ptr<Inbox> inbox, Scheduler &scheduler,
                  const Tokenizer &tokenizer, ToolUse tools)
      : inbox(std::move(inbox)), scheduler(scheduler), use(std::move(tools)),
        pieces(tokenizer, use, choice) {}

  /// Takes an event, on the scheduler's thread.
  void receive(GenerationEvent event);
  /// Ends the generation when its name is known. The caller holds the inbox's
  /// mutex.
  void cancel();
  void setId(GenerationId id);
  /// Returns the next event, if there is one. The caller holds the inbox's
  /// mutex.
  std::optional<OwnedEvent> take();
  /// Removes all events. The caller holds the inbox's mutex.
  void clear();

  const std::shared_ptr<Inbox> inbox;

  // Used by the scheduler's thread.
  Scheduler &scheduler; ///< May be destroyed after the last event.
  const ToolUse use;
  Choice choice;
  ChoiceStream pieces;

  // Guarded by the inbox's mutex.
  std::condition_variable changed;
  std::deque<OwnedEvent> events;
  moert_generation *handle = nullptr; ///< Null after it was destroyed.
  GenerationId id = 0;                ///< 0 if it is not known yet.
  /// Place in Inbox::ready, where the generation is as long as there are
  /// events.
  std::list<std::shared_ptr<GenerationState>>::iterator place;
  bool isCancelled = false;
  bool hasEnded = false; ///< Whether the scheduler has ended the generation.
};

/// Returns the results of the functions for the last failure of this thread.
Failure &threadFailure();

/// Returns the time at which a wait of so many milliseconds ends; none: never.
std::optional<std::chrono::steady_clock::time_point>
deadlineOf(int32_t milliseconds);

/// Waits until `isOver` or the end of the time.
template <class F>
void waitFor(std::condition_variable &changed,
             std::unique_lock<std::mutex> &lock, int32_t milliseconds,
             F isOver) {
  if (auto deadline = deadlineOf(milliseconds))
    changed.wait_until(lock, *deadline, isOver);
  else
    changed.wait(lock, isOver);
}

} // namespace moert::capi

struct moert_scheduler final : moert::ServedText {
  const moert::ModelFacts &facts() const override { return modelFacts; }
  const moert::Tokenizer &tokenizer() const override {
    return *engine->tokenizer;
  }
  const moert::ChatFormat *chatFormat() const override {
    return chat ? &*chat : nullptr;
  }

  moert_engine *engine = nullptr;
  moert::ModelFacts modelFacts;
  std::optional<moert::ChatFormat> chat;
  std::shared_ptr<moert::capi::Inbox> inbox;
  std::unique_ptr<moert::Scheduler> scheduler;
};

struct moert_generation {
  std::shared_ptr<moert::capi::GenerationState> state;
  void *user = nullptr;
  /// The event that the caller reads now.
  std::optional<moert::capi::OwnedEvent> current;
  bool hasEnded = false; ///< Whether the caller has seen the end.
};

#endif // MOE_TOOLS_LIBMOERT_GENERATIONS_H
