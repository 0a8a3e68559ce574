#include "compiler/Serialize/KernelImages.h"

#include "compiler/Cuda/KernelCompiler.h"
#include "mlir/IR/Builders.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// The least compute capability (times 10) whose kernels use tensor cores as
/// LatentMma.cu does.
constexpr int kTensorCores = 80;

/// Returns the architectures of the program's GPUs and `more`, in ascending
/// order.
StatusOr<std::vector<int>> archsOf(plan::ProgramOp program,
                                   const std::vector<int> &more) {
  std::vector<int> archs;
  for (auto device : program.getBody().getOps<plan::DeviceOp>())
    if (device.getKind() == plan::DeviceKind::Cuda)
      archs.push_back(device.getArch());
  int newest = *std::ranges::max_element(archs);
  for (int arch : more) {
    if (arch < kTensorCores && newest >= kTensorCores)
      return Status(StatusCode::Usage,
                    fmt::format("--gpu-arch {}: launches are chosen for sm_{}, "
                                "and GPUs before sm_{} need others; compile "
                                "with a target that has one",
                                arch, newest, kTensorCores));
    archs.push_back(arch);
  }
  std::ranges::sort(archs);
  archs.erase(std::ranges::unique(archs).begin(), archs.end());
  return archs;
}

Status checkKnown(const Nvrtc &nvrtc, const std::vector<int> &archs) {
  for (int arch : archs)
    if (!std::ranges::binary_search(nvrtc.archs(), arch))
      return Status(
          StatusCode::Unsupported,
          fmt::format("NVRTC {}.{} makes no code for sm_{}, but for {}; "
                      "another version may, and --nvrtc names its library",
                      nvrtc.versionMajor(), nvrtc.versionMinor(), arch,
                      fmt::join(nvrtc.archs(), ", ")));
  return Status::ok();
}

/// Checks that a GPU of its architecture has the shared memory that a module's
/// launches need, of which static memory is known only now.
Status checkShared(plan::ModuleOp module, int64_t dynamicBytes,
                   const KernelImage &image) {
  const int64_t bytes = dynamicBytes + image.sharedBytes;
  const int64_t most = moek::cuda::maxSharedBytes(image.arch);
  if (bytes <= most)
    return Status::ok();
  return Status(StatusCode::Unsupported,
                fmt::format("kernel {} needs {} bytes of shared memory for a "
                            "block, and sm_{} has {}; place its operator on "
                            "another device (--place)",
                            module.getEntry().str(), bytes, image.arch, most));
}

KernelJob jobOf(plan::ModuleOp module, int arch) {
  KernelJob job;
  std::vector<std::string> words;
  for (StringAttr define : module.getDefines().getAsRange<StringAttr>())
    words.push_back(define.str());
  job.spec = moek::cuda::specOf(module.getFile().str(), module.getEntry().str(),
                                words);
  job.arch = arch;
  return job;
}
} // namespace

Status addKernelImages(plan::ProgramOp program,
                       const KernelImageOptions &options) {
  auto modules = llvm::to_vector(program.getBody().getOps<plan::ModuleOp>());
  if (modules.empty())
    return Status::ok();
  MOE_ASSIGN_OR_RETURN(std::vector<int> archs, archsOf(program, options.archs));
  MOE_ASSIGN_OR_RETURN(Nvrtc nvrtc, Nvrtc::open(options.nvrtc));
  MOE_RETURN_IF_ERROR(checkKnown(nvrtc, archs));
  std::vector<KernelJob> jobs;
  for (plan::ModuleOp module : modules)
    for (int arch : archs)
      jobs.push_back(jobOf(module, arch));
  KernelCompiler compiler(nvrtc, options.cacheFolder);
  MOE_ASSIGN_OR_RETURN(std::vector<KernelImage> images,
                       compiler.compile(jobs, {.progress = options.progress}));
  // The maximum over launches, by module.
  llvm::DenseMap<Value, int64_t> dynamicBytes;
  program.walk([&](plan::InstOp inst) {
    for (const plan::InstOp::Launch &launch : inst.getLaunches()) {
      int64_t &most = dynamicBytes[launch.module];
      most = std::max(most, launch.sharedBytes);
    }
  });
  for (auto [index, image] : llvm::enumerate(images)) {
    plan::ModuleOp module = modules[index / archs.size()];
    MOE_RETURN_IF_ERROR(
        checkShared(module, dynamicBytes.lookup(module), image));
  }
  // Images come last: they are long, and nobody reads them.
  OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
  for (auto [index, image] : llvm::enumerate(images))
    builder.create<plan::ImageOp>(
        program.getLoc(), modules[index / archs.size()], image.arch,
        image.registers, image.spilledBytes, image.stackBytes,
        image.sharedBytes, image.cubin, image.ptx);
  program.setNvrtc(
      fmt::format("{}.{}", nvrtc.versionMajor(), nvrtc.versionMinor()));
  return Status::ok();
}

} // namespace moec
