//===- VectorMove.cpp - Moves of whole vectors ----------------------------===//

#include "test/softcpu/VectorOperations.h"

#include <algorithm>

namespace moek::test {

namespace {
//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

template <size_t Element>
void move(const VectorInstruction &in, Registers &regs) {
  put<Element>(in, regs, right<Element>(in, regs));
}

template <size_t Element>
void storeAll(const VectorInstruction &in, Registers &regs) {
  putMemory<Element>(in, regs, load(&regs.vector[in.right]), in.bytes);
}

void checkAlignment(const VectorInstruction &in, const Registers &regs) {
  const std::byte *at = in.address.of(regs);
  if (reinterpret_cast<uintptr_t>(at) % in.bytes != 0)
    fault("#GP: an aligned move's address is not aligned", at);
}

template <size_t Element>
void moveAligned(const VectorInstruction &in, Registers &regs) {
  if (in.source != VectorInstruction::Source::Register)
    checkAlignment(in, regs);
  move<Element>(in, regs);
}

template <size_t Element>
void storeAligned(const VectorInstruction &in, Registers &regs) {
  checkAlignment(in, regs);
  storeAll<Element>(in, regs);
}

/// Takes the last source where the mask is set, otherwise the first one or
/// zeros.
template <size_t Element>
void blend(const VectorInstruction &in, Registers &regs) {
  Wide a = left(in, regs), b = right<Element>(in, regs);
  Wide blended = masked<Element>(in, b, a, activeElements(in, regs));
  VectorInstruction unmasked = in;
  unmasked.mask = 0;
  putPart<Element>(unmasked, regs, blended, in.bytes);
}

//===----------------------------------------------------------------------===//
// Broadcasts of `Tuple` bytes
//===----------------------------------------------------------------------===//

template <size_t Tuple> Wide repeated(const void *from) {
  if constexpr (Tuple == 32) {
    __m256i half = _mm256_loadu_si256(static_cast<const __m256i *>(from));
    return {half, half};
  } else if constexpr (Tuple == 16) {
    __m256i half = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(static_cast<const __m128i *>(from)));
    return {half, half};
  } else {
    Unsigned<Tuple> element;
    std::memcpy(&element, from, Tuple);
    Lanes<Unsigned<Tuple>> r;
    for (auto &lane : r.at)
      lane = element;
    return r.wide();
  }
}

template <size_t Tuple, size_t Element>
void broadcast(const VectorInstruction &in, Registers &regs) {
  const void *from = &regs.vector[in.right];
  constexpr std::byte kNothing[Tuple] = {};
  if (in.source != VectorInstruction::Source::Register) {
    bool read = activeElements(in, regs) & lowBits(in.bytes / Element);
    from = read ? in.address.of(regs) : kNothing;
  }
  put<Element>(in, regs, repeated<Tuple>(from));
}

template <size_t Element>
void broadcastGeneral(const VectorInstruction &in, Registers &regs) {
  put<Element>(in, regs, repeated<Element>(&regs.general[in.right]));
}

//===----------------------------------------------------------------------===//
// Parts of `Part` bytes
//===----------------------------------------------------------------------===//

template <size_t Part> size_t partAt(const VectorInstruction &in) {
  return in.immediate % (in.bytes / Part) * Part;
}

template <size_t Part> Wide part(const VectorInstruction &in, Registers &regs) {
  Vector r = {};
  std::memcpy(r.bytes, regs.vector[in.right].bytes + partAt<Part>(in), Part);
  return load(&r);
}

template <size_t Part, size_t Element>
void extract(const VectorInstruction &in, Registers &regs) {
  putPart<Element>(in, regs, part<Part>(in, regs), Part);
}

template <size_t Part, size_t Element>
void extractToMemory(const VectorInstruction &in, Registers &regs) {
  putMemory<Element>(in, regs, part<Part>(in, regs), Part);
}

template <size_t Part, size_t Element>
void insert(const VectorInstruction &in, Registers &regs) {
  Vector r = regs.vector[in.left];
  Wide from = right<Element>(in, regs);
  std::memcpy(r.bytes + partAt<Part>(in), &from, Part);
  put<Element>(in, regs, load(&r));
}

//===----------------------------------------------------------------------===//
// Compressed vectors
//===----------------------------------------------------------------------===//

template <class T>
size_t compressed(const VectorInstruction &in, const Registers &regs,
                  Lanes<T> &to) {
  Lanes<T> a(load(&regs.vector[in.right]));
  size_t count = 0;
  for (size_t i = 0; i < in.bytes / sizeof(T); ++i)
    if (activeElements(in, regs) >> i & 1)
      to[count++] = a[i];
  return count;
}

template <class T> void compress(const VectorInstruction &in, Registers &regs) {
  Lanes<T> r;
  size_t count = compressed(in, regs, r);
  Wide old = load(&regs.vector[in.to]);
  VectorInstruction unmasked = in;
  unmasked.mask = 0;
  putPart<sizeof(T)>(unmasked, regs,
                     masked<sizeof(T)>(in, r.wide(), old, lowBits(count)),
                     in.bytes);
}

template <class T>
void compressToMemory(const VectorInstruction &in, Registers &regs) {
  Lanes<T> r;
  size_t count = compressed(in, regs, r);
  std::memcpy(in.address.of(regs), r.at, count * sizeof(T));
}

template <class T> void expand(const VectorInstruction &in, Registers &regs) {
  uint64_t active = activeElements(in, regs) & lowBits(in.bytes / sizeof(T));
  Lanes<T> from, r;
  if (in.source == VectorInstruction::Source::Register)
    from = Lanes<T>(load(&regs.vector[in.right]));
  else
    std::memcpy(from.at, in.address.of(regs),
                size_t(std::popcount(active)) * sizeof(T));
  size_t next = 0;
  for (size_t i = 0; i < r.kCount; ++i)
    if (active >> i & 1)
      r[i] = from[next++];
  put<sizeof(T)>(in, regs, r.wide());
}

//===----------------------------------------------------------------------===//
// Gathers: indices are in the vector `left`; the mask is cleared
//===----------------------------------------------------------------------===//

template <class T, class Index>
void gather(const VectorInstruction &in, Registers &regs) {
  constexpr size_t kLarger = std::max(sizeof(T), sizeof(Index));
  Lanes<T> r(load(&regs.vector[in.to]));
  Lanes<Index> indices(left(in, regs));
  const std::byte *from = in.address.of(regs);
  size_t count = in.bytes / kLarger;
  for (size_t i = 0; i < count; ++i)
    if (regs.mask[in.mask] >> i & 1)
      std::memcpy(&r[i], from + int64_t(indices[i]) * (1 << in.address.scale),
                  sizeof(T));
  regs.mask[in.mask] = 0;
  VectorInstruction unmasked = in;
  unmasked.mask = 0;
  putPart<sizeof(T)>(unmasked, regs, r.wide(), count * sizeof(T));
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

#define MOE_ROW(name, form, ...)                                               \
  { ZYDIS_MNEMONIC_##name, Form::form, __VA_ARGS__ }
#define MOE_MOVE(name, element)                                                \
  MOE_ROW(name, Vector, move<element>), MOE_ROW(name, Store, storeAll<element>)
#define MOE_ALIGNED(name, element)                                             \
  MOE_ROW(name, Vector, moveAligned<element>),                                 \
      MOE_ROW(name, Store, storeAligned<element>)
#define MOE_PARTS(name, part, element)                                         \
  MOE_ROW(VEXTRACT##name, Immediate, extract<part, element>),                  \
      MOE_ROW(VEXTRACT##name, Store, extractToMemory<part, element>),          \
      MOE_ROW(VINSERT##name, Vector, insert<part, element>)

const VectorRow kRows[] = {
    MOE_MOVE(VMOVUPS, 4),
    MOE_MOVE(VMOVUPD, 8),
    MOE_MOVE(VMOVDQU8, 1),
    MOE_MOVE(VMOVDQU16, 2),
    MOE_MOVE(VMOVDQU32, 4),
    MOE_MOVE(VMOVDQU64, 8),
    MOE_ALIGNED(VMOVAPS, 4),
    MOE_ALIGNED(VMOVAPD, 8),
    MOE_ALIGNED(VMOVDQA32, 4),
    MOE_ALIGNED(VMOVDQA64, 8),
    MOE_ROW(VMOVNTDQA, Vector, moveAligned<4>),
    MOE_ROW(VMOVNTDQ, Store, storeAligned<4>),
    MOE_ROW(VMOVNTPS, Store, storeAligned<4>),
    MOE_ROW(VMOVNTPD, Store, storeAligned<8>),
    MOE_ROW(VPBLENDMB, Vector, blend<1>),
    MOE_ROW(VPBLENDMW, Vector, blend<2>),
    MOE_ROW(VPBLENDMD, Vector, blend<4>),
    MOE_ROW(VPBLENDMQ, Vector, blend<8>),
    MOE_ROW(VBLENDMPS, Vector, blend<4>),
    MOE_ROW(VBLENDMPD, Vector, blend<8>),

    MOE_ROW(VPBROADCASTB, Vector, broadcast<1, 1>),
    MOE_ROW(VPBROADCASTW, Vector, broadcast<2, 2>),
    MOE_ROW(VPBROADCASTD, Vector, broadcast<4, 4>),
    MOE_ROW(VPBROADCASTQ, Vector, broadcast<8, 8>),
    MOE_ROW(VPBROADCASTB, FromGeneral, broadcastGeneral<1>),
    MOE_ROW(VPBROADCASTW, FromGeneral, broadcastGeneral<2>),
    MOE_ROW(VPBROADCASTD, FromGeneral, broadcastGeneral<4>),
    MOE_ROW(VPBROADCASTQ, FromGeneral, broadcastGeneral<8>),
    MOE_ROW(VBROADCASTSS, Vector, broadcast<4, 4>),
    MOE_ROW(VBROADCASTSD, Vector, broadcast<8, 8>),
    MOE_ROW(VBROADCASTF32X2, Vector, broadcast<8, 4>),
    MOE_ROW(VBROADCASTI32X2, Vector, broadcast<8, 4>),
    MOE_ROW(VBROADCASTF32X4, Vector, broadcast<16, 4>),
    MOE_ROW(VBROADCASTI32X4, Vector, broadcast<16, 4>),
    MOE_ROW(VBROADCASTF64X2, Vector, broadcast<16, 8>),
    MOE_ROW(VBROADCASTI64X2, Vector, broadcast<16, 8>),
    MOE_ROW(VBROADCASTF32X8, Vector, broadcast<32, 4>),
    MOE_ROW(VBROADCASTI32X8, Vector, broadcast<32, 4>),
    MOE_ROW(VBROADCASTF64X4, Vector, broadcast<32, 8>),
    MOE_ROW(VBROADCASTI64X4, Vector, broadcast<32, 8>),

    MOE_PARTS(F32X4, 16, 4),
    MOE_PARTS(I32X4, 16, 4),
    MOE_PARTS(F64X2, 16, 8),
    MOE_PARTS(I64X2, 16, 8),
    MOE_PARTS(F32X8, 32, 4),
    MOE_PARTS(I32X8, 32, 4),
    MOE_PARTS(F64X4, 32, 8),
    MOE_PARTS(I64X4, 32, 8),

    MOE_ROW(VPCOMPRESSD, Vector, compress<uint32_t>),
    MOE_ROW(VPCOMPRESSQ, Vector, compress<uint64_t>),
    MOE_ROW(VCOMPRESSPS, Vector, compress<uint32_t>),
    MOE_ROW(VCOMPRESSPD, Vector, compress<uint64_t>),
    MOE_ROW(VPCOMPRESSD, Store, compressToMemory<uint32_t>),
    MOE_ROW(VPCOMPRESSQ, Store, compressToMemory<uint64_t>),
    MOE_ROW(VCOMPRESSPS, Store, compressToMemory<uint32_t>),
    MOE_ROW(VCOMPRESSPD, Store, compressToMemory<uint64_t>),
    MOE_ROW(VPEXPANDD, Vector, expand<uint32_t>),
    MOE_ROW(VPEXPANDQ, Vector, expand<uint64_t>),
    MOE_ROW(VEXPANDPS, Vector, expand<uint32_t>),
    MOE_ROW(VEXPANDPD, Vector, expand<uint64_t>),

    MOE_ROW(VPGATHERDD, Vector, gather<uint32_t, int32_t>),
    MOE_ROW(VPGATHERDQ, Vector, gather<uint64_t, int32_t>),
    MOE_ROW(VPGATHERQD, Vector, gather<uint32_t, int64_t>),
    MOE_ROW(VPGATHERQQ, Vector, gather<uint64_t, int64_t>),
    MOE_ROW(VGATHERDPS, Vector, gather<uint32_t, int32_t>),
    MOE_ROW(VGATHERDPD, Vector, gather<uint64_t, int32_t>),
    MOE_ROW(VGATHERQPS, Vector, gather<uint32_t, int64_t>),
    MOE_ROW(VGATHERQPD, Vector, gather<uint64_t, int64_t>),
};
} // namespace

std::span<const VectorRow> moveRows() { return kRows; }

} // namespace moek::test
