//===- SharedMemory.cpp ---------------------------------------------------===//

#include "test/softgpu/SharedMemory.h"

#include <algorithm>
#include <fmt/format.h>

namespace softgpu {

/// Stands for several lanes of a warp.
static constexpr uint8_t kSeveral = 255;

void SharedMemory::reset(uint64_t bytes, bool isChecked) {
  // A kernel must not rely on zeros in shared memory. Where reads are checked,
  // one of a byte that was not written is reported, so that what an earlier
  // block has left can stay; elsewhere all bytes are overwritten.
  if (isChecked)
    bytes_.resize(bytes, 0xA5);
  else
    bytes_.assign(bytes, 0xA5);
  ++block_;
  if (isChecked && granules_.size() < (bytes + 3) / 4)
    granules_.resize((bytes + 3) / 4);
  barrierEpoch = 0;
  atBarrier = {};
}

bool SharedMemory::isOrdered(const Access &before, const Who &who) {
  if (before.warp != who.warp)
    return who.clocks[before.warp] >= before.clock;
  return before.lane == who.lane || who.clocks[who.warp] > before.clock;
}

static SharedMemory::Conflict race(std::string_view mine,
                                   std::string_view theirs, int warp, int lane,
                                   bool sameWarp) {
  std::string who = lane == kSeveral
                        ? fmt::format("several lanes of warp {}", warp)
                        : fmt::format("warp {} lane {}", warp, lane);
  return {FindingKind::SharedRace,
          fmt::format("{} what {} {}, with no {} between", mine, who, theirs,
                      sameWarp ? "bar.warp.sync" : "barrier")};
}

static SharedMemory::Conflict pendingCopy(std::string_view mine) {
  return {
      FindingKind::AsyncRead,
      fmt::format("{} the destination of a cp.async that was not waited for",
                  mine)};
}

std::optional<SharedMemory::Conflict>
SharedMemory::read(uint64_t offset, uint64_t bytes, const Who &who) {
  std::optional<Conflict> conflict;
  uint32_t mine = who.clocks[who.warp];
  eachGranule(offset, bytes, [&](Granule &granule, uint8_t touched) {
    const Access &writer = granule.writer;
    if (granule.pending & touched)
      conflict = pendingCopy("reads");
    else if ((granule.written & touched) != touched)
      conflict = Conflict{FindingKind::Uninitialised,
                          "reads bytes that were never written"};
    else if ((writer.bytes & touched) && !(writer.isStrong && who.isStrong) &&
             !isOrdered(writer, who))
      conflict = race("reads", "has written", writer.warp, writer.lane,
                      writer.warp == who.warp);
    Access &reader = granule.reader;
    bool sameRead =
        reader.bytes && reader.warp == who.warp && reader.clock == mine;
    bool several = sameRead && reader.lane != who.lane;
    uint8_t before = sameRead ? reader.bytes : 0;
    bool strong = who.isStrong && (!sameRead || reader.isStrong);
    reader = {mine, uint8_t(who.warp), several ? kSeveral : uint8_t(who.lane),
              uint8_t(before | touched), strong};
    if (granule.readerEpoch != barrierEpoch)
      granule.readerWarps = 0;
    granule.readerEpoch = barrierEpoch;
    granule.readerWarps |= 1u << who.warp;
  });
  return conflict;
}

std::optional<SharedMemory::Conflict>
SharedMemory::write(uint64_t offset, uint64_t bytes, const Who &who) {
  std::optional<Conflict> conflict;
  eachGranule(offset, bytes, [&](Granule &granule, uint8_t touched) {
    const Access &writer = granule.writer, &reader = granule.reader;
    if (granule.pending & touched)
      conflict = pendingCopy("writes");
    else if (granule.products)
      conflict = Conflict{FindingKind::AsyncProduct,
                          "writes what a wgmma reads that was not waited for"};
    else if ((writer.bytes & touched) && !(writer.isStrong && who.isStrong) &&
             !isOrdered(writer, who))
      conflict = race("writes", "has written", writer.warp, writer.lane,
                      writer.warp == who.warp);
    else if ((reader.bytes & touched) && !(reader.isStrong && who.isStrong) &&
             !isOrdered(reader, who))
      conflict = race("writes", "has read", reader.warp, reader.lane,
                      reader.warp == who.warp);
    else if ((reader.bytes & touched) && !who.isStrong &&
             granule.readerEpoch == barrierEpoch)
      // An earlier reader is ordered only if this warp knows of a barrier of
      // the reader's warp since the block's last common barrier.
      for (int warp = 0; warp < 32; ++warp)
        if (granule.readerWarps >> warp & 1 && warp != who.warp &&
            warp != reader.warp && who.clocks[warp] <= atBarrier[warp])
          conflict = race("writes", "has read", warp, kSeveral, false);
    bool same =
        writer.bytes && writer.warp == who.warp && writer.lane == who.lane;
    granule.writer = {
        who.clocks[who.warp], uint8_t(who.warp), uint8_t(who.lane),
        uint8_t((same ? writer.bytes : 0) | touched), who.isStrong};
    granule.fence = who.fences[size_t(who.warp)];
    granule.written |= touched;
    if (touched == 15)
      granule.reader.bytes = 0, granule.readerWarps = 0;
  });
  return conflict;
}

std::optional<SharedMemory::Conflict>
SharedMemory::issueCopy(uint64_t offset, uint64_t bytes, const Who &who) {
  std::optional<Conflict> conflict = write(offset, bytes, who);
  eachGranule(offset, bytes, [&](Granule &granule, uint8_t touched) {
    granule.pending |= touched;
  });
  return conflict;
}

void SharedMemory::landCopy(uint64_t offset, uint64_t bytes, const Who &who) {
  eachGranule(offset, bytes, [&](Granule &granule, uint8_t touched) {
    granule.pending &= uint8_t(~touched);
    granule.writer = {who.clocks[who.warp], uint8_t(who.warp),
                      uint8_t(who.lane), touched, false};
    granule.fence = who.fences[size_t(who.warp)];
  });
}

void SharedMemory::landBulk(uint64_t offset, uint64_t bytes) {
  eachGranule(offset, bytes, [&](Granule &granule, uint8_t touched) {
    granule.pending &= uint8_t(~touched);
  });
}

std::optional<SharedMemory::Conflict>
SharedMemory::readForProduct(uint64_t offset, const Who &who) {
  std::optional<Conflict> conflict = read(offset, 4, who);
  Granule &granule = granuleOf(offset);
  size_t writer = granule.writer.warp;
  if (!conflict && writer != size_t(kProxyWarp) &&
      who.fences[writer] <= granule.fence)
    conflict = Conflict{
        FindingKind::AsyncProduct,
        fmt::format("reads what warp {} has written, with no "
                    "fence.proxy.async by that warp and barrier between",
                    writer)};
  ++granule.products;
  return conflict;
}

void SharedMemory::endProduct(uint32_t granule, const Who &who) {
  --granuleOf(uint64_t(granule) * 4).products;
  (void)read(uint64_t(granule) * 4, 4, who);
}

} // namespace softgpu
