// Machine descriptions: which values they may have, and what names mean.
#include "compiler/Machine/Targets/Target.h"

#include "test/support/TempDir.h"

#include <gmock/gmock.h>
#include <map>
#include <nlohmann/json.hpp>

using namespace moec;
using moert::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::ordered_json;

namespace {

class TargetFileTest : public testing::Test {
protected:
  moert::Status load(const Json &device) {
    return loadTargetFile(folder_.write("machine.json", device.dump()))
        .status();
  }

  moetest::TempDir folder_;
  const Json cpu_ = {{"kind", "cpu"},     {"isa", "avx2"},
                     {"cores", 8},        {"memory_gib", 64},
                     {"reserved_gib", 8}, {"read_gbps", 40},
                     {"int8_tops", 1},    {"float_tflops", 0.5}};
};

TEST_F(TargetFileTest, ImpossibleValuesNameFileAndKey) {
  EXPECT_TRUE(load(cpu_).isOk()) << load(cpu_).message();
  struct {
    const char *key;
    Json value;
    const char *message;
  } cases[] = {
      {"reserved_gib", 65, "\"reserved_gib\" is 65, but \"memory_gib\" is 64"},
      {"reserved_gib", 64, "\"reserved_gib\" is 64, but \"memory_gib\" is 64"},
      {"reserved_gib", -1, "\"reserved_gib\" is -1"},
      {"memory_gib", 0, "\"memory_gib\" is 0"},
      {"cores", 1.5, "\"cores\" is 1.5, expected a whole number"},
      {"numa_nodes", 1.5, "\"numa_nodes\" is 1.5, expected a whole number"},
      {"read_gbps", 0, "\"read_gbps\" is 0"},
      {"arch", 89, "for a cuda device"},
      {"link_gbps", 25, "for a cuda device"},
      {"link_latency_us", 8, "for a cuda device"},
      {"storage_gbps", 0, "\"storage_gbps\" is 0"},
      {"storage_kreads", -1, "\"storage_kreads\" is -1"},
  };
  for (const auto &[key, value, message] : cases) {
    Json device = cpu_;
    device[key] = value;
    moert::Status status = load(device);
    EXPECT_EQ(status.code(), StatusCode::InvalidFile) << key;
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("machine.json:"), HasSubstr(message)));
  }
}

TEST_F(TargetFileTest, ADeviceOfAListIsNamedByItsIndex) {
  Json second = cpu_;
  second["reserved_gib"] = 100;
  moert::Status status = load({{"devices", {cpu_, second}}});
  EXPECT_THAT(status.message(), HasSubstr("\"reserved_gib\" is 100"));
}

TEST_F(TargetFileTest, ACudaDeviceHasNoIsa) {
  Json gpu = cpu_;
  gpu["kind"] = "cuda";
  gpu["arch"] = 89;
  gpu["link_gbps"] = 25;
  EXPECT_THAT(load({{"devices", {gpu, cpu_}}}).message(),
              HasSubstr("\"isa\" is for a cpu"));
  gpu.erase("isa");
  gpu["storage_gbps"] = 3;
  EXPECT_THAT(load({{"devices", {gpu, cpu_}}}).message(),
              HasSubstr("\"storage_kreads\" are for a cpu"));
  gpu.erase("storage_gbps");
  moert::Status both = load({{"devices", {gpu, cpu_}}});
  EXPECT_TRUE(both.isOk()) << both.message();
}

