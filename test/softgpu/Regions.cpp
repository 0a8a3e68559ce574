#include "test/softgpu/Regions.h"

namespace softgpu {

bool isRecorded(const Op &op) {
  switch (op.opClass) {
  case OpClass::GlobalLoad:
  case OpClass::GlobalStore:
  case OpClass::SharedLoad:
  case OpClass::SharedStore:
  case OpClass::LocalAccess:
  case OpClass::AsyncCopy:
  case OpClass::Atomic:
  case OpClass::MatrixLoad:
  case OpClass::BulkCopy:
  case OpClass::Mbarrier:
    return true;
  case OpClass::Barrier: // bar.warp.sync is not of this class.
    return op.control == Control::Barrier;
  default:
    return false;
  }
}

bool endsRegion(const Op &op) {
  // A cp.async that waits or commits has no address.
  return op.control != Control::None || op.opClass == OpClass::Barrier ||
         op.opClass == OpClass::BulkCopy || op.opClass == OpClass::Mbarrier ||
         op.opClass == OpClass::ClusterBarrier ||
         op.opClass == OpClass::Fence || op.opClass == OpClass::Atomic ||
         // All ops of a wgmma.mma_async together (Warpgroup.cpp); the order of
         // these instructions is the source's.
         (op.opClass == OpClass::Warpgroup &&
          (!op.results || op.imm == 8 * (op.count - 1))) ||
         (op.opClass == OpClass::AsyncCopy && !op.bytes) ||
         (op.order != Order::Weak && op.opClass != OpClass::SharedLoad &&
          op.opClass != OpClass::SharedStore);
}

Regions regionsOf(const Kernel &kernel) {
  size_t count = kernel.ops.size();
  std::vector<bool> begins(count + 1);
  for (size_t i = 0; i < count; ++i) {
    const Op &op = kernel.ops[i];
    if (op.control == Control::Branch && op.target < count)
      begins[op.target] = true;
    if (op.control == Control::Indexed)
      for (int64_t t = 0; t < op.imm; ++t)
        if (uint32_t to = kernel.targets[op.target + size_t(t)]; to < count)
          begins[to] = true;
    if (endsRegion(op))
      begins[i + 1] = true;
  }
  Regions regions;
  regions.of.resize(count);
  regions.record.assign(count, -1);
  for (size_t i = 0; i < count; ++i) {
    if (!i || begins[i])
      regions.all.push_back({uint32_t(i), uint32_t(i), 0});
    Region &region = regions.all.back();
    region.end = uint32_t(i + 1);
    regions.of[i] = uint32_t(regions.all.size() - 1);
    if (isRecorded(kernel.ops[i]))
      regions.record[i] = int32_t(region.records++);
  }
  return regions;
}

} // namespace softgpu
