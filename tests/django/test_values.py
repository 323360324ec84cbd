"""What is accepted is read back exactly; what is refused is refused before any SQL."""

from __future__ import annotations

import inspect
import unicodedata
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from stitchkit_django import get_store
from stitchkit_django.core import (
    Absorption,
    AgentStore,
    Cost,
    InvalidIdentifierError,
    InvalidValueError,
    Limits,
    Message,
    Part,
    Provenance,
    ProviderEnvelope,
    ProviderPart,
    ReasoningPart,
    RunState,
    TextPart,
    TokenCount,
    ToolCallPart,
    ToolOutcome,
    ToolResultPart,
    Usage,
)
from stitchkit_django.core.wire import PARTS
from stitchkit_django.driver import DjangoDriver
from stitchkit_django.models import Conversation
from stitchkit_django.models import Run as RunRow
from tests.core.steps import (
    acquire,
    admit,
    answer,
    answered,
    checkpoint,
    compact,
    duplicate,
    end,
    history,
    message,
    run_of,
    view,
)
from tests.django.hooks import silent, tables

if TYPE_CHECKING:
    from collections.abc import Iterator


LIMIT = Limits().max_message_bytes
LONE = "\ud83d"
STORED: dict[str, Any] = {
    "NUL": "a\0b",
    "NUL alone": "\0",
    "lone high surrogate": f"a{LONE}",
    "lone low surrogate": "\udc00b",
    "surrogates in the wrong order": "\udc00\ud800",
    "NUL and surrogate": f"\0{LONE}",
    "written escapes": r"\u0000 \ud83d \\u0000",
    "every line end": "\r\n\u2028\u2029\x85",
    "last character": "\U0010ffff",
    "not composed": "e\u0301",
    "white space at both ends": "  a  ",
    "nothing": "",
}
EXACT: dict[str, Any] = {
    "large and negative zero": {"t": 1e100, "z": -0.0},
    "smallest float": [5e-324, 1.7976931348623157e308],
    "float that looks whole": [1.0, 1, True],
    "4,000 digits": [10**3_999, -(10**4_000 - 1)],
    "over 64 bits": {"n": 2**64, "m": -(2**63) - 1},
    "order of keys": {"b": 1, "a": {"d": 1, "c": 2}, "": None},
    "empty": [{}, [], "", None, False],
}


def same(kept: Message, parts: tuple[Part, ...], metadata: object) -> bool:
    """Tell whether a message says exactly that, types, order and digits included."""
    return repr((kept.parts, kept.metadata)) == repr((parts, metadata))


def nested(levels: int) -> Any:
    found: Any = 0
    for number in range(levels):
        found = [found] if number % 2 else {"k": found}
    return found


def call(value: Any) -> ToolCallPart:
    return ToolCallPart(call_id="1", tool_name="search", input=value)


def opaque(value: Any) -> ProviderPart:
    envelope = ProviderEnvelope(schema_version=1, provider="p", data=value)
    return ProviderPart(envelope=envelope)


@pytest.fixture
def tokyo(alias: str) -> Iterator[None]:
    """Let the database have a time zone of its own."""
    connection = connections[alias]

    def change(zone: str | None) -> None:
        connection.close()
        connection.settings_dict["TIME_ZONE"] = zone
        for cached in ("timezone", "timezone_name"):
            vars(connection).pop(cached, None)

    change("Asia/Tokyo")
    yield
    change(None)


@pytest.fixture
def store(alias: str) -> AgentStore:
    return get_store(alias)


# ---------------------------------------------------------------- what is read back


@pytest.mark.parametrize("text", STORED.values(), ids=STORED)
def test_a_text_is_read_back_wherever_it_stood(store: AgentStore, text: str) -> None:
    parts: list[Part] = [TextPart(text=text), opaque({text: [text]})]
    metadata: dict[str, Any] = {text: {"nested": [text]}}
    spoken: list[Part] = [
        ReasoningPart(text=text),
        call({text: text}),
        ToolResultPart(
            call_id="1", tool_name="search", outcome=ToolOutcome.SUCCESS, output={text: text}
        ),
        TextPart(text=text),
    ]

    run = admit(store, "1", parts, metadata=metadata)
    retry = duplicate(store.accept_input("c", "1", parts, metadata=metadata))
    ended = end(store, acquire(store, run), spoken, metadata=metadata, detail=text)
    late = duplicate(store.accept_input("c", "1", parts, metadata=metadata))

    assert ended.state is RunState.COMPLETED
    assert view(store).run == ended
    assert ended.terminal_detail == text
    snapshot = store.load_snapshot("c")
    assert snapshot.messages == store.load_history("c").messages
    asked, told = snapshot.messages
    assert same(asked, tuple(parts), metadata)
    assert same(told, tuple(spoken), metadata)
    assert retry.input == late.input == asked
    assert retry.same_input
    assert late.same_input
    assert late.assistant == answer(store) == told


