"""Predicted memory: what may never be the case, whatever the shape, and sums done by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.model import (
    PRESETS,
    ActivationCheckpointing,
    CommunicationHook,
    DeviceKind,
    Dtype,
    Form,
    ShardingStrategy,
    TrainingSettings,
    TransformerConfig,
)
from autotune.space.memory import MemoryJob, PredictedMemory, needs_at_least, predict
from autotune.space.memory.host import RETURNED_BYTES
from autotune.space.memory.transformer import block_parameters, root_parameters
from autotune.space.nccl import NcclVersion

DDP = TrainingSettings(micro_batch=8)
FULL = TrainingSettings(
    strategy=ShardingStrategy.FSDP_FULL, reshard_after_forward=True, micro_batch=8
)
GRAD_OP = replace(FULL, strategy=ShardingStrategy.FSDP_GRAD_OP, reshard_after_forward=False)
HYBRID = replace(FULL, strategy=ShardingStrategy.HYBRID, shard_size=2)
AC = ActivationCheckpointing


@st.composite
def configs(draw: st.DrawFn) -> TransformerConfig:
    heads = draw(st.sampled_from([1, 2, 4, 8]))
    llama = draw(st.booleans())
    return TransformerConfig(
        name="x", help="", form=draw(st.sampled_from(Form)), layers=draw(st.integers(1, 48)),
        width=heads * draw(st.sampled_from([16, 64, 128])), heads=heads,
        kv_heads=draw(st.sampled_from([None, 1])) if llama else None,
        hidden=draw(st.integers(1, 8192)), vocabulary=draw(st.integers(1, 200_000)),
        sequence=draw(st.integers(1, 4096)), llama=llama, global_batch=1024,
    )  # fmt: skip


@st.composite
def jobs(draw: st.DrawFn) -> MemoryJob:
    return MemoryJob(
        config=draw(configs()),
        device=draw(st.sampled_from(DeviceKind)),
        nodes=draw(st.sampled_from([1, 2])),
        ranks_per_node=draw(st.sampled_from([2, 4, 8])),
    )


@st.composite
def layouts(draw: st.DrawFn) -> TrainingSettings:
    common = {
        "micro_batch": draw(st.integers(1, 64)),
        "accumulation_steps": draw(st.integers(1, 8)),
        "activation_checkpointing": draw(st.sampled_from(AC)),
        "compute_dtype": draw(st.sampled_from(Dtype)),
    }
    if draw(st.booleans()):
        return replace(
            DDP,
            **common,
            bucket_cap_mb=draw(st.sampled_from([None, 1, 100])),
            gradient_as_bucket_view=draw(st.booleans()),
            communication_hook=draw(st.sampled_from(CommunicationHook)),
        )
    return replace(
        draw(st.sampled_from([FULL, GRAD_OP, HYBRID])),
        **common,
        blocks_per_group=draw(st.integers(1, 4)),
        forward_prefetch=draw(st.integers(0, 3)),
        backward_prefetch=draw(st.integers(0, 3)),
        reshard_after_backward=draw(st.booleans()),
        reduce_dtype=draw(st.sampled_from(Dtype)),
    )


def total(job: MemoryJob, settings: TrainingSettings, **environment: str) -> int:
    return predict(job, settings, environment).total_bytes


@given(jobs(), layouts())
def test_every_component_is_a_size(job: MemoryJob, settings: TrainingSettings) -> None:
    predicted = predict(job, settings, {})
    assert all(size >= 0 for size in predicted.components().values())
    assert 0 < predicted.measured_bytes <= predicted.total_bytes
    assert predicted.total_bytes == sum(predicted.components().values())
    assert needs_at_least(predicted, predicted)


@given(jobs(), layouts(), st.integers(1, 64))
def test_a_larger_micro_batch_never_needs_less(
    job: MemoryJob, settings: TrainingSettings, more: int
) -> None:
    larger = replace(settings, micro_batch=settings.micro_batch + more)
    assert total(job, larger) > total(job, settings)
    assert predict(job, larger, {}).scaling_bytes >= predict(job, settings, {}).scaling_bytes


@given(jobs(), layouts())
def test_checkpointing_never_needs_more(job: MemoryJob, settings: TrainingSettings) -> None:
    none, second, every = (
        predict(job, replace(settings, activation_checkpointing=which), {}) for which in AC
    )
    assert none.total_bytes >= second.total_bytes >= every.total_bytes
    if job.device is DeviceKind.CPU:
        assert none.activations >= second.activations >= every.activations


@given(jobs(), layouts())
def test_accumulation_at_the_same_micro_batch_never_needs_less(
    job: MemoryJob, settings: TrainingSettings
) -> None:
    once = replace(settings, accumulation_steps=1)
    twice = replace(settings, accumulation_steps=2)
    assert total(job, twice) >= total(job, once)
    assert total(job, replace(settings, accumulation_steps=16)) == total(job, twice)


@given(jobs(), layouts())
def test_more_shards_never_hold_more_of_the_state(
    job: MemoryJob, settings: TrainingSettings
) -> None:
    wider = replace(job, ranks_per_node=2 * job.ranks_per_node)
    few, many = predict(job, settings, {}), predict(wider, settings, {})
    assert many.parameters <= few.parameters
    assert many.optimizer <= few.optimizer
    replicated = predict(job, replace(DDP, micro_batch=settings.micro_batch), {})
    assert few.parameters <= replicated.parameters


@given(jobs(), layouts())
def test_resharding_never_needs_more(job: MemoryJob, settings: TrainingSettings) -> None:
    if not settings.strategy.is_fsdp:
        return
    size = settings.shard_size
    kept = replace(settings, strategy=ShardingStrategy.FSDP_GRAD_OP, shard_size=None,
                   reshard_after_forward=False)  # fmt: skip
    freed = replace(kept, strategy=ShardingStrategy.FSDP_FULL, reshard_after_forward=True)
    grouped = replace(freed, reshard_after_forward=2)
    assert size is None or size == 2
    assert total(job, freed) <= total(job, grouped) <= total(job, kept)
    more = replace(freed, forward_prefetch=freed.forward_prefetch + 1)
    assert total(job, freed) <= total(job, more) <= total(job, kept)
    coarse = replace(freed, blocks_per_group=freed.blocks_per_group + 1)
    assert total(job, freed) <= total(job, coarse)


@given(jobs(), layouts())
def test_views_into_buckets_and_narrow_types_never_need_more(
    job: MemoryJob, settings: TrainingSettings
) -> None:
    if not settings.strategy.is_fsdp:
        copied = total(job, replace(settings, gradient_as_bucket_view=False))
        assert total(job, replace(settings, gradient_as_bucket_view=True)) <= copied
        assert total(job, settings) >= total(
            job, replace(settings, communication_hook=CommunicationHook.NONE)
        )
    else:
        narrow = replace(settings, compute_dtype=Dtype.BFLOAT16)
        assert total(job, narrow) <= total(job, replace(settings, compute_dtype=Dtype.FLOAT32))


@given(jobs(), layouts(), st.integers(1, 31), st.sampled_from([1 << 20, 4 << 20, 16 << 20]))
def test_nccl_buffers_grow_with_channels_and_size_on_gpus_only(
    job: MemoryJob, settings: TrainingSettings, channels: int, size: int
) -> None:
    def nccl(count: int, buffer: int) -> int:
        variables = {
            "NCCL_MIN_CTAS": str(count),
            "NCCL_MAX_CTAS": str(count),
            "NCCL_BUFFSIZE": str(buffer),
        }
        return predict(job, settings, variables).nccl

    if job.device is DeviceKind.CPU:
        assert nccl(channels, size) == 0
    else:
        assert nccl(channels + 1, size) > nccl(channels, size) > 0
        assert nccl(channels, 2 * size) > nccl(channels, size)


def test_nccl_buffers_by_hand() -> None:
    # Sizes of src/include/device.h: 4 MiB for simple, 8 x 512 lines of 16 bytes for 8 steps of LL,
    # 120 x 640 words of 8 bytes for 8 steps of LL128. Every connection has all three.
    connection = (4 << 20) + 8 * 512 * 16 * 8 + 120 * 640 * 8 * 8
    one = MemoryJob(
        config=PRESETS["gpt2"], device=DeviceKind.CUDA, nodes=1, ranks_per_node=8,
        nccl=NcclVersion(2, 27),
    )  # fmt: skip
    two = replace(one, nodes=2)
    ten = {"NCCL_MIN_CTAS": "10", "NCCL_MAX_CTAS": "10"}

    def nccl(job: MemoryJob, settings: TrainingSettings, **more: str) -> int:
        return predict(job, settings, ten | more).nccl

    # A ring's predecessor; for all-reduce also a tree's two children and parent.
    assert nccl(one, FULL) == 10 * connection
    assert nccl(one, DDP) == 4 * 10 * connection
    assert nccl(one, HYBRID) == 5 * 10 * connection
    assert nccl(two, FULL) == 2 * 10 * connection
    assert nccl(replace(one, ranks_per_node=1), DDP) == 0
    for name in ("NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_LL128_BUFFSIZE"):
        default = {"NCCL_BUFFSIZE": 4 << 20, "NCCL_LL_BUFFSIZE": 8 * 512 * 16 * 8}
        less = default.get(name, 120 * 640 * 8 * 8)
        given = nccl(one, FULL, **{name: str(16 << 20)})
        assert given == 10 * (connection - less + (16 << 20))
    # A protocol that is switched off has its buffers all the same: p2p.cc.
    assert nccl(one, FULL, NCCL_PROTO="Simple") == 10 * connection


@given(jobs(), layouts(), jobs(), layouts())
def test_dominance_follows_the_sizes(
    job: MemoryJob, settings: TrainingSettings, other_job: MemoryJob, other: TrainingSettings
) -> None:
    one, two = predict(job, settings, {}), predict(other_job, other, {})
    if needs_at_least(one, two):
        assert one.total_bytes >= two.total_bytes
    if needs_at_least(one, two) and needs_at_least(two, one):
        assert one == two


def test_dominance_wants_every_component() -> None:
    sizes = dict.fromkeys(PredictedMemory.__dataclass_fields__, 10) | {"device": DeviceKind.CPU}
    one = PredictedMemory(**sizes)  # type: ignore[arg-type]
    for name in one.components():
        assert not needs_at_least(replace(one, **{name: 9}), one)  # type: ignore[arg-type]
        assert needs_at_least(replace(one, **{name: 11}), one)  # type: ignore[arg-type]
    assert not needs_at_least(replace(one, device=DeviceKind.CUDA), one)


@pytest.mark.parametrize("config", PRESETS.values(), ids=lambda config: config.name)
def test_the_blocks_and_the_root_are_the_model(config: TransformerConfig) -> None:
    parts = root_parameters(config) + config.layers * block_parameters(config)
    assert parts == config.parameters


def test_the_root_of_llama_1b_by_hand() -> None:
    assert root_parameters(PRESETS["llama-1b"]) == 128256 * 2048 + 2048
    assert root_parameters(PRESETS["gpt2"]) == (50257 + 1024) * 768 + 2 * 768


def test_gathered_parameters_by_hand() -> None:
    config = PRESETS["gpt2-medium"]
    job = MemoryJob(config=config, device=DeviceKind.CPU, nodes=1, ranks_per_node=8)
    root, block = 4 * root_parameters(config), 4 * block_parameters(config)

    def gathered(**changes: object) -> int:
        settings = replace(FULL, **changes)  # type: ignore[arg-type]
        return predict(job, settings, {}).unsharded_parameters - root

    # The group in use, one ahead, and the flat buffer of a third.
    assert gathered() == 3 * block
    assert gathered(blocks_per_group=2) == 6 * block
    assert gathered(forward_prefetch=3) == 5 * block
    assert gathered(reshard_after_forward=4) == 24 * block // 4 + 3 * block
    everything = 25 * block
    assert gathered(strategy=GRAD_OP.strategy, reshard_after_forward=False) == everything
    assert gathered(accumulation_steps=2, reshard_after_backward=False) == everything
    assert gathered(accumulation_steps=1, reshard_after_backward=False) == 3 * block


DEEP = TransformerConfig(
    name="deep", help="", form=Form.DECODER, layers=6, width=256, heads=8, hidden=1024,
    vocabulary=4096, sequence=128, global_batch=32,
)  # fmt: skip
MIB = 2**20


@pytest.mark.parametrize(
    ("config", "settings", "live_mib"),
    [
        (DEEP, replace(DDP, micro_batch=16), 293),
        (DEEP, replace(DDP, micro_batch=16, activation_checkpointing=AC.EVERY_BLOCK), 112),
        (replace(DEEP, form=Form.ENCODER), replace(DDP, micro_batch=16), 211),
        (replace(DEEP, llama=True, kv_heads=2), replace(DDP, micro_batch=16), 408),
    ],
    ids=["decoder", "checkpointed", "encoder", "llama"],
)
def test_activations_are_what_the_profiler_saw(
    config: TransformerConfig, settings: TrainingSettings, live_mib: int
) -> None:
    # The most that was alive in one step on a CPU rank beside parameters, moments and buckets, by
    # torch.profiler with profile_memory, PyTorch 2.13: at the loss, before there are gradients.
    job = MemoryJob(config=config, device=DeviceKind.CPU, nodes=1, ranks_per_node=2)
    predicted = predict(job, settings, {})
    at_loss = predicted.activations + predicted.logits
    if settings.activation_checkpointing is AC.EVERY_BLOCK:
        # On CPU each component counts at its largest: here activations' is a block's backward.
        assert at_loss / MIB > live_mib
        at_loss = predict(replace(job, device=DeviceKind.CUDA), replace(
            settings, compute_dtype=Dtype.FLOAT32), {}).scaling_bytes  # fmt: skip
    assert at_loss / MIB == pytest.approx(live_mib, rel=0.02)


def test_gpt2_medium_on_gpus_by_hand() -> None:
    config = PRESETS["gpt2-medium"]
    job = MemoryJob(config=config, device=DeviceKind.CUDA, nodes=1, ranks_per_node=8)
    whole = 4 * config.parameters
    ddp = predict(job, DDP, {})
    assert (ddp.parameters, ddp.optimizer, ddp.buckets) == (whole, 2 * whole, whole)
    assert ddp.casts == whole // 2
    assert ddp.logits == 8 * 1024 * 50257 * 12
    full = predict(job, FULL, {})
    assert full.parameters == pytest.approx(whole / 8, rel=1e-6)
    assert (full.buckets, full.casts) == (0, 0)
    accumulated = predict(job, replace(FULL, accumulation_steps=4), {})
    assert accumulated.unsharded_gradients == whole


def test_gpus_without_bfloat16_compute_in_float32() -> None:
    config = PRESETS["gpt2-medium"]
    newer = MemoryJob(config=config, device=DeviceKind.CUDA, nodes=1, ranks_per_node=8)
    older = replace(newer, compute_capability=70)
    assert predict(older, DDP, {}).activations > predict(newer, DDP, {}).activations
    assert predict(older, DDP, {}).casts == 0
    asked = replace(DDP, compute_dtype=Dtype.BFLOAT16)
    assert predict(older, asked, {}) == predict(newer, asked, {})


@pytest.mark.parametrize("device", DeviceKind)
def test_whole_gradients_under_accumulation_by_hand(device: DeviceKind) -> None:
    # The last micro-batch alone is reduced. Without checkpointing gpt2-medium's loss is the peak.
    config = PRESETS["gpt2-medium"]
    job = MemoryJob(config=config, device=device, nodes=1, ranks_per_node=8)
    whole = 4 * config.parameters
    for settings in (FULL, GRAD_OP, HYBRID):
        once, more = (
            predict(job, replace(settings, accumulation_steps=count), {}) for count in (1, 4)
        )
        assert more.unsharded_gradients >= whole
        assert once.unsharded_gradients < 0.7 * whole
    narrow = predict(job, replace(FULL, accumulation_steps=4, reduce_dtype=Dtype.BFLOAT16), {})
    assert narrow.unsharded_gradients < whole


def test_the_tied_embeddings_gradient_exists_once_more_where_it_is_accumulated() -> None:
    config = replace(PRESETS["tiny"], vocabulary=50_000)
    job = MemoryJob(config=config, device=DeviceKind.CPU, nodes=1, ranks_per_node=2)
    embedding = 4 * config.vocabulary * config.width
    assert predict(job, DDP, {}).unsharded_gradients == embedding
    accumulated = predict(job, replace(DDP, accumulation_steps=2), {})
    assert accumulated.unsharded_gradients == 2 * embedding


def test_gloo_copies_by_hand() -> None:
    # Measured by single collectives of 24 and 240 MiB: each of two threads keeps a small copy.
    job = MemoryJob(config=DEEP, device=DeviceKind.CPU, nodes=1, ranks_per_node=2)
    root, block = 4 * root_parameters(DEEP), 4 * block_parameters(DEEP)
    assert block < root < RETURNED_BYTES < 12 * block
    assert predict(job, FULL, {}).gloo == 2 * root
    wide = replace(job, config=replace(DEEP, layers=12, vocabulary=1000))
    together = replace(FULL, blocks_per_group=12)
    assert predict(wide, together, {}).gloo == 12 * block + RETURNED_BYTES
    assert predict(job, DDP, {}).gloo == 0
    assert predict(replace(job, device=DeviceKind.CUDA), FULL, {}).gloo == 0


def test_large_tensors_leave_no_holes_that_grow() -> None:
    job = MemoryJob(config=DEEP, device=DeviceKind.CPU, nodes=1, ranks_per_node=2)

    def heap(micro_batch: int) -> int:
        return predict(job, replace(DDP, micro_batch=micro_batch), {}).heap

    # From 32 MiB on, a tensor goes back to the kernel: 256 samples of 128 x 256 x 4 bytes.
    assert 2 * heap(16) == heap(32)
    assert heap(256) == heap(512) < 4 * heap(128)
    # Of an embedding of 196 MiB, whether gathered or not, nothing is kept either.
    vocabulary = replace(job, config=replace(DEEP, vocabulary=200_000))
    assert predict(vocabulary, FULL, {}).heap < predict(job, FULL, {}).heap
