//===- Paged.h - A step of sequences whose pages are mixed ------*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_PAGED_H
#define MOE_TEST_KERNELS_PAGED_H

#include "test/kernels/AttentionModel.h"

namespace moek::test {

/// Either a chunk, single rows and a start of a prompt in one step, with pages
/// out of order; or one row alone, far into its text.
struct Paged {
  explicit Paged(bool alone = false, int32_t ring = 0) : ring(ring) {
    if (alone) {
      rows = {{0, 1, 187, pages[2].data()}};
      tokens = 1;
    }
  }

  const std::vector<int32_t> pages[4] = {{5, 1, 7}, {0}, {3, 9, 2}, {6}};
  std::vector<SequenceRows> rows = {{0, 1, 150, pages[0].data(), 2},
                                    {1, 21, 0, pages[1].data(), 0},
                                    {22, 7, 120, pages[2].data(), 3},
                                    {29, 1, 3, pages[3].data(), 1}};
  int32_t ring; ///< Rows of a sequence's ring, if a cache has rings.
  int64_t tokens = 30;
  static constexpr int64_t kRows = 10 * kKvPage;
  static constexpr int64_t kContext = 192;

  Step step() const {
    return {int32_t(tokens), 0, rows.data(), int32_t(rows.size())};
  }
  /// The position of a token, and the cache row of a position of its sequence.
  int64_t position(int64_t t) const {
    const SequenceRows &own = of(t);
    return own.position + t - own.begin;
  }
  int64_t row(int64_t t, int64_t position) const {
    return ring ? of(t).state * ring + position % ring : pageRow(t, position);
  }
  int64_t entries(int64_t t, int64_t ratio) const {
    return (position(t) + 1) / ratio;
  }
  int64_t entryRow(int64_t t, int64_t entry, int64_t ratio) const {
    return pageRow(t, (entry + 1) * ratio - 1);
  }

private:
  int64_t pageRow(int64_t t, int64_t position) const {
    return of(t).pages[position / kKvPage] * kKvPage + position % kKvPage;
  }
  const SequenceRows &of(int64_t t) const {
    size_t i = rows.size() - 1;
    while (rows[i].begin > t)
      --i;
    return rows[i];
  }
};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_PAGED_H
