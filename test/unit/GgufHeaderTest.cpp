// A file must begin in the right way; files that are no GGUF are refused.

#include "test/unit/GgufTestFixture.h"

#include <sys/stat.h>

using namespace moetest;
using moert::StatusCode;

namespace {

using GgufHeaderTest = GgufTest;

TEST_F(GgufHeaderTest, ReadsVersions2And3) {
  for (uint32_t version : {2u, 3u}) {
    GgufBuilder gguf = modelBuilder();
    gguf.version = version;
    auto model = open(gguf);
    ASSERT_TRUE(model.isOk()) << model.status().message();
    EXPECT_EQ(model->version(), version);
    EXPECT_EQ(model->architecture(), "test");
    ASSERT_EQ(model->paths().size(), 1u);
    EXPECT_EQ(model->paths()[0], path);
    EXPECT_TRUE(model->tensors().empty());
  }
}

TEST_F(GgufHeaderTest, HeaderIsEverythingBeforeTheFirstTensor) {
  GgufBuilder gguf = modelBuilder();
  gguf.addTensor("a", moek::Format::F32, {3, 5});
  auto model = open(gguf);
  ASSERT_TRUE(model.isOk()) << model.status().message();
  EXPECT_EQ(model->headerBytes(0), gguf.dataAt());
  EXPECT_EQ(model->fileBytes(0), gguf.fileBytes());
  Bytes header = gguf.header();
  EXPECT_TRUE(std::equal(header.begin(), header.end(), model->header(0).begin(),
                         model->header(0).end()));
  EXPECT_EQ(model->tensors()[0].offset, gguf.dataAt());
}

TEST_F(GgufHeaderTest, VocabularyFileMayEndBeforeItsPadding) {
  Bytes bytes = modelBuilder().build();
  while (bytes.back() == 0)
    bytes.pop_back();
  auto model = openBytes(bytes);
  ASSERT_TRUE(model.isOk()) << model.status().message();
  EXPECT_EQ(model->headerBytes(0), bytes.size());
}

TEST_F(GgufHeaderTest, RefusesOtherVersions) {
  GgufBuilder gguf = modelBuilder();
  gguf.version = 1;
  expectErrorAt(gguf, GgufBuilder::versionAt,
                {"GGUF version 1 is no longer read", "expected 2 or 3"});
  gguf.version = 4;
  expectErrorAt(gguf, GgufBuilder::versionAt,
                {"GGUF version is 4, expected 2 or 3"});
  gguf.version = 0;
  expectErrorAt(gguf, GgufBuilder::versionAt, {"GGUF version is 0"});
}

TEST_F(GgufHeaderTest, RefusesBigEndianFiles) {
  GgufBuilder gguf = modelBuilder();
  gguf.version = 0x03000000;
  expectErrorAt(gguf, GgufBuilder::versionAt,
                {"version 3 is stored big-endian"});
}

TEST_F(GgufHeaderTest, CountsAreBoundedByTheBytesThatFollow) {
  GgufBuilder gguf = modelBuilder();
  gguf.keyCount = UINT64_MAX;
  expectErrorAt(
      gguf, GgufBuilder::keyCountAt,
      {"the number of metadata keys is 18446744073709551615", "hold at most"});
  gguf.keyCount.reset();
  gguf.tensorCount = uint64_t(1) << 60;
  expectErrorAt(gguf, GgufBuilder::tensorCountAt,
                {"the number of tensors is 1152921504606846976"});
}

TEST_F(GgufHeaderTest, ModelNeedsAnArchitecture) {
  GgufBuilder none;
  none.add("general.name", "x");
  expectFailure(open(none).status(), StatusCode::InvalidFile,
                {"key \"general.architecture\" is missing"});
  GgufBuilder number;
  number.add("general.architecture", uint32_t(3));
  expectErrorAt(number, 24,
                {"key \"general.architecture\": expected a string, found u32"});
  GgufBuilder empty;
  empty.add("general.architecture", "");
  expectErrorAt(empty, 24, {"expected a name, found an empty string"});
}

struct Foreign {
  const char *name;
  std::string content;
  const char *message;
};

void PrintTo(const Foreign &foreign, std::ostream *out) {
  *out << foreign.name;
}

class ForeignFileTest : public GgufTest,
                        public ::testing::WithParamInterface<Foreign> {};

TEST_P(ForeignFileTest, IsRecognised) {
  moert::Status status =
      moec::GgufModel::open(dir.write("model.gguf", GetParam().content))
          .status();
  expectFailure(status, StatusCode::InvalidFile, {GetParam().message});
}

using namespace std::string_literals;

INSTANTIATE_TEST_SUITE_P(
    All, ForeignFileTest,
    ::testing::Values(
        Foreign{"Empty", "", "is empty: the download probably failed"},
        Foreign{"OneByte", "G", "byte 1: the file ends inside the magic"},
        Foreign{"Doctype", "\n <!DOCTYPE html><html>", "looks like an HTML"},
        Foreign{"Html", "\xef\xbb\xbf<HTML><body>404", "looks like an HTML"},
        Foreign{"Xml", "<?xml version='1.0'?><Error>", "an XML document"},
        Foreign{"Json", "{\"error\":\"not found\"}", "looks like JSON"},
        Foreign{"Zip", "PK\3\4rest", "zip archive or PyTorch checkpoint"},
        Foreign{"Pickle", "\x80\x02}q", "looks like a Python pickle"},
        Foreign{"Safetensors", "\x10\1\0\0\0\0\0\0{\"a\":{}}"s,
                "looks like a safetensors checkpoint"},
        Foreign{"Gzip", "\x1f\x8b\x08", "looks like gzip"},
        Foreign{"Zstd", "\x28\xb5\x2f\xfd", "looks like zstd"},
        Foreign{"Lfs", "version https://git-lfs.github.com/spec/v1\n",
                "is a Git LFS pointer"},
        Foreign{"Ggjt", "tjgg\3\0\0\0"s, "from before GGUF"},
        Foreign{"Zeros", std::string(4096, '\0'), "begins with zeros"},
        Foreign{"Swapped", "FUGG\3\0\0\0"s, "byte-swapped GGUF"},
        Foreign{"Unknown", "abcdefgh",
                "expected the bytes 47 47 55 46 ('GGUF') at byte 0, found 61 "
                "62 63 64"}),
    [](const auto &info) { return std::string(info.param.name); });

TEST_F(GgufHeaderTest, DirectoryListsItsModels) {
  expectFailure(moec::GgufModel::open(dir.path()).status(), StatusCode::Io,
                {"is a directory, not a file; name a .gguf file"});
  dir.write("config.json", "{}");
  expectFailure(moec::GgufModel::open(dir.path()).status(), StatusCode::Io,
                {"looks like a Hugging Face checkpoint"});
  dir.write("b.gguf", "");
  dir.write("a.gguf", "");
  expectFailure(moec::GgufModel::open(dir.path()).status(), StatusCode::Io,
                {"it holds a.gguf, b.gguf: name one of them"});
}

// Opening one for reading would otherwise wait for a writer, forever.
TEST_F(GgufHeaderTest, FifoIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expectFailure(moec::GgufModel::open(path).status(), StatusCode::Io,
                {"is not a regular file"});
}

TEST_F(GgufHeaderTest, MissingFileSuggestsASimilarName) {
  dir.write("DeepSeek-V2-Lite.Q4_K_M.gguf", "");
  dir.write("other.txt", "");
  expectFailure(
      moec::GgufModel::open(dir.file("deepseek-v2-lite.Q4_K-M.gguf")).status(),
      StatusCode::Io,
      {"no such file; did you mean ", "/DeepSeek-V2-Lite.Q4_K_M.gguf?"});
  moert::Status far =
      moec::GgufModel::open(dir.file("quite-different")).status();
  expectFailure(far, StatusCode::Io, {"quite-different: no such file"});
  EXPECT_EQ(far.message().find("did you mean"), std::string::npos);
}

} // namespace
