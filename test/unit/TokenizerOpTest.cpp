//===- TokenizerOpTest.cpp - A model's tokenizer into its plan ------------===//

#include "compiler/Serialize/TokenizerOp.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "runtime/text/ChatTemplate.h"
#include "test/support/GgufBuilder.h"
#include "test/support/TempDir.h"

#include <gmock/gmock.h>

using namespace mlir;
using testing::HasSubstr;

namespace {

struct TokenizerOpTest : testing::Test {
  TokenizerOpTest() {
    context.loadDialect<plan::PlanDialect>();
    module = parseSourceString<ModuleOp>(R"(plan.program attributes {
      architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
      experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32,
      model_hash = "", model_name = "", options = "", parameters = 0 : i64,
      target = "", vocab = 1 : i64} {
      %d = plan.device "cpu0" cpu isa "ref" memory 0
      plan.note "first"
    })",
                                         &context);
    gguf.add("general.architecture", "test");
  }

  void addVocabulary() {
    gguf.add("tokenizer.ggml.model", "gpt2");
    gguf.addStrings("tokenizer.ggml.tokens", {"<s>", "\xff", "b", "ab"});
    gguf.addStrings("tokenizer.ggml.merges", {"a b"});
    gguf.addArray<float>("tokenizer.ggml.scores", {0, 0.1f, 2, 3});
    gguf.add("tokenizer.ggml.bos_token_id", uint32_t(0));
    gguf.add("tokenizer.ggml.eos_token_id", uint32_t(2));
    gguf.add("tokenizer.ggml.add_bos_token", true);
  }

  moert::Status add() {
    auto model = moec::GgufModel::open(gguf.write(dir.file("m.gguf")));
    EXPECT_TRUE(model.isOk()) << model.status().message();
    return moec::addTokenizer(program(), *model);
  }
  plan::ProgramOp program() {
    return *module->getOps<plan::ProgramOp>().begin();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  moetest::TempDir dir;
  moetest::GgufBuilder gguf;
};

TEST_F(TokenizerOpTest, ATemplateForToolsIsUsedBesideTools) {
  addVocabulary();
  gguf.add("tokenizer.chat_template", "\nplain {{ messages[0].content }} \n");
  gguf.add("tokenizer.chat_template.tool_use",
           "  {% for t in tools %}{{ t }}{% endfor %}\n\n  ");
  ASSERT_TRUE(add().isOk());
  std::string source;
  program().walk(
      [&](plan::TokenizerOp op) { source = op.getChatTemplate().str(); });
  auto chat = moert::ChatTemplate::parse(source);
  ASSERT_TRUE(chat.isOk()) << chat.status().message();
  auto rendered = [&](std::string json) {
    auto text = chat->render({.json = std::move(json)});
    return text ? *text : text.status().message();
  };
  EXPECT_EQ(rendered(R"({"messages": [{"content": "a"}], "tools": null})"),
            "\nplain a \n");
  EXPECT_EQ(rendered(R"({"messages": [], "tools": ["x", "y"]})"), "  xy\n  ");
}

TEST_F(TokenizerOpTest, CarriesVocabularyAndTemplate) {
  addVocabulary();
  gguf.add("tokenizer.chat_template", "{{ messages }}");
  moert::Status status = add();
  ASSERT_TRUE(status.isOk()) << status.message();
  // The op precedes the notes, as in the output of the reader.
  auto op = dyn_cast<plan::TokenizerOp>(
      *std::next(program().getBody().front().begin()));
  ASSERT_TRUE(op);
  EXPECT_EQ(op.getModel(), "gpt2");
  ASSERT_EQ(op.getTokens().size(), 4u);
  EXPECT_EQ(cast<StringAttr>(op.getTokens()[1]).getValue(), "\xff")
      << "any bytes";
  EXPECT_EQ(op.getMerges().size(), 1u);
  EXPECT_EQ(op.getScores()[1], 0.1f);
  EXPECT_EQ(op.getBos(), 0);
  EXPECT_EQ(op.getEos(), 2);
  EXPECT_EQ(op.getPad(), -1) << "none";
  EXPECT_TRUE(op.getAddBos());
  EXPECT_FALSE(op.getAddEos());
  EXPECT_EQ(op.getChatTemplate(), "{{ messages }}");
}

TEST_F(TokenizerOpTest, NotesATemplateThatDoesNotParse) {
  addVocabulary();
  gguf.add("tokenizer.chat_template", "a\n{% if %}");
  moert::Status status = add();
  ASSERT_TRUE(status.isOk()) << status.message();
  auto notes = llvm::to_vector(program().getBody().getOps<plan::NoteOp>());
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT((notes[0].getText() + notes[1].getText()).str(),
              HasSubstr("chat template: line 2, column 7: expected an "
                        "expression"));
}

TEST_F(TokenizerOpTest, NotesATemplateThatIsTooLong) {
  addVocabulary();
  gguf.add("tokenizer.chat_template", std::string(2 << 20, 'a'));
  moert::Status status = add();
  ASSERT_TRUE(status.isOk()) << status.message();
  auto notes = program().getBody().getOps<plan::NoteOp>();
  EXPECT_TRUE(llvm::any_of(notes, [](plan::NoteOp note) {
    return note.getText().starts_with(
        "The model's chat template: has 2097152 bytes; at most");
  }));
}

TEST_F(TokenizerOpTest, NotesAMissingVocabulary) {
  moert::Status status = add();
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_TRUE(program().getBody().getOps<plan::TokenizerOp>().empty());
  auto notes = llvm::to_vector(program().getBody().getOps<plan::NoteOp>());
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT(notes[0].getText().str(), HasSubstr("no vocabulary"));
}

TEST_F(TokenizerOpTest, RefusesATemplateThatIsNoText) {
  addVocabulary();
  gguf.add("tokenizer.chat_template", uint32_t(7));
  moert::Status status = add();
  ASSERT_FALSE(status.isOk());
  EXPECT_EQ(status.code(), moert::StatusCode::InvalidFile);
  EXPECT_THAT(status.message(), HasSubstr("tokenizer.chat_template"));
}

} // namespace
