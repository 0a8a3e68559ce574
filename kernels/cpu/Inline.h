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
/// The same for a lambda, after its parameters. A lambda that only prefetches
/// needs it: GCC deletes calls of functions that have no other effect.
#define MOE_INLINE_CALL __attribute__((always_inline))

#endif // MOE_KERNELS_CPU_INLINE_H
