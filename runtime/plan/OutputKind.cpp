#include "runtime/plan/OutputKind.h"

#include "runtime/base/InputFile.h"
#include "runtime/schema/WeightsFile.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <vector>

namespace moert {

namespace {
/// Number of bytes that suffice to tell a file's kind: a conversation may have
/// a long list of tools before its messages.
constexpr uint64_t kStartBytes = uint64_t(1) << 20;

//===----------------------------------------------------------------------===//
// Binary files
//===----------------------------------------------------------------------===//

bool isPlan(std::string_view start) {
  // The file identifier of plan.fbs.
  return start.size() >= 8 && start.substr(4, 4) == "MOEP";
}
bool isWeights(std::string_view start) {
  return start.starts_with(kWeightsMagic);
}
bool isArray(std::string_view start) { return start.starts_with("\x93NUMPY"); }
bool isSession(std::string_view start) { return start.starts_with("MOERTSEQ"); }
bool isModel(std::string_view start) { return start.starts_with("GGUF"); }

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

bool isRules(std::string_view start) { return start.starts_with(kRulesHeader); }
bool isRemarks(std::string_view start) {
  return start.starts_with(kRemarksHeader);
}
bool isPage(std::string_view start) {
  return start.substr(0, 4096).find(kPageMark) != start.npos;
}

/// Returns whether a line defines an alias of an attribute or a type: "#a =
/// ..." or "!t = ...".
bool isAlias(std::string_view line) {
  if (!line.starts_with('#') && !line.starts_with('!'))
    return false;
  size_t end = 1;
  while (end < line.size() &&
         (std::isalnum(static_cast<unsigned char>(line[end])) ||
          std::string_view("_.$").find(line[end]) != line.npos))
    ++end;
  return end > 1 && line.substr(end).starts_with(" = ");
}

/// Returns whether a line begins one of the ops that are outermost in IR text,
/// such as "module {", "module @name" or "builtin.module"(). The name alone
/// does not suffice, because other text has such words, too.
bool isOutermostOp(std::string_view line) {
  for (std::string_view op :
       {"module", "builtin.module", "\"builtin.module\"", "plan.program",
        "\"plan.program\"", "func.func", "\"func.func\""}) {
    if (!line.starts_with(op))
      continue;
    std::string_view rest = line.substr(op.size());
    bool isApart = rest.starts_with(' ');
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (op.starts_with('"') ? rest.starts_with('(') || rest.starts_with('<')
                            : rest.starts_with('{'))
      return true;
    for (std::string_view next : {"@", "attributes {", "private @", "public @"})
      if (isApart && rest.starts_with(next))
        return true;
  }
  return false;
}

/// Decides by the first line that is not a comment.
bool isIrText(std::string_view start) {
  if (start.starts_with("ML\xefR"))
    return true; // The beginning of MLIR bytecode.
  while (!start.empty()) {
    size_t end = std::min(start.find('\n'), start.size());
    std::string_view line = start.substr(0, end);
    start.remove_prefix(std::min(end + 1, start.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty() || line.starts_with("//"))
      continue;
    return isAlias(line) || isOutermostOp(line);
  }
  return false;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// Keys of the outermost JSON object, or of the objects in an outermost list.
struct JsonOutline {
  bool isList = false;
  std::vector<std::string> keys;
  std::string kind; ///< The string value of the key "kind".

  bool has(std::string_view key) const {
    return std::ranges::find(keys, key) != keys.end();
  }
};

/// Parses the start of a text as far as it goes.
JsonOutline outlineOf(std::string_view start) {
  using Json = nlohmann::json;
  JsonOutline outline;
  size_t first = start.find_first_not_of(" \t\r\n");
  if (first == start.npos || (start[first] != '{' && start[first] != '['))
    return outline;
  outline.isList = start[first] == '[';
  const int depth = outline.isList ? 2 : 1;
  constexpr int deepest = 64; // Deeper values are skipped.
  std::string last;
  auto see = [&](int level, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::key && level == depth)
      outline.keys.push_back(last = parsed.get<std::string>());
    if (event == Json::parse_event_t::value && level == depth &&
        last == "kind" && parsed.is_string())
      outline.kind = parsed.get<std::string>();
    return level < deepest;
  };
  // Truncated text has no value; the keys seen before its end count.
  [[maybe_unused]] Json whole =
      Json::parse(start, see, /*allow_exceptions=*/false);
  return outline;
}

bool isRouterProfile(std::string_view start) {
  JsonOutline outline = outlineOf(start);
  return !outline.isList && outline.kind == "moert router profile";
}
bool isTarget(std::string_view start) {
  JsonOutline outline = outlineOf(start);
  return !outline.isList && outline.has("devices") &&
         std::ranges::all_of(outline.keys, [](const std::string &key) {
           return key == "devices" || key == "name";
         });
}
bool isTrace(std::string_view start) {
  JsonOutline outline = outlineOf(start);
  return !outline.isList && outline.has("traceEvents");
}
bool isConversation(std::string_view start) {
  JsonOutline outline = outlineOf(start);
  return outline.has(outline.isList ? "role" : "messages");
}

struct Kind {
  OutputKind kind;
  std::string_view name;
  bool (*test)(std::string_view start);
  bool streams;
};

constexpr Kind kinds[] = {
#define MOE_OUTPUT_KIND(kind, name, test, streams)                             \
  {OutputKind::kind, name, test, streams},
#include "runtime/plan/OutputKinds.def"
#undef MOE_OUTPUT_KIND
};
} // namespace

std::string_view nameOf(OutputKind kind) { return kinds[size_t(kind)].name; }

bool mayStream(OutputKind kind) { return kinds[size_t(kind)].streams; }

std::optional<OutputKind> kindOf(std::string_view start) {
  for (const Kind &kind : kinds)
    if (kind.test(start))
      return kind.kind;
  return std::nullopt;
}

StatusOr<ExistingFile> existingFileAt(const std::string &path) {
  MOE_ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  std::string start(std::min(file.size(), kStartBytes), '\0');
  MOE_RETURN_IF_ERROR(file.readAt(0, start.data(), start.size()));
  return ExistingFile{start.empty(), kindOf(start)};
}

} // namespace moert
