#include "runtime/device/DeviceOperands.h"

#include "kernels/KvCache.h"
#include "runtime/plan/PlanAccess.h"

namespace moert {

moek::WeightView DeviceOperands::weightAt(std::string_view name,
                                          const uint8_t *data) const {
  return viewOf(op_.weight(name), data);
}

moek::KvView DeviceOperands::cacheIn(std::string_view name,
                                     uint8_t *caches) const {
  const fb::Kv &kv = op_.cache(name);
  auto type = moek::KvType(kv.type());
  return {caches + kv.offset(), kv.width(), kv.capacity(),
          moek::kvRowBytes(type, kv.width()), type};
}

void DeviceOperands::failToReach(std::string_view name) {
  auto nameOf = [&](uint32_t device) {
    return text(plan_.devices()->Get(device)->name());
  };
  if (status_.isOk())
    status_ = Status(
        StatusCode::WrongMachine,
        fmt::format("operand {} lies in the memory of {}, which {} cannot "
                    "access",
                    name, nameOf(op_.buffer(name).device()),
                    nameOf(op_.device())));
}

} // namespace moert
