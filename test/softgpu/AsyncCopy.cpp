//===- AsyncCopy.cpp - cp.async and its groups ----------------------------===//

#include "test/softgpu/Access.h"
#include "test/softgpu/Decoder.h"

#include <algorithm>
#include <bit>

namespace softgpu {

static void land(Warp &warp, AsyncCopy &copy) {
  if (copy.hasLanded)
    return;
  copy.hasLanded = true;
  uint8_t *to = warp.block->shared.data() + copy.destination;
  std::memset(to, 0, copy.bytes);
  if (copy.sourceBytes)
    warp.launch->memory->copyOut(to, copy.source, copy.sourceBytes);
}

/// Whether the bytes arrive before the thread waits for them.
static bool landsEarly(const Warp &warp, const AsyncCopy &copy) {
  const SoftGpuOptions &options = *warp.launch->options;
  if (options.asyncLanding != AsyncLanding::Seeded)
    return options.asyncLanding == AsyncLanding::Early;
  uint64_t hash = (copy.destination + warp.executed * 64 + options.seed) *
                  0x9E3779B97F4A7C15;
  return hash >> 63;
}

/// r: destination, source, then [size of the source] or [predicate: ignore the
/// source]. kind: 1 there is a size, 2 there is a predicate.
static void copyAsync(Warp &warp, const Op &op, Mask mask) {
  Request to, from;
  Op part = op; // A copy of the op that has one address at a time.
  int next = 0;
  auto addresses = [&](uint8_t bytes, int64_t imm, Request &request) {
    part.addressBytes = bytes;
    part.imm = imm;
    addressesOf(warp, part, next, request.address);
    next += bytes ? 1 : 0;
  };
  addresses(op.addressBytes, op.imm, to);
  addresses(op.registerBytes, int64_t(int32_t(op.target)), from);
  const uint32_t *size =
      op.kind & 1 ? warp.lanes<uint32_t>(op.r[next]) : nullptr;
  Mask ignored = op.kind & 2 ? warp.predicate(op.r[next]) : 0;
  Mask zeros = ignored;
  for (int i = 0; size && i < kLanes; ++i)
    zeros |= size[i] == 0 ? Mask(1) << i : 0;
  part.space = Space::Global;
  // Lanes that read a whole word make one request together. A lane with a
  // smaller size reads byte by byte.
  Mask whole = mask & ~zeros;
  for (int i = 0; size && i < kLanes; ++i)
    if (whole >> i & 1 && size[i] != op.bytes) {
      whole &= ~(Mask(1) << i);
      if (size[i] > op.bytes)
        report(warp, op, i, FindingKind::OutOfBounds,
               fmt::format("cp.async reads {} of {} bytes", size[i], op.bytes));
      Request single = from;
      for (uint32_t byte = 0; byte < size[i]; ++byte, ++single.address[i])
        resolve(warp, part, Mask(1) << i, 1, AccessKind::Read, single);
    }
  if (whole)
    resolve(warp, part, whole, op.bytes, AccessKind::Read, from);
  part.space = Space::Shared;
  SharedMemory &shared = warp.block->shared;
  if (warp.launch->isCounting)
    countBanks(warp.launch->counters.sharedStores, to.address, mask, op.bytes);
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    uint64_t offset = to.address[lane];
    if (offset >= DeviceMemory::kSharedWindow)
      offset -= DeviceMemory::kSharedWindow;
    if (offset % op.bytes)
      report(warp, op, lane, FindingKind::Misaligned,
             fmt::format("cp.async of {} bytes to byte {} of shared memory",
                         op.bytes, offset),
             offset);
    if (offset > shared.size() || offset + op.bytes > shared.size())
      report(warp, op, lane, FindingKind::OutOfBounds,
             fmt::format("cp.async to byte {} of {} bytes of shared memory",
                         offset, shared.size()),
             offset);
    if (warp.launch->isChecked)
      if (auto conflict = shared.issueCopy(offset, op.bytes, whoIs(warp, lane)))
        report(warp, op, lane, conflict->kind,
               fmt::format("{} at byte {} of shared memory", conflict->what,
                           offset),
               offset);
    AsyncCopy copy;
    copy.source = from.address[lane];
    copy.destination = uint32_t(offset);
    copy.bytes = op.bytes;
    copy.sourceBytes = zeros >> lane & 1 ? 0
                       : size            ? uint8_t(size[lane])
                                         : op.bytes;
    copy.lane = uint8_t(lane);
    if (landsEarly(warp, copy))
      land(warp, copy);
    warp.openCopies.push_back(copy);
  }
}

