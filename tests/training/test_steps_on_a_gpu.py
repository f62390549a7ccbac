"""A training step queues its work on a GPU and waits for nothing: counted on a pretended one."""

from helpers.gpu_steps import NEEDS_COMPILER, counted

MOST_KERNELS = 800  # of a step of the base model: each takes the program some microseconds to start


@NEEDS_COMPILER
def test_no_step_waits_and_none_has_many_kernels() -> None:
    base, *others, reads = counted("gpu_train_steps")
    assert base["kernels"] <= MOST_KERNELS
    assert [step["waits"] for step in (base, *others)] == [{}] * 3
    assert reads["waits"] == {"_local_scalar_dense": 1}, "a step that reads a number"
