# Usage: cmake -DPAGE=.. -DOUT=.. -P EmbedPage.cmake. Writes page.html with its style and scripts as
# a C++ string for #include. The marker @FACTS@ stays for moec to fill in.
file(READ ${PAGE}/page.html page)
foreach(part page.css plots.js page.js)
  file(READ ${PAGE}/${part} content)
  string(REPLACE "@${part}@" "${content}" page "${page}")
endforeach()
file(WRITE ${OUT} "R\"page(${page})page\"\n")
