//===- PlanClock.cpp - Simulated time of a plan's part on a GPU -----------===//
//
// plan_clock PLAN.fb [--gpu NAME] [--phase NAME] [--position N] [--tokens N]
//            [--json]
//
// Launches what the plan has for its first GPU in a step of a phase (decode),
// of the most tokens that the phase takes, from a position (4096) on, on the
// software GPU, whose clock predicts each launch's time on a GPU of its table
// (4090). Tokens of a prompt choose experts at random. Weights are zeros that
// nobody loads: --blank-weights and a header in place of the model suffice.
// Launches that differ only in addresses are timed once. What a launch brings
// into L2 for later ones (CudaPrefetch.h) moves while DRAM is idle in it, or
// makes it longer; while the GPU waits for the CPU, it costs nothing. Prints
// each kernel, then the time of the graph, and the parts of it in which DRAM
// does not deliver, and in which L2 and tensor cores do not work either.
//
//===----------------------------------------------------------------------===//

#include "kernels/Arguments.h"
#include "kernels/KvCache.h"
#include "kernels/cuda/Fuse.h"
#include "runtime/device/StepEvents.h"
#include "runtime/device/cuda/CudaLaunches.h"
#include "runtime/device/cuda/CudaNeed.h"
#include "runtime/device/cuda/CudaPrefetch.h"
#include "runtime/device/cuda/CudaStep.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/prove/Prove.h"
#include "test/softgpu/cuda/SoftCuda.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <type_traits>

using namespace moert;

