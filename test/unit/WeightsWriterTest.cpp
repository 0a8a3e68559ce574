//===- WeightsWriterTest.cpp - plan.weights -------------------------------===//

#include "compiler/Serialize/WeightsWriter.h"

#include "compiler/Serialize/PlanWriter.h"
#include "kernels/quant/Dequant.h"
#include "kernels/quant/Quantize.h"
#include "kernels/quant/Rows16.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/plan/PlanPasses.h"
#include "runtime/base/ContentHash.h"
#include "runtime/base/MappedFile.h"
#include "test/support/TempDir.h"

#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>

using namespace mlir;
using moert::StatusCode;
using testing::HasSubstr;
namespace stdfs = std::filesystem;

namespace {

/// A plan for a model file of 4096 bytes, whose byte i is i * 7 + i / 256.
struct WeightsWriter : testing::Test {
  WeightsWriter() {
    context.loadDialect<plan::PlanDialect>();
    for (size_t i = 0; i < 4096; ++i)
      content.push_back(char(i * 7 + i / 256));
    model = dir.write("model.gguf", content);
  }

  /// Parses a program with the tables `entries` and a linear on `w`, for each
  /// of `used`.
  void parse(const std::string &entries,
             std::initializer_list<const char *> used,
             size_t modelBytes = 4096) {
    std::string text = R"(plan.program attributes {
      architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
      experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32,
      model_hash = "m0del", model_name = "", options = "", parameters = 0 : i64,
      target = "", vocab = 1 : i64} {
      %d = plan.device "cpu0" cpu isa "ref" memory 0
      %queue = plan.queue compute of %d
      %f = plan.file model ")" +
                       model + R"(" bytes )" + std::to_string(modelBytes) +
                       R"( header 64
        hash "0123456789abcdef0123456789abcdef"
      %e = plan.explain "o" phase "p" on "cpu0" kernel "" because "" flops 0.0
        weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
)" + entries + R"(
      plan.phase "p" tokens 1 to 1 {
        %x = plan.buffer "x" on %d f32 cols 4 rows [1, 0] at 0
)";
    for (const char *weight : used)
      text +=
          std::string("plan.inst linear on %queue [\"l\", \"g\"] (act = %x, w "
                      "= %") +
          weight + ", out = %x) {accumulate = 0} for %e\n";
    text += "plan.bind input %x output %x\n}\n}\n";
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
  }

