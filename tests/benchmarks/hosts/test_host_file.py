"""The host's own file says what its worker may call, use and start; each fault is a sentence that says what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import host_file

WHOLE = """
targets = ["http://127.0.0.1:8080", "gpu.lan"]
api_keys = ["office"]

[profiles.llama]
kind = "llamacpp"
command = ["llama-server", "-m", "/models/a.gguf", "--port", "{port}", "-np", "{setting}", "-c", "{context_total}"]
endpoint = "http://127.0.0.1:8081"
settings = [1, 16]
context_per_sequence = 4096
environment = { CUDA_VISIBLE_DEVICES = "0" }
previous = ["systemctl", "--user", "start", "llama"]
"""
PROFILE = """[profiles.llama]
kind = "llamacpp"
command = ["llama-server", "-np", "{setting}"]
endpoint = "http://127.0.0.1:8081"
settings = [1, 16]
"""


@pytest.fixture
def file(tmp_path: Path, settings) -> Path:
    settings.HOST_FILE = tmp_path / "worker.toml"
    return settings.HOST_FILE


def test_a_whole_file_is_read_as_it_is_written(file: Path) -> None:
    file.write_text(WHOLE)
    read = host_file.read()
    assert (read.targets, read.api_keys, read.path) == (("http://127.0.0.1:8080", "gpu.lan"), ("office",), str(file))
    profile = read.profiles["llama"]
    assert (profile.kind, profile.port, profile.settings, profile.ready_within_s) == ("llamacpp", 8081, (1, 16), 120)
    assert profile.environment == {"CUDA_VISIBLE_DEVICES": "0"}
    assert (profile.previous, profile.stop_previous) == (("systemctl", "--user", "start", "llama"), ())


def test_without_a_file_only_the_hosts_of_the_environment_may_be_called_and_nothing_started(file, settings) -> None:
    assert host_file.read().targets == ("127.0.0.1", "localhost", "::1")
    settings.TARGET_HOSTS = ["gpu.lan"]
    read = host_file.read()
    assert (read.targets, dict(read.profiles), read.path) == (("gpu.lan",), {}, str(file))


def test_the_file_goes_before_the_environment_and_an_empty_one_means_loopback(file, settings) -> None:
    settings.TARGET_HOSTS = ["gpu.lan"]
    file.write_text("")
    assert host_file.read().targets == ("127.0.0.1", "localhost", "::1")
    file.write_text('targets = ["other.lan"]')
    assert host_file.read().targets == ("other.lan",)
    file.write_text("targets = []")
    assert host_file.read().targets == ()


def test_what_is_offered_to_the_web_holds_no_command_line(file: Path) -> None:
    file.write_text(WHOLE)
    offered = host_file.offers(host_file.read())
    assert offered == {
        "path": str(file),
        "targets": ["http://127.0.0.1:8080", "gpu.lan"],
        "api_keys": ["office"],
        "profiles": {
            "llama": {
                "kind": "llamacpp", "endpoint": "http://127.0.0.1:8081", "settings": [1, 16],
                "context_per_sequence": 4096, "ready_within_s": 120.0, "warnings": [
                    "llama.cpp changes context and offload to fit the memory it finds, unless it is started with --fit off.",
                    "llama.cpp keeps up to 8,192 MiB of earlier prompts in host memory: start it with --cache-ram 0, so that "
                    "no prompt is answered from there.",
                ],
            }
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    "address, allowed",
    [
        ("http://127.0.0.1:8080", True),
        ("http://127.0.0.1:8080/v1/models", True),
        ("HTTP://127.0.0.1:8080/", True),
        ("http://127.0.0.1:8081/metrics", True),  # the address of a profile
        ("http://127.0.0.1:8082", False),
        ("https://127.0.0.1:8080", False),
        ("http://127.0.0.1", False),
        ("http://gpu.lan:9000", True),
        ("https://GPU.lan", True),
        ("http://evil.gpu.lan", False),
        ("http://gpu.lan.", False),
        ("ftp://gpu.lan", False),
        ("gpu.lan", False),
        ("", False),
        ("http://gpu.lan@evil.example", False),
        ("http://evil.example@gpu.lan", False),
        ("http://evil.example\\@gpu.lan", False),
        ("http://evil.example#@gpu.lan", False),
        ("http://gpu.lan:99999", False),
        ("http://gpu.lan:x", False),
        ("http://gpu.lan\t.evil.example", False),
        ("http://gpu。lan", False),
    ],
)
def test_an_address_is_on_the_list_or_it_is_not(file: Path, address: str, allowed: bool) -> None:
    file.write_text(WHOLE)
    assert host_file.allows(host_file.read(), address) is allowed


@pytest.mark.parametrize("entry", ["::1", "[::1]", "http://[::1]:8080"])
def test_addresses_of_the_newer_internet_protocol_are_written_with_or_without_brackets(file, entry: str) -> None:
    file.write_text(f'targets = ["{entry}"]')
    assert host_file.allows(host_file.read(), "http://[::1]:8080/v1")


@pytest.mark.parametrize("name, lent", [("office", True), ("Office", True), ("other", False), ("", False)])
def test_a_key_is_lent_by_its_name(file: Path, name: str, lent: bool) -> None:
    file.write_text(WHOLE)
    assert host_file.allows_key(host_file.read(), name) is lent


def test_without_a_file_the_keys_that_the_operator_gave_the_worker_are_lent(file, monkeypatch) -> None:
    monkeypatch.setenv("HEADROOM_KEY_LAB_2", "a")
    read = host_file.read()
    assert (host_file.allows_key(read, "lab-2"), host_file.allows_key(read, "office")) == (True, False)


BOUND = """
targets = ["127.0.0.1", "gpu.lan", "http://other.lan:9000"]
api_keys = ["office", { name = "lab", targets = ["http://gpu.lan:8080"] }, { name = "none", targets = [] }]
"""


@pytest.mark.parametrize(
    ("name", "address", "may"),
    [
        ("office", "http://127.0.0.1:8080", True),
        ("office", "http://[::1]:8080", True),
        ("office", "http://gpu.lan:8080", False),
        ("lab", "http://gpu.lan:8080/v1", True),
        ("Lab", "http://gpu.lan:8080", True),
        ("lab", "http://gpu.lan:9000", False),
        ("lab", "http://other.lan:9000", False),
        ("lab", "http://127.0.0.1:8080", False),
        ("none", "http://127.0.0.1:8080", False),
        ("unknown", "http://127.0.0.1:8080", False),
        ("lab", "http://gpu.lan:8080@other.lan", False),
    ],
)
def test_a_key_goes_to_the_targets_it_is_bound_to_and_a_bare_name_to_loopback_alone(file, name, address, may) -> None:
    file.write_text(BOUND)
    read = host_file.read()
    assert read.api_keys == ("office", "lab", "none")
    assert host_file.key_may_go(read, name, address) is may


def test_without_a_file_a_key_goes_to_every_target_that_the_operator_named(file, settings, monkeypatch) -> None:
    monkeypatch.setenv("HEADROOM_KEY_LAB", "a")
    settings.TARGET_HOSTS = ["gpu.lan"]
    read = host_file.read()
    assert host_file.key_may_go(read, "lab", "http://gpu.lan:8080")
    assert not host_file.key_may_go(read, "lab", "http://127.0.0.1:8080")


@pytest.mark.parametrize(
    "content, said",
    [
        ("targets = [", ["is not TOML", "Write lines such as"]),
        ("target = []", ["unknown field `target`", "docs/host.md"]),
        ('targets = "127.0.0.1"', ["got `str` - at `$.targets`", "docs/host.md"]),
        ('targets = ["127.0.0.1:8080"]', ['"127.0.0.1:8080" in targets', "Write 127.0.0.1 or http://127.0.0.1:8080"]),
        ('targets = ["http://a/v1"]', ['"http://a/v1" in targets', "without a path"]),
        ('targets = ["http://me@a"]', ['"http://me@a" in targets', "without a path"]),
        ('targets = ["*"]\n[profiles.x]', ["missing required field `kind`"]),
        ('targets = ["a/b"]', ['"a/b" in targets', "Write 127.0.0.1"]),
        ('api_keys = ["a b"]', ['"a b" in api_keys', "Write letters"]),
        ('api_keys = [{ name = "a b", targets = [] }]', ['"a b" in api_keys', "Write letters"]),
        ('api_keys = [{ name = "a" }]', ["missing required field `targets`", "docs/host.md"]),
        ('api_keys = [{ name = "a", targets = ["a/b"] }]', ['"a/b" in the targets of the key a', "Write 127.0.0.1"]),
        (
            'api_keys = ["lab", { name = "LAB", targets = [] }]',
            ["two entries of api_keys mean HEADROOM_KEY_LAB", "Write one"],
        ),
        (PROFILE.replace("llamacpp", "llama"), ['profile llama: kind "llama" is not known', "vllm"]),
        (PROFILE.replace('["llama-server", "-np", "{setting}"]', "[]"), ["the command is empty", "Write a list"]),
        (PROFILE.replace('"-np", "{setting}"', '"-np", "4"'), ["never names {setting}", "-np {setting}"]),
        (PROFILE.replace('"-np"', '"{gpu}"'), ["{gpu} is not known", "{port}"]),
        (PROFILE.replace('"-np"', '"{context_total}"'), ["context", "context_per_sequence = 4096"]),
        (PROFILE.replace(":8081", ""), ["is no fixed address", "http://127.0.0.1:8081"]),
        (PROFILE.replace("[1, 16]", "[16, 1]"), ["settings are 16 to 1", "[1, 16]"]),
        (PROFILE.replace("[1, 16]", "[0, 1]"), ["settings are 0 to 1", "[1, 16]"]),
        (PROFILE.replace("[1, 16]", "[1]"), ["Expected `array` of length 2"]),
        (PROFILE + "shell = true", ["unknown field `shell`", "docs/host.md"]),
        (PROFILE + "ready_within_s = 0", ["ready_within_s is 0", "1 to 3600"]),
        (PROFILE + "context_per_sequence = 0", ["context_per_sequence is 0", "4096"]),
        (PROFILE.replace("profiles.llama", 'profiles."a b"'), ["profile a b", "Write letters"]),
    ],
)
def test_a_fault_is_a_sentence_with_the_path_and_what_to_write(file: Path, content: str, said: list[str]) -> None:
    file.write_text(content)
    with pytest.raises(host_file.HostFileError) as caught:
        host_file.read()
    message = str(caught.value)
    assert message.startswith(str(file))
    assert [words for words in said if words not in message] == []
    assert message.endswith(".")


def test_a_file_that_any_user_may_change_is_not_used(file: Path) -> None:
    file.write_text("")
    file.chmod(0o666)
    with pytest.raises(host_file.HostFileError, match=r"can be changed by every user of this host\. Run: chmod o-w "):
        host_file.read()


def test_a_file_that_is_no_text_or_no_file_says_so(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(host_file.HostFileError, match="is not UTF-8"):
        host_file.read()
    file.unlink()
    file.mkdir()
    with pytest.raises(host_file.HostFileError, match=r"cannot be read \(Is a directory\)"):
        host_file.read()


def test_placeholders_are_filled_in_and_other_braces_stay() -> None:
    values = {"port": 8081, "setting": 4, "context_total": 16384}
    assert host_file.filled("--port={port}", values) == "--port=8081"
    assert host_file.filled('{"np": {setting}, "x": {other}}', values) == '{"np": 4, "x": {other}}'
