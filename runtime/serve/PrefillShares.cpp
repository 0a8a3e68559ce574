#include "runtime/serve/PrefillShares.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace moert {

namespace {
/// Tokens that a prompt gets at a time: few enough for turns within a chunk.
constexpr int32_t kSlice = 32;

class Division {
public:
  explicit Division(const std::vector<PendingPrompt> &prompts)
      : prompts_(prompts), shares_(prompts.size(), 0) {}

  bool wants(size_t i) const { return shares_[i] < prompts_[i].left; }

  /// The clients that want more.
  std::vector<std::string_view> wanting() const {
    std::vector<std::string_view> clients;
    for (size_t i = 0; i < prompts_.size(); ++i)
      if (wants(i) &&
          std::ranges::find(clients, prompts_[i].client) == clients.end())
        clients.push_back(prompts_[i].client);
    return clients;
  }

  /// The client's prompt whose turn it is; it has one that wants more.
  size_t promptOf(std::string_view client, bool shortest) const {
    std::optional<size_t> best;
    for (size_t i = 0; i < prompts_.size(); ++i)
      if (prompts_[i].client == client && wants(i) &&
          (!best || comesBefore(i, *best, shortest)))
        best = i;
    return *best;
  }

  /// Gives a prompt at most `most` more, and returns how many it got.
  int32_t give(size_t i, int32_t most) {
    const int32_t got = std::min(prompts_[i].left - shares_[i], most);
    shares_[i] += got;
    return got;
  }

  /// Avoids short last shares, where `most` is the limit of all shares.
  void avoidShortEnds(int32_t most, FairShare &fair) {
    int32_t room =
        most - std::accumulate(shares_.begin(), shares_.end(), int32_t(0));
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const int32_t rest = prompts_[i].left - shares_[i];
      if (shares_[i] == 0 || rest == 0 || rest >= kPromptEnd)
        continue;
      for (size_t j = 0; j < prompts_.size() && room < rest; ++j)
        room += lend(j, rest - room, fair);
      int32_t change = rest <= room ? rest : rest - kPromptEnd;
      if (shares_[i] + change <= 0)
        change = 0;
      shares_[i] += change;
      room -= change;
      fair.charge(prompts_[i].client, change);
    }
  }

  std::vector<int32_t> shares() && { return std::move(shares_); }

private:
  /// Takes at most `most` from a prompt that is far from its end.
  int32_t lend(size_t i, int32_t most, FairShare &fair) {
    if (prompts_[i].left - shares_[i] < kPromptEnd)
      return 0;
    const int32_t lent = std::min(shares_[i], most);
    shares_[i] -= lent;
    fair.charge(prompts_[i].client, -lent);
    return lent;
  }

  bool comesBefore(size_t i, size_t j, bool shortest) const {
    const PendingPrompt &a = prompts_[i], &b = prompts_[j];
    if (a.priority != b.priority)
      return a.priority > b.priority;
    if (shortest && a.left != b.left)
      return a.left < b.left;
    return a.arrival < b.arrival;
  }

  const std::vector<PendingPrompt> &prompts_;
  std::vector<int32_t> shares_;
};
} // namespace

std::vector<int32_t> dividePrefill(const std::vector<PendingPrompt> &prompts,
                                   int32_t tokens, int32_t most,
                                   FairShare &fair) {
  Division division(prompts);
  // The smaller the chunk, the smaller the slices, so that turns are taken
  // within it.
  const int32_t slice = std::clamp(tokens / 4, 1, kSlice);
  bool shortest = true;
  while (tokens > 0) {
    std::vector<std::string_view> wanting = division.wanting();
    if (wanting.empty())
      break;
    std::string_view client = wanting[fair.next(wanting)];
    const int32_t got = division.give(division.promptOf(client, shortest),
                                      std::min(slice, tokens));
    fair.charge(client, got);
    tokens -= got;
    shortest = !shortest;
  }
  division.avoidShortEnds(most, fair);
  return std::move(division).shares();
}

} // namespace moert
