//===- Matrix.cpp - mma, ldmatrix, movmatrix ------------------------------===//
//
// Fragments, by PTX ISA 9.7.14 ("Matrix multiply-accumulate operation using mma
// instruction"). With g = lane / 4, t = lane % 4, and E elements in a register:
// register r of A holds row g + 8 (r % 2), k = E t + e + 4 E (r / 2); of B
// column g, k = E t + e + 4 E r; of C row g + 8 (r / 2), column 2 t + r % 2.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Access.h"
#include "test/softgpu/Decoder.h"
#include "test/softgpu/HalfLanes.h"
#include "test/softgpu/MmaSum.h"

#include <algorithm>
#include <bit>

namespace softgpu {

static void needWholeWarp(Warp &warp, const Op &op, Mask mask) {
  if (mask != ~Mask(0) && warp.launch->isChecked)
    report(warp, op, std::countr_zero(mask), FindingKind::DivergentWarp,
           fmt::format("is executed by lanes {:#x} only", mask));
}

/// Counts the multiply-accumulates in rows of A, columns of B and slices of k
/// that are not all zero.
static void countMacs(Counters &counters, Mask rows, Mask columns, Mask depths,
                      uint64_t all) {
  counters.macs += all;
  counters.usefulMacs += uint64_t(std::popcount(rows)) *
                         std::popcount(columns) * std::popcount(depths);
}

// Op::kind of mma: b is bf16, not f16; integer operands: signs, .satfinite.
static constexpr uint8_t kBfloatBit = 1, kSignedA = 1, kSignedB = 2,
                         kSatfinite = 4;

/// m16n8kDepth of f16 or bf16, result f32. r: 4 of D; A, B, 4 of C.
template <int Depth> static void mmaHalf(Warp &warp, const Op &op, Mask mask) {
  needWholeWarp(warp, op, mask);
  constexpr int kA = Depth / 4, kB = Depth / 8;
  bool isBfloat = op.kind & kBfloatBit;
  const Place *a = &op.r[4], *b = a + kA, *c = b + kB;
  MmaTile tile;
  float values[2 * kLanes];
  auto widenRegister = [&](Place place) {
    const uint16_t *from = warp.lanes<uint16_t>(place);
    isBfloat ? widen<true, 2 * kLanes>(from, values, false)
             : widen<false, 2 * kLanes>(from, values, false);
  };
  for (int r = 0; r < kA; ++r) {
    widenRegister(a[r]);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int e = 0; e < 2; ++e)
        tile.a[lane / 4 + 8 * (r % 2)][2 * (lane % 4) + e + 8 * (r / 2)] =
            values[2 * lane + e];
  }
  for (int r = 0; r < kB; ++r) {
    widenRegister(b[r]);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int e = 0; e < 2; ++e)
        tile.b[2 * (lane % 4) + e + 8 * r][lane / 4] = values[2 * lane + e];
  }
  for (int r = 0; r < 4; ++r)
    for (int lane = 0; lane < kLanes; ++lane)
      tile.c[lane / 4 + 8 * (r / 2)][2 * (lane % 4) + r % 2] =
          warp.lanes<float>(c[r])[lane];
  for (int k = Depth; k < MmaTile::kDepth; ++k) {
    for (auto &row : tile.a)
      row[k] = 0;
    std::fill_n(tile.b[k], MmaTile::kColumns, 0.0f);
  }
  if (warp.launch->isCounting) {
    Mask rows = 0, columns = 0, depthA = 0, depthB = 0;
    for (int m = 0; m < 16; ++m)
      for (int k = 0; k < Depth; ++k) {
        Mask set = tile.a[m][k] != 0;
        rows |= set << m;
        depthA |= set << k;
      }
    for (int k = 0; k < Depth; ++k)
      for (int n = 0; n < 8; ++n) {
        Mask set = tile.b[k][n] != 0;
        columns |= set << n;
        depthB |= set << k;
      }
    countMacs(warp.launch->counters, rows, columns, depthA & depthB,
              16 * 8 * Depth);
  }
  if (warp.launch->options->mmaSum == MmaSum::PlainF32)
    sumPlain(tile, Depth);
  else
    sumNative(tile, Depth, isBfloat ? -126 : -14,
              mmaModel(warp.launch->options->arch));
  for (int r = 0; r < 4; ++r) {
    alignas(64) float out[kLanes];
    for (int lane = 0; lane < kLanes; ++lane)
      out[lane] = tile.c[lane / 4 + 8 * (r / 2)][2 * (lane % 4) + r % 2];
    store(warp.lanes<float>(op.r[r]), out, mask);
  }
}

