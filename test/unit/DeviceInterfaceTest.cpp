// The interface between engine and devices: on fakes that compute nothing, and
// on CPUs whose memory the host cannot access.
#include "runtime/device/StepBlock.h"
#include "runtime/engine/Engine.h"
#include "test/support/FakeDevice.h"
#include "test/support/OneSequence.h"
#include "test/support/SamplePlan.h"
#include "test/support/SplitPlan.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>

using namespace moert;
using moetest::DeviceLog;
using moetest::FakeDevice;
using moetest::OneSequence;
using moetest::SamplePlan;
using moetest::TempDir;
namespace fb = moert::fb;

namespace {
constexpr int32_t kPage = moek::kKvPage;
using Lines = std::vector<std::string>;

/// Moves the sample's experts to a second device.
void splitExperts(SamplePlan &sample) {
  moetest::splitPlan(sample.builder.plan,
                     [](const fb::PhaseT &, const fb::InstructionT &i) {
                       return findOp(i.op)->name.starts_with("expert");
                     });
}

/// Creates the sample plan with two fake devices, the first of which runs on
/// the caller's thread.
class FakeDevicesTest : public ::testing::Test {
protected:
  void SetUp() override {
    splitExperts(sample_);
    plan_ = std::make_unique<Plan>(*Plan::load(sample_.builder.write(folder_)));
    files_.emplace(*WeightFiles::open(*plan_, {}));
    for (uint32_t i = 0; i < 2; ++i)
      made_.push_back(std::make_unique<FakeDevice>(*plan_, i, log_));
    first_ = static_cast<FakeDevice *>(made_[0].get());
    second_ = static_cast<FakeDevice *>(made_[1].get());
    first_->caller = true;
  }
  Status create(const LoadProgress &progress = {}) {
    MOE_ASSIGN_OR_RETURN(
        devices_, Devices::create(*plan_, *files_, std::move(made_), progress));
    return Status::ok();
  }
  const RunnablePhase &decode() { return devices_->phases()[0]; }

  TempDir folder_;
  SamplePlan sample_;
  std::unique_ptr<Plan> plan_;
  std::optional<WeightFiles> files_;
  DeviceLog log_;
  DeviceList made_;
  FakeDevice *first_ = nullptr, *second_ = nullptr;
  std::unique_ptr<Devices> devices_;
};

TEST_F(FakeDevicesTest, AllMemoryIsReservedBeforeAnythingIsLoaded) {
  Lines loaded;
  Status status =
      create([&](std::string_view device, uint64_t done, uint64_t total) {
        loaded.push_back(fmt::format("{} {}/{}", device, done, total));
      });
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(log_.take(),
            (Lines{"cpu0 reserve", "cpu1 reserve", "cpu0 load", "cpu1 load",
                   "cpu0 bind", "cpu1 bind", "cpu0 bind", "cpu1 bind",
                   "cpu0 bind", "cpu1 bind"}));
  EXPECT_EQ(loaded, (Lines{"cpu0 1/2", "cpu0 2/2", "cpu1 1/2", "cpu1 2/2"}));
}

TEST_F(FakeDevicesTest, NothingIsLoadedIfMemoryIsMissing) {
  second_->fails = "reserve";
  EXPECT_EQ(create().message(), "cpu1 cannot reserve");
  EXPECT_EQ(log_.take(), (Lines{"cpu0 reserve", "cpu1 reserve"}));
}

TEST_F(FakeDevicesTest, FailuresOfLoadAndBindAreReported) {
  for (const char *function : {"load", "bind"}) {
    DeviceList devices;
    devices.push_back(std::make_unique<FakeDevice>(*plan_, 0, log_));
    devices.push_back(std::make_unique<FakeDevice>(*plan_, 1, log_));
    static_cast<FakeDevice &>(*devices[1]).fails = function;
    auto created = Devices::create(*plan_, *files_, std::move(devices));
    EXPECT_EQ(created.status().message(),
              std::string("cpu1 cannot ") + function);
  }
}

// The device on the caller's thread begins after the others have been enqueued,
// and is waited for first.
TEST_F(FakeDevicesTest, TheCallerWorksWhileTheOthersDo) {
  ASSERT_TRUE(create().isOk());
  (void)log_.take();
  for (int32_t position = 0; position < 3; ++position) {
    Status status = devices_->run(decode(), {1, position});
    ASSERT_TRUE(status.isOk()) << status.message();
    EXPECT_EQ(log_.take(), (Lines{"cpu1 enqueue", "cpu0 enqueue", "cpu0 wait",
                                  "cpu1 wait"}));
  }
}

// If either device fails, the other one stops waiting, and the error is the
// first device's that failed.
TEST_F(FakeDevicesTest, AFailureInAStepEndsItEverywhere) {
  ASSERT_TRUE(create().isOk());
  for (FakeDevice *device : {first_, second_})
    for (const char *function : {"run", "enqueue"}) {
      device->fails = function;
      Status status = devices_->run(decode(), {1, 0});
      EXPECT_EQ(status.code(), StatusCode::Io);
      EXPECT_EQ(
          status.message(),
          fmt::format("cpu{} cannot {}", int(device == second_), function));
      device->fails.clear();
      status = devices_->run(decode(), {1, 0});
      EXPECT_TRUE(status.isOk()) << status.message();
    }
}

/// Makes fake devices for an engine, and keeps pointers to them.
struct Fakes {
  DeviceLog log;
  std::vector<FakeDevice *> devices;

