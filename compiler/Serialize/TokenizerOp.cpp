#include "compiler/Serialize/TokenizerOp.h"

#include "compiler/Import/TokenizerMetadata.h"
#include "mlir/IR/Builders.h"
#include "runtime/text/ChatTemplate.h"

using namespace mlir;
using moert::Status;

namespace moec {

static ArrayAttr strings(Builder &builder,
                         const std::vector<std::string> &texts) {
  SmallVector<Attribute> attrs;
  attrs.reserve(texts.size());
  for (const std::string &text : texts)
    attrs.push_back(builder.getStringAttr(text));
  return builder.getArrayAttr(attrs);
}

/// The chat template of a model. A file may have one for conversations with
/// tools besides: then the template is the one or the other. The signs keep
/// white space at their ends.
static moert::StatusOr<std::string> chatTemplateOf(const GgufModel &model) {
  MOE_ASSIGN_OR_RETURN(std::optional<std::string_view> chat,
                       model.getString("tokenizer.chat_template"));
  MOE_ASSIGN_OR_RETURN(std::optional<std::string_view> withTools,
                       model.getString("tokenizer.chat_template.tool_use"));
  if (!chat || !withTools || *chat == *withTools)
    return std::string(withTools && !chat ? *withTools : chat.value_or(""));
  return "{% if tools +%}" + std::string(*withTools) + "{%+ else +%}" +
         std::string(*chat) + "{%+ endif %}";
}

Status addTokenizer(plan::ProgramOp program, const GgufModel &model,
                    bool wanted, std::string_view pre) {
  // The tokenizer follows the tables and precedes the phases, as in the output
  // of PlanReader.
  Block &block = program.getBody().front();
  auto position = llvm::find_if(block, [](Operation &op) {
    return isa<plan::NoteOp, plan::ExplainOp, plan::PhaseOp>(op);
  });
  OpBuilder builder(&block, position);
  if (!wanted || !model.find("tokenizer.ggml.tokens")) {
    builder.create<plan::NoteOp>(
        program.getLoc(), wanted ? "The model file has no vocabulary: this "
                                   "plan runs on token ids only."
                                 : "Compiled with --no-tokenizer: this plan "
                                   "runs on token ids only.");
    return Status::ok();
  }
  MOE_ASSIGN_OR_RETURN(moert::TokenizerSpec spec,
                       tokenizerSpecFromGguf(model, pre));
  MOE_ASSIGN_OR_RETURN(const std::string chat, chatTemplateOf(model));
  MOE_ASSIGN_OR_RETURN(std::optional<std::string_view> rank,
                       model.getString("tokenizer.chat_template.rerank"));
  builder.create<plan::TokenizerOp>(
      program.getLoc(), spec.model, spec.pre, strings(builder, spec.tokens),
      spec.types, spec.scores, strings(builder, spec.merges),
      spec.bos.value_or(-1), spec.eos.value_or(-1), spec.eot.value_or(-1),
      spec.unk.value_or(-1), spec.pad.value_or(-1), spec.addBos, spec.addEos,
      spec.removeExtraSpaces, StringRef(chat.data(), chat.size()),
      StringRef(rank.value_or("")));
  if (!chat.empty())
    if (Status status = moert::ChatTemplate::parse(chat).status(); !status)
      builder.create<plan::NoteOp>(
          program.getLoc(),
          "The model's " + status.message() +
              "; moert chat and run --chat need --template FILE with another.");
  return Status::ok();
}

} // namespace moec
