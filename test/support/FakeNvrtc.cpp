// A kernel compiler that returns arbitrary bytes for any source. Plans whose
// kernels are not run use it, because compiling the kernels would take minutes.

#include <cstring>
#include <string>

namespace {

using Program = struct ProgramTag *;
enum Result : int { kSuccess = 0 };

// A version that never existed, so that no cache takes its results for real
// kernels.
constexpr int kMajor = 1, kMinor = 0;
constexpr int kArchs[] = {75, 80, 86, 89, 90, 120};
constexpr char kCode[] = "// no code\n";

Result give(size_t size, size_t *out) {
  *out = size;
  return kSuccess;
}

Result give(const char *text, size_t bytes, char *out) {
  std::memcpy(out, text, bytes);
  return kSuccess;
}

} // namespace

extern "C" {
Result nvrtcVersion(int *major, int *minor) {
  *major = kMajor;
  *minor = kMinor;
  return kSuccess;
}

Result nvrtcGetNumSupportedArchs(int *count) {
  *count = std::size(kArchs);
  return kSuccess;
}

Result nvrtcGetSupportedArchs(int *archs) {
  std::memcpy(archs, kArchs, sizeof(kArchs));
  return kSuccess;
}

const char *nvrtcGetErrorString(Result) { return "no error"; }

Result nvrtcCreateProgram(Program *, const char *, const char *, int,
                          const char *const *, const char *const *) {
  return kSuccess;
}

Result nvrtcDestroyProgram(Program *) { return kSuccess; }

Result nvrtcCompileProgram(Program, int, const char *const *) {
  return kSuccess;
}

Result nvrtcGetProgramLogSize(Program, size_t *size) { return give(1, size); }

Result nvrtcGetProgramLog(Program, char *log) { return give("", 1, log); }

Result nvrtcGetPTXSize(Program, size_t *size) {
  return give(sizeof(kCode), size);
}

Result nvrtcGetPTX(Program, char *ptx) {
  return give(kCode, sizeof(kCode), ptx);
}

Result nvrtcGetCUBINSize(Program, size_t *size) {
  return give(sizeof(kCode), size);
}

Result nvrtcGetCUBIN(Program, char *cubin) {
  return give(kCode, sizeof(kCode), cubin);
}
}
