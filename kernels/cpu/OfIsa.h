//===- OfIsa.h - Macros that select an instruction set ----------*- C++ -*-===//
//
// The same source text is compiled for every instruction set. The build target
// defines MOE_ISA (the namespace) and MOE_OF_<namespace>. MOE_IF_ISA(isa, text)
// expands to the text if `isa`, as named in Kernels.def and Gemms.def, is the
// one that is being compiled for.
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
#ifdef MOE_OF_avxvnni
#define MOE_IF_AvxVnni(...) __VA_ARGS__
#else
#define MOE_IF_AvxVnni(...)
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
#ifdef MOE_OF_neon
#define MOE_IF_Neon(...) __VA_ARGS__
#else
#define MOE_IF_Neon(...)
#endif
#ifdef MOE_OF_neon_i8mm
#define MOE_IF_NeonI8mm(...) __VA_ARGS__
#else
#define MOE_IF_NeonI8mm(...)
#endif

#endif // MOE_KERNELS_CPU_OFISA_H