@pytest.mark.parametrize("text", STORED.values(), ids=STORED)
def test_a_text_is_read_back_through_checkpoint_cancel_and_summary(
    store: AgentStore, text: str
) -> None:
    run = checkpoint(store, acquire(store, admit(store)), text, metadata={text: text})

    streaming = message(store, "a-r1")
    abandoned = run_of(
        store.recover_run(
            "c", run.id, expected_revision=run.revision, action="abandon", detail=text
        )
    )
    kept = answer(store)
    version = store.load_snapshot("c").version
    store.compact_history(
        "c", expected_version=version, message_ids=["i-1"], summary_parts=text, summary_id="s"
    )

    assert same(streaming, (TextPart(text=text),), {text: text})
    assert same(kept, (TextPart(text=text),), {text: text})
    assert abandoned.terminal_detail == text
    assert view(store).run == abandoned
    assert message(store, "s").parts == (TextPart(text=text),)


@pytest.mark.parametrize("value", EXACT.values(), ids=EXACT)
def test_a_json_value_is_read_back_exactly(store: AgentStore, value: Any) -> None:
    parts: list[Part] = [call(value), opaque(value)]
    metadata = {"value": value}

    admit(store, "1", [opaque(value)], metadata=metadata)
    retry = duplicate(store.accept_input("c", "1", [opaque(value)], metadata=metadata))
    run = acquire(store, view(store).run)
    end(store, checkpoint(store, run, parts, metadata=metadata), parts)

    assert retry.same_input
    asked, told = store.load_snapshot("c").messages
    assert same(asked, (opaque(value),), metadata)
    assert told.metadata is not None
    assert repr(told.metadata) == repr(metadata)
    assert repr(told.parts[0]) == repr(parts[0])
    assert answer(store) == told


def test_after_a_lone_surrogate_the_conversation_goes_on(store: AgentStore) -> None:
    end(store, acquire(store, admit(store, "0", LONE)), LONE)
    for key in ("1", "2", "3"):
        answered(store, key)

    assert len(history(store)) == 8
    assert message(store, "i-0").parts == (TextPart(text=LONE),)
    assert compact(store, *history(store)[:2]).parts == (TextPart(text="In short."),)


def test_a_pair_of_surrogates_is_read_back_as_its_character(store: AgentStore) -> None:
    admit(store, "1", "\ud83d\ude00")
    retry = duplicate(store.accept_input("c", "1", "\U0001f600"))

    assert retry.input.parts == (TextPart(text="\U0001f600"),)
    assert retry.same_input


def test_a_detail_of_a_megabyte_is_cut_and_the_run_reaches_its_end(store: AgentStore) -> None:
    detail = f"\0{LONE}Traceback" * 100_000

    run = end(store, acquire(store, admit(store)), reason="provider_failure", detail=detail)

    assert run.state is RunState.FAILED
    assert run.terminal_detail == detail[:4_096]
    assert view(store).run == run


# ---------------------------------------------------------------- what is the same input

