// Output files that appear as a whole or not at all.

#include "runtime/base/OutputFile.h"

#include "test/support/TempDir.h"
#include "tools/common/Interrupt.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <stdexcept>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using moert::OutputFile;
using moert::StatusCode;
namespace stdfs = std::filesystem;

namespace {

std::string contentOf(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t entries(const std::string &folder) {
  auto all = stdfs::directory_iterator(folder);
  return size_t(std::distance(begin(all), end(all)));
}

struct stat statOf(const std::string &path) {
  struct stat info = {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return info;
}

/// Creates an output that may replace anything at `path`.
moert::StatusOr<OutputFile>
createAnywhere(const std::string &path,
               OutputFile::Content content = OutputFile::Content::Text) {
  return OutputFile::create(moert::OutputTarget::ofCache(path), content);
}

/// Creates an output, writes `text` and commits it.
moert::Status writeTo(const std::string &path, const std::string &text) {
  MOE_ASSIGN_OR_RETURN(OutputFile file, createAnywhere(path));
  MOE_RETURN_IF_ERROR(file.write(text.data(), text.size()));
  return file.commit();
}

void expectWritten(const std::string &path, const std::string &text) {
  moert::Status status = writeTo(path, text);
  EXPECT_TRUE(status.isOk()) << status.message();
}

void expectFailure(const moert::Status &status, StatusCode code,
                   const std::string &message) {
  EXPECT_EQ(status.code(), code);
  EXPECT_NE(status.message().find(message), std::string::npos)
      << status.message();
}

/// Runs `body` in a child process; returns its status as waitpid() gives it.
int inChild(const std::function<void()> &body) {
  pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(::testing::Test::HasFailure());
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

class OutputFileTest : public ::testing::Test {
protected:
  std::string file(std::string_view name) const { return folder_.file(name); }
  std::string write(std::string_view name, std::string_view text) const {
    return folder_.write(name, text);
  }

  moetest::TempDir folder_;
};

TEST_F(OutputFileTest, AppearsAtCommit) {
  std::string path = write("out", "old");
  {
    auto file = createAnywhere(path);
    ASSERT_TRUE(file.isOk()) << file.status().message();
    EXPECT_TRUE(file->write("new", 3).isOk());
    EXPECT_EQ(contentOf(path), "old");
  }
  EXPECT_EQ(contentOf(path), "old");
  EXPECT_EQ(entries(folder_.path()), 1u) << "an abandoned file is removed";
  expectWritten(path, "new");
  EXPECT_EQ(contentOf(path), "new");
  EXPECT_EQ(entries(folder_.path()), 1u);
}

// A weights file waits under such a name for its plan.
TEST_F(OutputFileTest, CommitsUnderAnotherName) {
  std::string path = write("out", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  auto output = createAnywhere(path);
  ASSERT_TRUE(output.isOk()) << output.status().message();
  EXPECT_TRUE(output->write("new", 3).isOk());
  EXPECT_TRUE(output->flush().isOk());
  EXPECT_FALSE(output->isCommitted());
  EXPECT_TRUE(output->commitAs(file("staged")).isOk());
  EXPECT_TRUE(output->isCommitted());
  EXPECT_EQ(contentOf(path), "old");
  EXPECT_EQ(contentOf(file("staged")), "new");
  EXPECT_EQ(statOf(file("staged")).st_mode & 07777, 0640u)
      << "it is to replace the file";
}

TEST_F(OutputFileTest, AnExceptionRemovesTheTemporary) {
  try {
    auto file = createAnywhere(this->file("out"));
    ASSERT_TRUE(file.isOk()) << file.status().message();
    EXPECT_EQ(entries(folder_.path()), 1u);
    throw std::runtime_error("no memory");
  } catch (const std::runtime_error &) {
  }
  EXPECT_EQ(entries(folder_.path()), 0u);
}

TEST_F(OutputFileTest, ThreadsWriteTheirParts) {
  auto file = createAnywhere(this->file("out"));
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
  std::string content = contentOf(this->file("out"));
  ASSERT_EQ(content.size(), 4 * kPart);
  for (size_t i = 0; i < content.size(); ++i)
    ASSERT_EQ(content[i], char('a' + i / kPart)) << i;
}

TEST_F(OutputFileTest, ReserveTellsOfAFullDisk) {
  auto file = createAnywhere(this->file("out"));
  ASSERT_TRUE(file.isOk()) << file.status().message();
  expectFailure(file->reserve(uint64_t(1) << 60), StatusCode::Io,
                "out: cannot reserve space: ");
}

TEST_F(OutputFileTest, TemporariesAreRecognisablyOurs) {
  auto file = createAnywhere(this->file("out"));
  ASSERT_TRUE(file.isOk()) << file.status().message();
  std::string name =
      stdfs::directory_iterator(folder_.path())->path().filename().string();
  EXPECT_EQ(name.size(), std::string(".out.moe-0123456789abcdef.tmp").size());
  EXPECT_TRUE(name.starts_with(".out.moe-")) << name;
  EXPECT_TRUE(name.ends_with(".tmp")) << name;
}

TEST_F(OutputFileTest, NamesAsLongAsAFileSystemHasThem) {
  std::string longest(255, 'n');
  expectWritten(file(longest), "text");
  EXPECT_EQ(contentOf(file(longest)), "text");
}

// A killed process holds no lock, a process that still writes holds one.
TEST_F(OutputFileTest, RemovesOnlyFilesOfKilledWriters) {
  std::string dead = write(".out.moe-0123456789abcdef.tmp", "half");
  std::string live = write(".out.moe-fedcba9876543210.tmp", "half");
  std::vector<std::string> others = {
      write("out.tmp.4194304", "a user's"),
      write(".out2.moe-0123456789abcdef.tmp", "another's"),
      write(".out.moe-0123456789abcdeg.tmp", "no digit"),
      write(".out.moe-0123456789ABCDEF.tmp", "not ours"),
      write(".out.moe-123456789abcdef.tmp", "too short"),
      write(".out.moe-0123456789abcdef0.tmp", "too long"),
      write(".oot.moe-0123456789abcdef.tmp", "another's"),
      write(".out.moe-0123456789abcdef.tmp2", "too long"),
      write("x.out.moe-0123456789abcdef.tmp", "another's"),
  };
  std::string linked = file(".out.moe-0000000000000001.tmp");
  stdfs::create_hard_link(others[0], linked);
  std::string symbolic = file(".out.moe-0000000000000002.tmp");
  stdfs::create_symlink(others[0], symbolic);
  std::string folder = file(".out.moe-0000000000000003.tmp");
  stdfs::create_directory(folder);
  std::string fifo = file(".out.moe-0000000000000004.tmp");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string &path : {linked, symbolic, folder, fifo})
    others.push_back(path);
  if (::geteuid() == 0) {
    others.push_back(write(".out.moe-0000000000000005.tmp", "another user's"));
    ASSERT_EQ(::chown(others.back().c_str(), 12345, 12345), 0);
  }

  int fd = ::open(live.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  expectWritten(file("out"), "new");
  EXPECT_FALSE(stdfs::exists(dead));
  EXPECT_TRUE(stdfs::exists(live));
  for (const std::string &path : others)
    EXPECT_TRUE(stdfs::exists(stdfs::symlink_status(path))) << path;
  ::close(fd);

  // A second writer in this process sees that the first one is alive.
  auto first = createAnywhere(file("out"));
  ASSERT_TRUE(first.isOk()) << first.status().message();
  EXPECT_TRUE(first->write("first", 5).isOk());
  expectWritten(file("out"), "second");
  EXPECT_FALSE(stdfs::exists(live));
  EXPECT_TRUE(first->commit().isOk());
  EXPECT_EQ(contentOf(file("out")), "first");
}

TEST_F(OutputFileTest, FollowsSymbolicLinks) {
  stdfs::create_directory(file("a"));
  write("a/there", "old");
  stdfs::create_symlink("there", file("a/link"));
  stdfs::create_symlink("a/link", file("out"));
  expectWritten(file("out"), "new");
  EXPECT_TRUE(stdfs::is_symlink(file("out")));
  EXPECT_TRUE(stdfs::is_symlink(file("a/link")));
  EXPECT_FALSE(stdfs::is_symlink(file("a/there")));
  EXPECT_EQ(contentOf(file("a/there")), "new");
  EXPECT_EQ(entries(file("a")), 2u);

  stdfs::create_symlink(file("a/made"), file("dangling"));
  expectWritten(file("dangling"), "made");
  EXPECT_TRUE(stdfs::is_symlink(file("dangling")));
  EXPECT_EQ(contentOf(file("a/made")), "made");

  stdfs::create_symlink("loop", file("loop"));
  expectFailure(writeTo(file("loop"), "x"), StatusCode::Io,
                "loop: cannot write: Too many levels");
  stdfs::create_symlink(file("missing/x"), file("nowhere"));
  expectFailure(writeTo(file("nowhere"), "x"), StatusCode::Io,
                "nowhere: cannot write: No such file");
}

TEST_F(OutputFileTest, KeepsModeOwnerAndGroup) {
  std::string path = write("out", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0751), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 12345, 23456), 0);
  }
  struct stat old = statOf(path);
  expectWritten(path, "new");
  struct stat now = statOf(path);
  EXPECT_EQ(contentOf(path), "new");
  EXPECT_NE(now.st_ino, old.st_ino);
  EXPECT_EQ(now.st_mode, old.st_mode);
  EXPECT_EQ(now.st_uid, old.st_uid);
  EXPECT_EQ(now.st_gid, old.st_gid);
}

TEST_F(OutputFileTest, ANewFileHasTheModeOfTheUmask) {
  mode_t before = ::umask(0027);
  expectWritten(file("out"), "new");
  ::umask(before);
  EXPECT_EQ(statOf(file("out")).st_mode & 07777, 0640u);
}

// Runs as the user "nobody", which only root can become.
TEST_F(OutputFileTest, WithoutRightsKeepsWhatItMayAndRefusesWhatIsProtected) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "needs root";
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0777), 0);
  std::string path = write("out", "old"), guarded = write("guarded", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  ASSERT_EQ(::chmod(guarded.c_str(), 0644), 0);
  int status = inChild([&] {
    ASSERT_EQ(::setgid(65534), 0);
    ASSERT_EQ(::setuid(65534), 0);
    expectWritten(path, "new");
    expectFailure(writeTo(guarded, "new"), StatusCode::Io,
                  "guarded: cannot write: Permission denied");
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(contentOf(path), "new");
  EXPECT_EQ(statOf(path).st_uid, 65534u);
  EXPECT_EQ(statOf(path).st_mode & 07777, 0666u);
  EXPECT_EQ(contentOf(guarded), "old");
}

TEST_F(OutputFileTest, AnotherNameKeepsTheOldContent) {
  stdfs::create_hard_link(write("out", "old"), file("other"));
  expectWritten(file("out"), "new");
  EXPECT_EQ(contentOf(file("out")), "new");
  EXPECT_EQ(contentOf(file("other")), "old");
}

TEST_F(OutputFileTest, WritesToAFifo) {
  std::string path = file("fifo"), got;
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  {
    std::jthread reader([&] { got = contentOf(path); });
    expectWritten(path, "text");
  }
  EXPECT_EQ(got, "text");
  EXPECT_TRUE(S_ISFIFO(statOf(path).st_mode));
  EXPECT_EQ(entries(folder_.path()), 1u);
}

// The test breaks its own device node instead of the system's /dev/null.
TEST_F(OutputFileTest, WritesToACharacterDevice) {
  std::string path = file("null");
  if (::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0)
    GTEST_SKIP() << "no right to make a device";
  int fd = ::open(path.c_str(), O_WRONLY);
  if (fd < 0)
    GTEST_SKIP() << "no devices in this folder";
  ::close(fd);
  expectWritten(path, "text");
  EXPECT_TRUE(S_ISCHR(statOf(path).st_mode));
  auto file = createAnywhere(path);
  ASSERT_TRUE(file.isOk()) << file.status().message();
  EXPECT_TRUE(file->reserve(100).isOk());
  expectFailure(file->writeAt(0, "x", 1), StatusCode::Usage, "null: ");
}

TEST_F(OutputFileTest, RefusesFoldersSocketsAndBlockDevices) {
  expectFailure(writeTo(folder_.path(), "x"), StatusCode::Io,
                folder_.path() + ": cannot write: Is a directory");
  expectFailure(writeTo("", "x"), StatusCode::Usage, "empty");

  int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                file("socket").c_str());
  ASSERT_EQ(::bind(socket, reinterpret_cast<struct sockaddr *>(&address),
                   sizeof(address)),
            0);
  ::close(socket);
  expectFailure(writeTo(file("socket"), "x"), StatusCode::Io,
                "socket: is a socket");
  EXPECT_TRUE(S_ISSOCK(statOf(file("socket")).st_mode));

  // The device has a number that no driver uses.
  if (::mknod(file("disk").c_str(), S_IFBLK | 0600, ::makedev(240, 77)) == 0) {
    expectFailure(writeTo(file("disk"), "x"), StatusCode::Io,
                  "disk: is a block device");
    EXPECT_TRUE(S_ISBLK(statOf(file("disk")).st_mode));
  }
}

TEST_F(OutputFileTest, DoesNotReplaceAFileThatBecameAFifo) {
  auto output = createAnywhere(file("out"));
  ASSERT_TRUE(output.isOk()) << output.status().message();
  ASSERT_EQ(::mkfifo(file("out").c_str(), 0600), 0);
  expectFailure(output->commit(), StatusCode::Io, "out: is no longer a regular file");
  EXPECT_TRUE(S_ISFIFO(statOf(file("out")).st_mode));
}

TEST_F(OutputFileTest, WritesWhereADescriptorStands) {
  int fd = ::open(file("log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::write(fd, "before ", 7), 7);
  expectWritten("/dev/fd/" + std::to_string(fd), "text");
  ASSERT_EQ(::write(fd, " after", 6), 6);
  ::close(fd);
  EXPECT_EQ(contentOf(file("log")), "before text after");
  EXPECT_EQ(entries(folder_.path()), 1u);
  expectFailure(writeTo("/dev/fd/" + std::to_string(fd), "x"), StatusCode::Io,
                "cannot write");

  EXPECT_EQ(inChild([&] {
              std::string path = file("stdout");
              ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT, 0600), 1);
              expectWritten("-", "one ");
              expectWritten("/dev/stdout", "two");
            }),
            0);
  EXPECT_EQ(contentOf(file("stdout")), "one two");
}

TEST_F(OutputFileTest, RefusesBinaryToATerminal) {
  int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0)
    GTEST_SKIP() << "no terminals";
  std::string path = ::ptsname(terminal);
  expectFailure(createAnywhere(path, OutputFile::Content::Binary).status(),
                StatusCode::Usage, path + ": is a terminal");
  EXPECT_TRUE(createAnywhere(path, OutputFile::Content::Text).isOk());
  ::close(terminal);
}

