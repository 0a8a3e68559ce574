# cmake -DFOLDER=.. -DFILES=a,b -DOUT=..: the files as C++ strings, for #include.
set(text "")
string(REPLACE "," ";" files "${FILES}")
foreach(file ${files})
  file(READ ${FOLDER}/${file} content)
  string(APPEND text "{\"kernels/${file}\", R\"cuda(${content})cuda\"},\n")
endforeach()
file(WRITE ${OUT} "${text}")
