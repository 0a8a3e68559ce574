//===- TokenizerSpec.h - The data of a tokenizer ----------------*- C++ -*-===//

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
  /// Structure, such as end-of-text, that is not part of the text.
  Control = 3,
  UserDefined = 4, ///< Text that is always a single token.
  Unused = 5,
  Byte = 6, ///< "<0xNN>".
};

/// The symbols that a word is split into before the first merge.
enum class Alphabet : uint8_t { Bytes, Characters };

/// U+2581, which SentencePiece uses for a space.
inline constexpr std::string_view spaceMark = "\xE2\x96\x81";

/// A value of TokenizerSpec::pre.
inline constexpr std::string_view noSpacePrefix = "no-space-prefix";

/// Returns the byte of a Byte token's text, which must be exactly "<0xNN>".
std::optional<uint8_t> parseByteToken(std::string_view text);

/// A tokenizer as a model file describes it; Tokenizer::create checks it.
struct TokenizerSpec {
  /// tokenizer.ggml.model: "gpt2" is byte-level BPE, "llama" is SentencePiece,
  /// and "gemma4" is in between (BpeModel.h). "gemma4" is also used if the file
  /// says "gpt2" but the pre-tokenizer's alphabet is Characters.
  std::string model;
  /// A name in PreTokenizers.def. For "llama", whose text is not cut into
  /// words, either noSpacePrefix or any other name; the latter puts a space in
  /// front of text.
  std::string pre;
  /// Token texts by id. Normal tokens of gpt2 use GPT-2's byte alphabet, in
  /// which each byte is one printable character; those of other models have
  /// U+2581 for a space.
  std::vector<std::string> tokens;
  std::vector<int32_t> types;      ///< TokenType of each id; empty: all Normal.
  std::vector<std::string> merges; ///< "left right", in order of rank.
  std::vector<float> scores;       ///< Score of each id; used only by llama.
  std::optional<int32_t> bos, eos, eot, unk, pad;
  /// Only llama: blanks in front and at the end are dropped, and several in a
  /// row become one (SentencePiece's remove_extra_whitespaces).
  bool removeExtraSpaces = false;
  bool addBos = false; ///< Whether text starts with bos by default.
  bool addEos = false; ///< Whether text ends with eos by default.
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_TOKENIZERSPEC_H
