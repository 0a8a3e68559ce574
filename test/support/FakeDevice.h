//===- FakeDevice.h - A device for tests that computes nothing --*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_FAKEDEVICE_H
#define MOE_TEST_SUPPORT_FAKEDEVICE_H

#include "runtime/device/Device.h"
#include "runtime/device/StepBlock.h"
#include "runtime/plan/Plan.h"
#include "runtime/prove/ProvenOp.h"

#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace moetest {

/// Records the calls of devices in order, as "gpu0 reserve".
class DeviceLog {
public:
  void add(std::string line) {
    std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// A device that computes nothing: its instructions are done when it is their
/// turn. As with a GPU, the host cannot access its memory: reads return a copy
/// that is valid until the next call, and a step is what its step block
/// contains.
class FakeDevice final : public moert::Device {
public:
  FakeDevice(const moert::Plan &plan, uint32_t index, DeviceLog &log)
      : plan_(plan.table()), index_(index), log_(log),
        room_(moert::StepRoom::of(plan_)) {}
  ~FakeDevice() override {
    if (queue_.joinable())
      queue_.join();
  }

  /// The name of a function that fails: "reserve", "load", "bind", "enqueue",
  /// or "run" (in the middle of a step).
  std::string fails = {};
  bool caller = false;
  /// The sequences that instructions of the latest step found in the block.
  std::vector<moek::SequenceRows> rows;
  /// Pages of each sequence in `rows`.
  std::vector<std::vector<int32_t>> pages;

  moert::Status reserve() override {
    arena_.resize(table().arena_bytes());
    kv_.resize(table().kv_bytes());
    block_.resize(room_.bytes());
    return did("reserve");
  }
  moert::Status load(const moert::LoadProgress &progress) override {
    if (progress)
      for (uint64_t done : {1, 2})
        progress(name(), done, 2);
    return did("load");
  }
  moert::Status bind(const moert::ProvenPhase &phase,
                     std::span<std::byte *const>,
                     moert::StepEvents *) override {
    phases_.push_back(phase);
    return did("bind");
  }
  std::byte *hostArena() const override { return nullptr; }
  int32_t threads() const override { return 0; }
  bool borrowsCaller() const override { return caller; }

  moert::Status enqueue(uint32_t phase, const moek::Step &step,
                        const moert::StepControl &control) override {
    forget();
    // The block is assembled elsewhere, as a GPU's block is in pinned memory.
    std::vector<std::byte> staged(room_.bytes());
    auto address = reinterpret_cast<uintptr_t>(block_.data());
    uint64_t bytes = moert::writeStepBlock(step, room_, staged.data(), address);
    std::memcpy(block_.data(), staged.data(), bytes);
    MOE_RETURN_IF_ERROR(did("enqueue"));
    queue_ = std::thread([this, phase, control] { run(phase, control); });
    return moert::Status::ok();
  }
  moert::Status wait() override {
    queue_.join();
    MOE_RETURN_IF_ERROR(did("wait"));
    return std::exchange(status_, {});
  }
  moert::Status runAlone(uint32_t, uint32_t, const moek::Step &,
                         const std::atomic<bool> *) override {
    return did("runAlone");
  }

  moert::StatusOr<std::span<const std::byte>>
  read(moert::DeviceRegion from) override {
    forget();
    staging_.assign(at(from), at(from) + from.bytes);
    return std::span<const std::byte>(staging_);
  }
  moert::Status write(moert::DeviceRegion to,
                      std::span<const std::byte> bytes) override {
    forget();
    std::memcpy(at(to), bytes.data(), bytes.size());
    return moert::Status::ok();
  }
  moert::Status copy(moert::DeviceRegion from, uint64_t to) override {
    forget();
    std::memcpy(at({from.memory, to, from.bytes}), at(from), from.bytes);
    return did("copy");
  }

private:
  const moert::fb::Device &table() const {
    return *plan_.devices()->Get(index_);
  }
  std::string name() const { return table().name()->str(); }
  moert::Status did(const std::string &what) {
    log_.add(name() + " " + what);
    return fails == what ? broken(what) : moert::Status::ok();
  }
  moert::Status broken(const std::string &what) const {
    return {moert::StatusCode::Io, name() + " cannot " + what};
  }
  void forget() { std::ranges::fill(staging_, std::byte(0xff)); }
  std::byte *at(const moert::DeviceRegion &region) {
    auto &memory =
        region.memory == moert::DeviceRegion::Memory::Kv ? kv_ : arena_;
    if (region.offset + region.bytes > memory.size())
      throw std::out_of_range("region");
    return memory.data() + region.offset;
  }

  void run(uint32_t phase, const moert::StepControl &control) {
    const auto &step = *reinterpret_cast<const moek::Step *>(block_.data());
    rows.clear();
    pages.clear();
    for (int32_t i = 0; i < step.sequenceCount; ++i) {
      rows.push_back(step.sequence(i));
      const moek::SequenceRows &last = rows.back();
      int32_t used = (last.position + last.count + 63) / 64;
      pages.emplace_back(last.pages, last.pages ? last.pages + used : nullptr);
    }
    size_t mine = 0;
    for (const moert::ProvenOp &op : phases_[phase].ops)
      mine += op.device() == index_;
    for (const moert::ProvenOp &op : phases_[phase].ops) {
      if (op.device() != index_)
        continue;
      const auto *waits = op.instruction().waits();
      for (uint32_t i = 0; waits && i < waits->size(); ++i)
        control.events->wait(waits->Get(i));
      if (control.events && control.events->stopped()) {
        status_ = {moert::StatusCode::Cancelled, "interrupted"};
        return;
      }
      if (fails == "run" && mine-- == 1) {
        status_ = broken("run");
        if (control.events)
          control.events->stop();
        return;
      }
      if (op.instruction().signal() >= 0)
        control.events->arrive(uint32_t(op.instruction().signal()), 1);
    }
  }

  const moert::fb::Plan &plan_;
  const uint32_t index_;
  DeviceLog &log_;
  const moert::StepRoom room_;
  std::vector<std::byte> arena_, kv_, block_, staging_;
  std::vector<moert::ProvenPhase> phases_;
  std::thread queue_;
  moert::Status status_;
};

} // namespace moetest

#endif // MOE_TEST_SUPPORT_FAKEDEVICE_H
