//===- Portable.h - Words of sixteen rows, portably -------------*- C++ -*-===//

#ifndef MOE_KERNELS_PACK_PORTABLE_H
#define MOE_KERNELS_PACK_PORTABLE_H

#include "kernels/cpu/Inline.h"

#include <cstdint>
#include <cstring>

namespace moek::ref {

/// A word of each of 16 rows, row r at word r % 4 of part r / 4.
struct Rows {
  using Words [[gnu::vector_size(16)]] = uint32_t;
  static constexpr int kParts = 4; ///< Vectors of 16 rows.
  /// Blocks are unpacked by the members that every format has, so that this
  /// packer is what others are compared with.
  static constexpr bool kUsesWords = false;
  Words part[kParts];

  /// Loads words 0 ... 3 at `at` of each row, of which rows[r] is the start.
  MOE_INLINE static void load4(const uint8_t *const *rows, int64_t at,
                               Rows *out) {
    for (int p = 0; p < kParts; ++p, rows += 4) {
      Words a = load(rows[0] + at), b = load(rows[1] + at);
      Words c = load(rows[2] + at), d = load(rows[3] + at);
      Words ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      Words cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      out[0].part[p] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
      out[1].part[p] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
      ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      out[2].part[p] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
      out[3].part[p] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    }
  }

  MOE_INLINE static void store(uint8_t *out, Words v) {
    std::memcpy(out, &v, sizeof(v));
  }

private:
  MOE_INLINE static Words load(const uint8_t *p) {
    Words words;
    std::memcpy(&words, p, sizeof(words));
    return words;
  }
};

} // namespace moek::ref

#endif // MOE_KERNELS_PACK_PORTABLE_H
