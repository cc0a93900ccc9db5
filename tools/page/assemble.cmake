# Writes OUT, the C++ source with the page's text before and behind the document, from the files in
# SOURCES (a folder).
#   cmake -DSOURCES=... -DOUT=... -P assemble.cmake
# The modules become one script, each behind those that it imports. Lines that import are left out,
# and so is the word export. An import is one line, and top-level names are unique across modules.
set(modules
  units
  resized
  model
  series_points
  series
  layout
  in_view
  details_text
  view
  details
  places
  curve_steps
  curves
  cluster_text
  cluster_state
  cluster
  device_steps
  device_plan
  keyboard
  minimap
  critical_path
  overlay_colours
  overlays
  panels
  search
  theme
  timeline_rows
  timeline
  live_timeline
  executables
  kept_boxes
  live
  main)
set(styles
  style
  curves
  device_plan
  live
  overlays
  series
  timeline)

set(script "")
foreach(module ${modules})
  file(READ ${SOURCES}/${module}.js text)
  string(REGEX REPLACE "(^|\n)import [^\n]*" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
  string(APPEND script "${text}")
endforeach()
set(style "")
foreach(name ${styles})
  file(READ ${SOURCES}/${name}.css text)
  string(APPEND style "${text}")
endforeach()
file(READ ${SOURCES}/page.html page)
if(script MATCHES "</[sS]|<!--" OR style MATCHES "</")
  message(FATAL_ERROR "assemble: a source ends its own element: expected no </ in it")
endif()

# The hash that Content-Security-Policy names: SHA-256 in base64.
function(hash_of text result)
  string(SHA256 hex "${text}")
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(hash "")
  foreach(at RANGE 0 60 6)
    string(SUBSTRING "${hex}00" ${at} 6 bytes)
    foreach(shift 18 12 6 0)
      math(EXPR digit "(0x${bytes} >> ${shift}) & 63")
      string(SUBSTRING ${digits} ${digit} 1 letter)
      string(APPEND hash ${letter})
    endforeach()
  endforeach()
  string(REGEX REPLACE "A$" "=" hash ${hash})  # 32 bytes, and one of 0 that is not said.
  set(${result} ${hash} PARENT_SCOPE)
endfunction()
hash_of("${script}" script_hash)
hash_of("${style}" style_hash)

string(REPLACE "@SCRIPT_HASH@" "${script_hash}" page "${page}")
string(REPLACE "@STYLE_HASH@" "${style_hash}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(FIND "${page}" "@DOCUMENT@" at)
string(SUBSTRING "${page}" 0 ${at} before)
string(LENGTH "@DOCUMENT@" mark)
math(EXPR at "${at} + ${mark}")
string(SUBSTRING "${page}" ${at} -1 behind)
file(WRITE ${OUT} "#include \"tools/page/page.h\"

namespace gangway::tool {

const char* const kPageBeforeDocument = R\"GWPAGE(${before})GWPAGE\";
const char* const kPageBehindDocument = R\"GWPAGE(${behind})GWPAGE\";

}  // namespace gangway::tool
")
