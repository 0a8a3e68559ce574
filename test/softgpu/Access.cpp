//===- Access.cpp - Checks and counts memory requests ---------------------===//

#include "test/softgpu/Access.h"

#include "test/softgpu/Recording.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace softgpu {

void addressesOf(Warp &warp, const Op &op, int source, uint64_t *out) {
  uint64_t offset = uint64_t(op.imm);
  if (op.addressBytes == 8) {
    const uint64_t *base = warp.lanes<uint64_t>(op.r[op.results + source]);
    for (int i = 0; i < kLanes; ++i)
      out[i] = base[i] + offset;
  } else if (op.addressBytes == 4) {
    const uint32_t *base = warp.lanes<uint32_t>(op.r[op.results + source]);
    for (int i = 0; i < kLanes; ++i)
      out[i] = uint32_t(base[i] + offset);
  } else {
    std::fill_n(out, kLanes, offset);
  }
}

namespace {

struct Run {
  uint64_t begin, end;
};

/// Merges the ranges of lanes that continue the previous one's or lie in it;
/// returns how many are left, at most 32.
int runsOf(const uint64_t *address, Mask mask, uint32_t bytes, Run *runs) {
  int count = 0;
  for (Mask left = mask; left; left &= left - 1) {
    uint64_t at = address[std::countr_zero(left)];
    if (count && runs[count - 1].end == at)
      runs[count - 1].end += bytes;
    else if (!count || at < runs[count - 1].begin ||
             at + bytes > runs[count - 1].end)
      runs[count++] = {at, at + bytes};
  }
  return count;
}

bool isAccess(AccessKind kind) { return kind != AccessKind::Write; }

std::string_view verb(AccessKind kind) {
  return kind == AccessKind::Read    ? "reads"
         : kind == AccessKind::Write ? "writes"
                                     : "updates";
}

int laneAt(const uint64_t *address, Mask mask, uint32_t bytes, uint64_t at) {
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    if (at - address[lane] < bytes)
      return lane;
  }
  return std::countr_zero(mask);
}

void checkAlignment(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
                    AccessKind kind, const uint64_t *address) {
  uint64_t low = 0; // With inactive lanes, which may have any address.
  for (int i = 0; i < kLanes; ++i)
    low |= address[i];
  if (!(low & (bytes - 1)))
    return;
  for (int lane = 0; lane < kLanes; ++lane)
    if (mask >> lane & 1 && address[lane] & (bytes - 1))
      report(warp, op, lane, FindingKind::Misaligned,
             fmt::format("{} {} bytes at {:#x}, which is not a multiple of {}",
                         verb(kind), bytes, address[lane], bytes),
             address[lane]);
}

[[noreturn]] void outside(Warp &warp, const Op &op, int lane, uint32_t bytes,
                          AccessKind kind, uint64_t address) {
  Allocation *allocation = warp.launch->memory->find(address);
  bool isFreed = allocation && allocation->isFreed;
  report(warp, op, lane,
         isFreed ? FindingKind::UseAfterFree : FindingKind::OutOfBounds,
         fmt::format("{} {} bytes at {:#x}: {}", verb(kind), bytes, address,
                     warp.launch->memory->describe(address)),
         address);
}