// A peak is no rate: each comes with the fraction that kernels reach, and with
// its source.
TEST(TargetNamesTest, EveryFigureOfAShippedTargetHasItsSource) {
  for (const std::string &name : targetNames()) {
    if (name == "native")
      continue;
    auto target = describeParts(name);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    for (const DeviceDesc &device : target->devices) {
      struct {
        const char *name;
        const Peak &peak;
        bool required;
      } figures[] = {{"read", device.read, true},
                     {"int8", device.int8, true},
                     {"float", device.float32, true},
                     {"bf16", device.bf16, device.isa == moek::Isa::Amx},
                     {"unpack", device.unpack, device.kind == DeviceKind::Cpu},
                     {"link", device.link,
                      device.kind == DeviceKind::Cuda && !device.sharesMemory}};
      for (const auto &[figure, peak, required] : figures) {
        EXPECT_EQ(peak.perSecond > 0, required) << name << " " << figure;
        EXPECT_EQ(peak.efficiency > 0, required) << name << " " << figure;
        EXPECT_LT(peak.efficiency, 1) << name << " " << figure;
        if (required) {
          EXPECT_THAT(peak.source, HasSubstr("efficiency: "))
              << name << " " << figure;
          EXPECT_NE(peak.basis, Basis::Unstated) << name << " " << figure;
        }
      }
      EXPECT_NE(device.source, "") << name;
      EXPECT_EQ(device.linkLatencySeconds > 0, device.kind == DeviceKind::Cuda)
          << name;
    }
  }
}

// Dense int8 with int32 sums: 128 SMs x 2048 operations at 2.52 GHz.
// Two sockets have twice of everything, in two memories, and one name.
TEST(TargetNamesTest, AHostOfSeveralSockets) {
  auto one = resolveTarget("4090+epyc-9654"),
       two = resolveTarget("4090+2xepyc-9654");
  ASSERT_TRUE(one.isOk() && two.isOk()) << two.status().message();
  ASSERT_EQ(two->devices.size(), 2u);
  EXPECT_EQ(two->host().name, "cpu0");
  EXPECT_EQ(two->host().numaNodes, 2);
  EXPECT_EQ(two->host().cores, 2 * one->host().cores);
  EXPECT_EQ(two->host().memoryBytes, 2 * one->host().memoryBytes);
  EXPECT_EQ(two->host().read.perSecond, 2 * one->host().read.perSecond);
  EXPECT_EQ(two->host().nodeRead.perSecond, one->host().read.perSecond);
  EXPECT_LT(two->host().nodeLink.perSecond, one->host().read.perSecond);
  EXPECT_EQ(two->notes.size(), one->notes.size() + 1);
  // Different CPUs are no host.
  EXPECT_FALSE(resolveTarget("epyc-9654+xeon").isOk());
}

TEST(TargetNamesTest, A4090IsDescribedLikeACalibratedOne) {
  auto target = describeParts("4090");
  ASSERT_TRUE(target.isOk()) << target.status().message();
  EXPECT_NEAR(target->devices[0].int8.perSecond, 660.6e12, 1e11);
  EXPECT_NEAR(target->devices[0].int8.planned(), 0.23 * 660.6e12, 1e11);
}

TEST(TargetNamesTest, PartsAloneAreDescribedButNoMachine) {
  auto gpus = describeParts("2x4090");
  ASSERT_TRUE(gpus.isOk()) << gpus.status().message();
  ASSERT_EQ(gpus->devices.size(), 2u);
  EXPECT_EQ(gpus->devices[1].name, "gpu1");
  EXPECT_EQ(gpus->name, "2x4090");

  auto machine = resolveTarget("2x4090");
  ASSERT_FALSE(machine.isOk());
  EXPECT_EQ(machine.status().code(), StatusCode::Usage);
  EXPECT_THAT(machine.status().message(),
              HasSubstr("expected exactly one CPU, found 0; join devices"));
  EXPECT_TRUE(resolveTarget("2x4090+xeon").isOk());
}

TEST(TargetNamesTest, AnUnknownPartSuggestsTheNearestAndListsAll) {
  auto status = describeParts("4091").status();
  EXPECT_EQ(status.code(), StatusCode::Usage);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("did you mean \"4090\"?"),
                    HasSubstr("known: 2080, 2080ti, 3060, 3060ti, 3070,")));
  // Other names are suggested, too, but not listed.
  EXPECT_THAT(describeParts("rtx-4091").status().message(),
              HasSubstr("did you mean \"rtx-4090\"?"));
}

// Each name and each other name means one description.
TEST(TargetNamesTest, NoNameHasTwoMeanings) {
  std::map<std::string, std::string> meanings;
  for (const std::string &name : targetNames()) {
    std::vector<std::string> written = targetAliases(name);
    written.push_back(name);
    for (std::string &text : written) {
      std::erase(text, '-');
      auto [known, isNew] = meanings.emplace(text, name);
      EXPECT_TRUE(isNew) << text << ": " << name << ", " << known->second;
    }
  }
  EXPECT_THAT(targetAliases("epyc-9654"), Contains("9654"));
  EXPECT_THAT(targetAliases("none"), IsEmpty());
}

