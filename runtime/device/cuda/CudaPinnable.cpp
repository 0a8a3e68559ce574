#include "runtime/device/cuda/CudaPinnable.h"

#include "runtime/base/ParallelPieces.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>

namespace moert {

/// What a thread copies at a time: many huge pages, so that pages of one piece
/// are on one memory node.
static constexpr size_t kPieceBytes = size_t(64) << 20;

static Status failed(const char *action) {
  return Status(StatusCode::Io, fmt::format("{} weights that a GPU reads: {}",
                                            action, std::strerror(errno)));
}

Status makePinnable(std::span<std::byte> pages, bool isCopy) {
  if (isCopy)
    return ::mprotect(pages.data(), pages.size(), PROT_READ | PROT_WRITE) == 0
               ? Status::ok()
               : failed("making writable");
  void *copy = ::mmap(nullptr, pages.size(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    return Status(StatusCode::DoesNotFit,
                  fmt::format("{} of weights that a GPU reads in the host's "
                              "memory do not fit into it: {}; if they are "
                              "streamed, compile without --pin-weights",
                              humanBytes(double(pages.size())),
                              std::strerror(errno)));
  (void)::madvise(copy, pages.size(), MADV_HUGEPAGE);
  auto makeTask = [&]() -> PieceTask {
    return [&](size_t index) -> StatusOr<uint64_t> {
      size_t at = index * kPieceBytes;
      size_t bytes = std::min(kPieceBytes, pages.size() - at);
      std::memcpy(static_cast<std::byte *>(copy) + at, pages.data() + at,
                  bytes);
      return uint64_t(bytes);
    };
  };
  Status status = forEachPiece((pages.size() + kPieceBytes - 1) / kPieceBytes,
                               pages.size(), {}, makeTask);
  if (status.isOk() &&
      ::mremap(copy, pages.size(), pages.size(), MREMAP_MAYMOVE | MREMAP_FIXED,
               pages.data()) == MAP_FAILED)
    status = failed("moving");
  if (!status.isOk())
    ::munmap(copy, pages.size());
  return status;
}

} // namespace moert
