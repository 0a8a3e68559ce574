//===- EntryMemory.cpp - Driver calls: memory and copies ------------------===//

#include "test/softgpu/cuda/Abi.h"
#include "test/softgpu/cuda/State.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <utility>

using namespace softcuda;

namespace {
constexpr unsigned kDeviceMap = 2, kReadOnly = 8;
constexpr uint64_t kPage = 4096;
/// Contents of the destination of a copy to the host until the copy has ended.
constexpr uint8_t kPoison = 0xC5;

/// Copy rates in bytes per second: PCIe 4, and half of the memory bandwidth.
constexpr double kLink = 26e9;
double withinRate(const Gpu &gpu) {
  return gpu.options.memoryClockKhz * 1e3 * gpu.options.memoryBusBits / 8;
}

uint64_t checksum(const uint8_t *data, uint64_t bytes) {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char *>(data), bytes});
}

/// Makes a copy a Work; `what` names it in findings.
Work copyWork(const char *what, const Bytes &to, const Bytes &from,
              uint64_t bytes, uint64_t toAddress, uint64_t fromAddress,
              bool isCaptured) {
  Work work;
  work.kind = Work::Copy;
  work.gpu = to.gpu ? to.gpu : from.gpu;
  work.name = fmt::format("{} of {} bytes", what, bytes);
  std::shared_ptr<std::vector<uint8_t>> staged;
  const uint8_t *source = from.data;
  // The driver stages pageable memory before the call returns.
  if (!from.gpu && !from.isPinned && !isCaptured) {
    staged = std::make_shared<std::vector<uint8_t>>(source, source + bytes);
    source = staged->data();
  }
  auto sum = std::make_shared<std::optional<uint64_t>>();
  if (!from.gpu && from.isPinned) {
    auto begin = reinterpret_cast<uint64_t>(from.data);
    work.hostReads = {begin, begin + bytes};
    work.isMapped = from.isMapped;
    if (to.gpu)
      work.prepare = [=](Operation &) { *sum = checksum(source, bytes); };
  }
  if (!to.gpu && to.isPinned) {
    auto begin = reinterpret_cast<uint64_t>(to.data);
    work.hostWrites = {begin, begin + bytes};
    work.isMapped |= to.isMapped;
    if (from.gpu)
      work.prepare = [data = to.data, bytes](Operation &) {
        std::memset(data, kPoison, bytes);
      };
  }
  softgpu::AccessedRanges touched;
  bool isRead = from.gpu || from.isPinned, isWritten = to.gpu || to.isPinned;
  uint64_t readAt = isRead ? orderedAddress(fromAddress) : 0,
           writeAt = isWritten ? orderedAddress(toAddress) : 0;
  work.run = [=, gpu = work.gpu](Operation &operation) {
    State &s = state();
    // Compares within this launch only, if it is a graph's.
    auto before = std::exchange(*sum, std::nullopt);
    if (before && *before != checksum(source, bytes))
      s.find(fmt::format("the host changed what {} still reads, at {:#x}",
                         *operation.name, fromAddress));
    std::unique_lock running(gpu->running);
    std::memmove(to.data, staged ? staged->data() : source, bytes);
    if (to.allocation)
      to.allocation->markWritten(toAddress - to.allocation->base, bytes);
    running.unlock();
    softgpu::AccessedRanges now;
    if (isRead)
      now.reads.add(readAt, readAt + bytes);
    if (isWritten)
      now.writes.add(writeAt, writeAt + bytes);
    touch(operation, now);
    std::lock_guard lock(s.log);
    uint64_t &total = !to.gpu     ? s.totals.bytesToHost
                      : !from.gpu ? s.totals.bytesToDevice
                                  : s.totals.bytesWithin;
    total += bytes;
    s.timeline->pass(double(bytes) /
                     (to.gpu && from.gpu ? withinRate(*gpu) : kLink));
  };
  return work;
}

