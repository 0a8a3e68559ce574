#include "runtime/base/ReadHasher.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <thread>

using namespace moert;

namespace {

struct ReadHasherTest : testing::Test {
  ReadHasherTest() {
    bytes.resize(5 * kHashBlock + 12345);
    for (uint8_t &byte : bytes)
      byte = uint8_t(random());
  }
  uint64_t upTo(uint64_t most) { return random() % most; }

  std::vector<std::string> expected() const {
    WeightHasher hasher(weights);
    hasher.add(0, bytes);
    return hasher.checksums();
  }
  void add(ReadHasher &hasher, uint64_t begin, uint64_t end) const {
    hasher.add(begin, std::span(bytes).subspan(begin, end - begin));
  }

  std::mt19937_64 random{7};
  std::vector<uint8_t> bytes;
  /// Views of one tensor, an empty one, and one that begins and ends within a
  /// block.
  std::vector<Extent> weights{{100, 3 * kHashBlock},
                              {100, kHashBlock},
                              {50, 0},
                              {2 * kHashBlock + 1, 777},
                              {3 * kHashBlock + 100, 2 * kHashBlock + 12000}};
};

TEST_F(ReadHasherTest, HashesReadsOfAnySizeInAnyOrder) {
  for (int round = 0; round < 20; ++round) {
    // Pieces overlap by up to 10 kB, as panels on the border of two chunks do.
    std::vector<Extent> reads;
    for (uint64_t at = 0; at < bytes.size();) {
      uint64_t end = std::min<uint64_t>(
          bytes.size(), at + 1 + upTo(round % 2 ? 3 * kHashBlock : 300'000));
      uint64_t begin = at - std::min(at, upTo(10'000));
      reads.push_back({begin, end - begin});
      at = end;
    }
    std::ranges::shuffle(reads, random);
    ReadHasher hasher(weights);
    for (const Extent &read : reads)
      add(hasher, read.offset, read.end());
    for (size_t i = 0; i < weights.size(); ++i)
      ASSERT_EQ(hasher.checksum(i), expected()[i]) << "weight " << i;
  }
}

TEST_F(ReadHasherTest, ManyThreadsMayAdd) {
  ReadHasher hasher(weights);
  {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, thread] {
        for (uint64_t piece = thread; piece * 70'000 < bytes.size(); piece += 4)
          add(hasher, piece * 70'000,
              std::min<uint64_t>(bytes.size(), piece * 70'000 + 75'000));
      });
  }
  for (size_t i = 0; i < weights.size(); ++i)
    EXPECT_EQ(hasher.checksum(i), expected()[i]) << "weight " << i;
}

TEST_F(ReadHasherTest, AWeightThatWasNotReadWhollyHasNoChecksum) {
  ReadHasher hasher(weights);
  add(hasher, 0, 2 * kHashBlock);
  add(hasher, 2 * kHashBlock + 5, bytes.size());
  EXPECT_EQ(hasher.checksum(0), std::nullopt);
  EXPECT_EQ(hasher.checksum(1), expected()[1]);
  EXPECT_EQ(hasher.checksum(3), std::nullopt);
  EXPECT_EQ(hasher.checksum(4), expected()[4]);
}

} // namespace
