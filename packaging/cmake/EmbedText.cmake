# SPDX-License-Identifier: GPL-2.0-or-later
# embed_text(SYMBOL FILE SOURCE): the text of FILE as `const char SYMBOL[]`; sets SOURCE to what is
# to be compiled for that.
function(embed_text symbol file source)
  set(assembly ${CMAKE_BINARY_DIR}/generated/${symbol}.S)
  file(CONFIGURE OUTPUT ${assembly} @ONLY CONTENT "\
.section bpf_objects,\"a\"
.global ${symbol}
${symbol}:
.incbin \"${file}\"
.byte 0
.section .note.GNU-stack,\"\",%progbits
")
  set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS ${file})
  set(${source} ${assembly} PARENT_SCOPE)
endfunction()
