//===- WeightsWriter.cpp - plan.weights -----------------------------------===//
//
// The file begins with a text that lists its content, padded with zeros to
// whole pages. The text holds the checksum of every weight, so its hash
// identifies the whole content. It is written last:
//   moec weights 3
//   plan <name of the plan in this folder, or path of one in another>
//   model <hash of the model>
//   <offset> <bytes> <layout> <checksum> <name>   for each weight
// In a blank file (PlaceWeightsOptions) the checksums are the word "blank".
//
//===----------------------------------------------------------------------===//

#include "compiler/Serialize/WeightsWriter.h"

#include "compiler/Pack/WeightRows.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/ContentHash.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Text.h"
#include "runtime/schema/WeightsFile.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <sys/statvfs.h>

using namespace mlir;
using moert::PackedFile;
using moert::PackedHashes;
using moert::PackedWeight;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace stdfs = std::filesystem;

namespace moec {

namespace {

/// The header takes whole pages.
constexpr uint64_t kPage = 4096;

Status requireSpace(const std::string &path, uint64_t bytes,
                    const std::function<Status(Status)> &otherwise) {
  MOE_ASSIGN_OR_RETURN(moert::OutputPlace place,
                       moert::OutputPlace::find(path));
  moert::removeStaleTemporaries(place.folder(), place.name());
  struct statvfs info;
  if (statvfs(place.folder().c_str(), &info) != 0)
    return Status(StatusCode::Io, path + ": " + std::strerror(errno));
  uint64_t available = uint64_t(info.f_bavail) * info.f_frsize;
  if (available >= bytes)
    return Status::ok();
  Status failure(StatusCode::Io,
                 fmt::format("{}: needs {}, but the disk has {} free", path,
                             moert::humanBytes(double(bytes)),
                             moert::humanBytes(double(available))));
  if (otherwise)
    return otherwise(std::move(failure));
  return std::move(failure).append("; write to another disk");
}

moert::PiecesOptions piecesOptions(const PlaceWeightsOptions &options,
                                   const char *what) {
  moert::PiecesOptions result{options.threads, {}};
  if (options.progress)
    result.progress = [&options, what](uint64_t done, uint64_t total) {
      return options.progress(what, done, total);
    };
  return result;
}

/// Writes the file that plan.packing describes.
class Packer {
public:
  Packer(ModuleOp module, const PlaceWeightsOptions &options)
      : programs(module.getOps<plan::ProgramOp>()), options(options) {
    for (auto packing : module.getOps<plan::PackingOp>())
      this->packing = packing;
  }

  /// Returns where the file will be, or nothing if there is no plan.packing.
  StatusOr<std::optional<moert::OutputTarget>> prepare() {
    if (!packing)
      return std::optional<moert::OutputTarget>();
    if (options.paths.weights.empty())
      return Status(StatusCode::Usage,
                    "the plan goes to a stream, beside which no weights file "
                    "can lie; name one with --weights-file, or use "
                    "--weights=reference");
    MOE_ASSIGN_OR_RETURN(moert::OutputTarget target,
                         preparePair(options.paths, options.rule));
    layOut();
    if (!options.blank)
      MOE_RETURN_IF_ERROR(requireSpace(options.paths.weights, file.bytes,
                                       options.withoutSpace));
    return std::optional(std::move(target));
  }

  StatusOr<PlacedWeights> run() {
    MOE_ASSIGN_OR_RETURN(std::optional<moert::OutputTarget> target, prepare());
    if (!target)
      return PlacedWeights();
    MOE_ASSIGN_OR_RETURN(moert::OutputFile output,
                         moert::OutputFile::create(*std::move(target)));
    MOE_ASSIGN_OR_RETURN(PackedHashes hashes,
                         options.blank ? leaveBlank(output) : pack(output));
    std::string header = headerWith(
        options.blank ? std::vector<std::string>(entries.size(), "blank")
                      : hashes.checksums);
    MOE_RETURN_IF_ERROR(output.writeAt(0, header.data(), header.size()));
    std::string hash = moert::contentHash(std::span(
        reinterpret_cast<const uint8_t *>(header.data()), header.size()));
    for (plan::ProgramOp program : programs)
      MOE_RETURN_IF_ERROR(record(program, output, hash, hashes));
    packing.erase();
    PlacedWeights placed;
    placed.file.emplace(NewWeights{std::move(output), hash});
    placed.bytes = file.bytes;
    return placed;
  }

private:
  StatusOr<PackedHashes> pack(const moert::OutputFile &output) {
    // If memory cannot hold both files, drop pages of the model file after use
    // so that those of the new file stay.
    WeightRows rows(/*forget=*/2 * file.bytes > moert::hostMemoryBytes());
    for (auto [entry, weight] : llvm::zip(entries, file.weights)) {
      MOE_ASSIGN_OR_RETURN(weight.source, rows.of(entry.getWeight()));
    }
    return writePackedFile(file, output,
                           piecesOptions(options, "packing weights"));
  }

