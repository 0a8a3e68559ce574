// Checksums and samples as plan.fbs defines them, computed independently.
#include "runtime/base/ContentHash.h"

#include "test/support/TempDir.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/mman.h>
#include <unistd.h>

using namespace moert;
using moetest::TempDir;

namespace {

constexpr uint64_t kMiB = uint64_t(1) << 20;

std::span<const uint8_t> bytesOf(const std::string &text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

std::string pattern(size_t bytes) {
  std::string content(bytes, '\0');
  uint32_t state = 1;
  for (char &byte : content)
    byte = char((state = state * 1664525 + 1013904223) >> 24);
  return content;
}

/// Computes the checksum as plan.fbs defines it.
std::string checksumOf(const std::string &file, Extent weight) {
  std::vector<uint64_t> hashes;
  for (uint64_t at = weight.offset; at < weight.end();) {
    uint64_t end = std::min(weight.end(), (at / kMiB + 1) * kMiB);
    hashes.push_back(hash64({bytesOf(file).subspan(at, end - at)}));
    at = end;
  }
  std::string list(hashes.size() * 8, '\0');
  std::memcpy(list.data(), hashes.data(), list.size());
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(hash64({bytesOf(list)})));
  return text;
}

std::string samplesHashOf(const std::string &file,
                          const std::vector<Extent> &weights) {
  std::string list;
  for (size_t w = 0; w < weights.size(); ++w) {
    std::vector<std::pair<uint64_t, uint64_t>> pages;
    for (uint64_t at = weights[w].offset; at < weights[w].end();) {
      uint64_t end = std::min(weights[w].end(), (at / 4096 + 1) * 4096);
      pages.emplace_back(at, end);
      at = end;
    }
    auto [begin, end] = pages[uint32_t((w + 1) * 2654435769u) % pages.size()];
    uint64_t hash = hash64({bytesOf(file).subspan(begin, end - begin)});
    list.append(reinterpret_cast<const char *>(&hash), 8);
  }
  return contentHash(bytesOf(list));
}

/// Weights that overlap or contain each other, with gaps, across blocks and
/// pieces.
const std::vector<Extent> kWeights = {
    {5 * kMiB + 77, 4 * kMiB},
    {6 * kMiB, 100},
    {100, 3000},
    {3100, 10},
    {3000, 2 * kMiB},
    {3500, kMiB},
    {3 * kMiB, kMiB},
    {9 * kMiB + 77, 1},
    {9 * kMiB + 4096, kMiB},
};

struct ContentHashTest : testing::Test {
  InputFile open() {
    auto file = InputFile::open(dir.file("weights"));
    EXPECT_TRUE(file.isOk()) << file.status().message();
    return *std::move(file);
  }

