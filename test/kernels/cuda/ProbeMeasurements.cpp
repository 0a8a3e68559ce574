#include "runtime/device/cuda/PciLink.h"
#include "test/kernels/cuda/Probe.h"
#include "test/kernels/cuda/ProbeKernels.h"

#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace moek::test {

using Clock = std::chrono::steady_clock;

namespace {
constexpr uint64_t kMiB = uint64_t(1) << 20;
/// A wait that takes longer has failed.
constexpr double kMostWait = 20;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void print(const std::string &name, double value, const char *unit,
           const std::string &more = "") {
  fmt::print("{{\"probe\": \"{}\", \"value\": {:.6g}, \"unit\": \"{}\"{}}}\n",
             name, value, unit, more);
  std::fflush(stdout);
}
} // namespace

Status Probe::device() {
  int version = 0;
  MOE_RETURN_IF_ERROR(
      check(api().cuDriverGetVersion(&version), "the driver's version"));
  fmt::print("{{\"probe\": \"device\", \"name\": \"{}\", \"arch\": {}, "
             "\"multiprocessors\": {}, \"memory_bytes\": {}, \"l2_bytes\": {}, "
             "\"clock_mhz\": {:.0f}, \"memory_clock_mhz\": {:.0f}, "
             "\"published_gbps\": {:.1f}, \"driver\": {}, \"nvrtc\": \"{}\", "
             "\"link\": \"{}\"}}\n",
             gpu_.name, gpu_.arch, gpu_.multiprocessors, gpu_.memoryBytes,
             gpu_.l2Bytes, gpu_.clockHz / 1e6, gpu_.memoryClockHz / 1e6,
             gpu_.peakBytesPerSecond() / 1e9, version, nvrtc_,
             pciLink(gpu_.pciAddress));
  return Status::ok();
}

Status Probe::launches() {
  MOE_RETURN_IF_ERROR(launch("nothing", 1, 32));
  MOE_RETURN_IF_ERROR(synchronize());
  int nodes = isSmall_ ? 20 : 1000;
  MOE_ASSIGN_OR_RETURN(auto graph, captured([&]() -> Status {
                         for (int i = 0; i < nodes; ++i)
                           MOE_RETURN_IF_ERROR(launch("nothing", 1, 32));
                         return Status::ok();
                       }));
  MOE_ASSIGN_OR_RETURN(double seconds, least(5, [&] {
                         return check(
                             api().cuGraphLaunch(graph.get(), stream_.get()),
                             "launching a graph");
                       }));
  print("graph_node", seconds / nodes * 1e6, "us");
  double best = kMostWait;
  for (int i = 0; i < (isSmall_ ? 3 : 200); ++i) {
    auto begin = Clock::now();
    MOE_RETURN_IF_ERROR(launch("nothing", 1, 32));
    MOE_RETURN_IF_ERROR(synchronize());
    best = std::min(best, secondsSince(begin));
  }
  print("launch_and_wait", best * 1e6, "us");
  return Status::ok();
}

template <class Body>
Status Probe::answer(const Mapped &flags, uint32_t rounds, const Body &body) {
  // The flags are in different cache lines.
  std::atomic_ref<uint32_t> from(*flags.host<uint32_t>()),
      to(*flags.host<uint32_t>(64));
  for (uint32_t round = 1; round <= rounds; ++round) {
    auto begin = Clock::now();
    for (int spins = 0; to.load(std::memory_order_acquire) != round; ++spins)
      if (spins % 4096 == 4095 && secondsSince(begin) > kMostWait)
        return Status(
            StatusCode::Io,
            fmt::format("no flag in round {} after {} s", round, kMostWait));
    body(round);
    from.store(round, std::memory_order_release);
  }
  return synchronize();
}

Status Probe::flagsByKernel() {
  MOE_ASSIGN_OR_RETURN(Mapped flags, mapped(4096));
  uint32_t rounds = isSmall_ ? 20 : 20000;
  auto begin = Clock::now();
  MOE_RETURN_IF_ERROR(
      launch("flagRounds", 1, 1, flags.address, flags.address + 256, rounds));
  MOE_RETURN_IF_ERROR(answer(flags, rounds, [](uint32_t) {}));
  print("flag_round_trip_kernel", secondsSince(begin) / rounds * 1e6, "us",
        fmt::format(", \"rounds\": {}", rounds));
  return Status::ok();
}

