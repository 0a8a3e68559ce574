//===- Warpgroup.cpp - wgmma ----------------------------------------------===//
//
// PTX ISA 9.7.15, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
// Instructions". An instruction m64nN becomes N / 8 ops m64n8, each of which
// multiplies the sixteen rows of A that belong to the warp, with the fragments
// of mma.m16n8k16 (Matrix.cpp).
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Warpgroup.h"

#include "test/softgpu/Access.h"
#include "test/softgpu/Decoder.h"
#include "test/softgpu/HalfLanes.h"
#include "test/softgpu/MmaSum.h"

#include <algorithm>
#include <bit>

namespace softgpu {

// Op::kind of wgmma.mma_async. imm is the first of the op's eight columns;
// count is N / 8.
static constexpr uint8_t kBfloatType = 1, kSharedA = 2, kTransposedA = 4,
                         kTransposedB = 8, kNegatedA = 16, kNegatedB = 32;
static constexpr int kGroupWarps = 4, kPartRows = 16, kPartColumns = 8,
                     kPartDepth = 16;

namespace {

/// A matrix descriptor: where elements are in shared memory.
class Descriptor {
public:
  Descriptor(uint64_t bits, bool isTransposed)
      : start_((bits & 0x3FFF) << 4), leading_((bits >> 16 & 0x3FFF) << 4),
        stride_((bits >> 32 & 0x3FFF) << 4), base_(bits >> 49 & 7),
        isTransposed_(isTransposed) {
    // Sixteen-byte words in a row of the pattern: 1, 8, 4, 2.
    static constexpr uint64_t kWords[] = {1, 8, 4, 2};
    words_ = kWords[bits >> 62];
  }

  /// Returns what is wrong with the descriptor; null if it is right.
  const char *fault() const {
    if (words_ > 1 && base_)
      return "has a base offset, which is not supported";
    uint64_t pattern = 128 * words_;
    if (words_ > 1 &&
        (stride_ % pattern || (isTransposed_ && leading_ % pattern)))
      return "has strides that are no multiples of its swizzling pattern";
    if (words_ > 1 && isTransposed_ && start_ % pattern)
      return "begins within its swizzling pattern";
    // Along k a tile may begin at a later word of the pattern's first row.
    if (words_ > 1 && start_ % pattern >= 16 * words_)
      return "begins within its swizzling pattern";
    return nullptr;
  }

