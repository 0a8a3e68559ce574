#include "tools/moert/CompileFlags.h"

#include "compiler/Options/OptionTable.h"
#include "runtime/base/OptionWord.h"
#include "runtime/base/Text.h"
#include "tools/common/Options.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fmt/format.h>

namespace moert {

namespace {
/// The rows of moec's table, in its order.
constexpr OptionInfo kCompileOptions[] = {
#define MOE_OPTION(field, Type, fallback, ...) moec::options::field,
#include "compiler/Options/Options.def"
};

/// Parses a value as moec will, so that what it would refuse is refused before
/// anything is compiled.
Status checkValue(const OptionInfo &info, const std::string &text) {
  std::string word;
  int64_t number = 0;
  float real = 0;
  std::vector<int32_t> numbers;
  switch (info.kind) {
  case OptionKind::Word:
    return parseOption(info, text, word);
  case OptionKind::Number:
  case OptionKind::Size:
    return parseOption(info, text, number);
  case OptionKind::Real:
    return parseOption(info, text, real);
  case OptionKind::Numbers:
    return parseOption(info, text, numbers);
  case OptionKind::Path:
    if (text != "-" && !std::filesystem::exists(text))
      return Status(StatusCode::Io,
                    fmt::format("{}: no such file", clipped(text)));
    return Status::ok();
  default:
    return Status::ok();
  }
}

/// Returns the names of `info` that the command does not have, "" if it has the
/// long one.
std::string freeNames(const CLI::App &command, const OptionInfo &info) {
  auto isFree = [&](std::string_view name) {
    return !command.get_option_no_throw(std::string(name));
  };
  if (!isFree(longName(info)))
    return "";
  std::string names;
  for (std::string_view rest = info.names; !rest.empty();) {
    std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    if (isFree(name))
      names += (names.empty() ? "" : ",") + std::string(name);
  }
  return names;
}
} // namespace

void CompileFlags::add(CLI::App &command) {
  std::string all;
  for (const OptionInfo &info : kCompileOptions) {
    const std::string names = freeNames(command, info);
    if (names.empty() || !(info.use & (kRecorded | kPredicts)))
      continue;
    OptionInfo row = info;
    row.names = names;
    // moec itself checks which options go together.
    row.needs = row.excludes = "";
    CLI::Option *option =
        info.kind == OptionKind::Flag
            ? moetool::addFlag(command, row,
                               [this, info] {
                                 given_.push_back({info, ""});
                               })
            : moetool::addReader(command, row,
                                 [this, info](const std::string &text) {
                                   given_.push_back({info, text});
                                   return checkValue(info, text);
                                 });
    option->group(""); // Hides the option from the list.
    const std::string_view name = longName(info);
    constexpr size_t mostColumns = 98;
    const bool isFull = all.size() - (all.rfind('\n') + 1) + name.size() >
                        mostColumns; // At the first place, npos + 1 is 0.
    all += (all.empty() ? "" : isFull ? "\n" : " ") + std::string(name);
  }
  // A command without a footer has that of the tool.
  std::string footer = command.get_footer();
  if (footer == command.get_parent()->get_footer())
    footer.clear();
  moetool::addFooter(
      command,
      (footer.empty() ? "" : footer + "\n\n") +
          "A GGUF file is compiled for this machine first, once for each set "
          "of these options of moec\ncompile (moec compile --help has them; "
          "moert plans lists what is kept):\n" +
          all +
          "\n\nmoert help --other-tools has the options of llama.cpp, "
          "ik_llama.cpp and KTransformers.");
}

std::vector<std::string> CompileFlags::words() const {
  std::vector<std::string> words;
  for (const Given &given : given_) {
    words.emplace_back(longName(given.info));
    if (given.info.kind != OptionKind::Flag)
      words.push_back(given.value);
  }
  return words;
}

std::string CompileFlags::key() const {
  std::string key;
  for (const Given &given : given_) {
    key += fmt::format("{}\n{}\n", longName(given.info), given.value);
    std::string_view path = given.value;
    if (path.starts_with('@'))
      path.remove_prefix(1);
    else if (given.info.kind != OptionKind::Path)
      continue;
    std::error_code error;
    key += fmt::format("{} {}\n", std::filesystem::file_size(path, error),
                       std::filesystem::last_write_time(path, error)
                           .time_since_epoch()
                           .count());
  }
  return key;
}

} // namespace moert