Status Probe::flagsByNodes() {
  if (!api().cuStreamWaitValue32_v2 || !api().cuStreamWriteValue32_v2)
    return Status(StatusCode::Unsupported,
                  "the driver has no nodes that wait for flags");
  MOE_ASSIGN_OR_RETURN(Mapped flags, mapped(4096));
  uint32_t rounds = isSmall_ ? 10 : 500;
  auto enqueue = [&]() -> Status {
    for (uint32_t round = 1; round <= rounds; ++round) {
      MOE_RETURN_IF_ERROR(check(
          api().cuStreamWriteValue32_v2(stream_.get(), flags.address + 256,
                                        round, cu::kWriteInOrder),
          "a node that writes a flag"));
      MOE_RETURN_IF_ERROR(
          check(api().cuStreamWaitValue32_v2(stream_.get(), flags.address,
                                             round, cu::kWaitAtLeast),
                "a node that waits for a flag"));
    }
    return Status::ok();
  };
  MOE_ASSIGN_OR_RETURN(auto graph, captured(enqueue));
  auto begin = Clock::now();
  MOE_RETURN_IF_ERROR(
      check(api().cuGraphLaunch(graph.get(), stream_.get()), "a graph"));
  MOE_RETURN_IF_ERROR(answer(flags, rounds, [](uint32_t) {}));
  print("flag_round_trip_nodes", secondsSince(begin) / rounds * 1e6, "us",
        fmt::format(", \"rounds\": {}", rounds));
  return Status::ok();
}

/// The same function as in ProbeKernels.h.
uint32_t patternOf(uint32_t round, uint32_t i) {
  uint32_t x = round * 0x9e3779b9u + i * 0x85ebca6bu;
  return x ^ x >> 15;
}

Status Probe::patterns() {
  constexpr auto kWords = uint32_t(kPatternWords);
  MOE_ASSIGN_OR_RETURN(Mapped flags, mapped(4096));
  MOE_ASSIGN_OR_RETURN(Mapped in, mapped(4096));
  MOE_ASSIGN_OR_RETURN(Mapped out, mapped(4096));
  MOE_ASSIGN_OR_RETURN(Mapped wrong, mapped(4096));
  uint32_t rounds = isSmall_ ? 50 : 1'000'000;
  auto write = [&](uint32_t round) {
    for (uint32_t i = 0; i < kWords; ++i)
      in.host<uint32_t>()[i] = patternOf(round, i);
  };
  uint64_t wrongHere = 0;
  auto begin = Clock::now();
  write(1);
  MOE_RETURN_IF_ERROR(launch("patternRounds", 1, kWords, flags.address,
                             flags.address + 256, in.address, out.address,
                             wrong.address, rounds));
  MOE_RETURN_IF_ERROR(answer(flags, rounds, [&](uint32_t round) {
    for (uint32_t i = 0; i < kWords; ++i)
      wrongHere += out.host<uint32_t>()[i] != ~patternOf(round, i);
    write(round + 1);
  }));
  uint64_t wrongThere = 0;
  for (uint32_t i = 0; i < kWords; ++i)
    wrongThere += wrong.host<uint32_t>()[i];
  print("pattern_rounds", rounds, "rounds",
        fmt::format(", \"seconds\": {:.3f}, \"wrong_on_device\": {}, "
                    "\"wrong_on_host\": {}",
                    secondsSince(begin), wrongThere, wrongHere));
  if (wrongHere + wrongThere > 0)
    return Status(
        StatusCode::Internal,
        "patterns arrived wrong: flags do not order what they should");
  return Status::ok();
}

StatusOr<double> Probe::readSeconds(cu::DevicePointer from, uint64_t bytes) {
  MOE_ASSIGN_OR_RETURN(Mapped sink, mapped(4096));
  double best = kMostWait;
  for (unsigned each : isSmall_ ? std::vector<unsigned>{1}
                                : std::vector<unsigned>{2, 4, 8, 16}) {
    unsigned blocks = isSmall_ ? 4 : each * unsigned(gpu_.multiprocessors);
    MOE_ASSIGN_OR_RETURN(double seconds, least(isSmall_ ? 1 : 5, [&] {
                           return launch("readAll", blocks, 256, from,
                                         sink.address, bytes / 16);
                         }));
    best = std::min(best, seconds);
  }
  return best;
}

