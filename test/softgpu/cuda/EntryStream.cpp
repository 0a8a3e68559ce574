//===- EntryStream.cpp - Driver calls: streams, events, flags -------------===//

#include "test/softgpu/cuda/Abi.h"
#include "test/softgpu/cuda/State.h"

#include <atomic>
#include <fmt/format.h>

using namespace softcuda;

namespace {
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kBlockingSync = 1;    ///< A flag of events.
constexpr unsigned kNoMemoryBarrier = 1; ///< A flag of value writes.

Event *eventOf(CUevent handle) {
  auto it = state().events.find(handle);
  return it == state().events.end() ? nullptr : it->second.get();
}

/// Returns only streams that were created: the default stream can be neither
/// captured nor destroyed.
Stream *madeStream(CUstream handle) {
  return handle ? streamOf(handle) : nullptr;
}

int makeStream(CUstream *out, unsigned flags) {
  Gpu &gpu = *currentGpu();
  auto stream = std::make_unique<Stream>();
  stream->gpu = &gpu;
  stream->isBlocking = !(flags & kNonBlocking);
  stream->chain = state().timeline->newChain();
  *out = stream.get();
  state().streams[stream.get()] = std::move(stream);
  return kSuccess;
}

int flagWork(const char *symbol, CUstream handle, CUdeviceptr address,
             uint32_t value, unsigned flags, bool waits) {
  Stream *stream = streamOf(handle);
  Bytes at = bytesAt(address, 4);
  if (!stream)
    return kInvalidHandle;
  if (!at.allocation || address % 4) {
    state().find(fmt::format("{} at {:#x}: {}", symbol, address,
                             stream->gpu->soft->memory().describe(address)));
    return kInvalidValue;
  }
  Work work;
  work.gpu = stream->gpu;
  work.name = fmt::format("{} of {} at {:#x}", symbol, value, address);
  work.flag = reinterpret_cast<uint32_t *>(at.data);
  if (waits) {
    work.kind = Work::Wait;
    ++state().totals.roundTrips;
    work.isThere = [flag = work.flag, value, how = flags & 3] {
      uint32_t now = valueOf(flag);
      return how == 0   ? int32_t(now - value) >= 0
             : how == 1 ? now == value
             : how == 2 ? (now & value) != 0
                        : ~(now | value) != 0;
    };
  } else {
    work.kind = Work::Write;
    work.isReleased = !(flags & kNoMemoryBarrier);
    work.run = [at, flag = work.flag, value](Operation &) {
      std::atomic_ref(*flag).store(value, std::memory_order_release);
      at.allocation->markWritten(uint64_t(at.data - at.allocation->host), 4);
    };
  }
  return submit(*stream, std::move(work));
}

/// Makes `stream` continue after the event, in the event's capture if it has
/// one.
int follow(Stream &stream, const Event &event) {
  if (event.capture && event.capture->isInvalid)
    return kCaptureInvalidated;
  if (event.capture) {
    if (!stream.capture) {
      stream.capture = event.capture;
      stream.captured.clear();
    } else if (stream.capture != event.capture) {
      stream.capture->isInvalid = true;
      return kCaptureIsolation;
    }
    for (size_t node : event.captured)
      if (std::find(stream.captured.begin(), stream.captured.end(), node) ==
          stream.captured.end())
        stream.captured.push_back(node);
    return kSuccess;
  }
  if (stream.capture) {
    if (!event.last)
      return kSuccess;
    stream.capture->isInvalid = true;
    state().find("a captured stream waits for an event of work that is not "
                 "captured");
    return kCaptureIsolation;
  }
  if (event.last)
    stream.waits.push_back(event.last);
  return kSuccess;
}
} // namespace