  plan::ProgramOp program() {
    return *module->getOps<plan::ProgramOp>().begin();
  }
  /// Writes the pair and returns the size of its weights file.
  moert::StatusOr<uint64_t> place(bool all) {
    MOE_ASSIGN_OR_RETURN(moec::PairPaths paths,
                         moec::PairPaths::resolve(dir.file(planName), ""));
    moert::OutputRule rule;
    moec::PlaceWeightsOptions options{std::move(paths), rule};
    options.checksums = checksums;
    options.progress = progress;
    PassManager manager(&context);
    manager.addPass(plan::createPlanPackWeightsPass({.all = all}));
    EXPECT_TRUE(succeeded(manager.run(*module)));
    MOE_ASSIGN_OR_RETURN(moec::PlacedWeights placed,
                         moec::placeWeights(*module, options));
    MOE_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes,
                         moec::serializePlan(program()));
    MOE_ASSIGN_OR_RETURN(
        moert::OutputTarget target,
        rule.target(options.paths.plan, moert::OutputKind::Plan));
    MOE_ASSIGN_OR_RETURN(moert::OutputFile plan,
                         moec::startPlan(bytes, std::move(target)));
    MOE_RETURN_IF_ERROR(moec::commitPair(options.paths, rule, std::move(plan),
                                         std::move(placed.file)));
    return placed.bytes;
  }
  plan::WeightOp weight(StringRef name) {
    for (auto op : program().getBody().getOps<plan::WeightOp>())
      if (op.getName() == name)
        return op;
    return {};
  }
  SmallVector<plan::FileOp> files() {
    return llvm::to_vector(program().getBody().getOps<plan::FileOp>());
  }
  /// Returns row `r` of matrix `m` of a packed weight.
  std::string row(plan::WeightOp op, int64_t m, int64_t r, size_t bytes) {
    auto packed = moert::MappedFile::open(dir.file("plan.weights"));
    EXPECT_TRUE(packed.isOk()) << packed.status().message();
    size_t at =
        op.getOffset() + m * op.getOuterStride() + r * op.getRowStride();
    return std::string(
        reinterpret_cast<const char *>(packed->bytes().data()) + at, bytes);
  }
  std::vector<std::string> folder() {
    std::vector<std::string> names;
    for (const auto &entry : stdfs::directory_iterator(dir.path()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  moetest::TempDir dir;
  std::string content, model, planName = "plan.fb";
  std::optional<bool> checksums;
  std::function<bool(const char *, uint64_t, uint64_t)> progress;
};

// Two interleaved views of one tensor, and a separate weight.
constexpr const char *kViews = R"(
  %k = plan.weight "k" in %f at 1000 : 2x1x4xF32 strides [48, 16]
  %v = plan.weight "v" in %f at 1016 : 2x2x4xF32 strides [48, 16]
  %a = plan.weight "a" in %f at 100 : 1x2x4xF32 strides [32, 16]
)";

TEST_F(WeightsWriter, ReferencesWithoutWriting) {
  parse(kViews, {"k", "v", "a"});
  auto bytes = place(false);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  EXPECT_EQ(*bytes, 0u);
  EXPECT_EQ(folder(), (std::vector<std::string>{"model.gguf", "plan.fb"}));
  // The model is below the plan's folder, so its path is relative.
  EXPECT_EQ(files()[0].getPath(), "model.gguf");
  EXPECT_EQ(weight("k").getOffset(), 1000);
}

TEST_F(WeightsWriter, PacksEverythingAligned) {
  uint64_t last = 0, total = 0;
  progress = [&](const char *, uint64_t done, uint64_t of) {
    EXPECT_GE(done, last);
    last = done;
    total = of;
    return true;
  };
  parse(kViews, {"k", "v", "a"});
  auto bytes = place(true);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  EXPECT_EQ(last, *bytes);
  EXPECT_EQ(total, *bytes);
  EXPECT_EQ(stdfs::file_size(dir.file("plan.weights")), *bytes);

  ASSERT_EQ(files().size(), 1u) << "the model file is not needed";
  EXPECT_EQ(files()[0].getKind(), plan::FileKind::Packed);
  EXPECT_EQ(files()[0].getPath(), "plan.weights");
  EXPECT_EQ(uint64_t(files()[0].getBytes()), *bytes);
  // The header's hash distinguishes weights files.
  auto packed = moert::MappedFile::open(dir.file("plan.weights"));
  EXPECT_EQ(
      files()[0].getHeaderHash(),
      moert::contentHash(packed->bytes().first(files()[0].getHeaderBytes())));

  // Weights are in the plan's order; views become matrices without gaps.
  EXPECT_LT(weight("k").getOffset(), weight("v").getOffset());
  EXPECT_LT(weight("v").getOffset(), weight("a").getOffset());
  EXPECT_EQ(weight("v").getOuterStride(), 32);
  for (const char *name : {"k", "v", "a"})
    EXPECT_EQ(weight(name).getOffset() % 64, 0) << name;
  EXPECT_EQ(row(weight("k"), 1, 0, 16), content.substr(1048, 16));
  EXPECT_EQ(row(weight("v"), 1, 1, 16), content.substr(1080, 16));
  EXPECT_EQ(row(weight("a"), 0, 1, 16), content.substr(116, 16));
}

// One tensor of 3 x 5 rows, which a gemm reads in panels and another op as
// rows.
constexpr const char *kPacked = R"(
  %w = plan.weight "w" in %f at 128 : 3x5x32xQ8_0 strides [204, 34]
  %p = plan.pack "w" of %w layout rows16
)";