  TempDir dir;
  std::string content = pattern(11 * kMiB);
  std::string path = dir.write("weights", content);
};

TEST_F(ContentHashTest, MatchesPublishedHashes) {
  // XXH3-128 and -64 of the empty input, from the algorithm's specification.
  EXPECT_EQ(contentHash({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash64({}), 0x2d06800538d394c2u);
}

TEST_F(ContentHashTest, ChecksumsAreAsStated) {
  WeightHasher hasher(kWeights);
  uint64_t last = 0, total = 0;
  auto progress = [&](uint64_t done, uint64_t of) {
    last = done;
    total = of;
    return true;
  };
  Status status = hashWeights(open(), hasher, {3, progress});
  ASSERT_TRUE(status.isOk()) << status.message();
  std::vector<std::string> checksums = hasher.checksums();
  ASSERT_EQ(checksums.size(), kWeights.size());
  for (size_t i = 0; i < kWeights.size(); ++i)
    EXPECT_EQ(checksums[i], checksumOf(content, kWeights[i])) << i;
  EXPECT_EQ(hasher.sampleHash(), samplesHashOf(content, kWeights));
  // Bytes that several weights share are read once.
  EXPECT_EQ(last, bytesToHash(kWeights));
  EXPECT_EQ(total, bytesToHash(kWeights));
  EXPECT_EQ(total, 2900 + 2 * kMiB + kMiB + 4 * kMiB + 1 + kMiB);
}

TEST_F(ContentHashTest, OrderOfPiecesDoesNotMatter) {
  WeightHasher hasher(kWeights);
  for (uint64_t begin : {8, 0, 4})
    hasher.add(
        begin * kMiB,
        bytesOf(content).subspan(
            begin * kMiB, std::min(4 * kMiB, content.size() - begin * kMiB)));
  for (size_t i = 0; i < kWeights.size(); ++i)
    EXPECT_EQ(hasher.checksums()[i], checksumOf(content, kWeights[i])) << i;
  EXPECT_EQ(hasher.sampleHash(), samplesHashOf(content, kWeights));
}

TEST_F(ContentHashTest, ReadsOnlySamples) {
  InputFile file = open();
  auto hash = hashSamples(file, kWeights);
  ASSERT_TRUE(hash.isOk()) << hash.status().message();
  EXPECT_EQ(*hash, samplesHashOf(content, kWeights));
  std::vector<Extent> samples = samplesOf(kWeights);
  ASSERT_EQ(samples.size(), kWeights.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_GE(samples[i].offset, kWeights[i].offset);
    EXPECT_LE(samples[i].end(), kWeights[i].end());
    EXPECT_GT(samples[i].bytes, 0u);
    EXPECT_EQ(samples[i].offset / 4096, (samples[i].end() - 1) / 4096);
  }
}

/// Pages of the file that are in the page cache.
size_t cachedPages(const InputFile &file) {
  void *data =
      ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.descriptor(), 0);
  EXPECT_NE(data, MAP_FAILED);
  std::vector<unsigned char> cached(file.size() / 4096);
  EXPECT_EQ(::mincore(data, file.size(), cached.data()), 0);
  ::munmap(data, file.size());
  return size_t(std::ranges::count_if(
      cached, [](unsigned char page) { return (page & 1) != 0; }));
}

// A cached page would keep the memory around it from becoming a large page.
TEST_F(ContentHashTest, SamplesDoNotStayInThePageCache) {
  InputFile file = open();
  ::fsync(file.descriptor());
  ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  if (cachedPages(file) > 0)
    GTEST_SKIP() << "the folder of temporary files is in memory";
  ASSERT_TRUE(hashSamples(file, kWeights).isOk());
  EXPECT_EQ(cachedPages(file), 0u);
}

TEST_F(ContentHashTest, SamplesOfManyWeightsAreSpread) {
  std::vector<Extent> weights;
  for (uint64_t i = 0; i < 5000; ++i)
    weights.push_back({i * 4096, 4096});
  std::vector<Extent> samples = samplesOf(weights);
  ASSERT_EQ(samples.size(), 1024u);
  for (size_t i = 0; i < samples.size(); ++i)
    EXPECT_EQ(samples[i].offset, i * 5000 / 1024 * 4096);
}

TEST_F(ContentHashTest, AChangedByteChangesOnlyItsWeights) {
  for (uint64_t at :
       {uint64_t(3101), 3 * kMiB - 1, 9 * kMiB + 77, 10 * kMiB + 4095}) {
    std::string other = content;
    other[at] ^= 4;
    dir.write("weights", other);
    WeightHasher hasher(kWeights);
    ASSERT_TRUE(hashWeights(open(), hasher, {}).isOk());
    for (size_t i = 0; i < kWeights.size(); ++i) {
      bool inside = at >= kWeights[i].offset && at < kWeights[i].end();
      EXPECT_EQ(hasher.checksums()[i] != checksumOf(content, kWeights[i]),
                inside)
          << at << " " << i;
    }
  }
}

TEST_F(ContentHashTest, HolesAreZerosThatCostNothing) {
  std::string zeros(content.size(), '\0');
  std::filesystem::resize_file(path, 0);
  std::filesystem::resize_file(path, zeros.size());
  WeightHasher hasher(kWeights);
  ASSERT_TRUE(hashWeights(open(), hasher, {}).isOk());
  for (size_t i = 0; i < kWeights.size(); ++i)
    EXPECT_EQ(hasher.checksums()[i], checksumOf(zeros, kWeights[i])) << i;
  EXPECT_EQ(hasher.sampleHash(), samplesHashOf(zeros, kWeights));

  // Reading a quarter of a TiB of data would take minutes.
  std::filesystem::resize_file(path, uint64_t(1) << 38);
  InputFile file = open();
  ASSERT_TRUE(file.isHole(0, file.size()));
  WeightHasher large({{123, (uint64_t(1) << 38) - 123}});
  ASSERT_TRUE(hashWeights(file, large, {}).isOk());
}

// The file is read with pread, so no signal is raised.
TEST_F(ContentHashTest, AFileThatBecomesShorterIsAnError) {
  InputFile file = open();
  std::filesystem::resize_file(path, 5 * kMiB);
  WeightHasher hasher(kWeights);
  Status status = hashWeights(file, hasher, {2, {}});
  EXPECT_EQ(status.code(), StatusCode::Io);
  EXPECT_NE(status.message().find("weights: became shorter while it was read"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(hashSamples(file, kWeights).status().code(), StatusCode::Io);
}

TEST_F(ContentHashTest, CanBeInterrupted) {
  WeightHasher hasher(kWeights);
  Status status = hashWeights(open(), hasher,
                              {1, [](uint64_t, uint64_t) { return false; }});
  EXPECT_EQ(status.code(), StatusCode::Cancelled);
}

TEST_F(ContentHashTest, AnInputStaysTheFileThatWasOpened) {
  InputFile file = open();
  std::filesystem::remove(path);
  dir.write("weights", "another");
  char byte = 0;
  ASSERT_TRUE(file.readAt(100, &byte, 1).isOk());
  EXPECT_EQ(byte, content[100]);
  for (const char *name : {"missing", "."})
    EXPECT_EQ(InputFile::open(dir.file(name)).status().code(), StatusCode::Io);
}

} // namespace
