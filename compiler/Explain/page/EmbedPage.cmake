# cmake -DPAGE=.. -DOUT=..: page.html with its style and scripts in it, as a C++
# string for #include. What moec fills in stays: @FACTS@.
file(READ ${PAGE}/page.html page)
foreach(part page.css plots.js page.js)
  file(READ ${PAGE}/${part} content)
  string(REPLACE "@${part}@" "${content}" page "${page}")
endforeach()
file(WRITE ${OUT} "R\"page(${page})page\"\n")
