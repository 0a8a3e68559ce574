#include "runtime/device/cpu/Calibrate.h"

#include "runtime/base/HostCpu.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <numeric>
#include <sys/mman.h>

namespace moert {

namespace {
uint64_t defaultReadBytes(int threads) {
  uint64_t least = uint64_t(threads) * (64u << 20);
  uint64_t bytes = std::max(least, 4 * hostCaches().l3Bytes);
  uint64_t memory = hostMemoryBytes(); // 0 where the system does not tell
  return memory == 0 ? least : std::min(bytes, memory / 8);
}
} // namespace

std::string Disturbance::text() const {
  return fmt::format("rates spread by {:.0f} %, and {:.1f} threads had no CPU",
                     100 * spread, queued);
}

Disturbance worse(const Disturbance &a, const Disturbance &b) {
  return {std::max(a.spread, b.spread), std::max(a.queued, b.queued)};
}

StatusOr<Calibrator> Calibrator::create(int threads,
                                        const CalibrationOptions &options) {
  Calibrator calibrator;
  calibrator.options_ = options;
  MOE_ASSIGN_OR_RETURN(calibrator.pool_,
                       WorkerPool::create(threads, eachCore()));
  uint64_t total =
      options.readBytes != 0 ? options.readBytes : defaultReadBytes(threads);
  constexpr uint64_t page = 4096;
  calibrator.share_ =
      std::max(total / uint64_t(threads) / page, uint64_t(1)) * page;
  MOE_ASSIGN_OR_RETURN(
      calibrator.memory_,
      HostMemory::allocate(calibrator.share_ * uint64_t(threads),
                           "the measurement of read bandwidth"));
  return calibrator;
}

template <class Work> Rate Calibrator::rateOf(const Work &work) {
  using Clock = std::chrono::steady_clock;
  auto secondsSince = [](Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
  };
  std::vector<double> done(size_t(pool_->team()));
  Rate rate;
  double spent = 0, all = 0, queuedBefore = pool_->secondsQueued();
  const Clock::time_point begin = Clock::now();
  Clock::time_point start;
  bool goesOn = true;
  int runs = 0;
  auto endRun = [&] {
    const Clock::time_point end = Clock::now();
    const double seconds = secondsSince(start, end);
    const double total = std::accumulate(done.begin(), done.end(), 0.0);
    spent += seconds;
    all += total;
    rate.best = std::max(rate.best, total / std::max(seconds, 1e-9));
    // At least three runs, because in the first one caches and CPU clocks are
    // cold.
    goesOn = ++runs < 3 || secondsSince(begin, end) < options_.seconds;
  };
  // Workers stay awake and pinned between the runs.
  pool_->run([&](int32_t worker) {
    while (goesOn) {
      // Measures from when all workers are awake until the slowest one is done.
      // The last worker to arrive reads the clock: one that was suspended after
      // a barrier would read it too late.
      pool_->barrier().arriveAndWait([&] { start = Clock::now(); });
      done[size_t(worker)] = work(worker);
      pool_->barrier().arriveAndWait(endRun);
    }
  });
  rate.sustained = all / std::max(spent, 1e-9);
  rate.queued = std::max(pool_->secondsQueued() - queuedBefore, 0.0) /
                std::max(secondsSince(begin, Clock::now()), 1e-9);
  return rate;
}

Rate Calibrator::readBytesPerSecond() {
  auto share = [&](int32_t worker) {
    return memory_.data() + uint64_t(worker) * share_;
  };
  // Large pages, if available, remove address translation from the measurement.
  // The memory is written first: untouched pages would all map to one zero
  // page.
  (void)::madvise(memory_.data(), memory_.size(), MADV_HUGEPAGE);
  pool_->run([&](int32_t worker) { std::memset(share(worker), 1, share_); });
  std::vector<uint64_t> checksums(size_t(pool_->team()));
  return rateOf([&](int32_t worker) {
    checksums[size_t(worker)] +=
        moek::readAll(options_.isa, {share(worker), size_t(share_)});
    return double(share_);
  });
}

Rate Calibrator::opsPerSecond(moek::Peak kind) {
  if (moek::runPeakLoop(options_.isa, kind, 1) == 0)
    return {};
  return rateOf([&](int32_t) {
    return moek::runPeakLoop(options_.isa, kind, options_.loopIterations);
  });
}

CpuLimits Calibrator::measure() {
  Disturbance disturbance;
  auto best = [&](const Rate &rate) {
    disturbance = worse(disturbance, rate.disturbance());
    return rate.best;
  };
  CpuLimits limits{pool_->team(), best(readBytesPerSecond()),
                   best(opsPerSecond(moek::Peak::Int8)),
                   best(opsPerSecond(moek::Peak::Float)),
                   best(opsPerSecond(moek::Peak::Bf16))};
  limits.disturbance = disturbance;
  return limits;
}

StatusOr<std::vector<Rate>>
readBandwidthByThreads(int threads, const CalibrationOptions &options,
                       const std::function<void(int)> &progress) {
  std::vector<Rate> rates;
  for (int team = 1; team <= threads; ++team) {
    if (progress)
      progress(team);
    MOE_ASSIGN_OR_RETURN(Calibrator calibrator,
                         Calibrator::create(team, options));
    rates.push_back(calibrator.readBytesPerSecond());
  }
  return rates;
}

} // namespace moert
