//===- Tokenizer.cpp ------------------------------------------------------===//

#include "runtime/text/Tokenizer.h"

#include "runtime/text/BpeModel.h"
#include "runtime/text/PreTokenizer.h"
#include "runtime/text/SpecialTokens.h"
#include "runtime/base/Utf8.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace moert {
namespace {

/// Offsets into text are 32 bits wide, and a token is at least one byte.
constexpr size_t maxTextBytes = INT32_MAX;

/// Names under which chat models know their end-of-turn tokens; a file often
/// declares only one of several as eos.
constexpr std::string_view endOfTurnNames[] = {
    "<｜end▁of▁sentence｜>", // DeepSeek
    "<|EOT|>",               // DeepSeek-Coder
    "<|im_end|>",            // Qwen, Kimi-K2
    "<|endoftext|>",         // GPT-2, Qwen, GLM
    "<|eot_id|>",            // Llama 3
    "<|eom_id|>",            // Llama 3, before a tool's answer
    "<|end_of_text|>",       // Llama 3
    "[EOS]",                 // Kimi-K2
};

Status checkIds(const TokenizerSpec &spec) {
  struct Named {
    std::string_view key;
    std::optional<int32_t> id;
  };
  for (auto [key, id] :
       {Named{"bos", spec.bos}, Named{"eos", spec.eos}, Named{"eot", spec.eot},
        Named{"unknown", spec.unk}, Named{"padding", spec.pad}})
    if (id && (*id < 0 || static_cast<size_t>(*id) >= spec.tokens.size()))
      return {StatusCode::InvalidFile,
              fmt::format("tokenizer.ggml.{}_token_id is {}, but the "
                          "vocabulary has {} tokens",
                          key, *id, spec.tokens.size())};
  if (spec.addBos && !spec.bos)
    return {StatusCode::InvalidFile, "tokenizer.ggml.add_bos_token is set, but "
                                     "there is no tokenizer.ggml.bos_token_id"};
  if (spec.addEos && !spec.eos)
    return {StatusCode::InvalidFile, "tokenizer.ggml.add_eos_token is set, but "
                                     "there is no tokenizer.ggml.eos_token_id"};
  return Status::ok();
}

Status checkSizes(const TokenizerSpec &spec) {
  struct Named {
    std::string_view key;
    size_t size;
  };
  for (auto [key, size] : {Named{"token_type", spec.types.size()},
                           Named{"scores", spec.scores.size()}})
    if (size != 0 && size != spec.tokens.size())
      return {StatusCode::InvalidFile,
              fmt::format("tokenizer.ggml.{} has {} entries, but "
                          "tokenizer.ggml.tokens has {}",
                          key, size, spec.tokens.size())};
  return Status::ok();
}

} // namespace

struct Tokenizer::Impl {
  BpeModel model;
  PreTokenizer preTokenizer;
  SpecialTokens specials;
  std::vector<bool> isControl;          ///< By id.
  std::vector<int32_t> endOfGeneration; ///< Sorted.
  std::optional<int32_t> bos, eos;
  bool addBos, addEos;

  /// What encoding one text writes to.
  struct Run {
    PreTokenizer::Scratch matching;
    BpeModel::Scratch merging;
    std::vector<uint32_t> wordEnds;
    std::vector<int32_t> ids;
  };

  Status encodeUtf8(std::string_view text, Run &run) const;
  Status encodePlain(std::string_view text, Run &run) const;
};

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl)
    : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer &&) noexcept = default;
Tokenizer &Tokenizer::operator=(Tokenizer &&) noexcept = default;
Tokenizer::~Tokenizer() = default;

