#include "runtime/base/ContentHash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace moert {

std::string contentHash(std::span<const uint8_t> bytes) {
  XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

} // namespace moert
