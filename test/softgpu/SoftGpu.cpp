//===- SoftGpu.cpp - Loads modules and launches grids ---------------------===//

#include "test/softgpu/SoftGpu.h"

#include "test/softgpu/Recording.h"
#include "test/softgpu/Warp.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <random>

namespace softgpu {

std::string_view findingName(FindingKind kind) {
  static constexpr std::string_view kNames[] = {"out of bounds",
                                                "use after free",
                                                "misaligned access",
                                                "uninitialised read",
                                                "write to read-only",
                                                "shared memory race",
                                                "race between blocks",
                                                "write conflict",
                                                "divergent barrier",
                                                "divergent warp",
                                                "cp.async not waited for",
                                                "mbarrier",
                                                "operands of wgmma",
                                                "barrier deadlock",
                                                "launch limit",
                                                "trap",
                                                "endless kernel"};
  return kNames[size_t(kind)];
}

std::string_view opClassName(OpClass opClass) {
  static constexpr std::string_view kNames[] = {
      "integer",      "float",        "half",          "double",
      "convert",      "special",      "move",          "predicate",
      "control",      "global load",  "global store",  "shared load",
      "shared store", "local access", "constant load", "async copy",
      "atomic",       "shuffle",      "vote",          "barrier",
      "fence",        "dot product",  "matrix load",   "mma",
      "warpgroup",    "bulk copy",    "mbarrier",      "cluster barrier",
      "other"};
  return kNames[size_t(opClass)];
}

uint64_t Counters::total() const {
  return std::accumulate(instructions.begin(), instructions.end(), uint64_t(0));
}

uint64_t sharedLimit(int arch) {
  switch (arch) {
  case 75:
    return 64 << 10;
  case 80:
  case 87:
    return 163 << 10;
  case 86:
  case 88:
  case 89:
  case 120:
  case 121:
    return 99 << 10;
  default:
    return 227 << 10;
  }
}

Counters &Counters::operator+=(const Counters &other) {
  for (size_t i = 0; i < instructions.size(); ++i)
    instructions[i] += other.instructions[i];
  auto addTraffic = [](Traffic &to, const Traffic &from) {
    to.requests += from.requests;
    to.sectors += from.sectors;
    to.usefulBytes += from.usefulBytes;
  };
  addTraffic(globalLoads, other.globalLoads);
  addTraffic(globalStores, other.globalStores);
  addTraffic(globalAtomics, other.globalAtomics);
  auto addBanks = [](Banks &to, const Banks &from) {
    to.requests += from.requests;
    to.wavefronts += from.wavefronts;
    to.idealWavefronts += from.idealWavefronts;
  };
  addBanks(sharedLoads, other.sharedLoads);
  addBanks(sharedStores, other.sharedStores);
  addBanks(matrixLoads, other.matrixLoads);
  macs += other.macs;
  usefulMacs += other.usefulMacs;
  blocks += other.blocks;
  return *this;
}

SoftGpu::SoftGpu(SoftGpuOptions options, uint64_t addressOffset)
    : options_(options), memory_(addressOffset) {}

moert::StatusOr<std::unique_ptr<Program>> SoftGpu::load(std::string_view ptx) {
  MOE_ASSIGN_OR_RETURN(PtxModule module, parsePtx(ptx));
  bool runs = module.archSuffix == 'a' ? module.arch == options_.arch
              : module.archSuffix == 'f'
                  ? module.arch / 10 == options_.arch / 10 &&
                        module.arch <= options_.arch
                  : module.arch <= options_.arch;
  if (!runs)
    return moert::Status(
        moert::StatusCode::WrongMachine,
        fmt::format("PTX for sm_{}{} does not run on sm_{}", module.arch,
                    module.archSuffix ? std::string(1, module.archSuffix) : "",
                    options_.arch));
  std::vector<ModuleVariable> placed;
  for (const PtxVariable &variable : module.variables) {
    if (variable.space == Space::Shared)
      continue;
    if (variable.isExtern)
      return moert::Status(moert::StatusCode::InvalidFile,
                           fmt::format("PTX line {}: '{}' is not defined",
                                       variable.line, variable.name));
    uint64_t address = memory_.allocate(variable.bytes, variable.name);
    memory_.fill(address, 0, variable.bytes);
    memory_.copyIn(address, variable.data.data(), variable.data.size());
    placed.push_back({variable.name, variable.space, address, variable.bytes});
  }
  size_t at = 0;
  for (const PtxVariable &variable : module.variables) {
    if (variable.space == Space::Shared)
      continue;
    const ModuleVariable &self = placed[at++];
    for (auto &[offset, name] : variable.addresses) {
      auto target = std::find_if(
          placed.begin(), placed.end(),
          [&](const ModuleVariable &other) { return other.name == name; });
      if (target == placed.end())
        return moert::Status(
            moert::StatusCode::InvalidFile,
            fmt::format("PTX line {}: no variable '{}'", variable.line, name));
      uint64_t value = 0;
      memory_.copyOut(&value, self.address + offset, 8);
      value += target->address;
      memory_.copyIn(self.address + offset, &value, 8);
    }
    if (variable.space == Space::Const)
      memory_.find(self.address)->isReadOnly = true;
  }
  MOE_ASSIGN_OR_RETURN(Program program, decodePtx(module, std::move(placed)));
  return std::make_unique<Program>(std::move(program));
}

/// The most that every GPU with clusters has, without the attribute for
/// clusters of non-portable size.
static constexpr uint32_t kMostClusterBlocks = 8;

std::optional<Finding> SoftGpu::checkLimits(const Kernel &kernel,
                                            const LaunchShape &shape) const {
  auto refuse = [&](std::string what) {
    Finding finding;
    finding.kind = FindingKind::LaunchLimit;
    finding.text = fmt::format("{}: kernel '{}' {}", findingName(finding.kind),
                               kernel.name, what);
    return finding;
  };
  auto list = [](const uint32_t *v) {
    return fmt::format("({}, {}, {})", v[0], v[1], v[2]);
  };
  const uint32_t *grid = shape.grid, *threads = shape.threads;
  if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7FFFFFFF ||
      grid[1] > 65535 || grid[2] > 65535)
    return refuse(fmt::format(
        "with a grid of {}; at most (2147483647, 65535, 65535)", list(grid)));
  uint64_t total = uint64_t(threads[0]) * threads[1] * threads[2];
  uint64_t most = 1024;
  if (kernel.maxThreads[0])
    most = uint64_t(kernel.maxThreads[0]) * kernel.maxThreads[1] *
           kernel.maxThreads[2];
  if (!total || threads[0] > 1024 || threads[1] > 1024 || threads[2] > 64 ||
      total > most)
    return refuse(fmt::format("with {} threads per block; at most {}",
                              list(threads), most));
  if (kernel.requiredThreads[0] &&
      !std::equal(threads, threads + 3, kernel.requiredThreads))
    return refuse(fmt::format("with {} threads per block; it requires {}",
                              list(threads), list(kernel.requiredThreads)));
  for (int i = 0; i < 3; ++i)
    if (!kernel.cluster[i] || grid[i] % kernel.cluster[i])
      return refuse(
          fmt::format("with a grid of {}, no multiple of its clusters "
                      "of {}",
                      list(grid), list(kernel.cluster)));
  if (kernel.clusterBlocks() > kMostClusterBlocks)
    return refuse(fmt::format("has clusters of {} blocks; at most {}",
                              list(kernel.cluster), kMostClusterBlocks));
  if (kernel.sharedBytes > 48 << 10)
    return refuse(
        fmt::format("has {} bytes of static shared memory; at most 49152",
                    kernel.sharedBytes));
  uint64_t shared = kernel.sharedBytes + shape.dynamicSharedBytes;
  if (shared > sharedLimit(options_.arch))
    return refuse(
        fmt::format("with {} bytes of shared memory per block; sm_{} has {}",
                    shared, options_.arch, sharedLimit(options_.arch)));
  return std::nullopt;
}

