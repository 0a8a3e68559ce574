// native on simulated machines: quiet, busy at first, always busy.
#include "compiler/Machine/Targets/NativeTarget.h"

#include "runtime/base/HostCpu.h"
#include "test/support/TempDir.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>

using namespace moec;
using moert::CpuLimits;
using moert::Disturbance;
using moert::Rate;
using moert::StatusOr;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

const Disturbance kQuiet{.spread = 0.1}, kSpread{.spread = 0.45},
    kQueued{.queued = 0.5};

class NativeTargetTest : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1), 0);
  }

  /// Measures rates of 1e9, 2e9 and so on, with these disturbances one after
  /// the other; the last one is repeated.
  CpuMeasurement measuring(std::vector<Disturbance> disturbances) {
    auto next = [this, disturbances](int &calls) {
      size_t last = disturbances.size() - 1;
      return disturbances[std::min(size_t(calls++), last)];
    };
    return {[=, this](int cores, double) -> StatusOr<CpuLimits> {
              Disturbance seen = next(limitCalls_);
              double rate = 1e9 * limitCalls_;
              return CpuLimits{cores, rate, rate * 10, rate, 0, seen};
            },
            [=, this](int cores, double, const std::function<void(int)> &)
                -> StatusOr<std::vector<Rate>> {
              Disturbance seen = next(readCalls_);
              double best = 1e8 * readCalls_;
              return std::vector<Rate>(
                  size_t(cores), {best, best * (1 - seen.spread), seen.queued});
            }};
  }

  StatusOr<Calibration> calibrate(const CpuMeasurement &cpu) {
    return calibrateNative(
        [this](const std::string &what) { said_.push_back(what); },
        {.cudaLibrary = "none.so", .cpu = cpu});
  }

  /// Describes a machine without GPUs.
  StatusOr<TargetDesc> native(const CpuMeasurement &cpu) {
    return nativeTarget(cpu, {}, "none.so");
  }
  /// Makes the file of a busy machine so old.
  static void age(std::chrono::minutes minutes) {
    std::filesystem::last_write_time(
        busyNativeFile(),
        std::filesystem::file_time_type::clock::now() - minutes);
  }
  bool cached() const { return std::filesystem::exists(nativeTargetFile()); }

  moetest::TempDir folder_;
  int limitCalls_ = 0, readCalls_ = 0;
  std::vector<std::string> said_;
};

TEST_F(NativeTargetTest, AQuietMachineIsMeasuredOnceAndKept) {
  CpuMeasurement cpu = measuring({kQuiet});
  for (int compile = 0; compile < 2; ++compile) {
    StatusOr<TargetDesc> target = native(cpu);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    EXPECT_EQ(target->host().read.perSecond, 1e9);
    EXPECT_THAT(target->notes, IsEmpty());
    EXPECT_TRUE(cached());
  }
  EXPECT_EQ(limitCalls_, 1);
}

TEST_F(NativeTargetTest, ABusyMachineIsMeasuredAgainUntilItIsQuiet) {
  for (const Disturbance &busy : {kSpread, kQueued}) {
    std::filesystem::remove(nativeTargetFile());
    limitCalls_ = 0;
    CpuMeasurement cpu = measuring({busy, kQuiet});
    StatusOr<TargetDesc> target = native(cpu);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    EXPECT_EQ(limitCalls_, 2);
    EXPECT_EQ(target->host().read.perSecond, 2e9);
    EXPECT_THAT(target->notes,
                ElementsAre(HasSubstr("other programs used this machine (rates "
                                      "spread by ")));
    // The target is saved, without the note.
    StatusOr<TargetDesc> again = native(cpu);
    ASSERT_TRUE(again.isOk()) << again.status().message();
    EXPECT_EQ(again->host().read.perSecond, 2e9);
    EXPECT_THAT(again->notes, IsEmpty());
    EXPECT_EQ(limitCalls_, 2);
  }
}