  /// Returns the address of an element: row `major` of A, or column `major` of
  /// B, at depth `k`. The comments have shape : strides in elements, with LBO
  /// the leading and SBO the stride offset.
  uint64_t at(int major, int k) const {
    uint64_t m = uint64_t(major), d = uint64_t(k), offset;
    if (!isTransposed_) {
      // ((8, m), (T, 2)) : ((words T, SBO), (1, LBO or T)), T = 8 elements.
      offset = m % 8 * 16 * words_ + m / 8 * stride_ + d % 8 * 2 +
               d / 8 * (words_ > 1 ? 16 : leading_);
    } else {
      // ((T, words, m), (8, 2)) : ((1, T, LBO), (words T, SBO)); without
      // swizzling the strides change places.
      uint64_t span = 8 * words_;
      offset = m % 8 * 2 + m % span / 8 * 16 +
               m / span * (words_ > 1 ? leading_ : stride_) +
               d % 8 * 16 * words_ + d / 8 * (words_ > 1 ? stride_ : leading_);
    }
    uint64_t address = start_ + offset;
    return address ^ (address >> 3 & (words_ - 1) << 4);
  }

private:
  uint64_t start_, leading_, stride_, base_, words_;
  bool isTransposed_;
};

} // namespace

static void needWarpgroup(Warp &warp, const Op &op, Mask mask) {
  if (!warp.launch->isChecked)
    return;
  if (mask != ~Mask(0))
    report(warp, op, std::countr_zero(mask), FindingKind::DivergentWarp,
           fmt::format("is executed by lanes {:#x} only", mask));
  if (size_t(warp.index | 3) >= warp.block->warps.size())
    report(warp, op, 0, FindingKind::DivergentWarp,
           fmt::format("is executed by warp {} of {}, whose warpgroup is not "
                       "whole",
                       warp.index, warp.block->warps.size()));
}

static WarpgroupState &stateOf(Warp &warp) {
  WarpgroupState &state = warp.warpgroup;
  if (state.uses.empty())
    state.uses.resize(warp.launch->kernel->frameBytes / kUnit + 1);
  return state;
}

static WarpgroupState::Group &openGroup(WarpgroupState &state) {
  if (state.groups.empty() || state.groups.back().number != state.next)
    state.groups.push_back({state.next, {}});
  return state.groups.back();
}

/// Reads the elements of a matrix in shared memory for rows `first` .. + count.
template <int Count>
static void gather(Warp &warp, const Op &op, uint64_t bits, bool isTransposed,
                   int first, uint16_t (&out)[Count][kPartDepth]) {
  Descriptor descriptor(bits, isTransposed);
  SharedMemory &shared = warp.block->shared;
  if (const char *fault = descriptor.fault())
    report(warp, op, 0, FindingKind::Misaligned,
           fmt::format("matrix descriptor {:#x} {}", bits, fault));
  bool isChecked = warp.launch->isChecked;
  for (int m = 0; m < Count; ++m)
    for (int k = 0; k < kPartDepth; ++k) {
      uint64_t at = descriptor.at(first + m, k);
      if (at + 2 > shared.size())
        report(warp, op, 0, FindingKind::OutOfBounds,
               fmt::format("reads byte {} of {} bytes of shared memory", at,
                           shared.size()),
               at);
      std::memcpy(&out[m][k], shared.data() + at, 2);
      // Two neighbours are a granule.
      if (!isChecked || at % 4)
        continue;
      if (auto conflict = shared.readForProduct(at, whoIs(warp, 0)))
        report(
            warp, op, 0, conflict->kind,
            fmt::format("{} at byte {} of shared memory", conflict->what, at),
            at);
      openGroup(warp.warpgroup).granules.push_back(uint32_t(at / 4));
    }
}

static void checkUse(Warp &warp, const Op &op, Place place, bool isResult) {
  WarpgroupState::Use &use = warp.warpgroup.uses[place / kUnit];
  if (!use.isFenced)
    report(warp, op, 0, FindingKind::AsyncProduct,
           "uses a register that was changed after the last wgmma.fence");
  // Products add to the same sums in their order.
  if (!isResult && use.written > warp.warpgroup.done)
    report(warp, op, 0, FindingKind::AsyncProduct,
           "reads the sums of a wgmma that was not waited for");
}

/// r: 4 of D; A (4, or a descriptor), the descriptor of B, scale-d.
static void multiplyGroup(Warp &warp, const Op &op, Mask mask) {
  needWarpgroup(warp, op, mask);
  bool isBfloat = op.kind & kBfloatType, isShared = op.kind & kSharedA;
  const Place *a = &op.r[4], *b = a + (isShared ? 1 : 4);
  Mask adds = warp.predicate(b[1]);
  uint64_t descriptor = warp.lanes<uint64_t>(b[0])[0];
  bool isFirst = op.imm == 0;
  if (warp.launch->isChecked) {
    WarpgroupState &state = stateOf(warp);
    for (int i = 0; i < 4; ++i) {
      // Sums that are only written (scale-d 0) need no fence.
      if (adds) {
        checkUse(warp, op, op.r[size_t(i)], true);
        if (warp.written[op.r[size_t(i)] / kUnit] != ~Mask(0))
          report(warp, op, 0, FindingKind::Uninitialised,
                 "adds to a register that was never written");
      }
      if (!isShared)
        checkUse(warp, op, a[i], false);
    }
    for (int lane = 1; lane < kLanes; ++lane)
      if (warp.lanes<uint64_t>(b[0])[lane] != descriptor ||
          (isShared &&
           warp.lanes<uint64_t>(a[0])[lane] != warp.lanes<uint64_t>(a[0])[0]))
        report(warp, op, lane, FindingKind::DivergentWarp,
               "has another matrix descriptor than lane 0");
    if (adds && adds != ~Mask(0))
      report(warp, op, 0, FindingKind::DivergentWarp,
             fmt::format("scale-d is true in lanes {:#x} only", adds));
    if (isFirst) {
      // The warps of a warpgroup must execute the same products with the same
      // descriptors: this one is compared with what another warp has recorded
      // as its product of the same number.
      uint64_t own = (descriptor * 0x9E3779B97F4A7C15 ^
                      (isShared ? warp.lanes<uint64_t>(a[0])[0] : 0)) +
                     warp.pc + (adds ? 1u << 31 : 0u);
      std::vector<uint64_t> &of = warp.block->products[size_t(warp.index / 4)];
      if (state.products < of.size()) {
        if (of[state.products] != own)
          report(warp, op, 0, FindingKind::DivergentWarp,
                 "differs from what other warps of the warpgroup execute");
      } else {
        of.push_back(own);
      }
      ++state.products;
      for (size_t i = size_t(warp.index) & ~size_t(3), last = i + 3; i <= last;
           ++i)
        if (const Warp &other = warp.block->warps[i];
            other.isDone() && other.warpgroup.products < state.products)
          report(warp, op, 0, FindingKind::DivergentWarp,
                 fmt::format("is executed when warp {} of the warpgroup has "
                             "ended",
                             i));
    }
    for (int i = 0; i < 4; ++i) {
      state.uses[op.r[size_t(i)] / kUnit].written = state.next;
      state.uses[op.r[size_t(i)] / kUnit].isFenced = true;
      if (!isShared && !(a[i] & kConstant))
        state.uses[a[i] / kUnit].read = state.next;
    }
    openGroup(state);
  }

  MmaTile tile;
  uint16_t halves[kPartRows][kPartDepth], columns[kPartColumns][kPartDepth];
  if (isShared) {
    gather(warp, op, warp.lanes<uint64_t>(a[0])[0], op.kind & kTransposedA,
           kPartRows * (warp.index % kGroupWarps), halves);
  } else {
    for (int r = 0; r < 4; ++r) {
      const uint16_t *from = warp.lanes<uint16_t>(a[r]);
      for (int i = 0; i < 2 * kLanes; ++i)
        halves[i / 8 + 8 * (r % 2)][i % 8 + 8 * (r / 2)] = from[i];
    }
  }
  gather(warp, op, descriptor, op.kind & kTransposedB, int(op.imm), columns);
  auto widened = [&](const uint16_t *from, float *to, auto count) {
    isBfloat ? widen<true, count()>(from, to, false)
             : widen<false, count()>(from, to, false);
  };
  float b16[kPartColumns][kPartDepth];
  widened(halves[0], tile.a[0],
          std::integral_constant<int, kPartRows * kPartDepth>());
  widened(columns[0], b16[0],
          std::integral_constant<int, kPartColumns * kPartDepth>());
  float signA = op.kind & kNegatedA ? -1 : 1,
        signB = op.kind & kNegatedB ? -1 : 1;
  Mask rows = 0, depthA = 0, used = 0, depthB = 0;
  for (int k = 0; k < kPartDepth; ++k) {
    for (int n = 0; n < kPartColumns; ++n) {
      tile.b[k][n] = signB * b16[n][k];
      used |= Mask(b16[n][k] != 0) << n;
      depthB |= Mask(b16[n][k] != 0) << k;
    }
    for (int m = 0; m < kPartRows; ++m) {
      rows |= Mask(tile.a[m][k] != 0) << m;
      depthA |= Mask(tile.a[m][k] != 0) << k;
      tile.a[m][k] *= signA;
    }
  }
  if (warp.launch->isCounting) {
    Counters &counters = warp.launch->counters;
    counters.macs += kPartRows * kPartColumns * kPartDepth;
    counters.usefulMacs += uint64_t(std::popcount(rows)) * std::popcount(used) *
                           std::popcount(depthA & depthB);
  }
  for (int r = 0; r < 4; ++r)
    for (int lane = 0; lane < kLanes; ++lane)
      tile.c[lane / 4 + 8 * (r / 2)][2 * (lane % 4) + r % 2] =
          adds ? warp.lanes<float>(op.r[size_t(r)])[lane] : 0.0f;
  if (warp.launch->options->mmaSum == MmaSum::PlainF32)
    sumPlain(tile, kPartDepth);
  else
    sumNative(tile, kPartDepth, isBfloat ? -126 : -14,
              mmaModel(warp.launch->options->arch));
  for (int r = 0; r < 4; ++r)
    for (int lane = 0; lane < kLanes; ++lane)
      warp.lanes<float>(op.r[size_t(r)])[lane] =
          tile.c[lane / 4 + 8 * (r / 2)][2 * (lane % 4) + r % 2];
}

static void fenceGroup(Warp &warp, const Op &op, Mask mask) {
  needWarpgroup(warp, op, mask);
  if (warp.launch->isChecked)
    for (WarpgroupState::Use &use : stateOf(warp).uses)
      use.isFenced = true;
}

static void commitGroup(Warp &warp, const Op &op, Mask mask) {
  needWarpgroup(warp, op, mask);
  if (!warp.launch->isChecked)
    return;
  openGroup(stateOf(warp));
  ++warp.warpgroup.next;
}

/// imm: how many of the newest groups may remain in flight.
static void waitGroup(Warp &warp, const Op &op, Mask mask) {
  needWarpgroup(warp, op, mask);
  if (!warp.launch->isChecked)
    return;
  WarpgroupState &state = stateOf(warp);
  uint32_t committed = state.next - 1;
  uint32_t until = committed - std::min(committed, uint32_t(op.imm));
  while (!state.groups.empty() && state.groups.front().number <= until) {
    for (uint32_t granule : state.groups.front().granules)
      warp.block->shared.endProduct(granule, whoIs(warp, 0));
    state.groups.pop_front();
  }
  state.done = std::max(state.done, until);
}

void checkRegisters(Warp &warp, const Op &op, Mask mask) {
  WarpgroupState &state = warp.warpgroup;
  if (op.run == multiplyGroup)
    return;
  auto useOf = [&](Place place) {
    return place & kConstant ? WarpgroupState::Use{.isFenced = true}
                             : state.uses[place / kUnit];
  };
  bool isMove = op.opClass == OpClass::Move && op.sources == 1;
  WarpgroupState::Use from;
  for (int i = 0; i < op.sources; ++i) {
    from = useOf(op.r[size_t(op.results + i)]);
    // A move may take the sums of a product in flight: assemblers remove it, so
    // that it only gives the register another name.
    if (!isMove && from.written > state.done)
      report(warp, op, std::countr_zero(mask), FindingKind::AsyncProduct,
             "reads the sums of a wgmma that was not waited for");
  }
  for (int i = 0; i < op.results; ++i) {
    WarpgroupState::Use &use = state.uses[op.r[size_t(i)] / kUnit];
    bool isRenamed = isMove && from.written > state.done;
    if (!isRenamed && std::max(use.read, use.written) > state.done)
      report(warp, op, std::countr_zero(mask), FindingKind::AsyncProduct,
             "writes a register of a wgmma that was not waited for");
    use = {};
    if (isMove && !(op.r[size_t(op.results)] & kConstant))
      use = {0, from.written, from.isFenced};
  }
}

void checkEnd(Warp &warp, const Op &op) {
  const WarpgroupState &state = warp.warpgroup;
  if (!state.groups.empty())
    report(warp, op, 0, FindingKind::AsyncProduct,
           "ends with a wgmma that was not waited for");
  size_t all = warp.block->products[size_t(warp.index / 4)].size();
  if (state.products != all)
    report(
        warp, op, 0, FindingKind::DivergentWarp,
        fmt::format("ends after {} wgmma, of which its warpgroup executes {}",
                    state.products, all));
}

void decodeWarpgroup(Decoder &decoder) {
  decoder.needArch(90);
  decoder.needOneArch();
  int what =
      decoder.choose({"fence", "commit_group", "wait_group", "mma_async"});
  decoder.choose({"sync"});
  decoder.choose({"aligned"});
  if (what < 3) {
    decoder.needOperands(what == 2, what == 2);
    Op &op = decoder.begin(what == 0   ? fenceGroup
                           : what == 1 ? commitGroup
                                       : waitGroup,
                           OpClass::Warpgroup);
    if (what == 2) {
      const PtxOperand &count = decoder.operand(0);
      if (count.kind != PtxOperand::Int)
        decoder.fail("wgmma.wait_group takes a number");
      op.imm = int64_t(count.bits);
    }
    op.isUniform = true;
    decoder.needAllLanes();
    return;
  }
  std::string_view shape = decoder.peek();
  auto unsupported = [&] {
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  };
  int columns = 0;
  if (shape.starts_with("m64n") && shape.ends_with("k16"))
    for (char digit : shape.substr(4, shape.size() - 7))
      columns = digit >= '0' && digit <= '9' ? 10 * columns + digit - '0' : 999;
  if (columns < 8 || columns > 256 || columns % 8)
    unsupported();
  decoder.skip();
  std::string_view d = decoder.peek(), type = decoder.peek(1);
  if (d != "f32" || type != decoder.peek(2) ||
      (type != "f16" && type != "bf16"))
    unsupported();
  uint8_t kind = type == "bf16" ? kBfloatType : 0;
  for (int i = 0; i < 3; ++i)
    decoder.skip();
  const PtxOperand &sums = decoder.operand(0), &a = decoder.operand(1);
  bool isShared = a.kind == PtxOperand::Name;
  decoder.needOperands(isShared ? 8 : 7, isShared ? 8 : 7);
  auto flag = [&](size_t index, uint64_t least, uint8_t bit) {
    const PtxOperand &operand = decoder.operand(index);
    bool isOne = operand.kind == PtxOperand::Int && operand.bits == 1;
    if (operand.kind != PtxOperand::Int || (!isOne && operand.bits != least))
      decoder.fail(fmt::format("operand {} of '{}' is a number", index,
                               decoder.instruction().text()));
    if (isOne == (least == 0))
      kind |= bit;
  };
  flag(4, ~uint64_t(0), kNegatedA);
  flag(5, ~uint64_t(0), kNegatedB);
  if (isShared) {
    kind |= kSharedA;
    flag(6, 0, kTransposedA);
  }
  flag(isShared ? 7 : 6, 0, kTransposedB);
  if (sums.kind != PtxOperand::Vector ||
      sums.parts.size() != size_t(columns / 2) ||
      (!isShared && (a.kind != PtxOperand::Vector || a.parts.size() != 4)))
    decoder.fail(fmt::format("'{}' of {} and {} registers",
                             decoder.instruction().text(), sums.parts.size(),
                             a.parts.size()));
  for (int first = 0; first < columns; first += kPartColumns) {
    Op &op = decoder.begin(multiplyGroup, OpClass::Warpgroup);
    decoder.needAllLanes();
    op.isStrict = true;
    op.kind = kind;
    op.imm = first;
    op.count = uint8_t(columns / kPartColumns);
    for (int r = 0; r < 4; ++r)
      decoder.result(sums.parts[size_t(first / 2 + r)], 4);
    if (isShared)
      decoder.source(a, Decoder::bits(8));
    else
      for (const PtxOperand &part : a.parts)
        decoder.source(part, Decoder::bits(4));
    decoder.source(2, 8);
    decoder.source(3, 0);
  }
}

} // namespace softgpu
