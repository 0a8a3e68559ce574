#include "runtime/serve/http/BodySpace.h"

namespace moert {

bool BodySpace::Share::growTo(uint64_t bytes) {
  if (bytes <= bytes_)
    return true;
  if (!space_->take(owner_, bytes - bytes_))
    return false;
  bytes_ = bytes;
  return true;
}

uint64_t BodySpace::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

bool BodySpace::take(const std::string &owner, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  auto own = usedOf_.find(owner);
  const uint64_t before = own == usedOf_.end() ? 0 : own->second;
  if (used_ + bytes > most_ || before + bytes > most_ / 4 * 3)
    return false;
  used_ += bytes;
  usedOf_[owner] += bytes;
  return true;
}

void BodySpace::giveBack(const std::string &owner, uint64_t bytes) {
  if (bytes == 0)
    return;
  std::lock_guard lock(mutex_);
  used_ -= bytes;
  auto own = usedOf_.find(owner);
  if ((own->second -= bytes) == 0)
    usedOf_.erase(own);
}

} // namespace moert