  /// Gives the file its size, and no checksums.
  StatusOr<PackedHashes> leaveBlank(const moert::OutputFile &output) const {
    MOE_RETURN_IF_ERROR(output.writeAt(file.bytes - 1, "", 1));
    return PackedHashes{std::vector<std::string>(entries.size()), ""};
  }

  void layOut() {
    for (plan::PackedOp entry : packing.getBody().getOps<plan::PackedOp>()) {
      entries.push_back(entry);
      plan::WeightShape shape = entry.getPackedShape();
      auto layout = moek::Layout(shape.layout);
      PackedWeight weight{nullptr,    shape.outer,  shape.rows,
                          shape.cols, shape.format, layout};
      file.weights.push_back(std::move(weight));
    }
    // The header lists the offsets, so it is sized for the largest ones.
    for (PackedWeight &weight : file.weights)
      weight.offset = UINT64_MAX;
    std::vector<std::string> unknown(entries.size(), std::string(16, '0'));
    file.headerBytes = moert::alignUp(headerText(unknown).size(), kPage);
    file.bytes = file.headerBytes + uint64_t(packing.getBytes());
    for (auto [entry, weight] : llvm::zip(entries, file.weights))
      weight.offset = file.headerBytes + uint64_t(entry.getOffset());
  }

  std::string headerText(const std::vector<std::string> &checksums) {
    std::string text =
        fmt::format("{}3\nplan {}\nmodel {}\n", moert::kWeightsMagic,
                    options.paths.owner, programs.front().getModelHash().str());
    for (auto [entry, weight, checksum] :
         llvm::zip(entries, file.weights, checksums))
      text += fmt::format("{} {} {} {} {}\n", weight.offset, weight.bytes(),
                          moek::layoutName(weight.layout), checksum,
                          moert::escaped(entry.getName().str()));
    return text;
  }

  std::string headerWith(const std::vector<std::string> &checksums) {
    std::string text = headerText(checksums);
    text.resize(file.headerBytes);
    return text;
  }

  //===--------------------------------------------------------------------===//
  // Records in the programs
  //===--------------------------------------------------------------------===//

  Status record(plan::ProgramOp program, const moert::OutputFile &output,
                const std::string &headerHash, const PackedHashes &hashes) {
    std::map<int64_t, size_t> numbers; // The number of each entry, by offset.
    for (auto [number, entry] : llvm::enumerate(entries))
      numbers[entry.getOffset()] = number;
    plan::FileOp known;
    std::vector<moert::Extent> extents;
    for (auto weight : program.getBody().getOps<plan::WeightOp>()) {
      auto fileOp = weight.getFile().getDefiningOp<plan::FileOp>();
      if (fileOp.getKind() != plan::FileKind::Packed)
        continue;
      known = fileOp;
      size_t number = numbers.at(weight.getOffset());
      weight.setOffset(int64_t(file.weights[number].offset));
      weight.setChecksum(hashes.checksums[number]);
      extents.push_back(
          {file.weights[number].offset, file.weights[number].bytes()});
    }
    if (!known)
      return Status::ok();
    known.setPath(options.paths.recorded);
    known.setBytes(int64_t(file.bytes));
    known.setHeaderBytes(int64_t(file.headerBytes));
    known.setHeaderHash(headerHash);
    known.setSampleHash(hashes.samples);
    if (programs.size() == 1 || options.blank)
      return Status::ok();
    // Several programs share the file. The hash covers what this one reads.
    MOE_ASSIGN_OR_RETURN(moert::InputFile written,
                         moert::InputFile::open(output.temporary()));
    MOE_ASSIGN_OR_RETURN(std::string samples,
                         moert::hashSamples(written, extents));
    known.setSampleHash(samples);
    return Status::ok();
  }

  SmallVector<plan::ProgramOp> programs;
  const PlaceWeightsOptions &options;
  plan::PackingOp packing; ///< Null if there is nothing to write.
  SmallVector<plan::PackedOp> entries;
  PackedFile file; ///< Its weights are parallel to `entries`.
};

} // namespace

StatusOr<std::string> recordedPath(const std::string &file,
                                   const std::string &planPath) {
  bool stream = planPath.empty();
  if (!stream) {
    MOE_ASSIGN_OR_RETURN(moert::OutputPlace plan,
                         moert::OutputPlace::find(planPath));
    stream = plan.isStream();
  }
  std::error_code error;
  stdfs::path absolute = stdfs::weakly_canonical(stdfs::absolute(file), error);
  if (!error && stream)
    return absolute.string();
  stdfs::path folder;
  if (!error)
    folder =
        stdfs::weakly_canonical(stdfs::absolute(planPath).parent_path(), error);
  if (error)
    return Status(StatusCode::Io, file + ": " + error.message());
  stdfs::path relative = absolute.lexically_relative(folder);
  bool below = !relative.empty() && *relative.begin() != "..";
  return (below ? relative : absolute).string();
}

namespace {

//===----------------------------------------------------------------------===//
// Hashes of model files
//===----------------------------------------------------------------------===//

struct ModelWeights {
  plan::FileOp file;
  SmallVector<plan::WeightOp> weights; ///< In the plan's order.
  std::vector<moert::Extent> extents;  ///< One per weight.
};

void addModelWeights(plan::ProgramOp program,
                     std::vector<ModelWeights> &files) {
  size_t first = files.size();
  for (plan::FileOp file : program.getBody().getOps<plan::FileOp>())
    if (file.getKind() == plan::FileKind::Model)
      files.push_back({file, {}, {}});
  for (auto weight : program.getBody().getOps<plan::WeightOp>())
    for (size_t i = first; i < files.size(); ++i)
      if (weight.getFile().getDefiningOp() == files[i].file) {
        files[i].weights.push_back(weight);
        files[i].extents.push_back(
            {uint64_t(weight.getOffset()), uint64_t(weight.getExtentBytes())});
      }
}

/// A file of the model and the extents that any program reads.
struct ModelBytes {
  std::string path;
  std::vector<moert::Extent> extents; ///< Without duplicates.
  std::vector<std::string> checksums; ///< One per extent; empty if not wanted.
  /// Index of each extent, by offset and bytes.
  std::map<std::pair<uint64_t, uint64_t>, size_t> numbers;

