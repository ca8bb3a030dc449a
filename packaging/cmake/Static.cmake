# SPDX-License-Identifier: GPL-2.0-or-later
# Can the binary be linked statically?  Sets IOTRACE_STATIC to ON or OFF for the rest of the build.
# A static binary needs nothing of the machine it is copied to, and starts faster and smaller.
function(cannot_link_statically why)
  if(IOTRACE_STATIC STREQUAL "AUTO")
    message(WARNING "${why}: the binary will need this machine's shared libraries; -DIOTRACE_STATIC=OFF means it")
  else()
    message(FATAL_ERROR "IOTRACE_STATIC=${IOTRACE_STATIC}: ${why}; -DIOTRACE_STATIC=OFF links the shared libraries")
  endif()
  set(IOTRACE_STATIC OFF PARENT_SCOPE)
endfunction()

if(IOTRACE_STATIC AND (IOTRACE_SANITIZE OR IOTRACE_FUZZ))
  if(NOT IOTRACE_STATIC STREQUAL "AUTO")
    message(WARNING "IOTRACE_STATIC=${IOTRACE_STATIC}: sanitizers need shared libraries, which are used")
  endif()
  set(IOTRACE_STATIC OFF)
endif()
set(static_libraries ${LIBBPF_STATIC_LIBRARIES} ${LIBDW_STATIC_LIBRARIES} ${LIBELF_STATIC_LIBRARIES}
    ${JANSSON_STATIC_LIBRARIES} ${NCURSES_STATIC_LIBRARIES} ${EVENT_STATIC_LIBRARIES})
list(REMOVE_DUPLICATES static_libraries)
foreach(library ${static_libraries})
  if(IOTRACE_STATIC)
    find_library(STATIC_${library} lib${library}.a)
    if(NOT STATIC_${library})
      cannot_link_statically("there is no lib${library}.a")
    endif()
  endif()
endforeach()
# They may be there and not be complete (elfutils 0.192 of Debian 13 leaves libeu out of libelf.a), or
# not be position-independent.
if(IOTRACE_STATIC)
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_INCLUDES ${LIBBPF_INCLUDE_DIRS} ${LIBELF_INCLUDE_DIRS} ${LIBDW_INCLUDE_DIRS}
      ${NCURSES_INCLUDE_DIRS})
  set(CMAKE_REQUIRED_FLAGS -fPIE)
  set(CMAKE_REQUIRED_LINK_OPTIONS -static-pie)
  set(CMAKE_REQUIRED_LIBRARIES ${LIBBPF_STATIC_LIBRARIES} ${LIBDW_STATIC_LIBRARIES}
      ${LIBELF_STATIC_LIBRARIES} ${NCURSES_STATIC_LIBRARIES} z)
  check_c_source_compiles("
#include <bpf/libbpf.h>
#include <curses.h>
#include <elfutils/libdwfl.h>
int main(void)
{
	return elf_begin(0, ELF_C_READ, 0) || dwfl_begin(0) || initscr() || bpf_object__open(\"\");
}
" IOTRACE_STATIC_PIE_LINKS)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_FLAGS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(NOT IOTRACE_STATIC_PIE_LINKS)
    cannot_link_statically("a static position-independent program cannot be linked from the libraries here")
  endif()
endif()
