//===- EfficiencyTest.cpp - Bounds of each kernel from its counters -------===//
//
// Runs kernels on the software GPU and prints a table: bytes moved over bytes
// needed, sectors per request, shared-memory wavefronts over their number
// without bank conflicts, useful multiply-accumulates, registers and resident
// warps, and the bound on each GPU as a fraction of bandwidth or int8 peak.
//
//===----------------------------------------------------------------------===//

#include "kernels/cuda/FloatGemmCycles.h"
#include "kernels/quant/Format.h"
#include "test/kernels/cuda/Bound.h"
#include "test/kernels/cuda/SoftwareGpu.h"
#include "test/kernels/cuda/Workload.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace moek;
using namespace moek::test;
using softgpu::Counters;

namespace {

/// A software GPU that keeps counters, with a 4090's number of multiprocessors.
class CountingGpu : public SoftwareGpu {
public:
  int multiprocessors() const override { return 128; }

  Counters counters;
  /// Sectors of AccessedRanges; each one counts once in a launch.
  uint64_t dramBytes = 0;
  uint64_t l2Bytes = 0; ///< Each sector counts once in a block.

private:
  softgpu::LaunchResult run(const softgpu::Kernel &kernel,
                            const softgpu::LaunchShape &shape,
                            const void *argument) override {
    softgpu::AccessedRanges touched;
    touched.wantsSectors = true;
    softgpu::LaunchResult result =
        gpu_.launch(kernel, shape, {&argument, 1}, &touched);
    counters += result.counters;
    l2Bytes += 32 * touched.blockSectors;
    for (softgpu::Ranges *ranges : {&touched.reads, &touched.writes})
      for (const softgpu::Range &range : ranges->settled())
        dramBytes += (range.end + 31) / 32 * 32 - range.begin / 32 * 32;
    return result;
  }
};

/// A workload, and the counts of all its launches.
struct Figures {
  Workload work;
  Counters counters;
  uint64_t dramBytes = 0, l2Bytes = 0;
  bool isHalf = false; ///< Whether its mma have F16 operands.
  /// Images of the first launch, by gpuModels(); registers of 0: not compiled.
  std::vector<moec::KernelImage> images;

  double movedOverNeeded() const {
    return double(dramBytes) / double(work.neededBytes);
  }
  /// The requested operations as a fraction of what the tiles multiply.
  double usefulMacs() const {
    return work.operations / 2 / double(counters.macs);
  }
  uint64_t conflicts() const {
    return counters.sharedLoads.conflicts() +
           counters.sharedStores.conflicts() + counters.matrixLoads.conflicts();
  }
  int residentWarps(size_t model) const {
    const cuda::Launch &launch = work.launches[0];
    return cuda::residentWarps(gpuModels()[model].arch, int(launch.threads),
                               images[model].registers,
                               launch.sharedBytes + images[model].sharedBytes);
  }
  /// The time that memory alone, or multiplying at the int8 peak, would take,
  /// as a fraction of the bound.
  double bandwidthFraction(const GpuModel &gpu) const {
    Bound bound = boundOf(counters, dramBytes, l2Bytes, isHalf, gpu);
    double needed = double(work.neededBytes) * gpu.gigahertz / gpu.gigabytes;
    return needed / bound.all();
  }
  /// The bound of one tile; a matrix has many, which share what DRAM delivers.
  Bound withoutDram(const GpuModel &gpu) const {
    return boundOf(counters, 0, l2Bytes, isHalf, gpu);
  }
  double peakFraction(const GpuModel &gpu) const {
    double macs = isHalf ? gpu.halfMacs : gpu.int8Macs;
    return work.operations / 2 / macs / gpu.multiprocessors /
           withoutDram(gpu).all();
  }
};

class EfficiencyTest : public testing::Test {
protected:
  void SetUp() override {
    GpuTest &test = GpuTest::get();
    if (!test.compiler)
      GTEST_SKIP() << test.why;
    if (!softgpu::isSoftGpuSupported())
      GTEST_SKIP() << "this CPU cannot run the software GPU";
  }

