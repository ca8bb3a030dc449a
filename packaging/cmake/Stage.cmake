# SPDX-License-Identifier: GPL-2.0-or-later
# By CPack, before a package is made of what was installed into CPACK_TEMPORARY_DIRECTORY: packages
# compress manual pages, the tarball does not; and what Debian's policy wants that others do not. What
# is compressed has no time in it.
if(CPACK_GENERATOR STREQUAL "TGZ")
  return()
endif()
find_program(GZIP gzip REQUIRED)

function(compress)
  execute_process(COMMAND ${GZIP} -9n ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr)
file(GLOB pages ${root}/share/man/man8/*.8)
if(NOT pages)
  message(FATAL_ERROR "no manual pages are installed in ${root}")
endif()
compress(${pages})
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()

set(doc ${root}/share/doc/${CPACK_PACKAGE_NAME})
if(NOT IS_DIRECTORY ${doc})
  message(FATAL_ERROR "nothing is installed in ${doc}")
endif()

# CPack has no variable for this field: it goes behind the value of another one.
file(READ ${CPACK_IOTRACE_BUILT_USING} built_using)
if(built_using)
  set(CPACK_DEBIAN_PACKAGE_PRIORITY "${CPACK_DEBIAN_PACKAGE_PRIORITY}\nBuilt-Using: ${built_using}")
endif()

# Debian's names for these two.
file(READ ${doc}/README.md readme)
string(REPLACE "](LICENSE)" "](copyright)" readme "${readme}")
string(REPLACE "](CHANGELOG.md)" "](changelog.gz)" readme "${readme}")
file(WRITE ${doc}/README.md "${readme}")
file(REMOVE ${doc}/LICENSE)
file(MAKE_DIRECTORY ${root}/share/zsh)
file(RENAME ${root}/share/zsh/site-functions ${root}/share/zsh/vendor-completions)

# The changelog: of the package, which says nothing, and of the program.
set(version ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
file(STRINGS ${doc}/CHANGELOG.md heading REGEX "^## ${CPACK_PACKAGE_VERSION} ")
if(NOT heading MATCHES "([0-9][0-9][0-9][0-9])-([0-9][0-9])-([0-9][0-9])")
  message(FATAL_ERROR "CHANGELOG.md has no line '## ${CPACK_PACKAGE_VERSION} (YYYY-MM-DD)'")
endif()
execute_process(COMMAND date -u -R -d ${CMAKE_MATCH_0} OUTPUT_VARIABLE date
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${doc}/changelog.Debian
"${CPACK_PACKAGE_NAME} (${version}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}: see changelog.gz.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}
")
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
compress(${doc}/changelog ${doc}/changelog.Debian)