GIVEN: dict[str, Any] = {"a": {"b": {"c": 1, "d": [True, 1.0]}}, "e": None}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"e": None, "a": {"b": {"d": [True, 1.0], "c": 1}}}, id="order"),
        pytest.param({"a": {"b": {"c": 1, "d": [True, 1.0]}}, "e": None}, id="copy"),
    ],
)
def test_keys_in_another_order_are_the_same_input(store: AgentStore, value: Any) -> None:
    admit(store, "1", [opaque(GIVEN)], metadata=GIVEN)

    retry = duplicate(store.accept_input("c", "1", [opaque(value)], metadata=value))

    assert retry.same_input
    assert retry.input == message(store, "i-1")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"a": {"b": {"c": 2, "d": [True, 1.0]}}, "e": None}, id="nested value"),
        pytest.param({"a": {"b": {"c": 1, "d": [1, 1.0]}}, "e": None}, id="1 for true"),
        pytest.param({"a": {"b": {"c": 1, "d": [True, 1]}}, "e": None}, id="1 for 1.0"),
        pytest.param({"a": {"b": {"c": True, "d": [True, 1.0]}}, "e": None}, id="true for 1"),
        pytest.param({"a": {"b": {"c": 1, "d": [1.0, True]}}, "e": None}, id="order of a list"),
        pytest.param({"a": {"b": {"c": 1, "d": [True, 1.0]}}}, id="absent for null"),
        pytest.param({}, id="nothing"),
    ],
)
@pytest.mark.parametrize("where", ["parts", "metadata"])
def test_another_value_or_type_is_another_input_and_nothing_is_written(
    alias: str, store: AgentStore, where: str, value: Any
) -> None:
    admit(store, "1", [opaque(GIVEN)], metadata=GIVEN)
    untouched = tables(alias)
    parts, metadata = (value, GIVEN) if where == "parts" else (GIVEN, value)

    retry = duplicate(store.accept_input("c", "1", [opaque(parts)], metadata=metadata))

    assert not retry.same_input
    assert retry.input.metadata == GIVEN
    assert tables(alias) == untouched


# ---------------------------------------------------------------- what is refused

REFUSED: dict[str, tuple[Any, str]] = {
    "NaN": ({"x": [0, float("nan")]}, ".x[1]"),
    "Infinity": ({"x": float("inf")}, ".x"),
    "-Infinity": ([{"x": -float("inf")}], "[0].x"),
    "datetime": ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, ".at"),
    "naive datetime": ({"at": datetime(2026, 1, 1)}, ".at"),  # noqa: DTZ001 - refused
    "UUID": ({"id": uuid.UUID(int=1)}, ".id"),
    "tuple": ({"x": (1, 2)}, ".x"),
    "Decimal": ([Decimal(1)], "[0]"),
    "bytes": ([b"a"], "[0]"),
    "set": ({"x": set()}, ".x"),
    "key of another type": ({"x": {1: 1}}, ".x"),
    "keys that differ only in type": ({"x": {1: 1, "1": 2}}, ".x"),
    "4,001 digits": ({"n": 10**4_000}, ".n"),
}