  Figures measure(const std::string &name, const Workload &work, bool isMma,
                  bool isHalf = false) {
    Figures f;
    f.work = work;
    f.isHalf = isHalf;
    GpuTest &test = GpuTest::get();
    gpu.counters = {};
    gpu.dramBytes = gpu.l2Bytes = 0;
    for (const cuda::Launch &launch : work.launches) {
      moert::StatusOr<moec::KernelImage> image =
          test.compiler->compile({launch.kernel, gpu.arch()});
      EXPECT_TRUE(image.isOk()) << image.status().message();
      EXPECT_EQ(gpu.launch(launch, *image), "") << launch.kernel.entry;
    }
    f.counters = gpu.counters;
    f.dramBytes = gpu.dramBytes;
    f.l2Bytes = gpu.l2Bytes;
    for (const GpuModel &model : gpuModels()) {
      if (!isEveryArch && model.arch != gpu.arch()) {
        f.images.emplace_back();
        continue;
      }
      moert::StatusOr<moec::KernelImage> image =
          test.compiler->compile({work.launches[0].kernel, model.arch});
      EXPECT_TRUE(image.isOk()) << image.status().message();
      EXPECT_EQ(image->spilledBytes, 0) << name << ", sm_" << model.arch;
      f.images.push_back(*image);
    }
    print(name, f, isMma);
    return f;
  }

  static void print(const std::string &name, const Figures &f, bool isMma) {
    const Counters &c = f.counters;
    uint64_t waves = c.sharedLoads.wavefronts + c.sharedStores.wavefronts +
                     c.matrixLoads.wavefronts;
    fmt::print("{:28} moved/needed {:.3f}  sectors/request {:5.2f}  "
               "wavefronts/ideal {:.2f}",
               name, f.movedOverNeeded(), c.globalLoads.sectorsPerRequest(),
               waves ? double(waves) / double(waves - f.conflicts()) : 1.0);
    if (c.macs)
      fmt::print("  useful {:.3f}  issued/mma {:.1f}", f.usefulMacs(),
                 double(issued(c)) * 4096 / double(c.macs));
    for (size_t i = 0; i < gpuModels().size(); ++i) {
      const GpuModel &gpu = gpuModels()[i];
      fmt::print(
          "  {}: {:.0f} % {}", gpu.name,
          100 * (isMma ? f.peakFraction(gpu) : f.bandwidthFraction(gpu)),
          isMma ? f.withoutDram(gpu).name()
                : boundOf(c, f.dramBytes, f.l2Bytes, f.isHalf, gpu).name());
      if (f.images[i].registers)
        fmt::print(", {} registers, {} warps", f.images[i].registers,
                   f.residentWarps(i));
    }
    fmt::print("\n");
    std::fflush(stdout);
  }

