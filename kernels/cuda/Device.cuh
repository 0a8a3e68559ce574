//===- Device.cuh - Code that all CUDA kernels share ------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_DEVICE_CUH
#define MOE_KERNELS_CUDA_DEVICE_CUH

#include "kernels/cuda/Abi.h"
#include "kernels/cuda/LaunchOrder.cuh"

using namespace moek::cuda;

#define MOE_DEVICE static __device__ __forceinline__
/// MOE_KERNEL(threads, perSm, Args) { body } defines a kernel with the
/// parameter `a` of type Args, for blocks of at most `threads` threads, of
/// which a multiprocessor shall hold `perSm`. Its name MOE_ENTRY is a macro of
/// the compilation. As a piece of a fused launch (MOE_PIECE, Fuse.h) it is a
/// function, with parameters threadIdx to gridDim in place of the launch's own.
// A kernel that is compiled for one architecture may have clusters of blocks
// (Cluster.cuh). Its grid has a multiple of MOE_CLUSTER blocks along x.
#if defined(MOE_CLUSTER) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MOE_BOUNDS(threads, perSm)                                             \
  __launch_bounds__(threads, perSm) __cluster_dims__(MOE_CLUSTER, 1, 1)
#else
#define MOE_BOUNDS(threads, perSm) __launch_bounds__(threads, perSm)
#endif
#ifdef MOE_PIECE
#define MOE_KERNEL(threads, perSm, Args)                                       \
  using PieceArgs = Args;                                                      \
  constexpr int kPieceThreads = threads, kPiecesPerSm = perSm;                 \
  MOE_DEVICE void piece(const Args &a, const uint3 threadIdx,                  \
                        const uint3 blockIdx, const uint3 blockDim,            \
                        const uint3 gridDim)
#elif __CUDA_ARCH__ < 900
#define MOE_KERNEL(threads, perSm, Args)                                       \
  extern "C" __global__ void MOE_BOUNDS(threads, perSm)                        \
      MOE_ENTRY(const __grid_constant__ Args a)
#else
#define MOE_KERNEL(threads, perSm, Args)                                       \
  MOE_DEVICE void body(const Args &a);                                         \
  extern "C" __global__ void MOE_BOUNDS(threads, perSm)                        \
      MOE_ENTRY(const __grid_constant__ Args a) {                              \
    awaitLaunchBefore();                                                       \
    body(a);                                                                   \
  }                                                                            \
  MOE_DEVICE void body(const Args &a)
#endif

constexpr u32 kAllLanes = 0xffffffffu;

/// A condition that is almost never true. The compiler then puts the code that
/// depends on it behind the function, so that the usual path needs no jump: the
/// target of a jump has to be fetched, which takes as long as a load.
#define MOE_RARE(condition) __builtin_expect(condition, 0)

MOE_DEVICE float nanValue() { return __int_as_float(0x7fc00000); }
MOE_DEVICE float infinity() { return __int_as_float(0x7f800000); }
MOE_DEVICE bool isFinite(float x) { return fabsf(x) < infinity(); }

// 16-bit floats are integers here, which avoids the header cuda_fp16.h.
MOE_DEVICE float f16ToFloat(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
MOE_DEVICE u16 floatToF16(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
MOE_DEVICE float bf16ToFloat(u16 bits) {
  return __int_as_float(int(u32(bits) << 16));
}
/// Rounds like kernels/quant/Half.h; sm_75 has no instruction for it.
MOE_DEVICE u16 floatToBf16(float value) {
  u32 bits = u32(__float_as_int(value));
  if ((bits & 0x7fffffff) > 0x7f800000)
    return u16(bits >> 16 | 0x40);
  return u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

MOE_DEVICE u16 loadU16(const u8 *p) { return u16(p[0] | p[1] << 8); }

/// Stores two floats at once. A compiler divides stores of a float2.
MOE_DEVICE void storeTwo(float *to, float x, float y) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};"
               :
               : "l"(to), "f"(x), "f"(y)
               : "memory");
}

