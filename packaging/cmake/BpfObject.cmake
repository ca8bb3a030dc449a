# SPDX-License-Identifier: GPL-2.0-or-later
# Compiles SOURCE to DIR/NAME.bpf.o and makes DIR/NAME.skel.h of it, or takes both from the folder
# CACHE (may be empty), if any build tree, also of another clone, has compiled the same text with the same
# compiler and options.  COMPILE: the compiler and its options, a list.  STRIP, BPFTOOL: programs.
# The object's bytes are in the section bpf_objects: core/system/limits.c.
set(object ${DIR}/${NAME}.bpf.o)
set(skeleton ${DIR}/${NAME}.skel.h)
# The compiler names each basic block (LBB*), nine of ten symbols. libbpf looks through all of them for each section.
set(strip ${STRIP} -g --wildcard --strip-symbol=LBB*)

function(run output)
  set(to "")
  if(output)
    set(to OUTPUT_FILE ${output})
  endif()
  execute_process(COMMAND ${ARGN} ${to} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${NAME}: ${ARGV1} failed (${status})")
  endif()
endfunction()

# copy(TO FROM OK): both files of folder FROM.
function(copy to from ok)
  execute_process(COMMAND ${CMAKE_COMMAND} -E copy ${from}/${NAME}.bpf.o ${from}/${NAME}.skel.h ${to}
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(${ok} TRUE PARENT_SCOPE)
  else()
    set(${ok} FALSE PARENT_SCOPE)
  endif()
endfunction()

if(CACHE)
  run(${object}.i ${COMPILE} -E ${SOURCE})
  file(READ ${object}.i text)
  file(REMOVE ${object}.i)
  # The folder of the source is not in what is compiled: BpfProgram.cmake.
  get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
  string(REPLACE "${root}" "" same "${text} ${COMPILE}")
  set(tools "")
  list(GET COMPILE 0 compiler)
  foreach(tool ${compiler} ${STRIP} ${BPFTOOL})
    execute_process(COMMAND ${tool} --version OUTPUT_VARIABLE version ERROR_QUIET)
    string(APPEND tools "${tool} ${version}")
  endforeach()
  file(READ ${CMAKE_CURRENT_LIST_FILE} self)
  string(SHA256 key "${same} ${self} ${tools}")
  copy(${DIR} ${CACHE}/${NAME}-${key} found)
  if(found)
    return()
  endif()
endif()

run("" ${COMPILE} -c ${SOURCE} -o ${object})
run("" ${strip} ${object})
run(${skeleton}.tmp ${BPFTOOL} gen skeleton ${object} name ${NAME}_bpf)
file(READ ${skeleton}.tmp text)
string(REGEX REPLACE "return \\(const void \\*\\)(\"\\\\\n[^\"]*\";)"
       "static const char data[] __attribute__((aligned(8), section(\"bpf_objects\"))) = \\1\n\treturn data;" text "${text}")
file(WRITE ${skeleton} "${text}")
file(REMOVE ${skeleton}.tmp)

if(CACHE)
  # By renaming, so that a tree that is built at the same time sees all of it or nothing.
  string(RANDOM LENGTH 8 random)
  set(new ${CACHE}/${NAME}-${key}.${random})
  file(GLOB old ${CACHE}/${NAME}-*)
  execute_process(COMMAND ${CMAKE_COMMAND} -E make_directory ${new} OUTPUT_QUIET ERROR_QUIET)
  copy(${new} ${DIR} found)
  execute_process(COMMAND ${CMAKE_COMMAND} -E rename ${new} ${CACHE}/${NAME}-${key} OUTPUT_QUIET ERROR_QUIET)
  execute_process(COMMAND ${CMAKE_COMMAND} -E rm -rf ${new} ${old} OUTPUT_QUIET ERROR_QUIET)
endif()
