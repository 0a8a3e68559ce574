// Damaged plans never crash: they are refused, or they compute inside of their
// own memory. The asan preset runs this with AddressSanitizer and UBSan; arenas
// end at guard pages in every build.
#include "runtime/schema/OpTable.h"
#include "test/support/OneSequence.h"
#include "test/support/SampleLadder.h"
#include "test/support/SplitPlan.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <set>
#include <string_view>

using namespace moert;
using moetest::OneSequence;
using moetest::SamplePlan;
using moetest::TempDir;
namespace fb = moert::fb;

namespace {

/// Set by --flips=N; 0 means every bit.
size_t flips = 20000;

class PlanDamageTest : public ::testing::Test {
protected:
  PlanDamageTest() { path_ = sample_.builder.write(folder_); }

  /// An error message stays readable, whatever the damage.
  static void expectShort(const Status &status) {
    EXPECT_LT(std::ranges::count(status.message(), '\n'), 5)
        << status.message();
    EXPECT_LT(status.message().size(), 1500u) << status.message();
  }
  /// Opens the plan and, if it is accepted, runs it.
  void tryBytes(const std::vector<uint8_t> &bytes) {
    ++tried_;
    StatusOr<Plan> plan = Plan::fromBytes(bytes, path_);
    if (!plan)
      return expectShort(plan.status());
    EngineOptions options;
    options.threads = 1;
    auto one = OneSequence::create(*std::move(plan), options);
    if (!one)
      return expectShort(one.status());
    ++ran_;
    std::vector<int32_t> tokens = {3, 17, 0, 8, 2, 5, 9};
    for (int32_t &token : tokens)
      token = std::min(token, one->engine->vocab() - 1);
    // Failures, such as logits that are not finite, are allowed.
    Status status = one->append(tokens).status();
    if (status.isOk())
      status = one->append(tokens[0]).status();
    expectShort(status);
  }
  void tryPlan() { tryBytes(sample_.builder.bytes()); }

  /// Tries values near and far from the one in `field`, then restores it.
  template <class T> void tryValues(T &field) {
    using Limits = std::numeric_limits<T>;
    const T original = field;
    std::set<T> values = {T(0),
                          T(1),
                          T(2),
                          Limits::max(),
                          Limits::min(),
                          T(Limits::max() / 2 + 1),
                          T(original + 1),
                          T(original - 1),
                          T(original + 64),
                          T(original * 2),
                          T(original / 2)};
    for (T value : values) {
      if (value == original)
        continue;
      field = value;
      tryPlan();
    }
    field = original;
  }

