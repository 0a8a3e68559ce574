//===- GemvDigits.cuh - Decode products of IQ1 formats ----------*- C++ -*-===//
//
// Included by Gemv.cu. Two bits of a code are its column's digit; a shift bit
// is common to many columns, whose activations are added up once for all rows:
//
//   weight = scale (digit + shift / 4 - 9 / 8)
//   sum of weight x = scale (sum of digit x + shift / 4 sum of x
//                            - 9 / 8 sum of x)
//
// Scale is eight times that of codes (kernels/cuda/Rows16.cuh). Everything is
// exact but the product with it. An H100's memory delivers the bytes faster
// than its integer lanes could assemble codes: for IQ1_S that takes 41 lane
// operations for 32 weights. So digits stay in place and need only a mask and a
// dot product for four.
//
//   weight = scale (digit + shift / 4 - 9 / 8)
//   sum of weight x = scale (sum of digit x + shift / 4 sum of x
//                            - 9 / 8 sum of x)
//
// with eight times the scale of codes; all but the last factor is exact. An
// H100's memory delivers the bytes faster than its integer lanes could assemble
// codes: for IQ1_S that takes 41 lane operations for 32 weights. So digits
// stay in place and need only a mask and a dot product for four.
//
//===----------------------------------------------------------------------===//

/// Returns the sum of products of digits and activations, for groups 0 .. 3,
/// with two words for groups 0 .. 7. The digits of group c are in bits 2 c and
/// 2 c + 1 of the bytes of words[0], those of group c + 4 in words[1]: masked
/// in place they count 4^c times. So it begins with c = 3, and divides the sum
/// by four, which is exact, before each further c.
template <int kWords>
MOE_DEVICE int dotDigits(const u32 (&words)[kWords], const u32 *groups) {
  int sum = 0;
#pragma unroll
  for (int c = 3; c >= 0; --c) {
    sum >>= 2;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      sum = dot(words[i] & 0x03030303u << (2 * c), groups[c + 4 * i], sum);
  }
  return sum;
}

/// Converts to float without a conversion instruction, for |x| < 2^22.
MOE_DEVICE float asFloat(int x) {
  return __int_as_float(x + kMagicBits) - kMagic;
}

#if MOE_SHIFTS == 4
/// Returns the sums of two eights of activations as 16-bit numbers, the first
/// in the low half. `groups` are those of half a unit and `sum` its sum.
MOE_DEVICE u32 eightsOf(const u32 *groups, int sum) {
  int first = dot(0x01010101, groups[1], dot(0x01010101, groups[0], 0));
  return __byte_perm(u32(first), u32(sum - first), 0x5410);
}
/// Returns the sum of those of the two `eights` of a half whose shift is 1;
/// bytes 2 half and 2 half + 1 of `bits` are the shifts, 0 or 1.
MOE_DEVICE float dotShifts(u32 eights, u32 bits, int half) {
  int sum = kMagicBits;
  if (half == 0)
    asm("dp2a.lo.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(eights), "r"(bits));
  else
    asm("dp2a.hi.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(eights), "r"(bits));
  return __int_as_float(sum) - kMagic;
}
#endif

/// sums[row][i] += the unit's weights times its activations of row i.
MOE_DEVICE void multiply(float (&sums)[4][MOE_ROWS], const Unit &w, int unit,
                         const Act (&acts)[MOE_ROWS]) {
  constexpr float kQuarter = 0.25f, kNone = -1.125f;
  Factors f;
  decode(f, w.block, w.unit, unit % kTileUnits);
  float each[MOE_ROWS][kHalves]; // Sums of the activations that share a scale.
#if MOE_SHIFTS == 4
  u32 eights[MOE_ROWS][kHalves];
#else
  u32 shifts = w.unit.shifts * 0x00204081 & 0x01010101; // A byte for each row.
#endif
#pragma unroll
  for (int i = 0; i < MOE_ROWS; ++i) {
    int first = firstSum(acts[i].sums), second = secondSum(acts[i].sums);
#if MOE_SHIFTS == 4
    each[i][0] = asFloat(first), each[i][1] = asFloat(second);
    eights[i][0] = eightsOf(acts[i].group, first);
    eights[i][1] = eightsOf(acts[i].group + 4, second);
#else
    each[i][0] = asFloat(first + second);
#endif
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    u32 words[2] = {part(w.word[0], r), part(w.word[1], r)};
#pragma unroll
    for (int i = 0; i < MOE_ROWS; ++i) {
      const u32 *groups = acts[i].group;
#if MOE_SHIFTS == 4
      u32 bits = w.unit.shifts >> r & 0x01010101;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = asFloat(dotDigits<1>({words[half]}, groups + 4 * half));
        sum = fmaf(dotShifts(eights[i][half], bits, half), kQuarter, sum);
        sum = fmaf(each[i][half], kNone, sum);
        sums[r][i] =
            fmaf(sum, 8 * f.scale[half][r] * acts[i].scale, sums[r][i]);
      }
#else
      float factor = fmaf(byteOf(shifts, r, 0), kQuarter, kNone);
      float sum = fmaf(each[i][0], factor, asFloat(dotDigits(words, groups)));
      sums[r][i] = fmaf(sum, 8 * f.scale[0][r] * acts[i].scale, sums[r][i]);
#endif
    }
  }
}