TEST_F(NativeTargetTest, FiguresOfABusyMachineAreUsedForAnHour) {
  CpuMeasurement cpu = measuring({kQueued});
  for (int hour = 1; hour <= 2; ++hour) {
    StatusOr<TargetDesc> target = native(cpu);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    // The best of three measurements; after an hour three more are made.
    EXPECT_EQ(limitCalls_, kMeasurements * hour);
    EXPECT_EQ(target->host().read.perSecond, 1e9 * limitCalls_);
    EXPECT_EQ(target->host().int8.perSecond, 1e10 * limitCalls_);
    EXPECT_THAT(target->notes,
                ElementsAre(testing::AllOf(
                    HasSubstr("other programs use this machine (rates spread "
                              "by 0 %, and 0.5 threads had no CPU in the last "
                              "of 3 measurements)"),
                    HasSubstr("for 60 minutes"), HasSubstr("moec calibrate"))));
    EXPECT_FALSE(cached());
    age(std::chrono::minutes(30));
    StatusOr<TargetDesc> again = native(cpu);
    ASSERT_TRUE(again.isOk()) << again.status().message();
    EXPECT_EQ(limitCalls_, kMeasurements * hour);
    EXPECT_EQ(again->host().read.perSecond, target->host().read.perSecond);
    EXPECT_THAT(again->notes,
                ElementsAre(HasSubstr("when it was measured 30 minutes ago")));
    age(kBusyTime);
  }
  // The next quiet measurement is saved, and replaces the other one.
  StatusOr<TargetDesc> quiet = native(measuring({kQuiet}));
  ASSERT_TRUE(quiet.isOk()) << quiet.status().message();
  EXPECT_TRUE(cached());
  EXPECT_FALSE(std::filesystem::exists(busyNativeFile()));
}

TEST_F(NativeTargetTest, ADamagedFileOfABusyMachineIsMeasuredAgain) {
  CpuMeasurement cpu = measuring({kQueued});
  ASSERT_TRUE(native(cpu).isOk());
  std::ofstream(busyNativeFile()) << "damaged";
  ASSERT_TRUE(native(cpu).isOk());
  EXPECT_EQ(limitCalls_, 2 * kMeasurements);
}

TEST_F(NativeTargetTest, IsAssumedWithoutMeasuring) {
  EXPECT_FALSE(isNativeKnown("none.so"));
  StatusOr<TargetDesc> assumed = assumedNative("none.so");
  ASSERT_TRUE(assumed.isOk()) << assumed.status().message();
  StatusOr<TargetDesc> measured = native(measuring({kQuiet}));
  ASSERT_TRUE(measured.isOk()) << measured.status().message();
  EXPECT_EQ(assumed->host().cores, measured->host().cores);
  EXPECT_EQ(assumed->host().budgetBytes(), measured->host().budgetBytes());
  EXPECT_EQ(assumed->host().isa, measured->host().isa);
  EXPECT_GT(assumed->host().read.perSecond, 0);
  EXPECT_FALSE(isNativeKnown("none.so")) << "it has no rates of kernels";
}

TEST_F(NativeTargetTest, UnusableFilesAreMeasuredAgainAndSaved) {
  CpuMeasurement cpu = measuring({kQuiet});
  ASSERT_TRUE(native(cpu).isOk());
  std::ifstream file(nativeTargetFile());
  std::string kept{std::istreambuf_iterator<char>(file), {}};
  std::string foreign = kept;
  size_t title = foreign.find("\"title\": \"") + 10;
  foreign.insert(title, "Another ");
  for (const std::string &text : {kept.substr(0, 100), foreign}) {
    std::ofstream(nativeTargetFile()) << text;
    int before = limitCalls_;
    StatusOr<TargetDesc> target = native(cpu);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    EXPECT_THAT(target->notes, ElementsAre(HasSubstr("measured")));
    EXPECT_EQ(limitCalls_, before + 1);
    target = native(cpu);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    EXPECT_THAT(target->notes, IsEmpty());
    EXPECT_EQ(limitCalls_, before + 1);
  }
}

