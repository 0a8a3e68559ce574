// Output on the standard streams, which a server's threads share.
#include "tools/common/Output.h"

#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

TEST(OutputTest, LinesOfThreadsStayWhole) {
  constexpr int kThreads = 4, kLines = 2000;
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([i] {
      const std::string text(size_t(20 + 30 * i), char('a' + i));
      for (int line = 0; line < kLines; ++line)
        moetool::note("{}\n", text);
    });
  for (std::thread &thread : threads)
    thread.join();
  std::istringstream lines(testing::internal::GetCapturedStderr());
  std::map<std::string, int> counts;
  for (std::string line; std::getline(lines, line);)
    ++counts[line];
  EXPECT_EQ(counts.size(), size_t(kThreads));
  for (const auto &[line, count] : counts)
    EXPECT_EQ(count, kLines) << line;
}

} // namespace