/// mRowsn8kDepth of 8-bit integers, result s32.
template <int Rows, int Depth>
static void mmaInteger(Warp &warp, const Op &op, Mask mask) {
  needWholeWarp(warp, op, mask);
  constexpr int kA = Rows / 8 * Depth / 16, kB = Depth / 16, kC = Rows / 4;
  const Place *a = &op.r[kC], *b = a + kA, *c = b + kB;
  int16_t left[Rows][Depth], right[8][Depth];
  auto extend = [](uint8_t byte, bool isSigned) {
    return int16_t(isSigned ? int16_t(int8_t(byte)) : int16_t(byte));
  };
  for (int r = 0; r < kA; ++r) {
    const uint8_t *from = warp.lanes<uint8_t>(a[r]);
    int row = Rows == 8 ? 0 : 8 * (r % 2),
        depth = Rows == 8 ? 16 * r : 16 * (r / 2);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int e = 0; e < 4; ++e)
        left[lane / 4 + row][4 * (lane % 4) + e + depth] =
            extend(from[4 * lane + e], op.kind & kSignedA);
  }
  for (int r = 0; r < kB; ++r) {
    const uint8_t *from = warp.lanes<uint8_t>(b[r]);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int e = 0; e < 4; ++e)
        right[lane / 4][4 * (lane % 4) + e + 16 * r] =
            extend(from[4 * lane + e], op.kind & kSignedB);
  }
  int32_t dot[Rows][8];
  for (int m = 0; m < Rows; ++m)
    for (int n = 0; n < 8; ++n) {
      int32_t sum = 0;
      for (int k = 0; k < Depth; ++k)
        sum += int32_t(left[m][k]) * right[n][k];
      dot[m][n] = sum;
    }
  if (warp.launch->isCounting) {
    Mask rows = 0, columns = 0, depthA = 0, depthB = 0;
    for (int k = 0; k < Depth; ++k) {
      for (int m = 0; m < Rows; ++m)
        if (left[m][k])
          rows |= 1u << m, depthA |= 1u << k;
      for (int n = 0; n < 8; ++n)
        if (right[n][k])
          columns |= 1u << n, depthB |= 1u << k;
    }
    countMacs(warp.launch->counters, rows, columns, depthA & depthB,
              Rows * 8 * Depth);
  }
  int32_t out[kC][kLanes];
  for (int r = 0; r < kC; ++r)
    for (int lane = 0; lane < kLanes; ++lane) {
      int32_t x = dot[lane / 4 + 8 * (r / 2)][2 * (lane % 4) + r % 2];
      int32_t y = warp.lanes<int32_t>(c[r])[lane];
      out[r][lane] = op.kind & kSatfinite
                         ? int32_t(std::clamp<int64_t>(int64_t(x) + y,
                                                       INT32_MIN, INT32_MAX))
                         : int32_t(uint32_t(x) + uint32_t(y));
    }
  for (int r = 0; r < kC; ++r)
    store(warp.lanes<int32_t>(op.r[r]), out[r], mask);
}

static void fragments(Decoder &decoder, Op &op, const int (&counts)[4]) {
  decoder.needOperands(4, 4);
  op.isStrict = true;
  for (int i = 0; i < 4; ++i) {
    const PtxOperand &operand = decoder.operand(size_t(i));
    std::vector<PtxOperand> parts{operand};
    if (operand.kind == PtxOperand::Vector)
      parts = operand.parts;
    if (parts.size() != size_t(counts[i]))
      decoder.fail(fmt::format("'{}': operand {} of {} registers",
                               decoder.instruction().text(), i, parts.size()));
    for (const PtxOperand &part : parts)
      i ? decoder.source(part, Decoder::bits(4)) : decoder.result(part, 4);
  }
}

