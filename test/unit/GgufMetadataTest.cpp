// Metadata: every type, and every way in which a key can be wrong.

#include "test/unit/GgufTestFixture.h"

using namespace moetest;
using moec::GgufArray;
using moec::GgufType;

namespace {

using GgufMetadataTest = GgufTest;

/// A payload of numbers and texts, for values that no valid file contains.
struct Payload {
  Bytes bytes;
  template <typename T> Payload &number(T value) {
    append(bytes, value);
    return *this;
  }
  Payload &text(std::string_view value) {
    appendString(bytes, value);
    return *this;
  }
};

TEST_F(GgufMetadataTest, ReadsEveryScalarType) {
  GgufBuilder gguf = modelBuilder();
  gguf.add("u8", uint8_t(200)).add("i8", int8_t(-100));
  gguf.add("u16", uint16_t(60000)).add("i16", int16_t(-30000));
  gguf.add("u32", uint32_t(4000000000u)).add("i32", int32_t(-2000000000));
  gguf.add("u64", UINT64_MAX).add("i64", INT64_MIN);
  gguf.add("f32", 1.5f).add("f64", -0.1).add("yes", true).add("no", false);
  gguf.add("text", "hello \xe2\x96\x81");
  auto model = open(gguf);
  ASSERT_TRUE(model.isOk()) << model.status().message();

  auto unsignedOf = [&](const char *key) {
    return std::get<uint64_t>(model->find(key)->data);
  };
  auto signedOf = [&](const char *key) {
    return std::get<int64_t>(model->find(key)->data);
  };
  EXPECT_EQ(unsignedOf("u8"), 200u);
  EXPECT_EQ(signedOf("i8"), -100);
  EXPECT_EQ(unsignedOf("u16"), 60000u);
  EXPECT_EQ(signedOf("i16"), -30000);
  EXPECT_EQ(unsignedOf("u32"), 4000000000u);
  EXPECT_EQ(signedOf("i32"), -2000000000);
  EXPECT_EQ(unsignedOf("u64"), UINT64_MAX);
  EXPECT_EQ(signedOf("i64"), INT64_MIN);
  EXPECT_EQ(**model->getFloat("f32"), 1.5);
  EXPECT_EQ(**model->getFloat("f64"), -0.1);
  EXPECT_EQ(**model->getBool("yes"), true);
  EXPECT_EQ(**model->getBool("no"), false);
  EXPECT_EQ(**model->getString("text"), "hello \xe2\x96\x81");
  EXPECT_EQ(model->find("f64")->type, GgufType::F64);
  EXPECT_EQ(model->find("f64")->fileOffset, gguf.keyAt("f64"));
  EXPECT_EQ(model->find("absent"), nullptr);
  EXPECT_EQ(model->metadata().front().first, "general.architecture");
  EXPECT_EQ(model->metadata().back().first, "text");
}

TEST_F(GgufMetadataTest, ReadsEveryArrayType) {
  GgufBuilder gguf = modelBuilder();
  gguf.addArray<uint8_t>("u8", {0, 255}).addArray<int8_t>("i8", {-128, 127});
  gguf.addArray<uint16_t>("u16", {65535}).addArray<int16_t>("i16", {-32768});
  gguf.addArray<uint32_t>("u32", {UINT32_MAX});
  gguf.addArray<int32_t>("i32", {INT32_MIN, 0, INT32_MAX});
  gguf.addArray<uint64_t>("u64", {uint64_t(INT64_MAX)});
  gguf.addArray<int64_t>("i64", {INT64_MIN});
  gguf.addArray<float>("f32", {0.5f, -2.f}).addArray<double>("f64", {0.1});
  gguf.addRaw("bool", GgufType::Array,
              Payload()
                  .number(GgufType::Bool)
                  .number(uint64_t(2))
                  .number(uint8_t(1))
                  .number(uint8_t(0))
                  .bytes);
  gguf.addStrings("strings", {"a", "", "bc"}).addStrings("none", {});
  auto model = open(gguf);
  ASSERT_TRUE(model.isOk()) << model.status().message();

  auto integers = [&](const char *key) {
    return std::get<GgufArray>(model->find(key)->data).integers;
  };
  using Integers = std::vector<int64_t>;
  EXPECT_EQ(integers("u8"), (Integers{0, 255}));
  EXPECT_EQ(integers("i8"), (Integers{-128, 127}));
  EXPECT_EQ(integers("u16"), (Integers{65535}));
  EXPECT_EQ(integers("i16"), (Integers{-32768}));
  EXPECT_EQ(integers("u32"), (Integers{UINT32_MAX}));
  EXPECT_EQ(integers("i32"), (Integers{INT32_MIN, 0, INT32_MAX}));
  EXPECT_EQ(integers("u64"), (Integers{INT64_MAX}));
  EXPECT_EQ(integers("i64"), (Integers{INT64_MIN}));
  EXPECT_EQ(integers("bool"), (Integers{1, 0}));
  EXPECT_EQ((*model->getArray("f32", GgufType::F32))->floats,
            (std::vector<double>{0.5, -2.0}));
  EXPECT_EQ((*model->getArray("f64", GgufType::F32))->floats,
            (std::vector<double>{0.1}));
  EXPECT_EQ((*model->getArray("strings", GgufType::String))->strings,
            (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ((*model->getArray("none", GgufType::String))->count, 0u);
}

/// An array of `depth` nested arrays that ends in two u16 values.
Bytes nested(unsigned depth) {
  Payload payload;
  for (unsigned i = 1; i < depth; ++i)
    payload.number(GgufType::Array).number(uint64_t(1));
  payload.number(GgufType::U16).number(uint64_t(2));
  return payload.number(uint16_t(7)).number(uint16_t(8)).bytes;
}

TEST_F(GgufMetadataTest, NestedArraysAreValidatedAndSkipped) {
  GgufBuilder gguf = modelBuilder();
  gguf.addRaw("deep", GgufType::Array, nested(4));
  Payload strings;
  strings.number(GgufType::Array).number(uint64_t(2));
  for (int i = 0; i < 2; ++i)
    strings.number(GgufType::String).number(uint64_t(1)).text("xyz");
  gguf.addRaw("texts", GgufType::Array, strings.bytes);
  gguf.add("after", uint32_t(5));
  auto model = open(gguf);
  ASSERT_TRUE(model.isOk()) << model.status().message();
  const auto &deep = std::get<GgufArray>(model->find("deep")->data);
  EXPECT_EQ(deep.elementType, GgufType::Array);
  EXPECT_EQ(deep.count, 1u);
  EXPECT_TRUE(deep.integers.empty());
  EXPECT_EQ(**model->getUint("after"), 5u);
}

TEST_F(GgufMetadataTest, NestingIsLimited) {
  GgufBuilder gguf = modelBuilder();
  gguf.addRaw("deep", GgufType::Array, nested(6));
  // Four heads of 12 bytes, then the array that is one too deep.
  expectErrorAt(gguf, gguf.valueAt("deep") + 5 * 12 - 12,
                {"key \"deep\": arrays are nested more than 4 deep"});
  GgufBuilder bottomless = modelBuilder();
  bottomless.addRaw("deep", GgufType::Array, nested(100000));
  expectErrorAt(bottomless, gguf.valueAt("deep") + 48, {"more than 4 deep"});
}

TEST_F(GgufMetadataTest, NestedLengthsAreBounded) {
  GgufBuilder gguf = modelBuilder();
  gguf.addRaw("deep", GgufType::Array,
              Payload()
                  .number(GgufType::Array)
                  .number(uint64_t(1))
                  .number(GgufType::F64)
                  .number(UINT64_MAX / 8 + 2)
                  .bytes);
  expectErrorAt(gguf, gguf.valueAt("deep") + 16,
                {"key \"deep\": the array's length is 2305843009213693953"});
}

TEST_F(GgufMetadataTest, UnknownTypes) {
  GgufBuilder value = modelBuilder();
  value.addRaw("k", GgufType(13), Bytes(8));
  expectErrorAt(value, value.valueTypeAt("k"),
                {"key \"k\": the value type is 13, expected 0 to 12"});
  GgufBuilder element = modelBuilder();
  element.addRaw("k", GgufType::Array,
                 Payload().number(uint32_t(99)).number(uint64_t(0)).bytes);
  expectErrorAt(
      element, element.valueAt("k"),
      {"key \"k\": the array's element type is 99, expected 0 to 12"});
}

TEST_F(GgufMetadataTest, LengthsBeyondTheFile) {
  GgufBuilder text = modelBuilder();
  text.addRaw("k", GgufType::String, Payload().number(UINT64_MAX).bytes);
  expectErrorAt(text, text.valueAt("k"),
                {"key \"k\": the string claims 18446744073709551615 bytes, but "
                 "only"});
  GgufBuilder array = modelBuilder();
  array.addRaw("k", GgufType::Array,
               Payload().number(GgufType::U8).number(uint64_t(1000)).bytes);
  expectErrorAt(array, array.valueAt("k") + 4,
                {"key \"k\": the array's length is 1000, but the"});
  GgufBuilder overflowing = modelBuilder();
  overflowing.addRaw(
      "k", GgufType::Array,
      Payload().number(GgufType::U64).number(uint64_t(1) << 61).bytes);
  expectErrorAt(overflowing, overflowing.valueAt("k") + 4,
                {"the array's length is 2305843009213693952"});
}

// The elements are numbers; as strings, the first would have a huge length.
TEST_F(GgufMetadataTest, ArrayThatLiesAboutItsType) {
  GgufBuilder gguf = modelBuilder();
  Payload payload;
  payload.number(GgufType::String).number(uint64_t(3));
  for (uint64_t i = 0; i < 3; ++i)
    payload.number(uint64_t(1000000) + i);
  gguf.addRaw("k", GgufType::Array, payload.bytes);
  expectErrorAt(gguf, gguf.valueAt("k") + 12,
                {"key \"k\": a string in the array claims 1000000 bytes"});
}

TEST_F(GgufMetadataTest, UnsignedElementBeyondSignedRange) {
  GgufBuilder gguf = modelBuilder();
  gguf.addArray<uint64_t>("k", {1, uint64_t(INT64_MAX) + 1});
  expectErrorAt(gguf, gguf.valueAt("k") + 12 + 8,
                {"element 1 is 9223372036854775808, expected at most "
                 "9223372036854775807"});
}

TEST_F(GgufMetadataTest, BoolIsZeroOrOne) {
  GgufBuilder gguf = modelBuilder();
  gguf.addRaw("k", GgufType::Bool, {2});
  expectErrorAt(gguf, gguf.valueAt("k"),
                {"key \"k\": a bool is 2, expected 0 or 1"});
}

TEST_F(GgufMetadataTest, KeyNames) {
  GgufBuilder empty = modelBuilder();
  empty.add("", uint32_t(1));
  expectErrorAt(empty, empty.keyAt(""),
                {"metadata key 2 of 2 has 0 bytes, expected 1 to 65535"});
  GgufBuilder longest = modelBuilder();
  longest.add(std::string(65536, 'k'), uint32_t(1));
  expectErrorAt(longest, 24 + 8 + 20 + 4 + 8 + 4,
                {"metadata key 2 of 2 has 65536 bytes"});
  GgufBuilder twice = modelBuilder();
  twice.add("k", uint32_t(1));
  uint64_t first = twice.keyAt("k");
  twice.add("k", uint32_t(1));
  expectErrorAt(
      twice, twice.keyAt("k"),
      {"key \"k\": appears twice, first at byte " + std::to_string(first)});
}

// A key comes from the file, so printing it must not control the terminal.
TEST_F(GgufMetadataTest, KeysArePrintedSafely) {
  GgufBuilder gguf = modelBuilder();
  gguf.addRaw("\x1b[2Jk", GgufType(77), {});
  expectErrorAt(gguf, gguf.valueTypeAt("\x1b[2Jk"), {"key \"\\x1b[2Jk\": "});
}

TEST_F(GgufMetadataTest, Alignment) {
  for (uint32_t alignment : {8u, 16u, 64u, 4096u}) {
    GgufBuilder gguf = modelBuilder();
    gguf.setAlignment(alignment);
    gguf.addTensor("a", moek::Format::F32, {1});
    gguf.addTensor("b", moek::Format::F32, {1});
    auto model = open(gguf);
    ASSERT_TRUE(model.isOk()) << model.status().message();
    EXPECT_EQ(model->tensors()[1].offset - model->tensors()[0].offset,
              alignment);
    EXPECT_EQ(model->tensors()[0].offset % alignment, 0u);
  }
  for (uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 0xffffffffu}) {
    GgufBuilder gguf = modelBuilder();
    gguf.add("general.alignment", alignment);
    expectErrorAt(gguf, gguf.keyAt("general.alignment"),
                  {"key \"general.alignment\": expected a power of two of at "
                   "least 8, found " +
                   std::to_string(alignment)});
  }
  GgufBuilder typed = modelBuilder();
  typed.add("general.alignment", uint64_t(32));
  expectErrorAt(typed, typed.keyAt("general.alignment"),
                {"expected a u32, found a value of type u64"});
}

TEST_F(GgufMetadataTest, TypedAccess) {
  GgufBuilder gguf = modelBuilder();
  gguf.add("i32", int32_t(12)).add("minus", int32_t(-1)).add("f", 1.0f);
  gguf.addArray<float>("floats", {1.f}).addArray<int8_t>("ints", {-1});
  auto model = open(gguf);
  ASSERT_TRUE(model.isOk()) << model.status().message();
  auto expect = [&](const moert::Status &status, const char *key,
                    std::string_view text) {
    expectFailure(status, moert::StatusCode::InvalidFile,
                  {": byte " + std::to_string(gguf.keyAt(key)) + ": key \"" +
                       key + "\": ",
                   text});
  };

  EXPECT_EQ(**model->getUint("i32"), 12u);
  EXPECT_EQ(*model->getUint("absent"), std::nullopt);
  EXPECT_EQ(*model->getFloat("absent"), std::nullopt);
  EXPECT_EQ(*model->getArray("absent", GgufType::U32), nullptr);
  expect(model->getUint("minus").status(), "minus",
         "expected a value of at least 0, found -1");
  expect(model->getUint("f").status(), "f",
         "expected an unsigned integer, found f32");
  expect(model->getFloat("i32").status(), "i32", "expected a float, found i32");
  expect(model->getBool("f").status(), "f", "expected a bool, found f32");
  expect(model->getString("f").status(), "f", "expected a string, found f32");
  expect(model->getString("floats").status(), "floats",
         "expected a string, found array of f32");
  EXPECT_EQ((*model->getArray("ints", GgufType::U32))->integers.front(), -1);
  expect(model->getArray("floats", GgufType::U32).status(), "floats",
         "expected array of integers, found array of f32");
  expect(model->getArray("ints", GgufType::String).status(), "ints",
         "expected array of string, found array of i8");
  expect(model->getArray("f", GgufType::F32).status(), "f",
         "expected array of f32, found f32");
}

} // namespace
