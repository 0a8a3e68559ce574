//===- Tokenizer.cpp ------------------------------------------------------===//

#include "runtime/text/Tokenizer.h"

#include "runtime/base/Text.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/BpeModel.h"
#include "runtime/text/PreTokenizer.h"
#include "runtime/text/SpecialTokens.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <unordered_map>
#include <utility>

namespace moert {
namespace {

/// Offsets in text have 32 bits, and a token has at least one byte.
constexpr size_t maxTextBytes = INT32_MAX;

/// Names of end-of-turn tokens in chat models. A file often declares only one
/// of several as eos.
constexpr std::string_view endOfTurnNames[] = {
    "<｜end▁of▁sentence｜>", // DeepSeek
    "<|EOT|>",               // DeepSeek-Coder
    "<|im_end|>",            // Qwen, Kimi-K2
    "<|endoftext|>",         // GPT-2, Qwen, GLM
    "<|eot_id|>",            // Llama 3
    "<|eom_id|>",            // Llama 3, before a tool's answer
    "<|end_of_text|>",       // Llama 3
    "<|eot|>",               // Llama 4
    "[EOS]",                 // Kimi-K2
    "[EOT]",                 // Kimi-K2
    "<|return|>",            // gpt-oss
    "<|call|>",              // gpt-oss, before a tool's answer
    "[e~[",                  // MiniMax
    "<end_of_turn>",         // Gemma to 3
    "<turn|>",               // Gemma 4
    "<|tool_response>",      // Gemma 4, before a tool's answer
};

/// Names of tokens between the files of code models, which write them where a
/// completion ends: without them it would go on into another file.
constexpr std::string_view endOfInfillNames[] = {
    "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", // Qwen
    "<fim_pad>",                                    // StarCoder, Granite
    "▁<EOT>",                                       // Code Llama
    "<EOT>",
};

/// Names that end a turn only in a vocabulary that has both; in others they
/// begin a turn, or are anything else.
constexpr std::string_view endOfTurnPairs[][2] = {
    {"<|user|>", "<|observation|>"}, // GLM
    {"<|flush|>", "<|calls|>"}, // Solar Open: ends of an answer and of calls
};

/// Ends a message, but not the turn, in a vocabulary that has one of the
/// others.
constexpr std::string_view messageEndName = "<|end|>";
constexpr std::string_view endsOfMessages[] = {"<|return|>", "<|flush|>"};

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

/// Returns the tokens that end generation, sorted.
std::vector<int32_t> endsOfGeneration(const TokenizerSpec &spec) {
  std::unordered_map<std::string_view, int32_t> named;
  for (size_t i = 0; i < spec.types.size(); ++i) {
    auto type = static_cast<TokenType>(spec.types[i]);
    if (type == TokenType::Control || type == TokenType::UserDefined)
      named.try_emplace(spec.tokens[i], static_cast<int32_t>(i));
  }
  std::vector<int32_t> ends;
  auto add = [&](std::string_view name) {
    if (auto found = named.find(name); found != named.end())
      ends.push_back(found->second);
  };
  for (std::string_view name : endOfTurnNames)
    add(name);
  for (std::string_view name : endOfInfillNames)
    add(name);
  for (const auto &pair : endOfTurnPairs)
    if (named.contains(pair[0]) && named.contains(pair[1]))
      for (std::string_view name : pair)
        add(name);
  for (std::optional<int32_t> id : {spec.eos, spec.eot})
    if (id)
      ends.push_back(*id);
  // Some files declare the end of a message as eot.
  auto messageEnd = named.find(messageEndName);
  if (messageEnd != named.end() &&
      std::ranges::any_of(endsOfMessages,
                          [&](auto name) { return named.contains(name); }))
    std::erase(ends, messageEnd->second);
  std::ranges::sort(ends);
  return ends;
}

/// Returns " (NAME)" for a tokenizer model of other engines, or "".
std::string_view algorithmOf(std::string_view model) {
  struct Known {
    std::string_view model, algorithm;
  };
  for (Known known : {Known{"bert", " (WordPiece)"}, Known{"t5", " (Unigram)"},
                      Known{"rwkv", " (RWKV's longest match)"},
                      Known{"plamo2", " (PLaMo's Unigram)"}})
    if (model == known.model)
      return known.algorithm;
  return "";
}

/// Returns text without the spaces at its beginning (if `startsText`), and with
/// one for each run of spaces.
std::string collapseSpaces(std::string_view text, bool startsText) {
  std::string result;
  bool afterSpace = startsText;
  for (char byte : text) {
    if (byte != ' ' || !afterSpace)
      result += byte;
    afterSpace = byte == ' ';
  }
  return result;
}

} // namespace

struct Tokenizer::Impl {
  BpeModel model;
  /// Absent if the whole text is one word.
  std::optional<PreTokenizer> preTokenizer;
  SpecialTokens specials;
  std::vector<bool> isControl;          ///< Indexed by token id.
  std::vector<int32_t> endOfGeneration; ///< Sorted token ids.
  std::optional<int32_t> bos, eos;
  bool addBos, addEos;
  bool marksSpaces; ///< Whether U+2581 stands for a space.
  bool addSpacePrefix;
  bool removeExtraSpaces;
  /// The most bytes of a token, or of a control token's name; 0: a token may
  /// stand for any number of characters.
  size_t longestToken;

