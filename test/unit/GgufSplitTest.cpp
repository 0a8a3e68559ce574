// Models in several files: opening any part, and parts that do not belong
// together.

#include "test/unit/GgufTestFixture.h"

#include <cstring>
#include <filesystem>

using namespace moetest;
using moek::Format;
using moert::StatusCode;

namespace {

/// A model of three parts with two tensors each.
class GgufSplitTest : public GgufTest {
protected:
  static constexpr unsigned count = 3;

  GgufSplitTest() {
    for (unsigned i = 0; i < count; ++i) {
      GgufBuilder &part = parts.emplace_back();
      if (i == 0)
        part.add("general.architecture", "test").add("general.name", "model");
      part.add("split.no", uint16_t(i));
      part.add("split.count", uint16_t(count));
      part.add("split.tensors.count", int32_t(2 * count));
      for (unsigned j = 0; j < 2; ++j)
        part.addTensor(tensorName(2 * i + j), {1},
                       std::vector<float>{float(2 * i + j)});
    }
  }

  static std::string tensorName(unsigned i) {
    return "blk." + std::to_string(i) + ".weight";
  }
  std::string partPath(unsigned number) {
    return dir.file("model-0000" + std::to_string(number) + "-of-00003.gguf");
  }
  void writeAll() {
    for (unsigned i = 0; i < count; ++i)
      parts[i].write(partPath(i + 1));
  }
  void expectError(StatusCode code,
                   std::initializer_list<std::string_view> pieces) {
    expectFailure(moec::GgufModel::open(partPath(1)).status(), code, pieces);
  }

  std::vector<GgufBuilder> parts;
};

TEST_F(GgufSplitTest, OpensByAnyPart) {
  writeAll();
  for (unsigned number = 1; number <= count; ++number) {
    auto model = moec::GgufModel::open(partPath(number));
    ASSERT_TRUE(model.isOk()) << model.status().message();
    ASSERT_EQ(model->paths().size(), count);
    EXPECT_EQ(model->paths()[2], partPath(3));
    EXPECT_EQ(**model->getString("general.name"), "model");
    ASSERT_EQ(model->tensors().size(), 2 * count);
    for (unsigned i = 0; i < 2 * count; ++i) {
      const moec::GgufTensor *tensor = model->findTensor(tensorName(i));
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->file, i / 2);
      float value;
      std::memcpy(&value, model->tensorBytes(*tensor).data(), sizeof(value));
      EXPECT_EQ(value, float(i));
    }
  }
}

TEST_F(GgufSplitTest, PartsMayRepeatMetadataAndDifferInAlignment) {
  parts[1].add("general.name", "model").setAlignment(64);
  writeAll();
  EXPECT_TRUE(moec::GgufModel::open(partPath(1)).isOk());
}

TEST_F(GgufSplitTest, SplitIntoOneIsAWholeModel) {
  GgufBuilder gguf = modelBuilder();
  gguf.add("split.count", uint16_t(1)).add("split.no", uint16_t(0));
  EXPECT_TRUE(open(gguf).isOk());
}

TEST_F(GgufSplitTest, MissingPartsAreListed) {
  parts[0].write(partPath(1));
  expectError(StatusCode::Io, {"2 of the 3 parts of this split model are "
                               "missing: " +
                               partPath(2) + ", " + partPath(3)});
}

TEST_F(GgufSplitTest, RenamedPart) {
  parts[0].write(path);
  std::string at = std::to_string(parts[0].keyAt("split.count"));
  expectFailure(moec::GgufModel::open(path).status(), StatusCode::InvalidFile,
                {"byte " + at + ": key \"split.count\": is one of 3 parts",
                 "NAME-00001-of-00003.gguf"});
}

TEST_F(GgufSplitTest, SwappedParts) {
  writeAll();
  std::filesystem::rename(partPath(2), dir.file("x"));
  std::filesystem::rename(partPath(3), partPath(2));
  std::filesystem::rename(dir.file("x"), partPath(3));
  std::string at = std::to_string(parts[2].keyAt("split.no"));
  expectError(StatusCode::InvalidFile,
              {partPath(2) + ": byte " + at +
               ": key \"split.no\": expected 1, found 2: the file holds part 3 "
               "but is named part 2"});
}

TEST_F(GgufSplitTest, PartOfAnotherCount) {
  writeAll();
  GgufBuilder other;
  other.add("split.no", uint16_t(1)).add("split.count", uint16_t(5));
  other.write(partPath(2));
  expectError(
      StatusCode::InvalidFile,
      {partPath(2) + ": byte " + std::to_string(other.keyAt("split.count")) +
       ": key \"split.count\": expected 3 as in the file name, found 5"});
}

TEST_F(GgufSplitTest, PartNumberMissingOrOutOfRange) {
  writeAll();
  GgufBuilder none;
  none.add("split.count", uint16_t(3));
  none.write(partPath(2));
  expectError(StatusCode::InvalidFile,
              {partPath(2) + ": key \"split.no\" is missing in a part of a "
                             "split model"});
  GgufBuilder beyond;
  beyond.add("split.count", uint16_t(3)).add("split.no", uint16_t(3));
  beyond.write(partPath(2));
  expectError(StatusCode::InvalidFile,
              {"key \"split.no\": expected less than 3, found 3"});
}

TEST_F(GgufSplitTest, WholeModelInPlaceOfAPart) {
  writeAll();
  modelBuilder().write(partPath(3));
  expectError(StatusCode::InvalidFile,
              {partPath(3) + ": key \"split.count\": expected 3 as in the file "
                             "name, found 1"});
}

TEST_F(GgufSplitTest, TensorTotal) {
  parts[2].addTensor("extra", Format::F32, {1});
  writeAll();
  std::string at = std::to_string(parts[0].keyAt("split.tensors.count"));
  expectError(
      StatusCode::InvalidFile,
      {partPath(1) + ": byte " + at +
       ": key \"split.tensors.count\": expected 7, the tensors in all 3 "
       "parts, found 6"});
}

TEST_F(GgufSplitTest, TensorInTwoParts) {
  for (unsigned i = 0; i < count; ++i) {
    GgufBuilder part;
    if (i == 0)
      part.add("general.architecture", "test");
    part.add("split.no", uint16_t(i)).add("split.count", uint16_t(count));
    part.addTensor(i == 0 ? "other" : "twice", Format::F32, {1});
    part.write(partPath(i + 1));
  }
  expectError(StatusCode::InvalidFile,
              {partPath(3) + ": tensor \"twice\" appears twice, first in " +
               partPath(2)});
}

TEST_F(GgufSplitTest, PartsOfDifferentModels) {
  parts[1].add("general.name", "another");
  writeAll();
  std::string at = std::to_string(parts[1].keyAt("general.name"));
  std::string first = std::to_string(parts[0].keyAt("general.name"));
  expectError(StatusCode::InvalidFile,
              {partPath(2) + ": byte " + at +
                   ": key \"general.name\": expected the value in " +
                   partPath(1) + " (byte " + first + ")",
               "different models"});
}

TEST_F(GgufSplitTest, DamagedPartNamesItself) {
  writeAll();
  parts[2].version = 9;
  parts[2].write(partPath(3));
  expectError(StatusCode::InvalidFile,
              {partPath(3) + ": byte 4: GGUF version is 9"});
}

TEST_F(GgufSplitTest, SplitKeysOfAnotherType) {
  GgufBuilder gguf = modelBuilder();
  gguf.add("split.count", "three");
  expectErrorAt(gguf, gguf.keyAt("split.count"),
                {"key \"split.count\": expected an unsigned integer, found "
                 "string"});
}

} // namespace
