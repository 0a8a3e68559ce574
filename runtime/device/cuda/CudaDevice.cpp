#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/ParallelPieces.h"
#include "runtime/base/Text.h"
#include "runtime/device/cuda/CudaPinnable.h"
#include "runtime/device/cuda/CudaPrefetch.h"
#include "runtime/device/cuda/CudaStep.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Recompile.h"
#include "runtime/prove/Prove.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace moert {

namespace {
/// Estimate of the driver's own memory, without modules, streams and graphs.
constexpr uint64_t kDriverReserveBytes = uint64_t(128) << 20;
/// The most threads that fill a ring. A core copies 6 to 10 GB/s, and a link
/// has up to 55.
constexpr size_t kFillers = 8;
} // namespace

CudaDevice::CudaDevice(const Plan &plan, uint32_t index,
                       const WeightFiles &files,
                       std::shared_ptr<const CudaDriver> driver, int ordinal,
                       std::shared_ptr<const CudaLinks> links,
                       CudaOptions options)
    : plan_(plan), index_(index), files_(files),
      room_(StepRoom::of(plan.table())), weights_(plan.table(), index),
      need_(cudaNeed(plan.table(), index)), driver_(std::move(driver)),
      ordinal_(ordinal), links_(std::move(links)),
      options_(std::move(options)) {}

CudaDevice::~CudaDevice() {
  if (!context_)
    return;
  StatusOr<CudaContext::Use> use = context_->use();
  queues_.clear();
  own_.reset();
}

const fb::Device &CudaDevice::table() const {
  return *plan_.table().devices()->Get(index_);
}

std::string CudaDevice::name() const {
  return fmt::format("{} ({})", text(table().name()), gpu_.name);
}

Status CudaDevice::check(cu::Result result, std::string_view action) const {
  if (result == cu::kSuccess)
    return Status::ok();
  return driver_->check(result, action).at(name());
}

//===----------------------------------------------------------------------===//
// Getting ready
//===----------------------------------------------------------------------===//

Status CudaDevice::checkRoom() const {
  MOE_ASSIGN_OR_RETURN(uint64_t free, context_->freeBytes());
  // Drivers do not count what the page cache would give back.
  if (table().shares_memory())
    free = std::max(free, freeHostBytes());
  if (need_.total() + kDriverReserveBytes <= free)
    return Status::ok();
  auto bytes = [](uint64_t n) { return humanBytes(double(n)); };
  int32_t shorter = std::max(plan_.table().context() / 2, 1);
  return Status(StatusCode::DoesNotFit,
                fmt::format(
                    "{}: {} needs {} of device memory (weights {}, KV cache {} "
                    "for {}, activations {}, workspace {}) and {} for its "
                    "driver, but {} of {} are free",
                    plan_.path(), name(), bytes(need_.total()),
                    bytes(need_.weights), bytes(need_.kv),
                    kvRoom(plan_.table()), bytes(need_.activations),
                    bytes(need_.workspace), bytes(kDriverReserveBytes),
                    bytes(free), bytes(gpu_.memoryBytes)))
      .suggesting(recompile(Suggestion::ShorterOnGpu, plan_.table(),
                            plan_.path(),
                            {{"--ctx", std::to_string(shorter)}}));
}

StatusOr<CudaDevice::Memory> CudaDevice::allocate(uint64_t bytes) const {
  if (bytes == 0)
    return Memory();
  StatusOr<Memory> memory = context_->allocate(bytes);
  if (!memory)
    return Status(memory.status()).at(name());
  return memory;
}

