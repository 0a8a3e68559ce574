//===- Bytes.h - Operations on vectors of 32 bytes --------------*- C++ -*-===//
//
// The gemms of this folder are written with the operations of an instruction
// set's Bytes.h: avx2/Bytes.h (for AVX-VNNI too), neon/Bytes.h. Numbers at the
// ends of names are bits of an element.
//
//   Floats, Ints, Bytes16    8 floats, as Simd::Vec; 32 bytes of integers of
//                            any width; 16 of them
//   load256, load128, load64 from any address; load64 leaves the upper half
//   zero store(p, v)              to an aligned address setN(x) x in every
//   element list32, list64, bytes16  elements from the lowest up; bytes16 takes
//   two of
//                            64 bits or four of 32
//   twice, join, lowHalf     both halves, two halves, the lower half
//   bitAnd, bitOr, bitXor, andNot(a, b) = a & ~b, equalN (all ones or zero)
//   shiftLeftN, shiftRightN, shiftSignedN(v, n), shiftRightEach32(v, counts)
//   addN, subN, mul16 (lower half), max32 (signed)
//   pairProducts(a, b)       int16 times int16, pairs of products added
//   shuffle(v, index)        in each half, the byte at index 0 .. 15, or zero
//                            where the index is 0x80
//   signedN, unsignedN(v)    from the lowest bytes of a Bytes16
//   lowWords32, highWords32  int16 of one half
//   toFloats, asFloats, asInts   conversion of int32; the same bits
//   halves, broadcastHalf    F16 numbers as floats
//   negatedFma(a, b, c)      -(a * b) - c
//   upper8                   bytes 8 .. 15 in the lower half
//   interleave(a, b)         bytes a0 b0 a1 b1 ... of the lower halves
//   lowNibbles, highNibbles  as bytes
//   shiftBytes7              the lower 8 bytes as 16 bits, times 128
//   nibbles                  16 low nibbles and then 16 high nibbles
//   nibbleOctets             8 low and 8 high nibbles of each half
//   broadcastLane(v, i)      v[i]
//   spreadPair(v, i)         v[i] four times, v[i + 1] four times
//   lowTwice, highTwice      v[0] v[0] v[1] v[1] ..., v[4] v[4] ...
//   firstLanes(count), loadMasked, storeMasked    none if count is negative
//   transpose8x8             of int32: r[i] lane j to r[j] lane i
//   kHasDots, kSignedDots, kDotStart, dot4, floats    see avx2/Products.h
//   HalfColumns              the columns of an F16 tile: see Rows16Float.h
//   kHasMatrices             whether panels are multiplied by instructions for
//                            small matrices, with storePair() and matrixDots()
// Of sets without kHasDots: products16, byteProducts, addInOrder16 and 32,
// laneStarts.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LANES8_BYTES_H
#define MOE_KERNELS_CPU_LANES8_BYTES_H

#if defined(__aarch64__)
#include "kernels/cpu/neon/Bytes.h"
#else
#include "kernels/cpu/avx2/Bytes.h"
#endif

#endif // MOE_KERNELS_CPU_LANES8_BYTES_H
