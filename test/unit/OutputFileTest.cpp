// Output that appears whole or not at all.

#include "runtime/base/OutputFile.h"

#include "test/support/TempDir.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>
#include <vector>

using moert::OutputFile;

namespace {

std::string contentOf(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t entries(const moetest::TempDir &folder) {
  auto all = std::filesystem::directory_iterator(folder.path());
  return size_t(std::distance(begin(all), end(all)));
}

TEST(OutputFileTest, AppearsAtCommit) {
  moetest::TempDir folder;
  std::string path = folder.write("out", "old");
  {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file.isOk()) << file.status().message();
    EXPECT_TRUE(file->write("new", 3).isOk());
    EXPECT_EQ(contentOf(path), "old");
  }
  EXPECT_EQ(contentOf(path), "old");
  EXPECT_EQ(entries(folder), 1u) << "an abandoned file is removed";
  auto file = OutputFile::create(path);
  ASSERT_TRUE(file.isOk()) << file.status().message();
  EXPECT_TRUE(file->write("new", 3).isOk());
  EXPECT_TRUE(file->commit().isOk());
  EXPECT_EQ(contentOf(path), "new");
  EXPECT_EQ(entries(folder), 1u);
}

TEST(OutputFileTest, ThreadsWriteTheirParts) {
  moetest::TempDir folder;
  auto file = OutputFile::create(folder.file("out"));
  ASSERT_TRUE(file.isOk()) << file.status().message();
  constexpr size_t kPart = 100000;
  EXPECT_TRUE(file->reserve(4 * kPart).isOk());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        std::string part(kPart, char('a' + i));
        EXPECT_TRUE(file->writeAt(i * kPart, part.data(), kPart).isOk());
      });
  }
  EXPECT_TRUE(file->commit().isOk());
  std::string content = contentOf(folder.file("out"));
  ASSERT_EQ(content.size(), 4 * kPart);
  for (size_t i = 0; i < content.size(); ++i)
    ASSERT_EQ(content[i], char('a' + i / kPart)) << i;
}

TEST(OutputFileTest, ReserveTellsOfAFullDisk) {
  moetest::TempDir folder;
  auto file = OutputFile::create(folder.file("out"));
  ASSERT_TRUE(file.isOk()) << file.status().message();
  auto status = file->reserve(uint64_t(1) << 60);
  EXPECT_EQ(status.code(), moert::StatusCode::Io);
  EXPECT_NE(status.message().find("out: cannot reserve space: "),
            std::string::npos)
      << status.message();
}

// A process that was killed has no lock; one that still writes has.
TEST(OutputFileTest, RemovesWhatAKilledWriterLeftButNotALiveOne) {
  moetest::TempDir folder;
  std::string dead = folder.write("out.tmp.4194304", "half");
  std::string live = folder.write("out.tmp.4194305", "half");
  std::string other = folder.write("out2.tmp.4194304", "another's");
  int fd = ::open(live.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  auto file = OutputFile::create(folder.file("out"));
  ASSERT_TRUE(file.isOk()) << file.status().message();
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(live));
  EXPECT_TRUE(std::filesystem::exists(other));
  ::close(fd);
  // A second writer in this process takes the first for a live one.
  std::string own = folder.file("out.tmp." + std::to_string(::getpid()));
  OutputFile::removeStale(folder.file("out"));
  EXPECT_TRUE(std::filesystem::exists(own));
  EXPECT_FALSE(std::filesystem::exists(live));
}

} // namespace