TEST(TargetNamesTest, NamesMayBeWrittenAsPeopleDo) {
  for (auto [written, model] : {std::pair{"RTX4090", "4090"},
                                {"EPYC-9355", "epyc-9355"},
                                {"7950X", "ryzen-7950x"},
                                {"7773x", "epyc-7773x"},
                                {"4060Ti", "4060ti-16gb"},
                                {"RTX 4070 Ti SUPER", "4070ti-super"},
                                {"7800X3D", "ryzen-7800x3d"},
                                {"E5-2680 v4", "xeon-e5-2680v4"},
                                {"8488C", "xeon-8488c"},
                                {"14900K", "core-14900k"},
                                {"i3-N305", "n305"}}) {
    auto target = describeParts(written);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    EXPECT_EQ(target->devices[0].model, model) << written;
  }
}

// Each published machine has a name.
TEST(TargetNamesTest, TheMachinesOfPublishedRunsAreThere) {
  for (const char *name : {"3060",
                           "3090",
                           "4060ti-16gb",
                           "4080",
                           "4090",
                           "4090d",
                           "5070ti",
                           "5090",
                           "rtx-pro-6000",
                           "l40s",
                           "a100",
                           "h100",
                           "h200",
                           "xeon",
                           "xeon-2s",
                           "xeon-8488c",
                           "xeon-6980p",
                           "epyc-7773x",
                           "epyc-9355",
                           "epyc-9654",
                           "threadripper-7965wx",
                           "ryzen-5600x",
                           "ryzen-7950x",
                           "ryzen-9950x",
                           "core-13900k",
                           "core-12900k",
                           "core-14900k",
                           "core-ultra-9-285k",
                           "n305",
                           "altra",
                           "gb10",
                           "raspberry-pi-5"})
    EXPECT_TRUE(describeParts(name).isOk()) << name;
}

// A GPU and a CPU that are sold together: two memories and their link.
TEST(TargetNamesTest, AGH200IsAMachine) {
  auto target = resolveTarget("gh200");
  ASSERT_TRUE(target.isOk()) << target.status().message();
  ASSERT_EQ(target->devices.size(), 2u);
  EXPECT_EQ(target->devices[0].name, "gpu0");
  EXPECT_EQ(target->devices[0].link.perSecond, 450e9);
  EXPECT_TRUE(target->devices[0].hasKernelList);
  EXPECT_EQ(target->host().isa, moek::Isa::NeonI8mm);
  EXPECT_GT(target->host().memoryBytes, target->devices[0].memoryBytes);
}

constexpr uint64_t kGiB = uint64_t(1) << 30;

// One memory: the GPU has the CPU's, whatever size of it may be used.
TEST(TargetNamesTest, AGB10HasOneMemory) {
  for (const char *name : {"gb10", "gb10:64GiB", "dgx-spark"}) {
    auto target = resolveTarget(name);
    ASSERT_TRUE(target.isOk()) << target.status().message();
    ASSERT_EQ(target->devices.size(), 2u);
    const DeviceDesc &gpu = target->devices[0];
    EXPECT_TRUE(gpu.sharesMemory);
    EXPECT_EQ(gpu.link.perSecond, 0);
    EXPECT_EQ(target->memoryOf(0), 1u);
    EXPECT_EQ(target->memoryOf(1), 1u);
    EXPECT_GT(gpu.budgetBytes(), 0u);
    EXPECT_EQ(gpu.budgetBytes(), target->host().budgetBytes());
    EXPECT_EQ(gpu.read.perSecond, target->host().read.perSecond);
  }
  EXPECT_EQ(resolveTarget("gb10:64GiB")->host().budgetBytes(), 64 * kGiB);
  EXPECT_THAT(resolveTarget("gb10:pcie5").status().message(),
              HasSubstr("gb10 has the host's memory, and no link to it"));
  EXPECT_THAT(resolveTarget("2xgb10").status().message(),
              HasSubstr("expected exactly one CPU, found 2"));
  EXPECT_TRUE(resolveTarget("4090+gb10").isOk());
}

