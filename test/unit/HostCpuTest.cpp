// How much memory a process may use, by control groups simulated with files.
#include "runtime/base/HostCpu.h"

#include "test/support/TempDir.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace moert;

namespace {

class MemoryLimitTest : public ::testing::Test {
protected:
  void write(const std::string &path, const std::string &text) {
    std::filesystem::create_directories(
        std::filesystem::path(folder_.file(path)).parent_path());
    folder_.write(path, text);
  }
  MemoryLimit limit() {
    return hostMemoryLimit(folder_.file("sys"), folder_.file("proc"));
  }

  moetest::TempDir folder_;
};

TEST_F(MemoryLimitTest, WithoutAGroupTheLimitIsTheMachines) {
  MemoryLimit machine = limit();
  EXPECT_GT(machine.bytes, uint64_t(64) << 20);
  EXPECT_FALSE(machine.isControlGroup);
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(limit().bytes, machine.bytes);
  write("sys/fs/cgroup/memory.max", std::to_string(machine.bytes * 2));
  EXPECT_EQ(limit().bytes, machine.bytes);
  EXPECT_FALSE(limit().isControlGroup);
}

TEST_F(MemoryLimitTest, TheLowestOfTheGroupsAroundTheProcessCounts) {
  write("proc/self/cgroup", "0::/user.slice/shell\n");
  write("sys/fs/cgroup/user.slice/shell/memory.max", "5000000\n");
  EXPECT_EQ(limit().bytes, 5000000u);
  EXPECT_TRUE(limit().isControlGroup);
  write("sys/fs/cgroup/user.slice/memory.max", "4000000\n");
  EXPECT_EQ(limit().bytes, 4000000u);
  write("sys/fs/cgroup/other/memory.max", "1000000\n");
  EXPECT_EQ(limit().bytes, 4000000u);
}

TEST_F(MemoryLimitTest, InAContainerTheRootHasIt) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "3000000\n");
  EXPECT_EQ(limit().bytes, 3000000u);
}

TEST_F(MemoryLimitTest, Version1OfControlGroups) {
  write("proc/self/cgroup", "9:cpu,cpuacct:/a\n7:memory:/a/b\n1:name=x:/c\n");
  write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
        "9223372036854771712\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000000\n");
  EXPECT_EQ(limit().bytes, 2000000u);
  EXPECT_TRUE(limit().isControlGroup);
}

} // namespace
