// Outputs must not replace inputs, and inputs may be no regular files.

#include "runtime/base/InputSet.h"

#include "runtime/base/InputTexts.h"
#include "runtime/base/ReadInput.h"
#include "test/support/TempDir.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using moert::InputSet;
using moert::StatusCode;
namespace stdfs = std::filesystem;

namespace {

/// Returns what InputSet says of an output at this path.
moert::Status refuse(const InputSet &inputs, const std::string &output) {
  MOE_ASSIGN_OR_RETURN(moert::OutputPlace place,
                       moert::OutputPlace::find(output));
  return inputs.refuse(output, place);
}

class InputSetTest : public ::testing::Test {
protected:
  InputSetTest() { inputs_.add("the model", folder_.write("m.gguf", "bytes")); }
  std::string file(std::string_view name) const { return folder_.file(name); }

  void expectRefused(const std::string &output) {
    moert::Status status = refuse(inputs_, output);
    EXPECT_EQ(status.code(), StatusCode::Usage) << output;
    EXPECT_EQ(status.message(), output +
                                    ": writing there would destroy the model " +
                                    file("m.gguf") + "; choose another output");
  }
  void expectAllowed(const std::string &output) {
    moert::Status status = refuse(inputs_, output);
    EXPECT_TRUE(status.isOk()) << status.message();
  }

  moetest::TempDir folder_;
  InputSet inputs_;
};

TEST_F(InputSetTest, FindsAnInputUnderEveryName) {
  stdfs::create_directory(file("a"));
  stdfs::create_symlink("m.gguf", file("symbolic"));
  stdfs::create_symlink("../symbolic", file("a/twice"));
  stdfs::create_hard_link(file("m.gguf"), file("a/hard"));
  stdfs::create_directory_symlink(".", file("here"));
  for (const char *name : {"m.gguf", "./m.gguf", "a/../m.gguf", "symbolic",
                           "a/twice", "a/hard", "here/here/m.gguf"})
    expectRefused(file(name));
  int fd = ::open(file("m.gguf").c_str(), O_WRONLY | O_CLOEXEC);
  expectRefused("/dev/fd/" + std::to_string(fd));
  ::close(fd);
}

TEST_F(InputSetTest, AllowsEverythingElse) {
  folder_.write("copy", "bytes");
  for (const char *name : {"copy", "new", "m.gguf2"})
    expectAllowed(file(name));
  // Devices have no bytes that could be lost.
  inputs_.add("the text", "/dev/null");
  expectAllowed("/dev/null");
  inputs_.add("the text", file("not/there"));
  expectAllowed("-");
}

TEST_F(InputSetTest, SaysWhatCannotBeWritten) {
  EXPECT_EQ(refuse(inputs_, file("missing/x")).code(), StatusCode::Io);
  EXPECT_EQ(refuse(inputs_, "").code(), StatusCode::Usage);
}

// Two outputs of one command that do not exist yet.
TEST_F(InputSetTest, KnowsAFileThatDoesNotExistYet) {
  stdfs::create_symlink("plan.weights", file("plan.fb"));
  InputSet outputs;
  outputs.add("the plan", file("plan.fb"));
  EXPECT_EQ(refuse(outputs, file("plan.weights")).code(), StatusCode::Usage);
  EXPECT_TRUE(refuse(outputs, file("plan.weight")).isOk());
}

TEST_F(InputSetTest, KnowsWhatStandardInputIs) {
  int before = ::dup(STDIN_FILENO);
  int fd = ::open(file("m.gguf").c_str(), O_RDONLY | O_CLOEXEC);
  ::dup2(fd, STDIN_FILENO);
  InputSet inputs;
  inputs.add("the text", "-");
  ::dup2(before, STDIN_FILENO);
  ::close(before);
  ::close(fd);
  EXPECT_EQ(refuse(inputs, file("m.gguf")).message(),
            file("m.gguf") + ": writing there would destroy the text standard "
                             "input; choose another output");
}

TEST(ReadInputTest, ReadsFilesAndFifosOnce) {
  moetest::TempDir folder;
  std::string text(200000, 'x');
  auto read = moert::readInput(folder.write("file", text), text.size());
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(*read, text);

  std::string fifo = folder.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::jthread writer([&] { std::ofstream(fifo) << text; });
  read = moert::readInput(fifo, text.size());
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(*read, text);
}

// A pipe that is needed twice, for example for two targets of moec plan.
TEST(InputTextsTest, ReadsAStreamOnceAndKeepsIt) {
  moetest::TempDir folder;
  std::string fifo = folder.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::jthread writer([&] { std::ofstream(fifo) << "text"; });
  moert::InputTexts texts;
  for (int i = 0; i < 2; ++i) {
    auto text = texts.read("the profile", fifo, 100);
    ASSERT_TRUE(text.isOk()) << text.status().message();
    EXPECT_EQ(**text, "text");
  }
  stdfs::create_symlink("fifo", folder.file("link"));
  moert::Status other =
      texts.read("the rules", folder.file("link"), 100).status();
  EXPECT_EQ(other.code(), StatusCode::Usage);
  EXPECT_EQ(other.message(), folder.file("link") +
                                 ": is read as the profile already and has "
                                 "its bytes only once; give the rules as a "
                                 "file");
}

// If a file changes meanwhile, all parts of a command see the same text. In
// another role the file is read again, because it still has its bytes.
TEST(InputTextsTest, KeepsFilesToo) {
  moetest::TempDir folder;
  moert::InputTexts texts;
  std::string file = folder.write("file", "old");
  ASSERT_TRUE(texts.read("the profile", file, 100).isOk());
  folder.write("file", "new");
  EXPECT_EQ(**texts.read("the profile", file, 100), "old");
  EXPECT_EQ(**texts.read("the rules", file, 100), "new");
}

// The device is refused before memory is full.
TEST(ReadInputTest, RefusesAnEndlessDeviceByItsStart) {
  auto isText = [](std::string_view start) {
    return start.starts_with('\0')
               ? moert::Status(StatusCode::InvalidFile, "no")
               : moert::Status::ok();
  };
  EXPECT_EQ(
      moert::readInput("/dev/zero", UINT64_MAX, isText).status().message(),
      "no");
}

TEST(ReadInputTest, SaysWhatCannotBeRead) {
  moetest::TempDir folder;
  auto expect = [](const std::string &path, StatusCode code,
                   const std::string &message) {
    moert::Status status = moert::readInput(path, 4).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.message(), path + ": " + message);
  };
  expect(folder.file("missing"), StatusCode::Io,
         "cannot open: No such file or directory");
  expect(folder.path(), StatusCode::Io, "cannot read: Is a directory");
  expect(folder.write("long", "12345"), StatusCode::InvalidFile,
         "is over 4 B, too long for what it should be");
  // Endless.
  EXPECT_EQ(moert::readInput("/dev/zero", 1000).status().code(),
            StatusCode::InvalidFile);
}

} // namespace