@pytest.mark.parametrize(("value", "path"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("key", ["fresh", "known"])
def test_a_value_that_is_no_json_is_refused_with_its_path_before_any_statement(
    alias: str, store: AgentStore, key: str, value: Any, path: str
) -> None:
    admit(store, "known")

    with silent(alias), pytest.raises(InvalidValueError) as in_parts:
        store.accept_input("c", key, [opaque(value)])
    with silent(alias), pytest.raises(InvalidValueError) as in_metadata:
        store.accept_input("c", key, "Hello?", metadata={"m": value})
    with silent(alias), pytest.raises(InvalidValueError) as in_call:
        store.checkpoint_run(
            "c", "rknown", expected_revision=0, owner_id="worker", parts=[call(value)]
        )

    assert in_parts.value.path == f"$.data{path}"
    assert in_metadata.value.path == f"$.metadata.m{path}"
    assert in_call.value.path == f"$.input{path}"


def test_a_hundred_levels_are_kept(store: AgentStore) -> None:
    value = nested(100)

    admit(store, "1", [opaque(value)], metadata={"k": nested(99)})

    assert message(store, "i-1").parts == (opaque(value),)
    assert message(store, "i-1").metadata == {"k": nested(99)}


@pytest.mark.parametrize("levels", [101, 500])
def test_more_levels_are_refused_before_any_statement(
    alias: str, store: AgentStore, levels: int
) -> None:
    with silent(alias), pytest.raises(InvalidValueError, match="levels") as caught:
        store.accept_input("c", "1", [TextPart(text=""), opaque(nested(levels))])

    assert caught.value.path == "$.parts[1].envelope.data"


@pytest.mark.parametrize("levels", [1_500, 100_000])
def test_a_depth_that_would_break_the_codec_is_refused_too(
    alias: str, store: AgentStore, levels: int
) -> None:
    value: Any = []
    for _ in range(levels):
        value = [value]

    with silent(alias), pytest.raises(InvalidValueError, match="levels") as caught:
        store.accept_input("c", "1", "Hello?", metadata={"x": value})

    assert caught.value.path.startswith("$.metadata.x[0][0]")


def test_fifty_megabytes_are_refused_before_any_statement(alias: str, store: AgentStore) -> None:
    with silent(alias), pytest.raises(InvalidValueError, match="bytes") as caught:
        store.accept_input("c", "1", "x" * 50_000_000)

    assert caught.value.path == "$.parts"


@pytest.mark.parametrize(
    ("character", "limit"),
    [
        pytest.param("x", LIMIT, id="the limit by default"),
        pytest.param("x", 10_000, id="ASCII"),
        pytest.param("é", 10_000, id="two bytes"),
        pytest.param("\U0001f600", 10_000, id="four bytes"),
        pytest.param("\0", 10_000, id="NUL"),
        pytest.param(LONE, 10_000, id="surrogate"),
    ],
)
def test_a_message_of_exactly_the_limit_is_kept_and_one_byte_more_is_refused(
    alias: str, character: str, limit: int
) -> None:
    store = AgentStore(DjangoDriver(alias), limits=Limits(max_message_bytes=limit))
    empty = len(PARTS.encode((TextPart(text=""),)))
    each = len(PARTS.encode((TextPart(text=character),)).encode()) - empty
    times, rest = divmod(limit - empty, each)
    text = character * times + "y" * rest

    run = admit(store, "1", text)
    with silent(alias), pytest.raises(InvalidValueError, match="bytes"):
        store.accept_input("c", "2", text + "y")
    end(store, acquire(store, run), text)

    assert [one.parts for one in store.load_snapshot("c").messages] == [(TextPart(text=text),)] * 2


# ---------------------------------------------------------------- identifiers

DISTINCT = (
    "k",
    "K",
    "é",
    "e",
    "É",
    "ß",
    "ss",
    "\u0131",
    "i",
    "a_z",
    "a%z",
    "a b",
    "1",
    "01",
    "\u00adk",
)
COMPOSED = unicodedata.normalize("NFC", "e\u0301l")
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
BAD_IDENTIFIERS: dict[str, Any] = {
    "NUL": "a\0b",
    "10,000 characters": "x" * 10_000,
    "256 characters": "x" * 256,
    "leading space": " a",
    "trailing space": "a ",
    "trailing no-break space": "a\u00a0",
    "line end": "a\n",
    "control character": "a\x7fb",
    "surrogate": f"a{LONE}",
    "empty": "",
    "white space": " ",
    "no text": 1,
    "bytes": b"a",
}


def test_ids_are_told_apart_byte_for_byte(store: AgentStore) -> None:
    ids = (*DISTINCT, COMPOSED, DECOMPOSED)

    for one in ids:
        admitted = store.accept_input(
            "c", one, one, run_id=one, input_message_id=f"i{one}", assistant_message_id=f"a{one}"
        )
        assert run_of(admitted).id == one
    retries = [duplicate(store.accept_input("c", one, one)) for one in ids]

    assert [retry.run.id for retry in retries] == list(ids)
    assert all(retry.same_input for retry in retries)
    assert [view(store, one).run.assistant_message_id for one in ids] == [f"a{one}" for one in ids]
    assert [run.id for run in store.list_active_runs("c")] == list(ids)
    assert history(store) == [f"i{one}" for one in ids]


def test_conversations_are_told_apart_byte_for_byte(store: AgentStore) -> None:
    ids = (*DISTINCT, COMPOSED, DECOMPOSED)

    for one in ids:
        store.accept_input(one, "key", one, run_id="r")
    for one in ids:
        store.cancel_run(one, "r")

    for one in ids:
        asked, _ = store.load_snapshot(one).messages
        assert (asked.conversation_id, asked.parts) == (one, (TextPart(text=one),))
    assert store.load_snapshot("KK").version == 0


@pytest.mark.parametrize("other", ["R1", "r1\u00ad", "r 1", "r_", "r%"])
def test_an_id_that_only_looks_alike_finds_nothing(store: AgentStore, other: str) -> None:
    admit(store)

    assert store.load_run("c", other) is None
    assert store.cancel_run("c", other).outcome == "not_found"
    assert store.load_snapshot("C").version == 0


def test_owners_are_told_apart_byte_for_byte(store: AgentStore) -> None:
    run = acquire(store, admit(store), COMPOSED)

    outcome = store.checkpoint_run(
        "c", run.id, expected_revision=run.revision, owner_id=DECOMPOSED, parts="So far"
    )

    assert outcome.outcome == "conflict"
    assert view(store).run.owner_id == COMPOSED


def test_ids_of_the_most_characters_are_kept(store: AgentStore) -> None:
    letters = "\U0001f600\U00020000\U0010ffff"
    conversation, key, run, asked, told, owner, joined = (
        letters[number % 3] * 254 + chr(ord("a") + number) for number in range(7)
    )

    admitted = store.accept_input(
        conversation, key, "Hello?", run_id=run, input_message_id=asked, assistant_message_id=told
    )
    store.accept_input(conversation, joined, "And?", coalesce_into=run, input_message_id=joined)
    store.acquire_run(conversation, run, expected_revision=1, owner_id=owner)
    ended = store.commit_terminal(
        conversation,
        run,
        expected_revision=2,
        owner_id=owner,
        parts="Hello!",
        reason="policy_stop",
        policy_name=owner,
    )

    assert run_of(admitted).id == run
    assert run_of(ended).terminal_policy_name == owner
    assert run_of(ended).input_message_ids == (asked, joined)
    assert [one.id for one in store.load_snapshot(conversation).messages] == [asked, joined, told]
    assert duplicate(store.accept_input(conversation, key, "Hello?")).run == run_of(ended)


ARGUMENTS: dict[str, Any] = {
    "conversation_id": "c",
    "idempotency_key": "1",
    "run_id": "r1",
    "owner_id": "worker",
    "parts": "Hello",
    "summary_parts": "Hello",
    "expected_revision": 0,
    "expected_version": 0,
    "fencing_token": 1,
    "action": "abandon",
    "reason": "success",
    "message_ids": ["i-1"],
}
METHODS = [
    "accept_input",
    "acquire_run",
    "checkpoint_run",
    "renew_lease",
    "request_interrupt",
    "cancel_run",
    "recover_run",
    "commit_terminal",
    "compact_history",
    "purge_conversation",
    "load_snapshot",
    "load_run",
    "list_active_runs",
    "load_history",
]


def bad_calls(bad: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each method with each of its ids in turn as a bad one."""
    for method in METHODS:
        parameters = inspect.signature(getattr(AgentStore, method)).parameters
        required = {
            name: ARGUMENTS[name]
            for name, parameter in parameters.items()
            if name != "self" and parameter.default is parameter.empty
        }
        for name in parameters:
            if name.endswith(("_id", "_key", "coalesce_into", "policy_name")):
                yield method, {**required, name: bad}
    for method, name, value in (
        ("compact_history", "message_ids", ["i-1", bad]),
        ("compact_history", "summary_id", bad),
    ):
        required = {key: ARGUMENTS[key] for key in ("conversation_id", "expected_version")}
        rest = {"message_ids": ["i-1"], "summary_parts": "Hello"}
        yield method, {**required, **rest, name: value}


@pytest.mark.parametrize("bad", BAD_IDENTIFIERS.values(), ids=BAD_IDENTIFIERS)
def test_a_bad_id_is_refused_by_every_method_before_any_statement(
    alias: str, store: AgentStore, bad: Any
) -> None:
    calls = list(bad_calls(bad))

    for method, arguments in calls:
        with silent(alias), pytest.raises(InvalidIdentifierError) as caught:
            getattr(store, method)(**arguments)
        assert caught.value.value == bad, method
        assert len(str(caught.value)) < 300
    with pytest.raises(InvalidIdentifierError):
        Absorption(run_id=bad, input_message_ids=("i-1",))

    assert len(calls) > 2 * len(METHODS)


# ---------------------------------------------------------------- usage and cost

AMOUNTS = (
    "123456789012345678.0123456789",
    "0.0000000001",
    "0",
    "0.10",
    "1E+5",
    "1234567890123456789012345678",
)


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("text", ["plain", LONE])
def test_a_cost_keeps_every_digit_and_stands_in_columns_too(
    alias: str, store: AgentStore, amount: str, text: str
) -> None:
    cost = Cost(amount=Decimal(amount), currency="EUR", provenance=Provenance.COMPUTED)
    usage = Usage(
        input_tokens=TokenCount(value=2**63 - 1, provenance=Provenance.PROVIDER_REPORTED),
        output_tokens=TokenCount(value=0, provenance=Provenance.ESTIMATED),
        reasoning_tokens=TokenCount(provenance=Provenance.UNAVAILABLE),
        cost=cost,
    )

    run = checkpoint(store, acquire(store, admit(store)), "So far", usage=usage)
    end(store, run, text, detail=text)

    kept = view(store).run.usage
    assert kept == usage
    assert kept is not None
    assert kept.cost is not None
    assert kept.cost.amount == Decimal(amount)
    row = RunRow.objects.using(alias).get()
    # SQLite has no numbers of so many digits: the column is for reports.
    exact = alias == "postgres"
    expected = Decimal(amount) if exact else pytest.approx(Decimal(amount), rel=Decimal("1e-14"))
    assert (row.cost_amount, row.cost_currency) == (expected, "EUR")


def test_a_run_without_a_known_cost_has_none_in_its_columns(alias: str, store: AgentStore) -> None:
    usage = Usage(cost=Cost(provenance=Provenance.UNAVAILABLE))

    end(store, acquire(store, admit(store)), usage=usage)

    row = RunRow.objects.using(alias).get()
    assert (row.cost_amount, row.cost_currency) == (None, None)
    assert view(store).run.usage == usage


# ---------------------------------------------------------------- moments


def test_a_moment_is_read_back_to_the_microsecond(alias: str, store: AgentStore) -> None:
    run = acquire(store, admit(store), lease=timedelta(hours=1, microseconds=1))
    moments = [datetime(2025, 3, 30, 1, 59, 59, micro, tzinfo=UTC) for micro in (0, 1, 999_999)]

    for moment in moments:
        Conversation.objects.using(alias).update(updated_at=moment)
        assert DjangoDriver(alias).rows("c") is not None
        head = DjangoDriver(alias).active_runs("c").head
        assert head is not None
        assert head.updated_at == moment
    assert view(store).run == run
    assert run.lease_seconds == 3600.000001
    assert run.acquired_at is not None
    assert run.lease_expires_at == run.acquired_at + timedelta(hours=1, microseconds=1)


def test_moments_come_from_now_and_are_read_in_utc(store: AgentStore) -> None:
    earliest = datetime.now(UTC) - timedelta(minutes=1)

    run = answered(store)

    assert run.ended_at is not None
    assert run.acquired_at is not None
    assert earliest < run.created_at <= run.acquired_at <= run.ended_at
    assert run.ended_at < earliest + timedelta(minutes=2)
    assert view(store).run == run
    assert view(store).run.created_at.tzinfo is UTC


@pytest.mark.usefixtures("tokyo")
def test_a_database_with_a_time_zone_of_its_own_keeps_the_same_moments(
    alias: str, store: AgentStore
) -> None:
    earliest = datetime.now(UTC) - timedelta(minutes=1)

    run = acquire(store, admit(store), lease=timedelta(hours=1))
    row = RunRow.objects.using(alias).get()
    ended = end(store, checkpoint(store, run, "So far"))

    assert earliest < run.created_at < earliest + timedelta(minutes=2)
    assert (row.created_at, row.lease_expires_at) == (run.created_at, run.lease_expires_at)
    assert view(store).run == ended
    assert ended.created_at == run.created_at
    assert view(store).run.created_at.tzinfo is UTC


@pytest.mark.parametrize("operation", ["accept", "checkpoint", "end", "recover", "cancel"])
def test_nothing_is_written_before_the_head(alias: str, store: AgentStore, operation: str) -> None:
    run = admit(store) if operation == "cancel" else acquire(store, admit(store))
    future = datetime(2999, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
    Conversation.objects.using(alias).update(updated_at=future)

    match operation:
        case "accept":
            written = admit(store, "2")
        case "checkpoint":
            written = checkpoint(store, run, "So far")
        case "end":
            written = end(store, run)
        case "cancel":
            written = run_of(store.cancel_run("c", run.id))
        case _:
            recovered = store.recover_run(
                "c", run.id, expected_revision=run.revision, action="abandon"
            )
            written = run_of(recovered)

    assert written.updated_at == future
    assert written.ended_at in {None, future}
    assert view(store, written.id).run == written
    head = DjangoDriver(alias).active_runs("c").head
    assert head is not None
    assert head.updated_at == future
