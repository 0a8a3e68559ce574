//===- PlanChecksum.h - Is this plan.fb as it was written? ------*- C++ -*-===//

#ifndef MOE_RUNTIME_SCHEMA_PLANCHECKSUM_H
#define MOE_RUNTIME_SCHEMA_PLANCHECKSUM_H

#include <cstdint>
#include <span>

namespace moert {

/// Records the checksum of a finished plan, whose `checksum` holds any number
/// but 0.
void setPlanChecksum(std::span<uint8_t> plan);

/// Whether a structurally sound plan is as it was written. A plan without a
/// checksum (written by hand) is.
bool matchesPlanChecksum(std::span<const uint8_t> plan);

} // namespace moert

#endif // MOE_RUNTIME_SCHEMA_PLANCHECKSUM_H