/// %nwarpid is the maximum of a multiprocessor, not the number of a block.
static uint32_t warpsOfMultiprocessor(int arch) {
  if (arch < 80)
    return 32;
  bool isServer = arch == 80 || arch == 90 || arch == 100 || arch == 103;
  return isServer ? 64 : 48;
}

/// The value of a special register that differs between lanes.
static uint32_t laneSpecial(const Block &block, const Warp &warp,
                            Special special, int lane) {
  uint32_t bit = 1u << lane, thread[3];
  switch (special) {
  case Special::LaneId:
    return uint32_t(lane);
  case Special::LanemaskEq:
    return bit;
  case Special::LanemaskLt:
    return bit - 1;
  case Special::LanemaskLe:
    return bit | (bit - 1);
  case Special::LanemaskGt:
    return ~(bit | (bit - 1));
  case Special::LanemaskGe:
    return ~(bit - 1);
  default: // The rest are the elements of %tid.
    block.thread(warp, lane, thread);
    return thread[int(special)];
  }
}

/// The value of a special register that all lanes share; none if they do not.
static std::optional<uint32_t>
sharedSpecial(const Block &block, const Warp &warp, Special special) {
  const Launch &launch = *warp.launch;
  const LaunchShape &shape = launch.shape;
  int index = int(special);
  if (index <= int(Special::TidZ))
    return std::nullopt;
  if (index <= int(Special::NtidZ))
    return shape.threads[index - int(Special::NtidX)];
  if (index <= int(Special::CtaidZ))
    return block.id[index - int(Special::CtaidX)];
  if (index <= int(Special::NctaidZ))
    return shape.grid[index - int(Special::NctaidX)];
  switch (special) {
  case Special::WarpId:
    return uint32_t(warp.index);
  case Special::NwarpId:
    return warpsOfMultiprocessor(launch.options->arch);
  case Special::SmId:
    return uint32_t(block.linear % uint64_t(launch.options->multiprocessors));
  case Special::NsmId:
    return uint32_t(launch.options->multiprocessors);
  case Special::DynamicShared:
    return shape.dynamicSharedBytes;
  case Special::TotalShared:
    return uint32_t(block.shared.size());
  case Special::LaneId:
  case Special::LanemaskEq:
  case Special::LanemaskLt:
  case Special::LanemaskLe:
  case Special::LanemaskGt:
  case Special::LanemaskGe:
    return std::nullopt;
  default:
    return 0;
  }
}

