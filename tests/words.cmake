# Holds comments and pages to the terms of docs/glossary.md: fails where one uses a word for which
# the field has another, naming file, line and the term.
#
#   cmake -DROOT=<repository> -P words.cmake

cmake_minimum_required(VERSION 3.25)

# A regular expression and the term that takes its place, one after the other.
set(words
  "[Uu]nder way" "in flight"
  "[Ii]n haste" "on the fast path"
  "[Hh]asty" "fast path"
  "[Tt]ickets?[^_a-z]" "last-block reduction, arrival counter"
  "[^a-z_][Rr]ings?[^a-z_]" "pipeline"
  "[^a-z_][Dd]ealt[^a-z_]" "distributed"
  "[Ss]peaker" "leader"
  "[Rr]oomy" "unstranded"
  "[Ss]queez" "register-limited"
  "[Ss]hifted rows" "unaligned rows")

file(GLOB_RECURSE sources RELATIVE "${ROOT}"
  "${ROOT}/fusion_ir/*.h" "${ROOT}/fusion_ir/*.cpp" "${ROOT}/scheduler/*.h" "${ROOT}/scheduler/*.cpp"
  "${ROOT}/codegen/*.h" "${ROOT}/codegen/*.cpp" "${ROOT}/codegen/*.cuh" "${ROOT}/runtime/*.h"
  "${ROOT}/runtime/*.cpp" "${ROOT}/tools/*.h" "${ROOT}/tools/*.cpp" "${ROOT}/examples/*.cpp"
  "${ROOT}/include/*.h")
file(GLOB_RECURSE pages RELATIVE "${ROOT}"
  "${ROOT}/docs/*.md" "${ROOT}/fusion_ir/*.md" "${ROOT}/scheduler/*.md" "${ROOT}/codegen/*.md"
  "${ROOT}/runtime/*.md" "${ROOT}/tools/*.md" "${ROOT}/examples/*.md")
list(APPEND pages README.md CONTRIBUTING.md)
# It explains some of them.
list(REMOVE_ITEM pages docs/glossary.md)

set(violations "")
foreach(file IN LISTS sources pages)
  if(NOT EXISTS "${ROOT}/${file}")
    continue()
  endif()
  set(regexes ${words})
  while(regexes)
    list(POP_FRONT regexes regex term)
    set(in "${regex}")
    if(NOT file MATCHES "\\.md$")
      set(in "//.*${regex}")
    endif()
    # A blank behind each line's end lets a word stand there.
    file(STRINGS "${ROOT}/${file}" lines REGEX "${in}")
    foreach(line IN LISTS lines)
      # Names of files and identifiers may hold such a word.
      string(REGEX REPLACE "`[^`]*`|\\([^) ]*\\)" "" said "${line} ")
      if(said MATCHES "${in}")
        string(STRIP "${line}" line)
        string(APPEND violations "${file}: ${line}\n    say: ${term}\n")
      endif()
    endforeach()
  endwhile()
endforeach()

if(violations)
  message(NOTICE "${violations}")
  message(FATAL_ERROR "docs/glossary.md has the field's terms for these words")
endif()
