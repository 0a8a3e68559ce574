// The parts of a series that may be next.
#include "runtime/constrain/Matcher.h"

#include <algorithm>
#include <utility>

namespace moert {

static bool hasVariants(const Automaton::SeriesStates &series) {
  return !series.neededNames.empty();
}

/// Whether some of these is left.
static bool isAnyLeft(const std::vector<int32_t> &variants, const Bits &gone) {
  return std::ranges::any_of(variants, [&](int32_t variant) {
    return !hasBit(gone, size_t(variant));
  });
}

ScanRun &Matcher::runOf(const Way &way) {
  const Automaton::State &state = (*automaton_)[way.state];
  ScanRun &run = scanRun(state.scan);
  if (state.turn == Automaton::Turn::Name)
    run.leaveOut(&closedNames(state.series, frames_[size_t(way.frame)].data));
  return run;
}

int32_t Matcher::keep(Seen seen) {
  const uint64_t hash = seen.hash();
  auto [begin, end] = seenIds_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (seen_[size_t(it->second)] == seen)
      return -it->second;
  const auto id = int32_t(seen_.size());
  seenIds_.emplace(hash, id);
  seen_.push_back(std::move(seen));
  return -id;
}

/// Returns the data of a series after another part: an entry, whose number is
/// that of its name if it has one, or one of the rest.
int32_t Matcher::seenWith(const Automaton::SeriesStates &series, int32_t data,
                          std::optional<size_t> entry) {
  auto counted = [&](int32_t count, int32_t enough) {
    return series.most == Expr::kUnbounded ? std::min(count + 1, enough)
                                           : count + 1;
  };
  if (!series.isAnyOrder)
    return counted(data,
                   std::max(series.least, int32_t(series.entries.size())));
  Seen seen = seenOf(data);
  seen.count = counted(seen.count, series.least);
  if (entry) {
    setBit(seen.bits, *entry);
    seen.required += !series.isRequired.empty() && series.isRequired[*entry];
    if (!series.names.empty())
      seen.name = int32_t(*entry);
  }
  return keep(std::move(seen));
}

/// Keeps only some variants. Returns whether any of these is left.
bool Matcher::leaveVariants(const Automaton::SeriesStates &series,
                            const std::vector<int32_t> &left, Seen &seen) {
  Bits gone;
  for (int32_t variant : left)
    if (!hasBit(seen.gone, size_t(variant)))
      setBit(gone, size_t(variant));
  const bool isAnyLeft = !gone.empty();
  gone.resize((series.neededNames.size() + 63) / 64, 0);
  for (uint64_t &word : gone)
    word = ~word;
  seen.gone = std::move(gone);
  return isAnyLeft;
}

/// Whether there is a variant that has all entries that were read, and needs no
/// others.
bool Matcher::fitsVariant(const Automaton::SeriesStates &series,
                          const Seen &seen) const {
  for (size_t i = 0; i < series.neededNames.size(); ++i)
    if (!hasBit(seen.gone, i) &&
        std::ranges::all_of(series.neededNames[i], [&](int32_t name) {
          return hasBit(seen.bits, size_t(name));
        }))
      return true;
  return false;
}

/// The names that may not come next.
const Bits &Matcher::closedNames(int32_t index, int32_t data) {
  const Automaton::SeriesStates &series = automaton_->series(index);
  const Seen &seen = seenOf(data);
  // If there is no room for others, all remaining required entries must come.
  const int32_t missing = series.required - seen.required;
  if (!hasVariants(series) &&
      (series.most == Expr::kUnbounded || missing < series.most - seen.count))
    return seen.bits;
  auto [it, isNew] = closedNames_.try_emplace({index, data});
  if (!isNew)
    return it->second;
  Bits open;
  auto [first, last] = std::pair(series.nameOf.begin(), series.nameOf.begin());
  for (int32_t name = 0; name < series.nameCount; ++name) {
    first =
        std::exchange(last, std::find_if(last, series.nameOf.end(),
                                         [&](int32_t n) { return n != name; }));
    if (hasBit(seen.bits, size_t(name)))
      continue;
    bool isOpen = false;
    for (auto each = first; each != last && !isOpen; ++each) {
      const auto entry = size_t(each - series.nameOf.begin());
      isOpen = hasVariants(series)
                   ? isAnyLeft(series.variantsOf[entry], seen.gone)
                   : !series.isRequired.empty() && series.isRequired[entry];
    }
    if (!isOpen && !series.variantsOfRest.empty()) {
      const Bits gone = variantsWith(series, name, seen.gone);
      isOpen =
          std::ranges::any_of(series.variantsOfRest, [&](const auto &variants) {
            return isAnyLeft(variants, gone);
          });
    }
    if (isOpen)
      setBit(open, size_t(name));
  }
  work_ += series.nameOf.size();
  open.resize((size_t(series.nameCount) + 63) / 64, 0);
  for (uint64_t &word : open)
    word = ~word;
  return it->second = std::move(open);
}

/// Variants that are gone, and those that have entries of a name.
Bits Matcher::variantsWith(const Automaton::SeriesStates &series, int32_t name,
                           const Bits &gone) {
  Bits all = gone;
  auto [first, last] = std::ranges::equal_range(series.nameOf, name);
  for (auto it = first; it != last; ++it)
    for (int32_t variant :
         series.variantsOf[size_t(it - series.nameOf.begin())])
      setBit(all, size_t(variant));
  return all;
}

void Matcher::callPart(const Automaton::SeriesStates &series, Frame own,
                       int32_t data, Automaton::StateId part,
                       const Follow &follow) {
  own.data = data;
  follow(wayTo(part, frame({.followUp = series.next, .parent = frame(own)})));
}

void Matcher::followSeries(const Way &way, const Automaton::State &state,
                           const Follow &follow,
                           const std::function<void(FrameId)> &leave) {
  using Turn = Automaton::Turn;
  const Automaton::SeriesStates &series = automaton_->series(state.series);
  if (state.turn == Turn::Entry) {
    followEntries(way, series, follow);
    return;
  }
  const Frame own = frames_[size_t(way.frame)];
  const bool isAny = series.isAnyOrder;
  const int32_t count = isAny ? seenOf(own.data).count : own.data;
  const int32_t missing =
      isAny ? series.required - seenOf(own.data).required : 0;
  if (state.turn != Turn::Part && count >= series.least && missing == 0 &&
      (!hasVariants(series) || fitsVariant(series, seenOf(own.data))))
    leave(way.frame);
  const int32_t room =
      series.most == Expr::kUnbounded ? INT32_MAX : series.most - count;
  if (room <= 0)
    return;
  const size_t entries = series.entries.size();
  const bool hasNames = !series.names.empty();
  // The entries that may come, if any order is allowed.
  auto mayCome = [&](size_t i) {
    if (hasBit(seenOf(own.data).bits, i))
      return false;
    const bool isRequired = !series.isRequired.empty() && series.isRequired[i];
    return isRequired || missing < room;
  };
  auto restMayCome = [&](size_t i) {
    if (hasVariants(series))
      return isAnyLeft(series.variantsOfRest[i], seenOf(own.data).gone);
    return isAny ? missing < room : size_t(count) >= entries;
  };
  bool hasRest = false;
  for (size_t i = 0; i < series.rest.size() && !hasRest; ++i)
    hasRest = restMayCome(i);
  const bool hasName =
      hasNames && !areAllSet(closedNames(state.series, own.data), 0,
                             size_t(series.nameCount));
  work_ += (entries + series.neededNames.size()) / 16;
  if (state.turn == Turn::Next) {
    bool hasMore = hasRest || hasName || (!isAny && size_t(count) < entries);
    for (size_t i = 0; isAny && !hasNames && i < entries && !hasMore; ++i)
      hasMore = mayCome(i);
    if (hasMore)
      follow(wayTo(series.separator, way.frame));
    return;
  }
  if (!isAny && size_t(count) < entries)
    callPart(series, own, seenWith(series, own.data, std::nullopt),
             series.entries[size_t(count)], follow);
  for (size_t i = 0; isAny && !hasNames && i < entries; ++i)
    if (mayCome(i))
      callPart(series, own, seenWith(series, own.data, i), series.entries[i],
               follow);
  if (hasName)
    for (Automaton::StateId name : series.names)
      follow(wayTo(name, way.frame));
  for (size_t i = 0; i < series.rest.size(); ++i) {
    if (!restMayCome(i))
      continue;
    int32_t data = seenWith(series, own.data, std::nullopt);
    if (hasVariants(series)) {
      Seen next = seenOf(data);
      leaveVariants(series, series.variantsOfRest[i], next);
      data = keep(std::move(next));
    }
    callPart(series, own, data, series.rest[i], follow);
  }
}

/// Goes on after a name.
void Matcher::followName(const Way &way, const Automaton::State &state,
                         const Follow &follow) {
  const Automaton::SeriesStates &series = automaton_->series(state.series);
  const size_t name = scanRun(state.scan).textAt(way.scan);
  Frame own = frames_[size_t(way.frame)];
  own.data = seenWith(series, own.data, name);
  follow(wayTo(series.afterName, frame(own)));
}

/// Goes on with the entries of the name that was read.
void Matcher::followEntries(const Way &way,
                            const Automaton::SeriesStates &series,
                            const Follow &follow) {
  const Frame own = frames_[size_t(way.frame)];
  const Seen seen = [&] {
    Seen after = seenOf(own.data);
    after.name = -1;
    return after;
  }();
  const int32_t name = seenOf(own.data).name;
  auto call = [&](Seen next, Automaton::StateId part) {
    work_ += next.gone.size();
    callPart(series, own, keep(std::move(next)), part, follow);
  };
  auto [first, last] = std::ranges::equal_range(series.nameOf, name);
  for (auto it = first; it != last; ++it) {
    const auto entry = size_t(it - series.nameOf.begin());
    Seen next = seen;
    if (!hasVariants(series) ||
        leaveVariants(series, series.variantsOf[entry], next))
      call(std::move(next), series.entries[entry]);
  }
  if (series.restAfterName.empty())
    return;
  const Bits gone = variantsWith(series, name, seen.gone);
  for (size_t i = 0; i < series.restAfterName.size(); ++i) {
    Seen next = seen;
    next.gone = gone;
    if (leaveVariants(series, series.variantsOfRest[i], next))
      call(std::move(next), series.restAfterName[i]);
  }
}

} // namespace moert
