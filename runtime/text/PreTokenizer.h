//===- PreTokenizer.h - Splits text into words ------------------*- C++ -*-===//
//
// Byte-level BPE never merges across words. Each family of tokenizers defines
// words by regular expressions; PreTokenizers.def lists them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_PRETOKENIZER_H
#define MOE_RUNTIME_TEXT_PRETOKENIZER_H

#include "runtime/base/Status.h"
#include "runtime/text/TokenizerSpec.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Which words become a single token if a token of the same text exists,
/// regardless of merges.
enum class WholeWords : uint8_t { None, All, LineEnds };

/// Whether text starts with the begin-of-text token: Off and On apply if the
/// model file does not specify it, Never always.
enum class BosDefault : uint8_t { Off, On, Never };

class PreTokenizer {
public:
  /// `name` is a value of tokenizer.ggml.pre. Fails with Unsupported if
  /// PreTokenizers.def does not list it; the error suggests meantName().
  static StatusOr<PreTokenizer> create(std::string_view name);
  static std::vector<std::string_view> supportedNames();
  /// Returns a text such as "known are default, falcon, ...".
  static std::string knownNames();
  /// Returns the name in the table of which `name` is a misspelling: at most
  /// two letters differ. A different digit is not a misspelling but another
  /// version.
  static std::optional<std::string_view> meantName(std::string_view name);

  PreTokenizer(PreTokenizer &&) noexcept;
  PreTokenizer &operator=(PreTokenizer &&) noexcept;
  ~PreTokenizer();

  /// Returns whether `word` becomes one token if a token of the same text
  /// exists.
  bool takesWhole(std::string_view word) const {
    return wholeWords_ == WholeWords::All ||
           (wholeWords_ == WholeWords::LineEnds && word.front() == '\n');
  }
  BosDefault bosDefault() const { return bos_; }
  Alphabet alphabet() const { return alphabet_; }

  /// Buffers for matching, including the matcher's stack. Reuse them from call
  /// to call; threads must not share them.
  class Scratch {
  public:
    Scratch();
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    ~Scratch();

  private:
    friend class PreTokenizer;
    struct State;
    std::unique_ptr<State> state_;
  };

  /// Receives the end offset of a word; the split ends if it fails.
  using OnWord = std::function<Status(uint32_t end)>;
  /// Calls `onWord` for each word, in order; the words cover `text`, which must
  /// be valid UTF-8 of less than 4 GiB. For every expression in the table, time
  /// is linear in the length, and stack and memory use constant. An expression
  /// that exceeds the match limit fails with Internal.
  Status split(std::string_view text, Scratch &scratch,
               const OnWord &onWord) const;

private:
  struct Pass;
  PreTokenizer(Alphabet alphabet, WholeWords wholeWords, BosDefault bos);

  Status splitPiece(size_t pass, std::string_view text, uint32_t begin,
                    uint32_t end, Scratch &scratch, const OnWord &onWord) const;

  std::vector<Pass> passes_;
  Alphabet alphabet_;
  WholeWords wholeWords_;
  BosDefault bos_;
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_PRETOKENIZER_H
