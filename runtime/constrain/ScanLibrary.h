//===- ScanLibrary.h - What scanners and vocabulary have taught -*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_SCANLIBRARY_H
#define MOE_RUNTIME_CONSTRAIN_SCANLIBRARY_H

#include "runtime/constrain/Scanner.h"
#include "runtime/constrain/TokenTrie.h"

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace moert {

/// The tokens that may follow in the middle of a scanner's text, whatever comes
/// after it and however long it may be.
struct TokenTable {
  /// A bit for each token after which the text goes on.
  std::vector<uint64_t> inside;
  /// The tokens that need the most characters (ScanRun::need), most first.
  struct Need {
    int32_t need, token;
  };
  std::vector<Need> needs;
  /// Tokens that may leave the text, so that only the grammar after it can tell
  /// whether they are allowed: indices of the trie's entries, each with the
  /// number of bytes that it shares with the one before.
  struct Entry {
    uint32_t index, shared;
  };
  std::vector<Entry> leaving;

  size_t bytes() const;
};

/// A scanner's run, and tables of some of its states.
struct LearntScan {
  explicit LearntScan(std::shared_ptr<const Scanner> scanner)
      : scanner(std::move(scanner)), run(this->scanner->run()) {}
  std::shared_ptr<const Scanner> scanner;
  std::unique_ptr<ScanRun> run;
  std::map<ScanState, std::shared_ptr<const TokenTable>> tables;
};

/// Runs of scanners for one vocabulary. Matchers of different grammars share
/// the ones of equal scanners. Threads may share it: who uses a run or a table
/// holds the lock.
class ScanLibrary {
public:
  /// Most bytes of tables. Those of all scanners are dropped when there are
  /// more.
  static constexpr size_t kMostBytes = size_t(96) << 20;
  /// Most scanners that are kept when no matcher uses them.
  static constexpr size_t kMost = 256;

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  // Finds an entry. The caller holds the lock.
  std::shared_ptr<LearntScan> find(const std::shared_ptr<const Scanner> &);
  void keep(LearntScan &scan, const ScanState &state,
            std::shared_ptr<const TokenTable> table);

private:
  std::mutex mutex_;
  /// Keys are hashes.
  std::multimap<uint64_t, std::shared_ptr<LearntScan>> scans_;
  size_t bytes_ = 0;
  /// The limit, which is raised while matchers use more.
  size_t mostNow_ = kMost;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_SCANLIBRARY_H
