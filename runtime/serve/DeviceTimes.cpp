#include "runtime/serve/DeviceTimes.h"

#include "runtime/plan/PlanAccess.h"

#include <algorithm>

namespace moert {

DeviceTimes::DeviceTimes(Engine &engine) : engine_(engine) {
  const fb::Plan &plan = engine.plan().table();
  for (const fb::Device *device : *plan.devices())
    devices_.push_back({std::string(text(device->name()))});
  for (const fb::Phase *phase : *plan.phases()) {
    const auto kind = size_t(kindOf(*phase));
    deviceOf_.resize(std::max(deviceOf_.size(), kind + 1));
    for (const fb::Instruction *instruction : *phase->instructions())
      deviceOf_[kind].push_back(
          plan.queues()->Get(instruction->queue())->device());
  }
}

void DeviceTimes::add(const PhaseRun &run) {
  seconds_ += run.seconds;
  const std::vector<uint32_t> &devices = deviceOf_[size_t(run.phase)];
  for (size_t i = 0; i < run.instructions.size(); ++i) {
    DeviceSeconds &device = devices_[devices[i]];
    device.run += run.instructions[i].run;
    device.wait += run.instructions[i].wait;
  }
}

void DeviceTimes::beginStep() {
  // The first step is not measured, because it warms up caches.
  if (++steps_ % kInterval != 2)
    return;
  other_ = engine_.setObserver([this](const PhaseRun &run) {
    add(run);
    if (other_)
      other_(run);
  });
}

void DeviceTimes::endStep() {
  if (steps_ % kInterval == 2)
    engine_.setObserver(std::exchange(other_, nullptr));
}

} // namespace moert
