"""Which brokers keep to the finalized features; that updates are judged is in the tests of the handler."""

import pytest

from controllerd.core.finalized import WantedLevel, incompatibility, refusal, updated
from controllerd.core.model import Broker, BrokerId


def broker(**features: tuple[int, int]) -> Broker:
    return Broker(BrokerId(1), 1, (), features=features)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_broker_is_compatible_with_every_level_of_its_range(level: int) -> None:
    assert incompatibility(broker(f=(1, 3)), {"f": level}) is None


@pytest.mark.parametrize("level", [0, 4])
def test_a_broker_is_incompatible_with_a_level_outside_its_range(level: int) -> None:
    assert (
        incompatibility(broker(f=(1, 3)), {"f": level}) == f"supports levels 1 to 3 of f, of which {level} is finalized"
    )


def test_a_broker_is_incompatible_with_a_feature_that_it_does_not_know() -> None:
    assert incompatibility(broker(f=(1, 3)), {"g": 1}) == "does not know the finalized feature g"


def test_without_finalized_features_every_broker_is_compatible() -> None:
    assert incompatibility(broker(), {}) is None


def test_a_refusal_names_the_incompatible_brokers() -> None:
    wanted = WantedLevel(2, may_lower=False)
    reason = "Could not apply finalized feature update because"
    assert refusal("f", wanted, {}, [broker(f=(1, 1))]) == (
        f"{reason} brokers were found to have incompatible versions for the feature. Brokers [1]."
    )
    assert refusal("f", wanted, {}, [broker()]) == f"{reason} the provided feature is not supported."


def test_an_update_changes_its_own_feature_alone() -> None:
    assert updated({"f": 1, "g": 2}, "f", WantedLevel(3, may_lower=False)) == {"f": 3, "g": 2}
    assert updated({"f": 1, "g": 2}, "f", WantedLevel(0, may_lower=True)) == {"g": 2}
