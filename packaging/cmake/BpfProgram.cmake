# SPDX-License-Identifier: GPL-2.0-or-later
# bpf_program(NAME [FOLDER]): FOLDER/NAME.bpf.c -> generated/FOLDER/NAME.skel.h, and the source text
# of the program and of the headers of FOLDER and probes/ that it includes, embedded for --ebpf.
# FOLDER is probes by default: these programs become part of iotrace. With another FOLDER the caller
# gets the files in NAME_SKELETON and NAME_SOURCE, to list them in the program that uses them.
include(EmbedText)

option(IOTRACE_UNTRIED_PROCESSOR "build for s390x or ppc64, on which iotrace has never run" OFF)
set(IOTRACE_BPF_CACHE "" CACHE PATH "Folder of BPF objects that several build trees share; empty: none")

find_program(CLANG NAMES clang clang-19 clang-16 clang-15 clang-14 REQUIRED)
find_program(BPFTOOL NAMES bpftool PATHS /usr/sbin /sbin REQUIRED)
find_program(LLVM_STRIP NAMES llvm-strip llvm-strip-19 llvm-strip-16 llvm-strip-15 llvm-strip-14 REQUIRED)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  set(BPF_ARCH x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(BPF_ARCH arm64)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "s390x")
  set(BPF_ARCH s390)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "ppc64")
  set(BPF_ARCH powerpc)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "riscv64")
  message(FATAL_ERROR "riscv64: where a system call begins its first argument's register holds -ENOSYS already")
else()
  message(FATAL_ERROR "no BPF architecture known for ${CMAKE_SYSTEM_PROCESSOR}")
endif()
if(BPF_ARCH MATCHES "s390|powerpc" AND NOT IOTRACE_UNTRIED_PROCESSOR)
  message(FATAL_ERROR "iotrace has never run on ${CMAKE_SYSTEM_PROCESSOR}; -DIOTRACE_UNTRIED_PROCESSOR=ON builds it")
endif()

# The kernel's user-space headers (asm/types.h) in a multi-arch layout: clang
# with -target bpf does not look there by itself.
set(BPF_SYSTEM_INCLUDES "")
set(headers ${CMAKE_SYSROOT}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE})
if(CMAKE_LIBRARY_ARCHITECTURE AND EXISTS ${headers})
  set(BPF_SYSTEM_INCLUDES -idirafter ${headers})
endif()

function(bpf_program name)
  set(folder probes)
  if(ARGC GREATER 1)
    set(folder ${ARGV1})
  endif()
  set(source ${CMAKE_SOURCE_DIR}/${folder}/${name}.bpf.c)
  set(dir ${CMAKE_BINARY_DIR}/generated/${folder})
  set(skeleton ${dir}/${name}.skel.h)
  file(MAKE_DIRECTORY ${dir})
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/probes/*.h ${CMAKE_SOURCE_DIR}/${folder}/*.h)

  set(werror "")
  if(IOTRACE_WERROR)
    set(werror -Werror)
  endif()

  # -mcpu=v2: no atomics that return a value and no 32-bit jumps, which 5.10
  # would refuse or which buy nothing here.
  # The object is the same wherever the source is: clang puts the compilation directory before all names of files.
  set(compile ${CLANG} -target bpf -mcpu=v2 -g -O2 -Wall -Wextra ${werror} -Wno-unused-parameter
      -Wno-missing-declarations -D__TARGET_ARCH_${BPF_ARCH} -I${CMAKE_SOURCE_DIR}
      ${BPF_SYSTEM_INCLUDES} -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -fdebug-compilation-dir=.)
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DSOURCE=${source} -DDIR=${dir} -DCACHE=${IOTRACE_BPF_CACHE}
            "-DCOMPILE=${compile}" -DSTRIP=${LLVM_STRIP} -DBPFTOOL=${BPFTOOL}
            -P ${CMAKE_SOURCE_DIR}/packaging/cmake/BpfObject.cmake
    DEPENDS ${source} ${headers} ${CMAKE_SOURCE_DIR}/packaging/cmake/BpfObject.cmake
    COMMENT "BPF program ${name}"
    VERBATIM)

  # The source as one text: the headers it includes first.
  set(text ${dir}/${name}.source.txt)
  add_custom_command(
    OUTPUT ${text}
    COMMAND ${CMAKE_COMMAND} -DOUT=${text} -DSOURCE=${source}
            -DROOT=${CMAKE_SOURCE_DIR} -P ${CMAKE_SOURCE_DIR}/packaging/cmake/JoinSource.cmake
    DEPENDS ${source} ${headers} ${CMAKE_SOURCE_DIR}/packaging/cmake/JoinSource.cmake
    VERBATIM)
  embed_text(${name}_source ${text} assembly)
  if(NOT folder STREQUAL "probes")
    set(${name}_SKELETON ${skeleton} PARENT_SCOPE)
    set(${name}_SOURCE ${assembly} PARENT_SCOPE)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY IOTRACE_BPF_OUTPUTS ${skeleton} ${text})
  set_property(GLOBAL APPEND PROPERTY IOTRACE_BPF_SOURCES ${assembly})
endfunction()
