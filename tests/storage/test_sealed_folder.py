import errno
import json
import os
import pickle
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save as tensor_bytes

from tuckerkg.errors import RunFolderError
from tuckerkg.storage import sealed_folder as manifest
from tuckerkg.storage.sealed_folder import (
    SealedFolder,
    clean_temporaries,
    discard,
    explained,
    json_bytes,
    write_atomic,
    write_sealed,
)

FILES = {"a.json": b'{"x":1}', "b.bin": bytes(range(256)) * 8}


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    write_sealed(tmp_path / "folder", FILES)
    return tmp_path / "folder"


def dead_process_id() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def reseal(folder: Path, version: int, entries: object) -> None:
    (folder / "manifest.json").write_bytes(manifest._sealed_bytes(version, entries))  # type: ignore[arg-type]


def test_what_is_written_is_read(sealed: Path) -> None:
    folder = SealedFolder(sealed)
    folder.verify()
    assert folder.names == ["a.json", "b.bin"]
    assert folder.read_json("a.json") == {"x": 1}
    assert folder.read_bytes("b.bin") == FILES["b.bin"]
    assert [entry.name for entry in sealed.parent.iterdir()] == ["folder"]


def test_the_manifest_is_compact_and_sorted(sealed: Path) -> None:
    text = (sealed / "manifest.json").read_text()
    found = json.loads(text)
    assert text == json.dumps(found, sort_keys=True, separators=(",", ":"))
    assert found["format"] == manifest.FORMAT
    assert found["files"]["b.bin"]["bytes"] == 2048


def test_importing_it_does_not_import_torch() -> None:
    package = Path(manifest.__file__).parents[1]
    code = (
        "import sys, types; package = types.ModuleType('tuckerkg'); package.__path__ = [sys.argv[1]]; "
        "sys.modules['tuckerkg'] = package; "
        "from tuckerkg.storage import lock, metrics_log, sealed_folder; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(package)], check=True)


SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=50, deadline=None)
@given(st.lists(SCALARS | st.dictionaries(st.text(), SCALARS)))
def test_json_comes_back_as_it_went(value: object) -> None:
    assert json.loads(json_bytes(value).decode("utf-8", "surrogatepass")) == value


def test_json_keeps_lone_surrogates_and_refuses_nan() -> None:
    assert json.loads(json_bytes(["\udbcd"]).decode("utf-8", "surrogatepass")) == ["\udbcd"]
    with pytest.raises(ValueError, match="JSON"):
        json_bytes([float("nan")])


# ------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize("name", ["a.json", "b.bin", "manifest.json"])
def test_b57_a_missing_file_is_named(sealed: Path, name: str) -> None:
    (sealed / name).unlink()
    with pytest.raises(RunFolderError, match=f"{name}.*missing"):
        SealedFolder(sealed).verify()


def test_b57_an_extra_file_is_named(sealed: Path) -> None:
    (sealed / "more.bin").write_bytes(b"")
    with pytest.raises(RunFolderError, match=r"more\.bin"):
        SealedFolder(sealed).verify()


@pytest.mark.parametrize("spoil", ["absent", "damaged", "a folder"])
def test_b57_the_rest_is_readable_while_one_file_is_not(sealed: Path, spoil: str) -> None:
    (sealed / "b.bin").unlink()
    if spoil == "damaged":
        (sealed / "b.bin").write_bytes(b"?")
    elif spoil == "a folder":
        (sealed / "b.bin").mkdir()
    folder = SealedFolder(sealed)
    assert folder.read_json("a.json") == {"x": 1}
    with pytest.raises(RunFolderError, match=r"b\.bin"):
        folder.read_bytes("b.bin")


def test_b57_a_file_that_is_not_listed_is_not_read(sealed: Path) -> None:
    (sealed / "more.bin").write_bytes(b"")
    with pytest.raises(RunFolderError, match=r"more\.bin.*a\.json, b\.bin"):
        SealedFolder(sealed).read_bytes("more.bin")


def test_b58_another_content_of_the_same_length_is_refused(sealed: Path) -> None:
    (sealed / "a.json").write_bytes(b'{"x":2}')
    with pytest.raises(RunFolderError, match="SHA-256"):
        SealedFolder(sealed).read_json("a.json")


@pytest.mark.parametrize("size", [0, 1, 2047, 2049, 100_000])
def test_b58_another_length_is_refused(sealed: Path, size: int) -> None:
    (sealed / "b.bin").write_bytes((FILES["b.bin"] * 49)[:size])
    with pytest.raises(RunFolderError, match=f"{size:,} bytes"):
        SealedFolder(sealed).read_bytes("b.bin")


