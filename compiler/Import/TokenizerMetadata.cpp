#include "compiler/Import/TokenizerMetadata.h"

#include "runtime/base/Text.h"
#include "runtime/text/PreTokenizer.h"

#include <fmt/format.h>

using namespace moert;

namespace moec {

namespace {

constexpr std::string_view keyPrefix = "tokenizer.ggml.";
constexpr std::string_view tokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view typesKey = "tokenizer.ggml.token_type";
constexpr std::string_view scoresKey = "tokenizer.ggml.scores";
constexpr std::string_view mergesKey = "tokenizer.ggml.merges";

/// Default ids of a SentencePiece vocabulary.
struct DefaultId {
  std::string_view key;
  uint64_t id;
};
constexpr DefaultId sentencePieceDefaults[] = {
    {"tokenizer.ggml.unknown_token_id", 0},
    {"tokenizer.ggml.bos_token_id", 1},
    {"tokenizer.ggml.eos_token_id", 2},
};

std::optional<int32_t> sentencePieceDefault(std::string_view key) {
  for (const DefaultId &fallback : sentencePieceDefaults)
    if (fallback.key == key)
      return static_cast<int32_t>(fallback.id);
  return std::nullopt;
}

/// Returns a failure about `key`, which may be missing.
Status keyError(const GgufModel &model, std::string_view key,
                std::string_view text,
                StatusCode code = StatusCode::InvalidFile) {
  const GgufValue *value = model.find(key);
  std::string place = value ? fmt::format("byte {}: ", value->fileOffset) : "";
  return Status(code, fmt::format("{}: {}key {}: {}", model.paths().front(),
                                  place, quoted(key), text));
}

Status checkLength(const GgufModel &model, std::string_view key,
                   const GgufArray *array, uint64_t tokens) {
  if (!array || array->count >= tokens)
    return Status::ok();
  return keyError(model, key,
                  fmt::format("expected {} values, one per token, found {}",
                              tokens, array->count));
}

Status checkTypes(const GgufModel &model, const GgufArray &tokens) {
  MOE_ASSIGN_OR_RETURN(const GgufArray *types,
                       model.getArray(typesKey, GgufType::U32));
  MOE_RETURN_IF_ERROR(checkLength(model, typesKey, types, tokens.count));
  if (!types)
    return Status::ok();
  for (uint64_t i = 0; i < tokens.count; ++i) {
    int64_t type = types->integers[i];
    if (type < int64_t(TokenType::Undefined) || type > int64_t(TokenType::Byte))
      return keyError(
          model, typesKey,
          fmt::format("token {} has type {}, expected 0 to 6", i, type));
    if (type == int64_t(TokenType::Byte) && !parseByteToken(tokens.strings[i]))
      return keyError(model, tokensKey,
                      fmt::format("byte token {}: expected <0x00> to <0xFF>, "
                                  "found {}",
                                  i, quoted(tokens.strings[i])));
  }
  return Status::ok();
}

Status checkMerges(const GgufModel &model) {
  MOE_ASSIGN_OR_RETURN(const GgufArray *merges,
                       model.getArray(mergesKey, GgufType::String));
  if (!merges)
    return Status::ok();
  for (uint64_t i = 0; i < merges->count; ++i) {
    std::string_view merge = merges->strings[i];
    // The left part may begin with a space.
    size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size())
      return keyError(model, mergesKey,
                      fmt::format("merge {}: expected two parts with a space "
                                  "between, found {}",
                                  i, quoted(merge)));
  }
  return Status::ok();
}

/// Checks every tokenizer.ggml.*_token_id in the file.
Status checkGivenIds(const GgufModel &model, uint64_t tokens) {
  for (const auto &[key, value] : model.metadata()) {
    if (!key.starts_with(keyPrefix) || !key.ends_with("_token_id"))
      continue;
    MOE_ASSIGN_OR_RETURN(std::optional<uint64_t> id, model.getUint(key));
    if (*id >= tokens)
      return keyError(model, key,
                      fmt::format("expected an id below the {} tokens of the "
                                  "vocabulary, found {}",
                                  tokens, *id));
  }
  return Status::ok();
}

/// Checks default ids for keys that are missing in the file.
Status checkDefaultIds(const GgufModel &model, std::string_view kind,
                       uint64_t tokens) {
  if (kind == "llama")
    for (const DefaultId &fallback : sentencePieceDefaults)
      if (!model.find(fallback.key) && fallback.id >= tokens)
        return keyError(model, fallback.key,
                        fmt::format("is missing, and its default {} is beyond "
                                    "the {} tokens of the vocabulary",
                                    fallback.id, tokens));
  MOE_ASSIGN_OR_RETURN(std::optional<bool> addBos,
                       model.getBool("tokenizer.ggml.add_bos_token"));
  if (addBos.value_or(false) && kind != "llama" &&
      !model.find("tokenizer.ggml.bos_token_id"))
    return keyError(model, "tokenizer.ggml.add_bos_token",
                    "is true, but tokenizer.ggml.bos_token_id is missing");
  return Status::ok();
}

} // namespace

Status checkTokenizerMetadata(const GgufModel &model) {
  MOE_ASSIGN_OR_RETURN(const GgufArray *tokens,
                       model.getArray(tokensKey, GgufType::String));
  if (!tokens)
    return Status::ok();
  if (tokens->count == 0)
    return keyError(model, tokensKey, "the vocabulary is empty");
  MOE_ASSIGN_OR_RETURN(std::optional<std::string_view> kind,
                       model.getString("tokenizer.ggml.model"));
  if (!kind)
    return keyError(model, "tokenizer.ggml.model",
                    "is missing, but the file has a vocabulary");
  MOE_RETURN_IF_ERROR(checkTypes(model, *tokens));
  MOE_ASSIGN_OR_RETURN(const GgufArray *scores,
                       model.getArray(scoresKey, GgufType::F32));
  MOE_RETURN_IF_ERROR(checkLength(model, scoresKey, scores, tokens->count));
  MOE_RETURN_IF_ERROR(checkMerges(model));
  MOE_RETURN_IF_ERROR(checkGivenIds(model, tokens->count));
  return checkDefaultIds(model, *kind, tokens->count);
}

