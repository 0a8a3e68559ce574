// The tensor table: sizes of every format, and every way an entry can be wrong.

#include "test/unit/GgufTestFixture.h"

#include <cstring>
#include <unordered_set>

using namespace moetest;
using moek::Format;

namespace {

using GgufTensorTableTest = GgufTest;

TEST_F(GgufTensorTableTest, ReadsShapesOffsetsAndData) {
  GgufBuilder gguf = modelBuilder();
  gguf.addTensor("v", {3}, std::vector<float>{1, 2, 3});
  gguf.addTensor("m", Format::Q8_0, {64, 3}, Bytes(2 * 34 * 3, 7));
  gguf.addTensor("e", Format::Q4_K, {256, 4, 5});
  gguf.addTensor("x", Format::F16, {2, 3, 4, 5});
  auto model = open(gguf);
  ASSERT_TRUE(model.isOk()) << model.status().message();
  ASSERT_EQ(model->tensors().size(), 4u);

  const moec::GgufTensor *v = model->findTensor("v");
  ASSERT_NE(v, nullptr);
  EXPECT_EQ(v->rank, 1u);
  EXPECT_EQ(v->shape, (std::array<uint64_t, 4>{3, 1, 1, 1}));
  EXPECT_EQ(v->bytes, 12u);
  EXPECT_EQ(v->file, 0u);
  float values[3];
  std::memcpy(values, model->tensorBytes(*v).data(), sizeof(values));
  EXPECT_EQ(values[2], 3.f);

  const moec::GgufTensor *m = model->findTensor("m");
  EXPECT_EQ(m->format, Format::Q8_0);
  EXPECT_EQ(m->offset, gguf.dataAt() + 32);
  EXPECT_EQ(m->bytes, 2u * 34 * 3);
  EXPECT_EQ(model->tensorBytes(*m).back(), 7);
  EXPECT_EQ(model->findTensor("e")->bytes, 144u * 4 * 5);
  EXPECT_EQ(model->findTensor("x")->bytes, 2u * 2 * 3 * 4 * 5);
  EXPECT_EQ(model->findTensor("absent"), nullptr);
}

// Block sizes from the layout of each block, independent of the table.
TEST_F(GgufTensorTableTest, KnowsTheSizeOfEveryFormat) {
  struct Size {
    Format format;
    uint64_t elements, bytes;
  };
  const Size sizes[] = {
      {Format::F32, 1, 4},
      {Format::F16, 1, 2},
      {Format::BF16, 1, 2},
      {Format::F64, 1, 8},
      {Format::I8, 1, 1},
      {Format::I16, 1, 2},
      {Format::I32, 1, 4},
      {Format::I64, 1, 8},
      // A scale, then nibbles; _1 adds a minimum, and 5 bits a bit plane.
      {Format::Q4_0, 32, 2 + 16},
      {Format::Q4_1, 32, 2 + 2 + 16},
      {Format::Q5_0, 32, 2 + 4 + 16},
      {Format::Q5_1, 32, 2 + 2 + 4 + 16},
      {Format::Q8_0, 32, 2 + 32},
      {Format::Q8_1, 32, 2 + 2 + 32},
      {Format::IQ4_NL, 32, 2 + 16},
      {Format::MXFP4, 32, 1 + 16},
      {Format::NVFP4, 64, 4 + 32},
      {Format::Q1_0, 128, 2 + 16},
      // K: super-block scales, packed sub-block scales, low bits, high bits.
      {Format::Q2_K, 256, 2 + 2 + 16 + 64},
      {Format::Q3_K, 256, 2 + 12 + 64 + 32},
      {Format::Q4_K, 256, 2 + 2 + 12 + 128},
      {Format::Q5_K, 256, 2 + 2 + 12 + 128 + 32},
      {Format::Q6_K, 256, 2 + 16 + 128 + 64},
      {Format::Q8_K, 256, 4 + 256 + 2 * 16},
      // I: grid indices, signs, scales.
      {Format::IQ1_S, 256, 2 + 32 + 2 * 8},
      {Format::IQ1_M, 256, 32 + 16 + 8},
      {Format::IQ2_XXS, 256, 2 + 2 * 32},
      {Format::IQ2_XS, 256, 2 + 2 * 32 + 8},
      {Format::IQ2_S, 256, 2 + 64 + 8 + 8},
      {Format::IQ3_XXS, 256, 2 + 64 + 32},
      {Format::IQ3_S, 256, 2 + 64 + 8 + 32 + 4},
      {Format::IQ4_XS, 256, 2 + 2 + 4 + 128},
      {Format::TQ1_0, 256, 2 + 4 + 48},
      {Format::TQ2_0, 256, 2 + 64},
  };
  GgufBuilder gguf = modelBuilder();
  std::unordered_set<uint32_t> tested;
  for (const Size &size : sizes) {
    tested.insert(uint32_t(size.format));
    gguf.addTensor("t" + std::to_string(uint32_t(size.format)), size.format,
                   {size.elements * 2, 3});
  }
  auto model = open(gguf);
  ASSERT_TRUE(model.isOk()) << model.status().message();
  for (size_t i = 0; i < std::size(sizes); ++i)
    EXPECT_EQ(model->tensors()[i].bytes, sizes[i].bytes * 6)
        << moek::formatInfo(sizes[i].format).name;
  for (uint32_t number = 0; number < 64; ++number)
    EXPECT_EQ(moek::formatFromNumber(number).has_value(),
              tested.contains(number))
        << "type " << number;
}

/// A model with one tensor, `t`, which tests damage.
struct Damaged {
  GgufBuilder gguf = modelBuilder();
  TensorSpec &tensor;
  Damaged(Format format, std::vector<uint64_t> shape)
      : tensor(gguf.addTensor("t", format, std::move(shape))) {}
};

TEST_F(GgufTensorTableTest, Rank) {
  Damaged none(Format::F32, {4});
  none.tensor.rank = 0;
  expectErrorAt(none.gguf, none.gguf.rankAt("t"),
                {"tensor \"t\": has 0 dimensions, expected 1 to 4"});
  Damaged five(Format::F32, {1, 1, 1, 1, 1});
  expectErrorAt(five.gguf, five.gguf.rankAt("t"),
                {"tensor \"t\": has 5 dimensions, expected 1 to 4"});
}

TEST_F(GgufTensorTableTest, ZeroDimension) {
  Damaged zero(Format::F32, {4, 2, 0});
  expectErrorAt(zero.gguf, zero.gguf.dimensionAt("t", 2),
                {"tensor \"t\": dimension 2 is 0, expected at least 1"});
}

TEST_F(GgufTensorTableTest, UnknownAndRemovedTypes) {
  Damaged unknown(Format::F32, {4});
  unknown.tensor.type = 1000;
  expectErrorAt(unknown.gguf, unknown.gguf.typeAt("t"),
                {"tensor \"t\": unknown tensor type 1000"});
  for (uint32_t number : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    Damaged removed(Format::F32, {4});
    removed.tensor.type = number;
    expectErrorAt(removed.gguf, removed.gguf.typeAt("t"),
                  {"type " + std::to_string(number) + " (",
                   ") was removed from the format"});
  }
}

TEST_F(GgufTensorTableTest, RowsAreWholeBlocks) {
  Damaged row(Format::Q4_K, {1408, 2});
  expectErrorAt(
      row.gguf, row.gguf.tensorAt("t"),
      {"tensor \"t\": rows of 1408 elements are not a multiple of the "
       "block of 256 that Q4_K needs"});
}

TEST_F(GgufTensorTableTest, ShapesThatOverflow) {
  const std::vector<uint64_t> shapes[] = {
      {uint64_t(1) << 32, uint64_t(1) << 32},
      {1, uint64_t(1) << 63, 2},
      {1, uint64_t(1) << 63},
      {uint64_t(1) << 62},
      {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
  };
  for (const auto &shape : shapes) {
    Damaged huge(Format::F32, shape);
    huge.tensor.bytes = 0;
    expectErrorAt(huge.gguf, huge.gguf.tensorAt("t"),
                  {"tensor \"t\": the shape [" + std::to_string(shape[0]),
                   "] as F32 overflows 64 bits"});
  }
  // 2^64 elements, though fewer bytes.
  uint64_t rows = uint64_t(1) << 28;
  Damaged elements(Format::Q4_K, {256, rows, rows});
  elements.tensor.bytes = 0;
  expectErrorAt(elements.gguf, elements.gguf.tensorAt("t"),
                {"tensor \"t\": the shape [256, 268435456, 268435456] as Q4_K "
                 "overflows 64 bits"});
}

TEST_F(GgufTensorTableTest, OffsetBeyondTheFile) {
  Damaged beyond(Format::F32, {4});
  beyond.tensor.offset = 64;
  uint64_t begin = beyond.gguf.dataAt() + 64;
  expectErrorAt(beyond.gguf, beyond.gguf.offsetAt("t"),
                {"tensor \"t\": needs bytes " + std::to_string(begin) + " to " +
                     std::to_string(begin + 16) + ", but the file has " +
                     std::to_string(beyond.gguf.fileBytes()),
                 "truncated"});
  Damaged overflowing(Format::F32, {4});
  overflowing.tensor.offset = UINT64_MAX - 31;
  expectErrorAt(overflowing.gguf, overflowing.gguf.offsetAt("t"),
                {"tensor \"t\": offset 18446744073709551584 plus 16 bytes "
                 "overflows 64 bits"});
  Damaged large(Format::F32, {uint64_t(1) << 50});
  large.tensor.bytes = 0;
  expectErrorAt(large.gguf, large.gguf.offsetAt("t"), {"but the file has"});
}

TEST_F(GgufTensorTableTest, MisalignedOffset) {
  Damaged odd(Format::F32, {4});
  odd.tensor.offset = 8;
  expectErrorAt(
      odd.gguf, odd.gguf.offsetAt("t"),
      {"tensor \"t\": offset 8 is not a multiple of the alignment 32"});
}

TEST_F(GgufTensorTableTest, Names) {
  GgufBuilder empty = modelBuilder();
  empty.addTensor("", Format::F32, {4});
  expectErrorAt(empty, empty.tensorAt(""),
                {"the name of tensor 1 of 1 has 0 bytes, expected 1 to 65535"});
  GgufBuilder twice = modelBuilder();
  twice.addTensor("t", Format::F32, {4});
  uint64_t first = twice.tensorAt("t");
  twice.addTensor("t", Format::F32, {4});
  expectErrorAt(
      twice, twice.tensorAt("t"),
      {"tensor \"t\": appears twice, first at byte " + std::to_string(first)});
}

TEST_F(GgufTensorTableTest, Overlap) {
  GgufBuilder gguf = modelBuilder();
  gguf.addTensor("a", Format::F32, {16}); // The tensor has 64 bytes.
  gguf.addTensor("b", Format::F32, {16}).offset = 32;
  uint64_t data = gguf.dataAt();
  expectErrorAt(gguf, gguf.offsetAt("b"),
                {"tensor \"b\": begins at byte " + std::to_string(data + 32) +
                 ", inside tensor \"a\" (bytes " + std::to_string(data) +
                 " to " + std::to_string(data + 64) + ")"});
  GgufBuilder reversed = modelBuilder();
  reversed.addTensor("a", Format::F32, {16}).offset = 64;
  reversed.addTensor("b", Format::F32, {16}).offset = 0;
  EXPECT_TRUE(open(reversed).isOk()) << "order in the table is free";
}

} // namespace
