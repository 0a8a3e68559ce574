//===- Mbarrier.cpp - mbarrier, and the bulk copies that it counts --------===//
//
// PTX ISA 9.7.13.15, "mbarrier", and 9.7.9.25.4, "cp.async.bulk". Supported are
// one-sided barriers: a thread arrives and says how many bytes it expects, and
// others wait by parity.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Mbarrier.h"

#include "test/softgpu/Access.h"
#include "test/softgpu/Cluster.h"
#include "test/softgpu/Decoder.h"
#include "test/softgpu/Recording.h"

#include <algorithm>
#include <bit>

namespace softgpu {

static constexpr uint32_t kMbarrierBytes = 8;
/// Largest arrival count, and largest transaction count.
static constexpr int64_t kMostCount = (1 << 20) - 1;

/// Reports what is wrong with `bytes` bytes at a place in shared memory that
/// must be a multiple of `align`.
static void checkPlace(Warp &warp, const Op &op, int lane, uint32_t at,
                       uint64_t bytes, uint32_t align) {
  if (at % align)
    report(warp, op, lane, FindingKind::Misaligned,
           fmt::format("byte {} of shared memory is not a multiple of {}", at,
                       align),
           at);
  uint64_t size = warp.block->shared.size();
  if (at + bytes > size)
    report(warp, op, lane, FindingKind::OutOfBounds,
           fmt::format("{} bytes at byte {} of {} bytes of shared memory",
                       bytes, at, size),
           at);
}

/// Reports an access that nothing orders after those before.
static void need(Warp &warp, const Op &op, int lane, uint32_t at,
                 const std::optional<SharedMemory::Conflict> &conflict) {
  if (conflict)
    report(warp, op, lane, conflict->kind,
           fmt::format("{} at byte {} of shared memory", conflict->what, at),
           at);
}

/// Finds the mbarrier at `at` of a block, which `who` uses.
static Mbarrier &mbarrierAt(Warp &warp, const Op &op, int lane, Block &block,
                            uint32_t at, const SharedMemory::Who &who) {
  checkPlace(warp, op, lane, at, kMbarrierBytes, kMbarrierBytes);
  auto found = block.mbarriers.find(at);
  if (found == block.mbarriers.end())
    report(warp, op, lane, FindingKind::Uninitialised,
           fmt::format("uses byte {} of shared memory, where block ({}, {}, "
                       "{}) has no mbarrier",
                       at, block.id[0], block.id[1], block.id[2]),
           at);
  if (warp.launch->isChecked)
    need(warp, op, lane, at, block.shared.read(at, kMbarrierBytes, who));
  return found->second;
}

static void initialise(Warp &warp, const Op &op, Mask mask) {
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    uint32_t at = warp.lanes<uint32_t>(op.r[0])[lane],
             count = warp.lanes<uint32_t>(op.r[1])[lane];
    checkPlace(warp, op, lane, at, kMbarrierBytes, kMbarrierBytes);
    if (!count || count > kMostCount)
      report(
          warp, op, lane, FindingKind::Mbarrier,
          fmt::format("{} arrivals; 1 to {} are possible", count, kMostCount));
    if (warp.launch->isChecked)
      need(warp, op, lane, at,
           warp.block->shared.write(at, kMbarrierBytes, whoIs(warp, lane)));
    Mbarrier &barrier = warp.block->mbarriers[at];
    if (!barrier.copies.empty() || barrier.bytes)
      report(warp, op, lane, FindingKind::Mbarrier,
             "initialises an mbarrier that waits for bytes");
    barrier = {};
    barrier.count = barrier.pending = count;
    barrier.warp = warp.index;
  }
}

void fenceMbarriers(Warp &warp, const Op &, Mask) {
  for (auto &[at, barrier] : warp.block->mbarriers)
    barrier.isFenced |= barrier.warp == warp.index;
}