  /// Part of a text: a special token, or text between two of them.
  struct Part {
    std::string_view text;
    int32_t id = -1; ///< -1: not a special token.
  };
  std::vector<Part> partsOf(std::string_view text,
                            const EncodeOptions &options) const;
  std::string readable(std::string_view text, std::string_view breaker,
                       bool startsText) const;

  /// Buffers and results of encoding a text.
  struct Run {
    const EncodeOptions &options;
    PreTokenizer::Scratch matching = {};
    BpeModel::Scratch merging = {};
    std::vector<int32_t> ids = {};
    size_t words = 0;

    bool hasMost() const { return ids.size() >= options.most; }
    /// Called after each word. Fails if the run is to end.
    Status takeWord();
  };

  using OnWord = std::function<Status(std::string_view)>;
  Status splitUtf8(std::string_view text, Run &run, const OnWord &onWord) const;
  Status encodeUtf8(std::string_view text, Run &run) const;
  Status encodePlain(std::string_view text, Run &run) const;
};

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl)
    : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer &&) noexcept = default;
Tokenizer &Tokenizer::operator=(Tokenizer &&) noexcept = default;
Tokenizer::~Tokenizer() = default;

StatusOr<Tokenizer> Tokenizer::create(const TokenizerSpec &spec) {
  bool isByteLevel = spec.model == "gpt2";
  if (!isByteLevel && spec.model != "llama" && spec.model != "gemma4")
    return Status(
        StatusCode::Unsupported,
        fmt::format("tokenizer model {}{} is not supported; supported "
                    "are gpt2 (byte-level BPE), llama "
                    "(SentencePiece's BPE) and gemma4. With --no-tokenizer "
                    "the model compiles and runs on token ids",
                    quoted(spec.model), algorithmOf(spec.model)));
  MOE_RETURN_IF_ERROR(checkSizes(spec));
  MOE_RETURN_IF_ERROR(checkIds(spec));
  std::optional<PreTokenizer> preTokenizer;
  if (spec.model != "llama") {
    MOE_ASSIGN_OR_RETURN(preTokenizer, PreTokenizer::create(spec.pre));
  }
  MOE_ASSIGN_OR_RETURN(BpeModel model, BpeModel::create(spec));

  auto impl = std::make_unique<Impl>(
      Impl{.model = std::move(model),
           .preTokenizer = std::move(preTokenizer),
           .specials = {},
           .isControl = std::vector<bool>(spec.tokens.size()),
           .endOfGeneration = endsOfGeneration(spec),
           .bos = spec.bos,
           .eos = spec.eos,
           .addBos = spec.addBos,
           .addEos = spec.addEos,
           .marksSpaces = !isByteLevel,
           .addSpacePrefix = spec.model == "llama" && spec.pre != noSpacePrefix,
           .removeExtraSpaces = spec.model == "llama" && spec.removeExtraSpaces,
           .longestToken = 0});
  if (!impl->model.joinsUnknown())
    for (int32_t id = 0; id < impl->model.vocabularySize(); ++id)
      impl->longestToken =
          std::max(impl->longestToken, impl->model.bytes(id).size());
  std::vector<SpecialTokens::Entry> specials;
  for (size_t i = 0; i < spec.types.size(); ++i) {
    auto type = static_cast<TokenType>(spec.types[i]);
    bool isControl = type == TokenType::Control;
    auto id = static_cast<int32_t>(i);
    impl->isControl[i] = isControl;
    if (isControl || type == TokenType::UserDefined)
      specials.push_back({impl->model.bytes(id), id, isControl});
  }
  MOE_ASSIGN_OR_RETURN(impl->specials, SpecialTokens::create(specials));
  return Tokenizer(std::move(impl));
}

