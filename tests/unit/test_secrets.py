"""Keys, tokens and passwords are taken out of what is kept, and little else is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.cli.controller import _resume_command
from autotune.compose import Launching
from autotune.executors.base import Launch, LaunchEnd, OnWindow
from autotune.loop.study import StudyRunner
from autotune.model import Outcome
from autotune.model.secrets import MASK, Secrets, is_secret_name, redacted
from autotune.storage import MemoryStore
from tests.conformance.records import a_study
from tests.fakes import FormulaExecutor
from tests.unit import test_loop

# Put together here, so that no scanner takes the tests for a leak.
GITHUB = "ghp_" + "a1B2" * 9
AWS = "AKIA" + "ABCDEFGH" * 2
JWT = ".".join(["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "dBjftJeZ4CVP-mB92K27"])


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgresql://ann:s3cret@db/tunes", "s3cret"),
        ("https://ann:p%40ss:word@host/x?y=1", "p%40ss:word"),
        (f"git clone https://{GITHUB}@github.com/x/y", GITHUB),
        ("postgresql://db/x?user=ann&password=hunter2&sslmode=require", "hunter2"),
        ("DB_PASSWORD=hunter2", "hunter2"),
        ("environ({'DB_PASSWORD': 'hun ter2', 'A': 'b'})", "hun ter2"),
        ('{"api_key": "abc,def"}', "abc,def"),
        ("--api-key abc --token=0123456789abcdef", "0123456789abcdef"),
        ("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
        (f"AWS_ACCESS_KEY_ID={AWS}", AWS),
        (f"using credentials {AWS} of the role", AWS),
        ("HF_TOKEN=hf_abcdefghijklmnop1234", "hf_abcdefghijklmnop1234"),
        ("WANDB_API_KEY: 0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
        ("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
        ("authorization: Basic YW5uOnBhc3M=", "YW5uOnBhc3M="),
        (f"cookie is {JWT}!", JWT),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\nAAKC\n-----END RSA PRIVATE KEY-----", "MIIEp"),
    ],
)
def test_what_is_written_like_a_secret_is_masked(text: str, secret: str) -> None:
    found = redacted(text)
    assert secret not in found
    assert MASK in found
    assert redacted(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: NCCL error in: /x/ProcessGroupNCCL.cpp:1234, unhandled system error",
        "step 12: loss 2.5, tokens: 4096, tokens/s: 120000, eos_token: </s>, max_token: 512",
        "pad_token=<pad> unk_token='<unk>' token: 50256",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        'File "/home/ann/train.py", line 12, in forward\n    return self.key(query)',
        "sqlite:////home/ann/tunes.db postgresql://ann@db:5432/tunes https://host:8080/x@y",
        "[rank0]:[E 1129 22:10:28.123 ProcessGroupNCCL.cpp:1] Timeout(ms)=600000",
        "KeyError: 'tokenizer'; keyword=value; author: Ann; passed: 12",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert redacted(text) == text


def test_names_of_secrets_are_told_from_settings() -> None:
    for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD".replace("PG", "PG_"), "API_KEY"):
        assert is_secret_name(name), name
    for name in ("NCCL_IB_PKEY", "TOKENIZERS_PARALLELISM", "PWD", "OMP_NUM_THREADS", "KEYS"):
        assert not is_secret_name(name), name


def test_what_is_secret_in_the_environment_is_masked_however_it_is_written() -> None:
    secrets = Secrets.of(
        {"HF_TOKEN": "plainword", "X_SECRET": "plain", "OMP_NUM_THREADS": "value-1"}
    )
    assert (
        secrets.redacted("it said plainword, plain and value-1") == "it said ***, plain and value-1"
    )


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.sampled_from(["password=", "https://a:", "token: ", "eyJ", "="]))
def test_no_text_is_too_odd_to_be_looked_at(text: str, seed: str) -> None:
    once = redacted(f"{text}{seed}{text}@{text}")
    assert redacted(once) == once


def test_the_command_to_resume_with_has_no_password() -> None:
    url = "postgresql://ann:hunter2@db/tunes?password=hunter2"
    command = _resume_command(a_study(), url, None, Launching(), [])
    assert command == "autotune resume r --storage 'postgresql://ann:***@db/tunes?password=***'"


def test_what_trials_print_is_stored_without_secrets() -> None:
    class Leaky(FormulaExecutor):
        def run(self, launch: Launch, on_window: OnWindow, cancel: object) -> LaunchEnd:
            del launch, on_window, cancel
            tail = "connecting to postgresql://ann:hunter2@db/x with verysecret"
            reason = "rank 0: OperationalError: hunter3 at https://ann:hunter3@db/x"
            return LaunchEnd(outcome=Outcome.CRASHED, reason=reason, log_tail=tail)

    store = MemoryStore()
    _, _, executor = test_loop.run(test_loop.equal, store, max_trials=0)
    study = store.study("r")
    assert study is not None
    space = test_loop.Space(
        test_loop.KNOBS, test_loop.Facts.of(executor.machine(), test_loop.TARGET)
    )
    fresh = MemoryStore()
    fresh.add_study(study)
    end = StudyRunner(
        study=study,
        space=space,
        strategy=test_loop.build_strategy("grid", space, 0),
        executor=Leaky(test_loop.equal),
        store=fresh,
        folder=test_loop.Path("unused"),
        secrets=Secrets(known=("verysecret", "hunter3")),
    ).run()
    for text in [end.decision.reason, *(t.reason + t.log_tail for t in fresh.trials("r"))]:
        assert "hunter" not in text
        assert "verysecret" not in text
    assert "postgresql://ann:***@db/x with ***" in next(iter(fresh.trials("r"))).log_tail
