"""System messages and tasks that sessions open with. They hold no fact that is asked for."""

from __future__ import annotations

import random

from remory.training.generator.grammar import expand, expand_any
from remory.training.generator.statements import split_lines
from remory.training.generator.words import chance, pick

_SYSTEMS = split_lines("""
    You are a helpful assistant.
    You are a coding assistant. Answer briefly and use the tools when needed.
    You help <owner> with daily work.
    You are an operations assistant for a small company.
    Assist with the code base. Do not invent file names.
    You are the assistant of <owner>. Be polite and exact.
    Work through the task step by step. Say so when something is unclear.
    You can run commands and read files. Explain what you do in a sentence.
    You keep track of what is agreed and answer questions about it.
    Answer from what has been said in the conversation.
    You are a careful engineer who works in small steps.
    You are a planning assistant. Keep answers short.
    Be concise. Prefer plain words.
    You support a team that runs several services.
    You are an assistant with access to a shell and a search.
    Help with whatever comes up. Ask when in doubt.
    You are a friendly helper for an office.
    You review changes and look after the records.
    You answer in English and avoid jargon.
    You take notes, look things up and draft messages.
    You are a support agent for internal users.
    Act as a pair programmer. Think before you edit.
""")
_TASKS = split_lines("""
    Let us clean up <module> and whatever hangs on it.
    Help me to get <product> ready.
    I need a hand with <event>.
    Please look into the trouble with <service>.
    We have to move a few things around this week. Let us go through them.
    Can you help me sort out my notes?
    The tests of <product> are flaky. Find out why.
    Let us prepare <event> together.
    I would like to go through the open points with you.
    Migrate <service> step by step; I will answer questions on the way.
    Write the missing parts of <module>.
    Let us work on the plan for the next weeks.
    There was an incident last night. Help me write it up.
    Please keep me company while I tidy up the settings.
    Review the changes on <branch> with me.
    We are setting up a new site in <place>. There is a lot to settle.
    Let us talk through <event>.
    Go through the backlog and help me decide what to do.
    I am new here and have questions. Some I can answer myself.
    Please draft the documentation of <service> with me.
    Help me compare some options.
    Today is paperwork. Let us start.
    We need to find out what became of <ticket>.
    Keep track of what we agree on, please.
    Let us refactor <function> and its callers.
    The dashboard of <service> is wrong somewhere. Let us look.
    I will give you bits and pieces as they come; please sort them.
    Continue where we left off yesterday.
    Get the build of <product> working again.
    Let us plan the week.
""")


def system_message(r: random.Random) -> str:
    """A system message of one or two sentences."""
    text = expand_any(r, _SYSTEMS)
    return f"{text} {expand(r, pick(r, _SYSTEMS))}" if chance(r, 0.2) else text


def task_message(r: random.Random) -> str:
    """The first message of a session: what it is about."""
    return expand_any(r, _TASKS)
