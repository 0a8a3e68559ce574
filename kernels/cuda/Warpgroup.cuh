//===- Warpgroup.cuh - Matrix products of warpgroups ------------*- C++ -*-===//
//
// sm_90a only: D[64][N] += A[64][16] * B[16][N] of 16-bit floats with F32 sums,
// by four warps whose first one's number is a multiple of four. Products run in
// the background:
//
//   fenceProducts();                  // Registers of A and D are final.
//   multiplyGroup(d, a, b);           // Any number of them.
//   commitProducts();
//   waitProducts<Left>();             // At most Left commits are in flight.
//   keepSums(d);                      // Before the code reads d.
//
// Until its wait, neither the registers of A and D nor the shared memory of B
// may change; products in flight may share D. All four warps execute the same.
//
// A warp passes its sixteen rows of A in the registers of mma.m16n8k16
// (HalfMma.cuh), and gets its sixteen rows of D: d[i] has columns 8 i .. 8 i +
// 7, in the registers of the same mma.
//
// B is in shared memory in one of two orders. Row-wise (columnsOf()), each row
// of the memory is a column of B with neighbouring k: 128 bytes, of which the
// sixteen bytes with number i are at place i ^ (row % 8), or 64 bytes with
// place i ^ (row / 2 % 4). Rows follow each other, and another sixteen k are 32
// bytes further. K-wise (rowsOf()), each row is one k with 64 neighbouring
// columns, whose sixteen bytes are in the same order. Rows of k follow each
// other, and 64 columns further are `apart` bytes further.
//
// What a thread wrote to shared memory through the generic proxy (stores, or
// cp.async that it waited for) products may read after that thread's
// fenceShared() and a barrier.
//
// Who includes this defines MOE_HALF as for HalfMma.cuh. A kernel asks for it
// with the definition MOE_WARPGROUP (KernelSpec.h), and uses it where
// MOE_HAS_WARPGROUPS is defined; it needs other code for other architectures.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_WARPGROUP_CUH
#define MOE_KERNELS_CUDA_WARPGROUP_CUH

#include "kernels/cuda/AsyncCopy.cuh"

#if defined(MOE_WARPGROUP) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MOE_HAS_WARPGROUPS
#endif

/// A matrix in shared memory, as wgmma takes it (PTX ISA, "Matrix-descriptor").
using Tile64 = unsigned long long;

/// Makes a descriptor with a leading and a stride byte offset, which mean
/// different distances in the two orders below. `swizzle` 1 is that of 128
/// bytes, 2 that of 64.
MOE_DEVICE Tile64 tileOf(u32 address, int leadingBytes, int strideBytes,
                         int swizzle) {
  return Tile64(swizzle) << 62 | Tile64(strideBytes / 16) << 32 |
         Tile64(leadingBytes / 16) << 16 | (address & 0x3ffff) >> 4;
}
/// Returns the matrix with k along the rows of memory, which have `RowBytes`
/// bytes; its stride is that of eight rows. `address` is where row 0 begins,
/// plus 32 bytes for each sixteen k before the first that is multiplied; row 0
/// is aligned to 8 * `RowBytes`.
template <int RowBytes> MOE_DEVICE Tile64 columnsOf(u32 address) {
  static_assert(RowBytes == 64 || RowBytes == 128);
  return tileOf(address, 16, 8 * RowBytes, RowBytes == 128 ? 1 : 2);
}
/// Returns the matrix whose sixteen k are sixteen rows of 128 bytes from
/// `address` on, each with 64 columns. The next 64 columns are `apart` bytes
/// further (the leading offset), the next eight k 1024 (the stride).
MOE_DEVICE Tile64 rowsOf(u32 address, int apart) {
  return tileOf(address, apart, 8 * 128, 1);
}

/// The tile that begins some bytes, a multiple of sixteen, after `tile`.
MOE_DEVICE Tile64 laterTile(Tile64 tile, int bytes) {
  return tile + bytes / 16;
}

