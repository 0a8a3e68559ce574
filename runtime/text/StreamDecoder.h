//===- StreamDecoder.h - Tokens to displayable text, as they come -*- C++
//-*-===//

#ifndef MOE_RUNTIME_TEXT_STREAMDECODER_H
#define MOE_RUNTIME_TEXT_STREAMDECODER_H

#include "runtime/base/Status.h"
#include "runtime/text/Tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Watches a stream of bytes for any of several strings. All of them are
/// followed at once by the Knuth-Morris-Pratt method, so the result does not
/// depend on how the stream is cut into pieces.
class StopMatcher {
public:
  /// Fails with Usage for an empty string.
  static StatusOr<StopMatcher> create(const std::vector<std::string> &stops);

  /// Takes bytes and returns those that no stop string can contain any more;
  /// the last ones are held back while they may be the start of a stop string.
  /// At the first stop string to be complete (of several that end together the
  /// longest) the stream ends: the stop string and all after it are dropped.
  std::string push(std::string_view bytes);
  /// The end of the stream: returns what was held back.
  std::string finish();

  /// The index of the stop string that ended the stream, or -1.
  int stoppedBy() const { return stoppedBy_; }

private:
  struct Pattern {
    std::string text;
    /// For each prefix length, the longest proper prefix of the pattern that
    /// is also a suffix of that prefix.
    std::vector<size_t> borders;
    size_t matched = 0;

    explicit Pattern(std::string text);
    void advance(char byte);
  };

  std::vector<Pattern> patterns_;
  std::string held_; ///< As long as the longest prefix of a pattern matched.
  int stoppedBy_ = -1;
};

/// Makes valid UTF-8 of a stream of bytes. A sequence that is not complete yet
/// is held back; each maximal subpart of an ill-formed one becomes one U+FFFD.
class Utf8Stream {
public:
  std::string push(std::string_view bytes);
  std::string finish();

private:
  std::string held_; ///< The at most 3 bytes of an incomplete sequence.
};

/// Turns generated tokens into text to show: never a part of a character, and
/// nothing of a stop string. The text of all push() calls and finish(),
/// joined, does not depend on where the tokens' boundaries are.
class StreamDecoder {
public:
  /// `tokenizer` must outlive the decoder. Fails with Usage for an empty stop
  /// string.
  static StatusOr<StreamDecoder>
  create(const Tokenizer &tokenizer, const std::vector<std::string> &stops = {},
         bool showControl = false);

  /// The text that `id` makes certain. Control tokens have none, unless
  /// `showControl` asked for their names. After a stop
  /// string nothing more comes.
  std::string push(int32_t id);
  /// The rest, once no more tokens come; an incomplete character is U+FFFD.
  std::string finish();

  /// Whether a stop string was seen: generation should end.
  bool stopped() const { return stops_.stoppedBy() >= 0; }
  /// The index of that stop string, or -1.
  int stoppedBy() const { return stops_.stoppedBy(); }

private:
  StreamDecoder(const Tokenizer &tokenizer, StopMatcher stops, bool showControl)
      : tokenizer_(&tokenizer), stops_(std::move(stops)),
        showControl_(showControl) {}

  const Tokenizer *tokenizer_;
  StopMatcher stops_;
  bool showControl_;
  Utf8Stream utf8_;
};

} // namespace moert

#endif // MOE_RUNTIME_TEXT_STREAMDECODER_H
