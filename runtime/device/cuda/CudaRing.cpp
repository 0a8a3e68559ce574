#include "runtime/device/cuda/CudaRing.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <system_error>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace moert {

namespace {
/// What a thread copies at a time begins at multiples of this.
constexpr uint64_t kLine = 64;

/// Copies to `to`, a multiple of kLine, past the caches: otherwise memory is
/// read before it is written, which would be a fourth pass over the weights.
void copyPastCaches(std::byte *to, const uint8_t *from, uint64_t bytes) {
  uint64_t done = 0;
#if defined(__SSE2__)
  for (; done + kLine <= bytes; done += kLine) {
    auto *line = reinterpret_cast<__m128i *>(to + done);
    auto *source = reinterpret_cast<const __m128i *>(from + done);
    for (int i = 0; i < 4; ++i)
      _mm_stream_si128(line + i, _mm_loadu_si128(source + i));
  }
  _mm_sfence();
#endif
  std::memcpy(to + done, from + done, bytes - done);
}
} // namespace

StatusOr<std::unique_ptr<CudaRing>> CudaRing::create(const CudaDriver &driver,
                                                     const CudaContext &context,
                                                     RingShape shape,
                                                     int threads) {
  std::unique_ptr<CudaRing> ring(new CudaRing(driver, context, shape));
  StatusOr<CudaOwned<void *>> memory = context.allocatePinned(shape.bytes());
  while (!memory && ring->shape_.bytes() / 2 >= kLeastBytes) {
    ring->shape_ = ringShape(UINT64_MAX / 2, ring->shape_.bytes() / 2);
    memory = context.allocatePinned(ring->shape_.bytes());
  }
  if (!memory)
    return Status(memory.status())
        .append(fmt::format("; streaming experts takes at least {}: free "
                            "memory, or compile with --stream-experts off",
                            humanBytes(double(ring->shape_.bytes()))));
  ring->memory_ = *std::move(memory);
  MOE_ASSIGN_OR_RETURN(ring->stream_, context.createStream());
  constexpr unsigned kFlags = cu::kEventBlockingSync | cu::kEventDisableTiming;
  for (uint64_t i = 0; i < ring->shape_.slots; ++i) {
    ring->copied_.emplace_back();
    MOE_ASSIGN_OR_RETURN(ring->copied_.back(), context.createEvent(kFlags));
  }
  MOE_ASSIGN_OR_RETURN(ring->free_, context.createEvent(kFlags));
  MOE_ASSIGN_OR_RETURN(ring->landed_, context.createEvent(kFlags));
  MOE_ASSIGN_OR_RETURN(ring->pool_, WorkerPool::create(threads));
  return ring;
}

Status CudaRing::check(cu::Result result) const {
  return driver_.check(result, "streaming weights");
}

Status CudaRing::begin(std::span<const moek::cuda::HostCopy> copies) {
  pieces_.clear();
  pieceEnds_.clear();
  for (const moek::cuda::HostCopy &copy : copies) {
    for (int64_t done = 0; done < copy.bytes;) {
      int64_t bytes = std::min(copy.bytes - done, int64_t(shape_.slotBytes));
      pieces_.push_back({copy.from + done, copy.to + done, bytes});
      done += bytes;
    }
    pieceEnds_.push_back(pieces_.size());
  }
  copy_ = filled_ = enqueued_ = 0;
  isStopped_ = false;
  failure_ = Status::ok();
  try {
    thread_ = std::thread(&CudaRing::fill, this);
  } catch (const std::system_error &error) {
    return Status(StatusCode::DoesNotFit,
                  fmt::format("the system refuses a thread that streams "
                              "weights: {}",
                              error.what()));
  }
  return Status::ok();
}

void CudaRing::fill() {
  StatusOr<CudaContext::Use> use = context_.use();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    Status status = use ? Status::ok() : use.status();
    if (status.isOk() && i >= shape_.slots) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock,
                    [&] { return isStopped_ || enqueued_ + shape_.slots > i; });
      if (isStopped_)
        return;
      lock.unlock();
      status = check(
          driver_.api().cuEventSynchronize(copied_[i % shape_.slots].get()));
    }
    if (status.isOk())
      pool_->run([&](int32_t worker) {
        const auto bytes = uint64_t(pieces_[i].bytes);
        const uint64_t lines = (bytes + kLine - 1) / kLine;
        auto part = [&](int32_t of) {
          return std::min(
              lines * uint64_t(of) / uint64_t(pool_->team()) * kLine, bytes);
        };
        copyPastCaches(slot(i) + part(worker), pieces_[i].from + part(worker),
                       part(worker + 1) - part(worker));
      });
    std::lock_guard lock(mutex_);
    failure_ = std::move(status);
    ++filled_;
    changed_.notify_all();
    if (isStopped_ || !failure_.isOk())
      return;
  }
}

Status CudaRing::bring(size_t copies, bool first, cu::Stream stream) {
  const cu::Api &api = driver_.api();
  if (first)
    MOE_RETURN_IF_ERROR(check(api.cuEventRecord(free_.get(), stream)));
  MOE_RETURN_IF_ERROR(
      check(api.cuStreamWaitEvent(stream_.get(), free_.get(), 0)));
  copy_ += copies;
  while (enqueued_ < pieceEnds_[copy_ - 1]) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return filled_ > enqueued_; });
      MOE_RETURN_IF_ERROR(failure_);
    }
    const Piece &piece = pieces_[enqueued_];
    MOE_RETURN_IF_ERROR(check(api.cuMemcpyHtoDAsync_v2(
        reinterpret_cast<uintptr_t>(piece.to), slot(enqueued_),
        size_t(piece.bytes), stream_.get())));
    MOE_RETURN_IF_ERROR(check(api.cuEventRecord(
        copied_[enqueued_ % shape_.slots].get(), stream_.get())));
    std::lock_guard lock(mutex_);
    ++enqueued_;
    changed_.notify_all();
  }
  MOE_RETURN_IF_ERROR(check(api.cuEventRecord(landed_.get(), stream_.get())));
  MOE_RETURN_IF_ERROR(check(api.cuEventRecord(free_.get(), stream)));
  return check(api.cuStreamWaitEvent(stream, landed_.get(), 0));
}

void CudaRing::stop() {
  if (!thread_.joinable())
    return;
  {
    std::lock_guard lock(mutex_);
    isStopped_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Status CudaRing::end() {
  stop();
  return check(driver_.api().cuStreamSynchronize(stream_.get()));
}

} // namespace moert
