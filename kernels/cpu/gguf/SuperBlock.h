//===- SuperBlock.h - Unpacking rows as in the file -------------*- C++ -*-===//
//
// Included by the files of this folder. Each defines how its format's
// super-block is unpacked, by specialising SuperBlock<F> of the instruction
// set's Gguf.h. It is compiled with the format's gemms, once per instruction
// set.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_GGUF_SUPERBLOCK_H
#define MOE_KERNELS_CPU_GGUF_SUPERBLOCK_H

#ifdef __AVX512F__
#include "kernels/cpu/avx512/Gguf.h"
#else
#include "kernels/cpu/lanes8/Gguf.h"
#endif

#endif // MOE_KERNELS_CPU_GGUF_SUPERBLOCK_H
