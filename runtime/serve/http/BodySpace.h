//===- BodySpace.h - Memory that bodies of requests may take ----*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_BODYSPACE_H
#define MOE_RUNTIME_SERVE_HTTP_BODYSPACE_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace moert {

/// Counts the bytes of bodies from their first one until the request has been
/// read. Functions may be called from any thread.
class BodySpace : public std::enable_shared_from_this<BodySpace> {
public:
  /// The bytes that one request has taken, which are given back when the object
  /// is destroyed.
  class Share {
  public:
    Share(std::shared_ptr<BodySpace> space, std::string owner)
        : space_(std::move(space)), owner_(std::move(owner)) {}
    Share(const Share &) = delete;
    ~Share() { space_->giveBack(owner_, bytes_); }

    /// Grows to so many bytes. Returns whether there was room for them.
    bool growTo(uint64_t bytes);

  private:
    std::shared_ptr<BodySpace> space_;
    std::string owner_;
    uint64_t bytes_ = 0;
  };

  /// `most` bytes of all owners, of which one has at most three quarters.
  explicit BodySpace(uint64_t most) : most_(most) {}

  uint64_t used() const;

private:
  bool take(const std::string &owner, uint64_t bytes);
  void giveBack(const std::string &owner, uint64_t bytes);

  const uint64_t most_;
  mutable std::mutex mutex_;
  uint64_t used_ = 0;
  /// Bytes of each client; entries of 0 are removed.
  std::map<std::string, uint64_t> usedOf_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_BODYSPACE_H
