# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of a kernel's files: the ELF of a bzImage, the Image of arm64, and the BTF of either."""
import gzip
import lzma
import struct
import subprocess

# What a compressed file begins with, and who reads it where Python cannot.
_PACKERS = (
    (b"\x1f\x8b", None),
    (b"\xfd7zXZ\x00", None),
    (b"\x28\xb5\x2f\xfd", ["zstd", "-dcq", "-"]),
    (b"\x02\x21\x4c\x18", ["lz4", "-dcq", "-"]),
    (b"BZh", ["bzip2", "-dc"]),
)


class BadFile(Exception):
    """The file is not as expected; the text has the reason."""


def unpack(data):
    """The content of a file that is compressed in any of the ways kernels are, or is not."""
    for magic, program in _PACKERS:
        if not data.startswith(magic):
            continue
        if magic == b"\x1f\x8b":
            return gzip.decompress(data)
        if program is None:
            return lzma.LZMADecompressor().decompress(data)
        done = subprocess.run(program, input=data, capture_output=True, check=False)
        # What follows the compressed stream (a bzImage has the size there) makes some complain.
        if not done.stdout.startswith(b"\x7fELF"):
            raise BadFile(f"{program[0]}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout
    return data


def vmlinux(image):
    """The ELF inside a bzImage (Documentation/arch/x86/boot.rst: payload_offset, _length)."""
    if image[:4] == b"\x7fELF":
        return image
    if len(image) < 0x250 or image[0x202:0x206] != b"HdrS":
        raise BadFile("no bzImage")
    start, length = struct.unpack_from("<II", image, 0x248)
    start += ((image[0x1F1] or 4) + 1) * 512
    packed = image[start:start + length]
    # The last 4 bytes are the unpacked size: of gzip its own, of the others appended.
    elf = unpack(packed if packed.startswith(b"\x1f\x8b") else packed[:-4])
    if elf[:4] != b"\x7fELF":
        raise BadFile("the bzImage holds no ELF that is compressed in a known way")
    return elf


def image(data):
    """The Image that QEMU boots on arm64, from a file that is compressed, or an EFI program
    (drivers/firmware/efi/libstub/zboot-header.S), or neither."""
    if data[:2] == b"MZ" and data[4:8] == b"zimg":
        offset, length = struct.unpack_from("<II", data, 8)
        data = data[offset:offset + length]
    for magic, program in _PACKERS:
        if data.startswith(magic):
            data = subprocess.run(program, input=data, capture_output=True, check=False).stdout \
                if program else unpack(data)
            break
    if data[56:60] != b"ARMd":
        raise BadFile("no Image of arm64")
    return data


def btf(kernel):
    """The BTF of a bzImage or of an Image, which is no ELF: found by its header; None without one."""
    if kernel[56:60] != b"ARMd":
        return section(vmlinux(kernel), ".BTF")
    at = -1
    while (at := kernel.find(b"\x9f\xeb\x01\0\x18\0\0\0", at + 1)) >= 0:
        types, types_size, strings, strings_size = struct.unpack_from("<IIII", kernel, at + 8)
        start = at + 24 + strings
        if types == 0 and strings == types_size and strings_size and \
                start + strings_size <= len(kernel) and not kernel[start] and types_size > 1 << 20:
            return kernel[at:start + strings_size]
    return None


def section(elf, name):
    """The bytes of a section of an ELF64 little-endian file, or None."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise BadFile("no ELF64 file of a little-endian machine")
    table, = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)

    def header(i):
        return struct.unpack_from("<IIQQQQ", elf, table + i * size)

    strings = header(names)[4]
    for i in range(count):
        word, _, _, _, offset, length = header(i)
        start = strings + word
        if elf[start:elf.index(b"\0", start)] == name.encode():
            return elf[offset:offset + length]
    return None
