#include "compiler/Driver/CommandLine.h"

#include "compiler/Serialize/WeightsWriter.h"
#include "runtime/base/OptionWord.h"
#include "runtime/base/ShellCommand.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

using moert::OptionInfo;
using moert::OptionKind;
using moert::StatusOr;

namespace moec {

std::string_view nameOf(Emit emit) {
  switch (emit) {
  case Emit::Moe:
    return "moe";
  case Emit::Placed:
    return "placed";
  case Emit::Plan:
    return "plan";
  case Emit::Rules:
    return "rules";
  case Emit::Fb:
    return "fb";
  case Emit::Forecast: // No command asks for a forecast alone.
    return "";
  }
  return "";
}

std::string optionWord(const OptionInfo &, Emit emit) {
  return std::string(nameOf(emit));
}

std::string optionWord(const OptionInfo &,
                       const std::vector<LadderRung> &ladder) {
  return ladderWord(ladder);
}

namespace {
using moec::optionWord;
using moert::optionWord;

/// Returns the values of an option, each of which follows its own copy of the
/// option's name; "" for a flag.
template <class T>
std::vector<std::string> valuesOf(const OptionInfo &info, const T &value) {
  if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return value;
  else if constexpr (std::is_same_v<T, bool>)
    return {""};
  else
    return {optionWord(info, value)};
}

/// Returns the path to record for a file that the plan was made from; "-" for a
/// stream.
StatusOr<std::string> recordedFile(const std::string &path,
                                   const CompileRequest &request) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    return std::string("-");
  return recordedPath(path, planPath(request));
}
} // namespace

std::string planPath(const CompileRequest &request) {
  return request.output.empty() ? "plan.fb" : request.output;
}

namespace {
/// Returns whether `list`, a comma-separated list of names, contains the name.
bool hasName(std::string_view list, std::string_view name) {
  for (size_t at = 0; at < list.size();) {
    size_t end = std::min(list.find(',', at), list.size());
    if (list.substr(at, end - at) == name)
      return true;
    at = end + 1;
  }
  return false;
}

/// Calls `add(info, value)` for every value of every option that the request
/// sets, except options that another set option excludes.
template <class Add>
void visitSetOptions(const CompileRequest &request, Add add) {
  const CompileRequest defaults;
  std::vector<OptionInfo> set;
  visitOptions([&](const OptionInfo &info, auto member) {
    if (request.*member != defaults.*member)
      set.push_back(info);
  });
  auto isExcluded = [&](const OptionInfo &info) {
    return std::ranges::any_of(set, [&](const OptionInfo &other) {
      return hasName(other.excludes, longName(info));
    });
  };
  visitOptions([&](const OptionInfo &info, auto member) {
    if (request.*member != defaults.*member && !isExcluded(info))
      for (const std::string &value : valuesOf(info, request.*member))
        add(info, value);
  });
}
} // namespace

moert::CompileCommand compileCommand(const CompileRequest &request) {
  moert::CompileCommand command{
      .model = request.model, .options = {}, .output = request.output};
  visitSetOptions(request,
                  [&](const OptionInfo &info, const std::string &value) {
                    // RemedyCommand has a member for it.
                    if (longName(info) != longName(options::output))
                      command.options.push_back(
                          {std::string(longName(info)), value, info.kind});
                  });
  return command;
}

bool canRunAgain(const CompileRequest &request) {
  bool readsStream = false;
  visitSetOptions(
      request, [&](const OptionInfo &info, const std::string &value) {
        std::error_code ignored;
        readsStream |= info.kind == OptionKind::Path &&
                       (info.use & moert::kRecorded) &&
                       !std::filesystem::is_regular_file(value, ignored);
      });
  return !readsStream;
}

StatusOr<std::string> recordedOptions(const CompileRequest &request) {
  std::vector<std::string> words;
  moert::Status status;
  visitSetOptions(
      request, [&](const OptionInfo &info, const std::string &value) {
        if (!(info.use & moert::kRecorded))
          return;
        words.push_back(std::string(longName(info)));
        if (info.kind == OptionKind::Flag)
          return;
        StatusOr<std::string> recorded = info.kind == OptionKind::Path
                                             ? recordedFile(value, request)
                                             : StatusOr<std::string>(value);
        if (recorded)
          words.push_back(moert::shellWord(*recorded));
        else
          status = recorded.status();
      });
  MOE_RETURN_IF_ERROR(status);
  return fmt::format("{}", fmt::join(words, " "));
}

} // namespace moec
