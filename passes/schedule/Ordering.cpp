#include "passes/schedule/Ordering.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace moec;

std::vector<bool> moec::regionsPerWorker(llvm::ArrayRef<Step> steps,
                                         std::vector<bool> shared) {
  llvm::SmallVector<const Step *> small;
  for (const Step &step : steps) {
    if (step.isSmall)
      small.push_back(&step);
    else
      for (RegionUse use : step.uses)
        if (use.writes)
          shared[size_t(use.region)] = true;
  }
  // The results of an instruction are either all shared or all per worker.
  auto sharesResult = [&](const Step *step) {
    if (llvm::none_of(step->uses, [&](RegionUse use) {
          return use.writes && shared[size_t(use.region)];
        }))
      return false;
    for (RegionUse use : step->uses)
      if (use.writes)
        shared[size_t(use.region)] = true;
    return true;
  };
  size_t before;
  do {
    before = small.size();
    llvm::erase_if(small, sharesResult);
  } while (small.size() != before);
  std::vector<bool> perWorker(shared.size());
  for (const Step *step : small)
    for (RegionUse use : step->uses)
      if (use.writes)
        perWorker[size_t(use.region)] = true;
  return perWorker;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// The distance between two levels. GPU instructions that follow a product of
/// their level get the places in between.
static constexpr int64_t kLevel = int64_t(1) << 20;

std::vector<int64_t> moec::placesOf(llvm::ArrayRef<Step> steps, int queues,
                                    const std::vector<bool> &perWorker) {
  /// The first place at which a region may be used again. It is a multiple of
  /// kLevel, or, on a GPU, the place after the previous use. It is the same
  /// place if a worker only has to wait for itself.
  struct Ready {
    int64_t toRead = 0;  ///< After its last write.
    int64_t toWrite = 0; ///< After its last read and write.
  };
  std::vector<Ready> ready(perWorker.size());
  std::vector<int64_t> last(size_t(queues), 0), places;
  places.reserve(steps.size());
  for (const Step &step : steps) {
    int64_t place = 0;
    for (RegionUse use : step.uses) {
      const Ready &region = ready[size_t(use.region)];
      place = std::max(place, use.writes ? region.toWrite : region.toRead);
    }
    if (!step.onGpu || step.isLarge)
      place = int64_t(llvm::alignTo(uint64_t(place), kLevel));
    int64_t &lastHere = last[size_t(step.queue)];
    if (step.runsLast)
      place = std::max(place, lastHere);
    lastHere = std::max(lastHere, place);
    for (RegionUse use : step.uses) {
      Ready &region = ready[size_t(use.region)];
      int64_t next = perWorker[size_t(use.region)] ? place
                     : step.onGpu                  ? place + 1
                                                   : place + kLevel;
      region.toWrite = std::max(region.toWrite, next);
      if (use.writes)
        region.toRead = next;
    }
    places.push_back(place);
  }
  return places;
}

//===----------------------------------------------------------------------===//
// Barriers and waits
//===----------------------------------------------------------------------===//

namespace {

class Orderer {
public:
  Orderer(llvm::ArrayRef<Step> steps, int queues,
          const std::vector<bool> &perWorker,
          llvm::ArrayRef<llvm::SmallVector<int32_t>> sharing)
      : steps_(steps), queues_(size_t(queues)), perWorker_(perWorker),
        sharing_(sharing), clocks_(queues_, Clock(queues_, 0)),
        members_(queues_), uses_(2 * queues_ * perWorker.size(), 0) {
    orderings_.reserve(steps.size());
  }

  std::vector<Ordering> run() {
    for (const Step &step : steps_)
      visit(step);
    return std::move(orderings_);
  }

private:
  /// By queue, the position of the region's last reader, or last writer.
  llvm::MutableArrayRef<int32_t> lastUses(int region, bool writes) {
    return {&uses_[(2 * size_t(region) + writes) * queues_], queues_};
  }

  /// Raises the elements of `clock` to at least those of `other`.
  static void join(Clock &clock, llvm::ArrayRef<int32_t> other) {
    for (auto [value, least] : llvm::zip_equal(clock, other))
      value = std::max(value, least);
  }

  void need(Clock &needed, int region, bool writes) {
    join(needed, lastUses(region, true));
    if (writes)
      join(needed, lastUses(region, false));
  }

  /// Returns, by queue, the last instruction that must have ended before.
  Clock neededBy(const Step &step) {
    Clock needed(queues_, 0);
    for (RegionUse use : step.uses) {
      if (perWorker_[size_t(use.region)])
        continue;
      if (sharing_.empty())
        need(needed, use.region, use.writes);
      else
        for (int32_t other : sharing_[size_t(use.region)])
          need(needed, other, use.writes);
    }
    return needed;
  }

  /// Returns what is known to have ended once the instruction has ended.
  Clock ended(int32_t number) const {
    Clock clock = orderings_[size_t(number)].known;
    clock[size_t(orderings_[size_t(number)].queue)] =
        orderings_[size_t(number)].position;
    return clock;
  }

  void visit(const Step &step) {
    auto queue = size_t(step.queue);
    Ordering ordering;
    ordering.queue = step.queue;
    ordering.position = int32_t(members_[queue].size()) + 1;
    Clock &known = clocks_[queue];
    Clock needed = neededBy(step);
    llvm::SmallVector<int32_t> candidates;
    for (size_t other = 0; other < queues_; ++other)
      if (other != queue && needed[other] > known[other])
        candidates.push_back(members_[other][size_t(needed[other]) - 1]);
    for (int32_t wait : candidates) {
      const Ordering &waited = orderings_[size_t(wait)];
      if (llvm::none_of(candidates, [&](int32_t other) {
            return other != wait &&
                   ended(other)[size_t(waited.queue)] >= waited.position;
          }))
        ordering.waits.push_back(wait);
    }
    llvm::sort(ordering.waits);
    for (int32_t wait : ordering.waits)
      join(known, ended(wait));
    // A wait may have implied the end of earlier instructions of this queue.
    ordering.barrier = needed[queue] > known[queue];
    if (ordering.barrier)
      known[queue] = ordering.position - 1;
    ordering.known = known;
    for (RegionUse use : step.uses)
      if (!perWorker_[size_t(use.region)])
        lastUses(use.region, use.writes)[queue] = ordering.position;
    members_[queue].push_back(int32_t(orderings_.size()));
    orderings_.push_back(std::move(ordering));
  }

  llvm::ArrayRef<Step> steps_;
  size_t queues_;
  const std::vector<bool> &perWorker_;
  llvm::ArrayRef<llvm::SmallVector<int32_t>> sharing_;
  std::vector<Clock> clocks_; ///< By queue: known to have ended.
  std::vector<llvm::SmallVector<int32_t>> members_; ///< By queue.
  std::vector<int32_t> uses_;                       ///< See lastUses().
  std::vector<Ordering> orderings_;
};

} // namespace

std::vector<Ordering>
moec::orderingsOf(llvm::ArrayRef<Step> steps, int queues,
                  const std::vector<bool> &perWorker,
                  llvm::ArrayRef<llvm::SmallVector<int32_t>> sharing) {
  return Orderer(steps, queues, perWorker, sharing).run();
}
