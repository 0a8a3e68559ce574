#include "compiler/Driver/RuleDocument.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <string_view>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// Most open brackets: the parser's time per token grows with them.
constexpr int kDeepest = 1000;
/// Mappings that merge mappings that merge ..., and all merged entries: files
/// of people merge one mapping of a few keys.
constexpr int kDeepestMerge = 32;
constexpr size_t kMostMerged = 100000;

constexpr std::string_view kNoBreakSpace = "\xc2\xa0";
constexpr std::string_view kFence = "```";
constexpr std::string_view kTypographicQuotes[] = {
    "\xe2\x80\x98", "\xe2\x80\x99", "\xe2\x80\x9c", "\xe2\x80\x9d"};

std::span<const yaml_node_pair_t> pairsOf(const yaml_node_t &mapping) {
  return {mapping.data.mapping.pairs.start, mapping.data.mapping.pairs.top};
}

bool isPlain(const yaml_node_t &node) {
  return node.type == YAML_SCALAR_NODE &&
         node.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/// The lines of a text, and the indentation of one: spaces, tabs and no-break
/// spaces.
std::vector<std::string_view> linesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}
std::string_view indentOf(std::string_view line) {
  size_t end = 0;
  while (end < line.size()) {
    if (line[end] == ' ' || line[end] == '\t')
      ++end;
    else if (line.substr(end).starts_with(kNoBreakSpace))
      end += kNoBreakSpace.size();
    else
      break;
  }
  return line.substr(0, end);
}
} // namespace

RuleDocument::~RuleDocument() {
  if (loaded_)
    yaml_document_delete(&document_);
}

Status RuleDocument::load(const std::string &text) {
  // Brackets in patterns are balanced, so they do not add up.
  int depth = 0;
  for (char c : text) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth > kDeepest)
      return error(
          1, fmt::format("has more than {} brackets that are open", kDeepest));
  }
  // Characters that copies of web pages contain, and that YAML may misread.
  size_t number = 0;
  for (std::string_view line : linesOf(text)) {
    ++number;
    std::string_view indent = indentOf(line);
    if (line.substr(indent.size()).starts_with(kFence))
      return error(number, fmt::format("begins with {}, which is Markdown: "
                                       "leave such lines out",
                                       kFence));
    for (std::string_view quote : kTypographicQuotes)
      if (line.substr(0, line.find('#')).find(quote) != line.npos)
        return error(number, "has typographic quotes, perhaps of a page that "
                             "it was copied from: write \"");
    if (indent.find(kNoBreakSpace) != indent.npos)
      return error(number, "begins with a no-break space, perhaps of a page "
                           "that it was copied from: YAML is indented by "
                           "spaces");
  }
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser))
    return Status(StatusCode::DoesNotFit, path_ + ": no memory for a parser");
  yaml_parser_set_input_string(
      &parser, reinterpret_cast<const unsigned char *>(text.data()),
      text.size());
  loaded_ = yaml_parser_load(&parser, &document_);
  Status status;
  yaml_document_t next;
  if (!loaded_ || !yaml_parser_load(&parser, &next)) {
    status = parseError(text, parser.problem_mark.line + 1, parser.problem);
  } else {
    if (const Node *more = yaml_document_get_root_node(&next))
      status = error(*more, "begins a second document; put all rules in one");
    yaml_document_delete(&next);
  }
  yaml_parser_delete(&parser);
  return status;
}

/// Explains why a text is not YAML, by what is often wrong.
Status RuleDocument::parseError(const std::string &text, size_t line,
                                const char *problem) const {
  std::vector<std::string_view> lines = linesOf(text);
  for (size_t number = 1; number <= std::min(line, lines.size()); ++number)
    if (indentOf(lines[number - 1]).find('\t') != std::string_view::npos)
      return error(number, "begins with a tab: YAML is indented by spaces");
  std::string why =
      problem ? std::string(problem) : std::string("nothing is in it");
  // A rule has its keys deeper than its dash.
  if (text.find("\n  ") == text.npos && text.find("- match") != text.npos)
    why += "; its indentation is lost, perhaps in a copy: keys are to be "
           "indented below the dash of their rule";
  else if (why.find("'-' indicator") != why.npos)
    why += "; a rule's keys are indented below its dash, as far as \"match\"";
  else if (why.find("unknown escape character") != why.npos)
    why += "; within double quotes a backslash is doubled, as in \"\\\\.\", or "
           "use single quotes, as in '\\.'";
  else if (line <= lines.size() &&
           lines[line - 1].find(kNoBreakSpace) != std::string_view::npos)
    why += "; the line has a no-break space, perhaps of a page that it was "
           "copied from: use spaces";
  return error(line, "is not YAML: " + why);
}

