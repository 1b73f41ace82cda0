"""A reader of TensorBoard's event files, written from their description."""
import struct

from checks import check


def crc32c(data):
    """Bit by bit, from the definition of the Castagnoli polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    data = open(path, "rb").read()
    at = 0
    while at < len(data):
        length, = struct.unpack_from("<Q", data, at)
        crc, = struct.unpack_from("<I", data, at + 8)
        check("CRC of a length", crc == masked(data[at:at + 8]))
        body = data[at + 12:at + 12 + length]
        crc, = struct.unpack_from("<I", data, at + 12 + length)
        check("CRC of an event", crc == masked(body))
        yield body
        at += 16 + length
    check("no half record", at == len(data), at, len(data))


def fields(data):
    """(number, value) of a protocol buffer message."""
    def varint(at):
        value, shift = 0, 0
        while True:
            byte = data[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at
    at = 0
    while at < len(data):
        key, at = varint(at)
        kind = key & 7
        if kind == 0:
            value, at = varint(at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            assert kind == 2, kind
            size, at = varint(at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value
