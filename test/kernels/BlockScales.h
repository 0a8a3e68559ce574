//===- BlockScales.h - The numbers among a block's bits ---------*- C++ -*-===//
//
// Only these must not be arbitrary bits where blocks are made of random ones.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_KERNELS_BLOCKSCALES_H
#define MOE_TEST_KERNELS_BLOCKSCALES_H

#include "kernels/quant/Blocks.h"

#include <type_traits>

namespace moek::test {

/// Calls body(number) for each F16 number of a block: d first, then its offset.
template <class Block, class Body> void forScales(Block &block, Body body) {
  // The bits of IQ1_M's scale are scattered.
  if constexpr (requires { block.d(); }) {
    Bits16 d = block.d();
    body(d);
    for (int i = 0; i < 4; ++i)
      block.scales[i].high = uint8_t((block.scales[i].high & 15) |
                                     (d.value() >> (4 * i) & 15) << 4);
  } else if constexpr (requires {
                         requires std::is_same_v<decltype(Block::d), Bits16>;
                       }) { // MXFP4 has an exponent instead.
    body(block.d);
  }
  if constexpr (requires { block.m; })
    body(block.m);
  if constexpr (requires { block.dmin; })
    body(block.dmin);
}

} // namespace moek::test

#endif // MOE_TEST_KERNELS_BLOCKSCALES_H
