//===- ContentHash.h - Which file is this? ----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_CONTENTHASH_H
#define MOE_RUNTIME_BASE_CONTENTHASH_H

#include <cstdint>
#include <span>
#include <string>

namespace moert {

/// XXH3-128 of `bytes` in its canonical (big-endian) form, 32 hex digits. Finds
/// swapped and damaged files; it is no defence against forgery.
std::string contentHash(std::span<const uint8_t> bytes);

} // namespace moert

#endif // MOE_RUNTIME_BASE_CONTENTHASH_H
