//===- PackedFileTest.cpp - The file with packed weights ------------------===//

#include "runtime/pack/PackedFile.h"

#include "kernels/quant/Rows16.h"
#include "runtime/pack/RowSources.h"
#include "test/support/TempDir.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <random>
#include <sys/resource.h>

using namespace moec;
using namespace moert;
using moek::Format;
using moek::Layout;
using moert::Status;
using moert::StatusCode;
using testing::HasSubstr;
namespace stdfs = std::filesystem;

namespace {

/// A weight in a model file, with gaps between its matrices.
struct Stored {
  int64_t outer, rows, cols;
  Format format;
  Layout layout;
  int64_t gap;
  uint64_t at = 0; ///< Offset in the model file.

  int64_t rowBytes() const {
    return int64_t(moek::rowBytes(format, uint64_t(cols)));
  }
  moek::WeightView view() const {
    return {nullptr,    outer, rows, cols, rows * rowBytes() + gap,
            rowBytes(), format};
  }
};

/// Three chunks: weights that begin and end inside of chunks, a large weight
/// across all of them, partial panels, a panel of several MiB, gaps.
const Stored kWeights[] = {
    {1, 1, 64, Format::F32, Layout::Gguf, 0},
    {3, 37, 256, Format::Q4_K, Layout::Rows16, 144},
    {2, 5, 96, Format::Q8_0, Layout::Gguf, 34},
    {4, 1000, 2048, Format::Q8_0, Layout::Rows16, 0},
    {1, 16, 1 << 16, Format::BF16, Layout::Rows16, 0},
    {1, 3, 512, Format::Q6_K, Layout::Rows16, 0},
};

struct PackedFileTest : testing::Test {
  PackedFileTest() {
    std::mt19937 random(11);
    for (Stored &w : weights) {
      w.at = model.size();
      size_t bytes = size_t(w.outer * w.view().outerStride);
      model.resize(model.size() + bytes);
    }
    for (char &byte : model)
      byte = char(random());
    auto opened =
        ModelFile::open(dir.write("model.gguf", model), model.size(), false);
    source = std::make_unique<ModelFile>(std::move(*opened));

    file.headerBytes = 4096;
    uint64_t end = file.headerBytes;
    for (const Stored &w : weights) {
      PackedWeight packed{std::make_unique<ModelRows>(*source, w.at, w.view()),
                          w.outer,
                          w.rows,
                          w.cols,
                          w.format,
                          w.layout,
                          (end + 191) / 64 * 64};
      end = packed.offset + packed.bytes();
      file.weights.push_back(std::move(packed));
    }
    file.bytes = end;
  }

  /// Returns the expected content of the file, row by row and panel by panel.
  std::string expected() {
    std::string all(file.bytes, '\0');
    for (size_t i = 0; i < file.weights.size(); ++i) {
      const Stored &w = weights[i];
      int64_t stored = moek::storedRows(w.layout, w.rows);
      for (int64_t m = 0; m < w.outer; ++m) {
        const char *rows = model.data() + w.at + m * w.view().outerStride;
        char *out =
            all.data() + file.weights[i].offset + m * stored * w.rowBytes();
        if (w.layout == Layout::Gguf)
          std::memcpy(out, rows, size_t(w.rows * w.rowBytes()));
        else
          for (int64_t r = 0; r < w.rows; r += 16)
            EXPECT_TRUE(moek::packRows16(
                w.format,
                reinterpret_cast<const uint8_t *>(rows) + r * w.rowBytes(),
                w.rowBytes(), std::min<int64_t>(16, w.rows - r), w.cols,
                reinterpret_cast<uint8_t *>(out) + r * w.rowBytes()));
      }
    }
    return all;
  }

