//===- Scanner.h - Reads a text or a number byte by byte --------*- C++ -*-===//
//
// What a string or a number may be is too much for states that a grammar
// writes out: lengths up to a million, several patterns, every spelling of a
// character. A scanner is asked instead, byte by byte, whether its text can
// still become valid.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CONSTRAIN_SCANNER_H
#define MOE_RUNTIME_CONSTRAIN_SCANNER_H

#include "runtime/constrain/TextList.h"

#include <compare>
#include <cstdint>
#include <memory>

namespace moert {

/// The place of a scanner in its text; only the scanner knows what the numbers
/// mean.
struct ScanState {
  int32_t at = 0;
  uint32_t inside = 0;
  int32_t count = 0;
  auto operator<=>(const ScanState &) const = default;
};

/// A scanner that reads, and learns states on the way. Not for several threads;
/// any number of texts may be read at the same time.
class ScanRun {
public:
  virtual ~ScanRun();
  virtual ScanState start() const = 0;
  /// Takes a byte. Returns false if no text goes on like this.
  virtual bool next(ScanState &state, uint8_t byte) = 0;
  /// Whether the text may end here.
  virtual bool canEnd(const ScanState &state) = 0;
  /// Whether it may go on.
  virtual bool goesOn(const ScanState &state) = 0;

  /// For a scanner of a list: its texts whose bit is set are not read from now
  /// on; null: all are. The bits must live until the next call of this
  /// function.
  virtual void leaveOut(const Bits *) {}
  /// For a scanner of a list: the index of the text that has been read, where
  /// it may end.
  virtual size_t textAt(const ScanState &) { return 0; }

  /// Whether it learns states. Otherwise work() is 0 and isFull() false.
  virtual bool learns() const { return false; }
  /// A measure of the work so far.
  virtual uint64_t work() const { return 0; }
  /// Whether it has learnt more states than it may: what it says then is no
  /// use.
  virtual bool isFull() const { return false; }

  /// Whether so many bytes may follow that it pays to remember which tokens
  /// do.
  virtual bool isDense(const ScanState &) { return false; }
  /// Returns the state without its limits of length, for nextUnlimited().
  virtual ScanState unlimited(const ScanState &state) const { return state; }
  /// Does what next() does, without limits of length.
  virtual bool nextUnlimited(ScanState &state, uint8_t byte) {
    return next(state, byte);
  }
  /// For a state that unlimited() and nextUnlimited() led to: how many
  /// characters are read until the shortest text from there ends; -1: only
  /// next() can tell whether it is within limits.
  virtual int32_t need(const ScanState &) { return -1; }
  /// The most that may be needed; -1: no limit.
  virtual int32_t room(const ScanState &) { return -1; }
};

/// Immutable; threads may share it.
class Scanner {
public:
  virtual ~Scanner();
  virtual std::unique_ptr<ScanRun> run() const = 0;
  /// Whether the empty text is one that it reads.
  virtual bool readsEmpty() const { return false; }
  /// Whether both read the same texts.
  virtual bool equals(const Scanner &other) const = 0;
  /// Equal for scanners that are equal.
  virtual uint64_t hash() const = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_SCANNER_H