Status CudaDevice::reserve() {
  if (ordinal_ >= driver_->deviceCount())
    return Status(StatusCode::WrongMachine,
                  fmt::format("{}: {} is GPU number {} of the plan, but this "
                              "machine has {}",
                              plan_.path(), text(table().name()), ordinal_ + 1,
                              driver_->deviceCount()))
        .suggesting(recompile(Suggestion::ForThisMachine, plan_.table(),
                              plan_.path(), {{"--target", "native"}}));
  MOE_ASSIGN_OR_RETURN(gpu_, driver_->describe(ordinal_));
  if (table().shares_memory() && !gpu_.sharesHostMemory)
    return Status(
               StatusCode::WrongMachine,
               fmt::format("{}: the plan is for a GPU that shares the host's "
                           "memory, and {} has memory of its own",
                           plan_.path(), name()))
        .suggesting(recompile(Suggestion::ForThisMachine, plan_.table(),
                              plan_.path(), {{"--target", "native"}}));
  MOE_ASSIGN_OR_RETURN(context_, CudaContext::retain(*driver_, gpu_.handle));
  MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
  own_ = std::make_unique<Resources>();
  MOE_RETURN_IF_ERROR(checkRoom());
  for (uint32_t i = 0; i < count(plan_.table().queues()); ++i)
    if (plan_.table().queues()->Get(i)->device() == index_) {
      StatusOr<std::unique_ptr<CudaQueue>> queue =
          CudaQueue::create(*driver_, *context_, room_, queueOptions());
      if (!queue)
        return Status(queue.status()).at(name());
      memory_.steps[i] = (*queue)->step();
      queues_[i] = *std::move(queue);
    }
  if (queues_.empty())
    return invalidPlan("{}: {} has no queue", plan_.path(),
                       text(table().name()));
  for (auto [number, shape] :
       ringsOf(plan_.table(), index_, options_.mostRingBytes)) {
    auto threads = int(std::min<size_t>(physicalCores().size(), kFillers));
    StatusOr<std::unique_ptr<CudaRing>> ring =
        CudaRing::create(*driver_, *context_, shape, threads);
    if (!ring)
      return Status(ring.status()).at(name());
    const uint64_t bytes = (*ring)->shape().bytes();
    if (bytes < shape.bytes() && options_.note)
      options_.note(fmt::format(
          "{}: experts are streamed through {} of pinned memory, because the "
          "system does not pin {}",
          name(), humanBytes(double(bytes)),
          humanBytes(double(shape.bytes()))));
    queues_.at(number)->setRing(*std::move(ring));
  }
  MOE_ASSIGN_OR_RETURN(own_->arena, allocate(need_.activations));
  MOE_ASSIGN_OR_RETURN(own_->kv, allocate(need_.kv));
  MOE_ASSIGN_OR_RETURN(own_->workspace, allocate(need_.workspace));
  MOE_ASSIGN_OR_RETURN(own_->weights, allocate(need_.weights));
  MOE_ASSIGN_OR_RETURN(own_->constants, allocate(need_.constants));
  MOE_ASSIGN_OR_RETURN(own_->staging, context_->allocatePinned(need_.staging));
  memory_.arenas.resize(count(plan_.table().devices()));
  memory_.arenas[index_] = own_->arena.get();
  memory_.kv = own_->kv.get();
  memory_.workspace = own_->workspace.get();
  memory_.weights = own_->weights.get();
  return Status::ok();
}

Status CudaDevice::load(const LoadProgress &progress) {
  MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
  MOE_ASSIGN_OR_RETURN(own_->modules, CudaModules::load(*driver_, *context_,
                                                        gpu_, plan_, index_));
  MOE_RETURN_IF_ERROR(loadConstants());
  return weights_
      .upload(*driver_, *context_, stream(), files_, own_->weights.get(),
              text(table().name()), progress)
      .at(name());
}

