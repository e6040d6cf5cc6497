"""Flat position-independent bytes from the ELF relocatable that LLVM emits.

All sections that a kernel needs at run time (code and read-only data) are laid out one after the other, and the references between them,
which are all relative to the instruction pointer, are resolved. The result can be copied to any 64-byte aligned executable address and
called. Nothing outside of it is reachable; a reference to anything else is an error that names the symbol.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

ALIGNMENT = 64
_SHT_RELA, _SHT_SYMTAB, _SHT_NOBITS = 4, 2, 8
_SHF_WRITE, _SHF_ALLOC = 1, 2
_SHN_UNDEF = 0
# Relocation types of the x86-64 psABI, with the size of the field: 64-bit absolute addresses do not occur in position-independent code.
_R_X86_64_PC32, _R_X86_64_PLT32, _R_X86_64_PC64 = 2, 4, 24
_RELATIVE = {_R_X86_64_PC32: "<i", _R_X86_64_PLT32: "<i", _R_X86_64_PC64: "<q"}


class UnresolvedSymbolError(Exception):
    """Generated code refers to something that is not in its module."""


@dataclass(frozen=True, slots=True)
class FlatCode:
    """Position-independent bytes and the offset in them of each global function."""

    code: bytes
    entries: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


def flatten_object(image: bytes) -> FlatCode:
    """The code and read-only data of an x86-64 ELF relocatable as one block. UnresolvedSymbolError for an external reference."""
    sections = _read_sections(image)
    code = bytearray()
    places: dict[int, int] = {}
    for number, section in enumerate(sections):
        if not section.flags & _SHF_ALLOC or section.name.startswith(".eh_frame") or section.size == 0:
            continue
        if section.flags & _SHF_WRITE or section.type == _SHT_NOBITS:
            raise ValueError(f"section {section.name}: kernels may not have writable data")
        code += bytes(-len(code) % max(section.alignment, 1))
        places[number] = len(code)
        code += image[section.offset : section.offset + section.size]
    symbols = list(_read_symbols(image, sections))
    for section in sections:
        if section.type == _SHT_RELA and section.info in places:
            _apply_relocations(code, image, section, places, symbols)
    code += bytes(-len(code) % ALIGNMENT)
    entries = {symbol.name: places[symbol.section] + symbol.value for symbol in symbols if symbol.is_global and symbol.section in places}
    return FlatCode(bytes(code), entries)


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    is_global: bool
    section: int
    value: int


def _text_at(image: bytes, start: int) -> str:
    return image[start : image.index(b"\0", start)].decode()


def _read_sections(image: bytes) -> list[_Section]:
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("object code is not a little-endian 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", image, table + number * entry_size) for number in range(count)]
    name_table = rows[names][4]
    return [_Section(_text_at(image, name_table + row[0]), row[1], row[2], row[4], row[5], row[6], row[7], row[8]) for row in rows]


def _read_symbols(image: bytes, sections: list[_Section]) -> Iterator[_Symbol]:
    for section in sections:
        if section.type != _SHT_SYMTAB:
            continue
        names = sections[section.link].offset
        for start in range(section.offset, section.offset + section.size, 24):
            name, info, _, index, value, _ = struct.unpack_from("<IBBHQQ", image, start)
            # The name of a section symbol is that of its section.
            text = _text_at(image, names + name) if name else (sections[index].name if index < len(sections) else "")
            yield _Symbol(text, info >> 4 == 1, index, value)


def _apply_relocations(code: bytearray, image: bytes, table: _Section, places: dict[int, int], symbols: list[_Symbol]) -> None:
    base = places[table.info]
    for start in range(table.offset, table.offset + table.size, 24):
        offset, info, addend = struct.unpack_from("<QQq", image, start)
        symbol, kind = symbols[info >> 32], info & 0xFFFFFFFF
        if symbol.section == _SHN_UNDEF or symbol.section not in places:
            raise UnresolvedSymbolError(f"generated code refers to {symbol.name!r}, which is not part of it")
        if kind not in _RELATIVE:
            raise ValueError(
                f"relocation type {kind} against {symbol.name!r}: only references relative to the instruction pointer are allowed"
            )
        place = base + offset
        struct.pack_into(_RELATIVE[kind], code, place, places[symbol.section] + symbol.value + addend - place)
