//===- OpPattern.h - Ops as a person names them -----------------*- C++ -*-===//
//
// "blk.3.ffn_experts", a label as the reports print it; "blk.0-2,5.attn_q" and
// "blk.0..26.attn_q", labels of several layers as they print them; the globs
// of --place, as in "blk.*.attn_*"; and pieces of these, as in "experts".
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_EXPLAIN_OPPATTERN_H
#define MOE_COMPILER_EXPLAIN_OPPATTERN_H

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moec {

/// Returns whether `text` matches a shell's pattern with *, ?, [a-z], [!a] and
/// {a,b}. A bracket or brace without its end stands for itself. The cost is
/// bounded: what is too costly to try does not match.
bool matchesGlob(std::string_view pattern, std::string_view text);

class OpPattern {
public:
  explicit OpPattern(std::string_view text);

  enum class Match {
    None,
    Part,  ///< The pattern names a piece of the op's name.
    Whole, ///< It names the op, or what the op is a slice of.
  };
  /// `layer` is -1 outside of layers.
  Match match(std::string_view part, int layer) const;

private:
  bool hasLayer(int layer) const;

  /// What follows the layer; the whole text if it names none.
  std::string_view part_;
  std::string_view text_;
  bool namesLayer_ = false;
  std::vector<std::pair<int, int>> ranges_; ///< Of layers; empty for a glob.
  std::string_view layerGlob_;
};

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_OPPATTERN_H