/// Completes the phase if nothing is missing.
static void settle(Warp &warp, const Op &op, int lane, Mbarrier &barrier) {
  if (std::abs(barrier.bytes) > kMostCount)
    report(warp, op, lane, FindingKind::Mbarrier,
           fmt::format("{} bytes are expected; at most {} are possible",
                       barrier.bytes, kMostCount));
  if (barrier.pending)
    return;
  if (barrier.bytes < 0)
    report(warp, op, lane, FindingKind::Mbarrier,
           fmt::format("{} more bytes have arrived than are expected",
                       -barrier.bytes));
  if (barrier.bytes)
    return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  joinClocks(barrier.complete, barrier.arrived);
  barrier.arrived = {};
  uint32_t &proxy = barrier.complete[SharedMemory::kProxyWarp];
  for (const BulkCopy &copy : barrier.copies)
    proxy = std::max(proxy, copy.clock);
  std::move(barrier.copies.begin(), barrier.copies.end(),
            std::back_inserter(barrier.landed));
  barrier.copies.clear();
}

static void expectBytes(Warp &warp, const Op &op, Mask mask) {
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    uint32_t at = warp.lanes<uint32_t>(op.r[0])[lane],
             bytes = warp.lanes<uint32_t>(op.r[1])[lane];
    Mbarrier &barrier =
        mbarrierAt(warp, op, lane, *warp.block, at, whoIs(warp, lane, true));
    if (!barrier.pending)
      report(warp, op, lane, FindingKind::Mbarrier,
             fmt::format("more than {} arrivals in a phase, which waits for {} "
                         "bytes",
                         barrier.count, barrier.bytes));
    if (warp.launch->recorder)
      warp.launch->recorder->background(at, bytes);
    --barrier.pending;
    barrier.bytes += bytes;
    joinClocks(barrier.arrived, warp.clocks);
    settle(warp, op, lane, barrier);
  }
  ++warp.clocks[size_t(warp.index)];
}

/// Copies the bytes and counts them.
static void land(Warp &warp, const Op &op, int lane, Block &block,
                 Mbarrier &barrier, BulkCopy &copy) {
  copy.hasLanded = true;
  warp.launch->memory->copyOut(block.shared.data() + copy.destination,
                               copy.source, copy.bytes);
  barrier.bytes -= copy.bytes;
  if (!barrier.pending)
    settle(warp, op, lane, barrier);
}

static bool chance(const Warp &warp, uint64_t of) {
  uint64_t hash = (of + warp.executed * 64 + warp.launch->options->seed) *
                  0x9E3779B97F4A7C15;
  return hash >> 63;
}

/// Lands what is in flight to an mbarrier, in the order in which it was issued.
static void landAll(Warp &warp, const Op &op, int lane, Mbarrier &barrier) {
  std::vector<BulkCopy> &copies = barrier.copies;
  // The last one may complete the phase, and move the copies.
  for (size_t i = 0; i < copies.size(); ++i)
    if (!copies[i].hasLanded)
      land(warp, op, lane, *warp.block, barrier, copies[i]);
}

bool waitForPhase(Warp &warp, const Op &op, Mask mask) {
  int lane = std::countr_zero(mask);
  const uint32_t *addresses = warp.lanes<uint32_t>(op.r[1]),
                 *parities = warp.lanes<uint32_t>(op.r[2]);
  uint32_t at = addresses[lane], parity = parities[lane];
  for (Mask left = mask; left; left &= left - 1)
    if (int other = std::countr_zero(left);
        addresses[other] != at || parities[other] != parity)
      report(warp, op, other, FindingKind::DivergentWarp,
             "waits for another phase than other lanes, which is not "
             "supported");
  Mbarrier &barrier =
      mbarrierAt(warp, op, lane, *warp.block, at, whoIs(warp, lane, true));
  Mask &done = warp.predicate(op.r[0]);
  // try_wait may return before the phase is complete at any time.
  if (warp.launch->options->asyncLanding == AsyncLanding::Seeded &&
      chance(warp, at)) {
    done &= ~mask;
    return true;
  }
  if (barrier.phase % 2 == (parity & 1))
    landAll(warp, op, lane, barrier);
  if (barrier.phase % 2 == (parity & 1))
    return false;
  done |= mask;
  if (!warp.launch->isChecked)
    return true;
  joinClocks(warp.clocks, barrier.complete);
  for (const BulkCopy &copy : barrier.landed)
    warp.block->shared.landBulk(copy.destination, copy.bytes);
  barrier.landed.clear();
  return true;
}