class OutputFileSignalTest : public OutputFileTest,
                             public ::testing::WithParamInterface<int> {};

TEST_P(OutputFileSignalTest, RemovesTemporariesAndEndsTheProcess) {
  write("out", "old");
  std::string bystander = write(".out.moe-tmp", "a user's");
  int status = inChild([&] {
    // Under nohup, tests would ignore the signal.
    std::signal(GetParam(), SIG_DFL);
    moert::installCleanupHandlers();
    auto first = createAnywhere(file("out"));
    auto second = createAnywhere(file("second"));
    ASSERT_TRUE(first.isOk() && second.isOk());
    OutputFile moved = *std::move(first);
    // A file that has the name of a removed temporary is not ours.
    std::string gone;
    {
      auto third = createAnywhere(file("third"));
      for (const auto &entry : stdfs::directory_iterator(folder_.path()))
        if (entry.path().filename().string().starts_with(".third"))
          gone = entry.path();
    }
    std::ofstream(gone) << "a user's";
    ASSERT_EQ(entries(folder_.path()), 5u);
    // The signal may interrupt any thread.
    std::jthread([] { ::raise(GetParam()); }).join();
    ::pause();
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), GetParam());
  EXPECT_EQ(entries(folder_.path()), 3u);
  EXPECT_EQ(contentOf(file("out")), "old");
  EXPECT_TRUE(stdfs::exists(bystander));
}

