#include "runtime/engine/RouterWatch.h"

#include "runtime/device/Devices.h"
#include "runtime/plan/OpenLaunches.h"
#include "runtime/plan/PlanAccess.h"

#include <utility>

namespace moert {

namespace {

/// All devices of a plan. Whichever device is waited for first runs the whole
/// step.
class Walk {
public:
  Walk(const Plan &plan, DeviceList devices, RouterObserver observer)
      : plan_(plan.table()), devices_(std::move(devices)),
        observer_(std::move(observer)) {}

  Device &device(size_t number) const { return *devices_[number]; }

  void begin(uint32_t phase, const moek::Step &step,
             const std::atomic<bool> *cancel) {
    phase_ = plan_.phases()->Get(phase);
    number_ = phase;
    step_ = step;
    cancel_ = cancel;
  }

  Status finish() {
    if (!phase_)
      return Status::ok();
    const fb::Phase &phase = *std::exchange(phase_, nullptr);
    // Routers that have run but were not reported yet.
    std::vector<uint32_t> routers;
    for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
      if (cancel_ && *cancel_)
        return Status(StatusCode::Cancelled, "interrupted");
      const fb::Instruction &instruction = *phase.instructions()->Get(i);
      MOE_RETURN_IF_ERROR(devices_[deviceOf(plan_, instruction)]->runAlone(
          number_, i, step_, cancel_));
      if (findOp(instruction.op())->op == moek::OpCode::Router)
        routers.push_back(i);
      if (isLaunchedLater(plan_, instruction))
        continue;
      for (uint32_t router : std::exchange(routers, {})) {
        const fb::Instruction &one = *phase.instructions()->Get(router);
        if (one.queue() != instruction.queue())
          routers.push_back(router);
        else
          MOE_RETURN_IF_ERROR(tell(phase, one, *findOp(one.op())));
      }
    }
    return Status::ok();
  }

private:
  Status tell(const fb::Phase &phase, const fb::Instruction &instruction,
              const OpSpec &spec) const {
    MOE_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                         written<int32_t>(phase, instruction, spec, "ids"));
    MOE_ASSIGN_OR_RETURN(std::vector<float> weights,
                         written<float>(phase, instruction, spec, "weights"));
    const fb::Explain *op = opOf(plan_, instruction);
    observer_({op ? op->layer() : -1, intOf(instruction, spec, "experts"),
               intOf(instruction, spec, "top_k"), ids, weights});
    return Status::ok();
  }

  /// Returns what the instruction wrote to the operand called `name`.
  template <class Element>
  StatusOr<std::vector<Element>>
  written(const fb::Phase &phase, const fb::Instruction &instruction,
          const OpSpec &spec, std::string_view name) const {
    uint32_t operand = 0;
    while (spec.operands[operand].name != name)
      ++operand;
    const fb::Buffer &buffer =
        *phase.buffers()->Get(instruction.operands()->Get(operand)->index());
    MOE_ASSIGN_OR_RETURN(
        std::span<const std::byte> bytes,
        devices_[buffer.device()]->read(regionOf(buffer, step_.tokens)));
    const auto *first = reinterpret_cast<const Element *>(bytes.data());
    return std::vector<Element>(first, first + bytes.size() / sizeof(Element));
  }

  const fb::Plan &plan_;
  DeviceList devices_;
  RouterObserver observer_;
  /// Phase of a step that has begun, or null.
  const fb::Phase *phase_ = nullptr;
  uint32_t number_ = 0;
  moek::Step step_ = {};
  const std::atomic<bool> *cancel_ = nullptr;
};

class WatchedDevice : public Device {
public:
  WatchedDevice(std::shared_ptr<Walk> walk, size_t number)
      : walk_(std::move(walk)), inner_(walk_->device(number)) {}

  Status reserve() override { return inner_.reserve(); }
  Status load(const LoadProgress &progress) override {
    return inner_.load(progress);
  }
  Status bind(const ProvenPhase &phase, std::span<std::byte *const> arenas,
              StepEvents *events) override {
    return inner_.bind(phase, arenas, events);
  }
  void unbind() override { inner_.unbind(); }
  std::byte *hostArena() const override { return inner_.hostArena(); }
  int32_t threads() const override { return inner_.threads(); }
  int32_t team() const override { return inner_.team(); }
  bool borrowsCaller() const override { return inner_.borrowsCaller(); }

  Status enqueue(uint32_t phase, const moek::Step &step,
                 const StepControl &control) override {
    walk_->begin(phase, step, control.cancel);
    return Status::ok();
  }
  Status wait() override { return walk_->finish(); }
  Status runAlone(uint32_t phase, uint32_t instruction, const moek::Step &step,
                  const std::atomic<bool> *cancel) override {
    return inner_.runAlone(phase, instruction, step, cancel);
  }

  StatusOr<std::span<const std::byte>> read(DeviceRegion from) override {
    return inner_.read(from);
  }
  Status write(DeviceRegion to, std::span<const std::byte> bytes) override {
    return inner_.write(to, bytes);
  }
  Status copy(DeviceRegion from, uint64_t to) override {
    return inner_.copy(from, to);
  }

private:
  std::shared_ptr<Walk> walk_;
  Device &inner_;
};

} // namespace

DeviceList watchRouters(const Plan &plan, DeviceList devices,
                        RouterObserver observer) {
  size_t many = devices.size();
  auto walk =
      std::make_shared<Walk>(plan, std::move(devices), std::move(observer));
  DeviceList watched;
  for (size_t i = 0; i < many; ++i)
    watched.push_back(std::make_unique<WatchedDevice>(walk, i));
  return watched;
}

} // namespace moert