namespace {

struct Flags {
  std::string plan, gpu = "4090", phase = "decode";
  int32_t position = 4096;
  int32_t tokens = 0; ///< 0: the most tokens that the phase takes.
  bool isJson = false;
};

/// Launches of one kernel with one grid.
struct Row {
  std::string kernel;
  uint64_t blocks = 0;
  int count = 0;
  /// Bytes that earlier launches have prefetched to L2.
  uint64_t warmBytes = 0;
  softgpu::LaunchTime time;
};

struct Times {
  std::vector<Row> rows;
  /// Seconds of all launches, without the gaps between them.
  double launches = 0;
  double memory = 0; ///< Seconds of launches in which DRAM delivers.
  /// Seconds in which DRAM or L2 delivers, or tensor cores multiply.
  double busy = 0;
  /// Seconds of all if none brought weights for another one.
  double alone = 0;
  uint64_t prefetched = 0;     ///< Bytes that launches prefetch for later ones.
  int kernels = 0, others = 0; ///< Numbers of nodes in the graph.
  double nodes() const {
    return (kernels + others) * softgpu::kClockConstants.nodeMicroseconds *
           1e-6;
  }
  double seconds() const { return launches + nodes(); }
};

void addImages(const fb::Plan &plan) {
  for (const fb::Module *module : *plan.modules())
    for (const fb::Image *image : *module->images())
      softcuda::addCubin(
          {reinterpret_cast<const char *>(image->cubin()->data()),
           image->cubin()->size()},
          std::string(text(image->ptx())),
          {image->registers(), image->spilled_bytes(), image->shared_bytes()});
}

/// Memory for everything that instructions of a GPU name: the driver's pages
/// are zero and use nothing until they are touched.
class Memory {
public:
  Memory(const CudaContext &context) : context_(context) {}
  StatusOr<cu::DevicePointer> get(uint64_t bytes) {
    MOE_ASSIGN_OR_RETURN(CudaOwned<cu::DevicePointer> owned,
                         context_.allocate(std::max<uint64_t>(bytes, 1)));
    all_.push_back(std::move(owned));
    return all_.back().get();
  }
  StatusOr<CudaMemory> forPlan(const Plan &plan, uint32_t device,
                               const CudaWeights &weights) {
    const fb::Plan &table = plan.table();
    const CudaNeed need = cudaNeed(table, device);
    CudaMemory memory;
    for (const fb::Device *each : *table.devices()) {
      memory.arenas.emplace_back();
      MOE_ASSIGN_OR_RETURN(memory.arenas.back(), get(each->arena_bytes()));
    }
    MOE_ASSIGN_OR_RETURN(memory.kv, get(need.kv));
    MOE_ASSIGN_OR_RETURN(memory.workspace, get(need.workspace));
    MOE_ASSIGN_OR_RETURN(memory.weights, get(need.weights));
    for (const fb::Constant *constant : *table.constants()) {
      memory.constants.emplace_back();
      MOE_ASSIGN_OR_RETURN(memory.constants.back(),
                           get(count(constant->values()) * sizeof(float)));
    }
    auto &mapped = table.devices()->Get(device)->shares_memory()
                       ? memory.inPlace
                       : memory.streamed;
    for (const CudaWeights::Mapped &piece : weights.mapped()) {
      MOE_ASSIGN_OR_RETURN(cu::DevicePointer at, get(piece.end - piece.begin));
      for (uint32_t weight : piece.weights)
        mapped[weight] =
            at + table.weights()->Get(weight)->offset() - piece.begin;
    }
    // Nothing is copied; slots hold zeros.
    for (uint32_t weight : weights.throughRing())
      memory.streamed[weight] = memory.weights;
    return memory;
  }

private:
  const CudaContext &context_;
  std::vector<CudaOwned<cu::DevicePointer>> all_;
};

/// Writes a step of `tokens` from `position` on to each queue's block.
Status writeSteps(const Plan &plan, const CudaDriver &driver, Memory &memory,
                  int32_t tokens, int32_t position, CudaMemory &to) {
  StepRoom room = StepRoom::of(plan.table());
  std::vector<int32_t> pages(size_t((position + tokens) / moek::kKvPage + 1));
  std::iota(pages.begin(), pages.end(), 0);
  moek::SequenceRows rows{0, tokens, position, pages.data()};
  moek::Step step{tokens, position, &rows, 1};
  std::vector<std::byte> block(cudaStepBytes(room));
  for (uint32_t queue = 0; queue < count(plan.table().queues()); ++queue) {
    MOE_ASSIGN_OR_RETURN(to.steps[queue], memory.get(block.size()));
    writeCudaStep(step, room, block.data(), to.steps[queue]);
    MOE_RETURN_IF_ERROR(
        driver.check(driver.api().cuMemcpyHtoDAsync_v2(
                         to.steps[queue], block.data(), block.size(), nullptr),
                     "sending a step"));
    MOE_RETURN_IF_ERROR(driver.check(driver.api().cuStreamSynchronize(nullptr),
                                     "sending a step"));
  }
  return Status::ok();
}

/// The buffer to which a router writes the experts that tokens choose.
struct Choice {
  cu::DevicePointer ids = 0;
  int32_t experts = 1, topK = 1;
};
Choice choiceOf(const Plan &plan, const ProvenOp &op, const CudaMemory &memory,
                const CudaWeights &weights) {
  CudaOperands operands(plan.table(), op, memory, weights, 0);
  Choice choice;
  moek::withArguments(op.spec().op, operands, [&](const auto &args) {
    if constexpr (std::is_same_v<std::decay_t<decltype(args)>,
                                 moek::RouterArgs>)
      choice = {cu::DevicePointer(uintptr_t(args.ids)), args.experts,
                args.topK};
  });
  return choice;
}

/// Lets `tokens` choose distinct experts at random: logits are all zero here,
/// of which a router would take the first ones.
Status choose(const CudaDriver &driver, const Choice &choice, int32_t tokens) {
  std::mt19937 random(1);
  std::vector<int32_t> all(size_t(choice.experts)), ids;
  std::iota(all.begin(), all.end(), 0);
  for (int32_t t = 0; t < tokens; ++t)
    for (int32_t k = 0; k < choice.topK; ++k) {
      std::swap(all[size_t(k)],
                all[size_t(k) + random() % (all.size() - size_t(k))]);
      ids.push_back(all[size_t(k)]);
    }
  MOE_RETURN_IF_ERROR(
      driver.check(driver.api().cuMemcpyHtoDAsync_v2(choice.ids, ids.data(),
                                                     ids.size() * 4, nullptr),
                   "choosing experts"));
  return driver.check(driver.api().cuStreamSynchronize(nullptr),
                      "choosing experts");
}

/// The weights that launches have prefetched to L2 so far.
class Brought {
public:
  explicit Brought(const softgpu::GpuModel &model)
      : rate_(model.gigabytes * model.dramEfficiency * 1e9) {}