def test_b58_every_bit_of_the_manifest_counts(sealed: Path) -> None:
    file = sealed / "manifest.json"
    whole = file.read_bytes()
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        with pytest.raises(RunFolderError):
            SealedFolder(sealed)


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"{}", b"[" * 200_000, b'{"format":1}', b"\xff\xfe", b"9" * 5000, b" " * (2 << 20)]
)
def test_b58_a_manifest_of_any_other_content_is_refused(sealed: Path, text: bytes) -> None:
    (sealed / "manifest.json").write_bytes(text)
    with pytest.raises(RunFolderError, match=r"manifest\.json"):
        SealedFolder(sealed)


def test_b58_spaces_and_doubled_keys_in_the_manifest_are_refused(sealed: Path) -> None:
    file = sealed / "manifest.json"
    whole = file.read_bytes()
    for changed in (whole + b"\n", whole.replace(b",", b", "), whole.replace(b'{"digest"', b'{"format":1,"digest"')):
        assert changed != whole
        file.write_bytes(changed)
        with pytest.raises(RunFolderError, match="damaged"):
            SealedFolder(sealed)


def test_b61_a_newer_format_says_which_version_is_needed(sealed: Path) -> None:
    reseal(sealed, 7, {})
    with pytest.raises(RunFolderError, match=r"needs a tuckerkg that reads format 7.*upgrade"):
        SealedFolder(sealed)


@pytest.mark.parametrize("version", [0, -1])
def test_b61_a_format_that_never_was_is_refused(sealed: Path, version: int) -> None:
    reseal(sealed, version, {})
    with pytest.raises(RunFolderError, match="not a manifest"):
        SealedFolder(sealed)


@pytest.mark.parametrize(
    "entry", [{}, {"sha256": "0" * 64}, {"sha256": "x", "bytes": 1}, {"sha256": "0" * 64, "bytes": "1"}, 5]
)
def test_b58_an_entry_without_size_or_sum_is_refused(sealed: Path, entry: object) -> None:
    reseal(sealed, 1, {"a.json": entry})
    with pytest.raises(RunFolderError, match=r"a\.json"):
        SealedFolder(sealed)


# ------------------------------------------------------------------------------------------ tensors


class Harmful:
    def __reduce__(self) -> tuple[object, ...]:
        return (os._exit, (99,))


def huge_header(length: int) -> bytes:
    return length.to_bytes(8, "little") + b"{}"


NOT_SAFETENSORS = [
    pickle.dumps(Harmful()),
    b"PK\x03\x04" + b"\0" * 60,
    huge_header(2**63),
    huge_header(2**64 - 1),
    huge_header(10**9),
    b"",
    b"\x02\0\0\0\0\0\0\0[]",
    (40).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[9],"data_of',
]


@pytest.mark.parametrize("content", NOT_SAFETENSORS)
def test_b62_what_is_not_safetensors_is_refused_without_running_or_allocating(tmp_path: Path, content: bytes) -> None:
    write_sealed(tmp_path / "folder", {"weights.safetensors": content})
    folder = SealedFolder(tmp_path / "folder")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    try:
        with pytest.raises(RunFolderError, match=r"weights\.safetensors: is not a safetensors file"):
            folder.read_tensors("weights.safetensors")
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kB