static void commit(Warp &warp, const Op &op, Mask mask) {
  CopyGroup group;
  group.lanes = mask;
  std::erase_if(warp.openCopies, [&](const AsyncCopy &copy) {
    if (mask >> copy.lane & 1)
      group.copies.push_back(copy);
    return mask >> copy.lane & 1;
  });
  warp.copyGroups.push_back(std::move(group));
}

static void landFor(Warp &warp, std::vector<AsyncCopy> &copies, Mask lanes) {
  std::erase_if(copies, [&](AsyncCopy &copy) {
    if (!(lanes >> copy.lane & 1))
      return false;
    land(warp, copy);
    if (warp.launch->isChecked)
      warp.block->shared.landCopy(copy.destination, copy.bytes,
                                  whoIs(warp, copy.lane));
    return true;
  });
}

/// imm: how many of a thread's newest groups may remain in flight.
static void waitGroups(Warp &warp, const Op &op, Mask mask) {
  std::array<int64_t, kLanes> newer{};
  for (size_t i = warp.copyGroups.size(); i-- > 0;) {
    CopyGroup &group = warp.copyGroups[i];
    Mask due = 0;
    for (Mask left = group.lanes & mask; left; left &= left - 1) {
      int lane = std::countr_zero(left);
      if (newer[lane]++ >= op.imm)
        due |= left & -left;
    }
    landFor(warp, group.copies, due);
    group.lanes &= ~due;
  }
  std::erase_if(warp.copyGroups,
                [](const CopyGroup &group) { return !group.lanes; });
}

static void waitAll(Warp &warp, const Op &op, Mask mask) {
  commit(warp, op, mask);
  waitGroups(warp, op, mask);
}

void decodeAsyncCopy(Decoder &decoder) {
  decoder.choose({"async"});
  if (decoder.accept("bulk"))
    return decodeBulkCopy(decoder);
  decoder.needArch(80);
  switch (
      decoder.choose({"ca", "cg", "commit_group", "wait_group", "wait_all"})) {
  case 2:
    decoder.begin(commit, OpClass::AsyncCopy);
    return;
  case 3: {
    const PtxOperand &count = decoder.operand(0);
    if (count.kind != PtxOperand::Int)
      decoder.fail("cp.async.wait_group takes a number");
    decoder.begin(waitGroups, OpClass::AsyncCopy).imm = int64_t(count.bits);
    return;
  }
  case 4:
    decoder.begin(waitAll, OpClass::AsyncCopy);
    return;
  default:
    break;
  }
  bool isCg = decoder.instruction().modifiers[1] == "cg";
  decoder.choose({"shared", "shared::cta"});
  decoder.choose({"global"});
  bool hasHint = decoder.accept("L2::cache_hint");
  decoder.chooseOr(-1, {"L2::64B", "L2::128B", "L2::256B"});
  hasHint |= decoder.accept("L2::cache_hint");
  decoder.needOperands(3, hasHint ? 5 : 4);
  const PtxOperand &size = decoder.operand(2);
  if (size.kind != PtxOperand::Int ||
      (size.bits != 4 && size.bits != 8 && size.bits != 16) ||
      (isCg && size.bits != 16))
    decoder.fail(fmt::format("'{}' of {} bytes", decoder.instruction().text(),
                             size.bits));
  Op &op = decoder.begin(copyAsync, OpClass::AsyncCopy);
  op.isStrict = true;
  op.bytes = uint8_t(size.bits);
  decoder.address(op, decoder.operand(1));
  // The op has only the register of the source's address so far; in `r` the
  // destination's comes before it.
  Op from = op;
  op.sources = 0;
  decoder.address(op, decoder.operand(0));
  if (from.sources)
    decoder.sourcePlace(from.r[0]);
  op.registerBytes = from.addressBytes;
  op.target = uint32_t(int32_t(from.imm));
  if (decoder.operandCount() > 3 + (hasHint ? 1 : 0)) {
    const PtxOperand &extra = decoder.operand(3);
    bool isPredicate =
        extra.kind == PtxOperand::Name && !decoder.registerBytes(extra);
    op.kind = isPredicate ? 2 : 1;
    decoder.source(extra, Decoder::bits(isPredicate ? 0 : 4));
  }
}

} // namespace softgpu