static void setSpecial(Warp &warp, Special special, Place place) {
  const Block &block = *warp.block;
  if (special == Special::GridId) {
    std::fill_n(warp.lanes<uint64_t>(place), kLanes,
                warp.launch->memory->races.launch());
  } else if (std::optional<uint32_t> value =
                 sharedSpecial(block, warp, special)) {
    std::fill_n(warp.lanes<uint32_t>(place), kLanes, *value);
  } else {
    for (int lane = 0; lane < kLanes; ++lane)
      warp.lanes<uint32_t>(place)[lane] =
          laneSpecial(block, warp, special, lane);
  }
  warp.written[place / kUnit] = ~0u;
}

static constexpr uint64_t kAlign = 64;
static std::byte *aligned(std::vector<std::byte> &bytes) {
  auto address = reinterpret_cast<uintptr_t>(bytes.data());
  return bytes.data() + (-address & (kAlign - 1));
}

static void startBlock(Block &block, Launch &launch, Cluster &cluster,
                       uint32_t rank, uint64_t linear) {
  const Kernel &kernel = *launch.kernel;
  const LaunchShape &shape = launch.shape;
  block.launch = &launch;
  block.cluster = &cluster;
  block.rank = rank;
  block.hasEnded = false;
  block.mbarriers.clear();
  block.copies = 0;
  block.linear = linear;
  block.id[0] = uint32_t(linear % shape.grid[0]);
  block.id[1] = uint32_t(linear / shape.grid[0] % shape.grid[1]);
  block.id[2] = uint32_t(linear / shape.grid[0] / shape.grid[1]);
  block.threads = shape.threads[0] * shape.threads[1] * shape.threads[2];
  block.barriers = {};
  block.sectors = {};
  block.acquired = {};
  block.products = {};
  block.shared.reset(kernel.sharedBytes + shape.dynamicSharedBytes,
                     launch.isChecked);
  launch.memory->races.beginBlock(block.clock, uint32_t(linear));
  size_t warps = (block.threads + kLanes - 1) / kLanes;
  size_t units = kernel.frameBytes / kUnit + 1;
  block.frames.resize(warps * kernel.frameBytes + kAlign);
  block.written.assign(warps * units, 0);
  block.warps.resize(warps);
  for (size_t i = 0; i < warps; ++i) {
    Warp &warp = block.warps[i];
    std::vector<uint8_t> local = std::move(warp.local),
                         written = std::move(warp.localWritten);
    warp = {};
    warp.bases[0] = aligned(block.frames) + i * kernel.frameBytes;
    warp.bases[1] = launch.constantBase;
    warp.written = block.written.data() + i * units;
    warp.index = int(i);
    warp.block = &block;
    warp.launch = &launch;
    warp.clocks[i] = 1;
    uint32_t threads =
        std::min<uint32_t>(kLanes, block.threads - uint32_t(i) * kLanes);
    warp.live = threads == kLanes ? ~0u : (1u << threads) - 1;
    warp.active = warp.live;
    warp.local = std::move(local);
    warp.localWritten = std::move(written);
    warp.local.resize(kernel.localBytes * kLanes);
    warp.localWritten.assign(launch.isChecked ? kernel.localBytes * kLanes : 0,
                             0);
    for (auto [special, place] : kernel.specials)
      setSpecial(warp, special, place);
  }
}