Status CudaDevice::loadConstants() {
  cu::DevicePointer at = own_->constants.get();
  auto *staging = static_cast<std::byte *>(own_->staging.get());
  for (uint32_t i = 0; i < count(plan_.table().constants()); ++i) {
    const auto *values = plan_.table().constants()->Get(i)->values();
    memory_.constants.push_back(at);
    // Copies piece by piece and waits for each; constants are few and small.
    auto *from =
        values ? reinterpret_cast<const std::byte *>(values->data()) : nullptr;
    for (uint64_t left = count(values) * sizeof(float), done = 0; left > 0;) {
      uint64_t bytes = std::min(left, need_.staging);
      std::memcpy(staging, from + done, bytes);
      MOE_RETURN_IF_ERROR(check(driver_->api().cuMemcpyHtoDAsync_v2(
                                    at + done, staging, bytes, stream()),
                                "copying constants"));
      MOE_RETURN_IF_ERROR(finish("copying constants"));
      done += bytes;
      left -= bytes;
    }
    at += alignUp(count(values) * sizeof(float), kCudaAlignment);
  }
  return Status::ok();
}

Status CudaDevice::bind(const ProvenPhase &phase,
                        std::span<std::byte *const> arenas,
                        StepEvents *events) {
  MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
  if (own_->phases.empty()) {
    MOE_RETURN_IF_ERROR(mapArenas(arenas));
    MOE_RETURN_IF_ERROR(mapWeights());
  }
  cu::DevicePointer board = 0;
  if (events) {
    MOE_ASSIGN_OR_RETURN(board,
                         reach(events->board(), events->boardBytes(), "flags"));
  }
  MOE_ASSIGN_OR_RETURN(CudaPhase queues,
                       bindCudaPhase(*driver_, plan_, phase, index_, memory_,
                                     weights_, own_->modules, *links_, events,
                                     board));
  for (auto &[number, part] : queues) {
    part.launchesMayWait = !gpu_.hasTimeLimit;
    if (options_.prefetches)
      prefetchWeights(part, gpu_);
  }
  own_->phases.push_back({phase.phase, std::move(queues)});
  return Status::ok();
}

Status CudaDevice::mapArenas(std::span<std::byte *const> arenas) {
  // The other devices whose memory this device's instructions access.
  std::set<uint32_t> others;
  for (const fb::Phase *phase : *plan_.table().phases())
    for (uint32_t i = 0; i < count(phase->instructions()); ++i) {
      const fb::Instruction &instruction = *phase->instructions()->Get(i);
      if (deviceOf(plan_.table(), instruction) != index_)
        continue;
      for (uint32_t k = 0; k < count(instruction.operands()); ++k)
        if (const fb::Operand &operand = *instruction.operands()->Get(k);
            operand.kind() == fb::OperandKind::Buffer)
          others.insert(phase->buffers()->Get(operand.index())->device());
    }
  others.erase(index_);
  for (uint32_t other : others)
    if (arenas[other]) {
      uint64_t bytes = plan_.table().devices()->Get(other)->arena_bytes();
      MOE_ASSIGN_OR_RETURN(
          memory_.arenas[other],
          mapHostMemory(arenas[other], bytes, "the CPU's activations"));
    }
  bool isLinked =
      std::ranges::any_of(links_->all(), [this](const CudaLink &link) {
        return link.from == index_ || link.to == index_;
      });
  if (isLinked) {
    MOE_ASSIGN_OR_RETURN(memory_.links,
                         mapHostMemory(links_->pages().data(),
                                       links_->pages().size(),
                                       "the buffers for copies between GPUs"));
  }
  return Status::ok();
}

