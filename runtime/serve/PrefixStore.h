//===- PrefixStore.h - Evaluated texts in a folder --------------*- C++ -*-===//
//
// Keeps sequences in files (Sequence::save), so that a text need not be
// evaluated again after a restart. A file is named after its plan, the group of
// clients that may find it (GenerationRequest::group) and its tokens:
//
//   <fingerprint of the plan>-<hash of group and tokens>.moeseq
//
// Only the user of the process can read files and folder.
// Files appear complete or not at all, are checked by a hash when they are
// read, and are removed if they are damaged. Those that were used longest ago
// are removed so that all together stay below a limit. Several processes may
// share a folder.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_PREFIXSTORE_H
#define MOE_RUNTIME_SERVE_PREFIXSTORE_H

#include "runtime/engine/Engine.h"
#include "runtime/serve/FileWriter.h"
#include "runtime/serve/PrefixReader.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// An object must not be used by several threads at the same time.
class PrefixStore {
public:
  /// Creates the folder, if it does not exist, and reads what it holds.
  /// `engine` must outlive the store. Fails with Io, also if other users can
  /// read the folder and it is not the store's own (privateFolder()).
  /// `onRead` is called on another thread when takeRead() has something to
  /// take; it may be null.
  static StatusOr<std::unique_ptr<PrefixStore>>
  open(Engine &engine, std::string folder, uint64_t maxBytes,
       std::function<void()> onRead = nullptr);

  /// Returns how many of the first tokens of `text` a file holds, but for the
  /// last one, whose logits are wanted.
  int32_t find(std::span<const int32_t> text, const std::string &group) const;
  /// Pages that the sequence from restore() takes.
  int32_t pagesToRestore(std::span<const int32_t> text,
                         const std::string &group) const;
  /// Returns a sequence with the tokens that find() counted. Fails as
  /// Engine::restore() does; then the file is forgotten and, if it is damaged,
  /// removed.
  StatusOr<Sequence> restore(std::span<const int32_t> text,
                             const std::string &group,
                             SequenceOptions options = {});

  /// Whether the file for `text` can be restored at once: it has been read, has
  /// at most `readAtOnce` bytes, or there is none. Else begins to read it on
  /// another thread, unless that has something to do.
  bool isReady(std::span<const int32_t> text, const std::string &group,
               uint64_t readAtOnce);
  /// Takes up what was read.
  void takeRead();
  /// Whether takeRead() has something to take.
  bool hasRead() const { return reader_.hasResult(); }
  /// Forgets what was read and not restored.
  void dropRead() { read_ = {}; }

  /// Writes a sequence, unless it is in a file. A file whose text it continues
  /// is removed. Does nothing if it is larger than the limit. Fails with Io.
  Status save(const Sequence &sequence, const std::string &group);
  /// Copies a sequence to memory, from where another thread writes the file.
  /// finish() tells how that ended. Not while isWriting().
  Status saveBehind(const Sequence &sequence, const std::string &group);
  bool isWriting() const { return writer_.isBusy(); }
  /// Takes up the file of the last saveBehind(), if it has been written; with
  /// `wait`, when it has been. Fails with Io.
  Status finish(bool wait = false);

  /// Files of this plan, and bytes of all files.
  size_t files() const { return entries_.size(); }
  uint64_t bytes() const;

private:
  struct Entry {
    std::string name;
    std::vector<int32_t> tokens;
  };

  PrefixStore(Engine &engine, std::string folder, uint64_t maxBytes,
              std::function<void()> onRead)
      : engine_(engine), folder_(std::move(folder)), maxBytes_(maxBytes),
        reader_(engine, std::move(onRead)) {}
  Status readFolder();
  std::string pathOf(const std::string &name) const {
    return folder_ + "/" + name;
  }
  /// The entry that shares the most tokens; end() if none is of use.
  std::vector<Entry>::const_iterator best(std::span<const int32_t> text,
                                          const std::string &group) const;
  /// Number of tokens of a text that can be taken from an entry, whosever it
  /// is.
  int32_t usable(const Entry &entry, std::span<const int32_t> text) const;
  void remove(const std::string &name);
  /// Returns the name of the file for a sequence; "" if it need not be written.
  /// Makes room for it.
  std::string prepare(const Sequence &sequence, const std::string &group);
  /// Takes up a file that has been written.
  void added(Entry entry, const std::string &group);
  /// Removes files until `more` bytes can be added.
  void makeRoom(uint64_t more);

  Engine &engine_;
  std::string folder_;
  uint64_t maxBytes_;
  std::vector<Entry> entries_;
  Entry written_; ///< The entry that saveBehind() writes.
  std::string writtenGroup_;
  FileWriter writer_;
  struct Read {
    std::string name; ///< Name of a file; "": none.
    std::optional<StatusOr<SavedSequence>> content;
  };
  Read read_;           ///< Contents that were read.
  std::string reading_; ///< Name of the file that is being read.
  PrefixReader reader_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_PREFIXSTORE_H
