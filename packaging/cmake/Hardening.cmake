# SPDX-License-Identifier: GPL-2.0-or-later
# Target iotrace_hardening: compiler and linker flags that make a memory error in our own C code harder
# to exploit.  What this toolchain does not know is left out.  Empty in Debug builds: _FORTIFY_SOURCE
# needs optimisation; and with sanitizers, which do the same work better.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)

add_library(iotrace_hardening INTERFACE)
if(IOTRACE_SANITIZE OR IOTRACE_COVERAGE OR IOTRACE_FUZZ)
  return()
endif()

set(HARDENED "$<NOT:$<CONFIG:Debug>>")

function(harden_compile flag result)
  set(CMAKE_REQUIRED_FLAGS -Werror)
  check_c_compiler_flag(${flag} ${result})
  if(${result})
    target_compile_options(iotrace_hardening INTERFACE "$<$<AND:${HARDENED},$<COMPILE_LANGUAGE:C>>:${flag}>")
  endif()
endfunction()

function(harden_link flag result)
  check_linker_flag(C ${flag} ${result})
  if(${result})
    target_link_options(iotrace_hardening INTERFACE "$<${HARDENED}:${flag}>")
  endif()
endfunction()

# 3 also checks objects whose size is known at run time only: gcc 12, clang 9, and glibc 2.34.
set(CMAKE_REQUIRED_FLAGS "-Werror -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_c_source_compiles("
#include <string.h>
#if __USE_FORTIFY_LEVEL < 3
#error
#endif
int main(void) { return 0; }
" IOTRACE_FORTIFY_3)
unset(CMAKE_REQUIRED_FLAGS)
set(fortify 2)
if(IOTRACE_FORTIFY_3)
  set(fortify 3)
endif()
# Some compilers define it by themselves.
target_compile_options(iotrace_hardening INTERFACE
  "$<$<AND:${HARDENED},$<COMPILE_LANGUAGE:C>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${fortify}>")

harden_compile(-fstack-protector-strong IOTRACE_HAS_STACK_PROTECTOR)
harden_compile(-fstack-clash-protection IOTRACE_HAS_STACK_CLASH)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  harden_compile(-fcf-protection=full IOTRACE_HAS_CF_PROTECTION)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  harden_compile(-mbranch-protection=standard IOTRACE_HAS_BRANCH_PROTECTION)
endif()
# -static-pie is in cmd/: it goes with the libraries that are linked statically.
target_compile_options(iotrace_hardening INTERFACE "$<$<AND:${HARDENED},$<COMPILE_LANGUAGE:C>>:-fPIE>")
harden_link(-Wl,-z,relro IOTRACE_HAS_RELRO)
harden_link(-Wl,-z,now IOTRACE_HAS_NOW)
harden_link(-Wl,-z,noexecstack IOTRACE_HAS_NOEXECSTACK)