void resolveGlobal(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
                   AccessKind kind, Request &request) {
  Launch &launch = *warp.launch;
  DeviceMemory &memory = *launch.memory;
  const uint64_t *address = request.address;
  checkAlignment(warp, op, mask, bytes, kind, address);
  Run runs[kLanes];
  int count = runsOf(address, mask, bytes, runs);
  Allocation *of[kLanes] = {};
  for (int i = 0; i < count; ++i) {
    Allocation *allocation = of[i] = memory.find(runs[i].begin);
    if (!allocation || allocation->isFreed ||
        runs[i].end - allocation->base > allocation->bytes) {
      for (Mask left = mask; left; left &= left - 1) {
        int lane = std::countr_zero(left);
        uint64_t at = address[lane];
        Allocation *own = memory.find(at);
        if (!own || own->isFreed || at + bytes - own->base > own->bytes)
          outside(warp, op, lane, bytes, kind, at);
      }
    }
    if (kind != AccessKind::Read && allocation->isReadOnly)
      report(warp, op, laneAt(address, mask, bytes, runs[i].begin),
             FindingKind::ReadOnly,
             fmt::format("{} {}, which is read-only", verb(kind),
                         memory.describe(runs[i].begin)),
             runs[i].begin);
  }
  if (count == 1 || of[0] == of[count - 1]) {
    // Computed as numbers, because inactive lanes may have any address.
    uintptr_t base = reinterpret_cast<uintptr_t>(of[0]->host) - of[0]->base;
    bool same =
        std::all_of(of, of + count, [&](Allocation *a) { return a == of[0]; });
    for (int i = 0; i < kLanes && same; ++i)
      request.host[i] = reinterpret_cast<uint8_t *>(base + address[i]);
    if (!same)
      count = -count;
  } else {
    count = -count;
  }
  if (count < 0) {
    count = -count;
    for (Mask left = mask; left; left &= left - 1) {
      int lane = std::countr_zero(left);
      Allocation *own = memory.find(address[lane]);
      request.host[lane] = own->host + (address[lane] - own->base);
    }
  }
  if (!launch.isChecked)
    return;
  bool isStrong =
      kind == AccessKind::Atomic || (op.order != Order::Weak && op.isGpuScope);
  for (int i = 0; i < count; ++i) {
    Allocation &allocation = *of[i];
    request.isOfHost |= allocation.isHost;
    uint64_t offset = runs[i].begin - allocation.base,
             length = runs[i].end - runs[i].begin;
    if (kind != AccessKind::Write && !allocation.isWritten(offset, length))
      for (uint64_t at = offset; at < offset + length; ++at)
        if (!allocation.isWritten(at, 1)) {
          uint64_t where = allocation.base + at;
          report(warp, op, laneAt(address, mask, bytes, where),
                 FindingKind::Uninitialised,
                 fmt::format("reads {}, which was never written",
                             memory.describe(where)),
                 where);
        }
    int64_t other = kind == AccessKind::Read
                        ? memory.races.read(allocation, offset, length,
                                            warp.block->clock, isStrong)
                        : memory.races.write(allocation, offset, length,
                                             warp.block->clock, isStrong);
    if (other >= 0)
      report(warp, op, laneAt(address, mask, bytes, runs[i].begin),
             FindingKind::BlockRace,
             fmt::format("{} {}, which {} accesses too, with no release and "
                         "acquire between",
                         verb(kind), memory.describe(runs[i].begin),
                         other == BlockRaces::kSeveral
                             ? "another block"
                             : fmt::format("block {}", other)),
             runs[i].begin);
    if (kind != AccessKind::Read)
      allocation.markWritten(offset, length);
    if (launch.touched && !isStrong) {
      (kind == AccessKind::Read ? launch.touched->reads
                                : launch.touched->writes)
          .add(runs[i].begin, runs[i].end);
      if (launch.touched->wantsSectors)
        warp.block->sectors.add(runs[i].begin / 32 * 32,
                                (runs[i].end + 31) / 32 * 32);
    }
  }
}

void resolveShared(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
                   AccessKind kind, Request &request, uint64_t window) {
  SharedMemory &shared = warp.block->shared;
  checkAlignment(warp, op, mask, bytes, kind, request.address);
  bool isStrong = kind == AccessKind::Atomic || op.order != Order::Weak;
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    uint64_t offset = request.address[lane] - window;
    if (offset + bytes > shared.size() || offset > shared.size())
      report(warp, op, lane, FindingKind::OutOfBounds,
             fmt::format("{} {} bytes at {} of {} bytes of shared memory",
                         verb(kind), bytes, int64_t(offset), shared.size()),
             request.address[lane]);
    request.host[lane] = shared.data() + offset;
    if (!warp.launch->isChecked)
      continue;
    std::optional<SharedMemory::Conflict> conflict;
    if (isAccess(kind))
      conflict = shared.read(offset, bytes, whoIs(warp, lane, isStrong));
    if (!conflict && kind != AccessKind::Read)
      conflict = shared.write(offset, bytes, whoIs(warp, lane, isStrong));
    if (conflict)
      report(
          warp, op, lane, conflict->kind,
          fmt::format("{} at byte {} of shared memory", conflict->what, offset),
          request.address[lane]);
  }
}

