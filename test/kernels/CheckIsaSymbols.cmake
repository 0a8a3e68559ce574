# Fails if the kernels of an ISA define a function that the linker may merge with one of the same
# name compiled for every CPU: then an older CPU could execute instructions that it does not have.
# Such a function must have the ISA's namespace in its name.
#   cmake -DNM=nm -DISA=avx2 -DLIBRARY=libmoe_kernels_avx2.a -P this
execute_process(COMMAND ${NM} --demangle --defined-only ${LIBRARY}
                OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${NM} cannot read ${LIBRARY}")
endif()
string(REGEX MATCHALL "[^\n]* W [^\n]*" weak "${symbols}")
list(FILTER weak EXCLUDE REGEX "moek::${ISA}::")
if(weak)
  string(REPLACE ";" "\n" weak "${weak}")
  message(FATAL_ERROR "mergeable functions in ${LIBRARY}:\n${weak}")
endif()
