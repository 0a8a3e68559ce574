//===- PlanReaderTest.cpp - Plan files as IR ------------------------------===//

#include "compiler/Serialize/PlanReader.h"

#include "compiler/Serialize/PlanWriter.h"
#include "mlir/Parser/Parser.h"
#include "runtime/plan/Plan.h"
#include "runtime/schema/PlanFields.h"

#include <gmock/gmock.h>
#include <set>

using namespace mlir;
namespace fb = moert::fb;

namespace {

constexpr const char *kText = R"(
plan.program attributes {
    architecture = "a", compiler = "c", context = 4 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 4 : i64, layers = 1 : i32,
    model_hash = "h", model_name = "n", options = "o", parameters = 1 : i64,
    nvrtc = "13.0", target = "t", vocab = 8 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 64 {arena_bytes = 128 : i64, cores = 3 : i32, kv_bytes = 512 : i64}
  %g = plan.device "gpu0" cuda isa "cuda" memory 64 {arch = 89 : i32, arena_bytes = 128 : i64, multiprocessors = 8 : i32, workspace_bytes = 64 : i64}
  %q = plan.queue compute of %d
  %c = plan.queue copy of %g
  %m = plan.module "f" of "kernels/cuda/F.cu" []
  %n = plan.module "g" of "kernels/cuda/G.cu" ["A=1", "B"]
  %f = plan.file model "m" bytes 4096 header 0 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %f at 0 : 1x8x4xF32 strides [128, 16]
  plan.resident %w on %d resident
  plan.resident %w on %g streamed
  %k = plan.constant "k" [1.0]
  %v = plan.kv on %d layer 0 f16 rows 64 cols 4 at 0
  plan.tokenizer "gpt2" pre "p" scores [] {chat_template = "", merges = [], tokens = ["a", "b"], types = array<i32>}
  plan.note "n"
  %e = plan.explain "o" phase "p" on "cpu0" kernel "" because "" flops 0.0
    weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.1
  plan.phase "decode" tokens 1 to 1 {
    %t = plan.buffer "t" on %d i32 cols 1 rows [1, 0] at 0
    %x = plan.buffer "x" on %d f32 cols 4 rows [1, 0] at 64
    %y = plan.buffer "y" on %g f32 cols 4 rows [1, 0] at 0
    %z = plan.buffer "z" on %g f32 cols 4 rows [1, 0] at 64
    %0 = plan.inst add on %q ["add_ref"] (x = %x, y = %x, out = %x) signals for %e
    %1 = plan.inst copy on %c ["copy_cuda"] (x = %x, out = %y)
      launches %n grid [4, 2, 1] threads 256 shared 1024, %m grid [1, 1, 1] threads 32 shared 0 after %0 signals for %e
    %2 = plan.inst copy on %c ["copy_cuda"] (x = %x, out = %z) signals for %e
    plan.inst add on %q ["add_ref"] (x = %x, y = %x, out = %x) after %2, %1 barrier for %e
    plan.bind input %t output %x
  }
  plan.phase "logits" tokens 1 to 1 {
    %x = plan.buffer "x" on %d f32 cols 4 rows [1, 0] at 0
    %l = plan.buffer "l" on %d f32 cols 8 rows [1, 0] at 64
    plan.bind input %x output %l
  }
  plan.image of %m arch 75 registers 8 spilled 4 stack 2 shared 1 cubin "\7FELF\00\FF" ptx "p"
  plan.image of %n arch 75 registers 0 spilled 0 stack 0 shared 0 cubin "x" ptx "q"
  plan.image of %n arch 89 registers 0 spilled 0 stack 0 shared 0 cubin "y" ptx "r"
})";

std::string textOf(Operation &op) {
  std::string text;
  llvm::raw_string_ostream(text) << op;
  return text;
}

struct PlanReader : testing::Test {
  PlanReader() {
    context.loadDialect<plan::PlanDialect>();
    auto module = parseSourceString<ModuleOp>(kText, &context);
    auto written =
        moec::serializePlan(*module->getOps<plan::ProgramOp>().begin());
    EXPECT_TRUE(written.isOk()) << written.status().message();
    bytes = *written;
  }

  moert::Plan load() {
    auto plan = moert::Plan::fromBytes(bytes, "plan.fb");
    EXPECT_TRUE(plan.isOk()) << plan.status().message();
    return *std::move(plan);
  }

  /// Changes the plan in its object form.
  template <typename Change> void edit(Change change) {
    std::unique_ptr<fb::PlanT> tables(fb::UnPackPlan(bytes.data()));
    change(*tables);
    tables->checksum = 0;
    flatbuffers::FlatBufferBuilder builder;
    fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, tables.get()));
    bytes.assign(builder.GetBufferPointer(),
                 builder.GetBufferPointer() + builder.GetSize());
  }

  MLIRContext context;
  std::vector<uint8_t> bytes;
};