StatusOr<TokenizerSpec> tokenizerSpecFromGguf(const GgufModel &model,
                                              std::string_view preOverride) {
  MOE_RETURN_IF_ERROR(checkTokenizerMetadata(model));
  MOE_ASSIGN_OR_RETURN(const GgufArray *tokens,
                       model.getArray(tokensKey, GgufType::String));
  if (!tokens)
    return keyError(model, tokensKey, "is missing; the file has no tokenizer");
  MOE_ASSIGN_OR_RETURN(const GgufArray *types,
                       model.getArray(typesKey, GgufType::U32));
  MOE_ASSIGN_OR_RETURN(const GgufArray *scores,
                       model.getArray(scoresKey, GgufType::F32));
  MOE_ASSIGN_OR_RETURN(const GgufArray *merges,
                       model.getArray(mergesKey, GgufType::String));
  MOE_ASSIGN_OR_RETURN(std::optional<std::string_view> kind,
                       model.getString("tokenizer.ggml.model"));
  MOE_ASSIGN_OR_RETURN(std::optional<std::string_view> pre,
                       model.getString("tokenizer.ggml.pre"));
  MOE_ASSIGN_OR_RETURN(std::optional<bool> addBos,
                       model.getBool("tokenizer.ggml.add_bos_token"));
  MOE_ASSIGN_OR_RETURN(std::optional<bool> addEos,
                       model.getBool("tokenizer.ggml.add_eos_token"));
  MOE_ASSIGN_OR_RETURN(std::optional<bool> addSpacePrefix,
                       model.getBool("tokenizer.ggml.add_space_prefix"));
  MOE_ASSIGN_OR_RETURN(
      std::optional<bool> removeExtraSpaces,
      model.getBool("tokenizer.ggml.remove_extra_whitespaces"));

  TokenizerSpec spec;
  spec.model = *kind;
  bool isSentencePiece = spec.model == "llama";
  // Gemma 4 has only this one, and not all files say so.
  spec.pre = spec.model == "gemma4" ? "gemma4" : pre.value_or("default");
  if (isSentencePiece && !addSpacePrefix.value_or(true))
    spec.pre = noSpacePrefix;
  spec.removeExtraSpaces = isSentencePiece && removeExtraSpaces.value_or(false);
  if (!preOverride.empty())
    spec.pre = preOverride;
  spec.tokens.assign(tokens->strings.begin(), tokens->strings.end());
  // Files may contain more types and scores than tokens; the checks above have
  // excluded fewer.
  if (types)
    spec.types.assign(types->integers.begin(),
                      types->integers.begin() + ptrdiff_t(tokens->count));
  if (scores)
    spec.scores.assign(scores->floats.begin(),
                       scores->floats.begin() + ptrdiff_t(tokens->count));
  if (merges)
    spec.merges.assign(merges->strings.begin(), merges->strings.end());
  spec.addEos = addEos.value_or(false);

  struct SpecialId {
    std::string_view key;
    std::optional<int32_t> TokenizerSpec::*field;
  };
  static constexpr SpecialId specialIds[] = {
      {"tokenizer.ggml.bos_token_id", &TokenizerSpec::bos},
      {"tokenizer.ggml.eos_token_id", &TokenizerSpec::eos},
      {"tokenizer.ggml.eot_token_id", &TokenizerSpec::eot},
      {"tokenizer.ggml.unknown_token_id", &TokenizerSpec::unk},
      {"tokenizer.ggml.padding_token_id", &TokenizerSpec::pad},
  };
  for (const SpecialId &special : specialIds) {
    MOE_ASSIGN_OR_RETURN(std::optional<uint64_t> id,
                         model.getUint(special.key));
    if (id)
      spec.*special.field = static_cast<int32_t>(*id);
    else if (isSentencePiece)
      spec.*special.field = sentencePieceDefault(special.key);
  }
  // If both ids are present, Tokenizer finds the end of a message before a
  // tool's answer by its name.
  MOE_ASSIGN_OR_RETURN(std::optional<uint64_t> endOfMessage,
                       model.getUint("tokenizer.ggml.eom_token_id"));
  if (!spec.eot && endOfMessage)
    spec.eot = static_cast<int32_t>(*endOfMessage);
  BosDefault bosDefault = isSentencePiece ? BosDefault::On : BosDefault::Off;
  if (spec.model == "gpt2" || spec.model == "gemma4") {
    StatusOr<PreTokenizer> preTokenizer = PreTokenizer::create(spec.pre);
    if (!preTokenizer && !preOverride.empty())
      return Status(preTokenizer.status().code(),
                    "--pre: " + preTokenizer.status().message());
    if (!preTokenizer)
      return keyError(model, "tokenizer.ggml.pre",
                      preTokenizer.status().message(),
                      preTokenizer.status().code());
    bosDefault = preTokenizer->bosDefault();
    // Files of such tokenizers use either model name.
    if (preTokenizer->alphabet() == Alphabet::Characters)
      spec.model = "gemma4";
  }
  spec.addBos = addBos.value_or(bosDefault == BosDefault::On && spec.bos) &&
                bosDefault != BosDefault::Never;
  return spec;
}

} // namespace moec