  TempDir folder_;
  SamplePlan sample_;
  std::string path_;
  size_t tried_ = 0, ran_ = 0;
};

TEST_F(PlanDamageTest, EverySingleBit) {
  sample_.addTokenizer();
  const std::vector<uint8_t> good = sample_.builder.bytes();
  size_t bits = good.size() * 8;
  std::mt19937_64 random(20261121);
  bool all = flips == 0 || flips >= bits;
  size_t total = all ? bits : flips;
  std::vector<uint8_t> bytes = good;
  for (size_t i = 0; i < total; ++i) {
    size_t bit = all ? i : random() % bits;
    bytes[bit / 8] ^= uint8_t(1u << bit % 8);
    tryBytes(bytes);
    bytes[bit / 8] = good[bit / 8];
  }
  // Flips in names and padding do no harm; most others must be detected.
  EXPECT_EQ(tried_, total);
  EXPECT_GT(ran_, 0u);
  EXPECT_LT(ran_, total * 3 / 4);
  RecordProperty("accepted", int(ran_));
}

/// The experts on a second device: queues, copies, events.
class TwoDeviceDamageTest : public PlanDamageTest {
protected:
  TwoDeviceDamageTest() {
    moetest::splitPlan(sample_.builder.plan, [](const fb::PhaseT &,
                                                const fb::InstructionT &i) {
      return uint32_t(findOp(i.op)->name.starts_with("expert"));
    });
    tryPlan();
    EXPECT_EQ(ran_, 1u);
  }
};

TEST_F(TwoDeviceDamageTest, SingleBits) {
  const std::vector<uint8_t> good = sample_.builder.bytes();
  std::mt19937_64 random(20261122);
  std::vector<uint8_t> bytes = good;
  size_t total = flips == 0 ? good.size() * 8 : flips / 4;
  for (size_t i = 0; i < total; ++i) {
    size_t bit = flips == 0 ? i : random() % (good.size() * 8);
    bytes[bit / 8] ^= uint8_t(1u << bit % 8);
    tryBytes(bytes);
    bytes[bit / 8] = good[bit / 8];
  }
  EXPECT_GT(ran_, 1u);
  EXPECT_LT(ran_, total * 3 / 4);
}

TEST_F(TwoDeviceDamageTest, EveryQueueAndEvent) {
  fb::PlanT &plan = sample_.builder.plan;
  for (auto &phase : plan.phases) {
    tryValues(phase->events);
    for (auto &instruction : phase->instructions) {
      tryValues(instruction->queue);
      tryValues(instruction->signal);
      for (uint32_t &event : instruction->waits)
        tryValues(event);
      instruction->waits.push_back(0);
      for (uint32_t event = 0; event <= phase->events; ++event) {
        instruction->waits.back() = event;
        tryPlan();
      }
      instruction->waits.pop_back();
    }
    for (auto &buffer : phase->buffers)
      tryValues(buffer->device);
  }
  for (auto &queue : plan.queues) {
    tryValues(queue->device);
    for (uint8_t kind = 1; kind < 4; ++kind) {
      queue->kind = fb::QueueKind(kind);
      tryPlan();
    }
    queue->kind = fb::QueueKind::Compute;
  }
  for (auto &device : plan.devices)
    tryValues(device->cores);
  for (auto &kv : plan.kv)
    tryValues(kv->device);
  for (size_t i = 0; i < plan.residency.size(); ++i) {
    fb::Residency kept = plan.residency[i];
    plan.residency[i] =
        fb::Residency(kept.weight(), kept.device() ^ 1, kept.mode());
    tryPlan();
    plan.residency[i] = kept;
  }
}

/// The damaged ladder may run any rung.
TEST_F(PlanDamageTest, SingleBitsOfALadder) {
  moetest::SampleLadder ladder({24, 100});
  path_ = ladder.write(folder_);
  const std::vector<uint8_t> good = ladder.bytes();
  std::mt19937_64 random(20261123);
  std::vector<uint8_t> bytes = good;
  size_t total = flips == 0 ? good.size() * 8 : flips / 4;
  for (size_t i = 0; i < total; ++i) {
    size_t bit = flips == 0 ? i : random() % (good.size() * 8);
    bytes[bit / 8] ^= uint8_t(1u << bit % 8);
    tryBytes(bytes);
    bytes[bit / 8] = good[bit / 8];
  }
  EXPECT_GT(ran_, 1u);
  EXPECT_LT(ran_, total * 3 / 4);
}

TEST_F(PlanDamageTest, RunsOfRandomBytes) {
  const std::vector<uint8_t> good = sample_.builder.bytes();
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint8_t> bytes = good;
    size_t at = random() % bytes.size();
    for (size_t n = 1 + random() % 16; n > 0 && at < bytes.size(); --n)
      bytes[at++] = uint8_t(random());
    tryBytes(bytes);
  }
}

TEST_F(PlanDamageTest, EveryOperand) {
  for (auto &phase : sample_.builder.plan.phases)
    for (auto &instruction : phase->instructions)
      for (fb::Operand &operand : instruction->operands) {
        const fb::Operand original = operand;
        for (uint8_t kind = 0; kind <= 5; ++kind)
          for (uint32_t index = 0; index < 26; ++index) {
            operand = fb::Operand(fb::OperandKind(kind), index);
            tryPlan();
          }
        operand = fb::Operand(original.kind(), UINT32_MAX);
        tryPlan();
        operand = original;
      }
  EXPECT_LT(ran_, tried_ / 10);
}