void resolveLocal(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
                  AccessKind kind, Request &request, uint64_t window) {
  uint64_t size = warp.launch->kernel->localBytes;
  checkAlignment(warp, op, mask, bytes, kind, request.address);
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    uint64_t offset = request.address[lane] - window;
    if (offset + bytes > size || offset > size)
      report(warp, op, lane, FindingKind::OutOfBounds,
             fmt::format("{} {} bytes at {} of {} bytes of local memory",
                         verb(kind), bytes, int64_t(offset), size),
             request.address[lane]);
    uint64_t at = uint64_t(lane) * size + offset;
    request.host[lane] = warp.local.data() + at;
    if (!warp.launch->isChecked)
      continue;
    uint8_t *written = warp.localWritten.data() + at;
    if (isAccess(kind) &&
        std::find(written, written + bytes, 0) != written + bytes)
      report(
          warp, op, lane, FindingKind::Uninitialised,
          fmt::format("reads byte {} of local memory, which was never written",
                      offset),
          request.address[lane]);
    if (kind != AccessKind::Read)
      std::fill_n(written, bytes, 1);
  }
}

void resolveParam(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
                  AccessKind kind, Request &request, uint64_t window) {
  Launch &launch = *warp.launch;
  checkAlignment(warp, op, mask, bytes, kind, request.address);
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    uint64_t offset = request.address[lane] - window;
    if (kind != AccessKind::Read)
      report(warp, op, lane, FindingKind::ReadOnly, "writes a parameter",
             request.address[lane]);
    if (offset + bytes > launch.params.size() || offset > launch.params.size())
      report(warp, op, lane, FindingKind::OutOfBounds,
             fmt::format("reads {} bytes at {} of {} bytes of parameters",
                         bytes, int64_t(offset), launch.params.size()),
             request.address[lane]);
    request.host[lane] = launch.params.data() + offset;
  }
}

void resolveIn(Space space, Warp &warp, const Op &op, Mask mask, uint32_t bytes,
               AccessKind kind, Request &request, bool isGeneric) {
  Launch &launch = *warp.launch;
  switch (space) {
  case Space::Shared:
    if (launch.isCounting && op.opClass != OpClass::MatrixLoad)
      countBanks(kind == AccessKind::Read ? launch.counters.sharedLoads
                                          : launch.counters.sharedStores,
                 request.address, mask, bytes);
    return resolveShared(warp, op, mask, bytes, kind, request,
                         isGeneric ? DeviceMemory::kSharedWindow : 0);
  case Space::Local:
    return resolveLocal(warp, op, mask, bytes, kind, request,
                        isGeneric ? DeviceMemory::kLocalWindow : 0);
  case Space::Param:
    return resolveParam(warp, op, mask, bytes, kind, request,
                        isGeneric ? DeviceMemory::kParamWindow : 0);
  default:
    if (launch.isCounting && space != Space::Const)
      countSectors(kind == AccessKind::Read    ? launch.counters.globalLoads
                   : kind == AccessKind::Write ? launch.counters.globalStores
                                               : launch.counters.globalAtomics,
                   request.address, mask, bytes);
    if (launch.recorder && space != Space::Const)
      launch.recorder->global(
          warp, request.address, mask, bytes, kind != AccessKind::Read,
          // Copies of fewer than 16 bytes are always .ca, "cache at all
          // levels".
          op.order != Order::Weak || op.opClass == OpClass::BulkCopy ||
              (op.opClass == OpClass::AsyncCopy && op.bytes == 16));
    return resolveGlobal(warp, op, mask, bytes, kind, request);
  }
}

