//===- FileRows.h - Rows that steps read from model files -------*- C++ -*-===//
//
// Some instructions read rows of tables that stay in the model file
// (ResidencyMode::File). Which ones follows from the step's tokens, so they are
// requested from the system when the step begins: it reads all of them at the
// same time, while the first layers run.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_FILEROWS_H
#define MOE_RUNTIME_DEVICE_CPU_FILEROWS_H

#include "runtime/device/cpu/Bind.h"

#include <functional>

namespace moek {
struct NgramEmbedArgs;
} // namespace moek

namespace moert {

class FileRows {
public:
  /// Receives the addresses of a row.
  using Request = std::function<void(const uint8_t *row, size_t bytes)>;

  /// `bound` has the instructions of `phase` that run on one device, before
  /// tests change them, and must outlive this object's use.
  FileRows(const ProvenPhase &phase, const BoundPhase &bound);

  /// Asks the system to read the rows that a step needs. Its tokens must be in
  /// the phase's input. Rows that are in memory already cost a system call.
  void request(const moek::Step &step) const { request(step, adviseWillNeed); }
  void request(const moek::Step &step, const Request &request) const;

private:
  static void adviseWillNeed(const uint8_t *row, size_t bytes);

  /// Arguments of instructions that read the phase's input itself, not a copy
  /// that another device makes during the step.
  std::vector<const moek::NgramEmbedArgs *> tables_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_FILEROWS_H
