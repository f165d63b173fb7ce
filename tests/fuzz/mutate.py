"""Small damages to an input, drawn by hypothesis so that a failure is made small."""

from hypothesis import strategies as st

_PIECES = (
    b"\x00", b"\n", b"\r", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"&a ", b"*a", b"!!python/x ",
    b"{", b"}", b"[", b"]", b": ", b"- ", b"? ", b"'", b'"', b"|", b">", b"%", b"#", b"---\n",
    b"1e999", b"-1", b"nan", b"inf", b".inf", b"9" * 400, b"0x10", b"null", b"true", b"~",
    b"\\ud800", b"\\u0000", b"[" * 200, b"{a: " * 40, b"/", b"$(x)", b"LD_PRELOAD", b"\x1b[31m",
    b"[rank3]: ", b" NCCL WARN ", b"Xid (PCI:0000:10:1c): ", b"-9223372036854775809", b"1_0",
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """One of `seeds` with up to six pieces cut out, doubled, moved or put in."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 40)))
        match draw(st.integers(0, 4)):
            case 0:
                del data[start:end]
            case 1:
                data[start:start] = data[start:end]
            case 2:
                data[start:end] = draw(st.sampled_from(_PIECES))
            case 3:
                data[start:start] = draw(st.sampled_from(_PIECES))
            case _:
                data[start:end] = draw(st.binary(max_size=12))
    return bytes(data)