  CountingGpu gpu;
  Workbench make{gpu};
  /// Compiles for all GPUs to learn the numbers of registers.
  bool isEveryArch = false;
};

/// Average cost of one kind of work.
struct Cost {
  double issued, wavefronts;
};

std::string nameOf(Format format, int32_t tokens) {
  return fmt::format("{} {} rows", formatInfo(format).name, tokens);
}

struct Measured {
  Format format;
  bool isEveryArch;
};
void PrintTo(const Measured &measured, std::ostream *out) {
  *out << formatInfo(measured.format).name;
}
class GemmEfficiencyTest : public EfficiencyTest,
                           public testing::WithParamInterface<Measured> {
protected:
  GemmEfficiencyTest() { isEveryArch = GetParam().isEveryArch; }
  const Format format = GetParam().format;
};

/// Data-centre GPUs have more bandwidth and int8 rate for the same issue slots:
/// test/bench/README.md, "Bounds".
bool isGeforce(const GpuModel &gpu) { return gpu.arch != 80 && gpu.arch != 90; }

/// The fraction of bandwidth that the bound of a decode product must allow.
double wantedOfBandwidth(int32_t tokens, const GpuModel &gpu) {
  return isGeforce(gpu) || tokens == 1 ? 0.85 : 0.65;
}

/// Multiprocessors of a GPU for which a small matrix is a large one: its blocks
/// have as many rows as they may, and no last tiles are divided by columns
/// (Tail.cuh).
constexpr int kFew = 1;

// All weights are read once from memory, and on no GPU does anything else take
// longer.
TEST_P(GemmEfficiencyTest, DecodeIsBoundByMemory) {
  for (int32_t tokens : {1, 2, 8}) {
    SCOPED_TRACE(tokens);
    Figures f = measure(nameOf(format, tokens),
                        make.linear(format, 64, 7168, tokens, 1, kFew), false);
    EXPECT_LE(f.movedOverNeeded(), 1.05);
    for (const GpuModel &gpu : gpuModels())
      EXPECT_GE(f.bandwidthFraction(gpu), wantedOfBandwidth(tokens, gpu))
          << gpu.name;
    make.freeAll();
  }
}

TEST_P(GemmEfficiencyTest, PrefillIsBoundByMultiplying) {
  // In other formats the last words do not fill a line.
  bool isWhole = rows16Shape(format).codeBits % 4 == 0;
  for (int32_t tokens : {64, 128}) {
    SCOPED_TRACE(tokens);
    Figures f = measure(nameOf(format, tokens),
                        make.linear(format, 256, 2048, tokens, 1, kFew), true);
    EXPECT_GE(f.usefulMacs(), 0.9);
    EXPECT_EQ(f.counters.matrixLoads.conflicts(), 0u);
    EXPECT_LE(f.counters.sharedStores.conflicts(),
              isWhole ? 0 : f.counters.sharedStores.wavefronts / 4);
    for (const GpuModel &gpu : gpuModels())
      if (isGeforce(gpu)) {
        EXPECT_GE(f.peakFraction(gpu), 0.5) << gpu.name;
      }
    make.freeAll();
  }
}

std::vector<Measured> everyFormat() {
  std::vector<Measured> all;
  for (Format format : kPackedFormats)
    all.push_back({format, true});
  return all;
}
std::string nameOf(const testing::TestParamInfo<Measured> &info) {
  return std::string(formatInfo(info.param.format).name);
}
INSTANTIATE_TEST_SUITE_P(SomeFormats, GemmEfficiencyTest,
                         testing::Values(Measured{Format::Q4_K, false}),
                         [](const auto &info) { return nameOf(info); });
INSTANTIATE_TEST_SUITE_P(EveryFormat, GemmEfficiencyTest,
                         testing::ValuesIn(everyFormat()),
                         [](const auto &info) { return nameOf(info); });

// Weights that were not repacked are decoded element by element, again for
// every eight rows. Checks the cycles that predictions assume, for formats with
// similar blocks.
TEST_F(EfficiencyTest, RowsOfFilesTakeTheCyclesThatPredictionsHave) {
  constexpr int64_t kRows = 64, kCols = 2048;
  const GpuModel &gpu = gpuModels()[1];
  auto check = [&](Format format) {
    for (int32_t tokens : {1, 8}) {
      Figures f = measure(nameOf(format, tokens) + " of floats",
                          make.ofFloats(format, kRows, kCols, tokens), false);
      double cycles = f.withoutDram(gpu).all() * gpu.multiprocessors *
                      cuda::kLanes / double(kRows * kCols);
      double predicted = cuda::floatGemmCycles(format, tokens);
      fmt::print("  per element: {:.1f} lane cycles, predicted {:.1f}\n",
                 cycles, predicted);
      EXPECT_GE(predicted, cycles / 1.75) << nameOf(format, tokens);
      EXPECT_LE(predicted, cycles * 1.75) << nameOf(format, tokens);
      make.freeAll();
    }
  };
  for (Format format : {Format::F32, Format::F16, Format::BF16})
    check(format);
  for (Format format : kPackedFormats)
    check(format);
}

// Weights of floats in prefill: one mma for each product where weights are
// 16-bit numbers and many, six where they are F32.
TEST_F(EfficiencyTest, PrefillOfFloatsIsBoundByMultiplying) {
  for (auto [format, mma] :
       {std::pair{Format::F16, 1}, {Format::BF16, 1}, {Format::F32, 6}}) {
    Figures f = measure(nameOf(format, 128) + " of floats",
                        make.ofFloats(format, 16384, 256, 128), true, true);
    EXPECT_GE(f.usefulMacs() * mma, 0.99);
    EXPECT_EQ(f.counters.matrixLoads.conflicts(), 0u);
    for (const GpuModel &gpu : gpuModels())
      if (isGeforce(gpu)) {
        EXPECT_GE(f.peakFraction(gpu) * mma, 0.8) << gpu.name;
      }
    make.freeAll();
  }
}

TEST_F(EfficiencyTest, ExpertsInPrefill) {
  Figures f =
      measure("Q4_K gate+up 6 of 8, 128",
              make.experts(Format::Q4_K, 8, 128, 2048, 6, 128, 1), true);
  EXPECT_GE(f.usefulMacs(), 0.8);
}

// The rows of each expert are rounded up to a multiple of eight, the columns of
// an mma, and not to the rows of a block.
TEST_F(EfficiencyTest, ExpertsOfFewRowsMultiplyLittleElse) {
  constexpr int32_t kExperts = 8;
  for (int32_t rows : {4, 8, 12, 20, 33, 64}) {
    Figures f = measure(
        fmt::format("Q4_K gate+up of {} rows each", rows),
        make.experts(Format::Q4_K, kExperts, 128, 512, 1, kExperts * rows, 1),
        true);
    double tiles = (rows + 7) / 8;
    EXPECT_GE(f.usefulMacs(), 0.99 * rows / (8 * tiles));
    make.freeAll();
  }
}

TEST_F(EfficiencyTest, LatentAttentionIsBoundByMemory) {
  for (KvType type : {KvType::F16, KvType::BF16}) {
    Figures f = measure(fmt::format("latent {} 16 heads", kvTypeName(type)),
                        make.latent(type, 16, 1024, 1, 1), false, true);
    EXPECT_LE(f.movedOverNeeded(), 1.05);
    for (const GpuModel &gpu : gpuModels())
      EXPECT_GE(f.bandwidthFraction(gpu), 0.85) << gpu.name;
    make.freeAll();
  }
}

// Splits keep partial sums, which are not needed, small.
TEST_F(EfficiencyTest, GroupedAttentionIsBoundByMemory) {
  for (KvType type : {KvType::F16, KvType::BF16, KvType::Q8_0}) {
    Figures f =
        measure(fmt::format("grouped {} 32 / 4 heads", kvTypeName(type)),
                make.attention(type, 32, 4, 128, 1024, 8, 1, 1), false, true);
    EXPECT_LE(f.movedOverNeeded(), 1.25);
    EXPECT_EQ(f.counters.matrixLoads.conflicts(), 0u);
    for (const GpuModel &gpu : gpuModels())
      EXPECT_GE(f.bandwidthFraction(gpu),
                type == KvType::Q8_0 && !isGeforce(gpu) ? 0.5 : 0.8)
          << gpu.name;
    make.freeAll();
  }
}

// Causal tiles included, the bound of a prompt's attention is mma on GeForce.
// Tensor cores of data-centre GPUs are so fast that loading sixteen queries'
// operands from shared memory takes longer.
TEST_F(EfficiencyTest, PromptsAttentionIsBoundByMultiplying) {
  auto check = [&](const std::string &name, const Workload &work) {
    Figures f = measure(name, work, false, true);
    EXPECT_EQ(f.counters.matrixLoads.conflicts(), 0u);
    for (const GpuModel &gpu : gpuModels()) {
      double fraction = work.operations / 2 / gpu.halfMacs /
                        gpu.multiprocessors / f.withoutDram(gpu).all();
      fmt::print("  {}: {:.0f} % of the F16 peak, bound by {}\n", gpu.name,
                 100 * fraction, f.withoutDram(gpu).name());
      EXPECT_GE(fraction, isGeforce(gpu)   ? 0.9
                          : gpu.arch == 80 ? 0.3
                                           : 0.15)
          << gpu.name;
    }
    make.freeAll();
  };
  for (KvType type : {KvType::F16, KvType::BF16, KvType::Q8_0})
    check(fmt::format("grouped {} 128 tokens", kvTypeName(type)),
          make.attention(type, 8, 1, 128, 1024, 1, 128, 1));
  check("decompressed f16 128 tokens",
        make.decompressed(KvType::F16, 1, 1024, 128));
}

// For chosen rows every head is a row of the same product. If tensor cores
// support the cache's type, they or memory are the limit.
TEST_F(EfficiencyTest, AttentionToChosenRowsIsAProduct) {
  constexpr int32_t kHeads = 128, kRows = 256;
  auto costOf = [&](KvType type) {
    Figures f = measure(fmt::format("{} of {} rows", kvTypeName(type), kRows),
                        make.sparse(type, kHeads, kRows), false, true);
    fmt::print("  per row and sixteen heads: {:.0f} instructions, {:.0f} "
               "wavefronts\n",
               double(issued(f.counters)) / kRows / kHeads * 16,
               double(f.counters.sharedLoads.wavefronts +
                      f.counters.sharedStores.wavefronts +
                      f.counters.matrixLoads.wavefronts) /
                   kRows / kHeads * 16);
    make.freeAll();
    return f;
  };
  Figures floats = costOf(KvType::F32);
  for (KvType type : {KvType::F16, KvType::BF16}) {
    Figures f = costOf(type);
    EXPECT_LE(double(issued(f.counters)),
              0.25 * double(issued(floats.counters)));
    EXPECT_EQ(f.counters.matrixLoads.conflicts(), 0u);
  }
}

// A token's states are read and written once, in whole sectors, and that takes
// longer than the computation.
TEST_F(EfficiencyTest, DeltaRuleIsBoundByMemory) {
  Figures f = measure("delta rule 8 heads 128 x 128",
                      make.deltaRule(8, 128, 128, 1), false);
  EXPECT_LE(f.movedOverNeeded(), 1.05);
  EXPECT_EQ(f.conflicts(), 0u);
  for (const GpuModel &gpu : gpuModels())
    EXPECT_GE(f.bandwidthFraction(gpu), 0.85) << gpu.name;
}

// In chunks a row costs less than one after the other, where states are also
// read and written only once. The bounds are the chunks' own: which keys the
// other kernel keeps in registers differs between compilers, by a tenth of its
// wavefronts.
TEST_F(EfficiencyTest, DeltaRuleOfManyRowsIsInChunks) {
  constexpr int32_t kHeads = 4;
  auto costOf = [&](int32_t rows) {
    Figures f = measure(fmt::format("delta rule {} rows", rows),
                        make.deltaRule(kHeads, 128, 128, rows), false);
    Cost cost{double(issued(f.counters)) / rows / kHeads,
              double(f.counters.sharedLoads.wavefronts +
                     f.counters.sharedStores.wavefronts) /
                  rows / kHeads};
    fmt::print("  per row and head: {:.0f} instructions, {:.0f} wavefronts, "
               "{:.0f} bytes of memory\n",
               cost.issued, cost.wavefronts,
               double(f.dramBytes) / rows / kHeads);
    make.freeAll();
    return cost;
  };
  Cost rows = costOf(8), chunks = costOf(256);
  EXPECT_LE(chunks.issued, 2900);
  EXPECT_LE(chunks.wavefronts, 620);
  EXPECT_LT(chunks.issued, rows.issued);
  EXPECT_LT(chunks.wavefronts, rows.wavefronts);
}

} // namespace
