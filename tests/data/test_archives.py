"""Archives from strangers (S3): nothing leaves the folder, nothing is special, nothing is unbounded."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from tuckerkg.data.archives import ArchiveLimits, extract
from tuckerkg.errors import InputError

MEMBERS = {"data/train.tsv": b"a\tr\tb\n", "data/test.tsv": b"b\tr\ta\n"}


def make_tar(path: Path, members: dict[str, bytes], *special: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as package:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            package.addfile(info, io.BytesIO(content))
        for info in special:
            package.addfile(info)
    return path


def make_zip(path: Path, members: dict[str, bytes], mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(info, content)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def refusal(archive: Path, limits: ArchiveLimits | None = None) -> str:
    target = archive.parent / "out"
    with pytest.raises(InputError) as caught:
        extract(archive, target, limits)
    assert not target.exists()
    return str(caught.value)


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_files_are_unpacked(tmp_path: Path, make: object) -> None:
    name = "a.tar.gz" if make is make_tar else "a.zip"
    files = extract(make(tmp_path / name, MEMBERS), tmp_path / "out")  # type: ignore[operator]
    found = {path.relative_to(tmp_path / "out").as_posix(): path.read_bytes() for path in files}
    assert found == MEMBERS


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "C:/x", "a\\..\\x", "..", "a\x1bx"])
@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_s3_names_that_leave_the_folder(tmp_path: Path, make: object, name: str) -> None:
    suffix = "tar.gz" if make is make_tar else "zip"
    archive = make(tmp_path / f"a.{suffix}", {**MEMBERS, name: b"x"})  # type: ignore[operator]
    assert "would leave the folder" in refusal(archive)
    assert sorted(path.name for path in tmp_path.iterdir()) == [archive.name]


@pytest.mark.parametrize(
    ("info", "word"),
    [
        (special("l", tarfile.SYMTYPE, "/etc/passwd"), "a link"),
        (special("l", tarfile.LNKTYPE, "data/train.tsv"), "a link"),
        (special("d", tarfile.CHRTYPE), "a device"),
        (special("d", tarfile.BLKTYPE), "a device"),
        (special("d", tarfile.FIFOTYPE), "a device"),
    ],
)
def test_s3_links_and_devices_in_tar(tmp_path: Path, info: tarfile.TarInfo, word: str) -> None:
    assert f"is {word}" in refusal(make_tar(tmp_path / "a.tar.gz", MEMBERS, info))


@pytest.mark.parametrize(("mode", "word"), [(stat.S_IFLNK | 0o777, "a link"), (stat.S_IFCHR | 0o600, "a device")])
def test_s3_links_and_devices_in_zip(tmp_path: Path, mode: int, word: str) -> None:
    assert f"is {word}" in refusal(make_zip(tmp_path / "a.zip", {"l": b"/etc/passwd"}, mode))


@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_s3_caps(tmp_path: Path, make: object) -> None:
    name = "a.tgz" if make is make_tar else "a.zip"
    many = make(tmp_path / name, {f"f{n}": b"x" for n in range(6)})  # type: ignore[operator]
    assert "more than the 5 files" in refusal(many, ArchiveLimits(files=5))
    large = make(tmp_path / name, {"f": bytes(range(256)) * 40})  # type: ignore[operator]
    assert "bytes allowed" in refusal(large, ArchiveLimits(total_bytes=10_000))
    bomb = make(tmp_path / name, {"f": bytes(30 << 20)})  # type: ignore[operator]
    assert "bomb" in refusal(bomb)


def test_s3_zip_whose_header_lies_about_the_size(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"f": bytes(1_000)})
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(data)
    assert "damaged archive" in refusal(path)


def test_s3_a_tar_whose_header_is_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as package:
        info = tarfile.TarInfo("f")
        info.pax_headers = {"comment": "x" * (30 << 20)}
        package.addfile(info)
    assert path.stat().st_size < 100_000
    assert "bomb" in refusal(path)


def test_s3_a_file_with_holes_is_refused(tmp_path: Path) -> None:
    info = special("f", tarfile.GNUTYPE_SPARSE)
    assert "is a file with holes" in refusal(make_tar(tmp_path / "a.tar.gz", MEMBERS, info))


def test_a_tar_is_read_to_its_checksum(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "a.tar.gz", MEMBERS)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1  # in the CRC of the gzip trailer
    path.write_bytes(data)
    assert "damaged archive" in refusal(path)


def test_modes_and_times_of_an_archive_are_not_taken_over(tmp_path: Path) -> None:
    info = tarfile.TarInfo("f")
    info.mode, info.mtime = 0o7777, 1 << 60
    (found,) = extract(make_tar(tmp_path / "a.tar.gz", {}, info), tmp_path / "out")
    assert found.stat().st_mode & 0o7133 == 0


def test_members_that_occur_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as package:
        for _ in range(2):
            package.addfile(tarfile.TarInfo("f"))
    assert "twice" in refusal(path)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_damaged_missing_and_other_files(tmp_path: Path, name: str) -> None:
    make = make_zip if name.endswith("zip") else make_tar
    assert "no such file" in refusal(tmp_path / name)
    data = make(tmp_path / name, MEMBERS).read_bytes()
    for end in (0, 10, len(data) // 2, len(data) - 9):
        (tmp_path / name).write_bytes(data[:end])
        assert name in refusal(tmp_path / name)
    with pytest.raises(InputError, match="not an archive"):
        extract(tmp_path / "a.rar", tmp_path / "out")
