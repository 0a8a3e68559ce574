// A file of hundreds of gigabytes: only its header is read.

#include "test/support/SampleModel.h"
#include "test/unit/GgufTestFixture.h"

#include <fstream>
#include <sys/stat.h>

using namespace moetest;

namespace {

/// The peak resident memory of this process, in bytes.
uint64_t peakResident() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      uint64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes << 10;
    }
  return 0;
}

using GgufScaleTest = GgufTest;

TEST_F(GgufScaleTest, SparseDeepseekV3OpensInLittleMemory) {
  {
    GgufBuilder gguf = deepseekV3Model();
    ASSERT_GT(gguf.fileBytes(), uint64_t(350) << 30);
    gguf.write(path);
  }
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  ASSERT_LT(uint64_t(info.st_blocks) * 512, uint64_t(64) << 20)
      << "the file system has no sparse files";

  // Writing used more memory than reading may, so the peak is reset.
  std::ofstream("/proc/self/clear_refs") << "5";
  uint64_t before = peakResident();
  auto model = moec::GgufModel::open(path);
  ASSERT_TRUE(model.isOk()) << model.status().message();
  EXPECT_LT(peakResident() - before, uint64_t(96) << 20);

  uint64_t parameters = 0;
  for (const moec::GgufTensor &tensor : model->tensors())
    parameters += tensor.shape[0] * tensor.shape[1] * tensor.shape[2];
  EXPECT_NEAR(double(parameters), 671e9, 1e9);
  EXPECT_LT(model->headerBytes(0), uint64_t(32) << 20);
}

// A count may be small compared to the file but far too large for memory.
TEST_F(GgufScaleTest, HeaderSizeIsLimited) {
  GgufBuilder gguf = modelBuilder();
  Bytes payload;
  append(payload, moec::GgufType::U8);
  append(payload, uint64_t(100) << 30);
  gguf.addRaw("huge", moec::GgufType::Array, payload);
  gguf.addTensor("t", moek::Format::F32, {uint64_t(40) << 30});
  expectErrorAt(gguf, gguf.valueAt("huge") + 4,
                {"key \"huge\": the array's length is 107374182400"});

  GgufBuilder text = modelBuilder();
  payload.clear();
  append(payload, uint64_t(100) << 30);
  text.addRaw("huge", moec::GgufType::String, payload);
  text.addTensor("t", moek::Format::F32, {uint64_t(40) << 30});
  expectErrorAt(
      text, text.valueAt("huge"),
      {"key \"huge\": the string claims 107374182400 bytes, but only ",
       "may follow in a header of at most 268435456"});
}

} // namespace
