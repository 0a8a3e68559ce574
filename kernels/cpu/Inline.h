//===- Inline.h - Functions that are never emitted --------------*- C++ -*-===//
//
// Kernels are compiled once per instruction set. An inline function that is
// emitted could be merged with the one of another set, so what they share is
// always inlined, or depends on the set, or has internal linkage: see
// kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_INLINE_H
#define MOE_KERNELS_CPU_INLINE_H

#define MOE_INLINE inline __attribute__((always_inline))

#endif // MOE_KERNELS_CPU_INLINE_H
