"""Routes that say which memory checkpoint is in use, and put another in its place while the server runs."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app, g, jsonify
from flask_openapi3 import APIBlueprint, Tag
from pydantic import BaseModel, Field

from remory.network import Checkpoint
from remory_service.api.answers import CheckpointFacts, SummaryContractFacts
from remory_service.api.bodies import Body, ErrorAnswer
from remory_service.authority import require_admin
from remory_service.checkpoints import Shelf, Shelved, reason
from remory_service.errors import BadRequest, ServiceError
from remory_service.runtime import Loaded, Runtime

_LONGEST_PATH = 4096

checkpoint_routes = APIBlueprint(
    "checkpoints",
    __name__,
    abp_tags=[Tag(name="checkpoints", description="The memory network in use.")],
    abp_security=[{"bearer": []}, {"header": []}],
    abp_responses=dict.fromkeys((400, 401, 403, 413, 422, 500, 503), ErrorAnswer),
)


class LoadBody(Body):
    """Which checkpoint."""

    path: str = Field(
        min_length=1,
        max_length=_LONGEST_PATH,
        description="A path in the folder of `remory serve --checkpoints`, or the name of a shipped checkpoint.",
    )


class UsedCheckpoint(BaseModel):
    """The checkpoint in use, as in `/v1/remory/info`; both null without memory."""

    checkpoint: CheckpointFacts | None
    summary_contract: SummaryContractFacts | None


class ShelvedCheckpoint(BaseModel):
    """A checkpoint that can be loaded, unless `problem` says why not. Its weights are verified when it is loaded."""

    path: str
    shipped: bool = Field(description="It comes with Remory.")
    in_use: bool
    problem: str | None
    checkpoint: CheckpointFacts | None = Field(description="null where its description cannot be read.")


class CheckpointsAnswer(BaseModel):
    """What is in use, and what can be loaded."""

    in_use: CheckpointFacts | None
    checkpoints: list[ShelvedCheckpoint]


@checkpoint_routes.get("/v1/checkpoints", responses={200: CheckpointsAnswer})
def list_checkpoints() -> Response:
    """The checkpoint in use and those that can be loaded, by name.

    Of the server's folder those directly in it and one below; others can be loaded too. Only descriptions are read.
    """
    runtime = _runtime()
    loaded = runtime.loaded()
    in_use = used_facts(loaded)["checkpoint"]
    shelved = _shelf().listing(loaded.engine)
    return jsonify({"in_use": in_use, "checkpoints": [_shown(item, loaded) for item in shelved]})


@checkpoint_routes.post("/v1/checkpoints/load", responses={200: UsedCheckpoint})
def load_checkpoint(body: LoadBody) -> Response:
    """Put another memory checkpoint in the place of the one in use. For administrators.

    Requests under way end with the one they began with. A checkpoint that cannot be loaded or does not fit the actor
    changes nothing. Memories of earlier checkpoints go on generating; they cannot be compacted again. A server that is
    started again has the checkpoint of its command line.
    """
    require_admin(g.caller)
    folder = _shelf().find(body.path)
    # The boundary: whatever a folder makes the libraries raise, nothing was changed, and who asked should know why.
    try:
        loaded = _runtime().use_checkpoint(folder)
    except ServiceError:
        raise
    except Exception as error:
        raise BadRequest(reason(error, folder, body.path)) from error
    return jsonify(used_facts(loaded))


def used_facts(loaded: Loaded) -> dict[str, Any]:
    """The fields `checkpoint` and `summary_contract` of who answers."""
    checkpoint = loaded.checkpoint
    if checkpoint is None:
        return {"checkpoint": None, "summary_contract": None}
    return {
        "checkpoint": _facts(checkpoint, loaded.compactor.identity),
        "summary_contract": checkpoint.contract.model_dump(by_alias=True),
    }


def _facts(checkpoint: Checkpoint, identity: str) -> dict[str, Any]:
    return {
        "identity": identity,
        "name": checkpoint.name,
        "schema": checkpoint.schema,
        "strategy": checkpoint.strategy,
        "trained": checkpoint.trained,
        "block_tokens": checkpoint.block_tokens,
        "compression_ratio": checkpoint.ratio,
        "memory_budget": checkpoint.memory_budget,
        "layer_ids": checkpoint.layer_ids,
        "base": checkpoint.geometry.base,
    }


def _shown(item: Shelved, loaded: Loaded) -> dict[str, Any]:
    identity = item.described and item.described.identity(loaded.engine.actor.revision)
    return {
        "path": item.path,
        "shipped": item.shipped,
        "in_use": identity is not None and loaded.compactor is not None and identity == loaded.compactor.identity,
        "problem": item.problem,
        "checkpoint": _facts(item.described, identity) if item.described and identity else None,
    }


def _shelf() -> Shelf:
    return current_app.extensions["remory_shelf"]


def _runtime() -> Runtime:
    return current_app.extensions["remory"]
