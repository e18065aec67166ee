# included_headers(<root> <header> <out>): the headers that <header> includes, and those that they
# include, as paths below <root>, where they exist. Each header is read once.

function(included_headers root header out)
  get_property(known GLOBAL PROPERTY "included_headers:${root}/${header}" SET)
  if(NOT known)
    set_property(GLOBAL PROPERTY "included_headers:${root}/${header}" "")  # In case of a circle.
    file(STRINGS "${root}/${header}" lines REGEX "^[ \t]*#[ \t]*include[ \t]*\"")
    set(found "")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^[^\"]*\"([^\"]*)\".*$" "\\1" included "${line}")
      if(EXISTS "${root}/${included}")
        included_headers("${root}" "${included}" deeper)
        list(APPEND found "${included}" ${deeper})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES found)
    set_property(GLOBAL PROPERTY "included_headers:${root}/${header}" "${found}")
  endif()
  get_property(found GLOBAL PROPERTY "included_headers:${root}/${header}")
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
