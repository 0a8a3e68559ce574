#include "runtime/constrain/ScanLibrary.h"

#include <algorithm>

namespace moert {

size_t TokenTable::bytes() const {
  return inside.size() * sizeof(inside[0]) + needs.size() * sizeof(needs[0]) +
         leaving.size() * sizeof(leaving[0]);
}

std::shared_ptr<LearntScan>
ScanLibrary::find(const std::shared_ptr<const Scanner> &scanner) {
  const uint64_t hash = scanner->hash();
  auto [begin, end] = scans_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->scanner == scanner ||
        it->second->scanner->equals(*scanner)) {
      if (!it->second->run->isFull())
        return it->second;
      scans_.erase(it);
      break;
    }
  if (scans_.size() >= mostNow_) {
    std::erase_if(scans_, [](const auto &entry) {
      return entry.second.use_count() == 1;
    });
    mostNow_ = std::max(kMost, 2 * scans_.size());
  }
  auto made = std::make_shared<LearntScan>(scanner);
  scans_.emplace(hash, made);
  return made;
}

void ScanLibrary::keep(LearntScan &scan, const ScanState &state,
                       std::shared_ptr<const TokenTable> table) {
  bytes_ += table->bytes();
  if (bytes_ > kMostBytes) {
    for (auto &[hash, each] : scans_)
      each->tables.clear();
    bytes_ = table->bytes();
  }
  scan.tables[state] = std::move(table);
}

} // namespace moert