def test_tensors_of_all_kinds_come_back_to_the_bit(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    kinds = [
        torch.float32,
        torch.float64,
        torch.bfloat16,
        torch.float16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
    ]
    tensors = {str(kind): (torch.rand(3, 5, generator=generator) * 9).to(kind) for kind in kinds}
    tensors |= {"scalar": torch.tensor(3.5), "empty": torch.empty(0, 7)}
    write_sealed(tmp_path / "folder", {"t.safetensors": tensor_bytes(tensors)})
    found = SealedFolder(tmp_path / "folder").read_tensors("t.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


# ------------------------------------------------------------------------------------------ names and links

BAD_NAMES = ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "a b", "ä", "a\n", "a\0", "x" * 65, "manifest.json"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_s2_a_bad_name_is_neither_written_nor_read(sealed: Path, name: str) -> None:
    with pytest.raises(RunFolderError, match="not allowed"):
        write_sealed(sealed.parent / "other", {name: b""})
    assert not (sealed.parent / "other").exists()
    reseal(sealed, 1, {name: {"sha256": "0" * 64, "bytes": 0}})
    with pytest.raises(RunFolderError, match="not allowed"):
        SealedFolder(sealed)


@pytest.mark.parametrize("name", ["a.json", "manifest.json"])
def test_s2_a_link_is_not_followed(sealed: Path, name: str) -> None:
    (sealed / name).rename(sealed.parent / "elsewhere")
    (sealed / name).symlink_to(sealed.parent / "elsewhere")
    with pytest.raises(RunFolderError, match="is a symbolic link"):
        SealedFolder(sealed).verify()


def test_s2_a_linked_folder_is_not_followed(sealed: Path) -> None:
    (sealed.parent / "link").symlink_to(sealed)
    with pytest.raises(RunFolderError, match="is a symbolic link"):
        SealedFolder(sealed.parent / "link")


def test_s2_a_pipe_does_not_block(sealed: Path) -> None:
    (sealed / "a.json").unlink()
    os.mkfifo(sealed / "a.json")
    with pytest.raises(RunFolderError, match="not a regular file"):
        SealedFolder(sealed).read_bytes("a.json")


def test_names_in_messages_are_safe_on_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError) as caught:
        SealedFolder(tmp_path / "\x1b[2Jnone")
    assert "\x1b" not in str(caught.value)


# ------------------------------------------------------------------------------------------ writing and failing


def test_a_folder_is_replaced(sealed: Path) -> None:
    write_sealed(sealed, {"c": b"new"})
    SealedFolder(sealed).verify()
    assert SealedFolder(sealed).names == ["c"]
    assert [entry.name for entry in sealed.parent.iterdir()] == ["folder"]


@pytest.fixture
def failing_sync(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The n-th fsync fails; the fixture's value holds n."""
    countdown = [0]
    real = os.fsync

    def fsync(descriptor: int) -> None:
        countdown[0] -= 1
        if countdown[0] == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    yield countdown


@pytest.mark.parametrize("present", [True, False])
def test_a_failed_sync_leaves_the_former_folder_and_nothing_else(
    tmp_path: Path, failing_sync: list[int], present: bool
) -> None:
    if present:
        write_sealed(tmp_path / "folder", FILES)
    before = sorted(entry.name for entry in tmp_path.iterdir())
    for turn in range(1, 5):  # one file, the manifest, the folder, its parent
        failing_sync[0] = turn
        with pytest.raises(RunFolderError, match=r"Cannot write .*Input/output error"):
            write_sealed(tmp_path / "folder", {"c": b"new"})
        assert sorted(entry.name for entry in tmp_path.iterdir()) == before
        if present:
            SealedFolder(tmp_path / "folder").verify()
            assert SealedFolder(tmp_path / "folder").names == sorted(FILES)
    failing_sync[0] = 5
    write_sealed(tmp_path / "folder", {"c": b"new"})
    assert failing_sync[0] == 1, "more syncs than the turns above"


def test_an_interrupt_leaves_the_former_folder_and_nothing_else(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(manifest, "sync_folder", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_sealed(sealed, {"c": b"new"})
    with pytest.raises(KeyboardInterrupt):
        write_atomic(sealed.parent / "file", b"")
    SealedFolder(sealed).verify()
    assert SealedFolder(sealed).names == sorted(FILES)


def test_write_atomic_replaces_or_keeps(tmp_path: Path, failing_sync: list[int]) -> None:
    write_atomic(tmp_path / "file", b"old")
    failing_sync[0] = 1
    with pytest.raises(RunFolderError):
        write_atomic(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    write_atomic(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_temporary_of_our_own_process_id_does_not_stand_in_the_way(sealed: Path) -> None:
    stray = sealed.with_name(f"folder.tmp-{os.getpid()}")
    stray.mkdir()
    (stray / "half").write_bytes(b"")
    write_sealed(sealed, {"c": b"new"})
    discard(sealed)
    assert list(sealed.parent.iterdir()) == []


def test_f10_temporaries_of_the_dead_are_removed_and_of_the_living_kept(tmp_path: Path) -> None:
    dead = dead_process_id()
    for name in (
        f"x.tmp-{dead}",
        "x.tmp-0",
        f"x.tmp-{10**30}",
        f"y.tmp-{os.getpid()}",
        f"x.tmp-{os.getppid()}",
        "x.tmp-abc",
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"")
    (tmp_path / f"file.tmp-{dead}").write_bytes(b"")
    clean_temporaries(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([f"x.tmp-{os.getppid()}", "x.tmp-abc"])
    clean_temporaries(tmp_path / "absent")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES])
def test_disk_errors_have_cause_and_remedy(code: int) -> None:
    with pytest.raises(RunFolderError) as caught, explained("Cannot write it"):
        raise OSError(code, os.strerror(code), "/some/place")
    text = str(caught.value)
    assert text.startswith(f"Cannot write it: {os.strerror(code)} (/some/place). ")
    assert "choose another" in text or "Change" in text
