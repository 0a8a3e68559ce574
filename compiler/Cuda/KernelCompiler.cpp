#include "compiler/Cuda/KernelCompiler.h"

#include "kernels/cuda/Fuse.h"
#include "runtime/base/ContentHash.h"
#include "runtime/base/OutputFile.h"

#include <atomic>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sstream>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// Returns the number that precedes `what` in the log, as in "12 bytes spill
/// stores".
int numberBefore(const std::string &log, std::string_view what) {
  size_t end = log.find(what);
  if (end == std::string::npos || end == 0)
    return 0;
  size_t digits = log.find_last_not_of("0123456789", end - 2);
  size_t begin = digits == std::string::npos ? 0 : digits + 1;
  int number = 0;
  std::from_chars(log.data() + begin, log.data() + end, number);
  return number;
}

/// Parses a line such as "Used 40 registers, used 1 barriers, 1024 bytes smem".
void readResources(const std::string &log, KernelImage &image) {
  // Messages about wgmma name registers as well.
  image.registers = numberBefore(log, " registers, used");
  image.spilledBytes = numberBefore(log, " bytes spill stores") +
                       numberBefore(log, " bytes spill loads");
  image.stackBytes = numberBefore(log, " bytes stack frame");
  image.sharedBytes = numberBefore(log, " bytes smem");
  image.isSerialized =
      log.find("wgmma.mma_async instructions are serialized") !=
      std::string::npos;
}

// A cached kernel is a file with a line of numbers, then the cubin and the PTX.
constexpr const char *kMagic = "moe-kernel-2";

StatusOr<KernelImage> readCached(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  KernelImage image;
  size_t cubinBytes = 0, ptxBytes = 0;
  if (!(file >> magic >> image.arch >> image.registers >> image.spilledBytes >>
        image.stackBytes >> image.sharedBytes >> image.isSerialized >>
        cubinBytes >> ptxBytes) ||
      magic != kMagic || file.get() != '\n')
    return Status(StatusCode::Io, "not cached");
  std::error_code error;
  uintmax_t size = std::filesystem::file_size(path, error);
  // A damaged file counts as missing.
  if (error || cubinBytes + ptxBytes + size_t(file.tellg()) != size)
    return Status(StatusCode::Io, "not cached");
  image.cubin.resize(cubinBytes);
  image.ptx.resize(ptxBytes);
  file.read(image.cubin.data(), std::streamsize(cubinBytes));
  file.read(image.ptx.data(), std::streamsize(ptxBytes));
  if (!file)
    return Status(StatusCode::Io, "not cached");
  return image;
}

/// Failing to write the cache is no error: it only makes the next compilation
/// slower.
void writeCached(const std::string &folder, const std::string &path,
                 const KernelImage &image) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return;
  std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} {}\n", kMagic, image.arch, image.registers,
      image.spilledBytes, image.stackBytes, image.sharedBytes,
      int(image.isSerialized), image.cubin.size(), image.ptx.size());
  text += image.cubin;
  text += image.ptx;
  (void)moert::writeOutput(moert::OutputTarget::ofCache(path), text,
                           moert::OutputFile::Content::Binary);
}

std::vector<std::string> optionsOf(const moek::cuda::KernelSpec &spec) {
  std::vector<std::string> options = {"--std=c++17", "--ptxas-options=-v",
                                      "--define-macro=MOE_ENTRY=" + spec.entry};
  // The macros of pieces are defined in the generated source itself.
  for (const moek::cuda::Definition &definition : spec.defines)
    options.push_back("--define-macro=" + textOf(definition));
  return options;
}
} // namespace

KernelCompiler::KernelCompiler(Nvrtc nvrtc, std::string cacheFolder)
    : nvrtc_(std::move(nvrtc)), cacheFolder_(std::move(cacheFolder)) {
  for (const moek::cuda::Source &source : moek::cuda::sources())
    headers_.push_back({std::string(source.name), std::string(source.text)});
}

std::string KernelCompiler::keyOf(const KernelJob &job) const {
  std::ostringstream all;
  all << kMagic << '\n'
      << nvrtc_.versionMajor() << '.' << nvrtc_.versionMinor() << '\n'
      << job.arch << '\n'
      << job.spec.file;
  for (const std::string &option : optionsOf(job.spec))
    all << '\n' << option;
  if (isFused(job.spec))
    all << '\n' << fusedSource(job.spec);
  // The key covers all sources, not just the included ones, since sources
  // rarely change.
  for (const NvrtcHeader &header : headers_)
    all << '\n' << header.name << '\n' << header.text;
  std::string text = all.str();
  return moert::contentHash(
      {reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

StatusOr<std::string>
KernelCompiler::sourceOf(const moek::cuda::KernelSpec &spec) const {
  if (isFused(spec))
    return fusedSource(spec);
  for (const NvrtcHeader &header : headers_)
    if (header.name == spec.file)
      return header.text;
  return Status(StatusCode::Internal, fmt::format("there is no {}", spec.file));
}

StatusOr<KernelImage> KernelCompiler::compileOne(const KernelJob &job,
                                                 bool &wasCached) const {
  std::string path;
  if (!cacheFolder_.empty()) {
    path = cacheFolder_ + "/" + keyOf(job) + ".kernel";
    if (StatusOr<KernelImage> image = readCached(path)) {
      wasCached = true;
      return image;
    }
  }
  MOE_ASSIGN_OR_RETURN(std::string source, sourceOf(job.spec));
  MOE_ASSIGN_OR_RETURN(NvrtcOutput output,
                       nvrtc_.compile(job.spec.file, source, headers_,
                                      optionsOf(job.spec), job.arch,
                                      usesWarpgroups(job.spec, job.arch)));
  KernelImage image;
  image.arch = job.arch;
  image.cubin = std::move(output.cubin);
  image.ptx = std::move(output.ptx);
  readResources(output.log, image);
  if (!path.empty())
    writeCached(cacheFolder_, path, image);
  return image;
}

StatusOr<std::vector<KernelImage>>
KernelCompiler::compile(std::span<const KernelJob> jobs,
                        const moert::PiecesOptions &options) {
  using Key = std::pair<moek::cuda::KernelSpec, int>;
  std::map<Key, size_t> unique;
  std::vector<const KernelJob *> distinct;
  for (const KernelJob &job : jobs)
    if (unique.emplace(Key(job.spec, job.arch), distinct.size()).second)
      distinct.push_back(&job);
  std::vector<KernelImage> images(distinct.size());
  std::atomic<int> cached = 0;
  MOE_RETURN_IF_ERROR(moert::forEachPiece(
      distinct.size(), distinct.size(), options, [&]() -> moert::PieceTask {
        return [&](size_t i) -> StatusOr<uint64_t> {
          bool wasCached = false;
          MOE_ASSIGN_OR_RETURN(images[i], compileOne(*distinct[i], wasCached));
          cached += wasCached;
          return uint64_t(1);
        };
      }));
  cached_ += cached;
  std::vector<KernelImage> result;
  for (const KernelJob &job : jobs)
    result.push_back(images[unique.at(Key(job.spec, job.arch))]);
  return result;
}

StatusOr<KernelImage> KernelCompiler::compile(const KernelJob &job) {
  MOE_ASSIGN_OR_RETURN(std::vector<KernelImage> images,
                       compile({&job, 1}, {.threads = 1}));
  return std::move(images.front());
}

} // namespace moec