TEST_F(PlanReader, IsTheInverseOfTheWriter) {
  auto module = moec::readPlan(context, load().table());
  ASSERT_TRUE(module.isOk()) << module.status().message();
  auto again =
      moec::serializePlan(*(*module)->getOps<plan::ProgramOp>().begin());
  ASSERT_TRUE(again.isOk());
  EXPECT_EQ(*again, bytes);
  // What the text leaves out has one default, in plan.fbs and in PlanOps.td.
  std::string text = kText;
  text.replace(text.find("%2, %1"), 6, "%1, %2"); // Events are kept in order.
  EXPECT_EQ(
      textOf(*(**module).getOperation()),
      textOf(*parseSourceString<ModuleOp>(text, &context)->getOperation()));
}

// A field that the op lacks would be lost. Fields of `others` and those with
// tables in them have a place of their own.
template <typename Table, typename OpT>
void expectFields(const std::set<std::string_view> &others = {}) {
  moert::forEachField<Table>([&](auto field) {
    using Field = decltype(field);
    using Type = typename Field::Type;
    using Element = typename moert::ElementOf<Type>::type;
    bool isHeld =
        llvm::is_contained(OpT::getAttributeNames(), StringRef(Field::name));
    moert::forEachField<fb::Plan>([&](auto list) {
      isHeld |= moert::kIsIndexInto<Field, decltype(list)>;
    });
    constexpr bool isValue =
        !std::is_pointer_v<Type> || std::is_arithmetic_v<Element> ||
        std::is_same_v<Element, flatbuffers::Offset<flatbuffers::String>> ||
        std::is_same_v<Type, const flatbuffers::String *>;
    if constexpr (isValue) {
      EXPECT_NE(isHeld, others.contains(Field::name))
          << "plan.fbs has " << Table::Traits::name << "." << Field::name;
    }
  });
}

TEST(PlanFields, AreAttributesOrOperands) {
  expectFields<fb::Plan, plan::ProgramOp>(
      {"schema_version", "checksum", "kernels", "notes"});
  expectFields<fb::File, plan::FileOp>();
  expectFields<fb::Weight, plan::WeightOp>({"sources"});
  expectFields<fb::Constant, plan::ConstantOp>();
  expectFields<fb::Device, plan::DeviceOp>();
  expectFields<fb::Queue, plan::QueueOp>();
  expectFields<fb::Residency, plan::ResidentOp>();
  expectFields<fb::Module, plan::ModuleOp>();
  expectFields<fb::Image, plan::ImageOp>();
  expectFields<fb::Kv, plan::KvOp>({"type"});
  expectFields<fb::Phase, plan::PhaseOp>(
      {"input", "output", "hidden", "events"});
  expectFields<fb::Buffer, plan::BufferOp>();
  expectFields<fb::Instruction, plan::InstOp>({"waits", "signal", "explain"});
  expectFields<fb::Explain, plan::ExplainOp>();
  expectFields<fb::Tokenizer, plan::TokenizerOp>();
}

TEST_F(PlanReader, EventsAreNumberedAsTheyAreSignalled) {
  std::unique_ptr<fb::PlanT> plan(fb::UnPackPlan(bytes.data()));
  const fb::PhaseT &phase = *plan->phases[0];
  EXPECT_EQ(phase.events, 3u);
  EXPECT_EQ(phase.instructions[2]->signal, 2);
  EXPECT_EQ(phase.instructions[3]->signal, -1);
  EXPECT_EQ(phase.instructions[3]->waits, (std::vector<uint32_t>{1, 2}));
}

TEST_F(PlanReader, LaunchesNameModulesAndThoseHaveTheirImages) {
  std::unique_ptr<fb::PlanT> plan(fb::UnPackPlan(bytes.data()));
  EXPECT_EQ(plan->nvrtc, "13.0");
  ASSERT_EQ(plan->modules.size(), 2u);
  EXPECT_EQ(plan->modules[1]->defines, (std::vector<std::string>{"A=1", "B"}));
  ASSERT_EQ(plan->modules[0]->images.size(), 1u);
  EXPECT_EQ(plan->modules[0]->images[0]->cubin,
            (std::vector<uint8_t>{0x7f, 'E', 'L', 'F', 0, 0xff}));
  EXPECT_EQ(plan->modules[1]->images[1]->ptx, "r");
  const auto &launches = plan->phases[0]->instructions[1]->launches;
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].module_(), 1u);
  EXPECT_EQ(launches[0].grid_y(), 2u);
  EXPECT_EQ(launches[0].shared_bytes(), 1024u);
  EXPECT_EQ(launches[1].threads(), 32u);
}

// The runtime accepts such a plan, because it does not need the explanation.
TEST_F(PlanReader, NeedsTheExplanation) {
  edit([](fb::PlanT &plan) { plan.explanation.clear(); });
  auto module = moec::readPlan(context, load().table());
  ASSERT_FALSE(module.isOk());
  EXPECT_EQ(module.status().code(), moert::StatusCode::InvalidFile);
  EXPECT_EQ(module.status().message(),
            "the plan has instructions but no explanation of them");
}

// A plan that the runtime accepts but the dialect does not is an error too.
TEST_F(PlanReader, ReportsWhatTheDialectRejects) {
  edit([](fb::PlanT &plan) {
    plan.constants.push_back(std::make_unique<fb::ConstantT>());
  });
  auto module = moec::readPlan(context, load().table());
  ASSERT_FALSE(module.isOk());
  EXPECT_THAT(module.status().message(),
              testing::HasSubstr("expected at least one value"));
}

} // namespace
