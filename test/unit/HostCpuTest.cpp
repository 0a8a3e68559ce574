// Limits of memory by control groups, which are simulated with files.
#include "runtime/base/HostCpu.h"

#include "runtime/base/ControlGroups.h"
#include "test/support/TempDir.h"

#include <filesystem>
#include <fmt/format.h>
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

class CpuQuotaTest : public MemoryLimitTest {
protected:
  double quota() { return cpuQuota(folder_.file("sys"), folder_.file("proc")); }
};

TEST_F(CpuQuotaTest, WithoutAGroupThereIsNone) {
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/cpu.max", "nonsense\n");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CpuQuotaTest, TheLeastOfTheGroupAndItsParentsCounts) {
  write("proc/self/cgroup", "0::/a.slice/b\n");
  write("sys/fs/cgroup/a.slice/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4);
  write("sys/fs/cgroup/a.slice/cpu.max", "25000 10000\n");
  EXPECT_EQ(quota(), 2.5);
  write("sys/fs/cgroup/other/cpu.max", "10000 100000\n");
  EXPECT_EQ(quota(), 2.5);
}

TEST_F(CpuQuotaTest, Version1OfControlGroups) {
  write("proc/self/cgroup", "7:memory:/m\n4:cpu,cpuacct:/a/b\n1:name=x:/c\n");
  std::string folder = "sys/fs/cgroup/cpu,cpuacct/a/";
  write(folder + "b/cpu.cfs_quota_us", "-1\n");
  write(folder + "b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  write(folder + "cpu.cfs_quota_us", "50000\n");
  write(folder + "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0.5);
  // Some systems mount each controller under its own name.
  write("proc/self/cgroup", "1:cpuset:/s\n2:cpu:/x\n");
  write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3);
  // The groups of other controllers, such as cpuset, do not count.
  write("sys/fs/cgroup/cpu/s/cpu.cfs_quota_us", "1000\n");
  write("sys/fs/cgroup/cpu/s/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3);
}

TEST_F(MemoryLimitTest, Version1OfControlGroups) {
  write("proc/self/cgroup", "9:cpu,cpuacct:/a\n7:memory:/a/b\n1:name=x:/c\n");
  write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
        "9223372036854771712\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000000\n");
  EXPECT_EQ(limit().bytes, 2000000u);
  EXPECT_TRUE(limit().isControlGroup);
}

TEST(CpuModelNameTest, IsTheBrandOrTheCoresOfAnArmCpu) {
  moetest::TempDir folder;
  auto nameOf = [&](const std::string &text) {
    folder.write("cpuinfo", text);
    return cpuModelName(folder.file(""));
  };
  EXPECT_EQ(nameOf("processor\t: 0\nmodel name\t: AMD Ryzen 9 5950X\n"),
            "AMD Ryzen 9 5950X");
  auto core = [](const char *implementer, const char *part) {
    return fmt::format("processor\t: 0\nCPU implementer\t: {}\n"
                       "CPU variant\t: 0x1\nCPU part\t: {}\n\n",
                       implementer, part);
  };
  EXPECT_EQ(nameOf(core("0x41", "0xd0b") + core("0x41", "0xd0b")),
            "Cortex-A76");
  EXPECT_EQ(nameOf(core("0x41", "0xd87") + core("0x41", "0xd85")),
            "Cortex-A725, Cortex-X925");
  EXPECT_EQ(nameOf(core("0x46", "0x1")), "Arm core 0x46-0x1");
  EXPECT_EQ(nameOf(""), "");
}

} // namespace