  EngineOptions options() {
    EngineOptions options;
    options.makeDevices = [this](const Plan &plan, const WeightFiles &,
                                 const DeviceOptions &) {
      DeviceList list;
      for (uint32_t i = 0; i < count(plan.table().devices()); ++i) {
        auto device = std::make_unique<FakeDevice>(plan, i, log);
        devices.push_back(device.get());
        list.push_back(std::move(device));
      }
      return list;
    };
    return options;
  }
  static uint32_t count(const auto *vector) { return vector->size(); }
};

TEST(EngineOnFakesTest, NeedsNoCpuDevice) {
  TempDir folder;
  SamplePlan sample("ref", {3 * kPage, 8, 4});
  splitExperts(sample);
  Fakes fakes;
  auto engine = Engine::open(sample.builder.write(folder), fakes.options());
  ASSERT_TRUE(engine.isOk()) << engine.status().message();
  Sequence text = (*engine)->sequence();
  std::vector<int32_t> tokens(kPage + 10, 3);
  auto logits = (*engine)->append(text, tokens);
  ASSERT_TRUE(logits.isOk()) << logits.status().message();
  EXPECT_EQ(*logits.operator->()->data(), 0.0f);
  EXPECT_EQ(logits->size(), size_t(SamplePlan::kVocab));
  EXPECT_EQ((*engine)->threads(), 0);

  // Both devices get the step block of a step with two sequences.
  ASSERT_TRUE((*engine)->append(text, 5).isOk());
  Sequence other = text.fork();
  (void)fakes.log.take();
  Request requests[] = {{&text, tokens}, {&other, tokens}};
  requests[0].tokens = requests[1].tokens = std::span(tokens).first(2);
  ASSERT_TRUE(
      (*engine)->step(requests, [](auto...) { return Status::ok(); }).isOk());
  Lines lines = fakes.log.take();
  EXPECT_TRUE(std::ranges::find(lines, "cpu0 copy") != lines.end())
      << "the page that both write to";
  EXPECT_EQ(text.position(), kPage + 13);

  std::string path = folder.file("text");
  ASSERT_TRUE(text.save(path).isOk());
  auto restored = (*engine)->restore(path);
  ASSERT_TRUE(restored.isOk()) << restored.status().message();
  EXPECT_EQ(restored->position(), text.position());

  fakes.devices[1]->fails = "run";
  EXPECT_EQ((*engine)->append(text, 5).status().message(), "cpu1 cannot run");
  fakes.devices[1]->fails.clear();
  EXPECT_TRUE((*engine)->append(text, 5).isOk());
}

TEST(EngineOnFakesTest, TheBlockHasRowsPositionsAndPages) {
  TempDir folder;
  SamplePlan sample("ref", {3 * kPage, 8, 4});
  Fakes fakes;
  auto engine = Engine::open(sample.builder.write(folder), fakes.options());
  ASSERT_TRUE(engine.isOk()) << engine.status().message();
  Sequence first = (*engine)->sequence({.sharePrefixes = false});
  Sequence second = (*engine)->sequence({.sharePrefixes = false});
  std::vector<int32_t> longer(kPage + 1, 3), shorter(7, 4);
  ASSERT_TRUE((*engine)->append(first, longer).isOk());
  ASSERT_TRUE((*engine)->append(second, shorter).isOk());
  // The batch phase has rows of both sequences; the logits phase, which
  // follows, has none.
  std::vector<moek::SequenceRows> rows;
  std::vector<std::vector<int32_t>> pages;
  (*engine)->setObserver([&](const PhaseRun &times) {
    if (times.phase != PhaseKind::Batch)
      return;
    rows = fakes.devices[0]->rows;
    pages = fakes.devices[0]->pages;
  });
  Request requests[] = {{&first, std::span(longer).first(1)},
                        {&second, std::span(longer).first(1)}};
  ASSERT_TRUE(
      (*engine)->step(requests, [](auto...) { return Status::ok(); }).isOk());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].position, kPage + 1);
  EXPECT_EQ(rows[1].begin, 1);
  EXPECT_EQ(rows[1].position, 7);
  ASSERT_EQ(pages[0].size(), 2u);
  ASSERT_EQ(pages[1].size(), 1u);
  EXPECT_NE(pages[0][1], pages[1][0]);
}

