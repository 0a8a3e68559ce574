//===- HttpTestServer.h - A server for tests of HTTP ------------*- C++ -*-===//

#ifndef MOE_TEST_UNIT_HTTPTESTSERVER_H
#define MOE_TEST_UNIT_HTTPTESTSERVER_H

#include "runtime/serve/http/HttpServer.h"
#include "test/support/HttpClient.h"

#include <chrono>
#include <condition_variable>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace moetest {

/// Something that happens on another thread.
class Event {
public:
  void set() {
    std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  /// Returns whether it has happened `times` times, waiting for that.
  bool wait(int times = 1,
            std::chrono::seconds most = std::chrono::seconds(20)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return count_ >= times; });
  }
  int count() {
    std::lock_guard lock(mutex_);
    return count_;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

/// A server on a free port of loopback, whose handler is the test's. By default
/// it answers with "METHOD PATH BODY"; the paths /hold... keep their answers
/// for the test (held()).
class TestServer {
public:
  explicit TestServer(moert::HttpSettings settings = {},
                      moert::HttpHandler handler = {}) {
    settings.port = 0;
    log_ = std::make_shared<Log>();
    if (!settings.accessLog)
      settings.accessLog = [log = log_](const moert::AccessRecord &record) {
        std::lock_guard lock(log->mutex);
        log->records.push_back(record);
        log->changed.notify_all();
      };
    if (!handler)
      handler = [log = log_](moert::HttpRequest request,
                             std::shared_ptr<moert::HttpAnswer> answer) {
        if (request.path.rfind("/hold", 0) != 0)
          return answer->send(200, "text/plain",
                              request.method + " " + request.path + " " +
                                  request.body);
        std::lock_guard lock(log->mutex);
        log->held.push_back(std::move(answer));
        log->changed.notify_all();
      };
    auto server =
        moert::HttpServer::create(std::move(settings), std::move(handler));
    EXPECT_TRUE(server.isOk()) << server.status().message();
    if (server)
      server_ = *std::move(server);
  }

  moert::HttpServer *operator->() { return server_.get(); }
  HttpClient client(const HttpClientOptions &options = {}) {
    return HttpClient::tcp(server_->port(), options);
  }
  /// Waits for the answer to the `index`-th request of a path /hold....
  std::shared_ptr<moert::HttpAnswer> held(size_t index = 0) {
    std::unique_lock lock(log_->mutex);
    wait(lock, [&] { return log_->held.size() > index; });
    return log_->held.size() > index ? log_->held[index] : nullptr;
  }
  /// Forgets the held answers, as a handler does that has ended.
  void dropHeld() {
    std::unique_lock lock(log_->mutex);
    auto dropped = std::exchange(log_->held, {});
    lock.unlock();
  }
  /// Waits for so many lines of the access log and returns all.
  std::vector<moert::AccessRecord> records(size_t count) {
    std::unique_lock lock(log_->mutex);
    wait(lock, [&] { return log_->records.size() >= count; });
    return log_->records;
  }
  void destroy() { server_.reset(); }

private:
  struct Log {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<moert::AccessRecord> records;
    std::vector<std::shared_ptr<moert::HttpAnswer>> held;
  };
  template <typename Condition>
  void wait(std::unique_lock<std::mutex> &lock, Condition condition) {
    EXPECT_TRUE(
        log_->changed.wait_for(lock, std::chrono::seconds(20), condition));
  }

  std::shared_ptr<Log> log_;
  std::unique_ptr<moert::HttpServer> server_;
};

} // namespace moetest

#endif // MOE_TEST_UNIT_HTTPTESTSERVER_H