std::vector<Tokenizer::Impl::Part>
Tokenizer::Impl::partsOf(std::string_view text,
                         const EncodeOptions &options) const {
  std::vector<Part> parts;
  size_t position = 0;
  auto addPlain = [&](size_t end) {
    if (end > position)
      parts.push_back({text.substr(position, end - position)});
  };
  for (SpecialTokens::Match special :
       specials.find(text, options.parseSpecial)) {
    if (special.begin < position)
      continue;
    addPlain(special.begin);
    parts.push_back({text.substr(special.begin, special.length), special.id});
    position = special.begin + special.length;
  }
  addPlain(text.size());
  return parts;
}

/// Returns text between special tokens in the model's spelling, without
/// breakers and spaces to be dropped.
std::string Tokenizer::Impl::readable(std::string_view text,
                                      std::string_view breaker,
                                      bool startsText) const {
  std::string result(text);
  auto replaceAll = [&](std::string_view from, std::string_view to) {
    if (from.empty() || result.find(from) == std::string::npos)
      return;
    std::string old = std::exchange(result, {});
    size_t begin = 0;
    for (size_t at; (at = old.find(from, begin)) != std::string::npos;
         begin = at + from.size())
      result.append(old, begin, at - begin).append(to);
    result.append(old, begin);
  };
  replaceAll(breaker, "");
  // SentencePiece drops U+2581 only at the end of a text.
  if (removeExtraSpaces)
    result = collapseSpaces(result, startsText);
  if (marksSpaces)
    replaceAll(spaceMark, " ");
  return result;
}

/// Ends a run that has enough. Nobody sees it.
static Status enough() { return {StatusCode::Cancelled, "enough"}; }

Status Tokenizer::Impl::Run::takeWord() {
  constexpr size_t often = 256;
  if (hasMost())
    return enough();
  return ++words % often == 0 ? options.deadline.check("cutting the text into "
                                                       "tokens")
                              : Status::ok();
}

/// Finds the words in valid UTF-8 without special tokens.
Status Tokenizer::Impl::splitUtf8(std::string_view text, Run &run,
                                  const OnWord &onWord) const {
  size_t begin = 0;
  auto endAt = [&](size_t end) {
    MOE_RETURN_IF_ERROR(onWord(text.substr(begin, end - begin)));
    begin = end;
    return run.takeWord();
  };
  if (preTokenizer)
    return preTokenizer->split(text, run.matching, endAt);
  // Merging a long text takes many times its memory.
  if (!model.mergesIntoBlanks())
    for (size_t at = 0; (at = text.find(' ', at + 1)) != text.npos;)
      if (text[at - 1] != ' ')
        MOE_RETURN_IF_ERROR(endAt(at));
  return endAt(text.size());
}

/// Encodes valid UTF-8 without special tokens.
Status Tokenizer::Impl::encodeUtf8(std::string_view text, Run &run) const {
  return splitUtf8(text, run, [&](std::string_view word) {
    bool mayBeWhole = preTokenizer && preTokenizer->takesWhole(word);
    int32_t whole = mayBeWhole ? model.find(word) : -1;
    if (whole < 0)
      return model.encodeWord(word, run.merging, run.ids, run.options.deadline);
    run.ids.push_back(whole);
    return Status::ok();
  });
}

/// Calls `onText` for each valid part of `text` and `onBytes` for each invalid
/// one.
static Status walkUtf8(std::string_view text,
                       const std::function<Status(std::string_view)> &onText,
                       const std::function<Status(std::string_view)> &onBytes) {
  while (!text.empty()) {
    size_t valid = validUtf8Prefix(text);
    if (valid > 0)
      MOE_RETURN_IF_ERROR(onText(text.substr(0, valid)));
    text.remove_prefix(valid);
    if (text.empty())
      break;
    size_t invalid = nextUtf8(text.substr(0, 4)).length;
    MOE_RETURN_IF_ERROR(onBytes(text.substr(0, invalid)));
    text.remove_prefix(invalid);
  }
  return Status::ok();
}

/// Encodes any bytes without special tokens.
Status Tokenizer::Impl::encodePlain(std::string_view text, Run &run) const {
  return walkUtf8(
      text, [&](std::string_view part) { return encodeUtf8(part, run); },
      [&](std::string_view part) {
        for (char byte : part)
          MOE_RETURN_IF_ERROR(
              model.encodeByte(static_cast<uint8_t>(byte), run.ids));
        return Status::ok();
      });
}

static Status checkTextSize(std::string_view text) {
  if (text.size() <= maxTextBytes)
    return Status::ok();
  return {StatusCode::Usage,
          fmt::format("the text has {} bytes; at most {} can be tokenized at "
                      "once",
                      text.size(), maxTextBytes)};
}