std::string describePhase(Warp &warp, const Op &op) {
  int lane = std::countr_zero(warp.groups[0].lanes);
  uint32_t at = warp.lanes<uint32_t>(op.r[1])[lane];
  const Mbarrier &barrier = warp.block->mbarriers[at];
  return fmt::format("waits for phase {} of the mbarrier at byte {} of shared "
                     "memory, which lacks {} arrivals and {} bytes",
                     barrier.phase, at, barrier.pending, barrier.bytes);
}

void checkBlockEnd(Block &block) {
  for (const auto &[at, barrier] : block.mbarriers) {
    if (barrier.copies.empty() && !barrier.bytes && barrier.landed.empty())
      continue;
    Warp &warp = block.warps.front();
    const std::vector<Op> &ops = block.launch->kernel->ops;
    // Points at the last instruction of the warp.
    warp.pc = warp.pc ? warp.pc - 1 : 0;
    report(warp, ops[warp.pc], 0, FindingKind::AsyncRead,
           fmt::format("ends before it has waited for what is copied to it, "
                       "at the mbarrier at byte {} of shared memory",
                       at));
  }
}

/// r: destination, source, bytes, mbarrier, mask of ranks.
static void copyBulk(Warp &warp, const Op &op, Mask mask) {
  Launch &launch = *warp.launch;
  Cluster &cluster = *warp.block->cluster;
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    uint32_t to = warp.lanes<uint32_t>(op.r[0])[lane];
    uint64_t from = warp.lanes<uint64_t>(op.r[1])[lane];
    uint32_t bytes = warp.lanes<uint32_t>(op.r[2])[lane],
             at = warp.lanes<uint32_t>(op.r[3])[lane];
    uint32_t ranks = warp.lanes<uint16_t>(op.r[4])[lane];
    if (bytes % 16 || from % 16)
      report(warp, op, lane, FindingKind::Misaligned,
             fmt::format("copies {} bytes from {:#x}; both must be multiples "
                         "of 16",
                         bytes, from),
             from);
    checkPlace(warp, op, lane, to, bytes, 16);
    if (!ranks || ranks >> cluster.blocks.size())
      report(warp, op, lane, FindingKind::OutOfBounds,
             fmt::format("copies to the blocks {:#x} of a cluster of {}", ranks,
                         cluster.blocks.size()));
    // All lanes' checks and counts, sixteen bytes each.
    Op part = op;
    part.space = Space::Global;
    part.bytes = 16;
    constexpr uint32_t kEach = 16 * kLanes;
    for (uint32_t offset = 0; offset < bytes; offset += kEach) {
      Request request;
      Mask own = bytes - offset >= kEach ? ~Mask(0)
                                         : (1u << (bytes - offset) / 16) - 1;
      for (int i = 0; i < kLanes; ++i)
        request.address[i] = from + offset + uint64_t(i) * 16;
      resolve(warp, part, own, 16, AccessKind::Read, request);
    }
    if (launch.recorder)
      launch.recorder->background(at, bytes * uint32_t(std::popcount(ranks)));
    for (size_t rank = 0; rank < cluster.blocks.size(); ++rank) {
      if (!(ranks >> rank & 1))
        continue;
      Block &block = *cluster.blocks[rank];
      if (block.hasEnded)
        report(warp, op, lane, FindingKind::OutOfBounds,
               fmt::format("copies to block {} of the cluster, which has ended",
                           rank));
      if (block.warps.size() > size_t(SharedMemory::kProxyWarp))
        report(warp, op, lane, FindingKind::LaunchLimit,
               "copies to a block of 32 warps, which is not supported");
      // Clocks of the warps there, as far as the warp knows them.
      SharedMemory::Clocks clocks = warp.clocksOf(rank);
      clocks[SharedMemory::kProxyWarp] = ++block.copies;
      SharedMemory::Who proxy{SharedMemory::kProxyWarp, 0, clocks, warp.fences,
                              false};
      SharedMemory::Who user = proxy;
      user.isStrong = true;
      Mbarrier &barrier = mbarrierAt(warp, op, lane, block, at, user);
      if (!barrier.isFenced)
        report(warp, op, lane, FindingKind::Mbarrier,
               "uses an mbarrier with no fence.mbarrier_init after its "
               "initialisation");
      if (launch.isChecked)
        need(warp, op, lane, to, block.shared.issueCopy(to, bytes, proxy));
      barrier.copies.push_back({from, to, bytes, block.copies});
      bool isEarly = launch.options->asyncLanding == AsyncLanding::Early ||
                     (launch.options->asyncLanding == AsyncLanding::Seeded &&
                      chance(warp, to + rank));
      if (isEarly)
        land(warp, op, lane, block, barrier, barrier.copies.back());
    }
  }
}

