// A server tells its state to systemd, and writes it to its log.

#include "runtime/serve/http/AccessLog.h"
#include "runtime/serve/http/Notify.h"
#include "test/support/TempDir.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using moert::AccessRecord;
using moert::ServiceNotifier;
using namespace std::chrono_literals;

namespace {

/// A socket as systemd has it.
class Manager {
public:
  explicit Manager(const std::string &path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path[0] == '@')
      address.sun_path[0] = '\0';
    fd_ = socket(AF_UNIX, SOCK_DGRAM, 0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr *>(&address),
                   socklen_t(offsetof(sockaddr_un, sun_path) + path.size())),
              0);
  }
  ~Manager() { close(fd_); }
  std::string next() {
    char text[1000];
    ssize_t got = recv(fd_, text, sizeof(text), MSG_DONTWAIT);
    return got < 0 ? "(nothing)" : std::string(text, size_t(got));
  }

private:
  int fd_;
};

TEST(HttpNotifyTest, SpeaksSystemdsProtocol) {
  moetest::TempDir folder;
  std::string abstract = "@moert-test-" + std::to_string(getpid());
  for (const std::string &path : {folder.file("notify"), abstract}) {
    Manager manager(path);
    ServiceNotifier notifier(path);
    EXPECT_TRUE(notifier.isListening());
    EXPECT_TRUE(notifier.status("loading: 10 %\nREADY=1").isOk());
    EXPECT_EQ(manager.next(), "STATUS=loading: 10 % READY=1");
    EXPECT_TRUE(notifier.ready("serving").isOk());
    EXPECT_EQ(manager.next(), "READY=1\nSTATUS=serving");
    EXPECT_TRUE(notifier.watchdog().isOk());
    EXPECT_EQ(manager.next(), "WATCHDOG=1");
    EXPECT_TRUE(notifier.extendTimeout(2s).isOk());
    EXPECT_EQ(manager.next(), "EXTEND_TIMEOUT_USEC=2000000");
    EXPECT_TRUE(notifier.stopping("draining").isOk());
    EXPECT_EQ(manager.next(), "STOPPING=1\nSTATUS=draining");
  }
}

TEST(HttpNotifyTest, WithoutAManagerNothingHappens) {
  EXPECT_TRUE(ServiceNotifier("").ready("x").isOk());
  EXPECT_FALSE(ServiceNotifier("").isListening());
  moetest::TempDir folder;
  auto status = ServiceNotifier(folder.file("none")).ready("x");
  EXPECT_EQ(status.code(), moert::StatusCode::Io);
  EXPECT_THAT(status.message(), testing::HasSubstr(folder.file("none")));
  EXPECT_FALSE(ServiceNotifier(std::string(200, 'x')).ready("x").isOk());
}

TEST(HttpNotifyTest, TheWatchdogIsAskedForByTheManager) {
  std::string own = std::to_string(getpid());
  EXPECT_EQ(moert::watchdogInterval("30000000", own), 15'000ms);
  EXPECT_EQ(moert::watchdogInterval("30000000", ""), 15'000ms);
  EXPECT_EQ(moert::watchdogInterval("30000000", "1"), std::nullopt);
  for (const char *text : {"", "0", "x", "-5", "10x"})
    EXPECT_EQ(moert::watchdogInterval(text, ""), std::nullopt) << text;
}

TEST(HttpNotifyTest, SocketsAreHandedOverToOneProcess) {
  std::string own = std::to_string(getpid());
  EXPECT_THAT(moert::activatedSockets("2", own), testing::ElementsAre(3, 4));
  EXPECT_THAT(moert::activatedSockets("2", "1"), testing::IsEmpty());
  for (const char *count : {"", "0", "-1", "x", "1000000"})
    EXPECT_THAT(moert::activatedSockets(count, own), testing::IsEmpty());
}

AccessRecord record() {
  AccessRecord record;
  record.time = std::chrono::system_clock::time_point(1'764'111'176'123ms);
  record.peer = "127.0.0.1:40312";
  record.client = "alice";
  record.method = "POST";
  record.path = "/v1/chat/completions";
  record.status = 200;
  record.bytes = 312;
  record.milliseconds = 1.25;
  record.userAgent = "curl/8.0";
  return record;
}

TEST(HttpAccessLogTest, ARecordIsALine) {
  EXPECT_EQ(moert::accessLine(record()),
            "2025-11-25T22:52:56.123Z 127.0.0.1:40312 alice \"POST "
            "/v1/chat/completions\" 200 312B 1.2ms \"curl/8.0\"");
  AccessRecord cut = record();
  cut.client = "";
  cut.cut = true;
  EXPECT_THAT(moert::accessLine(cut), testing::HasSubstr(" - \"POST"));
  EXPECT_THAT(moert::accessLine(cut), testing::HasSubstr("1.2ms cut \""));
}

TEST(HttpAccessLogTest, ARecordIsAJsonObject) {
  auto json = nlohmann::json::parse(moert::accessJson(record()));
  EXPECT_EQ(json["time"], "2025-11-25T22:52:56.123Z");
  EXPECT_EQ(json["client"], "alice");
  EXPECT_EQ(json["status"], 200);
  EXPECT_EQ(json["bytes"], 312);
  EXPECT_EQ(json["cut"], false);
  EXPECT_EQ(json["ms"], 1.25);
  EXPECT_EQ(json["user_agent"], "curl/8.0");
}

TEST(HttpAccessLogTest, TextsOfClientsCannotBeginALine) {
  EXPECT_EQ(moert::loggedText("a\n\"b\\\x1b[1m\xff"),
            "a\\x0a\\\"b\\\\\\x1b[1m\\xff");
  std::string text = moert::loggedText(std::string(5000, 'x'));
  EXPECT_EQ(text.size(), moert::kMostLoggedBytes + 3);
}

} // namespace