  std::string written() {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> folder() {
    std::vector<std::string> names;
    for (const auto &entry : stdfs::directory_iterator(dir.path()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  /// Checks that the hashes are those of the written file.
  void expectHashesOfTheFile(const PackedHashes &hashes) {
    std::vector<moert::Extent> extents;
    for (const PackedWeight &weight : file.weights)
      extents.push_back({weight.offset, weight.bytes()});
    moert::WeightHasher hasher(extents);
    auto input = moert::InputFile::open(path);
    ASSERT_TRUE(input.isOk()) << input.status().message();
    ASSERT_TRUE(moert::hashWeights(*input, hasher, {1, {}}).isOk());
    EXPECT_EQ(hashes.checksums, hasher.checksums());
    EXPECT_EQ(hashes.samples, hasher.sampleHash());
  }
  /// Checks that only the model and the old file exist.
  void expectUntouched() {
    EXPECT_EQ(written(), "old");
    EXPECT_EQ(folder(),
              (std::vector<std::string>{"model.gguf", "plan.weights"}));
  }

  /// Writes the file without its header, and renames it to its final name.
  moert::StatusOr<PackedHashes> write(const moert::PiecesOptions &options) {
    MOE_ASSIGN_OR_RETURN(
        moert::OutputFile output,
        moert::OutputFile::create(moert::OutputTarget::ofCache(path)));
    MOE_ASSIGN_OR_RETURN(PackedHashes hashes,
                         writePackedFile(file, output, options));
    MOE_RETURN_IF_ERROR(output.commit());
    return hashes;
  }

  std::vector<Stored> weights{std::begin(kWeights), std::end(kWeights)};
  moetest::TempDir dir;
  std::string model, path = dir.file("plan.weights");
  std::unique_ptr<ModelFile> source;
  PackedFile file;
};

TEST_F(PackedFileTest, HoldsTheSameBytesHoweverManyThreadsWrite) {
  ASSERT_GT(file.bytes, 2 * kPackedChunk);
  std::string bytes = expected();
  for (int threads : {1, 2, 7}) {
    uint64_t last = 0;
    auto progress = [&](uint64_t done, uint64_t total) {
      EXPECT_GE(done, last);
      EXPECT_EQ(total, file.bytes);
      last = done;
      return true;
    };
    auto hashes = write({threads, progress});
    ASSERT_TRUE(hashes.isOk()) << hashes.status().message();
    EXPECT_EQ(last, file.bytes);
    // EXPECT_EQ would print megabytes.
    EXPECT_TRUE(written() == bytes) << threads << " threads";
    expectHashesOfTheFile(*hashes);
  }
}

TEST_F(PackedFileTest, AShorterModelIsAnErrorAndLeavesTheOldFile) {
  dir.write("plan.weights", "old");
  stdfs::resize_file(dir.file("model.gguf"), model.size() / 2);
  Status status = write({2, {}}).status();
  EXPECT_EQ(status.code(), StatusCode::Io);
  EXPECT_THAT(status.message(),
              HasSubstr("model.gguf: became shorter while it was read"));
  expectUntouched();
}

// A limit on file sizes simulates a disk that fails.
TEST_F(PackedFileTest, AFailedWriteLeavesTheOldFile) {
  dir.write("plan.weights", "old");
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  Status status = write({1,
                         [&](uint64_t done, uint64_t) {
                           rlimit limit{done + 100, before.rlim_max};
                           EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
                           return true;
                         }})
                      .status();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), StatusCode::Io);
  EXPECT_THAT(status.message(), HasSubstr("plan.weights: cannot write: "));
  expectUntouched();
}

TEST_F(PackedFileTest, ACancelledRunLeavesTheOldFile) {
  dir.write("plan.weights", "old");
  int calls = 0;
  Status status =
      write({1, [&](uint64_t, uint64_t) { return ++calls < 2; }}).status();
  EXPECT_EQ(status.code(), StatusCode::Cancelled);
  EXPECT_EQ(calls, 2);
  expectUntouched();
}

TEST_F(PackedFileTest, FilesOfAKilledRunAreReplaced) {
  dir.write(".plan.weights.moe-0123456789abcdef.tmp", "half");
  Status status = write({2, {}}).status();
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(folder(), (std::vector<std::string>{"model.gguf", "plan.weights"}));
}

TEST_F(PackedFileTest, NamesTheFolderThatIsMissing) {
  path = dir.file("nowhere/plan.weights");
  Status status = write({2, {}}).status();
  EXPECT_EQ(status.code(), StatusCode::Io);
  EXPECT_THAT(status.message(),
              HasSubstr("nowhere/plan.weights: cannot write: No such file"));
}

TEST_F(PackedFileTest, AnEmptyTableIsAHeader) {
  file.weights.clear();
  file.bytes = file.headerBytes;
  ASSERT_TRUE(write({2, {}}).isOk());
  EXPECT_EQ(written(), std::string(file.headerBytes, '\0'));
}

} // namespace
