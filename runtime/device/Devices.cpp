#include "runtime/device/Devices.h"

#include "kernels/Activation.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/prove/Prove.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

DeviceRegion regionOf(const fb::Buffer &buffer, int64_t tokens) {
  int64_t row =
      moek::encodedRowBytes(moek::Encoding(buffer.encoding()), buffer.cols());
  return {
      buffer.per_worker() ? DeviceRegion::Memory::Worker
                          : DeviceRegion::Memory::Arena,
      buffer.offset(),
      uint64_t((buffer.rows_per_token() * tokens + buffer.fixed_rows()) * row)};
}

StatusOr<std::unique_ptr<Devices>>
Devices::create(const Plan &plan, const WeightFiles &files,
                std::vector<std::unique_ptr<Device>> devices,
                const LoadProgress &progress) {
  MOE_ASSIGN_OR_RETURN(std::vector<ProvenPhase> proven, provePlan(plan, files));
  std::unique_ptr<Devices> result(new Devices(plan, std::move(devices)));
  std::vector<std::byte *> arenas;
  for (const std::unique_ptr<Device> &device : result->devices_) {
    MOE_RETURN_IF_ERROR(device->reserve());
    arenas.push_back(device->hostArena());
    result->order_.push_back(device.get());
  }
  std::ranges::stable_sort(result->order_, {}, &Device::borrowsCaller);
  for (const std::unique_ptr<Device> &device : result->devices_)
    MOE_RETURN_IF_ERROR(device->load(progress));
  for (const ProvenPhase &one : proven) {
    const fb::Phase &phase = *one.phase;
    result->events_.push_back(phase.events() > 0
                                  ? std::make_unique<StepEvents>(phase.events())
                                  : nullptr);
    StepEvents *events = result->events_.back().get();
    for (const std::unique_ptr<Device> &device : result->devices_)
      MOE_RETURN_IF_ERROR(device->bind(one, arenas, events));
    result->phases_.push_back({kindOf(phase), phase.min_tokens(),
                               phase.max_tokens(), endsWithLogits(phase),
                               uint32_t(result->phases_.size()),
                               count(phase.instructions())});
  }
  return result;
}

Devices::~Devices() {
  for (const std::unique_ptr<Device> &device : devices_)
    device->unbind();
}

const fb::Phase &Devices::table(const RunnablePhase &phase) const {
  return *plan_.table().phases()->Get(phase.number);
}

Status Devices::setInput(const RunnablePhase &phase,
                         std::span<const std::byte> rows) {
  return write(phase, table(phase).input(), rows);
}

Status Devices::setHidden(const RunnablePhase &phase,
                          std::span<const float> rows) {
  return write(phase, uint32_t(table(phase).hidden()), std::as_bytes(rows));
}

Status Devices::write(const RunnablePhase &phase, uint32_t number,
                      std::span<const std::byte> rows) {
  const fb::Buffer &buffer = *table(phase).buffers()->Get(number);
  DeviceRegion region = regionOf(buffer, phase.maxTokens);
  region.bytes = rows.size();
  return devices_[buffer.device()]->write(region, rows);
}

StatusOr<std::span<const float>> Devices::output(const RunnablePhase &phase,
                                                 int32_t tokens) {
  const fb::Buffer &buffer =
      *table(phase).buffers()->Get(table(phase).output());
  MOE_ASSIGN_OR_RETURN(
      std::span<const std::byte> bytes,
      devices_[buffer.device()]->read(regionOf(buffer, tokens)));
  return std::span(reinterpret_cast<const float *>(bytes.data()),
                   bytes.size() / sizeof(float));
}

Status Devices::run(const RunnablePhase &phase, const moek::Step &step,
                    const std::atomic<bool> *cancel,
                    std::span<InstructionTime> times) {
  StepControl control{events_[phase.number].get(), cancel, times};
  if (control.events)
    control.events->beginStep(step.tokens, step.sequenceCount);
  Status status;
  // The error of a device is more useful than Cancelled on the other devices.
  auto note = [&](Status other) {
    if (status.isOk() ||
        (status.code() == StatusCode::Cancelled && !other.isOk()))
      status = std::move(other);
  };
  for (size_t i = 0; i < order_.size() && status.isOk(); ++i)
    note(order_[i]->prepare(phase.number, step, control));
  size_t begun = 0;
  while (begun < order_.size() && status.isOk()) {
    note(order_[begun]->enqueue(phase.number, step, control));
    if (status.isOk())
      ++begun;
    else if (control.events)
      control.events->stop();
  }
  while (begun > 0)
    note(order_[--begun]->wait());
  if (status.isOk() && control.events && control.events->stopped())
    status = Status(StatusCode::Cancelled, "interrupted");
  if (status.code() == StatusCode::Cancelled && control.events &&
      control.events->isLate())
    return Status(
        StatusCode::Io,
        fmt::format(
            "the step was abandoned: a GPU and the other devices waited "
            "for each other for {} s; if this happens again, run with "
            "--gpu-meeting walk",
            std::chrono::duration<double>(control.events->patience()).count()));
  return status;
}

Status Devices::runAlone(const RunnablePhase &phase, uint32_t instruction,
                         const moek::Step &step,
                         const std::atomic<bool> *cancel) {
  uint32_t device =
      deviceOf(plan_.table(), *table(phase).instructions()->Get(instruction));
  return devices_[device]->runAlone(phase.number, instruction, step, cancel);
}

int32_t Devices::threads() const {
  int32_t sum = 0;
  for (const std::unique_ptr<Device> &device : devices_)
    sum += device->threads();
  return sum;
}

int32_t Devices::team() const {
  int32_t sum = 0;
  for (const std::unique_ptr<Device> &device : devices_)
    sum += device->team();
  return sum;
}

} // namespace moert