static constexpr uint64_t kWarpQuantum = 20'000;
static constexpr int kPasses = 64;

/// Runs a block for one turn, or until its warps wait for other blocks; returns
/// whether any warp executed anything.
static bool runBlock(Block &block, const std::vector<uint32_t> &order) {
  Launch &launch = *block.launch;
  bool any = false;
  for (int pass = 0; pass < kPasses; ++pass) {
    bool moved = false, done = true;
    for (uint32_t index : order) {
      Warp &warp = block.warps[index];
      if (warp.isDone())
        continue;
      uint64_t before = warp.executed;
      moved |= runWarp(warp, kWarpQuantum);
      launch.instructions += warp.executed - before;
      done &= warp.isDone();
      moved |= releaseBarriers(block);
      moved |= releaseWaits(block);
    }
    any |= moved;
    block.hasEnded = done;
    if (done || !moved)
      break;
    if (launch.instructions > launch.options->instructionLimit) {
      for (Warp &warp : block.warps)
        if (!warp.isDone())
          report(warp, launch.kernel->ops[warp.pc], std::countr_zero(warp.live),
                 FindingKind::Endless,
                 fmt::format("still runs after {} instructions",
                             launch.instructions));
    }
  }
  if (block.hasEnded && launch.isChecked)
    checkBlockEnd(block);
  return any;
}

/// Reports a warp of the cluster, none of which can go on.
static void reportDeadlock(Cluster &cluster) {
  for (auto &block : cluster.blocks)
    for (Warp &warp : block->warps) {
      if (warp.isDone())
        continue;
      warp.pc = warp.groups[0].pc - 1;
      const Op &op = block->launch->kernel->ops[warp.pc];
      report(warp, op, std::countr_zero(warp.live),
             FindingKind::BarrierDeadlock,
             describeWait(warp, op, warp.groups[0].barrier));
    }
}

