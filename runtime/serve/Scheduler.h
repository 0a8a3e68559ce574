//===- Scheduler.h - Generates many texts at the same time ------*- C++ -*-===//
//
// A scheduler has a thread that alone uses an engine. Each step of it carries
// one token of every text that is being generated, and a bounded part of the
// prompts of others, so that nobody waits longer for a token than such a step.
//
// * Which generations run: as many as Engine::batch(). Clients take turns by
//   the tokens that they use (FairShare.h); of one client's generations, the
//   one of the highest priority comes first, then the one that came first.
// * A generation begins when the cache has room for its prompt and the tokens
//   that it may generate, beside what those that run may still need. Without a
//   limit of its own it is assumed to generate SchedulerOptions::assumedTokens.
//   If it generates more and no page is left, the generation of the lowest
//   priority that began last is put back into the queue. It goes on later as if
//   nothing had happened: what was sent is not sent again.
// * Sequences that ended are kept as long as nobody needs their pages. A prompt
//   that continues one is evaluated from there on, whatever the layers keep.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_SCHEDULER_H
#define MOE_RUNTIME_SERVE_SCHEDULER_H

#include "runtime/serve/Generation.h"
#include "runtime/serve/SchedulerStats.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace moert {

class Engine;
class Tokenizer;

/// Names a generation; never used twice, never 0.
using GenerationId = uint64_t;

/// When tokens that are drafted by prompt lookup (PromptLookup.h) are verified.
/// Texts are the same with and without, up to near ties of logits.
enum class Speculation {
  Off,
  /// Speculates while the batch phase has rows to spare, and measured step
  /// times and acceptance promise more tokens per second.
  WherePays,
  /// Speculates whenever there are rows and a draft.
  Always,
};

struct SchedulerOptions {
  /// Most generations that run together; 0: Engine::batch(), the upper limit.
  int32_t sequences = 0;
  /// Most generations that wait, of all clients and of one client.
  int32_t queue = 128, queuePerClient = 64;
  /// Most generations of one client that run together; 0: no limit.
  int32_t runningPerClient = 0;
  /// Most prompt tokens in a step beside generating sequences; 0: as many as
  /// keep the step below `stepFactor` times a step without them, by measured
  /// times. Engine::ubatch() is the upper limit.
  int32_t prefillChunk = 0;
  double stepFactor = 4; ///< At least 1.
  /// Has no effect on models whose layers keep a state, which would have to be
  /// computed again after each token that was drafted wrongly.
  Speculation speculation = Speculation::WherePays;
  /// Tokens for which a generation without a limit of its own reserves room.
  int32_t assumedTokens = 512;
  /// Steps of work on masks of grammars between two steps of the engine, of all
  /// generations together (Matcher::prepare). A generation whose mask is not
  /// ready sits out steps.
  int32_t maskSteps = 300'000;
  /// Most finished sequences to keep. If the model has states, the memory for
  /// them sets a lower limit.
  int32_t keptSequences = 64;

  /// Folder for finished sequences, which are then taken up again after a
  /// restart (PrefixStore.h); "": none. Files are written on another thread
  /// while generations run, large ones while nothing runs, and the rest by
  /// drain().
  std::string storeFolder = {};
  /// Limit for all files in the folder.
  uint64_t storeBytes = uint64_t(16) << 30;
  /// Least length of a sequence that is stored in a file.
  int32_t storeLeastTokens = 256;
  /// Bytes of a file that is read between two steps, in some ten milliseconds.
  /// A larger one is read on another thread, while others go on.
  uint64_t storeReadAtOnce = uint64_t(16) << 20;
  /// How long nothing must have run before a large file is written, and the
  /// least time between small ones.
  double storeIdleSeconds = 2;
};

/// All functions may be called from any thread, sinks included, except where it
/// says so.
class Scheduler {
public:
  /// Starts the thread. Until the scheduler is destroyed, nothing else may use
  /// the engine but through withEngine(); engine and tokenizer must outlive it.
  /// Fails with Usage for an option outside its range and with Io if the
  /// store's folder cannot be used.
  static StatusOr<std::unique_ptr<Scheduler>>
  create(Engine &engine, const Tokenizer &tokenizer,
         SchedulerOptions options = {});

  /// Cancels all generations, waits until each has got its last event, and
  /// joins the thread. Not from a sink.
  ~Scheduler();

  /// Queues a generation. `sink` receives its events, possibly before this
  /// returns, and is destroyed after the last one. Fails, and then never calls
  /// `sink`, with
  /// * Usage if the request can never run: its prompt is empty, does not fit
  ///   the context or has a token outside the vocabulary, or a parameter is out
  ///   of range,
  /// * DoesNotFit if the queue is full: try again after retryAfterSeconds(),
  /// * Cancelled if the scheduler is draining.
  StatusOr<GenerationId> submit(GenerationRequest request, GenerationSink sink);

  /// Ends a generation within one step, with a last event whose reply has
  /// StopReason::Cancelled. Does nothing if it has ended or never was.
  void cancel(GenerationId id);

  /// Calls `use` on this thread when no step runs, so that it may use the
  /// engine with sequences of its own; the next step waits for it. Finished
  /// sequences are given up before until `pages` pages of the cache are free,
  /// if that many can be. Generations that lack pages which others' sequences
  /// hold wait, or fail with DoesNotFit if they run. Returns what `use`
  /// returned. Not from a sink, nor from `use`.
  Status withEngine(int32_t pages, const std::function<Status()> &use);

  /// Refuses new generations from now on, waits until all have ended, and
  /// cancels those that have not at `deadline`. Then waits until finished texts
  /// are in the store, for at least 20 seconds if that takes so long. Returns
  /// whether all ended by themselves. Not from a sink.
  bool drain(std::chrono::steady_clock::time_point deadline);

  /// When a refused request has a chance: from 1 to 300 seconds, by the queue
  /// and how long generations have taken.
  int32_t retryAfterSeconds() const;

  /// Returns the state after the last step.
  SchedulerStats stats() const;

private:
  class Impl;
  explicit Scheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_SCHEDULER_H
