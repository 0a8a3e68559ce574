//===- SuperBlock.h - Unpacking rows as in the file -------------*- C++ -*-===//
//
// For the files of this folder: what each instruction set has a super-block
// unpacked into, SuperBlock<F> in its Gguf.h. A format's file is compiled with
// its gemms, once per instruction set.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_GGUF_SUPERBLOCK_H
#define MOE_KERNELS_CPU_GGUF_SUPERBLOCK_H

#ifdef __AVX512F__
#include "kernels/cpu/avx512/Gguf.h"
#else
#include "kernels/cpu/avx2/Gguf.h"
#endif

#endif // MOE_KERNELS_CPU_GGUF_SUPERBLOCK_H
