import os
import stat

import pytest

from nearfield.common.files import atomic


def test_a_file_appears_whole(tmp_path):
    path = tmp_path / "a.txt"
    with atomic(path) as temporary:
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_fails_leaves_everything_as_it_was(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), atomic(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_permissions_are_those_of_any_new_file_or_of_the_file_replaced(tmp_path):
    plain, path = tmp_path / "plain", tmp_path / "a.txt"
    plain.touch()
    for mode in (stat.S_IMODE(plain.stat().st_mode), 0o640):
        with atomic(path) as temporary:
            temporary.write_text("new")
        assert stat.S_IMODE(path.stat().st_mode) == mode
        path.chmod(0o640)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    path = tmp_path / "nowhere" / "a.txt"
    with pytest.raises(FileNotFoundError) as caught, atomic(path):
        pass
    assert caught.value.filename == str(path)


def test_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match="No space left") as caught, atomic(tmp_path / "a.txt"):
        raise OSError(28, "No space left on device")
    assert caught.value.filename == str(tmp_path / "a.txt")
    with pytest.raises(OSError, match="Input/output") as caught, atomic(tmp_path / "a.txt"):
        raise OSError(5, "Input/output error")  # of what is read, for all that is known
    assert caught.value.filename is None


def test_a_link_is_followed_and_stays(tmp_path):
    path, link = tmp_path / "a.txt", tmp_path / "link"
    path.write_text("old")
    link.symlink_to(path)
    with atomic(link) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert link.is_symlink()


def test_a_device_is_written_in_place():
    with atomic(os.devnull) as temporary:
        temporary.write_text("gone")
    assert not os.path.isfile(os.devnull)
