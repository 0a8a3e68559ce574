//===- OfIsa.h - Kernels by instruction set ---------------------*- C++ -*-===//
//
// The same text makes the kernels of every instruction set: its target defines
// MOE_ISA, the namespace, and MOE_OF_<namespace>. MOE_IF_ISA(isa, text) is the
// text where `isa`, as Kernels.def and Gemms.def call it, is the one compiled
// for.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_OFISA_H
#define MOE_KERNELS_CPU_OFISA_H

#define MOE_IF_ISA(isa, ...) MOE_IF_##isa(__VA_ARGS__)

#ifdef MOE_OF_ref
#define MOE_IF_Ref(...) __VA_ARGS__
#else
#define MOE_IF_Ref(...)
#endif
#ifdef MOE_OF_avx2
#define MOE_IF_Avx2(...) __VA_ARGS__
#else
#define MOE_IF_Avx2(...)
#endif
#ifdef MOE_OF_avx512
#define MOE_IF_Avx512(...) __VA_ARGS__
#else
#define MOE_IF_Avx512(...)
#endif
#ifdef MOE_OF_amx
#define MOE_IF_Amx(...) __VA_ARGS__
#else
#define MOE_IF_Amx(...)
#endif

#endif // MOE_KERNELS_CPU_OFISA_H
