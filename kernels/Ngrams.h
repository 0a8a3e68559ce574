//===- Ngrams.h - Rows that hashes of n-grams select ------------*- C++ -*-===//
//
// NgramEmbed reads rows of a table that depend on a token and those before it.
// The hash of n tokens is the exclusive or of the products of each with a
// multiplier; its remainder by a modulus plus an offset is a row. Each n and
// head has a modulus and an offset of its own.
//
// Kernels compute rows with this header, and so does the runtime, which asks
// the system to read rows before they are needed.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_NGRAMS_H
#define MOE_KERNELS_NGRAMS_H

#include "kernels/Abi.h"
#include "kernels/KvCache.h"

namespace moek {

/// Constants of plans are floats: a 64-bit number is four digits of 16 bits,
/// the lowest first.
inline constexpr int64_t kWideDigits = 4, kWideBits = 16;

[[gnu::always_inline]] inline uint64_t wideNumber(const float *digits,
                                                  int64_t index) {
  uint64_t number = 0;
  for (int64_t i = kWideDigits; i-- > 0;)
    number = number << kWideBits | uint64_t(digits[index * kWideDigits + i]);
  return number;
}

/// Number of rows that each token reads.
constexpr int64_t ngramColumns(int64_t size, int64_t heads) {
  return (size - 1) * heads;
}
/// Number of 64-bit numbers in `hash`: a multiplier for each token of an
/// n-gram, then a modulus and then an offset for each row.
constexpr int64_t ngramNumbers(int64_t size, int64_t heads) {
  return size + 2 * ngramColumns(size, heads);
}

/// Returns the element of `history` that belongs to a position.
[[gnu::always_inline]] inline float *ngramHistory(const NgramEmbedArgs &a,
                                                  const SequenceRows &rows,
                                                  int64_t position) {
  SequenceCache cache{a.history, rows.pages};
  return reinterpret_cast<float *>(a.history.data +
                                   cache.row(position) * a.history.rowStride);
}

/// Returns what stands for a token of the step.
[[gnu::always_inline]] inline uint64_t ngramToken(const NgramEmbedArgs &a,
                                                  int64_t t) {
  return a.map ? uint64_t(a.map[a.tokens[t]]) : uint64_t(a.tokens[t]);
}

/// Calls visit(column, row) for the rows of the table that the step's token `t`
/// of `rows` reads. Earlier tokens of the step are read from it, and those of
/// earlier steps from the history, which no worker writes meanwhile.
template <class Visit>
[[gnu::always_inline]] inline void forNgramRows(const NgramEmbedArgs &a,
                                                const SequenceRows &rows,
                                                int64_t t, Visit visit) {
  const int64_t columns = ngramColumns(a.size, a.heads);
  const int64_t moduli = a.size, offsets = moduli + columns;
  const auto pad = uint64_t(a.pad);
  auto before = [&](int64_t back) {
    if (t - back >= rows.begin)
      return ngramToken(a, t - back);
    int64_t position = rows.position + (t - rows.begin) - back;
    if (position < 0)
      return pad;
    // A damaged history must not become a number that does not exist.
    float kept = *ngramHistory(a, rows, position);
    return kept >= 0 && kept < 0x1p24f ? uint64_t(kept) : pad;
  };
  uint64_t hash = ngramToken(a, t) * wideNumber(a.hash, 0);
  bool ended = false;
  for (int64_t back = 1; back < a.size; ++back) {
    uint64_t token = ended ? pad : before(back);
    ended |= a.ends && token == pad;
    hash ^= token * wideNumber(a.hash, back);
    for (int64_t head = 0; head < a.heads; ++head) {
      int64_t column = (back - 1) * a.heads + head;
      visit(column, int64_t(hash % wideNumber(a.hash, moduli + column) +
                            wideNumber(a.hash, offsets + column)));
    }
  }
}

} // namespace moek

#endif // MOE_KERNELS_NGRAMS_H