TEST_F(PlanDamageTest, EveryParameterAndKernel) {
  for (auto &phase : sample_.builder.plan.phases) {
    tryValues(phase->min_tokens);
    tryValues(phase->max_tokens);
    tryValues(phase->input);
    tryValues(phase->output);
    for (auto &instruction : phase->instructions) {
      tryValues(instruction->op);
      tryValues(instruction->queue);
      for (int64_t &value : instruction->ints)
        tryValues(value);
      for (uint32_t &kernel : instruction->kernels)
        for (uint32_t other = 0; other <= sample_.builder.plan.kernels.size();
             ++other) {
          uint32_t original = std::exchange(kernel, other);
          tryPlan();
          kernel = original;
        }
    }
  }
}

TEST_F(PlanDamageTest, EveryRegionAndWeight) {
  fb::PlanT &plan = sample_.builder.plan;
  for (auto &phase : plan.phases)
    for (auto &buffer : phase->buffers) {
      tryValues(buffer->device);
      tryValues(buffer->encoding);
      tryValues(buffer->cols);
      tryValues(buffer->rows_per_token);
      tryValues(buffer->fixed_rows);
      tryValues(buffer->offset);
    }
  for (auto &weight : plan.weights) {
    tryValues(weight->file);
    tryValues(weight->format);
    tryValues(weight->layout);
    tryValues(weight->offset);
    tryValues(weight->outer);
    tryValues(weight->rows);
    tryValues(weight->cols);
    tryValues(weight->outer_stride);
    tryValues(weight->row_stride);
  }
  for (auto &kv : plan.kv) {
    tryValues(kv->type);
    tryValues(kv->width);
    tryValues(kv->capacity);
    tryValues(kv->offset);
  }
  tryValues(plan.devices[0]->arena_bytes);
  tryValues(plan.devices[0]->kv_bytes);
  tryValues(plan.devices[0]->scratch_bytes);
  tryValues(plan.devices[0]->worker_bytes);
  tryValues(plan.hidden);
  tryValues(plan.vocab);
  tryValues(plan.context);
}

// A buffer per worker must not be written by an instruction that workers share,
// and its readers would find nothing in the arena.
TEST_F(PlanDamageTest, EveryBufferPerWorker) {
  fb::DeviceT &device = *sample_.builder.plan.devices[0];
  for (uint64_t bytes : {uint64_t(0), device.arena_bytes}) {
    device.worker_bytes = bytes;
    for (auto &phase : sample_.builder.plan.phases)
      for (auto &buffer : phase->buffers) {
        buffer->per_worker = true;
        tryPlan();
        tryValues(buffer->offset);
        tryValues(buffer->cols);
        tryValues(buffer->fixed_rows);
        buffer->per_worker = false;
      }
  }
  EXPECT_GT(ran_, 0u);
  EXPECT_LT(ran_, tried_ / 4);
}

// If many vectors share one table, checking must not take forever.
TEST_F(PlanDamageTest, LargeCountsAreRefusedQuickly) {
  fb::PhaseT &phase = sample_.phase("decode");
  fb::InstructionT add = *phase.instructions[sample_.find("decode", "add")];
  for (int i = 0; i < 40000; ++i)
    phase.instructions.push_back(std::make_unique<fb::InstructionT>(add));
  StatusOr<Plan> plan = Plan::fromBytes(sample_.builder.bytes(), path_);
  ASSERT_FALSE(plan.isOk());
  EXPECT_NE(plan.status().message().find("at most 32768 are allowed"),
            std::string::npos)
      << plan.status().message();
}

} // namespace

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with("--flips="))
      flips = std::strtoull(argv[i] + 8, nullptr, 10);
  return RUN_ALL_TESTS();
}