TEST_F(WeightsWriter, PacksPanels) {
  parse(kPacked, {"p", "w"});
  auto bytes = place(false);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  SmallVector<plan::WeightOp> entries =
      llvm::to_vector(program().getBody().getOps<plan::WeightOp>());
  ASSERT_EQ(entries.size(), 2u);
  plan::WeightOp packed = entries[0], rows = entries[1];
  if (rows.getLayout() != plan::Layout::Gguf)
    std::swap(packed, rows);
  EXPECT_EQ(rows.getFile().getDefiningOp<plan::FileOp>().getPath(),
            "model.gguf");
  EXPECT_EQ(rows.getOffset(), 128);

  EXPECT_EQ(packed.getLayout(), plan::Layout::Rows16);
  EXPECT_EQ(packed.getName(), "w");
  EXPECT_EQ(packed.getOffset() % 64, 0);
  EXPECT_EQ(packed.getRowStride(), 34);
  EXPECT_EQ(packed.getOuterStride(), 16 * 34) << "a whole panel";
  EXPECT_EQ(uint64_t(packed.getOffset() + packed.getExtentBytes()), *bytes);
  for (int64_t m = 0; m < 3; ++m) {
    std::string panel(16 * 34, 'x');
    ASSERT_TRUE(moek::packRows16(
        moek::Format::Q8_0,
        reinterpret_cast<const uint8_t *>(content.data()) + 128 + m * 204, 34,
        5, 32, reinterpret_cast<uint8_t *>(panel.data())));
    EXPECT_EQ(row(packed, m, 0, panel.size()), panel) << m;
  }
  EXPECT_TRUE(moec::serializePlan(program()).isOk());
}

// If everything is packed, the tensor is stored in both layouts.
TEST_F(WeightsWriter, PacksEverythingInEveryLayout) {
  parse(kPacked, {"p", "w"});
  auto bytes = place(true);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  ASSERT_EQ(files().size(), 1u);
  auto entries = program().getBody().getOps<plan::WeightOp>();
  EXPECT_EQ(std::distance(entries.begin(), entries.end()), 2);
  for (plan::WeightOp entry : entries)
    if (entry.getLayout() == plan::Layout::Gguf) {
      EXPECT_EQ(row(entry, 2, 4, 34),
                content.substr(128 + 2 * 204 + 4 * 34, 34));
    }
}

TEST_F(WeightsWriter, PacksComputedWeights) {
  std::vector<float> values(1024, 0.5f);
  content.assign(reinterpret_cast<const char *>(values.data()), 4096);
  model = dir.write("model.gguf", content);
  parse(R"(
  %q = plan.weight "q" in %f at 0 : 1x6x4xF32 strides [96, 16]
  %k = plan.weight "k" in %f at 128 : 2x2x3xF32 strides [24, 12]
  %w = plan.derived "q.folded" = #moe.fold_query<heads = 2, nope = 2, rope = 1, latent = 3> of %q, %k : 1x8x4xBF16
  %p = plan.pack "q.folded" of %w layout rows16
)",
        {"p"});
  auto bytes = place(false);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  auto entries = llvm::to_vector(program().getBody().getOps<plan::WeightOp>());
  ASSERT_EQ(entries.size(), 1u) << "what it is made of is not needed";
  EXPECT_EQ(entries[0].getLayout(), plan::Layout::Rows16);
  EXPECT_EQ(files().size(), 1u);
  // 0.5 * 0.5 for 2 nope rows, and 0.5 for the rope row, are all 0x3f00 in
  // BF16. Rows 8 to 15 of the panel are zero.
  std::string panel = row(entries[0], 0, 0, 16 * 8);
  for (size_t i = 0; i < panel.size(); i += 2)
    EXPECT_EQ(uint8_t(panel[i + 1]), i % 64 < 32 ? 0x3f : 0) << i;
}

