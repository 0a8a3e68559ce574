//===- FlashProducts.cuh - Products of a prompt's warpgroups ----*- C++ -*-===//
//
// Included by FlashAttention.cu: what prefill on an H100 has in common, whether
// a warpgroup has 64 queries (FlashWarpgroup.cuh) or 128 (FlashTurns.cuh).
//
//===----------------------------------------------------------------------===//

/// Makes the compiler finish the registers of operands here, before a fence; it
/// would move the instructions behind it.
template <int Count> MOE_DEVICE void keepOperands(u32 (&x)[Count][4]) {
#pragma unroll
  for (int i = 0; i < Count; ++i)
    asm volatile(""
                 : "+r"(x[i][0]), "+r"(x[i][1]), "+r"(x[i][2]), "+r"(x[i][3])
                 :
                 : "memory");
}

template <int Count> MOE_DEVICE void clear(float (&scores)[Count][4]) {
#pragma unroll
  for (int i = 0; i < Count; ++i)
#pragma unroll
    for (int k = 0; k < 4; ++k)
      scores[i][k] = 0;
}

/// Adds weighted values of a tile to sums.
MOE_DEVICE void beginSums(float (&sums)[kColumnTiles][4],
                          const u32 (&weights)[kGroups][4], u32 tile) {
  Tile64 values = rowsOf(tile + kKeys * kKeyPitch, kNextColumns);
#pragma unroll
  for (int i = 0; i < kGroups; ++i)
    multiplyGroup<true>(sums, weights[i],
                        laterTile(values, i * 16 * kNextRow<kValuePitch>));
  commitProducts();
}