  /// Returns what `launch` reads of it.
  std::vector<softgpu::Range> readBy(const CudaLaunch &launch) const {
    std::vector<softgpu::Range> read;
    for (const moek::cuda::Prefetch &weight : launch.weights)
      for (const softgpu::Range &range : ranges_) {
        auto begin = uint64_t(uintptr_t(weight.begin));
        softgpu::Range part{
            std::max(begin, range.begin),
            std::min<uint64_t>(begin + weight.bytes, range.end)};
        if (part.begin < part.end)
          read.push_back(part);
      }
    return read;
  }

  /// Adds what `launch` brings, and returns the seconds in which DRAM delivers
  /// it.
  double add(const CudaLaunch &launch, Times &times) {
    uint64_t bytes = 0;
    if (launch.canPrefetch)
      for (const moek::cuda::Prefetch &p :
           moek::cuda::prefetchesOf(launch.args)) {
        auto begin = uint64_t(uintptr_t(p.begin));
        ranges_.push_back({begin, begin + p.bytes});
        bytes += p.bytes;
      }
    times.prefetched += bytes;
    return double(bytes) / rate_;
  }

private:
  double rate_; ///< DRAM bandwidth in bytes per second.
  std::vector<softgpu::Range> ranges_;
};

/// What tells launches apart: the kernel, the grid, and the bytes of weights
/// that are in L2 before.
using Key = std::tuple<std::string, std::array<uint32_t, 3>, uint64_t>;

std::string nameOf(const Plan &plan, const fb::Phase &phase,
                   const CudaLaunch &launch) {
  const fb::Instruction &instruction =
      *phase.instructions()->Get(launch.instruction);
  std::string kernel =
      launch.function && count(instruction.launches())
          ? std::string(
                text(plan.table()
                         .modules()
                         ->Get(instruction.launches()->Get(0)->module_())
                         ->entry()))
          : "copy";
  // An instruction of several launches names its first; the function tells
  // them apart.
  return kernel + fmt::format(" {:x}", uintptr_t(launch.function) & 0xfff0);
}

/// Launches `one` while L2 has the addresses `warm`, and returns its time.
StatusOr<softgpu::LaunchTime> timeLaunch(const CudaDriver &driver,
                                         const CudaLaunch &one,
                                         const std::string &kernel,
                                         std::vector<softgpu::Range> warm) {
  softcuda::options().warm = std::move(warm);
  void *argument = const_cast<std::byte *>(one.args.data());
  MOE_RETURN_IF_ERROR(driver.check(
      driver.api().cuLaunchKernel(one.function, one.grid[0], one.grid[1],
                                  one.grid[2], one.threads, 1, 1,
                                  one.sharedBytes, nullptr, &argument, nullptr),
      kernel));
  MOE_RETURN_IF_ERROR(
      driver.check(driver.api().cuStreamSynchronize(nullptr), kernel));
  auto found = softcuda::takeTimes();
  if (found.size() != 1)
    return Status(StatusCode::Io, kernel + ": no time");
  return found[0];
}

Status timeQueue(const CudaDriver &driver, const Plan &plan,
                 const fb::Phase &phase, const CudaPart &part, int32_t tokens,
                 const std::map<uint32_t, Choice> &choices,
                 const softgpu::GpuModel &model, Times &times) {
  Brought brought(model);
  const std::vector<bool> isBeforeWait = lastBeforeWaits(part);
  struct One {
    Key cold, warm; ///< Equal if nothing was prefetched for the launch.
    std::vector<softgpu::Range> ranges;
    /// Seconds in which DRAM delivers what the launch prefetches.
    double bringing = 0;
  };
  std::vector<One> all;
  std::map<Key, std::vector<size_t>> with;
  for (const CudaLaunch &launch : part.launches) {
    One one;
    one.ranges = brought.readBy(launch);
    uint64_t bytes = 0;
    for (const softgpu::Range &range : one.ranges)
      bytes += range.end - range.begin;
    one.cold = {nameOf(plan, phase, launch), launch.grid, 0};
    one.warm = one.cold;
    std::get<uint64_t>(one.warm) = bytes;
    one.bringing = brought.add(launch, times);
    with[one.cold].push_back(all.size());
    if (bytes > 0)
      with[one.warm].push_back(all.size());
    all.push_back(std::move(one));
  }
  // One launch of each kind is timed: of those with weights in L2 the second
  // one, because the software GPU's L2 also has what was read for the first. If
  // there is no second one, the weights count as read from DRAM.
  std::map<Key, softgpu::LaunchTime> known;
  for (size_t i = 0; i < all.size(); ++i) {
    const CudaLaunch &launch = part.launches[i];
    const One &one = all[i];
    for (const Key &key : {one.cold, one.warm}) {
      const std::vector<size_t> &same = with[key];
      const bool isWarm = std::get<uint64_t>(key) > 0;
      if (isWarm && same.size() == 1)
        known.try_emplace(key, known.at(one.cold));
      if (known.contains(key) || i != same[isWarm])
        continue;
      MOE_ASSIGN_OR_RETURN(
          known[key],
          timeLaunch(driver, launch, std::get<std::string>(key),
                     isWarm ? one.ranges : std::vector<softgpu::Range>()));
    }
    if (auto choice = choices.find(launch.instruction); choice != choices.end())
      MOE_RETURN_IF_ERROR(choose(driver, choice->second, tokens));
  }
  std::map<Key, size_t> rows;
  for (size_t i = 0; i < all.size(); ++i) {
    const One &one = all[i];
    const softgpu::LaunchTime &time = known.at(one.warm);
    auto [place, isNew] = rows.try_emplace(one.warm, times.rows.size());
    if (isNew)
      times.rows.push_back({std::get<std::string>(one.warm), time.blocks, 0,
                            std::get<uint64_t>(one.warm), time});
    ++times.rows[place->second].count;
    ++times.kernels;
    // What the launch brings moves while DRAM is idle, or makes it longer. If
    // the GPU waits for another device, it moves meanwhile.
    const double bringing = isBeforeWait[i] ? 0 : one.bringing;
    const double memory = time.seconds * time.dram + bringing;
    times.launches += std::max(time.seconds, memory);
    times.memory += memory;
    times.busy +=
        std::max(memory, time.seconds * std::max(time.l2, time.tensor));
    times.alone += known.at(one.cold).seconds;
  }
  for (const CudaSegment &segment : part.segments) {
    const CudaLaunch &first = part.launches[segment.first];
    const CudaLaunch &last = part.launches[segment.first + segment.count - 1];
    bool awaits = segment.waits.size() == 1 && first.canAwait;
    times.others +=
        awaits || segment.waits.empty() ? 0 : int(segment.waits.size()) + 1;
    times.others += segment.signal >= 0 && !last.canSignal;
  }
  return Status::ok();
}

StatusOr<Times> timesOf(const Flags &flags) {
  MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(flags.plan));
  MOE_ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::open(plan, {}));
  const fb::Plan &table = plan.table();
  uint32_t device = 0;
  while (device < count(table.devices()) &&
         table.devices()->Get(device)->kind() != fb::DeviceKind::Cuda)
    ++device;
  if (device == count(table.devices()))
    return Status(StatusCode::Usage, flags.plan + " has no GPU");
  const softgpu::GpuModel &model = *softgpu::findGpuModel(flags.gpu);
  addImages(table);
  softcuda::Options options;
  options.clock = flags.gpu;
  options.gpus[0].memoryBytes = uint64_t(4) << 40;
  options.gpus[0].multiprocessors = model.multiprocessors;
  options.gpus[0].gpu = {.arch = model.arch,
                         .isChecked = false,
                         .multiprocessors = model.multiprocessors};
  softcuda::reset(options);
  MOE_ASSIGN_OR_RETURN(CudaDriver driver, CudaDriver::load(MOE_SOFTCUDA));
  MOE_ASSIGN_OR_RETURN(CudaGpu gpu, driver.describe(0));
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<CudaContext> context,
                       CudaContext::enter(driver, gpu.handle));
  MOE_ASSIGN_OR_RETURN(CudaModules modules,
                       CudaModules::load(driver, *context, gpu, plan, device));
  MOE_ASSIGN_OR_RETURN(std::shared_ptr<const CudaLinks> links,
                       CudaLinks::create(plan));
  CudaWeights weights(table, device);
  Memory all(*context);
  MOE_ASSIGN_OR_RETURN(CudaMemory memory, all.forPlan(plan, device, weights));
  Times times;
  for (const fb::Phase *phase : *table.phases()) {
    if (text(phase->name()) != flags.phase)
      continue;
    const int32_t tokens = flags.tokens ? flags.tokens : phase->max_tokens();
    MOE_RETURN_IF_ERROR(
        writeSteps(plan, driver, all, tokens, flags.position, memory));
    MOE_ASSIGN_OR_RETURN(ProvenPhase proven, provePhase(plan, *phase, files));
    StepEvents events(phase->events());
    MOE_ASSIGN_OR_RETURN(CudaPhase queues,
                         bindCudaPhase(driver, plan, proven, device, memory,
                                       weights, modules, *links, &events, 0));
    for (auto &[queue, part] : queues)
      prefetchWeights(part, gpu);
    std::map<uint32_t, Choice> choices;
    for (const ProvenOp &op : proven.ops)
      if (op.device() == device && op.spec().op == moek::OpCode::Router)
        choices[op.index()] = choiceOf(plan, op, memory, weights);
    for (const auto &[queue, part] : queues)
      MOE_RETURN_IF_ERROR(
          timeQueue(driver, plan, *phase, part, tokens, choices, model, times));
    return times;
  }
  return Status(StatusCode::Usage,
                fmt::format("{} has no phase {}", flags.plan, flags.phase));
}

