//===- TokenizerSpec.h - A tokenizer's data ---------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_TOKENIZERSPEC_H
#define MOE_RUNTIME_TEXT_TOKENIZERSPEC_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The values of tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  Undefined = 0, ///< Treated as Normal.
  Normal = 1,
  Unknown = 2,
  Control = 3,     ///< Structure such as end-of-text; not part of the text.
  UserDefined = 4, ///< Text that is always one token.
  Unused = 5,
  Byte = 6, ///< "<0xNN>".
};

/// What words are made of before the first merge.
enum class Alphabet : uint8_t { Bytes, Characters };

/// U+2581, which SentencePiece writes for a space.
inline constexpr std::string_view spaceMark = "\xE2\x96\x81";

/// See TokenizerSpec::pre.
inline constexpr std::string_view noSpacePrefix = "no-space-prefix";

/// The byte that the text of a Byte token names: "<0xNN>" and nothing else.
std::optional<uint8_t> parseByteToken(std::string_view text);

/// A tokenizer as a model file describes it; Tokenizer::create checks it.
struct TokenizerSpec {
  /// tokenizer.ggml.model: "gpt2" is byte-level BPE, "llama" SentencePiece's,
  /// "gemma4" in between (BpeModel.h), also where the file says "gpt2" and the
  /// pre-tokenizer's alphabet is Characters.
  std::string model;
  /// A name in PreTokenizers.def. For "llama", whose text is not cut:
  /// noSpacePrefix, or any other name where text gets a space in front.
  std::string pre;
  /// Token texts by id. Normal ones of gpt2 are in the byte alphabet of GPT-2,
  /// where each byte is one printable character; those of the other models have
  /// U+2581 for a space.
  std::vector<std::string> tokens;
  std::vector<int32_t> types;      ///< TokenType by id; empty: all Normal.
  std::vector<std::string> merges; ///< "left right", best first.
  std::vector<float> scores;       ///< By id; only llama needs them.
  std::optional<int32_t> bos, eos, eot, unk, pad;
  bool addBos = false; ///< Whether text starts with bos by default.
  bool addEos = false; ///< Whether text ends with eos by default.
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_TOKENIZERSPEC_H