Space windowOf(uint64_t address) {
  if (address < DeviceMemory::kParamWindow)
    return Space::Global;
  return address < DeviceMemory::kLocalWindow    ? Space::Param
         : address < DeviceMemory::kSharedWindow ? Space::Local
                                                 : Space::Shared;
}

} // namespace

void resolve(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
             AccessKind kind, Request &request) {
  if (op.space != Space::Generic)
    return resolveIn(op.space, warp, op, mask, bytes, kind, request, false);
  while (mask) {
    Space space = windowOf(request.address[std::countr_zero(mask)]);
    Mask same = 0;
    for (Mask left = mask; left; left &= left - 1)
      if (windowOf(request.address[std::countr_zero(left)]) == space)
        same |= left & -left;
    resolveIn(space, warp, op, same, bytes, kind, request, true);
    mask &= ~same;
  }
}

Mask checkConflicts(Warp &warp, const Op &op, Mask mask, uint32_t bytes,
                    const uint64_t *address, const uint8_t *values) {
  Run runs[kLanes];
  if (runsOf(address, mask, bytes, runs) == 1 &&
      runs[0].end - runs[0].begin == uint64_t(bytes) * std::popcount(mask))
    return mask;
  Mask first = 0;
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    bool repeats = false;
    for (Mask seen = first; seen && !repeats; seen &= seen - 1) {
      int other = std::countr_zero(seen);
      if (address[other] != address[lane] ||
          (op.space == Space::Generic &&
           windowOf(address[lane]) == Space::Local))
        continue;
      repeats = true;
      if (std::memcmp(values + other * bytes, values + lane * bytes, bytes))
        report(
            warp, op, lane, FindingKind::WriteConflict,
            fmt::format("writes {:#x}, to which lane {} writes another value",
                        address[lane], other),
            address[lane]);
    }
    if (!repeats)
      first |= left & -left;
  }
  return first;
}

void countSectors(Counters::Traffic &traffic, const uint64_t *address,
                  Mask mask, uint32_t bytes) {
  Run runs[kLanes];
  int count = runsOf(address, mask, bytes, runs);
  if (count > 1)
    std::sort(runs, runs + count,
              [](const Run &a, const Run &b) { return a.begin < b.begin; });
  uint64_t end = 0, nextSector = 0;
  for (int i = 0; i < count; ++i) {
    uint64_t begin = std::max(runs[i].begin, end);
    if (begin >= runs[i].end)
      continue;
    traffic.usefulBytes += runs[i].end - begin;
    uint64_t sector = std::max(begin / 32, nextSector),
             last = (runs[i].end - 1) / 32;
    if (last >= sector)
      traffic.sectors += last - sector + 1;
    nextSector = std::max(nextSector, last + 1);
    end = runs[i].end;
  }
  ++traffic.requests;
}

void countBanks(Counters::Banks &banks, const uint64_t *address, Mask mask,
                uint32_t bytes) {
  ++banks.requests;
  Run runs[kLanes];
  int count = runsOf(address, mask, bytes, runs);
  if (count == 1) {
    uint64_t passes = ((runs[0].end + 3) / 4 - runs[0].begin / 4 + 31) / 32;
    banks.wavefronts += passes;
    banks.idealWavefronts += passes;
    return;
  }
  // A pass serves 128 bytes: 8 or 16 lanes if each accesses 16 or 8 bytes.
  int lanes = bytes <= 4 ? 32 : 128 / int(bytes);
  uint64_t words = 0;
  for (int from = 0; from < kLanes; from += lanes) {
    uint64_t held[32][32];
    int used[32] = {};
    for (int lane = from; lane < from + lanes; ++lane) {
      if (!(mask >> lane & 1))
        continue;
      for (uint64_t word = address[lane] / 4;
           word <= (address[lane] + bytes - 1) / 4; ++word) {
        int bank = int(word & 31);
        if (std::find(held[bank], held[bank] + used[bank], word) ==
            held[bank] + used[bank])
          held[bank][used[bank]++] = word, ++words;
      }
    }
    banks.wavefronts += uint64_t(*std::max_element(used, used + 32));
  }
  banks.idealWavefronts += (words + 31) / 32;
}

} // namespace softgpu
