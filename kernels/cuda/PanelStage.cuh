//===- PanelStage.cuh - Panels in shared memory -----------------*- C++ -*-===//
//
// Prefill copies units of panels (Rows16.cuh) to shared memory as they are.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_PANELSTAGE_CUH
#define MOE_KERNELS_CUDA_PANELSTAGE_CUH

#include "kernels/cuda/Rows16.cuh"

constexpr int kUnitWords = kUnitBytes / 16; ///< 16-byte words of a panel.

/// The place, among sixteen words of sixteen bytes, of the one that lane 4 g +
/// c with quad = g % 4 reads: word 4 c + quad of the panel, which is column
/// group c of rows 4 quad .. + 3. Eight lanes are served at a time. Those that
/// read have two quads, whose eight places are 128 bytes; those that copy have
/// all quads of two neighbouring c, whose places are in different banks because
/// of the XOR.
MOE_DEVICE int transposed(int quad, int c) { return 4 * quad + (c ^ quad & 2); }
/// Returns the place in shared memory of a unit's word number `word`. Words
/// that several lanes share (top bits of 5 and 6 bits, codes of 2 and 3) keep
/// theirs.
MOE_DEVICE int wordPlace(int word) {
  constexpr int kOwn = MOE_BITS == 8 ? 32 : MOE_BITS >= 4 ? 16 : 0;
  return word < kOwn ? (word & 16) + transposed(word % 4, word / 4 % 4) : word;
}

/// Loads a unit's codes for the lane's four rows, 4 quad .. 4 quad + 3 of a
/// panel; at(i) is the word at place i of the unit.
template <class At>
MOE_DEVICE void loadUnit(Codes &codes, int quad, int c, At at) {
#if MOE_BITS >= 4
  codes.word[0] = at(transposed(quad, c));
#if MOE_BITS == 8
  codes.word[1] = at(16 + transposed(quad, c));
#else
#pragma unroll
  for (int i = 1; i < kWords; ++i)
    codes.word[i] = at(12 + 4 * i + quad);
#endif
#else
#pragma unroll
  for (int i = 0; i < kWords; ++i)
    codes.word[i] = at(4 * i + quad);
#endif
}

/// Offsets from a panel's first byte to the tile that has unit `unit`, and to
/// the unit's codes in it.
MOE_DEVICE i64 tileOffset(int unit) {
  return i64(unit / kTileUnits) * kTileBytes;
}
MOE_DEVICE i64 codeOffset(int unit) {
  return tileOffset(unit) + kScalePart + unit % kTileUnits * kUnitBytes;
}

#endif // MOE_KERNELS_CUDA_PANELSTAGE_CUH
