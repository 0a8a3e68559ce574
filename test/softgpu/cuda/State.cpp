//===- State.cpp ----------------------------------------------------------===//

#include "test/softgpu/cuda/State.h"

#include <cstdlib>
#include <fmt/format.h>

namespace softcuda {

namespace {
std::mutex calls;
thread_local std::vector<Gpu *> contexts;
/// PTX by the hash of the cubin that was compiled from it.
std::map<size_t, CubinSource> &cubins() {
  static std::map<size_t, CubinSource> map;
  return map;
}
std::unique_ptr<State> &holder() {
  static std::unique_ptr<State> state;
  return state;
}

std::unique_ptr<State> make(Options options) {
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  state->timeline = std::make_unique<Timeline>(state->options);
  for (const GpuOptions &each : state->options.gpus) {
    auto gpu = std::make_unique<Gpu>();
    gpu->ordinal = int(state->gpus.size());
    gpu->options = each;
    // GPUs have different address ranges, so that one's addresses are invalid
    // on another.
    gpu->soft = std::make_unique<softgpu::SoftGpu>(
        each.gpu, uint64_t(gpu->ordinal) << 44);
    auto stream = std::make_unique<Stream>();
    stream->gpu = gpu.get();
    stream->chain = state->timeline->newChain();
    state->defaults.push_back(std::move(stream));
    state->gpus.push_back(std::move(gpu));
  }
  return state;
}
} // namespace

State &state() {
  if (!holder())
    holder() = make({});
  return *holder();
}

std::vector<Gpu *> &contextsOfThisThread() { return contexts; }

std::unique_lock<std::mutex> &lockOfThisThread() {
  thread_local std::unique_lock<std::mutex> lock(calls, std::defer_lock);
  return lock;
}

Entry::Entry() { lockOfThisThread().lock(); }
Entry::~Entry() { lockOfThisThread().unlock(); }

void State::find(std::string what) {
  std::lock_guard lock(log);
  findings.push_back(std::move(what));
}

Gpu *currentGpu() { return contexts.empty() ? nullptr : contexts.back(); }

std::optional<Result> begin(const char *symbol, bool needsContext) {
  State &s = state();
  {
    std::lock_guard lock(s.log);
    ++s.totals.calls[symbol];
  }
  if (s.timeline->isHere()) {
    s.find(fmt::format("a host function calls {}", symbol));
    return kNotPermitted;
  }
  if (auto it = s.options.failures.find(symbol); it != s.options.failures.end())
    return Result(it->second);
  if (!needsContext)
    return std::nullopt;
  Gpu *gpu = currentGpu();
  if (!gpu || !gpu->retained)
    return kInvalidContext;
  std::lock_guard lock(s.log);
  if (gpu->error)
    return gpu->error;
  return std::nullopt;
}

void waitFor(const OperationPtr &operation) {
  if (!operation)
    return;
  ++state().totals.roundTrips;
  auto &lock = lockOfThisThread();
  lock.unlock();
  state().timeline->wait(operation);
  lock.lock();
}

void waitForRoom(const Gpu &gpu) {
  auto &lock = lockOfThisThread();
  lock.unlock();
  state().timeline->waitForRoom(gpu.ordinal);
  lock.lock();
}

bool hasEnded(const OperationPtr &operation) {
  return !operation || state().timeline->hasEnded(operation);
}

std::optional<Result> refuseInCapture(const char *symbol,
                                      const Stream *stream) {
  for (const auto &capture : state().captures) {
    bool isMine = capture->thread == std::this_thread::get_id();
    bool isForbidden = capture->mode == 0 || (capture->mode == 1 && isMine) ||
                       (stream && stream->capture == capture);
    if (!isForbidden || capture->isInvalid)
      continue;
    capture->isInvalid = true;
    state().find(fmt::format("{} while a stream is being captured", symbol));
    return kCaptureUnsupported;
  }
  return std::nullopt;
}

Stream *streamOf(void *handle) {
  if (!handle)
    return currentGpu() ? state().defaults[size_t(currentGpu()->ordinal)].get()
                        : nullptr;
  auto it = state().streams.find(handle);
  return it == state().streams.end() ? nullptr : it->second.get();
}

OperationPtr operationOf(const Work &work, uint32_t chain) {
  auto operation = std::make_shared<Operation>();
  operation->name = std::make_shared<const std::string>(work.name);
  operation->chain = chain;
  operation->gpu = work.gpu->ordinal;
  operation->run = work.run;
  operation->isThere = work.isThere;
  operation->prepare = work.prepare;
  operation->hostReads = work.hostReads;
  operation->hostWrites = work.hostWrites;
  operation->isMapped = work.isMapped;
  operation->flag = work.flag;
  operation->isReleased = work.isReleased;
  operation->isKernel = work.kind == Work::Kernel;
  operation->isOfHost = work.kind == Work::Host;
  return operation;
}

Result submit(Stream &stream, Work work, OperationPtr *out) {
  State &s = state();
  if (Capture *capture = stream.capture.get()) {
    if (capture->isInvalid)
      return kCaptureInvalidated;
    auto node = std::make_unique<Node>();
    node->work = std::move(work);
    node->after = std::move(stream.captured);
    node->stream = &stream;
    for (size_t before : node->after)
      capture->open.erase(before);
    size_t index = capture->graph->nodes.size();
    capture->open.insert(index);
    stream.captured = {index};
    capture->graph->nodes.push_back(std::move(node));
    return kSuccess;
  }
  waitForRoom(*stream.gpu);
  OperationPtr operation = operationOf(work, stream.chain);
  auto follow = [&](const OperationPtr &before) {
    if (before)
      operation->after.push_back(before);
  };
  follow(stream.last);
  for (const OperationPtr &before : stream.waits)
    follow(before);
  stream.waits.clear();
  // The default stream waits for all blocking streams, and they wait for it.
  Stream &standard = *s.defaults[size_t(stream.gpu->ordinal)];
  if (&stream == &standard) {
    for (auto &[handle, other] : s.streams)
      if (other->gpu == stream.gpu && other->isBlocking) {
        if (other->capture)
          return *refuseInCapture("an operation on the default stream");
        follow(other->last);
      }
  } else if (stream.isBlocking) {
    follow(standard.last);
  }
  stream.last = s.timeline->enqueue(std::move(operation));
  if (out)
    *out = stream.last;
  return kSuccess;
}

void drain(Gpu &gpu) {
  for (auto &[handle, stream] : state().streams)
    if (stream->gpu == &gpu)
      waitFor(OperationPtr(stream->last));
  waitFor(OperationPtr(state().defaults[size_t(gpu.ordinal)]->last));
}

Bytes bytesAt(uint64_t address, uint64_t bytes) {
  State &s = state();
  Bytes out;
  for (auto &gpu : s.gpus) {
    if (address < softgpu::DeviceMemory::kBase)
      break;
    softgpu::Allocation *allocation = gpu->soft->memory().lookup(address);
    if (!allocation || allocation->isFreed)
      continue;
    if (address - allocation->base + bytes > allocation->bytes)
      return out;
    out.data = allocation->host + (address - allocation->base);
    // Mapped memory belongs to the host.
    out.gpu = allocation->isHost ? nullptr : gpu.get();
    out.isPinned = out.isMapped = allocation->isHost;
    out.allocation = allocation;
    return out;
  }
  if (address >= softgpu::DeviceMemory::kBase)
    return out;
  out.data = reinterpret_cast<uint8_t *>(address);
  auto it = s.host.upper_bound(address);
  if (it != s.host.begin() && --it != s.host.end())
    if (address - it->first + bytes <= it->second.bytes) {
      out.isPinned = true;
      out.isMapped = !it->second.addresses.empty();
    }
  return out;
}

uint64_t orderedAddress(uint64_t address) {
  Bytes at = bytesAt(address, 0);
  return at.gpu ? address : reinterpret_cast<uint64_t>(at.data);
}

void touch(Operation &operation, softgpu::AccessedRanges &touched) {
  State &s = state();
  std::lock_guard lock(s.log);
  if (auto found = s.order.touch(touched, operation.stamp, operation.clock,
                                 operation.name))
    s.findings.push_back(*found);
}

// -- For tests.

std::vector<std::string> liveOf(const Gpu *only) {
  State &s = state();
  std::vector<std::string> out;
  auto isOf = [only](const Gpu *gpu) { return !only || gpu == only; };
  for (auto &gpu : s.gpus)
    if (isOf(gpu.get()))
      for (auto [address, bytes] : gpu->allocations)
        out.push_back(fmt::format("{} bytes of GPU {} at {:#x}", bytes,
                                  gpu->ordinal, address));
  auto count = [&](const auto &handles, auto gpuOf, const char *what) {
    auto n = std::count_if(handles.begin(), handles.end(), [&](auto &each) {
      return isOf(gpuOf(*each.second));
    });
    if (n)
      out.push_back(fmt::format("{} {}", n, what));
  };
  auto ownGpu = [](auto &each) { return each.gpu; };
  auto nodesGpu = [](auto &graph) {
    return graph.nodes.empty() ? nullptr : graph.nodes[0]->work.gpu;
  };
  count(s.streams, ownGpu, "streams");
  count(s.events, ownGpu, "events");
  count(s.modules, ownGpu, "modules");
  count(s.graphs, nodesGpu, "graphs");
  count(s.execs, nodesGpu, "executable graphs");
  return out;
}

std::vector<std::string> live() {
  std::vector<std::string> out = liveOf(nullptr);
  for (auto &gpu : state().gpus)
    if (gpu->retained)
      out.push_back(fmt::format("the context of GPU {}", gpu->ordinal));
  for (auto &[address, range] : state().host)
    out.push_back(fmt::format("{} bytes of {} host memory", range.bytes,
                              range.isOwned ? "pinned" : "registered"));
  return out;
}

std::vector<std::string> reset(Options options) {
  std::lock_guard lock(calls);
  std::vector<std::string> leaked = live();
  State &old = state();
  old.timeline->stop();
  for (auto &[address, range] : old.host)
    if (range.isOwned)
      std::free(reinterpret_cast<void *>(address));
  contexts.clear();
  holder() = make(std::move(options));
  return leaked;
}

Options &options() { return state().options; }
Totals totals() {
  std::lock_guard lock(state().log);
  return state().totals;
}
std::vector<std::string> findings() {
  std::lock_guard lock(state().log);
  return state().findings;
}

std::vector<softgpu::LaunchTime> takeTimes() {
  std::lock_guard lock(state().log);
  return std::exchange(state().times, {});
}

void addCubin(std::string_view cubin, std::string ptx,
              softgpu::Resources resources) {
  cubins()[std::hash<std::string_view>()(cubin)] = {std::move(ptx), resources};
}
const CubinSource *sourceOfCubin(std::string_view cubin) {
  auto it = cubins().find(std::hash<std::string_view>()(cubin));
  return it == cubins().end() ? nullptr : &it->second;
}

} // namespace softcuda