/// Counts `bytes` more of pinned host memory; false if that is too much.
bool mayPin(uint64_t bytes) {
  for (const auto &[address, range] : state().host)
    bytes += range.bytes;
  std::lock_guard lock(state().log);
  if (bytes > state().options.mostPinnedBytes)
    return false;
  uint64_t &most = state().totals.mostPinnedBytes;
  most = std::max(most, bytes);
  return true;
}

enum Side { Host, Device, Any };

Result copy(const char *symbol, uint64_t toAddress, Side toSide,
            uint64_t fromAddress, Side fromSide, uint64_t bytes, void *handle,
            bool isAsync) {
  if (!isAsync)
    if (auto refused = refuseInCapture(symbol))
      return *refused;
  Stream *stream = streamOf(handle);
  if (!stream)
    return kInvalidHandle;
  if (!bytes)
    return kSuccess;
  Bytes to = bytesAt(toAddress, bytes), from = bytesAt(fromAddress, bytes);
  auto isWrong = [&](const Bytes &at, Side side, uint64_t address,
                     const char *verb) {
    bool isDevice = address >= softgpu::DeviceMemory::kBase;
    bool wrong =
        !at.data || (side == Device && !isDevice) || (side == Host && isDevice);
    if (wrong) {
      std::string where = "the host's memory";
      if (isDevice)
        where = stream->gpu->soft->memory().describe(address);
      state().find(fmt::format("{} {} {} bytes at {:#x}: {}", symbol, verb,
                               bytes, address, where));
    }
    return wrong;
  };
  if (isWrong(to, toSide, toAddress, "writes") ||
      isWrong(from, fromSide, fromAddress, "reads"))
    return kInvalidValue;
  if (!to.gpu && !from.gpu && to.allocation == nullptr &&
      from.allocation == nullptr && toSide != Any)
    return kInvalidValue;
  bool isCaptured = stream->capture != nullptr;
  Work work =
      copyWork(symbol, to, from, bytes, toAddress, fromAddress, isCaptured);
  work.gpu = work.gpu ? work.gpu : stream->gpu;
  OperationPtr operation;
  if (Result result = submit(*stream, std::move(work), &operation))
    return result;
  // Copies to pageable memory make the driver itself wait.
  if (!isAsync || (!isCaptured && !to.gpu && !to.isPinned))
    waitFor(operation);
  return kSuccess;
}

Result fill(const char *symbol, uint64_t address, uint32_t value, int width,
            uint64_t count, void *handle, bool isAsync) {
  if (!isAsync)
    if (auto refused = refuseInCapture(symbol))
      return *refused;
  Stream *stream = streamOf(handle);
  if (!stream)
    return kInvalidHandle;
  uint64_t bytes = count * uint64_t(width);
  if (!bytes)
    return kSuccess;
  Bytes to = bytesAt(address, bytes);
  if (!to.data || !to.allocation || address % uint64_t(width)) {
    state().find(fmt::format("{} writes {} bytes at {:#x}: {}", symbol, bytes,
                             address,
                             stream->gpu->soft->memory().describe(address)));
    return kInvalidValue;
  }
  Work work;
  work.kind = Work::Set;
  work.gpu = stream->gpu;
  work.name = fmt::format("{} of {} bytes", symbol, bytes);
  uint64_t ordered = orderedAddress(address);
  work.run = [=, gpu = stream->gpu](Operation &operation) {
    {
      std::lock_guard running(gpu->running);
      for (uint64_t at = 0; at < bytes; at += uint64_t(width))
        std::memcpy(to.data + at, &value, size_t(width));
      to.allocation->markWritten(address - to.allocation->base, bytes);
    }
    softgpu::AccessedRanges now;
    now.writes.add(ordered, ordered + bytes);
    touch(operation, now);
    state().timeline->pass(double(bytes) / withinRate(*gpu));
  };
  OperationPtr operation;
  if (Result result = submit(*stream, std::move(work), &operation))
    return result;
  if (!isAsync)
    waitFor(operation);
  return kSuccess;
}