// nohup makes a process ignore a signal.
TEST_P(OutputFileSignalTest, AnIgnoredSignalStaysIgnored) {
  int status = inChild([&] {
    std::signal(GetParam(), SIG_IGN);
    moert::installCleanupHandlers();
    auto output = createAnywhere(file("out"));
    ASSERT_TRUE(output.isOk());
    ::raise(GetParam());
    EXPECT_TRUE(output->commit().isOk());
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(stdfs::exists(file("out")));
}

// The first Ctrl-C only sets a flag, so that work can end by itself.
TEST_F(OutputFileTest, TheSecondCtrlCRemovesTemporariesToo) {
  int status = inChild([&] {
    moert::installCleanupHandlers();
    const std::atomic<bool> *interrupted = moetool::catchInterrupt();
    auto output = createAnywhere(file("out"));
    ASSERT_TRUE(output.isOk());
    ::raise(SIGINT);
    EXPECT_TRUE(*interrupted);
    EXPECT_EQ(entries(folder_.path()), 1u);
    ::raise(SIGINT);
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGINT);
  EXPECT_EQ(entries(folder_.path()), 0u);
}

INSTANTIATE_TEST_SUITE_P(Signals, OutputFileSignalTest,
                         ::testing::Values(SIGINT, SIGTERM, SIGHUP));

} // namespace
