//===- GuardedBuffer.h - Memory that ends at a guard page -------*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_GUARDEDBUFFER_H
#define MOE_TEST_KERNELS_GUARDEDBUFFER_H

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace moek::test {

/// `size` bytes directly before an inaccessible page: reading or writing one
/// byte too far crashes.
class GuardedBuffer {
public:
  explicit GuardedBuffer(size_t size) {
    size_t page = size_t(sysconf(_SC_PAGESIZE));
    size_t usable = (size + page - 1) / page * page;
    mapped_ = usable + page;
    base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) {
      ADD_FAILURE() << "cannot map " << mapped_ << " bytes";
      base_ = nullptr;
      return;
    }
    auto *begin = static_cast<uint8_t *>(base_);
    EXPECT_EQ(mprotect(begin + usable, page, PROT_NONE), 0);
    data_ = begin + usable - size;
  }
  ~GuardedBuffer() {
    if (base_)
      munmap(base_, mapped_);
  }
  GuardedBuffer(const GuardedBuffer &) = delete;
  GuardedBuffer &operator=(const GuardedBuffer &) = delete;

  uint8_t *data() const { return data_; }

private:
  void *base_ = nullptr;
  uint8_t *data_ = nullptr;
  size_t mapped_ = 0;
};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_GUARDEDBUFFER_H