TEST_F(WeightsWriter, PacksTransposedWeights) {
  std::vector<float> values(1024);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i % 64);
  content.assign(reinterpret_cast<const char *>(values.data()), 4096);
  model = dir.write("model.gguf", content);
  // Two matrices of 32 rows, each followed by 2 other rows.
  parse(R"(
  %k = plan.weight "k" in %f at 128 : 2x32x5xF32 strides [680, 20]
  %t = plan.derived "k.transposed" = #moe.transpose of %k : 2x5x32xQ8_0
  %p = plan.pack "k.transposed" of %t layout rows16
)",
        {"p", "t"});
  auto bytes = place(false);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  auto entries = llvm::to_vector(program().getBody().getOps<plan::WeightOp>());
  ASSERT_EQ(entries.size(), 2u) << "what it is made of is not needed";
  ASSERT_EQ(files().size(), 1u);
  plan::WeightOp rows = entries[0], packed = entries[1];
  if (rows.getLayout() != plan::Layout::Gguf)
    std::swap(packed, rows);
  EXPECT_EQ(rows.getRows(), 5);
  EXPECT_EQ(rows.getCols(), 32);
  for (int64_t m = 0; m < 2; ++m) {
    std::string matrix;
    for (int64_t r = 0; r < 5; ++r) {
      matrix += row(rows, m, r, 34);
      float column[32], read[32];
      for (int64_t c = 0; c < 32; ++c)
        column[c] = values[size_t(32 + m * 170 + c * 5 + r)];
      ASSERT_TRUE(moek::dequantizeRow(
          moek::Format::Q8_0,
          reinterpret_cast<const uint8_t *>(matrix.data()) + r * 34, 32, read));
      for (int64_t c = 0; c < 32; ++c)
        EXPECT_NEAR(read[c], column[c], 64 * 0.005)
            << m << " " << r << " " << c;
    }
    std::string panel(16 * 34, 'x');
    ASSERT_TRUE(moek::packRows16(
        moek::Format::Q8_0, reinterpret_cast<const uint8_t *>(matrix.data()),
        34, 5, 32, reinterpret_cast<uint8_t *>(panel.data())));
    EXPECT_EQ(row(packed, m, 0, panel.size()), panel) << m;
  }
  EXPECT_TRUE(moec::serializePlan(program()).isOk());
}

// Matrices at any offsets, one of them in another format.
TEST_F(WeightsWriter, PacksStackedWeights) {
  std::vector<float> values(1024);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i % 64);
  content.assign(reinterpret_cast<const char *>(values.data()), 4096);
  uint16_t half = 0x3c00; // The F16 number 1.0.
  for (size_t i = 0; i < 64; ++i)
    std::memcpy(content.data() + 2048 + 2 * i, &half, 2);
  model = dir.write("model.gguf", content);
  parse(R"(
  %a = plan.weight "a" in %f at 1024 : 1x2x32xF32 strides [256, 128]
  %b = plan.weight "b" in %f at 128 : 1x2x32xF32 strides [256, 128]
  %c = plan.weight "c" in %f at 2048 : 1x2x32xF16 strides [128, 64]
  %s = plan.derived "a.stacked" = #moe.stack of %a, %b, %c : 3x2x32xF32
  %q = plan.derived "q.stacked" = #moe.stack of %b, %c : 2x2x32xQ8_0
  %p = plan.pack "q.stacked" of %q layout rows16
)",
        {"s", "p"});
  auto bytes = place(false);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  auto entries = llvm::to_vector(program().getBody().getOps<plan::WeightOp>());
  ASSERT_EQ(entries.size(), 2u) << "what they are made of is not needed";
  plan::WeightOp rows = entries[0], packed = entries[1];
  if (rows.getLayout() != plan::Layout::Gguf)
    std::swap(packed, rows);
  EXPECT_EQ(row(rows, 0, 0, 128), content.substr(1024, 128));
  EXPECT_EQ(row(rows, 0, 1, 128), content.substr(1152, 128));
  EXPECT_EQ(row(rows, 1, 1, 128), content.substr(256, 128));
  std::vector<float> ones(32, 1.0f);
  EXPECT_EQ(row(rows, 2, 1, 128),
            std::string(reinterpret_cast<const char *>(ones.data()), 128));
  std::string matrix(2 * 34, 'x'), panel(16 * 34, 'x');
  for (int r = 0; r < 2; ++r)
    ASSERT_TRUE(
        moek::quantizeRow(moek::Format::Q8_0, values.data() + 32 + 32 * r, 32,
                          reinterpret_cast<uint8_t *>(matrix.data()) + 34 * r));
  ASSERT_TRUE(moek::packRows16(
      moek::Format::Q8_0, reinterpret_cast<const uint8_t *>(matrix.data()), 34,
      2, 32, reinterpret_cast<uint8_t *>(panel.data())));
  EXPECT_EQ(row(packed, 0, 0, panel.size()), panel);
  EXPECT_TRUE(moec::serializePlan(program()).isOk());
}

