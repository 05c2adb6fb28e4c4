"""From logits to the next token: penalties, constraint, temperature, filters, choice."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from remory.engines.base import SamplingParams
from remory.errors import EngineFailed, InvalidInput

# JSON on one line: where any white space may follow, a small model can go on with nothing but white space.
_ONE_LINE: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}

_GREEDY_BELOW = 1e-6  # as SGLang does: a smaller temperature would only overflow


class Constraint:
    """Keeps the output inside a JSON schema or a regular expression, token by token (llguidance)."""

    def __init__(self, vocabulary: Any, params: SamplingParams) -> None:
        """`vocabulary`: what `constraint_vocabulary` gave. Raises InvalidInput when the grammar cannot be used."""
        from llguidance import LLMatcher

        named = "json_schema" if params.json_schema is not None else "regex"
        try:
            if params.json_schema is not None:
                schema = json.loads(params.json_schema, parse_constant=_refuse_constant)
                grammar = LLMatcher.grammar_from_json_schema(schema, overrides=_ONE_LINE)
            else:
                grammar = LLMatcher.grammar_from_regex(params.regex or "")
        except RecursionError as error:
            raise InvalidInput(f"{named} is not usable: it is nested too deeply") from error
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"{named} is not usable: {error}") from error
        self._matcher = LLMatcher(vocabulary, grammar)
        self._named = named
        self._check()

    def apply(self, logits: Tensor) -> None:
        """Set the logits [V] of all tokens that cannot come next to -inf, in place."""
        mask = torch.frombuffer(bytearray(self._matcher.compute_bitmask()), dtype=torch.uint8)
        self._check()
        bits = (mask[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
        allowed = torch.zeros(logits.numel(), dtype=torch.bool)
        known = bits.flatten()[: logits.numel()].bool()
        allowed[: known.numel()] = known
        logits.masked_fill_(~allowed.to(logits.device), float("-inf"))

    def accept(self, token: int) -> None:
        """Tell which token was chosen. Raises InvalidInput when the grammar has outgrown what can be followed."""
        self._matcher.consume_token(token)
        self._check()

    @property
    def complete(self) -> bool:
        """Whether nothing but the end can follow."""
        return self._matcher.is_stopped()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise InvalidInput(f"{self._named} is not usable: {self._matcher.get_error().splitlines()[0]}")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def constraint_vocabulary(tokenizer: Any, vocabulary: int) -> Any:
    """The tokenizer in the form constraints need; takes about a second, so make it once."""
    import llguidance.hf

    return llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocabulary)


class Sampler:
    """Chooses the tokens of one sequence. Equal parameters with a `seed`, or temperature 0, choose equally."""

    def __init__(
        self, params: SamplingParams, vocabulary: int, device: torch.device, constraint: Constraint | None
    ) -> None:
        self._params = params
        self._constraint = constraint
        self._generator = torch.Generator(device=device)
        if params.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(params.seed)
        self._counts = torch.zeros(vocabulary, device=device)

    def choose(self, logits: Tensor) -> int:
        """The next token from the actor's float32 logits [V], which are changed.

        Raises EngineFailed when they are not finite.
        """
        if not bool(logits.isfinite().all()):
            raise EngineFailed("the actor gave logits that are not finite")
        params = self._params
        self._penalise(logits)
        if self._constraint:
            self._constraint.apply(logits)
        if params.temperature < _GREEDY_BELOW or params.top_k == 1:
            token = int(logits.argmax())
        else:
            probabilities = self._filtered(logits / params.temperature)
            token = int(torch.multinomial(probabilities, 1, generator=self._generator))
        self._counts[token] += 1
        if self._constraint:
            self._constraint.accept(token)
        return token

    @property
    def complete(self) -> bool:
        """Whether a constraint says that the output is whole."""
        return self._constraint is not None and self._constraint.complete

    def _penalise(self, logits: Tensor) -> None:
        """As SGLang does: for the tokens of the answer, not for those of the prompt; what is subtracted comes first."""
        params = self._params
        if params.frequency_penalty:
            logits.sub_(params.frequency_penalty * self._counts)
        if params.presence_penalty:
            logits.sub_(params.presence_penalty * (self._counts > 0))
        if params.repetition_penalty != 1.0:
            scaled = torch.where(logits > 0, logits / params.repetition_penalty, logits * params.repetition_penalty)
            logits.copy_(torch.where(self._counts > 0, scaled, logits))

    def _filtered(self, logits: Tensor) -> Tensor:
        """Probabilities [V] after top-k, top-p and min-p, not renormalised."""
        params = self._params
        probabilities = logits.softmax(-1)
        if params.top_k <= 0 and params.top_p >= 1.0 and params.min_p <= 0.0:
            return probabilities
        ordered, order = probabilities.sort(descending=True, stable=True)
        keep = torch.ones_like(ordered, dtype=torch.bool)
        if 0 < params.top_k < ordered.numel():
            keep[params.top_k :] = False
        if params.top_p < 1.0:
            keep &= ordered.cumsum(-1) - ordered < params.top_p
        if params.min_p > 0.0:
            keep &= ordered >= params.min_p * ordered[0]
        keep[0] = True  # a top_p that rounds to nothing still leaves the most likely token
        return torch.zeros_like(probabilities).scatter_(0, order[keep], ordered[keep])
