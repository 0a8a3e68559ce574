//===- WorkQueue.h - Jobs of clients on threads, in turn --------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_WORKQUEUE_H
#define MOE_RUNTIME_BASE_WORKQUEUE_H

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace moert {

/// Runs jobs on threads of its own so that no client keeps another waiting: of
/// the clients that have a job, the one that has the fewest running, and then
/// the one whose jobs have taken the least time, is next, and none has all
/// threads. Large jobs have at most half of them, and run together only while
/// they have few bytes, so that small ones pass them and memory stays bounded.
/// Functions may be called from any thread, stop() from one.
class WorkQueue {
public:
  struct Limits {
    int threads = 4; ///< At least 3.
    /// Limits of jobs that wait: of all clients, and of one.
    size_t waiting = 1024, waitingPerClient = 256;
    /// A job of so many bytes is a large one.
    uint64_t largeBytes = uint64_t(256) << 10;
    /// Bytes of the large jobs that run together; one alone may have more.
    uint64_t bytesTogether = uint64_t(16) << 20;
  };
  struct Job {
    std::string client; ///< The client whose share of the time the job uses.
    uint64_t bytes = 0; ///< Size of the data that the job works on.
    /// Must not throw.
    std::function<void()> run;
  };

  explicit WorkQueue(Limits limits);
  /// Does what stop() does.
  ~WorkQueue();

  /// Returns whether there is room for one more job of this client.
  bool hasRoom(const std::string &client) const;
  /// Adds a job, also beyond the limits of those that wait: who is not to,
  /// calls hasRoom() before. After stop(), runs it at once.
  void add(Job job);
  /// Runs what waits and ends the threads. Not from a job.
  void stop();

private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Job job;
    uint64_t arrival;
  };
  struct Client {
    std::deque<Waiting> small, large;
    size_t running = 0;
    /// Seconds of its jobs. A new client begins with those of the others, so
    /// that who comes and goes saves nothing.
    double spent = 0;

    size_t waiting() const { return small.size() + large.size(); }
  };
  using Clients = std::map<std::string, Client>;

  bool isLarge(const Job &job) const { return job.bytes >= limits_.largeBytes; }
  // Returns whether the first large job of a client may run now. The caller
  // holds the lock.
  /// Whether the first large job of a client may run now.
  bool mayRunLarge(const Client &client) const;
  /// The client that is next, or the end.
  Clients::iterator next();
  /// Takes the first job of a client that is next.
  Job take(Client &client);
  void work();

  const Limits limits_;
  const size_t threadCount_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Clients clients_; ///< The clients whose jobs wait or run.
  size_t waiting_ = 0, largeRunning_ = 0;
  uint64_t largeBytesRunning_ = 0, arrivals_ = 0;
  double served_ = 0; ///< Highest cost among the clients that were served.
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_WORKQUEUE_H