TEST_F(NativeTargetTest, NoteIfNothingCanBeSaved) {
  std::string file = folder_.write("file", "");
  ASSERT_EQ(::setenv("XDG_CACHE_HOME", file.c_str(), 1), 0);
  StatusOr<TargetDesc> target = native(measuring({kQuiet}));
  ASSERT_TRUE(target.isOk()) << target.status().message();
  EXPECT_THAT(target->notes, ElementsAre(HasSubstr("cannot be saved")));
  // The second note would only confuse if the figures are not saved anyway.
  target = native(measuring({kSpread}));
  ASSERT_TRUE(target.isOk()) << target.status().message();
  EXPECT_THAT(target->notes, ElementsAre(HasSubstr("but not kept")));
}

TEST_F(NativeTargetTest, EarlierAndBetterFiguresStay) {
  CpuMeasurement cpu = measuring({kSpread});
  auto rising = cpu.limits;
  cpu.limits = [&](int cores, double seconds) {
    StatusOr<CpuLimits> limits = rising(cores, seconds);
    limits->readBytesPerSecond = 1e9 * (10 - limitCalls_);
    return limits;
  };
  StatusOr<TargetDesc> target = native(cpu);
  ASSERT_TRUE(target.isOk()) << target.status().message();
  EXPECT_EQ(target->host().read.perSecond, 9e9);
  EXPECT_EQ(target->host().float32.perSecond, 3e9);
}

TEST_F(NativeTargetTest, CalibrationRepeatsWhatWasDisturbed) {
  StatusOr<Calibration> quiet = calibrate(measuring({kQuiet}));
  ASSERT_TRUE(quiet.isOk()) << quiet.status().message();
  EXPECT_TRUE(quiet->disturbance.isQuiet());
  EXPECT_EQ(limitCalls_ + readCalls_, 2);
  for (const std::string &what : said_)
    EXPECT_EQ(what.find("again"), std::string::npos) << what;

  limitCalls_ = readCalls_ = 0;
  said_.clear();
  StatusOr<Calibration> settled = calibrate(measuring({kSpread, kQuiet}));
  ASSERT_TRUE(settled.isOk()) << settled.status().message();
  EXPECT_TRUE(settled->disturbance.isQuiet());
  EXPECT_EQ(limitCalls_, 2);
  EXPECT_EQ(readCalls_, 2);
  EXPECT_EQ(std::ranges::count(said_, "again, as other programs use this "
                                      "machine: rates spread by 45 %, and 0.0 "
                                      "threads had no CPU"),
            2);
  EXPECT_EQ(settled->target.host().readBytesPerSecondByCores.front(), 2e8);

  limitCalls_ = readCalls_ = 0;
  StatusOr<Calibration> busy = calibrate(measuring({kQueued}));
  ASSERT_TRUE(busy.isOk()) << busy.status().message();
  EXPECT_FALSE(busy->disturbance.isQuiet());
  EXPECT_EQ(limitCalls_, kMeasurements);
  EXPECT_EQ(readCalls_, kMeasurements);
  EXPECT_FALSE(cached());
}

TEST_F(NativeTargetTest, ASingleMeasurementMayBeDisturbed) {
  StatusOr<Calibration> once =
      calibrateNative({}, {.measurements = 1,
                           .cudaLibrary = "none.so",
                           .cpu = measuring({kSpread})});
  ASSERT_TRUE(once.isOk()) << once.status().message();
  EXPECT_FALSE(once->disturbance.isQuiet());
  EXPECT_EQ(limitCalls_ + readCalls_, 2);
}