/// Instructions of a cluster's turn. Its blocks wait for each other often, so
/// that each gets many turns in one of the cluster.
static constexpr uint64_t kClusterTurn = 4'000'000;

/// Runs a cluster for one turn; returns true when all its blocks have ended.
static bool runCluster(Cluster &cluster, const std::vector<uint32_t> &blocks,
                       const std::vector<uint32_t> &warps) {
  const Launch &launch = *cluster.blocks.front()->launch;
  const uint64_t start = launch.instructions;
  for (;;) {
    bool moved = false, done = true;
    for (uint32_t rank : blocks) {
      Block &block = *cluster.blocks[rank];
      if (!block.hasEnded)
        moved |= runBlock(block, warps);
      done &= block.hasEnded;
    }
    if (done)
      return true;
    if (!moved)
      reportDeadlock(cluster);
    if (blocks.size() == 1 || launch.instructions - start > kClusterTurn)
      return false;
  }
}

template <class T>
static std::vector<T> orderOf(T count, const SoftGpuOptions &options) {
  std::vector<T> order(count);
  std::iota(order.begin(), order.end(), T(0));
  if (options.schedule == Schedule::Reversed)
    std::reverse(order.begin(), order.end());
  if (options.schedule == Schedule::Shuffled) {
    std::mt19937_64 random(options.seed);
    for (size_t i = order.size(); i > 1;
         --i) // std::shuffle differs between libraries.
      std::swap(order[i - 1], order[random() % i]);
  }
  return order;
}

static void runGrid(Launch &launch, const std::vector<uint64_t> &chosen,
                    uint64_t budget) {
  const uint32_t *grid = launch.shape.grid;
  uint64_t blocks =
      chosen.empty() ? uint64_t(grid[0]) * grid[1] * grid[2] : chosen.size();
  // A grid may be too large to list its blocks in any order but these two.
  bool isShuffled = launch.options->schedule == Schedule::Shuffled;
  std::vector<uint64_t> order;
  if (isShuffled)
    order = orderOf<uint64_t>(blocks, *launch.options);
  auto placeAt = [&](uint64_t i) {
    return isShuffled                                       ? order[i]
           : launch.options->schedule == Schedule::Reversed ? blocks - 1 - i
                                                            : i;
  };
  auto blockAt = [&](uint64_t i) {
    return chosen.empty() ? placeAt(i) : chosen[placeAt(i)];
  };
  uint32_t threads = launch.shape.threads[0] * launch.shape.threads[1] *
                     launch.shape.threads[2];
  std::vector<uint32_t> warps =
      orderOf<uint32_t>((threads + kLanes - 1) / kLanes, *launch.options);
  const uint32_t *each = launch.kernel->cluster;
  uint32_t size = launch.kernel->clusterBlocks();
  std::vector<uint32_t> ranks = orderOf<uint32_t>(size, *launch.options);
  std::vector<bool> hasBegun(size > 1 ? uint64_t(grid[0]) * grid[1] * grid[2]
                                      : 0);
  // Begins the cluster of a block, unless another of its blocks has begun it.
  std::vector<std::unique_ptr<Cluster>> running, idle;
  auto begin = [&](uint64_t linear) {
    uint64_t corner[3] = {linear % grid[0], linear / grid[0] % grid[1],
                          linear / grid[0] / grid[1]};
    for (int i = 0; i < 3; ++i)
      corner[i] = corner[i] / each[i] * each[i];
    uint64_t first = corner[0] + grid[0] * (corner[1] + grid[1] * corner[2]);
    if (size > 1) {
      if (hasBegun[first])
        return;
      hasBegun[first] = true;
    }
    if (idle.empty()) {
      idle.push_back(std::make_unique<Cluster>());
      for (uint32_t rank = 0; rank < size; ++rank)
        idle.back()->blocks.push_back(std::make_unique<Block>());
    }
    running.push_back(std::move(idle.back()));
    idle.pop_back();
    Cluster &cluster = *running.back();
    cluster.phases[0] = cluster.phases[1] = {};
    for (uint32_t rank = 0; rank < size; ++rank) {
      uint64_t x = rank % each[0], y = rank / each[0] % each[1],
               z = rank / each[0] / each[1];
      Block &block = *cluster.blocks[rank];
      startBlock(block, launch, cluster, rank,
                 first + x + grid[0] * (y + grid[1] * z));
      if (launch.recorder)
        launch.recorder->beginBlock(block);
      ++launch.counters.blocks;
    }
  };
  uint64_t next = 0;
  while (next < blocks || !running.empty()) {
    if (launch.instructions > budget)
      blocks = next;
    // Blocks that end in their first turn do not need other blocks to run
    // concurrently.
    if (next < blocks &&
        (running.empty() || (running.size() + 1) * size <=
                                size_t(launch.options->multiprocessors)))
      begin(blockAt(next++));
    for (size_t i = running.size(); i-- > 0;)
      if (runCluster(*running[i], ranks, warps)) {
        for (const auto &block : running[i]->blocks) {
          if (launch.touched)
            for (const Range &range : block->sectors.settled())
              launch.touched->blockSectors += (range.end - range.begin) / 32;
          if (launch.recorder)
            launch.recorder->endBlock(*block);
        }
        idle.push_back(std::move(running[i]));
        running.erase(running.begin() + long(i));
      }
  }
}

