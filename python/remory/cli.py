"""The command line: `remory serve | demo | eval | train | mcp | doctor | keys | reembed | transcripts`."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remory import __version__
from remory.errors import RemoryError

if TYPE_CHECKING:
    from remory_service.config import Endpoint, SGLang

# The heavy imports (torch, Flask) stand inside the commands: `remory --help` must not wait for them.

_DESCRIPTION = """\
Soft memory for language-model agents: history that is removed from a session becomes a few rows in the model's own
embedding space, kept by a small server that generates with them.
"""

_EXAMPLES = """\
examples:
  remory demo                               see a session being compacted and going on
  remory serve                              serve the embedded model on http://127.0.0.1:8421
  remory serve --model FOLDER --device cuda --checkpoint FOLDER
                                            serve a Hugging Face folder on a GPU with its memory checkpoint
  remory serve --backend sglang --model FOLDER --device cuda --tp 2 -- --schedule-policy lpm
                                            serve it by SGLang on two GPUs, with an argument of SGLang's own
  remory eval --quick                       see what of a removed history answers can still be given from
  remory train --preset embedded --out run  train a memory network; it may be stopped, and goes on
  remory mcp                                give an agent the tools of that server, over MCP
  remory keys add --user builds --role invoke
                                            make a key; from then on every request needs one
  remory reembed --embedder FOLDER          give remembered texts vectors of another model
  remory doctor                             what is installed, and whether it works
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Errors meant for the user go to stderr in one line."""
    options = _parsed(list(sys.argv[1:] if arguments is None else arguments))
    try:
        return options.command(options)
    except (RemoryError, OSError) as error:
        return _fail(error)
    except KeyboardInterrupt:
        return 130


def _parsed(arguments: list[str]) -> argparse.Namespace:
    """The command line, and as `behind` what `serve` is to pass on."""
    behind: list[str] = []
    if arguments[:1] == ["serve"] and "--" in arguments:
        end = arguments.index("--")
        arguments, behind = arguments[:end], arguments[end + 1 :]
    options = _parser().parse_args(arguments)
    options.behind = behind
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="remory",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"remory {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_serve(commands.add_parser("serve", help="serve a model and its memories over HTTP"))
    _add_demo(commands.add_parser("demo", help="play a session, compact it twice and compare the answers"))
    _add_eval(commands.add_parser("eval", help="show what memory carries of a removed history, with figures"))
    _add_train(commands.add_parser("train", help="train a memory network for a model, on generated and own data"))
    _add_mcp(commands.add_parser("mcp", help="give agents the tools of a running server, over MCP"))
    _add_doctor(commands.add_parser("doctor", help="say what is installed and whether it works"))
    _add_keys(commands.add_parser("keys", help="make, list and revoke API keys"))
    _add_reembed(commands.add_parser("reembed", help="give remembered texts vectors of another model"))
    _add_transcripts(commands.add_parser("transcripts", help="write the token transcripts of a store to a file"))
    return parser


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.description = "Serve a model and its memories. Prints one line with the URL when requests are answered."
    place = parser.add_argument_group("where")
    place.add_argument("--host", default="127.0.0.1", help="address to listen on; others than loopback need keys")
    place.add_argument("--port", type=int, default=8421, help="0 takes a free one (default: %(default)s)")
    _add_data(place)
    _add_store(place)
    _add_model(parser.add_argument_group("what"))
    run = parser.add_argument_group("how")
    _add_backend(run)
    run.add_argument("--threads", type=int, default=64, help="requests served at once (default: %(default)s)")
    run.add_argument(
        "--cache-bytes",
        type=_size,
        default=1 << 30,
        metavar="SIZE",
        help="most memory for prefilled prompts and memories, such as 512M or 4G (default: 1G)",
    )
    run.add_argument(
        "--vector-bytes",
        type=_size,
        default=2 << 30,
        metavar="SIZE",
        help="most memory for the vectors of scopes that are searched (default: 2G); the largest alone may have more",
    )
    run.add_argument(
        "--max-context",
        "--context-length",
        type=int,
        metavar="TOKENS",
        help="a context window smaller than the model's",
    )
    run.add_argument(
        "--checkpoints",
        metavar="FOLDER",
        help="let administrators load memory checkpoints from this folder while the server runs",
    )
    _add_sglang(parser.add_argument_group("with --backend sglang", "What stands behind -- is passed on to SGLang."))
    _add_texts(parser.add_argument_group("remembered text"))
    _add_collecting(parser.add_argument_group("tokens to learn from"))
    parser.set_defaults(command=_serve)


def _add_backend(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--backend", default="transformers", help="what runs the model: transformers or sglang (default: %(default)s)"
    )
    parser.add_argument(
        "--sglang-python",
        metavar="FILE",
        help="an interpreter that has SGLang and Remory, to start SGLang with (default: this one)",
    )


def _add_sglang(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument("--tp", type=int, default=1, metavar="N", help="GPUs that share the model")
    parser.add_argument("--dp", type=int, default=1, metavar="N", help="copies of the model")
    parser.add_argument(
        "--mem-fraction-static", type=float, metavar="X", help="share of the GPU's memory for weights and cache"
    )
    parser.add_argument(
        "--capture-live",
        type=_size,
        nargs="?",
        const=4 << 30,
        default=0,
        metavar="SIZE",
        help="keep what compactions read while sessions run, in so much host memory (4G without SIZE)",
    )
    parser.add_argument(
        "--sglang-url",
        metavar="URL",
        help="use this running server, which has Remory's plug-in, instead of starting one; its API key, if it has "
        "one, in $REMORY_SGLANG_KEY",
    )
    parser.add_argument(
        "--exchange",
        metavar="FOLDER",
        help="folder for rows on their way, private and best in memory; the running server is started with the same "
        "one in $REMORY_EXCHANGE (default: one of our own; with --sglang-url none, rows travel inside of requests)",
    )


def _add_collecting(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--collect",
        action="store_true",
        help="keep the tokens of requests that agree by the header `X-Remory-Collect: yes`; see `remory transcripts`",
    )
    parser.add_argument(
        "--collect-bytes",
        type=_size,
        default=1 << 30,
        metavar="SIZE",
        help="most bytes of all transcripts; the oldest are dropped first (default: 1G)",
    )


def _add_texts(parser: argparse._ArgumentGroup) -> None:
    _add_embedder(parser)
    parser.add_argument(
        "--summarizer-url",
        metavar="URL",
        help="base URL of an OpenAI-compatible endpoint, such as https://host/v1, that writes chat memories (default: "
        "the served model); with --summarizer-model; its key, if it needs one, in $REMORY_SUMMARIZER_KEY",
    )
    parser.add_argument("--summarizer-model", metavar="NAME", help="the model's name at that endpoint")
    parser.add_argument(
        "--autosave-tokens",
        type=int,
        default=2048,
        metavar="TOKENS",
        help="a chat gets a memory by itself when its messages without one have more (default: %(default)s); 0: never",
    )
    parser.add_argument(
        "--no-keep-history",
        dest="keep_history",
        action="store_false",
        help="do not keep the tokens of compacted history for `recall`, unless a request asks for it",
    )


def _add_embedder(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--embedder",
        metavar="FOLDER",
        help="a sentence-transformers folder that makes vectors of texts (default: the embedded all-MiniLM-L6-v2)",
    )
    parser.add_argument(
        "--embedder-url",
        metavar="URL",
        help="base URL of an OpenAI-compatible endpoint, such as https://host/v1, that makes them instead; with "
        "--embedder-model; its key, if it needs one, in $REMORY_EMBEDDER_KEY",
    )
    parser.add_argument("--embedder-model", metavar="NAME", help="the model's name at that endpoint")


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Start a server on a free port with a temporary data folder, play a recorded session, compact it twice, ask "
        "the same questions each time, and print what happened. The last line is the same as JSON."
    )
    parser.add_argument("--url", help="use a running server (its memories of this demo are deleted at the end)")
    parser.add_argument("--key", help="API key of that server")
    _add_model(parser)
    _add_backend(parser)
    parser.set_defaults(command=_demo)


def _add_eval(parser: argparse.ArgumentParser) -> None:
    from remory.evaluation import options

    options.add(parser)
    evaluated = parser.add_argument_group("what is evaluated")
    _add_model(evaluated)
    _add_backend(evaluated)
    parser.set_defaults(command=_eval)


def _add_train(parser: argparse.ArgumentParser) -> None:
    from remory.training import options

    options.add(parser, _size)
    parser.set_defaults(command=_train)


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "An MCP server: gives agents tools to save, recall, list and delete notes, and to compact a session and go on "
        "with it. It is a client of a running `remory serve`."
    )
    service = parser.add_argument_group("which Remory server")
    service.add_argument("--url", default="http://127.0.0.1:8421", help="where it answers (default: %(default)s)")
    service.add_argument(
        "--key", help="its API key (default: $REMORY_KEY, which others on this machine cannot see as they can this)"
    )
    service.add_argument(
        "--session", default="mcp", help="what session memories belong to: one for each agent (default: %(default)s)"
    )
    service.add_argument(
        "--target-user", metavar="USER", help="whose notes these are; the key needs the role agent or admin"
    )
    place = parser.add_argument_group("how agents reach it")
    place.add_argument(
        "--transport",
        choices=("stdio", "http"),
        default="stdio",
        help="stdio for an agent that starts this command, http for streamable HTTP (default: %(default)s)",
    )
    place.add_argument(
        "--host",
        default="127.0.0.1",
        help="http: address to listen on; others than loopback need a bearer token in $REMORY_MCP_TOKEN",
    )
    place.add_argument("--port", type=int, default=8422, help="http: 0 takes a free one (default: %(default)s)")
    place.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="http: a further host name that agents use for this server; may be repeated",
    )
    parser.set_defaults(command=_mcp)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.description = "Say what is installed and whether it works. Exit code 1 if something is broken."
    _add_data(parser)
    _add_store(parser)
    _add_model(parser)
    _add_backend(parser)
    parser.set_defaults(command=_doctor)


def _add_keys(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "API keys of a store. Once a first key was made, every request needs one, and the server may listen on "
        "other than loopback addresses."
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="make a key and print it, this once")
    add.add_argument("--user", required=True, help="whose key it is")
    add.add_argument(
        "--role", action="append", required=True, metavar="ROLE", help="invoke, worker, agent or admin; may be repeated"
    )
    add.set_defaults(command=_keys_add)
    listing = actions.add_parser("list", help="list all keys, without their text")
    listing.set_defaults(command=_keys_list)
    revoke = actions.add_parser("revoke", help="refuse a key from now on")
    revoke.add_argument("id", type=int, help="the number that `remory keys list` shows")
    revoke.set_defaults(command=_keys_revoke)
    for action in (add, listing, revoke):
        _add_data(action)
        _add_store(action)


def _add_reembed(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Give every remembered text of a store a vector of the chosen embedding model, if it has none. Servers on that "
        "store go on with the model they have; start them with the new one when this has ended. It may be stopped at "
        "any time, and goes on where it was."
    )
    _add_data(parser)
    _add_store(parser)
    _add_embedder(parser)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: %(default)s)")
    parser.add_argument(
        "--prune",
        action="store_true",
        help="then remove the vectors of all other models: servers that still use one of those find nothing any more",
    )
    parser.set_defaults(command=_reembed)


def _add_transcripts(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Token transcripts: what `remory serve --collect` kept of sessions that agreed. Sessions see and delete their "
        "own by GET and DELETE /v1/transcripts."
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    export = actions.add_parser("export", help="write them as lines of JSON")
    export.description = (
        "Write a line for everything that followed a memory: prefix_ids, history_ids, summary_ids, continuation_ids "
        "and actor_revision. The file is for its owner alone; nothing is deleted."
    )
    export.add_argument("--out", type=Path, required=True, metavar="FILE", help="replaced if it is there")
    _add_data(export)
    _add_store(export)
    export.set_defaults(command=_transcripts_export)


def _add_data(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder of memories and keys (default: $REMORY_DATA, else the user's data folder)",
    )


def _add_store(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--store",
        metavar="URL",
        help="keep memories and keys in a PostgreSQL database instead of the data folder: "
        "postgresql://USER@HOST:PORT/DATABASE (default: $REMORY_STORE, unless --data is given). Others on this machine "
        "can see a command line: give a password by ~/.pgpass, $PGPASSWORD or $REMORY_STORE",
    )


def _add_model(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--model",
        metavar="NAME_OR_FOLDER",
        help="a Hugging Face folder of a Llama- or Qwen-type model (default: the embedded SmolLM2-135M-Instruct)",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="memory checkpoint for that model (default: the packaged one for the embedded model, else none)",
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: %(default)s)")
    parser.add_argument("--dtype", help="float32, bfloat16 or float16 (default: the model's own)")


def _size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = units.get(text[-1:].upper(), 1)
    digits = text if unit == 1 else text[:-1]
    if not digits.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no size: give bytes, or a number with K, M or G")
    return int(digits) * unit


def _serve(options: argparse.Namespace) -> int:
    from remory_service.config import Config
    from remory_service.server import run

    names = (
        "host",
        "port",
        "backend",
        "model",
        "checkpoint",
        "device",
        "dtype",
        "threads",
        "cache_bytes",
        "vector_bytes",
        "max_context",
        "autosave_tokens",
        "keep_history",
        "collect",
        "collect_bytes",
        "checkpoints",
    )
    try:
        config = Config(
            data=_data(options),
            store=_store(options),
            embedder=_embedder(options),
            summarizer=_endpoint(options, "summarizer"),
            sglang=_sglang(options),
            **{name: getattr(options, name) for name in names},
        )
    except ValueError as error:
        return _fail(error)
    with _service_errors():
        run(config)
    return 0


def _demo(options: argparse.Namespace) -> int:
    from remory import demo

    return demo.run(options)


def _eval(options: argparse.Namespace) -> int:
    from remory.evaluation import command

    return command.run(options)


def _train(options: argparse.Namespace) -> int:
    from remory.training import command

    return command.run(options)


def _mcp(options: argparse.Namespace) -> int:
    try:
        from remory.mcp_server import Options, run
    except ModuleNotFoundError as error:
        return _fail(f"`remory mcp` needs the package {error.name}: pip install 'remory[mcp]'")
    run(
        Options(
            url=options.url,
            session=options.session,
            key=options.key or os.environ.get("REMORY_KEY"),
            target_user=options.target_user,
            transport=options.transport,
            host=options.host,
            port=options.port,
            allowed_hosts=tuple(options.allow_host),
            token=os.environ.get("REMORY_MCP_TOKEN"),
        )
    )
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from remory import doctor

    python = options.sglang_python
    findings = doctor.examine(options.data, _store(options), options.model, options.checkpoint, options.device, python)
    return doctor.show(itertools.chain(findings, doctor.examine_sglang(options.backend, python)))


def _keys_add(options: argparse.Namespace) -> int:
    from remory_service.identity import make_key

    with _service_errors():
        print(make_key(_data(options), options.user, options.role, _store(options)))
    print("Keep it now: only its hash is stored.", file=sys.stderr)
    return 0


def _keys_list(options: argparse.Namespace) -> int:
    from remory_service.identity import list_keys

    with _service_errors():
        keys = list_keys(_data(options), _store(options))
    for key in keys:
        state = "revoked" if key.revoked_at else "live"
        print(f"{key.id:4}  {key.hint}…  {state:7}  {_day(key.created_at)}  {key.user}  {','.join(key.roles)}")
    return 0


def _keys_revoke(options: argparse.Namespace) -> int:
    from remory_service.identity import revoke_key

    with _service_errors():
        revoked = revoke_key(_data(options), options.id, _store(options))
    if not revoked:
        return _fail(f"there is no live key {options.id}; see `remory keys list`")
    return 0


def _reembed(options: argparse.Namespace) -> int:
    # Read when torch is imported; see the server, which may run on this machine too.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from remory_service.reembedding_command import run

    try:
        chosen = _embedder(options)
    except ValueError as error:
        return _fail(error)
    with _service_errors():
        return run(_data(options), _store(options), chosen, options.device, options.prune)


def _transcripts_export(options: argparse.Namespace) -> int:
    from remory_service.transcripts_command import export

    with _service_errors():
        return export(_data(options), _store(options), options.out)


def _sglang(options: argparse.Namespace) -> SGLang:
    from remory_service.config import SGLang

    return SGLang(
        python=options.sglang_python,
        url=options.sglang_url,
        key=(os.environ.get("REMORY_SGLANG_KEY") or None) if options.sglang_url else None,
        exchange=options.exchange,
        arguments=tuple(options.behind),
        **{name: getattr(options, name) for name in ("tp", "dp", "mem_fraction_static", "capture_live")},
    )


def _embedder(options: argparse.Namespace) -> Any:
    endpoint = _endpoint(options, "embedder")
    if endpoint is not None and options.embedder is not None:
        raise ValueError("give --embedder or --embedder-url, not both")
    return endpoint or options.embedder


def _endpoint(options: argparse.Namespace, name: str) -> Endpoint | None:
    """The endpoint of an embedder or a summariser, if the command line names one. Raises ValueError for half of one."""
    from remory_service.config import Endpoint

    url, model = getattr(options, f"{name}_url"), getattr(options, f"{name}_model")
    if (url is None) != (model is None):
        raise ValueError(f"--{name}-url and --{name}-model belong together")
    return None if url is None else Endpoint(url, model, os.environ.get(f"REMORY_{name.upper()}_KEY") or None)


def _data(options: argparse.Namespace) -> Path:
    from remory_service.config import default_data_folder

    return options.data or default_data_folder()


def _store(options: argparse.Namespace) -> str | None:
    from remory_service.config import default_store

    # What a command line names counts more than the environment.
    return options.store or (None if options.data else default_store())


@contextmanager
def _service_errors() -> Iterator[None]:
    """The service's errors (a damaged store, keys needed) as ours: their text is meant for the user too."""
    from remory_service.errors import ServiceError

    try:
        yield
    except ServiceError as error:
        raise RemoryError(str(error)) from error


def _day(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).date().isoformat()


def _fail(error: object) -> int:
    print(f"remory: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