StatusOr<std::vector<int32_t>>
Tokenizer::encode(std::string_view text, const EncodeOptions &options) const {
  MOE_RETURN_IF_ERROR(checkTextSize(text));
  bool addBos = options.addBos.value_or(impl_->addBos);
  bool addEos = options.addEos.value_or(impl_->addEos);
  if ((addBos && !impl_->bos) || (addEos && !impl_->eos))
    return Status(
        StatusCode::Usage,
        fmt::format("the model has no {} token to add",
                    addBos && !impl_->bos ? "begin-of-text" : "end-of-text"));
  Impl::Run run{options};
  if (addBos)
    run.ids.push_back(*impl_->bos);
  auto encode = [&](std::string_view plain) {
    Status status = impl_->encodePlain(plain, run);
    return run.hasMost() ? Status::ok() : status;
  };
  // SentencePiece puts a space in front of each text that it is given, and
  // programs give it the texts between control tokens.
  bool startsText = options.startsText;
  std::vector<Impl::Part> parts = impl_->partsOf(text, options);
  for (size_t i = 0; i < parts.size() && !run.hasMost(); ++i) {
    const Impl::Part &part = parts[i];
    if (part.id >= 0) {
      // If control tokens are not parsed, a user-defined token counts as text.
      if (startsText && impl_->addSpacePrefix && !options.parseSpecial)
        MOE_RETURN_IF_ERROR(encode(" "));
      run.ids.push_back(part.id);
      startsText = isControl(part.id);
      continue;
    }
    bool hasMark =
        impl_->marksSpaces && part.text.find(spaceMark) != std::string::npos;
    bool wasStart = std::exchange(startsText, false);
    bool addSpace = impl_->addSpacePrefix && wasStart;
    if (!hasMark && !addSpace && !impl_->removeExtraSpaces &&
        options.breaker.empty()) {
      MOE_RETURN_IF_ERROR(encode(part.text));
      continue;
    }
    std::string copy = impl_->readable(part.text, options.breaker, wasStart);
    bool endsText = i + 1 == parts.size() || isControl(parts[i + 1].id);
    if (impl_->removeExtraSpaces && endsText)
      copy.erase(copy.find_last_not_of(' ') + 1);
    if (addSpace && !copy.empty())
      copy.insert(0, 1, ' ');
    MOE_RETURN_IF_ERROR(encode(copy));
  }
  if (addEos)
    run.ids.push_back(*impl_->eos);
  return std::move(run.ids);
}

StatusOr<std::vector<std::string>>
Tokenizer::pieces(std::string_view text, const EncodeOptions &options) const {
  MOE_RETURN_IF_ERROR(checkTextSize(text));
  Impl::Run run{options};
  std::vector<std::string> result;
  for (const Impl::Part &part : impl_->partsOf(text, options)) {
    if (part.id >= 0) {
      result.emplace_back(part.text);
      continue;
    }
    auto add = [&](std::string_view piece) {
      result.emplace_back(piece);
      return Status::ok();
    };
    MOE_RETURN_IF_ERROR(walkUtf8(
        part.text,
        [&](std::string_view valid) {
          return impl_->splitUtf8(valid, run, add);
        },
        add));
  }
  return result;
}

size_t Tokenizer::leastTokens(std::string_view text) const {
  if (impl_->longestToken == 0)
    return 0;
  // A character that is not ASCII may be a mark of a space, or a breaker.
  const auto kept = std::ranges::count_if(
      text, [](char byte) { return byte > ' ' && byte < 0x7F; });
  return size_t(kept) / impl_->longestToken;
}

std::string Tokenizer::breakNames(std::string_view text,
                                  std::string_view breaker) const {
  std::string result;
  // A breaker that occurs in the text would disappear and could reveal a name,
  // so it is removed first. Removing one may join the halves of another.
  std::string plain;
  for (char byte : text) {
    plain += byte;
    if (plain.ends_with(breaker))
      plain.resize(plain.size() - breaker.size());
  }
  size_t position = 0;
  for (SpecialTokens::Match match : impl_->specials.find(plain, true)) {
    if (match.begin < position)
      continue;
    size_t cut = match.begin + nextUtf8(plain.substr(match.begin, 4)).length;
    result.append(plain, position, cut - position);
    if (isControl(match.id))
      result += breaker;
    position = cut;
  }
  result.append(plain, position);
  return result;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids)
    if (!isControl(id))
      text += tokenBytes(id);
  if (impl_->addSpacePrefix && text.starts_with(' '))
    text.erase(0, 1);
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