void decodeMma(Decoder &decoder) {
  decoder.choose({"sync"});
  decoder.choose({"aligned"});
  int shape = decoder.choose({"m16n8k8", "m16n8k16", "m16n8k32", "m8n8k16"});
  decoder.choose({"row"});
  decoder.choose({"col"});
  bool saturates = decoder.accept("satfinite");
  std::string_view d = decoder.peek(), a = decoder.peek(1), b = decoder.peek(2),
                   c = decoder.peek(3);
  auto unsupported = [&] {
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  };
  bool isInteger = d == "s32" && c == "s32" && (a == "s8" || a == "u8") &&
                   (b == "s8" || b == "u8");
  bool isHalf =
      d == "f32" && c == "f32" && a == b && (a == "f16" || a == "bf16");
  if ((!isInteger && !isHalf) || (isHalf && (shape > 1 || saturates)) ||
      (isInteger && shape == 0))
    unsupported();
  for (int i = 0; i < 4; ++i)
    decoder.skip();
  decoder.needArch(shape == 3 || (shape == 0 && a == "f16") ? 75 : 80);
  if (isHalf) {
    Op &op = decoder.begin(shape ? mmaHalf<16> : mmaHalf<8>, OpClass::Mma);
    decoder.needAllLanes();
    op.kind = a == "bf16" ? kBfloatBit : 0;
    return shape ? fragments(decoder, op, {4, 4, 2, 4})
                 : fragments(decoder, op, {4, 2, 1, 4});
  }
  Op &op = decoder.begin(shape == 1   ? mmaInteger<16, 16>
                         : shape == 2 ? mmaInteger<16, 32>
                                      : mmaInteger<8, 16>,
                         OpClass::Mma);
  decoder.needAllLanes();
  op.kind = uint8_t((a == "s8" ? kSignedA : 0) | (b == "s8" ? kSignedB : 0) |
                    (saturates ? kSatfinite : 0));
  shape == 1   ? fragments(decoder, op, {4, 2, 1, 4})
  : shape == 2 ? fragments(decoder, op, {4, 4, 2, 4})
               : fragments(decoder, op, {2, 1, 1, 2});
}

/// Lane l passes the address of row l % 8 of matrix l / 8, 16 bytes. It
/// receives elements 2 (l % 4) and the next one of row l / 4, or of column l /
/// 4 if transposed.
static void loadMatrix(Warp &warp, const Op &op, Mask mask) {
  needWholeWarp(warp, op, mask);
  Request request;
  addressesOf(warp, op, 0, request.address);
  Mask used = op.count == 4 ? ~Mask(0) : (Mask(1) << 8 * op.count) - 1;
  if (warp.launch->isCounting)
    countBanks(warp.launch->counters.matrixLoads, request.address, used, 16);
  resolve(warp, op, used, 16, AccessKind::Read, request);
  for (int j = 0; j < op.count; ++j) {
    uint16_t rows[8][8];
    for (int row = 0; row < 8; ++row)
      std::memcpy(rows[row], request.host[8 * j + row], 16);
    alignas(64) uint32_t out[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      int row = lane / 4, column = 2 * (lane % 4);
      out[lane] =
          op.kind ? rows[column][row] | uint32_t(rows[column + 1][row]) << 16
                  : rows[row][column] | uint32_t(rows[row][column + 1]) << 16;
    }
    store(warp.lanes<uint32_t>(op.r[j]), out, mask);
  }
}

void decodeMatrixLoad(Decoder &decoder) {
  decoder.choose({"sync"});
  decoder.choose({"aligned"});
  decoder.choose({"m8n8"});
  int count = 1 << decoder.choose({"x1", "x2", "x4"});
  bool transposes = decoder.accept("trans");
  bool isShared = decoder.chooseOr(-1, {"shared", "shared::cta"}) >= 0;
  decoder.choose({"b16"});
  decoder.needOperands(2, 2);
  decoder.needArch(75);
  Op &op = decoder.begin(loadMatrix, OpClass::MatrixLoad);
  decoder.needAllLanes();
  op.isStrict = true;
  op.count = uint8_t(count);
  op.kind = transposes;
  op.space = isShared ? Space::Shared : Space::Generic;
  const PtxOperand &to = decoder.operand(0);
  std::vector<PtxOperand> parts{to};
  if (to.kind == PtxOperand::Vector)
    parts = to.parts;
  if (parts.size() != size_t(count))
    decoder.fail(fmt::format("'{}' into {} registers",
                             decoder.instruction().text(), parts.size()));
  for (const PtxOperand &part : parts)
    decoder.result(part, 4);
  decoder.address(op, decoder.operand(1));
}

/// Transposes an 8x8 matrix in registers.
static void moveMatrix(Warp &warp, const Op &op, Mask mask) {
  needWholeWarp(warp, op, mask);
  const uint16_t *from = warp.lanes<uint16_t>(op.r[1]);
  alignas(64) uint16_t out[2 * kLanes];
  // Lane 4 r + c / 2 holds element (r, c), at index 8 r + c.
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 8; ++column)
      out[8 * column + row] = from[8 * row + column];
  store(warp.lanes<uint32_t>(op.r[0]), reinterpret_cast<const uint32_t *>(out),
        mask);
}

void decodeMatrixMove(Decoder &decoder) {
  decoder.choose({"sync"});
  decoder.choose({"aligned"});
  decoder.choose({"m8n8"});
  decoder.choose({"trans"});
  decoder.choose({"b16"});
  decoder.needArch(75);
  decoder.simple(moveMatrix, OpClass::Shuffle, 4, {Decoder::bits(4)}).isStrict =
      true;
  decoder.needAllLanes();
}

} // namespace softgpu
