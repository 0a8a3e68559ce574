// Truncation at every byte and seeded bit flips give an error or a model whose
// views are all inside its file, and never a crash. --flips=N runs more of
// them.

#include "compiler/Import/ModelCard.h"
#include "compiler/Import/TokenizerMetadata.h"
#include "test/support/SampleModel.h"
#include "test/unit/GgufTestFixture.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <unistd.h>

using namespace moetest;

namespace {

unsigned flips = 2000;

/// Reads everything that a user of an opened model may read.
void walk(const moec::GgufModel &model) {
  uint64_t sum = 0;
  for (const moec::GgufTensor &tensor : model.tensors()) {
    std::span<const uint8_t> bytes = model.tensorBytes(tensor);
    ASSERT_EQ(bytes.size(), tensor.bytes);
    ASSERT_LE(tensor.offset, model.fileBytes(tensor.file));
    ASSERT_LE(tensor.bytes, model.fileBytes(tensor.file) - tensor.offset);
    ASSERT_GE(tensor.offset, model.headerBytes(tensor.file));
    ASSERT_EQ(model.findTensor(tensor.name), &tensor);
    for (uint8_t byte : bytes)
      sum += byte;
  }
  for (const auto &[key, value] : model.metadata()) {
    ASSERT_EQ(model.find(key), &value);
    if (const auto *array = std::get_if<moec::GgufArray>(&value.data))
      for (std::string_view text : array->strings)
        for (char c : text)
          sum += uint8_t(c);
  }
  ASSERT_NE(sum, 0u);
  moert::Status status = moec::checkTokenizerMetadata(model);
  ASSERT_NE(status.isOk(), !status.message().empty());
  auto card = moec::makeModelCard(model);
  ASSERT_NE(card.isOk(), !card.status().message().empty());
}

/// Expects that opening a damaged file gives a usable model, or an error that
/// names a file in `folder`.
void expectModelOrError(const std::string &path, const std::string &folder) {
  auto model = moec::GgufModel::open(path);
  if (model.isOk()) {
    walk(*model);
    return;
  }
  moert::Status status = model.status();
  ASSERT_EQ(int(status.code()), int(moert::StatusCode::InvalidFile));
  ASSERT_TRUE(status.message().starts_with(folder)) << status.message();
  ASSERT_LT(std::ranges::count(status.message(), '\n'), 5) << status.message();
  ASSERT_LT(status.message().size(), 1500u) << status.message();
}

using GgufDamageTest = GgufTest;

TEST_F(GgufDamageTest, TruncationAtEveryByte) {
  sampleModel().write(path);
  ASSERT_TRUE(moec::GgufModel::open(path).isOk())
      << moec::GgufModel::open(path).status().message();
  // The last tensor ends where the file does, so every truncation loses data.
  for (uint64_t size = std::filesystem::file_size(path); size-- > 0;) {
    std::filesystem::resize_file(path, size);
    moert::Status status = moec::GgufModel::open(path).status();
    ASSERT_EQ(int(status.code()), int(moert::StatusCode::InvalidFile))
        << "cut to " << size << " bytes: " << status.message();
    ASSERT_TRUE(status.message().starts_with(path)) << status.message();
  }
}

/// `times` times: inverts one bit in the header of `damaged` and opens
/// `opened`. Both are files of one model in `folder`.
void flipBits(const std::string &damaged, uint64_t headerBytes,
              const std::string &opened, const std::string &folder,
              unsigned times, unsigned seed) {
  int fd = ::open(damaged.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  std::mt19937 random(seed);
  for (unsigned i = 0; i < times; ++i) {
    off_t at = off_t(random() % headerBytes);
    uint8_t mask = uint8_t(1 << random() % 8);
    uint8_t byte = 0;
    ASSERT_EQ(::pread(fd, &byte, 1, at), 1);
    uint8_t flipped = byte ^ mask;
    ASSERT_EQ(::pwrite(fd, &flipped, 1, at), 1);
    expectModelOrError(opened, folder);
    ASSERT_FALSE(::testing::Test::HasFatalFailure())
        << "bit flip " << i << " at byte " << at << ", mask " << int(mask);
    ASSERT_EQ(::pwrite(fd, &byte, 1, at), 1);
  }
  ::close(fd);
}

TEST_F(GgufDamageTest, BitFlips) {
  GgufBuilder gguf = sampleModel();
  gguf.write(path);
  flipBits(path, gguf.dataAt(), path, dir.path(), flips, 20240501);
}

TEST_F(GgufDamageTest, BitFlipsInASplitModel) {
  std::string first = dir.file("m-00001-of-00002.gguf");
  std::string second = dir.file("m-00002-of-00002.gguf");
  GgufBuilder parts[] = {sampleModel(), GgufBuilder()};
  parts[1].addTensor("blk.2.attn_norm.weight", {4}, std::vector<float>(4, 1));
  for (unsigned i = 0; i < 2; ++i)
    parts[i].add("split.no", uint16_t(i)).add("split.count", uint16_t(2));
  parts[0].write(first);
  parts[1].write(second);
  ASSERT_TRUE(moec::GgufModel::open(first).isOk())
      << moec::GgufModel::open(first).status().message();
  flipBits(second, parts[1].dataAt(), first, dir.path(), flips / 4, 11);
  flipBits(second, parts[1].dataAt(), second, dir.path(), flips / 4, 12);
}

/// Replaces a run of the header with random bytes, which causes other damage
/// than single bits.
TEST_F(GgufDamageTest, RandomRuns) {
  Bytes good = sampleModel().build();
  uint64_t headerBytes = sampleModel().dataAt();
  std::mt19937 random(7);
  for (unsigned i = 0; i < flips / 4; ++i) {
    Bytes bad = good;
    uint64_t begin = 4 + random() % (headerBytes - 4);
    uint64_t end = std::min<uint64_t>(begin + 1 + random() % 16, headerBytes);
    for (uint64_t at = begin; at < end; ++at)
      bad[at] = uint8_t(random() % 4 == 0 ? 0xff : random());
    dir.write("model.gguf", bad);
    expectModelOrError(path, path);
    ASSERT_FALSE(HasFatalFailure()) << "run " << begin << " to " << end;
  }
}

} // namespace

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view option = "--flips=";
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (!argument.starts_with(option)) {
      std::fprintf(stderr, "usage: %s [--flips=N]\n", argv[0]);
      return 2;
    }
    flips = unsigned(std::strtoul(argv[i] + option.size(), nullptr, 10));
  }
  return RUN_ALL_TESTS();
}