extern "C" {

int cuStreamCreate(CUstream *stream, unsigned flags) {
  SOFTCUDA_BEGIN(true);
  return makeStream(stream, flags);
}
int cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int) {
  SOFTCUDA_BEGIN(true);
  return makeStream(stream, flags);
}
int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  SOFTCUDA_BEGIN(true);
  *least = 0;
  *greatest = -5;
  return kSuccess;
}
int cuStreamDestroy_v2(CUstream handle) {
  SOFTCUDA_BEGIN(true);
  Stream *stream = madeStream(handle);
  if (!stream)
    return kInvalidHandle;
  // The stream's operations continue. The program can no longer wait for them,
  // so that the GPU's default stream does.
  if (stream->last)
    state().defaults[size_t(stream->gpu->ordinal)]->waits.push_back(
        stream->last);
  state().streams.erase(handle);
  return kSuccess;
}
int cuStreamSynchronize(CUstream handle) {
  SOFTCUDA_BEGIN(true);
  Stream *stream = streamOf(handle);
  if (!stream)
    return kInvalidHandle;
  if (auto refused = refuseInCapture(__func__, stream))
    return *refused;
  Gpu *gpu = stream->gpu;
  ++state().totals.busyWaits;
  if (!handle) {
    drain(*gpu);
  } else {
    for (OperationPtr before : std::vector<OperationPtr>(stream->waits))
      waitFor(before);
    waitFor(OperationPtr(stream->last));
  }
  std::lock_guard lock(state().log);
  return gpu->error;
}
int cuStreamQuery(CUstream handle) {
  SOFTCUDA_BEGIN(true);
  Stream *stream = streamOf(handle);
  if (!stream)
    return kInvalidHandle;
  if (auto refused = refuseInCapture(__func__, stream))
    return *refused;
  return hasEnded(stream->last) ? kSuccess : kNotReady;
}
int cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  SOFTCUDA_BEGIN(true);
  Stream *stream = streamOf(handle);
  Event *found = eventOf(event);
  if (!stream || !found)
    return kInvalidHandle;
  return follow(*stream, *found);
}
int cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value,
                           unsigned flags) {
  SOFTCUDA_BEGIN(true);
  return flagWork(__func__, stream, address, value, flags, true);
}
int cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address,
                            uint32_t value, unsigned flags) {
  SOFTCUDA_BEGIN(true);
  return flagWork(__func__, stream, address, value, flags, false);
}

int cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
  SOFTCUDA_BEGIN(true);
  Stream *stream = streamOf(handle);
  if (!stream)
    return kInvalidHandle;
  if (!function)
    return kInvalidValue;
  Work work;
  work.kind = Work::Host;
  work.gpu = stream->gpu;
  work.name = "a host function";
  work.run = [gpu = stream->gpu, function, data](Operation &) {
    {
      std::lock_guard lock(state().log);
      ++state().totals.roundTrips;
      if (gpu->error) // After an error, a driver does not run it either.
        return;
    }
    function(data);
  };
  return submit(*stream, std::move(work));
}

int cuEventCreate(CUevent *out, unsigned flags) {
  SOFTCUDA_BEGIN(true);
  auto event = std::make_unique<Event>();
  event->gpu = currentGpu();
  event->isBlocking = flags & kBlockingSync;
  *out = event.get();
  state().events[event.get()] = std::move(event);
  return kSuccess;
}
int cuEventDestroy_v2(CUevent handle) {
  SOFTCUDA_BEGIN(true);
  return state().events.erase(handle) ? kSuccess : kInvalidHandle;
}
int cuEventRecord(CUevent handle, CUstream on) {
  SOFTCUDA_BEGIN(true);
  Event *event = eventOf(handle);
  Stream *stream = streamOf(on);
  if (!event || !stream || event->gpu != stream->gpu)
    return kInvalidHandle;
  if (stream->capture) {
    event->capture = stream->capture;
    event->captured = stream->captured;
    return kSuccess;
  }
  event->capture = nullptr;
  // Work without an effect, which waits for the stream's dependencies.
  Work work;
  work.gpu = stream->gpu;
  work.name = "an event";
  return submit(*stream, std::move(work), &event->last);
}
int cuEventQuery(CUevent handle) {
  SOFTCUDA_BEGIN(true);
  Event *event = eventOf(handle);
  if (!event)
    return kInvalidHandle;
  if (event->capture)
    return kCapturedEvent;
  return hasEnded(event->last) ? kSuccess : kNotReady;
}
int cuEventSynchronize(CUevent handle) {
  SOFTCUDA_BEGIN(true);
  if (auto refused = refuseInCapture(__func__))
    return *refused;
  Event *event = eventOf(handle);
  if (!event)
    return kInvalidHandle;
  if (event->capture)
    return kCapturedEvent;
  Gpu *gpu = event->gpu;
  state().totals.busyWaits += !event->isBlocking;
  waitFor(OperationPtr(event->last));
  std::lock_guard lock(state().log);
  return gpu->error;
}
int cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  SOFTCUDA_BEGIN(true);
  Event *first = eventOf(from), *second = eventOf(to);
  if (!first || !second || !first->last || !second->last)
    return kInvalidHandle;
  if (!hasEnded(first->last) || !hasEnded(second->last))
    return kNotReady;
  *milliseconds = float((second->last->end - first->last->end) * 1e3);
  return kSuccess;
}

} // extern "C"