  void add(moert::Extent extent) {
    if (numbers.try_emplace({extent.offset, extent.bytes}, extents.size())
            .second)
      extents.push_back(extent);
  }
  const std::string &checksumOf(moert::Extent extent) const {
    return checksums[numbers.at({extent.offset, extent.bytes})];
  }
};

std::vector<ModelBytes> bytesOf(ArrayRef<ModelWeights> files) {
  std::vector<ModelBytes> all;
  for (const ModelWeights &model : files) {
    std::string path = plan::FileOp(model.file).getPath().str();
    auto same = llvm::find_if(
        all, [&](const ModelBytes &bytes) { return bytes.path == path; });
    ModelBytes &bytes = same != all.end()
                            ? *same
                            : all.emplace_back(ModelBytes{path, {}, {}, {}});
    for (moert::Extent extent : model.extents)
      bytes.add(extent);
  }
  return all;
}

/// Computes the checksums of all extents. Reads each byte once, even if several
/// programs use it.
Status hashAll(std::vector<ModelBytes> &files, uint64_t bytes,
               const PlaceWeightsOptions &options) {
  moert::PiecesOptions pieces = piecesOptions(options, "hashing the model");
  uint64_t before = 0; // Bytes of the files that are already read.
  for (ModelBytes &model : files) {
    MOE_ASSIGN_OR_RETURN(moert::InputFile file,
                         moert::InputFile::open(model.path));
    moert::WeightHasher hasher(model.extents);
    moert::PiecesOptions own = pieces;
    if (pieces.progress)
      own.progress = [&](uint64_t done, uint64_t) {
        return pieces.progress(before + done, bytes);
      };
    MOE_RETURN_IF_ERROR(moert::hashWeights(file, hasher, own));
    before += moert::bytesToHash(model.extents);
    model.checksums = hasher.checksums();
  }
  return Status::ok();
}

Status identifyModels(std::vector<ModelWeights> &files, bool isPacked,
                      const PlaceWeightsOptions &options) {
  std::vector<ModelBytes> all = bytesOf(files);
  uint64_t bytes = 0;
  for (const ModelBytes &file : all)
    bytes += moert::bytesToHash(file.extents);
  bool full = options.checksums.value_or(isPacked || bytes <= kCheapToHash);
  if (full)
    MOE_RETURN_IF_ERROR(hashAll(all, bytes, options));
  for (ModelWeights &model : files) {
    MOE_ASSIGN_OR_RETURN(moert::InputFile file,
                         moert::InputFile::open(model.file.getPath().str()));
    MOE_ASSIGN_OR_RETURN(std::string hash,
                         moert::hashSamples(file, model.extents));
    model.file.setSampleHash(hash);
    const ModelBytes &known = *llvm::find_if(all, [&](const ModelBytes &other) {
      return other.path == model.file.getPath();
    });
    if (full)
      for (auto [weight, extent] : llvm::zip(model.weights, model.extents))
        weight.setChecksum(known.checksumOf(extent));
  }
  return Status::ok();
}

} // namespace

Status checkWeightsPlace(ModuleOp module, const PlaceWeightsOptions &options) {
  return Packer(module, options).prepare().status();
}

StatusOr<PlacedWeights> placeWeights(ModuleOp module,
                                     const PlaceWeightsOptions &options) {
  MOE_ASSIGN_OR_RETURN(PlacedWeights placed, Packer(module, options).run());
  std::vector<ModelWeights> models;
  for (auto program : module.getOps<plan::ProgramOp>())
    addModelWeights(program, models);
  MOE_RETURN_IF_ERROR(identifyModels(models, placed.file.has_value(), options));
  for (ModelWeights &model : models) {
    MOE_ASSIGN_OR_RETURN(
        std::string path,
        recordedPath(model.file.getPath().str(), options.paths.plan));
    model.file.setPath(path);
  }
  return placed;
}

} // namespace moec
