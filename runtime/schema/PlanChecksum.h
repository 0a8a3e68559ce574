//===- PlanChecksum.h - The checksum of a plan file -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SCHEMA_PLANCHECKSUM_H
#define MOE_RUNTIME_SCHEMA_PLANCHECKSUM_H

#include <cstdint>
#include <span>

namespace moert {

/// Records the checksum of a finished plan, whose `checksum` may hold any
/// number but 0.
void setPlanChecksum(std::span<uint8_t> plan);

/// Returns whether a structurally sound plan is as it was written; true for a
/// plan without a checksum (written by hand).
bool matchesPlanChecksum(std::span<const uint8_t> plan);

} // namespace moert

#endif // MOE_RUNTIME_SCHEMA_PLANCHECKSUM_H