/// Orders what this thread wrote to shared memory before products that read it
/// after a barrier.
MOE_DEVICE void fenceShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
MOE_DEVICE void fenceProducts() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
MOE_DEVICE void commitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int Left> MOE_DEVICE void waitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}
/// Stands between waitProducts() and the first use of the sums: the compiler
/// may not move reads of `d` before it, and so not before the wait.
template <int Count> MOE_DEVICE void keepSums(float (&d)[Count][4]) {
#pragma unroll
  for (int i = 0; i < Count; ++i)
    asm volatile(""
                 : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
                 :
                 : "memory");
}

// Operand lists of the assembly below: an instruction of N columns has N / 2
// sums in a lane, %0 to %(N/2 - 1); the operands of A and B follow.
#define MOE_TEN(t)                                                             \
  "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t \
  "7, %" #t "8, %" #t "9"
#define MOE_NEXT(t) ", " MOE_TEN(t)
#define MOE_TO_15 MOE_TEN() ", %10, %11, %12, %13, %14, %15"
#define MOE_TO_29 MOE_TEN() MOE_NEXT(1) MOE_NEXT(2)
#define MOE_TO_31 MOE_TO_29 ", %30, %31"
#define MOE_TO_59 MOE_TO_29 MOE_NEXT(3) MOE_NEXT(4) MOE_NEXT(5)
#define MOE_TO_63 MOE_TO_59 ", %60, %61, %62, %63"
#define MOE_TO_89 MOE_TO_59 MOE_NEXT(6) MOE_NEXT(7) MOE_NEXT(8)
#define MOE_TO_119 MOE_TO_89 MOE_NEXT(9) MOE_NEXT(10) MOE_NEXT(11)
#define MOE_TO_127 MOE_TO_119 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define MOE_SUM(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define MOE_SUMS_4(i) MOE_SUM(i), MOE_SUM(i + 1), MOE_SUM(i + 2), MOE_SUM(i + 3)
#define MOE_SUMS_16(i)                                                         \
  MOE_SUMS_4(i), MOE_SUMS_4(i + 4), MOE_SUMS_4(i + 8), MOE_SUMS_4(i + 12)

/// multiplyGroup(d, a, b): A in registers; and multiplyGroup(d, a, b) with A in
/// shared memory as columnsOf() says, its rows like B's columns. IsRows: B is
/// from rowsOf().
#define MOE_PRODUCT(N, Text, Sums, A0, A1, A2, A3, B, T, SharedB, SharedT)     \
  template <bool IsRows = false>                                               \
  MOE_DEVICE void multiplyGroup(float(&d)[N / 8][4], const u32(&a)[4],         \
                                Tile64 b) {                                    \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." MOE_HALF    \
                 "." MOE_HALF " {" Text "}, {%" #A0 ", %" #A1 ", %" #A2        \
                 ", %" #A3 "}, %" #B ", 1, 1, 1, %" #T ";"                     \
                 : Sums                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),         \
                   "n"(int(IsRows)));                                          \
  }                                                                            \
  template <bool IsRows = false>                                               \
  MOE_DEVICE void multiplyGroup(float(&d)[N / 8][4], Tile64 a, Tile64 b) {     \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." MOE_HALF    \
                 "." MOE_HALF " {" Text "}, %" #A0 ", %" #SharedB              \
                 ", 1, 1, 1, 0, %" #SharedT ";"                                \
                 : Sums                                                        \
                 : "l"(a), "l"(b), "n"(int(IsRows)));                          \
  }
MOE_PRODUCT(32, MOE_TO_15, MOE_SUMS_4(0), 16, 17, 18, 19, 20, 21, 17, 18)
#define MOE_SUMS_8 MOE_SUMS_4(0), MOE_SUMS_4(4)
MOE_PRODUCT(64, MOE_TO_31, MOE_SUMS_8, 32, 33, 34, 35, 36, 37, 33, 34)
MOE_PRODUCT(128, MOE_TO_63, MOE_SUMS_16(0), 64, 65, 66, 67, 68, 69, 65, 66)
#define MOE_SUMS_32 MOE_SUMS_16(0), MOE_SUMS_16(16)
MOE_PRODUCT(256, MOE_TO_127, MOE_SUMS_32, 128, 129, 130, 131, 132, 133, 129,
            130)

#endif // MOE_KERNELS_CUDA_WARPGROUP_CUH