/// The sum over a warp, in all lanes. All lanes add the same pairs, and a + b
/// has the bits of b + a, so that they get the same bits.
MOE_DEVICE float warpSum(float x) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2)
    x += __shfl_xor_sync(kAllLanes, x, i);
  return x;
}
MOE_DEVICE float warpMax(float x) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2)
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, i));
  return x;
}

/// The sum over a block of at most 32 whole warps, in all threads. All threads
/// must call it. `shared` has room for 32 floats, which nothing else may use
/// until the block's next barrier.
MOE_DEVICE float blockSum(float x, float *shared) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x = warpSum(x);
  if (lane == 0)
    shared[warp] = x;
  __syncthreads();
  x = lane < int(blockDim.x) / 32 ? shared[lane] : 0.0f;
  return warpSum(x);
}

/// x * sigmoid(gate), in one function so that every kernel rounds in the same
/// places: the results of two kernels for an op have the same bits.
MOE_DEVICE float timesSigmoid(float x, float gate) {
  return x / (1.0f + expf(-gate));
}

#ifdef MOE_ACTIVATION // The value is a moek::Activation.
/// The product of the activated gate `g` and `u`, by moek::Activation: 0 SiLU,
/// 1 GELU by tanh, 2 the clamped SiLU of gpt-oss, 3 ReLU, 4 GELU by erf.
/// Comparisons instead of fminf and fmaxf keep a NaN.
MOE_DEVICE float activate(float g, float u) {
#if MOE_ACTIVATION == 0
  return timesSigmoid(g, g) * u;
#elif MOE_ACTIVATION == 1
  // (1 + tanh z) / 2 equals sigmoid(2 z), which has no difference that cancels.
  return timesSigmoid(g, 1.5957691216f * g * fmaf(0.044715f * g, g, 1)) * u;
#elif MOE_ACTIVATION == 2
  g = g > 7 ? 7 : g;
  u = u > 7 ? 7 : u < -7 ? -7 : u;
  return timesSigmoid(g, 1.702f * g) * (u + 1);
#elif MOE_ACTIVATION == 3
  return (g < 0 ? 0 : g) * u;
#else
  // For negative g, 1 + erf would cancel.
  return 0.5f * g * erfcf(-0.70710678f * g) * u;
#endif
}
#endif

/// Loads a whole sequence by three loads at this place of the code. A compiler
/// would load each member where it is first used, behind branches that wait for
/// other loads.
MOE_DEVICE Sequence loadSequence(const Sequence *from) {
  static_assert(sizeof(Sequence) == 24, "three loads");
  Sequence s;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(s.begin), "=r"(s.count)
               : "l"(from));
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2 + 8];"
               : "=r"(s.position), "=r"(s.state)
               : "l"(from));
  asm volatile("ld.global.u64 %0, [%1 + 16];" : "=l"(s.pages) : "l"(from));
  return s;
}

/// Returns the sequence of row `t` of the step; t is less than the number of
/// tokens. `first` is the step's first sequence, which callers load together
/// with that number.
MOE_DEVICE Sequence sequenceFrom(const Sequence &first, const Step *step,
                                 int t) {
  Sequence s = first;
  for (int i = 1; MOE_RARE(t >= s.begin + s.count); ++i)
    s = loadSequence(step->sequence + i);
  return s;
}

/// The place of a row of the step in its sequence.
struct Place {
  int position;
  const int *pages;
  int state;
};
MOE_DEVICE int sequenceOf(const Step *step, int t) {
  int s = 0;
  while (t >= step->sequence[s].begin + step->sequence[s].count)
    ++s;
  return s;
}
MOE_DEVICE Place placeOf(const Step *step, int t) {
  const Sequence &s = step->sequence[sequenceOf(step, t)];
  return {s.position + t - s.begin, s.pages, s.state};
}

#endif // MOE_KERNELS_CUDA_DEVICE_CUH
