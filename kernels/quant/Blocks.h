//===- Blocks.h - The block struct of every format --------------*- C++ -*-===//
//
// BlockOf<Format::X> is BlockX. Formats without kernels have no block struct.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_QUANT_BLOCKS_H
#define MOE_KERNELS_QUANT_BLOCKS_H

#include "kernels/quant/BF16.h"
#include "kernels/quant/F16.h"
#include "kernels/quant/F32.h"
#include "kernels/quant/Format.h"
#include "kernels/quant/IQ1_M.h"
#include "kernels/quant/IQ1_S.h"
#include "kernels/quant/IQ2_S.h"
#include "kernels/quant/IQ2_XS.h"
#include "kernels/quant/IQ2_XXS.h"
#include "kernels/quant/IQ3_S.h"
#include "kernels/quant/IQ3_XXS.h"
#include "kernels/quant/IQ4_NL.h"
#include "kernels/quant/IQ4_XS.h"
#include "kernels/quant/MXFP4.h"
#include "kernels/quant/NVFP4.h"
#include "kernels/quant/Q2_K.h"
#include "kernels/quant/Q3_K.h"
#include "kernels/quant/Q4_0.h"
#include "kernels/quant/Q4_1.h"
#include "kernels/quant/Q4_K.h"
#include "kernels/quant/Q5_0.h"
#include "kernels/quant/Q5_1.h"
#include "kernels/quant/Q5_K.h"
#include "kernels/quant/Q6_K.h"
#include "kernels/quant/Q8_0.h"
#include "kernels/quant/TQ1_0.h"
#include "kernels/quant/TQ2_0.h"

namespace moek {

template <Format F> struct BlockOfFormat;
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  static_assert(Block##name::kElements == elements &&                          \
                sizeof(Block##name) == bytes);                                 \
  template <> struct BlockOfFormat<Format::name> { using type = Block##name; };
#include "kernels/quant/Formats.def"
template <Format F> using BlockOf = typename BlockOfFormat<F>::type;

} // namespace moek

#endif // MOE_KERNELS_QUANT_BLOCKS_H
