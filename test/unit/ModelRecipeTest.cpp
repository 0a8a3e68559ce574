//===- ModelRecipeTest.cpp - Models of tests from short texts -------------===//

#include "test/support/ModelRecipe.h"

#include "test/support/TempDir.h"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using moec::GgufModel;
using testing::ElementsAre;
using testing::EndsWith;

namespace {

class ModelRecipe : public testing::Test {
protected:
  /// The model of a recipe, written and read again.
  GgufModel model(const std::string &recipe) {
    auto made = moetest::modelOfRecipe(dir_.write("m.recipe", recipe));
    EXPECT_TRUE(made.isOk()) << made.status().message();
    auto read = GgufModel::open(made->write(dir_.file("m.gguf")));
    EXPECT_TRUE(read.isOk()) << read.status().message();
    return *std::move(read);
  }
  std::string errorOf(const std::string &recipe) {
    auto made = moetest::modelOfRecipe(dir_.write("m.recipe", recipe));
    return made ? "" : made.status().message();
  }
  /// The floats of the only tensor of a recipe.
  std::vector<float> drawn(const std::string &recipe) {
    auto made = moetest::modelOfRecipe(dir_.write("m.recipe", recipe));
    EXPECT_TRUE(made.isOk()) << made.status().message();
    moetest::Bytes file = made->build();
    std::vector<float> values((file.size() - made->dataAt()) / sizeof(float));
    std::memcpy(values.data(), file.data() + made->dataAt(),
                values.size() * sizeof(float));
    return values;
  }

  moetest::TempDir dir_;
};

} // namespace

TEST_F(ModelRecipe, StatementsMakeKeysAndTensors) {
  dir_.write("shared.tokenizer",
             "key x.tokens string[$vocab] a {b b} <{0..9}>\n"
             "key x.merges text[] a b\n");
  GgufModel made = model("# A comment, and a line that goes on.\n"
                         "let vocab 5\n"
                         "architecture llama\n"
                         "include shared.tokenizer\n"
                         "key .block_count u32 \\\n"
                         "    3\n"
                         "key .kinds i32[] 7 1*2\n"
                         "tensor blk.{0..1}.w.{2,5} F32 2,$vocab normal 0 1\n");
  EXPECT_EQ(made.architecture(), "llama");
  EXPECT_EQ(std::get<uint64_t>(made.find("llama.block_count")->data), 3u);
  auto arrayOf = [&](const char *key) {
    return std::get<moec::GgufArray>(made.find(key)->data);
  };
  EXPECT_THAT(arrayOf("llama.kinds").integers, ElementsAre(7, 1, 1));
  EXPECT_THAT(arrayOf("x.tokens").strings,
              ElementsAre("a", "{b", "b}", "<0>", "<1>"));
  EXPECT_THAT(arrayOf("x.merges").strings, ElementsAre("a b"));
  std::vector<std::string_view> names;
  for (const moec::GgufTensor &tensor : made.tensors())
    names.push_back(tensor.name);
  EXPECT_THAT(names,
              ElementsAre("blk.0.w.2", "blk.0.w.5", "blk.1.w.2", "blk.1.w.5"));
  EXPECT_THAT(made.tensors()[0].shape, ElementsAre(2, 5, 1, 1));
}

// The numbers were computed independently, with splitmix64 and sums of its
// sixteen-bit parts in integers of any length.
TEST_F(ModelRecipe, NumbersAreKnown) {
  EXPECT_THAT(drawn("seed 1\ntensor a F32 8 normal 0 1\n"),
              ElementsAre(0x1.6672c8p+0f, -0x1.2ad676p-3f, -0x1.a6b58ep-2f,
                          0x1.da6340p-1f, 0x1.f06786p-2f, -0x1.6e6650p+0f,
                          0x1.96fa98p-2f, 0x1.19e950p+0f));
  EXPECT_THAT(drawn("tensor a F32 8 values 1 0.5*2 -3*5\n"),
              ElementsAre(1, 0.5, 0.5, -3, -3, -3, -3, -3));
}

TEST_F(ModelRecipe, DistributionsHaveTheirMoments) {
  auto check = [&](const std::string &distribution, double mean,
                   double deviation) {
    SCOPED_TRACE(distribution);
    std::vector<float> values =
        drawn("seed 3\ntensor a F32 100,200 " + distribution + "\n");
    double sum = 0, squares = 0;
    for (float value : values) {
      sum += value;
      squares += (value - mean) * (value - mean);
    }
    double count = double(values.size());
    EXPECT_NEAR(sum / count, mean, 4 * deviation / std::sqrt(count));
    EXPECT_NEAR(std::sqrt(squares / count), deviation, 0.02 * deviation);
  };
  check("normal 3 0.25", 3, 0.25);
  check("gain 1.5", 0, 0.15);
  check("uniform -1 0.2", -0.4, 1.2 / std::sqrt(12));
}

// A tensor's values do not depend on other tensors in the recipe, but they
// depend on its name and on the seed.
TEST_F(ModelRecipe, TensorsAreDrawnByThemselves) {
  std::vector<float> alone = drawn("seed 1\ntensor a F32 8 normal 0 1\n");
  std::vector<float> beside =
      drawn("seed 1\ntensor a F32 8 normal 0 1\ntensor b F32 8 normal 0 1\n");
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), beside.begin()));
  EXPECT_NE(alone[0], beside[8]);
  EXPECT_NE(alone, drawn("seed 2\ntensor a F32 8 normal 0 1\n"));
}

TEST_F(ModelRecipe, ErrorsNameFileAndLine) {
  EXPECT_THAT(errorOf("seed 1\nsed 2\n"),
              EndsWith("m.recipe:2: \"sed\" with 1 word is no statement"));
  EXPECT_THAT(errorOf("tensor a F32 $d normal 0 1\n"),
              EndsWith(":1: nothing was said before about $d"));
  EXPECT_THAT(errorOf("tensor a F33 4 normal 0 1\n"),
              EndsWith("\"F33\" is no tensor format"));
  EXPECT_THAT(errorOf("tensor a MXFP4 16 codes 1 2\n"),
              EndsWith("MXFP4 needs rows of a multiple of 32"));
  EXPECT_THAT(errorOf("tensor a Q8_0 32 normal 0 1\n"),
              EndsWith("Q8_0 is no format of single numbers"));
  EXPECT_THAT(errorOf("tensor a F32 4 values 1\n"),
              EndsWith("4 values are needed, not 1"));
  EXPECT_THAT(errorOf("tensor a F32 4 gain 1 2\n"),
              EndsWith("gain takes 1 number, not 2"));
  EXPECT_THAT(errorOf("tensor a F32 0 gain 1\n"),
              EndsWith("0 is no shape of a small tensor"));
  EXPECT_THAT(
      errorOf("key a u8 3\n"),
      EndsWith("\"u8\" is no type of a key: u32, i32, u64, f32, bool or string"));
  EXPECT_THAT(errorOf("key a u32 -3\n"),
              EndsWith("\"-3\" is not a number that fits here"));
  EXPECT_THAT(errorOf("key a string[3] x\n"),
              EndsWith("there are 1 values of 3"));
  EXPECT_THAT(errorOf("include none\n"), EndsWith("none: cannot be read"));
}