// A step block has room for a limited number of sequences.
TEST(EngineOnFakesTest, SequencesOfAStepAreLimited) {
  TempDir folder;
  SamplePlan sample("ref", {.context = kPage, .pages = 80, .ubatch = 256});
  Fakes fakes;
  auto engine = Engine::open(sample.builder.write(folder), fakes.options());
  ASSERT_TRUE(engine.isOk()) << engine.status().message();
  std::vector<Sequence> sequences;
  std::vector<Request> requests;
  std::vector<int32_t> tokens = {1, 2};
  for (int i = 0; i < 70; ++i)
    sequences.push_back((*engine)->sequence());
  for (Sequence &sequence : sequences)
    requests.push_back({&sequence, tokens});
  std::vector<size_t> together;
  (*engine)->setObserver([&](const PhaseRun &times) {
    if (times.phase == PhaseKind::Prefill)
      together.push_back(fakes.devices[0]->rows.size());
  });
  auto isOpen = [](const Request &request) { return request.isOpen(); };
  while (std::ranges::any_of(requests, isOpen))
    ASSERT_TRUE(
        (*engine)->step(requests, [](auto...) { return Status::ok(); }).isOk());
  EXPECT_EQ(together, (std::vector<size_t>{kMaxSequences, 6}));
}

/// A CPU that hides its memory from the host, and that does not use the step's
/// data after enqueue() has returned.
class ApartDevice final : public Device {
public:
  explicit ApartDevice(std::unique_ptr<Device> cpu) : cpu_(std::move(cpu)) {}

  Status reserve() override { return cpu_->reserve(); }
  Status load(const LoadProgress &progress) override {
    return cpu_->load(progress);
  }
  Status bind(const ProvenPhase &phase, std::span<std::byte *const> arenas,
              StepEvents *events) override {
    return cpu_->bind(phase, arenas, events);
  }
  std::byte *hostArena() const override { return cpu_->hostArena(); }
  int32_t threads() const override { return cpu_->threads(); }
  bool borrowsCaller() const override { return cpu_->borrowsCaller(); }
  Status enqueue(uint32_t phase, const moek::Step &step,
                 const StepControl &control) override {
    forget();
    moek::Step copy = step;
    std::vector<moek::SequenceRows> rows;
    std::vector<std::vector<int32_t>> pages;
    for (int32_t i = 0; step.sequences && i < step.sequenceCount; ++i) {
      rows.push_back(step.sequences[i]);
      const moek::SequenceRows &last = rows.back();
      pages.emplace_back(last.pages,
                         last.pages +
                             (last.position + last.count + kPage - 1) / kPage);
    }
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i].pages = pages[i].data();
    if (step.sequences)
      copy.sequences = rows.data();
    Status status = cpu_->enqueue(phase, copy, control);
    copy = {-1, -1};
    for (std::vector<int32_t> &list : pages)
      std::ranges::fill(list, std::numeric_limits<int32_t>::max());
    std::ranges::fill(rows, moek::SequenceRows{-1, -1, -1, nullptr});
    return status;
  }
  Status wait() override { return cpu_->wait(); }
  Status runAlone(uint32_t phase, uint32_t instruction, const moek::Step &step,
                  const std::atomic<bool> *cancel) override {
    forget();
    return cpu_->runAlone(phase, instruction, step, cancel);
  }
  StatusOr<std::span<const std::byte>> read(DeviceRegion from) override {
    forget();
    MOE_ASSIGN_OR_RETURN(std::span<const std::byte> bytes, cpu_->read(from));
    staging_.assign(bytes.begin(), bytes.end());
    return std::span<const std::byte>(staging_);
  }
  Status write(DeviceRegion to, std::span<const std::byte> bytes) override {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    forget();
    return cpu_->write(to, copy);
  }
  Status copy(DeviceRegion from, uint64_t to) override {
    forget();
    return cpu_->copy(from, to);
  }

private:
  void forget() { std::ranges::fill(staging_, std::byte(0xff)); }
  std::unique_ptr<Device> cpu_;
  std::vector<std::byte> staging_;
};