Status CudaDevice::mapWeights() {
  std::vector<std::span<std::byte>> pieces;
  for (const CudaWeights::Mapped &piece : weights_.mapped()) {
    auto *memory = reinterpret_cast<std::byte *>(
                       const_cast<uint8_t *>(files_.bytes(piece.file).data())) +
                   piece.begin;
    // The range consists of whole pages, the last of which may hold other data.
    pieces.push_back({memory, alignUp(piece.end, kPinnedPage) - piece.begin});
    MOE_RETURN_IF_ERROR(makePinnable(pieces.back(), files_.isCopy(piece.file)));
  }
  // Pinning takes tenths of a second for each GiB, and a driver does it on the
  // thread that calls it.
  std::vector<cu::DevicePointer> addresses(pieces.size());
  auto makeTask = [&]() -> PieceTask {
    return [&](size_t index) -> StatusOr<uint64_t> {
      MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
      MOE_ASSIGN_OR_RETURN(
          addresses[index],
          mapHostMemory(pieces[index].data(), pieces[index].size(), "weights"));
      return uint64_t(pieces[index].size());
    };
  };
  MOE_RETURN_IF_ERROR(forEachPiece(pieces.size(), 0, {}, makeTask));
  for (uint32_t weight : weights_.throughRing()) {
    const fb::Weight &table = *plan_.table().weights()->Get(weight);
    memory_.streamed[weight] = reinterpret_cast<uintptr_t>(
        files_.bytes(table.file()).data() + table.offset());
  }
  auto &there = table().shares_memory() ? memory_.inPlace : memory_.streamed;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const CudaWeights::Mapped &piece = weights_.mapped()[i];
    for (uint32_t weight : piece.weights)
      there[weight] = addresses[i] +
                      plan_.table().weights()->Get(weight)->offset() -
                      piece.begin;
  }
  return Status::ok();
}

StatusOr<cu::DevicePointer> CudaDevice::mapHostMemory(std::byte *memory,
                                                      uint64_t bytes,
                                                      std::string_view what) {
  auto begin = reinterpret_cast<uintptr_t>(memory);
  uintptr_t first = begin / kPinnedPage * kPinnedPage;
  uint64_t end = alignUp(begin + bytes, kPinnedPage);
  MOE_ASSIGN_OR_RETURN(
      cu::DevicePointer address,
      reach(reinterpret_cast<std::byte *>(first), end - first, what));
  return address + (begin - first);
}

StatusOr<cu::DevicePointer> CudaDevice::reach(std::byte *pages, uint64_t bytes,
                                              std::string_view what) {
  const cu::Api &api = driver_->api();
  cu::Result registered = api.cuMemHostRegister_v2(
      pages, bytes, cu::kHostPortable | cu::kHostMapped);
  if (registered == cu::kSuccess) {
    std::lock_guard lock(reaching_);
    own_->reached.emplace_back(pages, api.cuMemHostUnregister);
  } else if (registered !=
             cu::kAlreadyRegistered) // Another GPU has already pinned it.
    return check(registered, fmt::format("pinning {}", what));
  cu::DevicePointer address = 0;
  MOE_RETURN_IF_ERROR(
      check(api.cuMemHostGetDevicePointer_v2(&address, pages, /*flags=*/0),
            fmt::format("mapping {}", what)));
  return address;
}

