#include "runtime/plan/PlanTokenizer.h"

#include "runtime/plan/PlanAccess.h"
#include "runtime/text/PreTokenizer.h"

#include <fmt/format.h>

namespace moert {

namespace {
std::vector<std::string> strings(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *from) {
  std::vector<std::string> result;
  result.reserve(count(from));
  for (uint32_t i = 0; i < count(from); ++i)
    result.emplace_back(text(from->Get(i)));
  return result;
}

template <class T> std::vector<T> numbers(const flatbuffers::Vector<T> *from) {
  return from ? std::vector<T>(from->begin(), from->end()) : std::vector<T>();
}

/// In a plan, -1 means none.
std::optional<int32_t> optionalId(int32_t id) {
  return id < 0 ? std::nullopt : std::optional(id);
}
} // namespace

StatusOr<Tokenizer> planTokenizer(const Plan &plan,
                                  std::string_view preOverride) {
  const fb::Tokenizer *table = plan.tokenizer();
  if (!table || count(table->tokens()) == 0)
    return Status(StatusCode::Unsupported,
                  plan.path() + ": has no tokenizer, because the model "
                                "file has none or --no-tokenizer was given to "
                                "compile; work on token ids with moert logits");
  TokenizerSpec spec;
  spec.model = text(table->model());
  spec.pre = text(table->pre());
  spec.tokens = strings(table->tokens());
  spec.types = numbers(table->types());
  spec.merges = strings(table->merges());
  spec.scores = numbers(table->scores());
  spec.bos = optionalId(table->bos());
  spec.eos = optionalId(table->eos());
  spec.eot = optionalId(table->eot());
  spec.unk = optionalId(table->unk());
  spec.pad = optionalId(table->pad());
  spec.addBos = table->add_bos();
  spec.addEos = table->add_eos();
  spec.removeExtraSpaces = table->remove_extra_spaces();
  if (!preOverride.empty()) {
    Status known = PreTokenizer::create(preOverride).status();
    if (!known)
      return Status(known.code(), fmt::format("--pre: {}; {}", known.message(),
                                              PreTokenizer::knownNames()));
    spec.pre = preOverride;
  }
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
  if (!tokenizer)
    return tokenizer.status().at(plan.path());
  return tokenizer;
}

StatusOr<ChatTemplate> planChatTemplate(const Plan &plan) {
  std::string_view source = planChatTemplateSource(plan);
  if (source.empty())
    return Status(StatusCode::Unsupported,
                  plan.path() + ": has no chat template, because the model "
                                "file has none; give one with --template FILE, "
                                "or text as it is with moert run -p");
  StatusOr<ChatTemplate> chat = ChatTemplate::parse(source);
  if (!chat)
    return chat.status().at(plan.path());
  return chat;
}

std::string_view planChatTemplateSource(const Plan &plan) {
  const fb::Tokenizer *table = plan.tokenizer();
  return table ? text(table->chat_template()) : std::string_view();
}

std::string_view planRankTemplate(const Plan &plan) {
  const fb::Tokenizer *table = plan.tokenizer();
  return table ? text(table->rank_template()) : std::string_view();
}

} // namespace moert
