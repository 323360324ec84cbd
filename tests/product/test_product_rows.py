"""A product's rows host the store's: nothing differs, and what is the product's stays its own."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured

from stitchkit_django import get_store
from stitchkit_django.core import Applied, NotFound, StoreUnavailableError
from stitchkit_django.hosts import hosts
from stitchkit_django.testing import CHECKS
from tests.core.steps import acquire, admit, answered, checkpoint, compact, end, history
from tests.product.models import Chat, ChatMessage, OwnedChat, RatedMessage
from tests.replay import histories, replay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django.db.models import Model
    from pytest_django.fixtures import Settings

    from stitchkit_django.core import AgentStore
    from stitchkit_django.testing import Check

CHATS: Final = {"model": "product.Chat", "columns": {"conversation_id": "key"}}
MESSAGES: Final = {"model": "product.ChatMessage", "columns": {"parts": "body"}}
HISTORIES: Final = histories()
FUTURE: Final = datetime(2999, 1, 1, tzinfo=UTC)


@pytest.fixture
def product(alias: str, settings: Settings) -> Iterator[str]:
    """Let the product's rows host the store's; give the alias."""
    settings.STITCHKIT = {"CONVERSATION_MODEL": CHATS, "MESSAGE_MODEL": MESSAGES}
    yield alias
    for model in (Chat, OwnedChat, ChatMessage, RatedMessage, get_user_model()):
        model._base_manager.using(alias).all().delete()


@pytest.fixture
def owned(product: str, settings: Settings) -> str:
    """Let rows that need a user host the heads; give the alias."""
    settings.STITCHKIT = {"CONVERSATION_MODEL": "product.OwnedChat", "MESSAGE_MODEL": MESSAGES}
    return product


def own_rows(alias: str) -> dict[str, int]:
    """Count the rows of the package's tables that the product's stand in for."""
    models: list[type[Model]] = [
        apps.get_model("stitchkit_django", name) for name in ("Conversation", "Message")
    ]
    return {model.__name__: model._base_manager.using(alias).count() for model in models}


# ---------------------------------------------------------------- the same behaviour


@pytest.mark.parametrize("check", CHECKS)
def test_the_laws_hold_on_rows_that_the_store_makes(product: str, check: Check) -> None:
    @contextmanager
    def make(conversation_ids: Sequence[str]) -> Iterator[AgentStore]:
        assert conversation_ids
        yield get_store(product)

    check(make)

    assert own_rows(product) == {"Conversation": 0, "Message": 0}


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: f"seed {history['seed']}")
def test_a_recorded_history_takes_the_same_course(product: str, history: dict[str, Any]) -> None:
    Chat.objects.using(product).create(key="c", title="Before anything was said")

    replay(get_store(product), "c", history)

    assert Chat.objects.using(product).get(key="c").title == "Before anything was said"


# ---------------------------------------------------------------- what is the product's


def test_what_the_product_keeps_in_a_row_stays_as_it_was(product: str) -> None:
    user = get_user_model()._base_manager.using(product).create(username="ada")
    Chat.objects.using(product).create(key="c", title="Capitals", user=user)
    store = get_store(product)
    run = acquire(store, admit(store))
    run = checkpoint(store, run, "The capital")
    messages = ChatMessage.objects.using(product)
    messages.filter(message_id=run.assistant_message_id).update(starred=True, comment="Good")

    end(store, run)
    compact(store, *history(store)[:1])

    answer = messages.get(message_id=run.assistant_message_id)
    assert (answer.starred, answer.comment, answer.status) == (True, "Good", "completed")
    chat = Chat.objects.using(product).get(key="c")
    assert (chat.title, chat.user, chat.version) == ("Capitals", user, 5)


def test_a_row_that_the_store_makes_has_the_defaults_of_the_database(product: str) -> None:
    admit(get_store(product))

    assert Chat.objects.using(product).get(key="c").title == "New chat"
    assert not ChatMessage.objects.using(product).get().starred


def test_archived_messages_of_the_product_are_forgotten(product: str) -> None:
    store = get_store(product)
    answered(store)
    compact(store, *history(store))

    gone = store.driver.transaction(
        lambda transaction: transaction.forget_archived("c", FUTURE, limit=10)
    )

    assert gone == 2
    assert ChatMessage.objects.using(product).count() == 1


# ---------------------------------------------------------------- rows that the product alone makes


def test_the_store_admits_to_a_conversation_that_the_product_has_made(owned: str) -> None:
    user = get_user_model()._base_manager.using(owned).create(username="ada")
    OwnedChat.objects.using(owned).create(conversation_id="c", user=user)

    outcome = get_store(owned).accept_input("c", "k", "?")

    assert isinstance(outcome, Applied)
    assert outcome.version == 1


def test_a_conversation_that_the_product_has_not_made_is_not_found(owned: str) -> None:
    outcome = get_store(owned).accept_input("c", "k", "?")

    assert outcome == NotFound()
    assert not OwnedChat.objects.using(owned).exists()


def test_a_conversation_is_restored_only_where_the_product_has_made_it(owned: str) -> None:
    user = get_user_model()._base_manager.using(owned).create(username="ada")
    OwnedChat.objects.using(owned).create(conversation_id="c", user=user)
    store = get_store(owned)
    answered(store)
    rows = store.driver.rows("c")
    assert rows is not None
    OwnedChat.objects.using(owned).all().delete()

    with pytest.raises(StoreUnavailableError, match=r"no row in product\.OwnedChat.*user"):
        store.driver.transaction(lambda transaction: transaction.restore(rows))

    OwnedChat.objects.using(owned).create(conversation_id="c", user=user)
    emptied: list[type[Model]] = [*apps.get_app_config("stitchkit_django").get_models()]
    emptied.append(ChatMessage)
    for model in emptied:
        model._base_manager.using(owned).all().delete()
    assert store.driver.transaction(lambda transaction: transaction.restore(rows))
    assert store.driver.rows("c") == rows


# ---------------------------------------------------------------- models that can't host


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"CONVERSATION_MODEL": "product.Nothing"}, r"CONVERSATION_MODEL.*product\.Nothing"),
        ({"CONVERSATION_MODEL": "Chat"}, r"CONVERSATION_MODEL.*'Chat'"),
        ({"CONVERSATION_MODEL": "product.Chat"}, r"product\.Chat has no field 'conversation_id'"),
        ({"MESSAGE_MODEL": "auth.User"}, r"auth\.User has no field 'conversation_id'"),
        (
            {"MESSAGE_MODEL": {**MESSAGES, "columns": {"parts": "body", "colour": "red"}}},
            r"product\.ChatMessage gives 'colour' a name: the store knows .*message_id",
        ),
        (
            {"MESSAGE_MODEL": {"model": "product.ChatMessage", "columns": {"parts": "bodies"}}},
            r"has no field 'bodies', which would hold 'parts'",
        ),
        ({"MESSAGE_MODEL": "product.RatedMessage"}, r"RatedMessage.*'rating'.*db_default"),
        ({"MESSAGE_MODEL": {"models": "product.Chat"}}, r"MESSAGE_MODEL.*make it"),
    ],
)
def test_a_model_that_cannot_host_is_refused_by_name(
    alias: str, settings: Settings, given: dict[str, object], told: str
) -> None:
    settings.STITCHKIT = given

    with pytest.raises(ImproperlyConfigured, match=told):
        get_store(alias)


def test_the_hosts_are_looked_up_once_for_each_setting(alias: str, settings: Settings) -> None:
    own = hosts()
    settings.STITCHKIT = {"CONVERSATION_MODEL": CHATS, "MESSAGE_MODEL": MESSAGES}

    assert hosts()["head"].model is Chat
    assert hosts() is hosts() is not own
    assert get_store(alias) is get_store(alias)
