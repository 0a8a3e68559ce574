//===- Grids.cpp - Grids of the IQ formats, expanded for CPUs -------------===//
//
// The compiler expands the grids to one byte per code, as CPUs look them up.
//
//===----------------------------------------------------------------------===//

#include "kernels/quant/Grids.h"

#include <cstddef>

namespace moek {

namespace {

#define MOE_GRID(name, rows, ...)                                              \
  constexpr uint16_t kDigits##name[rows] = {__VA_ARGS__};
#include "kernels/quant/Grids.def"

/// Expands a grid. Each byte of a word is `Factor` times a digit.
template <class Word, int Factor = 1, size_t N>
constexpr Grid<Word, int(N)> expanded(const uint16_t (&digits)[N]) {
  constexpr int kBits = sizeof(Word) == 8 ? 2 : 3;
  Grid<Word, int(N)> grid{};
  for (size_t row = 0; row < N; ++row)
    for (size_t i = 0; i < sizeof(Word); ++i) {
      int digit = digits[row] >> (kBits * i) & ((1 << kBits) - 1);
      grid.rows[row] |= Word(digit * Factor) << (8 * i);
    }
  return grid;
}

} // namespace

constexpr Grid<uint64_t, 2048> kGridIQ1 = expanded<uint64_t, 8>(kDigitsIQ1);
constexpr Grid<uint64_t, 256> kGridIQ2_XXS = expanded<uint64_t>(kDigitsIQ2_XXS);
constexpr Grid<uint64_t, 512> kGridIQ2_XS = expanded<uint64_t>(kDigitsIQ2_XS);
constexpr Grid<uint64_t, 1024> kGridIQ2_S = expanded<uint64_t>(kDigitsIQ2_S);
constexpr Grid<uint32_t, 256> kGridIQ3_XXS = expanded<uint32_t>(kDigitsIQ3_XXS);
constexpr Grid<uint32_t, 512> kGridIQ3_S = expanded<uint32_t>(kDigitsIQ3_S);

} // namespace moek
