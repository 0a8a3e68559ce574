// Chooses the generations that begin, and their pages. BatchStep.cpp has the
// steps.
#include "runtime/serve/Batch.h"

#include <algorithm>
#include <limits>

namespace moert {

/// Tokens that a client may get before it is another one's turn, to begin or to
/// have a prompt evaluated: less than nearly all requests cost.
static constexpr int64_t kQuantum = 64;

/// Tokens that a file must hold beyond what the cache has, to be read.
static constexpr int32_t kLeastRestored = 32;

/// Most bytes of a sequence that are copied between two steps: they take about
/// ten milliseconds.
static constexpr uint64_t kMostCopied = uint64_t(64) << 20;

Batch::Batch(Engine &engine, const SchedulerOptions &options)
    : engine_(engine), options_(options),
      mostRunning_(options.sequences > 0
                       ? std::min(options.sequences, engine.batch())
                       : engine.batch()),
      kept_(engine, size_t(options.keptSequences)), admission_(kQuantum),
      prefill_(kQuantum),
      chunk_(options.prefillChunk, engine.ubatch(), options.stepFactor),
      drafts_(engine.batch()), deviceTimes_(engine) {}

int32_t Batch::roomOf(const Engine &engine) {
  return int32_t(std::min(int64_t(engine.context()),
                          int64_t(engine.pages()) * moek::kKvPage));
}

std::vector<std::string_view>
Batch::clientsThatMayBegin(const LiveGenerations &waiting) const {
  auto runningOf = [&](std::string_view client) {
    return std::ranges::count_if(running_, [&](const auto &generation) {
      return generation->client() == client;
    });
  };
  std::vector<std::string_view> clients;
  for (const auto &generation : waiting) {
    std::string_view client = generation->client();
    if (!generation->waitsForFile &&
        std::ranges::find(clients, client) == clients.end() &&
        (options_.runningPerClient == 0 ||
         runningOf(client) < options_.runningPerClient))
      clients.push_back(client);
  }
  return clients;
}

size_t Batch::chooseWaiting(const LiveGenerations &waiting,
                            const std::vector<std::string_view> &clients) {
  std::string_view client = clients[admission_.next(clients)];
  size_t best = waiting.size();
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i]->client() != client || waiting[i]->waitsForFile)
      continue;
    auto isBefore = [&](const LiveGeneration &a, const LiveGeneration &b) {
      return a.priority() != b.priority() ? a.priority() > b.priority()
                                          : a.id < b.id;
    };
    if (best == waiting.size() || isBefore(*waiting[i], *waiting[best]))
      best = i;
  }
  return best;
}

int32_t Batch::pagesNeeded() const {
  int32_t sum = 0;
  for (const auto &generation : running_)
    sum +=
        pagesOf(generation->expectedTokens()) - pagesOf(generation->position());
  return sum;
}

size_t Batch::mostKept() const {
  const int32_t slots = engine_.stateSlots();
  if (slots == 0)
    return size_t(options_.keptSequences);
  // Half of the remaining slots are for checkpoints.
  const int32_t free = std::max(0, slots - int32_t(running_.size()));
  return std::min(size_t(options_.keptSequences), size_t(free / 2));
}

void Batch::takeStored(std::span<const int32_t> text, const std::string &group,
                       Sequence &sequence) {
  const int32_t gained = store_->find(text, group) - sequence.position();
  if (gained < kLeastRestored ||
      store_->pagesToRestore(text, group) > engine_.freePages())
    return;
  // The pages that the sequence has may be needed to read the file.
  const SequenceOptions options = sequence.options();
  sequence = engine_.sequence(options);
  StatusOr<Sequence> restored = store_->restore(text, group, options);
  if (!restored) {
    sums_.storeFailure = restored.status().message();
    return;
  }
  sequence = *std::move(restored);
  sums_.restoredTokens += uint64_t(sequence.position());
}

void Batch::noteStored(const Status &status) {
  if (!status.isOk())
    sums_.storeFailure = status.message();
}

void Batch::storeOne() {
  noteStored(store_->finish(/*wait=*/true));
  const Sequence *sequence = kept_.nextToStore(
      options_.storeLeastTokens, std::numeric_limits<uint64_t>::max());
  if (sequence)
    noteStored(
        store_->save(*sequence, groups_.nameOf(sequence->options().group)));
}

void Batch::storeBehind() {
  if (!store_)
    return;
  noteStored(store_->finish());
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - stored_;
  if (store_->isWriting() || passed.count() < options_.storeIdleSeconds)
    return;
  if (const Sequence *sequence =
          kept_.nextToStore(options_.storeLeastTokens, kMostCopied)) {
    stored_ = now;
    noteStored(store_->saveBehind(*sequence,
                                  groups_.nameOf(sequence->options().group)));
  }
}

