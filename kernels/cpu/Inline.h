//===- Inline.h - Functions that are never emitted --------------*- C++ -*-===//
//
// Kernels are compiled once per instruction set. The linker could merge an
// inline function that is emitted with the one of another set. So code that
// they share is always inlined, depends on the set by a template parameter, or
// has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_INLINE_H
#define MOE_KERNELS_CPU_INLINE_H

#define MOE_INLINE inline __attribute__((always_inline))

#endif // MOE_KERNELS_CPU_INLINE_H