void CudaDevice::unbind() {
  if (!own_)
    return;
  StatusOr<CudaContext::Use> use = context_->use();
  own_->phases.clear();
  own_->reached.clear();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

PlaceNamer CudaDevice::namerOf(const Bound &phase,
                               const moek::Step &step) const {
  return [this, table = phase.table, tokens = step.tokens,
          position = step.sequence(0).position](uint32_t index) {
    const fb::Instruction &instruction = *table->instructions()->Get(index);
    const fb::Explain *op = opOf(plan_.table(), instruction);
    return fmt::format("{} of {} on {}, in a step of {} from position {}",
                       placeOf(plan_, *table, index),
                       op ? labelOf(*op) : "no op", name(),
                       counted(tokens, "token"), position);
  };
}

CudaOptions CudaDevice::queueOptions() const {
  CudaOptions options = options_;
  options.overlapsLaunches = driver_->api().cuLaunchKernelEx != nullptr;
  if (options_.note)
    options.note = [this](const std::string &text) {
      options_.note(fmt::format("{}: {}", name(), text));
    };
  return options;
}

Status CudaDevice::prepare(uint32_t phase, const moek::Step &step,
                           const StepControl &control) {
  MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
  Bound &bound = own_->phases[phase];
  bool isWarm = std::ranges::all_of(
      bound.queues, [](const auto &one) { return one.second.ran; });
  for (auto &[number, part] : bound.queues)
    if (isWarm && control.times.empty())
      queues_.at(number)->prepare(part, namerOf(bound, step));
  return Status::ok();
}

Status CudaDevice::enqueue(uint32_t phase, const moek::Step &step,
                           const StepControl &control) {
  MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
  Bound &bound = own_->phases[phase];
  for (auto &[number, part] : bound.queues)
    MOE_RETURN_IF_ERROR(queues_.at(number)->send(step).at(name()));
  for (auto &[number, part] : bound.queues)
    queues_.at(number)->begin(part, control, namerOf(bound, step));
  return Status::ok();
}

Status CudaDevice::wait() {
  MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
  Status status;
  for (auto &[number, queue] : queues_)
    if (Status ended = queue->end();
        status.isOk() ||
        (status.code() == StatusCode::Cancelled && !ended.isOk()))
      status = std::move(ended);
  return status;
}

Status CudaDevice::runAlone(uint32_t phase, uint32_t instruction,
                            const moek::Step &step,
                            const std::atomic<bool> *cancel) {
  if (cancel && *cancel)
    return Status(StatusCode::Cancelled, "interrupted");
  MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
  Bound &bound = own_->phases[phase];
  uint32_t queue = bound.table->instructions()->Get(instruction)->queue();
  MOE_RETURN_IF_ERROR(queues_.at(queue)->send(step).at(name()));
  return queues_.at(queue)->runAlone(bound.queues.at(queue), instruction,
                                     namerOf(bound, step));
}

//===----------------------------------------------------------------------===//
// Between steps
//===----------------------------------------------------------------------===//

cu::DevicePointer CudaDevice::addressOf(const DeviceRegion &region) const {
  cu::DevicePointer base = region.memory == DeviceRegion::Memory::Kv
                               ? memory_.kv
                               : memory_.arenas[index_];
  return base + region.offset;
}

Status CudaDevice::finish(std::string_view action) const {
  return check(driver_->api().cuStreamSynchronize(stream()), action);
}

StatusOr<std::span<const std::byte>> CudaDevice::read(DeviceRegion from) {
  MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
  auto *staging = static_cast<std::byte *>(own_->staging.get());
  bool isLarge = from.bytes > need_.staging;
  large_.resize(isLarge ? from.bytes : 0);
  for (uint64_t done = 0; done < from.bytes;) {
    uint64_t bytes = std::min(from.bytes - done, need_.staging);
    MOE_RETURN_IF_ERROR(
        check(driver_->api().cuMemcpyDtoHAsync_v2(
                  staging, addressOf(from) + done, bytes, stream()),
              "reading from the GPU"));
    MOE_RETURN_IF_ERROR(finish("reading from the GPU"));
    if (isLarge)
      std::memcpy(large_.data() + done, staging, bytes);
    done += bytes;
  }
  return std::span<const std::byte>(isLarge ? large_.data() : staging,
                                    from.bytes);
}

Status CudaDevice::write(DeviceRegion to, std::span<const std::byte> bytes) {
  MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
  auto *staging = static_cast<std::byte *>(own_->staging.get());
  for (uint64_t done = 0; done < bytes.size();) {
    uint64_t part = std::min<uint64_t>(bytes.size() - done, need_.staging);
    std::memcpy(staging, bytes.data() + done, part);
    MOE_RETURN_IF_ERROR(
        check(driver_->api().cuMemcpyHtoDAsync_v2(addressOf(to) + done, staging,
                                                  part, stream()),
              "writing to the GPU"));
    MOE_RETURN_IF_ERROR(finish("writing to the GPU"));
    done += part;
  }
  return Status::ok();
}

Status CudaDevice::copy(DeviceRegion from, uint64_t to) {
  MOE_ASSIGN_OR_RETURN(CudaContext::Use use, context_->use());
  DeviceRegion target = from;
  target.offset = to;
  MOE_RETURN_IF_ERROR(
      check(driver_->api().cuMemcpyDtoDAsync_v2(
                addressOf(target), addressOf(from), from.bytes, stream()),
            "copying on the GPU"));
  return finish("copying on the GPU");
}

} // namespace moert