TEST_F(TargetFileTest, AMemoryThatIsSharedIsDescribedOnce) {
  Json gpu = {{"kind", "cuda"},     {"shares_memory", true}, {"arch", 121},
              {"cores", 48},        {"read_gbps", 273},      {"int8_tops", 200},
              {"float_tflops", 100}};
  auto with = [&](const char *key, const Json &value) {
    Json other = gpu;
    other[key] = value;
    return load({{"devices", {other, cpu_}}});
  };
  EXPECT_TRUE(with("link_latency_us", 20).isOk());
  struct {
    const char *key;
    Json value;
    const char *message;
  } cases[] = {
      {"memory_gib", 64,
       ":122: \"memory_gib\" is for a device with a memory of its own"},
      {"reserved_gib", 1, ":122: \"reserved_gib\" is for"},
      {"link_gbps", 25, ":122: \"link_gbps\" is for a device"},
      {"classes", {"pcie5"}, ":122: a class has \"link_gbps\""},
      {"shares_memory", 1, ":28: \"shares_memory\" must be true or false"},
      {"shares_memory", false, "\"memory_gib\" is missing"},
  };
  for (const auto &[key, value, message] : cases) {
    moert::Status status = with(key, value);
    EXPECT_EQ(status.code(), StatusCode::InvalidFile) << key;
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
  Json cpu = cpu_;
  cpu["shares_memory"] = true;
  EXPECT_THAT(load({{"devices", {gpu, cpu}}}).message(),
              HasSubstr(":241: \"shares_memory\" is for a "
                        "cuda device"));
  EXPECT_THAT(load({{"devices", {gpu, cpu_, cpu_}}}).message(),
              HasSubstr(":28: \"shares_memory\" is for a "
                        "machine with one cpu, whose memory it is, and there "
                        "are 2"));
  EXPECT_THAT(load(gpu).message(), HasSubstr("expected exactly one CPU"));
}

// The written text gives the same description when it is read.
TEST_F(TargetFileTest, ASharedMemoryIsWrittenAsItIsRead) {
  std::string text = toJson(*resolveTarget("gb10"));
  Json gpu = Json::parse(text)["devices"][0];
  EXPECT_TRUE(gpu["shares_memory"].get<bool>());
  EXPECT_FALSE(gpu.contains("memory_gib") || gpu.contains("reserved_gib"));
  auto again = parseTarget(text, "again.json");
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_TRUE(again->devices[0].sharesMemory);
  EXPECT_EQ(again->devices[0].memoryBytes, again->host().memoryBytes);
}

TEST(TargetPartsTest, ASizeIsTheMemoryToPlanWith) {
  auto target = resolveTarget("4090:20GiB+xeon:200GiB");
  ASSERT_TRUE(target.isOk()) << target.status().message();
  EXPECT_EQ(target->devices[0].budgetBytes(), 20 * kGiB);
  EXPECT_EQ(target->host().budgetBytes(), 200 * kGiB);
  // A CPU may be given more memory than its description has, but a GPU may not.
  auto big = resolveTarget("2x4090:23.5GiB+xeon:1TiB");
  ASSERT_TRUE(big.isOk()) << big.status().message();
  EXPECT_EQ(big->host().budgetBytes(), 1024 * kGiB);
  EXPECT_EQ(big->devices[1].budgetBytes(), 23 * kGiB);
  EXPECT_THAT(resolveTarget("4090:30GiB+xeon").status().message(),
              HasSubstr("4090 has 24 GiB of memory, not 30 GiB"));
}

TEST(TargetPartsTest, ALinkIsAClass) {
  auto target = resolveTarget("4090:pcie3x8:8GiB+xeon");
  ASSERT_TRUE(target.isOk()) << target.status().message();
  EXPECT_NEAR(target->devices[0].link.perSecond, 7.875e9, 1e6);
  EXPECT_THAT(target->devices[0].link.source, HasSubstr("8 lanes of 8 GT/s"));
  EXPECT_EQ(target->devices[0].budgetBytes(), 8 * kGiB);
  moert::Status status = resolveTarget("4090:pci3+xeon").status();
  EXPECT_EQ(status.code(), StatusCode::Usage);
  EXPECT_THAT(status.message(), HasSubstr("did you mean \"pcie3\"?"));
  EXPECT_THAT(resolveTarget("4090+xeon:pcie3").status().message(),
              HasSubstr("\"pcie3\" is not a size such as 20GiB"));
  EXPECT_THAT(resolveTarget("4090:8GiB:pcie3:9GiB+xeon").status().message(),
              HasSubstr("\"9GiB\" is a second size"));
  EXPECT_THAT(resolveTarget("4090:pcie3:pcie4+xeon").status().message(),
              HasSubstr("\"pcie4\" is a second link"));
}

TEST(TargetPartsTest, LimitsAreOfAllDevicesOfAKind) {
  auto target = resolveTarget("2x4090+xeon");
  ASSERT_TRUE(target.isOk());
  EXPECT_TRUE(limitMemory(*target, DeviceKind::Cuda, 10 * kGiB).isOk());
  EXPECT_TRUE(limitMemory(*target, DeviceKind::Cpu, 900 * kGiB).isOk());
  EXPECT_EQ(target->devices[0].budgetBytes(), 10 * kGiB);
  EXPECT_EQ(target->devices[1].budgetBytes(), 10 * kGiB);
  // A limit above the budget changes nothing.
  EXPECT_EQ(target->host().budgetBytes(), 496 * kGiB);
  auto cpu = resolveTarget("xeon");
  EXPECT_EQ(limitMemory(*cpu, DeviceKind::Cuda, kGiB).code(),
            StatusCode::Usage);
}

TEST_F(TargetFileTest, ClassesFillInWhatADeviceDoesNotState) {
  Json device = cpu_;
  device["classes"] = {"zen4", "desktop"};
  device["read_efficiency"] = 0.5;
  auto target = loadTargetFile(folder_.write("mine.json", device.dump()));
  ASSERT_TRUE(target.isOk()) << target.status().message();
  EXPECT_EQ(target->host().read.efficiency, 0.5);
  EXPECT_EQ(target->host().int8.efficiency, 0.36);
  EXPECT_EQ(target->host().int8.basis, Basis::Derived);
  // A printed target can be read again without classes.
  auto again = loadTargetFile(folder_.write("again.json", toJson(*target)));
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ(again->host().int8.efficiency, 0.36);
  EXPECT_EQ(again->host().int8.basis, Basis::Derived);

  device["classes"] = {"zen44"};
  EXPECT_THAT(
      load(device).message(),
      AllOf(HasSubstr("machine.json:"), HasSubstr("did you mean \"zen4\"?")));
  device["classes"] = "zen4";
  EXPECT_THAT(load(device).message(), HasSubstr("must be a list"));
  device.erase("classes");
  device["read_basis"] = "sure";
  EXPECT_THAT(load(device).message(), HasSubstr("\"read_basis\" must be"));
}

TEST_F(TargetFileTest, RatesOfKernelsAreMeasuredOrSimulated) {
  Json device = cpu_;
  device["kernels"] = {
      {{"kernel", "add_avx2"}, {"at", {1}}, {"memory", {2.5}}}};
  auto measured = loadTargetFile(folder_.write("mine.json", device.dump()));
  ASSERT_TRUE(measured.isOk()) << measured.status().message();
  EXPECT_EQ(measured->host().kernelBasis, Basis::Measured);
  device["kernels_basis"] = "simulated";
  auto target = loadTargetFile(folder_.write("mine.json", device.dump()));
  ASSERT_TRUE(target.isOk()) << target.status().message();
  auto again = loadTargetFile(folder_.write("again.json", toJson(*target)));
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ(again->host().kernelBasis, Basis::Simulated);
  EXPECT_EQ(again->host().kernels, target->host().kernels);
  device["kernels_basis"] = "guessed";
  EXPECT_THAT(load(device).message(),
              HasSubstr("\"kernels_basis\" must be \"measured\" or"));
}

} // namespace