TEST_F(WeightsWriter, HeaderTellsLayoutsApart) {
  parse(kPacked, {"p"});
  ASSERT_TRUE(place(false).isOk());
  auto packed = moert::MappedFile::open(dir.file("plan.weights"));
  std::string_view text(reinterpret_cast<const char *>(packed->bytes().data()),
                        size_t(files()[0].getHeaderBytes()));
  EXPECT_THAT(
      std::string(text.substr(0, text.find('\0'))),
      testing::Eq("moec weights 3\nplan plan.fb\nmodel m0del\n4096 1632 "
                  "rows16 " +
                  weight("w").getChecksum().str() + " w\n"));
}

// The header contains the checksums, so its hash identifies the whole content.
TEST_F(WeightsWriter, HeaderTellsContentsApart) {
  auto headerOf = [&] {
    parse(kPacked, {"p"});
    auto bytes = place(false);
    EXPECT_TRUE(bytes.isOk()) << bytes.status().message();
    return files()[0].getHeaderHash().str();
  };
  std::string first = headerOf();
  EXPECT_EQ(headerOf(), first);
  content[130] ^= 1;
  dir.write("model.gguf", content);
  EXPECT_NE(headerOf(), first);
}

TEST_F(WeightsWriter, RecordsWhatIdentifiesModels) {
  std::vector<moert::Extent> extents = {{1000, 64}, {1016, 80}, {100, 32}};
  auto input = moert::InputFile::open(model);
  moert::WeightHasher hasher(extents);
  ASSERT_TRUE(moert::hashWeights(*input, hasher, {}).isOk());
  for (std::optional<bool> all : {std::optional<bool>(), {true}, {false}}) {
    checksums = all;
    parse(kViews, {"k", "v", "a"});
    auto bytes = place(false);
    ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
    EXPECT_EQ(files()[0].getSampleHash(), hasher.sampleHash());
    // The default is true for such a small file.
    bool expected = all.value_or(true);
    const StringRef names[] = {"k", "v", "a"};
    for (auto [i, name] : llvm::enumerate(names))
      EXPECT_EQ(weight(name).getChecksum().str(),
                expected ? hasher.checksums()[i] : "");
  }
  // Terabytes are only read with --checksums full.
  std::filesystem::resize_file(model, uint64_t(1) << 40);
  checksums = {};
  parse("%a = plan.weight \"a\" in %f at 0 : 1x4194304x32768xF32 strides "
        "[549755813888, 131072]",
        {"a"}, uint64_t(1) << 40);
  ASSERT_TRUE(place(false).isOk());
  EXPECT_EQ(weight("a").getChecksum(), "");
  EXPECT_NE(files()[0].getSampleHash(), "");
}

TEST_F(WeightsWriter, LargeWeightsBeginAtPages) {
  content.assign(size_t(5) << 20, 'x');
  model = dir.write("model.gguf", content);
  parse(R"(
  %a = plan.weight "a" in %f at 0 : 1x1x4xF32 strides [16, 16]
  %b = plan.weight "b" in %f at 64 : 1x1024x512xF32 strides [2097152, 2048]
  %c = plan.weight "c" in %f at 64 : 1x1x4xF32 strides [16, 16]
)",
        {"a", "b", "c"}, content.size());
  ASSERT_TRUE(place(true).isOk());
  EXPECT_EQ(weight("b").getOffset() % 4096, 0);
  EXPECT_EQ(weight("c").getOffset(), weight("b").getOffset() + (2 << 20));
}

constexpr const char *kFolded = R"(
  %q = plan.weight "q" in %f at 0 : 1x6x4xF32 strides [96, 16]
  %k = plan.weight "k" in %f at 128 : 2x2x3xF32 strides [24, 12]
  %w = plan.derived "q.folded" = #moe.fold_query<heads = 2, nope = 2, rope = 1, latent = 3> of %q, %k : 1x8x4xF32
)";