Status Probe::reads() {
  MOE_ASSIGN_OR_RETURN(uint64_t free, context_->freeBytes());
  uint64_t bytes = isSmall_ ? kMiB / 4 : std::min(free / 2, 4096 * kMiB);
  MOE_ASSIGN_OR_RETURN(auto memory, context_->allocate(bytes));
  MOE_ASSIGN_OR_RETURN(auto other, context_->allocate(bytes / 2));
  unsigned blocks = isSmall_ ? 4 : 8 * unsigned(gpu_.multiprocessors);
  MOE_RETURN_IF_ERROR(launch("fill", blocks, 256, memory.get(), bytes / 16));
  MOE_RETURN_IF_ERROR(launch("fill", blocks, 256, other.get(), bytes / 32));
  MOE_ASSIGN_OR_RETURN(
      double copied, least(isSmall_ ? 1 : 5, [&] {
        return check(api().cuMemcpyDtoDAsync_v2(memory.get(), other.get(),
                                                bytes / 2, stream_.get()),
                     "a copy");
      }));
  print("copy_on_device", double(bytes) / copied / 1e9, "GB/s",
        ", \"counts\": \"read and written\"");
  MOE_ASSIGN_OR_RETURN(double read, readSeconds(memory.get(), bytes));
  print("read_by_kernel", double(bytes) / read / 1e9, "GB/s");
  return Status::ok();
}

Status Probe::link() {
  uint64_t bytes = isSmall_ ? kMiB / 4 : 512 * kMiB;
  MOE_ASSIGN_OR_RETURN(Mapped host, mapped(bytes));
  MOE_ASSIGN_OR_RETURN(auto device, context_->allocate(bytes));
  int runs = isSmall_ ? 1 : 5;
  MOE_ASSIGN_OR_RETURN(
      double to, least(runs, [&] {
        return check(api().cuMemcpyHtoDAsync_v2(device.get(), host.memory.get(),
                                                bytes, stream_.get()),
                     "a copy to the device");
      }));
  print("copy_to_device", double(bytes) / to / 1e9, "GB/s");
  MOE_ASSIGN_OR_RETURN(
      double from, least(runs, [&] {
        return check(api().cuMemcpyDtoHAsync_v2(host.memory.get(), device.get(),
                                                bytes, stream_.get()),
                     "a copy to the host");
      }));
  print("copy_to_host", double(bytes) / from / 1e9, "GB/s");
  MOE_ASSIGN_OR_RETURN(double read, readSeconds(host.address, bytes));
  print("zero_copy_by_kernel", double(bytes) / read / 1e9, "GB/s");
  double best = kMostWait;
  for (int i = 0; i < (isSmall_ ? 3 : 200); ++i) {
    auto begin = Clock::now();
    MOE_RETURN_IF_ERROR(
        check(api().cuMemcpyHtoDAsync_v2(device.get(), host.memory.get(), 4096,
                                         stream_.get()),
              "a small copy"));
    MOE_RETURN_IF_ERROR(synchronize());
    best = std::min(best, secondsSince(begin));
  }
  print("small_copy_and_wait", best * 1e6, "us");
  return Status::ok();
}

Status Probe::registered(const char *name, int threads, bool isHuge) {
  uint64_t each = isSmall_ ? kMiB : 2048 * kMiB / uint64_t(threads);
  uint64_t bytes = each * uint64_t(threads);
  void *space = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (space == MAP_FAILED)
    return Status(StatusCode::DoesNotFit, "no memory to pin");
  (void)::madvise(space, bytes, isHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  std::memset(space, 1, bytes);
  std::atomic<int> result = cu::kSuccess;
  auto begin = Clock::now();
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      StatusOr<CudaContext::Use> use = context_->use();
      auto *own = static_cast<std::byte *>(space) + uint64_t(t) * each;
      if (auto r = api().cuMemHostRegister_v2(own, each, cu::kHostPortable))
        result = int(r);
    });
  for (std::thread &thread : team)
    thread.join();
  double seconds = secondsSince(begin);
  for (int t = 0; t < threads; ++t)
    (void)api().cuMemHostUnregister(static_cast<std::byte *>(space) +
                                    uint64_t(t) * each);
  ::munmap(space, bytes);
  MOE_RETURN_IF_ERROR(check(cu::Result(result.load()), "pinning memory"));
  print(name, seconds / (double(bytes) / 1e9), "s/GB");
  return Status::ok();
}

Status Probe::pinning() {
  MOE_RETURN_IF_ERROR(registered("pin_small_pages", 1, false));
  MOE_RETURN_IF_ERROR(registered("pin_huge_pages", 1, true));
  return registered("pin_huge_pages_4_threads", 4, true);
}

} // namespace moek::test
