# SPDX-License-Identifier: GPL-2.0-or-later
# Packages by CPack: `cpack --config build/release/CPackConfig.cmake -B DIR` makes a .deb, an .rpm
# (if rpmbuild is installed) and a tarball, and a file with the SHA-256 of each.
if(CMAKE_VERSION VERSION_LESS 3.19)
  message(STATUS "CMake is older than 3.19, which packages need: none can be made")
  return()
endif()

set(IOTRACE_MAINTAINER "iotrace maintainers <maintainers@iotrace.invalid>" CACHE STRING
    "NAME <ADDRESS>, as packages name who made them")
set(IOTRACE_HOMEPAGE "" CACHE STRING "An address where packages say that iotrace is to be found")
set(IOTRACE_PACKAGE_RELEASE 1 CACHE STRING "The release of a package of the same version")

set(CPACK_PACKAGE_NAME ${PROJECT_NAME})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "iotrace maintainers")
set(CPACK_PACKAGE_CONTACT ${IOTRACE_MAINTAINER})
set(CPACK_PACKAGE_HOMEPAGE_URL "${IOTRACE_HOMEPAGE}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "shows where I/O goes and where its latency comes from")
set(CPACK_PACKAGE_DESCRIPTION
"Traces the running Linux kernel (5.10 and later) with BPF programs: block I/O
by process, latency of each layer of the I/O stack, bytes by stack, traffic of
virtqueues, exits of virtual machines. One static binary, which needs neither
a compiler nor kernel headers, takes over the work of biotop, virtiostat,
IOStackBreakdown, iostack and kvm_stat.")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_RELOCATABLE OFF)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_MONOLITHIC_INSTALL ON)

find_program(RPMBUILD rpmbuild)
set(CPACK_GENERATOR TGZ DEB)
if(RPMBUILD)
  list(APPEND CPACK_GENERATOR RPM)
endif()
set(kind static)
if(NOT IOTRACE_STATIC)
  set(kind dynamic)
endif()
set(CPACK_ARCHIVE_FILE_NAME ${PROJECT_NAME}-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}-${kind})
set(CPACK_PACKAGE_FILE_NAME ${CPACK_ARCHIVE_FILE_NAME})

# Else each tool asks the machine that it runs on.
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_RPM_PACKAGE_ARCHITECTURE aarch64)
endif()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# Not a number alone: a package of Debian's own is newer than ours of the same version.
set(CPACK_DEBIAN_PACKAGE_RELEASE 0upstream${IOTRACE_PACKAGE_RELEASE})
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${IOTRACE_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
foreach(script postinst prerm postrm)
  file(READ ${CMAKE_CURRENT_LIST_DIR}/debian/${script} text)
  string(REPLACE "\n#DEBHELPER#\n" "" text "${text}")
  file(WRITE ${CMAKE_BINARY_DIR}/generated/${script} "${text}")
  file(CHMOD ${CMAKE_BINARY_DIR}/generated/${script} PERMISSIONS
       OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/generated/${script})
endforeach()
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
if(NOT IOTRACE_STATIC)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()

set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_RELEASE ${IOTRACE_PACKAGE_RELEASE})
set(CPACK_RPM_PACKAGE_LICENSE GPL-2.0-or-later)
set(CPACK_RPM_PACKAGE_GROUP System/Base)
set(CPACK_RPM_PACKAGE_SUMMARY "Shows where I/O goes and where its latency comes from")
set(CPACK_RPM_PRE_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_LIST_DIR}/rpm/preun)
set(CPACK_RPM_POST_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_LIST_DIR}/rpm/postun)
set(CPACK_RPM_PACKAGE_DESCRIPTION ${CPACK_PACKAGE_DESCRIPTION})
# Otherwise rpmbuild adds a link to the binary below /usr/lib/.build-id, in a folder of no package. The
# others: with SOURCE_DATE_EPOCH, which is not to come from the spec file's changelog, the same bytes.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _build_id_links none
%define source_date_epoch_from_changelog 0
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _buildhost iotrace.invalid
%define packager ${IOTRACE_MAINTAINER}")
set(CPACK_RPM_PACKAGE_AUTOREQ ON)
if(IOTRACE_STATIC)
  set(CPACK_RPM_PACKAGE_AUTOREQ OFF)
endif()
# Folders that are not ours.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
    /usr/sbin /usr/share/man /usr/share/man/man8 /usr/share/bash-completion
    /usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/site-functions
    /usr/share/fish /usr/share/fish/vendor_completions.d /usr/lib/systemd /usr/lib/systemd/system)

# What not all have: see there.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/cmake/Stage.cmake
                            ${CMAKE_CURRENT_LIST_DIR}/cmake/SameTime.cmake)
set(CPACK_IOTRACE_BUILT_USING ${CMAKE_BINARY_DIR}/generated/built-using)
include(CPack)