/// Whether the operating system allows writing to the whole range.
bool isWritable(uint64_t begin, uint64_t end) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long long from = 0, to = 0;
    char rights[8] = {};
    if (std::sscanf(line.c_str(), "%llx-%llx %7s", &from, &to, rights) != 3 ||
        to <= begin)
      continue;
    if (from > begin || rights[1] != 'w')
      return false;
    if (to >= end)
      return true;
    begin = to;
  }
  return false;
}

/// Gives every GPU an address for the range.
void mapHost(uint64_t address, HostRange &range) {
  for (auto &gpu : state().gpus) {
    std::lock_guard running(gpu->running);
    range.addresses.push_back(gpu->soft->memory().map(
        reinterpret_cast<void *>(address), range.bytes, "host memory"));
  }
}
void unmapHost(HostRange &range) {
  for (size_t i = 0; i < range.addresses.size(); ++i) {
    Gpu &gpu = *state().gpus[i];
    std::lock_guard running(gpu.running);
    gpu.soft->memory().free(range.addresses[i]);
  }
}

/// Waits until no GPU uses host memory any more, so that its owner may release
/// it.
void drainAll() {
  for (auto &gpu : state().gpus)
    drain(*gpu);
}

/// Forgets accesses to memory that goes away, and the flags in it.
void forget(uint64_t address, uint64_t bytes) {
  auto at = reinterpret_cast<uint64_t>(bytesAt(address, bytes).data);
  state().timeline->forgetFlags({at, at + bytes});
  std::lock_guard lock(state().log);
  state().order.forget({address, address + bytes});
}
} // namespace

extern "C" {

int cuMemGetInfo_v2(size_t *free, size_t *total) {
  SOFTCUDA_BEGIN(true);
  const Gpu &gpu = *currentGpu();
  *total = gpu.options.memoryBytes;
  *free = gpu.options.memoryBytes - gpu.options.usedBytes - gpu.allocatedBytes;
  return kSuccess;
}

int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  SOFTCUDA_BEGIN(true);
  if (auto refused = refuseInCapture(__func__))
    return *refused;
  if (!address || !bytes)
    return kInvalidValue;
  Gpu &gpu = *currentGpu();
  if (bytes >
      gpu.options.memoryBytes - gpu.options.usedBytes - gpu.allocatedBytes)
    return kOutOfMemory;
  {
    std::lock_guard running(gpu.running);
    *address = gpu.soft->memory().allocate(
        bytes, fmt::format("allocation {}", state().totals.allocations));
  }
  ++state().totals.allocations;
  gpu.allocations[*address] = bytes;
  gpu.allocatedBytes += bytes;
  return kSuccess;
}

int cuMemFree_v2(CUdeviceptr address) {
  SOFTCUDA_BEGIN(true);
  if (auto refused = refuseInCapture(__func__))
    return *refused;
  if (!address)
    return kSuccess;
  for (auto &gpu : state().gpus) {
    auto it = gpu->allocations.find(address);
    if (it == gpu->allocations.end())
      continue;
    drain(*gpu);
    forget(address, it->second);
    std::lock_guard running(gpu->running);
    gpu->soft->memory().free(address);
    gpu->allocatedBytes -= it->second;
    gpu->allocations.erase(it);
    return kSuccess;
  }
  state().find(
      fmt::format("cuMemFree of {:#x}, where no allocation begins", address));
  return kInvalidValue;
}

int cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  SOFTCUDA_BEGIN(true);
  if (auto refused = refuseInCapture(__func__))
    return *refused;
  if (!pointer || !bytes)
    return kInvalidValue;
  if (!mayPin(bytes))
    return kOutOfMemory;
  *pointer = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (!*pointer)
    return kOutOfMemory;
  HostRange range;
  range.bytes = bytes;
  range.isOwned = true;
  state().host[reinterpret_cast<uint64_t>(*pointer)] = range;
  return kSuccess;
}

