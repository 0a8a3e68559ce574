#include "runtime/serve/PrefixReader.h"

namespace moert {

PrefixReader::PrefixReader(const Engine &engine, std::function<void()> done)
    : engine_(engine), done_(std::move(done)), thread_([this] { work(); }) {}

PrefixReader::~PrefixReader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool PrefixReader::isBusy() const {
  std::lock_guard lock(mutex_);
  return !path_.empty() || result_;
}

bool PrefixReader::hasResult() const {
  std::lock_guard lock(mutex_);
  return result_.has_value();
}

void PrefixReader::read(std::string path) {
  {
    std::lock_guard lock(mutex_);
    path_ = std::move(path);
  }
  changed_.notify_all();
}

std::optional<StatusOr<SavedSequence>> PrefixReader::takeResult() {
  std::lock_guard lock(mutex_);
  return std::exchange(result_, std::nullopt);
}

void PrefixReader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !path_.empty(); });
    if (stop_)
      return;
    const std::string path = path_;
    lock.unlock();
    StatusOr<SavedSequence> read = engine_.readSaved(path);
    lock.lock();
    path_.clear();
    result_ = std::move(read);
    lock.unlock();
    if (done_)
      done_();
    lock.lock();
  }
}

} // namespace moert