EngineOptions apart(int threads) {
  EngineOptions options;
  options.threads = threads;
  options.makeDevices = [](const Plan &plan, const WeightFiles &files,
                           DeviceOptions ofDevices) -> StatusOr<DeviceList> {
    MOE_ASSIGN_OR_RETURN(DeviceList list,
                         makeDevices(plan, files, std::move(ofDevices)));
    for (std::unique_ptr<Device> &device : list)
      device = std::make_unique<ApartDevice>(std::move(device));
    return list;
  };
  return options;
}

/// Returns the logits of prompts, decoding, forks and restored sequences.
std::vector<float> logitsOf(SamplePlan &sample, const EngineOptions &options) {
  TempDir folder;
  auto engine = Engine::open(sample.builder.write(folder), options);
  EXPECT_TRUE(engine.isOk()) << engine.status().message();
  std::vector<float> all;
  auto append = [&](Sequence &text, std::vector<int32_t> tokens) {
    auto logits = (*engine)->append(text, tokens);
    EXPECT_TRUE(logits.isOk()) << logits.status().message();
    if (logits)
      all.insert(all.end(), logits->begin(), logits->end());
  };
  Sequence text = (*engine)->sequence();
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < kPage + 9; ++i)
    prompt.push_back(i * 7 % SamplePlan::kVocab);
  append(text, prompt);
  append(text, {5});
  Sequence other = text.fork();
  append(other, {9, 9, 8});
  append(text, {7});
  std::string path = folder.file("text");
  EXPECT_TRUE(text.save(path).isOk());
  auto restored = (*engine)->restore(path);
  EXPECT_TRUE(restored.isOk()) << restored.status().message();
  append(*restored, {2});
  std::vector<int32_t> one = {11}, two = {12};
  Request requests[] = {{&text, one}, {&other, two}};
  Status status = (*engine)->step(
      requests, [&](size_t, int32_t, std::span<const float> logits) {
        all.insert(all.end(), logits.begin(), logits.end());
        return Status::ok();
      });
  EXPECT_TRUE(status.isOk()) << status.message();
  return all;
}

TEST(ApartDevicesTest, WorkIfTheHostCannotAccessTheirMemory) {
  SamplePlan sample("ref", {3 * kPage, 12, 4});
  EngineOptions here;
  here.threads = 2;
  std::vector<float> expected = logitsOf(sample, here);
  EXPECT_EQ(expected.size(), 7u * SamplePlan::kVocab);
  EXPECT_EQ(logitsOf(sample, apart(2)), expected);
  splitExperts(sample);
  EXPECT_EQ(logitsOf(sample, apart(2)), expected);
}

TEST(ApartDevicesTest, ValuesThatAreNotFiniteAreFound) {
  for (const char *weight : {"wo", "down", "out"}) {
    SamplePlan sample;
    splitExperts(sample);
    for (int64_t matrix = 0;
         matrix <
         (std::string_view(weight) == "down" ? SamplePlan::kExperts : 1);
         ++matrix)
      sample.fillRow(weight, matrix, 0, NAN);
    TempDir folder;
    std::string path = sample.builder.write(folder);
    EngineOptions here;
    here.threads = 2;
    std::string expected =
        OneSequence::open(path, here)->append(3).status().message();
    EXPECT_NE(expected.find(weight), std::string::npos) << expected;
    EXPECT_EQ(OneSequence::open(path, apart(2))->append(3).status().message(),
              expected);
  }
}

// A CPU cannot copy from memory that only a GPU can access.
TEST(MakeDevicesTest, CopiesFromUnreachableMemoryAreRefused) {
  TempDir folder;
  SamplePlan sample;
  splitExperts(sample);
  EngineOptions options;
  options.threads = 2;
  DeviceLog log;
  options.makeDevices = [&](const Plan &plan, const WeightFiles &files,
                            DeviceOptions ofDevices) -> StatusOr<DeviceList> {
    MOE_ASSIGN_OR_RETURN(DeviceList list,
                         makeDevices(plan, files, std::move(ofDevices)));
    list[1] = std::make_unique<FakeDevice>(plan, 1, log);
    return list;
  };
  Status status = Engine::open(sample.builder.write(folder), options).status();
  EXPECT_EQ(status.code(), StatusCode::WrongMachine);
  EXPECT_NE(status.message().find("(copy): operand x lies in the memory of "
                                  "cpu1, which cpu0 cannot access"),
            std::string::npos)
      << status.message();
}

