#include "runtime/base/WorkQueue.h"

#include <algorithm>
#include <utility>

namespace moert {

/// One thread for a large job, one for another job of its client, and one for
/// others.
static constexpr int kLeastThreads = 3;

WorkQueue::WorkQueue(Limits limits)
    : limits_(limits),
      threadCount_(size_t(std::max(kLeastThreads, limits.threads))) {
  while (threads_.size() < threadCount_)
    threads_.emplace_back([this] { work(); });
}

WorkQueue::~WorkQueue() { stop(); }

void WorkQueue::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
  threads_.clear();
}

bool WorkQueue::hasRoom(const std::string &client) const {
  std::lock_guard lock(mutex_);
  auto own = clients_.find(client);
  return waiting_ < limits_.waiting &&
         (own == clients_.end() ||
          own->second.waiting() < limits_.waitingPerClient);
}

void WorkQueue::add(Job job) {
  {
    std::unique_lock lock(mutex_);
    if (stop_) {
      lock.unlock();
      job.run();
      return;
    }
    auto [place, isNew] = clients_.try_emplace(job.client);
    Client &client = place->second;
    if (isNew)
      client.spent = served_;
    (isLarge(job) ? client.large : client.small)
        .push_back({std::move(job), arrivals_++});
    ++waiting_;
  }
  changed_.notify_one();
}

bool WorkQueue::mayRunLarge(const Client &client) const {
  if (client.large.empty())
    return false;
  const uint64_t bytes = client.large.front().job.bytes;
  return largeRunning_ == 0 ||
         (largeRunning_ < threadCount_ / 2 &&
          largeBytesRunning_ + bytes <= limits_.bytesTogether);
}

WorkQueue::Clients::iterator WorkQueue::next() {
  auto best = clients_.end();
  auto order = [](const Client &client) {
    return std::pair(client.running, client.spent);
  };
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    const Client &client = it->second;
    const bool mayRun = client.running + 1 < threadCount_ &&
                        (!client.small.empty() || mayRunLarge(client));
    if (mayRun &&
        (best == clients_.end() || order(client) < order(best->second)))
      best = it;
  }
  return best;
}

WorkQueue::Job WorkQueue::take(Client &client) {
  // Takes the job that came first, whether it is large or small.
  const bool takesLarge =
      mayRunLarge(client) &&
      (client.small.empty() ||
       client.large.front().arrival < client.small.front().arrival);
  std::deque<Waiting> &jobs = takesLarge ? client.large : client.small;
  Job job = std::move(jobs.front().job);
  jobs.pop_front();
  --waiting_;
  ++client.running;
  served_ = std::max(served_, client.spent);
  if (takesLarge) {
    ++largeRunning_;
    largeBytesRunning_ += job.bytes;
  }
  return job;
}

void WorkQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto place = next();
    if (place == clients_.end()) {
      if (stop_ && waiting_ == 0)
        return;
      changed_.wait(lock);
      continue;
    }
    Client &client = place->second;
    Job job = take(client);
    lock.unlock();
    const Clock::time_point start = Clock::now();
    std::exchange(job.run, nullptr)();
    const std::chrono::duration<double> taken = Clock::now() - start;
    lock.lock();
    client.spent += taken.count();
    if (isLarge(job)) {
      --largeRunning_;
      largeBytesRunning_ -= job.bytes;
    }
    if (--client.running == 0 && client.waiting() == 0)
      clients_.erase(place);
    changed_.notify_all();
  }
}

} // namespace moert
