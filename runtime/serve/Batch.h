//===- Batch.h - The generations that run together --------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_BATCH_H
#define MOE_RUNTIME_SERVE_BATCH_H

#include "runtime/engine/Engine.h"
#include "runtime/serve/ClientGroups.h"
#include "runtime/serve/DeviceTimes.h"
#include "runtime/serve/DraftPolicy.h"
#include "runtime/serve/FairShare.h"
#include "runtime/serve/KeptSequences.h"
#include "runtime/serve/LiveGeneration.h"
#include "runtime/serve/PrefillChunk.h"
#include "runtime/serve/PrefixStore.h"
#include "runtime/serve/Scheduler.h"

#include <chrono>
#include <memory>
#include <vector>

namespace moert {

using LiveGenerations = std::vector<std::unique_ptr<LiveGeneration>>;

/// Decides which generations run and what each step carries (Scheduler.h), and
/// runs it. Not for several threads.
class Batch {
public:
  /// `engine` must outlive this; options have been checked.
  Batch(Engine &engine, const SchedulerOptions &options);

  /// Must be called before the first generation.
  void setStore(std::unique_ptr<PrefixStore> store) {
    store_ = std::move(store);
  }

  /// Most tokens in a text: those of the context, or of the whole cache if that
  /// is smaller.
  static int32_t roomOf(const Engine &engine);

  const LiveGenerations &running() const { return running_; }
  int32_t mostRunning() const { return mostRunning_; }

  /// Moves generations that may begin from `waiting` to the running ones.
  void admit(LiveGenerations &waiting);
  /// Runs one step of the running ones. Some may be put back to `waiting`.
  void step(LiveGenerations &waiting);
  /// Ends running ones that were cancelled.
  void endCancelled();
  /// Returns those that have ended since the last call.
  LiveGenerations takeEnded();

  /// Whether a finished sequence should be written to the store, or is being
  /// written.
  bool hasToStore() const {
    return store_ &&
           (store_->isWriting() || kept_.hasToStore(options_.storeLeastTokens));
  }
  /// Writes one, which takes as long as it is large.
  void storeOne();
  /// Begins to write one, on another thread, if it is small enough to be copied
  /// between two steps and none was begun since SchedulerOptions::
  /// storeIdleSeconds.
  void storeBehind();

  /// Whether a file has been read that a generation waits for.
  bool hasReadFile() const { return store_ && store_->hasRead(); }

  /// Gives finished sequences up until `pages` pages of the cache are free, or
  /// none is left.
  void dropKept(int32_t pages) {
    while (engine_.freePages() < pages && kept_.dropLeast()) {
    }
  }

  /// Adds to sums, and sets what describes this moment, but for the queue.
  void report(SchedulerStats &stats) const;

private:
  /// The work of a step for one generation.
  struct Part {
    LiveGeneration *generation;
    bool isPrompt;
    int32_t most;     ///< Most tokens to evaluate.
    int32_t position; ///< Position before the step.
    /// Tokens of the draft that are evaluated in addition.
    int32_t drafted = 0;
    /// Value of GenerationStats::acceptedTokens before the step.
    int32_t accepted = 0;
  };

  size_t chooseWaiting(const LiveGenerations &waiting,
                       const std::vector<std::string_view> &clients);
  std::vector<std::string_view>
  clientsThatMayBegin(const LiveGenerations &waiting) const;
  /// Gives a generation a sequence, if the cache has room for all of it.
  bool begin(LiveGeneration &generation);
  /// Whether a file has enough more of the generation's text than the cache,
  /// and has to be read first.
  bool awaitsFile(const LiveGeneration &generation);
  void noteStored(const Status &status);
  /// Replaces a sequence that has the beginning of `text` by one from the
  /// store, if that has enough more of it.
  void takeStored(std::span<const int32_t> text, const std::string &group,
                  Sequence &sequence);
  /// Pages that running generations may still need.
  int32_t pagesNeeded() const;
  size_t mostKept() const;

  /// Chooses the parts of a step. None: all wait for their masks.
  std::vector<Part> plan();
  /// Adds drafts to parts that generate, as many as the batch phase has rows
  /// for.
  void addDrafts(std::vector<Part> &parts);
  /// Whether another prompt computes pages that this one will take.
  bool waitsForPrefix(size_t index) const;
  void findPrefixes();
  /// If less than the last kPromptEnd tokens of a prompt are left, gives up
  /// what lacks, so that the prefill phase evaluates them together, whatever
  /// the cache holds. Not for layers with states, which do not return to an
  /// earlier position for free.
  void leavePromptEnd(LiveGeneration &generation);
  /// Frees pages for the step, as long as there is something to give up.
  void makeRoom(LiveGenerations &waiting);
  bool freeSome(LiveGenerations &waiting);
  void putBack(size_t index, LiveGenerations &waiting);
  void run(std::vector<Part> parts, LiveGenerations &waiting);
  /// Ends a generation whose prompt was broken off.
  void interrupt(LiveGeneration &generation);
  void account(const std::vector<Part> &parts, double seconds);
  /// Removes those that have ended from the running ones.
  void retire();

  Engine &engine_;
  SchedulerOptions options_;
  int32_t mostRunning_;
  KeptSequences kept_;
  std::unique_ptr<PrefixStore> store_;
  /// Time at which storeBehind() began.
  std::chrono::steady_clock::time_point stored_;
  ClientGroups groups_;
  FairShare admission_, prefill_;
  PrefillChunk chunk_;
  DraftPolicy drafts_;
  DeviceTimes deviceTimes_;
  LiveGenerations running_; ///< Sorted by the time at which they began.
  LiveGenerations ended_;
  SchedulerStats sums_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_BATCH_H