TEST_F(WeightsWriter, ComputesFoldedWeights) {
  // Small numbers, because random bits could be NaN.
  std::vector<float> values(1024);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i % 11) - 5;
  content.assign(reinterpret_cast<const char *>(values.data()), 4096);
  model = dir.write("model.gguf", content);
  parse(kFolded, {"w", "k"});
  auto bytes = place(false);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();

  // Only the product needed W_Q; W_UK has another reader.
  EXPECT_FALSE(weight("q"));
  EXPECT_EQ(weight("k").getFile().getDefiningOp<plan::FileOp>().getPath(),
            "model.gguf");
  plan::WeightOp folded = weight("q.folded");
  ASSERT_TRUE(folded);
  EXPECT_EQ(folded.getOffset() % 64, 0);
  auto number = [&](int64_t r, int64_t c) {
    float value;
    std::string bytes = row(folded, 0, r, 16);
    memcpy(&value, bytes.data() + 4 * c, 4);
    return value;
  };
  const float *q = values.data(), *k = values.data() + 32;
  for (int64_t c = 0; c < 4; ++c) {
    // Head 1, latent row 2: the sum over its two nope rows.
    EXPECT_EQ(number(4 + 2, c),
              k[6 + 2] * q[3 * 4 + c] + k[6 + 5] * q[4 * 4 + c]);
    EXPECT_EQ(number(4 + 3, c), q[5 * 4 + c]) << "head 1's rope row";
  }
  EXPECT_TRUE(moec::serializePlan(program()).isOk());
}

TEST_F(WeightsWriter, PlansWithUnpackedWeightsAreNotWritten) {
  parse(kFolded, {"w"});
  auto bytes = moec::serializePlan(program());
  ASSERT_FALSE(bytes.isOk());
  EXPECT_EQ(bytes.status().code(), StatusCode::Internal);
  EXPECT_EQ(bytes.status().message(),
            "weight \"q.folded\" must be packed before the plan is written");
  parse(kPacked, {"p"});
  EXPECT_EQ(moec::serializePlan(program()).status().message(),
            "weight \"w\" must be packed before the plan is written");
}

TEST_F(WeightsWriter, UnplacedBuffersAreNotWritten) {
  parse(kViews, {"a"});
  module->walk([](plan::BufferOp buffer) { buffer.removeOffsetAttr(); });
  auto bytes = moec::serializePlan(program());
  ASSERT_FALSE(bytes.isOk());
  EXPECT_EQ(bytes.status().message(),
            "buffer \"x\" has no offset; run plan-allocate first");
}

TEST_F(WeightsWriter, ChecksTheDiskFirst) {
  // 2^60 bytes, which no disk has. The model file is not even opened.
  model = "/nowhere/model.gguf";
  parse("%a = plan.weight \"a\" in %f at 0 : 1x2x4xF32 strides [32, 16]",
        {"a"});
  files()[0].setBytes(int64_t(1) << 60);
  weight("a").setRows(int64_t(1) << 56);
  auto bytes = place(true);
  ASSERT_FALSE(bytes.isOk());
  EXPECT_EQ(bytes.status().code(), StatusCode::Io);
  EXPECT_THAT(bytes.status().message(), HasSubstr("plan.weights: needs "));
  EXPECT_THAT(bytes.status().message(), HasSubstr("write to another disk"));
  EXPECT_EQ(folder(), std::vector<std::string>{"model.gguf"});
}

TEST_F(WeightsWriter, AChangedModelLeavesTheOldWeights) {
  dir.write("plan.weights", "moec weights 2\n");
  parse(kViews, {"a"});
  dir.write("model.gguf", content.substr(1));
  auto bytes = place(true);
  ASSERT_FALSE(bytes.isOk());
  EXPECT_EQ(bytes.status().code(), StatusCode::Io);
  EXPECT_THAT(bytes.status().message(),
              HasSubstr("has 4095 bytes, but had 4096"));
  EXPECT_EQ(stdfs::file_size(dir.file("plan.weights")), 15u);
  EXPECT_EQ(folder().size(), 2u) << "no temporary file is left";
}

TEST_F(WeightsWriter, WeightsFilesDoNotReplacePlans) {
  parse(kViews, {"a"});
  planName = "tiny.weights";
  ASSERT_TRUE(place(true).isOk());
  EXPECT_EQ(files()[0].getPath(), "tiny.weights.weights");
}

} // namespace