size_t RuleDocument::lineOf(const Node &node) const {
  auto used = usedAs_.find(&node);
  return used == usedAs_.end() ? node.start_mark.line + 1 : used->second;
}

Status RuleDocument::error(size_t line, const std::string &what) const {
  return Status(StatusCode::InvalidFile,
                fmt::format("{}:{}: {}", moert::escaped(path_), line, what));
}

std::optional<std::string> RuleDocument::scalar(const Node &node) {
  if (node.type != YAML_SCALAR_NODE)
    return std::nullopt;
  return std::string(reinterpret_cast<const char *>(node.data.scalar.value),
                     node.data.scalar.length);
}

bool RuleDocument::isNone(const Node &node) {
  static constexpr std::string_view kNones[] = {"",     "~",    "null",
                                                "Null", "NULL", "None"};
  return isPlain(node) &&
         std::ranges::find(kNones, *scalar(node)) != std::end(kNones);
}

StatusOr<std::vector<RuleDocument::Entry>>
RuleDocument::entriesOf(const Node &mapping, const std::string &what) {
  return entriesOf(mapping, what, 0);
}

StatusOr<std::vector<RuleDocument::Entry>>
RuleDocument::entriesOf(const Node &mapping, const std::string &what,
                        int depth) {
  std::vector<Entry> entries;
  Merged own, merged;
  for (const yaml_node_pair_t &pair : pairsOf(mapping)) {
    const Node &key = *node(pair.key);
    const Node *value = node(pair.value);
    const size_t line =
        usedAs_.contains(&mapping) ? lineOf(mapping) : key.start_mark.line + 1;
    std::optional<std::string> name = scalar(key);
    if (!name)
      return error(line, what + " has a key that is no word");
    if (isPlain(key) && *name == "<<") {
      MOE_RETURN_IF_ERROR(merge(*value, line, depth + 1, merged));
      continue;
    }
    Entry entry{*name, value, line};
    if (!own.try_emplace(*name, entry).second)
      return error(line, fmt::format("{}: {} is there twice", what,
                                     moert::printable(*name)));
    // A value that starts before its key is an alias; report it at the key.
    if (value->start_mark.index < key.start_mark.index ||
        usedAs_.contains(&mapping))
      usedAs_[value] = line;
    entries.push_back(std::move(entry));
  }
  for (auto &[name, entry] : merged)
    if (!own.contains(name)) {
      usedAs_[entry.value] = entry.line;
      entries.push_back(entry);
    }
  return entries;
}

/// Adds the entries of the mappings that a "<<" names. Those of an earlier "<<"
/// give way to them.
Status RuleDocument::merge(const Node &value, size_t line, int depth,
                           Merged &into) {
  std::vector<const Node *> mappings;
  if (value.type == YAML_SEQUENCE_NODE)
    for (int item : std::span(value.data.sequence.items.start,
                              value.data.sequence.items.top))
      mappings.push_back(node(item));
  else
    mappings.push_back(&value);
  if (depth > kDeepestMerge)
    return error(line, fmt::format("merges mappings of mappings more than {} "
                                   "deep",
                                   kDeepestMerge));
  Merged found;
  for (const Node *mapping : mappings) {
    if (mapping->type != YAML_MAPPING_NODE)
      return error(line, "\"<<\" merges a mapping, as in <<: *gpu, or a list "
                         "of them");
    MOE_ASSIGN_OR_RETURN(std::vector<Entry> entries,
                         entriesOf(*mapping, "a merged mapping", depth));
    merged_ += entries.size() + 1;
    if (merged_ > kMostMerged)
      return error(line, fmt::format("merges more than {} keys", kMostMerged));
    for (Entry &entry : entries) {
      entry.line = line;
      found.try_emplace(entry.key, entry);
    }
  }
  for (auto &[name, entry] : found)
    into.insert_or_assign(name, entry);
  return Status::ok();
}

} // namespace moec
