//===- SchedulerStats.h - What a scheduler has done -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_SCHEDULERSTATS_H
#define MOE_RUNTIME_SERVE_SCHEDULERSTATS_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// One generation that waits or runs.
struct GenerationRow {
  enum class State {
    Waiting, ///< The generation is in the queue.
    Prompt,  ///< The prompt is being evaluated.
    Decoding,
  };
  uint64_t id = 0;
  std::string client;
  State state = State::Waiting;
  int32_t priority = 0;
  int32_t promptTokens = 0;
  int32_t cachedTokens = 0; ///< Prompt tokens that were found in the cache.
  int32_t position = 0;     ///< Number of tokens in the cache.
  int32_t generatedTokens = 0;
  double seconds = 0; ///< Time since the request was submitted.
};

/// Seconds of a device in the steps that were measured.
struct DeviceSeconds {
  std::string name; ///< Name as in the plan: "cpu0".
  double run = 0;
  double wait = 0; ///< Time spent at barriers and waiting for other devices.
};

/// Counts of durations up to certain lengths.
class SecondsHistogram {
public:
  /// Upper ends of the buckets, in seconds, ascending. Longer durations are in
  /// one bucket more.
  static constexpr std::array<double, 14> kEnds = {
      0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30};

  void add(double seconds) {
    size_t bucket = 0;
    while (bucket < kEnds.size() && seconds > kEnds[bucket])
      ++bucket;
    ++counts_[bucket];
    sum_ += seconds;
  }
  /// Durations in each bucket alone: kEnds.size() + 1 numbers.
  const std::array<uint64_t, kEnds.size() + 1> &counts() const {
    return counts_;
  }
  /// Sum of all durations in seconds.
  double sum() const { return sum_; }

private:
  std::array<uint64_t, kEnds.size() + 1> counts_ = {};
  double sum_ = 0;
};

/// A moment's state, and sums since the scheduler was created.
struct SchedulerStats {
  // The present state.
  int32_t waiting = 0, running = 0;
  int32_t mostWaiting = 0, mostRunning = 0; ///< Limits of these numbers.
  bool isDraining = false;
  /// Pages of the cache, and those that no running generation holds: finished
  /// texts in them are given up when they are needed.
  int32_t pages = 0, freePages = 0;
  /// Pages that nothing holds, and the most that finished sequences hold: as
  /// many as they do hold where no two of them begin alike. When nothing runs,
  /// all other pages are lost.
  int32_t emptyPages = 0, keptPages = 0;
  /// Finished sequences that are kept for requests that continue them.
  int32_t keptSequences = 0;
  int32_t storedFiles = 0;  ///< Files of this plan in the store.
  int32_t prefillChunk = 0; ///< The most prompt tokens of the next step.
  /// Running generations first, then by arrival.
  std::vector<GenerationRow> rows;

  // Sums. A prompt's tokens are counted when its evaluation begins.
  uint64_t submitted = 0, refused = 0;
  /// Numbers by how generations ended.
  uint64_t finished = 0, cancelled = 0, failed = 0;
  uint64_t steps = 0;
  /// Generations that lost their pages and went back to the queue.
  uint64_t preempted = 0;
  uint64_t promptTokens = 0;
  /// Part of promptTokens that was found in the cache.
  uint64_t cachedTokens = 0;
  /// Part of cachedTokens that was read from the store.
  uint64_t restoredTokens = 0;
  /// Prompt and generated tokens that steps have evaluated.
  uint64_t evaluatedTokens = 0;
  uint64_t generatedTokens = 0;
  uint64_t draftedTokens = 0, acceptedTokens = 0; ///< Tokens of speculation.
  SecondsHistogram stepSeconds;
  /// Duration of a few measured steps (DeviceTimes.h), and its parts by device.
  double measuredSeconds = 0;
  std::vector<DeviceSeconds> devices;
  SecondsHistogram queueSeconds; ///< Times from submission to admission.
  /// Times from submission to the first token.
  SecondsHistogram firstTokenSeconds;
  /// Error of the last step that failed as a whole; "" if none did.
  std::string lastFailure;
  /// Error of the last file that the store could not write or read; "" if none.
  std::string storeFailure;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_SCHEDULERSTATS_H
