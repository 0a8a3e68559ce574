#include "runtime/chat/FreeText.h"

#include "runtime/base/Utf8.h"
#include "runtime/chat/Speech.h"
#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace moert {

namespace {
/// Stand for control tokens among code points, of which this is the first that
/// does not exist.
constexpr uint32_t kFirstControl = 0x110000;

/// The code points of a text that is UTF-8.
std::vector<uint32_t> codePoints(std::string_view text) {
  std::vector<uint32_t> points;
  while (!text.empty()) {
    const Utf8Unit unit = nextUtf8(text.substr(0, 4));
    points.push_back(unit.kind == Utf8Kind::Valid
                         ? decodeUtf8(text.data(), unit.length)
                         : 0xFFFD);
    text.remove_prefix(unit.length);
  }
  return points;
}

/// The automaton of Aho and Corasick ("Efficient string matching", 1975): a
/// node is the longest beginning of a pattern that the text ends with.
class Patterns {
public:
  explicit Patterns(const std::vector<std::vector<uint32_t>> &patterns) {
    nodes_.emplace_back();
    for (const std::vector<uint32_t> &pattern : patterns) {
      size_t at = 0;
      for (uint32_t c : pattern) {
        alphabet_.insert(c);
        auto [next, isNew] = nodes_[at].next.try_emplace(c, nodes_.size());
        const size_t to = next->second;
        if (isNew)
          nodes_.emplace_back();
        at = to;
      }
      nodes_[at].isEnd = true;
    }
    std::vector<size_t> open = {0};
    for (size_t i = 0; i < open.size(); ++i) {
      const size_t from = open[i];
      for (auto [c, to] : nodes_[from].next) {
        nodes_[to].shorter = from == 0 ? 0 : step(nodes_[from].shorter, c);
        nodes_[to].isEnd |= nodes_[nodes_[to].shorter].isEnd;
        open.push_back(to);
      }
    }
  }

  size_t step(size_t from, uint32_t c) const {
    for (;; from = nodes_[from].shorter) {
      if (auto it = nodes_[from].next.find(c); it != nodes_[from].next.end())
        return it->second;
      if (from == 0)
        return 0;
    }
  }
  size_t size() const { return nodes_.size(); }
  bool isEnd(size_t node) const { return nodes_[node].isEnd; }
  const std::set<uint32_t> &alphabet() const { return alphabet_; }

private:
  struct Node {
    std::map<uint32_t, size_t> next = {};
    size_t shorter = 0;
    bool isEnd = false;
  };
  std::vector<Node> nodes_;
  std::set<uint32_t> alphabet_;
};

/// A control token with another name than these.
ExprId otherControl(Grammar &grammar, const std::set<std::string> &names) {
  struct Node {
    std::map<uint32_t, Node> next;
    bool isName = false;
  };
  Node root;
  for (const std::string &name : names) {
    Node *node = &root;
    for (uint32_t c : codePoints(name))
      node = &node->next[c];
    node->isName = true;
  }
  const ExprId close = grammar.bytes(std::string(1, kControlClose));
  auto rest = [&](auto &self, const Node &node) -> ExprId {
    CharSet known;
    std::vector<ExprId> ways;
    if (!node.isName)
      ways.push_back(close);
    for (const auto &[c, next] : node.next) {
      known.add(CharSet::only(c));
      ways.push_back(grammar.sequence(
          {grammar.chars(CharSet::only(c)), self(self, next)}));
    }
    ways.push_back(grammar.sequence(
        {grammar.chars(known.complement()),
         grammar.repeat(grammar.chars(CharSet::all()), 0, Expr::kUnbounded),
         close}));
    return grammar.choice(std::move(ways));
  };
  return grammar.sequence(
      {grammar.bytes(std::string(1, kControlOpen)), rest(rest, root)});
}
} // namespace

ExprId textWithout(Grammar &grammar, const std::string &name,
                   const std::vector<std::string_view> &marks,
                   const FreeTextOptions &options) {
  std::vector<std::string> controls;
  std::vector<std::vector<uint32_t>> texts;
  for (std::string_view mark : marks) {
    mark = withoutBlanks(mark);
    if (mark.empty())
      continue;
    // A mark ends with its first control token here: nothing else has it.
    const size_t text = std::min(mark.find(kControlOpen), mark.size());
    texts.push_back(codePoints(mark.substr(0, text)));
    if (text == mark.size())
      continue;
    mark.remove_prefix(text + 1);
    const std::string name(mark.substr(0, mark.find(kControlClose)));
    auto known = std::ranges::find(controls, name);
    texts.back().push_back(kFirstControl + uint32_t(known - controls.begin()));
    if (known == controls.end())
      controls.push_back(name);
  }
  const Patterns patterns(texts);
  std::optional<ExprId> otherControls;
  if (options.hasControls)
    otherControls = otherControl(grammar, {controls.begin(), controls.end()});
  std::vector<RuleId> rules;
  for (size_t i = 0; i < patterns.size(); ++i)
    rules.push_back(grammar.declare(name + "-" + std::to_string(i)));
  for (size_t i = 0; i < patterns.size(); ++i) {
    CharSet others = CharSet::all();
    std::map<size_t, CharSet> steps;
    std::vector<ExprId> ways = {grammar.empty()};
    auto go = [&](ExprId read, size_t to) {
      ways.push_back(grammar.sequence({read, grammar.rule(rules[to])}));
    };
    for (uint32_t c : patterns.alphabet()) {
      const size_t to = patterns.step(i, c);
      if (c >= kFirstControl) {
        if (options.hasControls && !patterns.isEnd(to))
          go(grammar.bytes(controlBytes(controls[c - kFirstControl])), to);
      } else if (to != 0) {
        others = others.without(CharSet::only(c));
        if (!patterns.isEnd(to))
          steps[to].add(CharSet::only(c));
      }
    }
    for (const auto &[to, set] : steps)
      go(grammar.chars(set), to);
    go(grammar.chars(others), 0);
    if (otherControls)
      go(*otherControls, 0);
    grammar.define(rules[i], grammar.choice(std::move(ways)));
  }
  return grammar.rule(rules[0]);
}

} // namespace moert