StatusOr<Tokenizer> Tokenizer::create(const TokenizerSpec &spec) {
  if (spec.model != "gpt2")
    return Status(StatusCode::Unsupported,
                  fmt::format("tokenizer model '{}' is not supported; the one "
                              "supported is gpt2 (byte-level BPE)",
                              spec.model));
  MOE_RETURN_IF_ERROR(checkSizes(spec));
  MOE_RETURN_IF_ERROR(checkIds(spec));
  MOE_ASSIGN_OR_RETURN(PreTokenizer preTokenizer,
                       PreTokenizer::create(spec.pre));
  MOE_ASSIGN_OR_RETURN(BpeModel model, BpeModel::create(spec));

  auto impl = std::make_unique<Impl>(Impl{std::move(model),
                                          std::move(preTokenizer),
                                          {},
                                          std::vector<bool>(spec.tokens.size()),
                                          {},
                                          spec.bos,
                                          spec.eos,
                                          spec.addBos,
                                          spec.addEos});
  for (size_t i = 0; i < spec.types.size(); ++i) {
    auto type = static_cast<TokenType>(spec.types[i]);
    bool isControl = type == TokenType::Control;
    auto id = static_cast<int32_t>(i);
    impl->isControl[i] = isControl;
    if (isControl || type == TokenType::UserDefined)
      impl->specials.add(spec.tokens[i], id, isControl);
    if (isControl && std::ranges::find(endOfTurnNames, spec.tokens[i]) !=
                         std::end(endOfTurnNames))
      impl->endOfGeneration.push_back(id);
  }
  for (std::optional<int32_t> id : {spec.eos, spec.eot})
    if (id)
      impl->endOfGeneration.push_back(*id);
  std::ranges::sort(impl->endOfGeneration);
  return Tokenizer(std::move(impl));
}

/// Encodes valid UTF-8 without special tokens.
Status Tokenizer::Impl::encodeUtf8(std::string_view text, Run &run) const {
  run.wordEnds.clear();
  MOE_RETURN_IF_ERROR(preTokenizer.split(text, run.matching, run.wordEnds));
  uint32_t begin = 0;
  for (uint32_t end : run.wordEnds) {
    std::string_view word = text.substr(begin, end - begin);
    begin = end;
    int32_t whole = preTokenizer.ignoreMerges() ? model.find(word) : -1;
    if (whole >= 0)
      run.ids.push_back(whole);
    else
      MOE_RETURN_IF_ERROR(model.encodeWord(word, run.merging, run.ids));
  }
  return Status::ok();
}

/// Encodes any bytes without special tokens.
Status Tokenizer::Impl::encodePlain(std::string_view text, Run &run) const {
  while (!text.empty()) {
    size_t valid = validUtf8Prefix(text);
    MOE_RETURN_IF_ERROR(encodeUtf8(text.substr(0, valid), run));
    text.remove_prefix(valid);
    if (text.empty())
      break;
    size_t invalid = nextUtf8(text.substr(0, 4)).length;
    for (char byte : text.substr(0, invalid))
      MOE_RETURN_IF_ERROR(
          model.encodeByte(static_cast<uint8_t>(byte), run.ids));
    text.remove_prefix(invalid);
  }
  return Status::ok();
}

StatusOr<std::vector<int32_t>>
Tokenizer::encode(std::string_view text, const EncodeOptions &options) const {
  if (text.size() > maxTextBytes)
    return Status(StatusCode::Usage,
                  fmt::format("the text has {} bytes; at most {} can be "
                              "tokenized at once",
                              text.size(), maxTextBytes));
  bool addBos = options.addBos.value_or(impl_->addBos);
  bool addEos = options.addEos.value_or(impl_->addEos);
  if ((addBos && !impl_->bos) || (addEos && !impl_->eos))
    return Status(
        StatusCode::Usage,
        fmt::format("the model has no {} token to add",
                    addBos && !impl_->bos ? "begin-of-text" : "end-of-text"));
  Impl::Run run;
  if (addBos)
    run.ids.push_back(*impl_->bos);
  for (size_t position = 0; position < text.size();) {
    SpecialTokens::Match special =
        impl_->specials.findNext(text, position, options.parseSpecial);
    MOE_RETURN_IF_ERROR(impl_->encodePlain(
        text.substr(position, special.begin - position), run));
    if (special.end > special.begin)
      run.ids.push_back(special.id);
    position = special.end;
  }
  if (addEos)
    run.ids.push_back(*impl_->eos);
  return std::move(run.ids);
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids)
    if (!isControl(id))
      text += tokenBytes(id);
  return text;
}

std::string_view Tokenizer::tokenBytes(int32_t id) const {
  if (id < 0 || id >= vocabularySize())
    return {};
  return impl_->model.bytes(id);
}

bool Tokenizer::isControl(int32_t id) const {
  return id >= 0 && id < vocabularySize() && impl_->isControl[id];
}

bool Tokenizer::isEndOfGeneration(int32_t id) const {
  return std::ranges::binary_search(impl_->endOfGeneration, id);
}

int32_t Tokenizer::vocabularySize() const {
  return impl_->model.vocabularySize();
}
std::optional<int32_t> Tokenizer::bos() const { return impl_->bos; }
std::optional<int32_t> Tokenizer::eos() const { return impl_->eos; }

} // namespace moert