LaunchResult SoftGpu::launch(const Kernel &kernel, const LaunchShape &shape,
                             std::span<const void *const> arguments,
                             AccessedRanges *touched, Recording *recording) {
  LaunchResult result;
  if ((result.finding = checkLimits(kernel, shape)))
    return result;
  Launch launch;
  launch.kernel = &kernel;
  launch.shape = shape;
  launch.options = &options_;
  launch.memory = &memory_;
  launch.isChecked = options_.isChecked;
  launch.isCounting = options_.isCounting;
  launch.touched = touched;
  launch.executed.resize(kernel.ops.size());
  launch.params.resize(kernel.paramBytes);
  if (arguments.size() != kernel.params.size()) {
    result.finding = Finding{
        FindingKind::LaunchLimit,
        fmt::format("kernel '{}' with {} arguments; it takes {}", kernel.name,
                    arguments.size(), kernel.params.size())};
    return result;
  }
  for (size_t i = 0; i < arguments.size(); ++i)
    std::memcpy(launch.params.data() + kernel.params[i].offset, arguments[i],
                kernel.params[i].bytes);
  launch.constants.resize(kernel.constants.size() + kAlign);
  launch.constantBase = aligned(launch.constants);
  std::copy(kernel.constants.begin(), kernel.constants.end(),
            launch.constantBase);
  std::optional<Recorder> recorder;
  if (recording) {
    launch.isCounting = true;
    launch.recorder = &recorder.emplace(*recording, kernel);
    recording->grid = uint64_t(shape.grid[0]) * shape.grid[1] * shape.grid[2];
  }
  memory_.races.beginLaunch();
  if (launch.isChecked)
    launch.host.begin(memory_, kernel);
  try {
    runGrid(launch, recording ? recording->blocks : std::vector<uint64_t>(),
            recording ? recording->budget : ~uint64_t(0));
  } catch (const Finding &finding) {
    result.finding = finding;
  }
  launch.host.end();
  for (size_t i = 0; i < kernel.ops.size(); ++i)
    launch.counters.instructions[size_t(kernel.ops[i].opClass)] +=
        launch.executed[i];
  result.counters = launch.counters;
  return result;
}

} // namespace softgpu
