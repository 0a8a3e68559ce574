#include "runtime/serve/FileWriter.h"

#include "runtime/base/OutputFile.h"

namespace moert {

static Status writeFile(const std::string &path,
                        const std::vector<uint8_t> &content) {
  MOE_ASSIGN_OR_RETURN(
      OutputFile file,
      OutputFile::create(OutputTarget::ofCache(path).forOwnerOnly(),
                         OutputFile::Content::Binary));
  MOE_RETURN_IF_ERROR(file.write(content.data(), content.size()));
  return file.commit();
}

FileWriter::FileWriter() : thread_([this] { work(); }) {}

FileWriter::~FileWriter() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool FileWriter::isBusy() const {
  std::lock_guard lock(mutex_);
  return !path_.empty() || result_;
}

void FileWriter::write(std::string path, std::vector<uint8_t> content) {
  {
    std::lock_guard lock(mutex_);
    path_ = std::move(path);
    content_ = std::move(content);
  }
  changed_.notify_all();
}

std::optional<Status> FileWriter::takeResult(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait)
    changed_.wait(lock, [&] { return path_.empty(); });
  return std::exchange(result_, std::nullopt);
}

void FileWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !path_.empty(); });
    if (path_.empty())
      return;
    const std::string path = path_;
    const std::vector<uint8_t> content = std::move(content_);
    lock.unlock();
    Status status = writeFile(path, content);
    lock.lock();
    path_.clear();
    result_ = std::move(status);
    changed_.notify_all();
  }
}

} // namespace moert
