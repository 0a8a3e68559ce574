// A file's bytes, mapped or copied.

#include "runtime/base/MappedFile.h"

#include "test/support/TempDir.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <mutex>

using moert::MappedFile;

namespace {

TEST(MappedFileTest, CopyOutlivesTheFilesContent) {
  moetest::TempDir folder;
  // More than two pages, and not a whole number of them.
  std::string content(10000, 'x');
  content[4096] = 'y';
  std::string path = folder.write("weights", content);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.isOk()) << file.status().message();
  auto status = file->copyToMemory();
  ASSERT_TRUE(status.isOk()) << status.message();

  // Access to a mapping after the new end would fault.
  std::filesystem::resize_file(path, 1);
  ASSERT_EQ(file->bytes().size(), content.size());
  EXPECT_TRUE(
      std::equal(file->bytes().begin(), file->bytes().end(), content.begin()));
}

// A recompilation may replace the file at the path meanwhile.
TEST(MappedFileTest, CopyIsOfTheFileThatWasOpened) {
  moetest::TempDir folder;
  std::string path = folder.write("weights", "abc");
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.isOk()) << file.status().message();
  std::filesystem::remove(path);
  folder.write("weights", "xyz");
  auto status = file->copyToMemory();
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(file->bytes()[2], 'c');
}

// A table whose rows are read from the file costs a copy no memory: its whole
// pages are still those of the file.
TEST(MappedFileTest, CopyLeavesRowsInTheFile) {
  moetest::TempDir folder;
  constexpr size_t kPage = 4096;
  std::string content(10 * kPage + 100, '\0');
  for (size_t i = 0; i < content.size(); ++i)
    content[i] = char(i / kPage + 1);
  std::string path = folder.write("weights", content);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.isOk()) << file.status().message();
  file->readByRows(2 * kPage - 7, 4 * kPage + 9);
  file->readByRows(7 * kPage + 1, 8 * kPage);
  file->readByRows(9 * kPage, content.size());
  auto status = file->copyToMemory();
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_TRUE(file->isCopy());
  ASSERT_EQ(file->bytes().size(), content.size());
  EXPECT_TRUE(
      std::equal(file->bytes().begin(), file->bytes().end(), content.begin()));

  std::string changed(content.size(), 'z');
  {
    std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
    out.write(changed.data(), std::streamsize(changed.size()));
  }
  for (size_t page = 0; page <= 10; ++page) {
    bool isOfFile = page == 2 || page == 3 || page == 9;
    EXPECT_EQ(file->bytes()[page * kPage],
              isOfFile ? uint8_t('z') : uint8_t(page + 1))
        << page;
  }
}

TEST(MappedFileTest, CopyOfAFileThatBecameShorterFailsAndKeepsTheMapping) {
  moetest::TempDir folder;
  std::string path = folder.write("weights", "abc");
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.isOk()) << file.status().message();
  std::filesystem::resize_file(path, 1);
  auto status = file->copyToMemory();
  EXPECT_EQ(status.code(), moert::StatusCode::Io);
  EXPECT_EQ(file->bytes()[0], 'a');
}

// For a mapping and for a copy: what can be checked without knowing whether
// this system has huge pages for files.
TEST(MappedFileTest, MapsFromTheStartOfAHugePageAndTellsItsUse) {
  moetest::TempDir folder;
  constexpr size_t kHuge = size_t(2) << 20, kBytes = 3 * kHuge + 5000;
  std::string content(kBytes, 'x');
  auto file = MappedFile::open(folder.write("weights", content));
  ASSERT_TRUE(file.isOk()) << file.status().message();
  EXPECT_EQ(file->pageUse().resident, 0u);
  for (bool copied : {false, true}) {
    SCOPED_TRACE(copied ? "copied" : "mapped");
    if (copied) {
      ASSERT_TRUE(file->copyToMemory().isOk());
    }
    ASSERT_EQ(file->bytes().size(), kBytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file->bytes().data()) % kHuge, 0u);
    EXPECT_TRUE(std::equal(file->bytes().begin(), file->bytes().end(),
                           content.begin()));
    MappedFile::PageUse use = file->pageUse();
    EXPECT_GE(use.resident, kBytes);
    EXPECT_LT(use.resident, kBytes + 2 * kHuge);
    EXPECT_LE(use.huge, use.resident);
  }
}

// Whichever thread copies a part prefers its node while it does so.
TEST(MappedFileTest, CopiesPartsUnderTheirNodesPolicy) {
  moetest::TempDir folder;
  std::string content(50000, '\0');
  for (size_t i = 0; i < content.size(); ++i)
    content[i] = char(i * 7 % 101);
  auto file = MappedFile::open(folder.write("weights", content));
  ASSERT_TRUE(file.isOk()) << file.status().message();
  const std::vector<moert::NodeBytes> parts = {
      {0, 100, 2}, {100, 20000, 0}, {30000, 50000, 2}};
  const moert::Extent all{0, content.size()};
  std::mutex mutex;
  std::vector<int> preferred;
  auto status = file->copyToMemory({&all, 1}, {parts, [&](int node) {
                                                 std::lock_guard lock(mutex);
                                                 preferred.push_back(node);
                                               }});
  ASSERT_TRUE(status.isOk()) << status.message();
  // Four pieces, one of them outside of parts, and the default after each.
  std::ranges::sort(preferred);
  EXPECT_EQ(preferred, (std::vector<int>{-1, -1, -1, -1, -1, 0, 2, 2}));
  EXPECT_TRUE(
      std::equal(file->bytes().begin(), file->bytes().end(), content.begin()));
}

// Bytes that nobody on the host reads take no memory.
TEST(MappedFileTest, CopiesOnlyTheExtentsThatAreWanted) {
  moetest::TempDir folder;
  const std::string content(size_t(9) << 20, 'x');
  auto file = MappedFile::open(folder.write("weights", content));
  ASSERT_TRUE(file.isOk()) << file.status().message();
  const std::vector<moert::Extent> wanted = {{5, 100}, {size_t(8) << 20, 4096}};
  ASSERT_TRUE(file->copyToMemory(wanted).isOk());
  for (const moert::Extent &extent : wanted)
    for (uint64_t at : {extent.offset, extent.end() - 1})
      EXPECT_EQ(file->bytes()[at], 'x') << at;
  for (uint64_t at : {uint64_t(4), uint64_t(105), uint64_t(4) << 20})
    EXPECT_EQ(file->bytes()[at], 0) << at;
}

TEST(MappedFileTest, CopyOfAnEmptyFileIsEmpty) {
  moetest::TempDir folder;
  auto file = MappedFile::open(folder.write("empty", ""));
  ASSERT_TRUE(file.isOk()) << file.status().message();
  EXPECT_TRUE(file->copyToMemory().isOk());
  EXPECT_TRUE(file->bytes().empty());
}

} // namespace