void print(const Flags &flags, Times times) {
  std::ranges::sort(times.rows, std::greater(), [](const Row &row) {
    return row.count * row.time.seconds;
  });
  double seconds = times.seconds();
  if (flags.isJson) {
    nlohmann::json json = {
        {"plan", flags.plan},
        {"gpu", flags.gpu},
        {"phase", flags.phase},
        {"position", flags.position},
        {"seconds", seconds},
        {"memory_seconds", times.memory},
        {"busy_seconds", times.busy},
        {"kernels", times.kernels},
        {"other_nodes", times.others},
        {"prefetched_bytes", times.prefetched},
        {"seconds_without_prefetch", times.alone + times.nodes()}};
    for (const Row &row : times.rows)
      json["launches"].push_back({{"kernel", row.kernel},
                                  {"blocks", row.blocks},
                                  {"count", row.count},
                                  {"seconds", row.time.seconds},
                                  {"bound", std::string(row.time.bound())},
                                  {"dram", row.time.dram}});
    fmt::print("{}\n", json.dump());
    return;
  }
  for (const Row &row : times.rows)
    fmt::print("{:5} x {:8.2f} us {:9.1f} us  {:6} blocks {:4.0f} % DRAM  "
               "{:8} {:.90}\n",
               row.count, row.time.seconds * 1e6,
               row.count * row.time.seconds * 1e6, row.blocks,
               100 * row.time.dram, row.time.bound(), row.kernel);
  fmt::print(
      "{} of {} on a {}, position {}: {:.3f} ms; {} launches take {:.3f} "
      "ms, {} other nodes; {:.1f} % of it DRAM does not deliver, {:.1f} % "
      "neither DRAM, L2 nor tensor cores work\n"
      "{:.1f} MB are brought into L2 ahead; without that it takes {:.3f} "
      "ms\n",
      flags.phase, flags.plan, flags.gpu, flags.position, seconds * 1e3,
      times.kernels, times.launches * 1e3, times.others,
      100 * (1 - times.memory / seconds), 100 * (1 - times.busy / seconds),
      double(times.prefetched) * 1e-6, (times.alone + times.nodes()) * 1e3);
}

} // namespace

int main(int argc, char **argv) {
  Flags flags;
  CLI::App app("Predicts the time of a plan's launches on a GPU that this "
               "machine does not have.");
  app.add_option("PLAN.fb", flags.plan, "A plan that moec compile wrote")
      ->required();
  app.add_option("--gpu", flags.gpu, "The GPU")
      ->check(CLI::IsMember(softgpu::gpuNames()))
      ->capture_default_str();
  app.add_option("--phase", flags.phase, "decode, prefill, ...")
      ->capture_default_str();
  app.add_option("--position", flags.position, "Positions in the cache")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--tokens", flags.tokens,
                 "Tokens of the step; 0: the most that the phase takes")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--json", flags.isJson, "Print one JSON object");
  CLI11_PARSE(app, argc, argv);
  if (!softgpu::isSoftGpuSupported()) {
    fmt::print(stderr, "error: this CPU cannot run the software GPU\n");
    return 1;
  }
  StatusOr<Times> times = timesOf(flags);
  for (const std::string &finding : softcuda::findings())
    fmt::print(stderr, "error: {}\n", finding);
  if (!times) {
    fmt::print(stderr, "error: {}\n", times.status().message());
    return 1;
  }
  print(flags, *std::move(times));
  return 0;
}