bool Batch::begin(LiveGeneration &generation) {
  generation.expectTokens(options_.assumedTokens);
  const std::string &group = generation.request().group;
  const int32_t needed = pagesOf(generation.expectedTokens());
  const int32_t others = pagesNeeded();
  if (needed + others > engine_.freePages() + kept_.pages())
    return false;
  StatusOr<KeptSequences::Begun> begun =
      generation.needsAllTokens()
          ? KeptSequences::Begun{engine_.sequence({.sharePrefixes = false})}
          : kept_.begin(generation.text(), groups_.numberOf(group));
  if (!begun) {
    generation.fail(begun.status());
    return true;
  }
  Sequence &sequence = begun->sequence;
  while (needed - pagesOf(sequence.position()) + others > engine_.freePages())
    if (!kept_.dropLeast()) {
      // The sequence waits for its turn, which must not count again.
      kept_.put(std::move(sequence), std::max(0, begun->turns - 1));
      return false;
    }
  if (store_ && !generation.needsAllTokens())
    takeStored(generation.text(), group, sequence);
  generation.sequence = std::move(sequence);
  generation.turns = begun->turns;
  leavePromptEnd(generation);
  if (!generation.hasBegun()) {
    sums_.promptTokens += uint64_t(generation.stats().promptTokens);
    sums_.cachedTokens += uint64_t(generation.begin());
    sums_.queueSeconds.add(generation.stats().queueSeconds);
  } else {
    generation.begin();
  }
  admission_.charge(generation.client(), int64_t(generation.rest().size()));
  return true;
}

bool Batch::awaitsFile(const LiveGeneration &generation) {
  if (!store_ || generation.needsAllTokens())
    return false;
  const std::string &group = generation.request().group;
  const int32_t known =
      kept_.shared(generation.text(), groups_.numberOf(group));
  return store_->find(generation.text(), group) - known >= kLeastRestored &&
         !store_->isReady(generation.text(), group, options_.storeReadAtOnce);
}

void Batch::admit(LiveGenerations &waiting) {
  if (store_)
    store_->takeRead();
  for (const auto &generation : waiting)
    generation->waitsForFile = false;
  while (int32_t(running_.size()) < mostRunning_) {
    std::vector<std::string_view> clients = clientsThatMayBegin(waiting);
    if (clients.empty())
      break;
    const size_t index = chooseWaiting(waiting, clients);
    // Reading a large file takes long: other generations go on meanwhile.
    if (awaitsFile(*waiting[index])) {
      waiting[index]->waitsForFile = true;
      continue;
    }
    // What does not fit blocks what came later, which could otherwise keep it
    // from ever running.
    if (!begin(*waiting[index]))
      break;
    auto from = waiting.begin() + int64_t(index);
    (waiting[index]->hasEnded() ? ended_ : running_)
        .push_back(std::move(*from));
    waiting.erase(from);
    kept_.shrinkTo(mostKept());
  }
  if (store_ && waiting.empty())
    store_->dropRead();
}

void Batch::endCancelled() {
  for (const auto &generation : running_)
    if (generation->isCancelled())
      generation->finish(StopReason::Cancelled);
  retire();
}

void Batch::retire() {
  for (auto &generation : running_) {
    if (!generation->hasEnded())
      continue;
    // After a failure it is unknown what the cache holds.
    if (generation->sequence && !generation->hasFailed() &&
        !generation->needsAllTokens())
      kept_.put(*std::move(generation->sequence), generation->turns);
    generation->sequence.reset();
    ended_.push_back(std::move(generation));
  }
  std::erase(running_, nullptr);
  kept_.shrinkTo(mostKept());
}

LiveGenerations Batch::takeEnded() { return std::exchange(ended_, {}); }

void Batch::report(SchedulerStats &stats) const {
  stats = sums_;
  stats.running = int32_t(running_.size());
  stats.mostRunning = mostRunning_;
  stats.measuredSeconds = deviceTimes_.seconds();
  stats.devices = deviceTimes_.devices();
  stats.pages = engine_.pages();
  int32_t held = 0;
  int32_t furthest = 0;
  bool generates = false;
  for (const auto &generation : running_) {
    held += pagesOf(generation->position());
    if (generation->isPrompt())
      furthest = std::max(furthest, generation->position());
    else
      generates = true;
    stats.rows.push_back(generation->row());
  }
  stats.freePages = std::max(0, stats.pages - held);
  stats.emptyPages = engine_.freePages();
  stats.keptPages = kept_.pages();
  stats.keptSequences = int32_t(kept_.size());
  if (store_)
    stats.storedFiles = int32_t(store_->files());
  stats.prefillChunk = chunk_.tokens(generates, furthest);
}

} // namespace moert
