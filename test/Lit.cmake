# lit and FileCheck of LLVM 19, and the ctest entry `lit` that runs the suites.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_file(MOE_LIT lit.py HINTS ${LLVM_DIR}/../../../build/utils/lit /usr/lib/llvm-19/build/utils/lit)
find_path(MOE_LLVM_TEST_TOOLS FileCheck HINTS ${LLVM_TOOLS_BINARY_DIR} /usr/lib/llvm-19/bin)
if(NOT MOE_LIT OR NOT MOE_LLVM_TEST_TOOLS)
  message(FATAL_ERROR "The tests of the compiler need lit and FileCheck of LLVM 19: install the "
    "package llvm-19-tools, point MOE_LIT at lit.py and MOE_LLVM_TEST_TOOLS at the folder of "
    "FileCheck, or configure with -DMOE_BUILD_TESTS=OFF.")
endif()

configure_file(lit.site.cfg.py.in lit.site.cfg.py @ONLY)
add_test(NAME lit
  COMMAND ${Python3_EXECUTABLE} ${MOE_LIT} -sv
          --xunit-xml-output ${PROJECT_BINARY_DIR}/lit-results.xml
          ${CMAKE_CURRENT_BINARY_DIR})
