# SPDX-License-Identifier: GPL-2.0-or-later
"""What is inside a kernel's files: the ELF of a bzImage, and the BTF of an ELF."""
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
    """Not what it should be; the text says what is wrong."""


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
    elf = unpack(image[start:start + length - 4])  # the last 4 bytes are the unpacked size
    if elf[:4] != b"\x7fELF":
        raise BadFile("the bzImage holds no ELF that is compressed in a known way")
    return elf


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
