#include "kernels/PeakLoops.h"
#include "kernels/cpu/amx/Tile.h"

namespace moek {

namespace {
/// Four chains of products: at 16 cycles each they hide a latency of 52. The
/// tiles are zeros, which are not multiplied faster than other numbers.
template <class Product> void productLoop(int64_t iterations) {
  amx::TileScope tiles(amx::kTileRows);
  for (int64_t i = 0; i < iterations; ++i) {
    Product::template add<0, 4, 6>();
    Product::template add<1, 4, 7>();
    Product::template add<2, 5, 6>();
    Product::template add<3, 5, 7>();
  }
}

double int8Loop(int64_t iterations) {
  productLoop<amx::Int8Product>(iterations);
  return 2.0 * 4 * 16 * 16 * 64 * double(iterations);
}

double bf16Loop(int64_t iterations) {
  productLoop<amx::Bf16Product>(iterations);
  return 2.0 * 4 * 16 * 16 * 32 * double(iterations);
}
} // namespace

const PeakLoops kPeakAmx = {int8Loop, nullptr, bf16Loop, nullptr};

} // namespace moek
