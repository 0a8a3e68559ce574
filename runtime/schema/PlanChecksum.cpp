#include "runtime/schema/PlanChecksum.h"

#include "runtime/base/ContentHash.h"
#include "runtime/schema/plan_generated.h"

#include <algorithm>

namespace moert {

namespace {
/// Returns the address of the plan's checksum field, or null.
const uint8_t *placeOf(std::span<const uint8_t> plan) {
  return flatbuffers::GetRoot<flatbuffers::Table>(plan.data())
      ->GetAddressOf(fb::Plan::VT_CHECKSUM);
}

/// Never returns 0, which stands for no checksum.
uint64_t checksumOf(std::span<const uint8_t> plan, const uint8_t *place) {
  size_t at = size_t(place - plan.data());
  static constexpr uint8_t zeros[sizeof(uint64_t)] = {};
  return std::max<uint64_t>(
      1, hash64({plan.first(at), zeros, plan.subspan(at + sizeof(zeros))}));
}
} // namespace

void setPlanChecksum(std::span<uint8_t> plan) {
  if (const uint8_t *place = placeOf(plan))
    flatbuffers::WriteScalar(plan.data() + (place - plan.data()),
                             checksumOf(plan, place));
}

bool matchesPlanChecksum(std::span<const uint8_t> plan) {
  const uint8_t *place = placeOf(plan);
  return !place ||
         flatbuffers::ReadScalar<uint64_t>(place) == checksumOf(plan, place);
}

} // namespace moert