int cuMemFreeHost(void *pointer) {
  SOFTCUDA_BEGIN(true);
  if (auto refused = refuseInCapture(__func__))
    return *refused;
  auto it = state().host.find(reinterpret_cast<uint64_t>(pointer));
  if (it == state().host.end() || !it->second.isOwned)
    return kInvalidValue;
  drainAll();
  unmapHost(it->second);
  forget(it->first, it->second.bytes);
  state().host.erase(it);
  std::free(pointer);
  return kSuccess;
}

int cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  SOFTCUDA_BEGIN(true);
  if (auto refused = refuseInCapture(__func__))
    return *refused;
  auto address = reinterpret_cast<uint64_t>(pointer);
  if (!pointer || !bytes)
    return kInvalidValue;
  if (flags & kReadOnly && !state().options.registersReadOnly)
    return kNotSupported;
  auto next = state().host.lower_bound(address + bytes);
  if (next != state().host.begin()) {
    auto &[begin, range] = *std::prev(next);
    if (begin + range.bytes > address)
      return kAlreadyRegistered;
  }
  if (!(flags & kReadOnly) && !isWritable(address, address + bytes))
    return kInvalidValue;
  if (!mayPin(bytes))
    return kOutOfMemory;
  HostRange range;
  range.bytes = bytes;
  state().host[address] = range;
  return kSuccess;
}

int cuMemHostUnregister(void *pointer) {
  SOFTCUDA_BEGIN(true);
  if (auto refused = refuseInCapture(__func__))
    return *refused;
  auto it = state().host.find(reinterpret_cast<uint64_t>(pointer));
  if (it == state().host.end() || it->second.isOwned)
    return kNotRegistered;
  drainAll();
  unmapHost(it->second);
  forget(it->first, it->second.bytes);
  state().host.erase(it);
  return kSuccess;
}

int cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer,
                                 unsigned) {
  SOFTCUDA_BEGIN(true);
  auto at = reinterpret_cast<uint64_t>(pointer);
  auto it = state().host.upper_bound(at);
  if (it == state().host.begin() ||
      at - std::prev(it)->first >= std::prev(it)->second.bytes)
    return kInvalidValue;
  --it;
  if (it->second.addresses.empty())
    mapHost(it->first, it->second);
  *address =
      it->second.addresses[size_t(currentGpu()->ordinal)] + at - it->first;
  return kSuccess;
}

int cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  SOFTCUDA_BEGIN(true);
  return copy(__func__, to, Device, reinterpret_cast<uint64_t>(from), Host,
              bytes, nullptr, false);
}
int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  SOFTCUDA_BEGIN(true);
  return copy(__func__, reinterpret_cast<uint64_t>(to), Host, from, Device,
              bytes, nullptr, false);
}
int cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  SOFTCUDA_BEGIN(true);
  return copy(__func__, to, Device, from, Device, bytes, nullptr, false);
}
int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                         CUstream stream) {
  SOFTCUDA_BEGIN(true);
  return copy(__func__, to, Device, reinterpret_cast<uint64_t>(from), Host,
              bytes, stream, true);
}
int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                         CUstream stream) {
  SOFTCUDA_BEGIN(true);
  return copy(__func__, reinterpret_cast<uint64_t>(to), Host, from, Device,
              bytes, stream, true);
}
int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                         CUstream stream) {
  SOFTCUDA_BEGIN(true);
  return copy(__func__, to, Device, from, Device, bytes, stream, true);
}
int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                  CUstream stream) {
  SOFTCUDA_BEGIN(true);
  return copy(__func__, to, Any, from, Any, bytes, stream, true);
}

int cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  SOFTCUDA_BEGIN(true);
  return fill(__func__, to, value, 1, count, nullptr, false);
}
int cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  SOFTCUDA_BEGIN(true);
  return fill(__func__, to, value, 4, count, nullptr, false);
}
int cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                    CUstream stream) {
  SOFTCUDA_BEGIN(true);
  return fill(__func__, to, value, 1, count, stream, true);
}
int cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                     CUstream stream) {
  SOFTCUDA_BEGIN(true);
  return fill(__func__, to, value, 4, count, stream, true);
}

} // extern "C"