/// One kernel, whose rate rises from round to round, with these disturbances.
class KernelsOfThisMachineTest : public NativeTargetTest {
protected:
  CpuMeasurement measuringKernels(std::vector<Disturbance> disturbances) {
    CpuMeasurement cpu = measuring({kQuiet});
    cpu.kernels = [=,
                   this](int, bool brief,
                         const auto &progress) -> StatusOr<moert::KernelRates> {
      progress("gemm_q4_k_avx512");
      brief_ = brief;
      double rate = 1e9 * ++rounds_;
      moert::KernelRates rates;
      rates.kernels = {{"gemm_q4_k_avx512",
                        "",
                        {1, 64},
                        {rate, 5e17 / rate},
                        {2 * rate, 1}}};
      rates.overheads = {1e-6 * rounds_, 1e-8, 1e-7};
      rates.disturbance =
          disturbances[std::min(size_t(rounds_ - 1), disturbances.size() - 1)];
      return rates;
    };
    return cpu;
  }

  int rounds_ = 0;
  bool brief_ = false;
};

TEST_F(KernelsOfThisMachineTest, ACompileMeasuresThemOnceAndKeepsThem) {
  CpuMeasurement cpu = measuringKernels({kQuiet});
  for (int compile = 0; compile < 2; ++compile) {
    StatusOr<TargetDesc> target = native(cpu);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    ASSERT_EQ(target->host().kernels.size(), 1u);
    EXPECT_EQ(target->host().kernels[0].at, (std::vector<double>{1, 64}));
    EXPECT_EQ(target->host().kernels[0].memory.front(), 1e9);
    EXPECT_EQ(target->host().kernels[0].cache.front(), 2e9);
    EXPECT_DOUBLE_EQ(target->host().overheads.step, 1e-6);
    EXPECT_THAT(target->notes, IsEmpty());
  }
  EXPECT_EQ(rounds_, 1);
  EXPECT_TRUE(brief_);
}

TEST_F(KernelsOfThisMachineTest, AFileOfAnEarlierVersionIsMeasuredAgain) {
  ASSERT_TRUE(native(measuring({kQuiet})).isOk());
  StatusOr<TargetDesc> target = native(measuringKernels({kQuiet}));
  ASSERT_TRUE(target.isOk()) << target.status().message();
  EXPECT_EQ(rounds_, 1);
  EXPECT_THAT(target->notes, ElementsAre(HasSubstr("has no rates of kernels")));
  target = native(measuringKernels({kQuiet}));
  ASSERT_TRUE(target.isOk()) << target.status().message();
  EXPECT_EQ(rounds_, 1);
  EXPECT_THAT(target->notes, IsEmpty());
}

TEST_F(KernelsOfThisMachineTest,
       CalibrationTakesTheBestOfRoundsUntilOneIsQuiet) {
  StatusOr<Calibration> quiet = calibrate(measuringKernels({kQuiet}));
  ASSERT_TRUE(quiet.isOk()) << quiet.status().message();
  EXPECT_EQ(rounds_, 2);
  EXPECT_FALSE(brief_);
  // The best of each point, and the smallest overheads.
  const moert::KernelRate &best = quiet->target.host().kernels.at(0);
  EXPECT_EQ(best.memory, (std::vector<double>{2e9, 5e8}));
  EXPECT_DOUBLE_EQ(quiet->target.host().overheads.step, 1e-6);

  rounds_ = 0;
  StatusOr<Calibration> busy =
      calibrate(measuringKernels({kQuiet, kSpread, kQueued}));
  ASSERT_TRUE(busy.isOk()) << busy.status().message();
  EXPECT_EQ(rounds_, kMeasurements);
  EXPECT_FALSE(busy->disturbance.isQuiet());
}

// Only one measurement was disturbed, but the description is not saved either.
TEST_F(NativeTargetTest, ABusySweepAloneIsNotQuiet) {
  CpuMeasurement cpu = measuring({kQuiet});
  cpu.readByCores = measuring({kSpread}).readByCores;
  StatusOr<Calibration> calibration = calibrate(cpu);
  ASSERT_TRUE(calibration.isOk()) << calibration.status().message();
  EXPECT_FALSE(calibration->disturbance.isQuiet());
}

} // namespace
