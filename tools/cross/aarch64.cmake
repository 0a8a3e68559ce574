# CMake toolchain for aarch64 with Debian's cross compiler. Libraries of the target come from the folder that
# tools/cross-aarch64.sh fills (MOE_SYSROOT); programs of the build and headers without code, as Boost's, from this machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(MOE_SYSROOT "" CACHE PATH "Folder with the target's libraries, see tools/cross-aarch64.sh")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MOE_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${MOE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)

# The cross compiler searches this machine's /usr/include last, so the target's headers of the same packages come first.
set(include ${MOE_SYSROOT}/usr/include)
string(APPEND CMAKE_C_FLAGS_INIT " -isystem ${include}/aarch64-linux-gnu -isystem ${include}")
string(APPEND CMAKE_CXX_FLAGS_INIT " -isystem ${include}/aarch64-linux-gnu -isystem ${include}")
string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -Wl,-rpath-link,${MOE_SYSROOT}/usr/lib/aarch64-linux-gnu")
string(APPEND CMAKE_SHARED_LINKER_FLAGS_INIT " -Wl,-rpath-link,${MOE_SYSROOT}/usr/lib/aarch64-linux-gnu")

# Tests run in an emulator of a CPU that has every extension.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${MOE_SYSROOT})
