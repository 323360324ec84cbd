"""Strategies for what JSON can say, hostile values with the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from stitchkit_django.core.values import JSONValue

# How fast a value is made and read says nothing here, on a busy machine least of all.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Every code point: lone surrogates, NUL and what lies beyond the first plane among them.
texts = st.text(st.characters(categories=None) | st.sampled_from("\x00\ud83d\ude00\\\"u/'"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**63 - 2, max_value=2**64 + 2)
    | st.integers(min_value=1, max_value=4_000).map(lambda digits: 10**digits - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([1e100, -0.0, 5e-324, 1, 1.0, True])
    | texts
)
values: st.SearchStrategy[JSONValue] = st.recursive(
    scalars,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(texts, children, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=4)
