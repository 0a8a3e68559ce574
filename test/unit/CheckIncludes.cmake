# Fails if a source below FOLDER includes a header whose path begins with PATTERN.
#   cmake -DFOLDER=runtime -DPATTERN=kernels/cpu/ -P this
file(GLOB_RECURSE sources ${FOLDER}/*.h ${FOLDER}/*.cpp)
if(NOT sources)
  message(FATAL_ERROR "no sources below ${FOLDER}")
endif()
foreach(source ${sources})
  file(STRINGS ${source} found REGEX "#include \"${PATTERN}")
  if(found)
    message(SEND_ERROR "${source}: ${found}")
  endif()
endforeach()
