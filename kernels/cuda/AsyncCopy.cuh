//===- AsyncCopy.cuh - Copies to shared memory ------------------*- C++ -*-===//
//
// Copies from global to shared memory by cp.async, which run in the background:
// commitCopies() closes a group of them, waitCopies() waits for groups. A
// thread sees its own copies after that wait, others after a barrier as well.
// sm_75 has no cp.async: there the functions load and store at once, and commit
// and wait do nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_ASYNCCOPY_CUH
#define MOE_KERNELS_CUDA_ASYNCCOPY_CUH

#include "kernels/cuda/Device.cuh"

MOE_DEVICE u32 sharedAddress(const void *p) {
  return u32(__cvta_generic_to_shared(p));
}
/// Begins a copy of sixteen bytes to the shared address `to`. Both addresses
/// are multiples of sixteen; the data bypasses L1 (cg).
MOE_DEVICE void copyAsync(u32 to, const void *from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(to), "l"(from)
               : "memory");
#else
  uint4 v = *(const uint4 *)from;
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
#endif
}
/// Copies four or eight bytes asynchronously; they pass through L1 (ca).
template <int Bytes> MOE_DEVICE void copyFew(u32 to, const void *from) {
  static_assert(Bytes == 4 || Bytes == 8);
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
               :
               : "r"(to), "l"(from), "n"(Bytes)
               : "memory");
#else
  if (Bytes == 4) {
    asm volatile("st.shared.u32 [%0], %1;"
                 :
                 : "r"(to), "r"(*(const u32 *)from)
                 : "memory");
  } else {
    uint2 v = *(const uint2 *)from;
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};"
                 :
                 : "r"(to), "r"(v.x), "r"(v.y)
                 : "memory");
  }
#endif
}
/// Begins a copy of four or sixteen bytes to the shared address `to`, or fills
/// them with zeros if not `isCopied`. `from` must be a valid address in either
/// case.
template <int Bytes>
MOE_DEVICE void copyOrZero(u32 to, const void *from, bool isCopied) {
  static_assert(Bytes == 4 || Bytes == 16);
#if __CUDA_ARCH__ >= 800
  if (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(from), "r"(isCopied ? 16 : 0)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(to), "l"(from), "r"(isCopied ? 4 : 0)
                 : "memory");
#else
  if (Bytes == 16) {
    uint4 v = isCopied ? *(const uint4 *)from : uint4{};
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
  } else {
    asm volatile("st.shared.u32 [%0], %1;"
                 :
                 : "r"(to), "r"(isCopied ? *(const u32 *)from : 0)
                 : "memory");
  }
#endif
}
#if __CUDA_ARCH__ >= 800
/// Begins a copy of the first `bytes` of sixteen bytes to the shared address
/// `to`; the others become zero.
MOE_DEVICE void copyAsync(u32 to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(from), "r"(bytes)
               : "memory");
}
MOE_DEVICE void copyAsync(void *to, const void *from, int bytes) {
  copyAsync(sharedAddress(to), from, bytes);
}
#endif
MOE_DEVICE void commitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until at most `Left` of the committed groups are in flight.
template <int Left> MOE_DEVICE void waitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
#endif
}

#endif // MOE_KERNELS_CUDA_ASYNCCOPY_CUH