void decodeMbarrier(Decoder &decoder) {
  decoder.needArch(90);
  int what = decoder.choose({"init", "arrive", "try_wait"});
  if (what == 1)
    decoder.choose({"expect_tx"});
  if (what == 2)
    decoder.choose({"parity"});
  decoder.choose({"shared::cta"});
  decoder.choose({"b64"});
  auto address = [&](const PtxOperand &operand) {
    Op own;
    decoder.address(own, operand);
    if (own.imm || own.addressBytes != 4)
      decoder.fail("an mbarrier's address must be a register of 32 bits");
  };
  size_t count = what == 0 ? 2 : 3;
  decoder.needOperands(count, count);
  if (what == 1 && decoder.operand(0).kind != PtxOperand::Sink)
    decoder.fail("the state of an mbarrier is not supported");
  Op &op = decoder.begin(what == 0   ? initialise
                         : what == 1 ? expectBytes
                                     : nullptr,
                         OpClass::Mbarrier);
  op.isStrict = true;
  if (what == 2) {
    op.control = Control::Await;
    op.kind = kAtMbarrier;
    op.run = [](Warp &warp, const Op &op, Mask mask) {
      if (warp.launch->recorder)
        warp.launch->recorder->background(
            warp.lanes<uint32_t>(op.r[1])[std::countr_zero(mask)], 0);
    };
    decoder.result(size_t(0), 0);
  }
  address(decoder.operand(what == 0 ? 0 : 1));
  decoder.source(what == 0 ? 1 : 2, 4);
}

void decodeBulkCopy(Decoder &decoder) {
  for (const char *modifier :
       {"shared::cluster", "global", "mbarrier::complete_tx::bytes",
        "multicast::cluster"})
    decoder.choose({modifier});
  decoder.needArch(90);
  decoder.needOperands(5, 5);
  Op &op = decoder.begin(copyBulk, OpClass::BulkCopy);
  op.isStrict = true;
  auto address = [&](size_t index, int bytes) {
    Op own;
    decoder.address(own, decoder.operand(index));
    if (own.imm || own.addressBytes != bytes)
      decoder.fail(fmt::format("address {} must be a register of {} bytes",
                               index, bytes));
  };
  address(0, 4);
  address(1, 8);
  decoder.source(size_t(2), 4);
  address(3, 4);
  decoder.source(size_t(4), 2);
}

} // namespace softgpu
