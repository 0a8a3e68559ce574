#include "compiler/Driver/Ladder.h"

#include "runtime/Verify.h"
#include "runtime/base/ParseSize.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <utility>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
constexpr int64_t kMostTokens = int64_t(1) << 24;

bool isBefore(const LadderRung &a, const LadderRung &b) {
  // Without a limit there is most memory.
  auto key = [](const LadderRung &rung) {
    return std::pair(rung.context, rung.vramLimit
                                       ? rung.vramLimit
                                       : std::numeric_limits<int64_t>::max());
  };
  return key(a) < key(b);
}

StatusOr<LadderRung> parseRung(std::string_view text) {
  size_t at = std::min(text.find('@'), text.size());
  LadderRung rung;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + at, rung.context);
  if (error != std::errc() || end != text.data() + at || rung.context < 1 ||
      rung.context > kMostTokens)
    return Status(
        StatusCode::Usage,
        fmt::format("--ladder: {} is no context of 1 to {} tokens; write "
                    "contexts with commas between, each with or without a "
                    "limit of GPUs' memory, as in 4096,32768@16GiB",
                    moert::quoted(text.substr(0, at)), kMostTokens));
  if (at == text.size())
    return rung;
  auto size = moert::parseSize(text.substr(at + 1));
  if (!size)
    return Status(StatusCode::Usage, "--ladder: " + size.status().message());
  rung.vramLimit = *size;
  return rung;
}

std::string wordOf(const LadderRung &rung) {
  std::string word = std::to_string(rung.context);
  return rung.vramLimit ? word + "@" + moert::sizeWord(uint64_t(rung.vramLimit))
                        : word;
}
} // namespace

StatusOr<std::vector<LadderRung>> parseLadder(std::string_view text) {
  std::vector<LadderRung> ladder;
  for (;;) {
    size_t comma = text.find(',');
    MOE_ASSIGN_OR_RETURN(LadderRung rung, parseRung(text.substr(0, comma)));
    if (std::ranges::find(ladder, rung) != ladder.end())
      return Status(StatusCode::Usage,
                    fmt::format("--ladder: {} is there twice", wordOf(rung)));
    ladder.push_back(rung);
    if (comma == text.npos)
      break;
    text.remove_prefix(comma + 1);
  }
  if (ladder.size() == 1)
    return Status(StatusCode::Usage,
                  fmt::format("--ladder: {} is one rung, which is what --ctx "
                              "is for; give two or more",
                              wordOf(ladder.front())));
  if (ladder.size() > moert::kMaxRungs)
    return Status(StatusCode::Usage,
                  fmt::format("--ladder: has {} rungs, at most {} are allowed",
                              ladder.size(), moert::kMaxRungs));
  std::ranges::sort(ladder, isBefore);
  return ladder;
}

std::string ladderWord(const std::vector<LadderRung> &ladder) {
  std::string text;
  for (const LadderRung &rung : ladder)
    text += (text.empty() ? "" : ",") + wordOf(rung);
  return text;
}

std::string rungName(const std::vector<LadderRung> &ladder, size_t index) {
  const LadderRung &rung = ladder[index];
  std::string name = fmt::format("rung {} of {}, {} tokens", index + 1,
                                 ladder.size(), rung.context);
  return rung.vramLimit
             ? name + " with " + moert::sizeWord(uint64_t(rung.vramLimit)) +
                   " of each GPU"
             : name;
}

std::vector<LadderRung> withoutFrom(std::vector<LadderRung> ladder,
                                    size_t index) {
  LadderRung from = ladder[index];
  std::erase_if(ladder, [&](const LadderRung &rung) {
    return rung.vramLimit == from.vramLimit && rung.context >= from.context;
  });
  return ladder;
}

std::vector<LadderRung> shortened(std::vector<LadderRung> ladder, size_t index,
                                  int64_t context) {
  LadderRung rung{context, ladder[index].vramLimit};
  if (context < ladder[index].context)
    ladder = withoutFrom(std::move(ladder), index);
  ladder.push_back(rung);
  std::ranges::sort(ladder, isBefore);
  ladder.erase(std::unique(ladder.begin(), ladder.end()), ladder.end());
  return ladder;
}

} // namespace moec