TEST(MakeDevicesTest, AGpuNeedsItsDriver) {
  TempDir folder;
  SamplePlan sample;
  splitExperts(sample);
  fb::DeviceT &gpu = *sample.builder.plan.devices[1];
  gpu.name = "gpu0";
  gpu.kind = fb::DeviceKind::Cuda;
  gpu.isa = "cuda";
  StatusOr<Plan> plan = Plan::load(sample.builder.write(folder));
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  EXPECT_EQ(workersByDevice(plan->table(), 4), (std::vector<int32_t>{4, 0}));
  StatusOr<WeightFiles> files = WeightFiles::open(*plan, {});
  DeviceOptions options;
  options.cudaLibrary = "/nowhere/libcuda.so.1";
  StatusOr<DeviceList> devices = makeDevices(*plan, *files, options);
  EXPECT_EQ(devices.status().code(), StatusCode::WrongMachine);
  EXPECT_NE(devices.status().message().find(
                "gpu0 is a GPU: this machine has no CUDA driver"),
            std::string::npos)
      << devices.status().message();
}

// A graph may have been recorded with another address of the block.
TEST(StepBlockTest, PointersAreForTheAddressWhereItIsRead) {
  const StepRoom room{3, 5};
  std::vector<int32_t> first = {4, 2, 9}, second = {7};
  moek::SequenceRows rows[] = {{0, 2, 2 * kPage - 1, first.data()},
                               {2, 1, 3, second.data()},
                               {3, 1, 5, nullptr}};
  moek::Step step{4, 2 * kPage - 1, rows, 3};
  auto bytesOf = [&] { return std::vector<uint64_t>(room.bytes() / 8 + 1); };
  auto staged = bytesOf(), read = bytesOf();
  auto *memory = reinterpret_cast<std::byte *>(staged.data());
  uint64_t used = writeStepBlock(step, room, memory,
                                 reinterpret_cast<uintptr_t>(read.data()));
  EXPECT_LE(used, room.bytes());
  std::memcpy(read.data(), staged.data(), used);
  std::ranges::fill(staged, ~uint64_t(0));
  std::ranges::fill(first, -1);
  std::ranges::fill(rows, moek::SequenceRows{});

  const auto &found = *reinterpret_cast<const moek::Step *>(read.data());
  EXPECT_EQ(found.tokens, 4);
  EXPECT_EQ(found.position, 2 * kPage - 1);
  ASSERT_EQ(found.sequenceCount, 3);
  moek::SequenceRows a = found.sequence(0), b = found.sequence(1);
  EXPECT_EQ(std::vector<int32_t>(a.pages, a.pages + 3),
            (std::vector<int32_t>{4, 2, 9}));
  EXPECT_EQ(b.begin, 2);
  EXPECT_EQ(b.position, 3);
  EXPECT_EQ(*b.pages, 7);
  EXPECT_EQ(found.sequence(2).pages, nullptr);
  auto *begin = reinterpret_cast<const std::byte *>(read.data());
  for (const void *pointer :
       {static_cast<const void *>(found.sequences),
        static_cast<const void *>(a.pages), static_cast<const void *>(b.pages)})
    EXPECT_TRUE(pointer >= begin && pointer < begin + used);
}

TEST(StepBlockTest, OneSequenceNeedsItsPositionOnly) {
  const StepRoom room{1, 0};
  std::vector<uint64_t> memory(room.bytes() / 8 + 1);
  uint64_t used = writeStepBlock({2, 17}, room,
                                 reinterpret_cast<std::byte *>(memory.data()),
                                 reinterpret_cast<uintptr_t>(memory.data()));
  EXPECT_EQ(used, sizeof(moek::Step));
  moek::SequenceRows rows =
      reinterpret_cast<const moek::Step *>(memory.data())->sequence(0);
  EXPECT_EQ(rows.position, 17);
  EXPECT_EQ(rows.count, 2);
  EXPECT_EQ(rows.pages, nullptr);
}

// Room for the largest step of any phase, if there are so many sequences.
TEST(StepBlockTest, RoomIsThatOfThePlan) {
  auto roomOf = [](SamplePlan::Room room) {
    SamplePlan sample("ref", room);
    auto bytes = sample.builder.bytes();
    return StepRoom::of(*fb::GetPlan(bytes.data()));
  };
  EXPECT_EQ(roomOf({.context = 2 * kPage + 1, .ubatch = 7}).sequences, 7);
  EXPECT_EQ(roomOf({.context = 2 * kPage + 1, .ubatch = 7}).pages, 7 * 3);
  EXPECT_EQ(roomOf({.context = kPage, .ubatch = 500}).sequences, kMaxSequences);
}

} // namespace
