"""What may be told of orders, products, sites, things, events and teams at work, and how it is told and asked."""

from __future__ import annotations

import random

from remory.training.generator import words
from remory.training.generator.attributes import attribute, one_of
from remory.training.generator.entities import crew, customer, event, order, product, release, thing, ticket
from remory.training.generator.statements import Attribute
from remory.training.generator.words import pick

CARRIERS = one_of("""
    the red van, the ferry, a courier on a bicycle, the post, the night train, a hired lorry, the company car, air
    freight, the barge, a pallet service, the school bus, the handcart, a drone, registered mail, the tram
""")
CHANNELS = one_of("""
    e-mail, the chat room, the ticket system, a phone call, the paper form, the web portal, the duty phone, fax, a
    letter, the radio, the shared sheet, the notice board, the suggestion box, video call, the help line
""")
CONDITIONS = one_of("""
    two signatures, a deposit, a written quote, a risk assessment, a back-up copy, a fire extinguisher, a valid badge,
    a second pair of eyes, an insurance slip, a clean test run, a permit, safety goggles, a stamped form, a head torch,
    a health certificate, a dry floor, a spare fuse, an export licence, a full tank, a list of guests
""")
DEFECTS = one_of("""
    a cracked lid, a bent axle, a loose screw, a worn bearing, a missing label, a torn cover, a dead battery, a blocked
    nozzle, a scratched lens, a leaking valve, a stripped thread, a frayed cable, a jammed drawer, a rusty hinge, a
    blown bulb, a warped board, a slack belt, a chipped edge, a sticky button, a faulty switch, a split hose
""")
DEMANDS = one_of("""
    a refund, a replacement, a discount, an apology, a later date, a second offer, an extra key, a call back, a larger
    room, a copy of the contract, a written answer, an earlier slot, a spare part, a translation, a guided tour
""")
RHYTHMS = one_of("""
    every Monday, twice a week, once a month, every other Friday, at the end of each quarter, daily, every third day,
    on the first of the month, only in winter, each Tuesday and Thursday, every six weeks, once a year, before each
    release, on even weeks
""")
LANGUAGES_SPOKEN = one_of("""
    Finnish, Portuguese, Welsh, Polish, Greek, Danish, Turkish, Hindi, Catalan, Swahili, Czech, Korean, Basque, Dutch
""")
VERDICTS = one_of("""
    passed, failed, passed with remarks, postponed, declined, accepted, sold out, cancelled, fully booked, confirmed,
    shipped, returned, under repair, lost in transit, paid, overdue, half paid, waiting for parts, approved, withdrawn
""")


def _amount(r: random.Random) -> str:
    return pick(r, (words.quantity, words.count))(r)


BUSINESS: tuple[Attribute, ...] = (
    attribute(
        "price",
        (thing, order, product, event),
        "price, cost",
        words.money,
        """{e} [[costs]] {v}
        we [[paid]] {v} for {e}
        {e} was [[billed]] at {v}
        {e} comes to {v} all in, that is its [[price]]
        the [[offer]] for {e} is {v}
        {e} went [[down]] to {v}
        {v} is [[due]] for {e}""",
        """How much does {e} cost?
        What did we pay for {e}?
        At what price was {e} billed?
        What does {e} come to?""",
        """[[Pay]] {v} for {e}.
        Do not [[pay]] more than {v} for {e}.""",
    ),
    attribute(
        "money",
        (product, event, crew, customer),
        "budget, spending limit",
        words.money,
        """{e} may [[spend]] {v}
        {v} is [[set aside]] for {e}
        {e} has a [[budget]] of {v}
        the [[budget]] of {e} was cut to {v}""",
        """How much may {e} spend?
        How much is set aside for {e}?
        How large is the budget of {e}?""",
        """[[Set]] {v} aside for {e}.""",
    ),
    attribute(
        "date",
        (event, order, customer, product),
        "date, day, appointment",
        words.date,
        """{e} is [[on]] {v}
        {e} [[takes place]] on {v}
        {e} was [[moved]] to {v}
        {e} is [[planned]] for {v}
        {v} is the [[day]] of {e}
        we [[expect]] {e} on {v}""",
        """When does {e} take place?
        On which date is {e}?
        To which day was {e} moved?
        For when is {e} planned?""",
        """[[Move]] {e} to {v}.
        [[Book]] {e} for {v}.""",
    ),
    attribute(
        "weekday",
        (event, customer, crew),
        "day of the week, weekday, fixed day",
        words.weekday,
        """{e} is always on {v}, as a fixed [[day]]
        {e} [[falls]] on a {v}
        {v} is the [[day]] for {e}
        {e} only [[works]] on {v}
        {e} [[moves]] to {v}""",
        """On which day of the week is {e}?
        What weekday is it for {e}?
        Which day is fixed for {e}?""",
        """Keep {v} [[free]] for {e}.""",
    ),
    attribute(
        "time",
        (event, customer, crew),
        "hour, beginning, opening time",
        words.time,
        """{e} [[begins]] at {v}
        {e} [[opens]] at {v}
        the [[doors]] for {e} open at {v}
        we [[meet]] for {e} at {v}
        {e} is [[ready]] from {v} onward""",
        """At what time does {e} begin?
        When does {e} open?
        At what hour do we meet for {e}?""",
        """Be at {e} by {v}, that is the [[start]].""",
    ),
    attribute(
        "place",
        (event, order, thing),
        "place, location, spot",
        words.spot,
        """{e} is [[kept]] in {v}
        {e} can be [[found]] in {v}
        {e} has its [[place]] in {v}
        I [[left]] {e} in {v}
        we [[put]] {e} into {v}
        {v} is [[where]] {e} belongs
        {e} was [[moved]] to {v}""",
        """Where is {e}?
        Where can {e} be found?
        Where did we put {e}?
        In which spot is {e}?
        Where do I have to look for {e}?""",
        """[[Leave]] {e} in {v}.
        [[Look]] for {e} in {v}.""",
    ),
    attribute(
        "town",
        (event, order, customer, product, crew),
        "town, destination, city",
        words.place,
        """{e} [[goes]] to {v}
        {e} is [[based]] in {v}
        {e} [[comes]] from {v}
        {e} is [[held]] in {v}
        {e} will be [[set up]] in {v}""",
        """In which town is {e}?
        What town is it for {e}?
        Which city does {e} have to do with?""",
        """[[Send]] {e} to {v}.""",
    ),
    attribute(
        "room",
        (event, crew, thing),
        "room, room number, hall",
        words.room,
        """{e} is in {v}, that is the [[room]]
        {e} got the [[room]] {v}
        {v} is [[booked]] for {e}
        {e} [[moves]] into {v}""",
        """In which room is {e}?
        Which room is booked for {e}?
        What room did {e} get?""",
        """[[Book]] {v} for {e}.""",
    ),
    attribute(
        "number",
        (event, order, product, customer),
        "quantity, number, amount",
        _amount,
        """{e} [[comprises]] {v}
        {e} has [[room]] for {v}
        {e} [[counts]] {v}
        we [[ordered]] {v} for {e}
        {v} are [[needed]] for {e}""",
        """What quantity is it for {e}?
        How many are needed for {e}?
        How much is in it with {e}?
        What number did we note for {e}?""",
        """[[Order]] {v} for {e}.""",
    ),
    attribute(
        "code",
        (thing, order, customer, product, event),
        "code, reference, article number, reference number",
        words.code,
        """{e} goes under the [[reference]] {v}
        {e} is [[filed]] as {v}
        the [[label]] on {e} says {v}
        {v} is the [[number]] of {e}
        {e} was [[registered]] as {v}""",
        """Under what reference does {e} go?
        What does the label on {e} say?
        As what is {e} filed?
        Which number do I give for {e}?""",
        """[[Quote]] {v} when you ask about {e}.
        [[File]] {e} under {v}.""",
    ),
    attribute(
        "colour",
        (thing, event, product, customer),
        "colour, paint",
        words.colour,
        """{e} is [[painted]] {v}
        {e} will be {v}, that is the [[colour]]
        {v} is the [[colour]] of {e}
        {e} gets a {v} [[finish]]
        {e} is [[marked]] in {v}""",
        """What colour is {e}?
        In which colour is {e} marked?
        How is {e} painted?""",
        """[[Paint]] {e} {v}.
        [[Mark]] {e} in {v} on the plan.""",
    ),
    attribute(
        "material",
        (thing, product, order),
        "material, stuff, raw material",
        words.material,
        """{e} is [[made]] of {v}
        {e} [[consists]] of {v}
        we [[build]] {e} from {v}
        for {e} only {v} is [[used]]
        {e} was [[covered]] with {v}""",
        """What is {e} made of?
        What does {e} consist of?
        From which material is {e}?""",
        """[[Make]] {e} of {v}.""",
    ),
    attribute(
        "measure",
        (thing, order, product),
        "capacity, maximum load",
        words.quantity,
        """{e} [[fits]] {v}
        {e} [[holds]] {v}
        {e} [[takes]] {v} at most
        more than {v} is too [[much]] for {e}
        {e} is [[rated]] at {v}""",
        """What fits into or onto {e}?
        How much does {e} take or hold?
        At what is {e} rated?""",
    ),
    attribute(
        "duration",
        (event, order, product, thing),
        "length, duration, time needed",
        words.duration,
        """{e} [[lasts]] {v}
        {e} [[takes]] {v}
        we [[need]] {v} for {e}
        one should [[allow]] {v} for {e}""",
        """How long does {e} take?
        How much time should we allow for {e}?
        For how long is it with {e}?""",
        """[[Plan]] {v} for {e}.""",
    ),
    attribute(
        "team",
        (event, order, customer, product, thing),
        "person in charge, responsible team, contact, organiser",
        words.owner,
        """{v} [[takes care]] of {e}
        {e} is [[run]] by {v}
        {v} [[organises]] {e}
        {e} was [[entrusted]] to {v}
        {v} [[signed]] for {e}
        {v} [[handles]] {e} from now on""",
        """Who takes care of {e}?
        Who is in charge of {e}?
        Who handles {e}?
        To whom was {e} entrusted?""",
        """[[Leave]] {e} to {v}.
        [[Ask]] {v} about {e}.""",
    ),
    attribute(
        "supplier",
        (thing, order, event, product),
        "supplier, maker, vendor, provider",
        words.pseudo_name,
        """{e} is [[supplied]] by {v}
        we [[buy]] {e} from {v}
        {v} [[delivers]] {e}
        {e} was [[made]] by {v}
        {e} [[comes]] from {v}""",
        """Who supplies {e}?
        From whom do we buy {e}?
        Which company delivers {e}?""",
        """[[Order]] {e} from {v}.""",
    ),
    attribute(
        "transport",
        (order, thing, product),
        "transport, means of transport, shipping method",
        CARRIERS,
        """{e} [[travels]] with {v}
        {e} is [[shipped]] by {v}
        {v} [[brings]] {e}
        {e} [[arrives]] with {v}""",
        """How is {e} shipped?
        How does {e} get here?
        With what does {e} travel?""",
        """[[Ship]] {e} with {v}.""",
    ),
    attribute(
        "channel",
        (crew, customer, ticket, event),
        "channel, way to report, preferred contact",
        CHANNELS,
        """{e} is [[handled]] through {v}
        {e} wants to be [[told]] by {v}
        {e} only [[answers]] to {v}
        [[reports]] about {e} go through {v}""",
        """Through what channel is {e} handled?
        How are reports about {e} made?
        How is {e} best contacted?""",
        """[[Report]] anything about {e} through {v}.""",
    ),
    attribute(
        "condition",
        (event, order, product, release),
        "condition, requirement, prerequisite",
        CONDITIONS,
        """{e} [[needs]] {v}
        without {v} there is no {e}, that is the [[condition]]
        {e} [[requires]] {v}
        {v} is [[asked]] for with {e}
        {e} [[depends]] on {v}""",
        """What does {e} need?
        What is required for {e}?
        On what does {e} depend?""",
        """Do not [[start]] {e} without {v}.""",
    ),
    attribute(
        "defect",
        (thing, order, product),
        "defect, fault, damage",
        DEFECTS,
        """{e} has {v}, which is the [[fault]]
        we [[found]] {v} on {e}
        {e} was sent back for {v} as the [[defect]]
        {v} is what [[ails]] {e}
        {e} [[suffers]] from {v}""",
        """What is wrong with {e}?
        What did we find on {e}?
        What fault does {e} have?""",
    ),
    attribute(
        "demand",
        (customer, crew, order),
        "request, wish, demand",
        DEMANDS,
        """{e} [[asks]] for {v}
        {e} [[wants]] {v}
        {v} is what {e} [[requested]]
        {e} [[insists]] on {v}
        with {e} it is about {v}, that is the [[request]]""",
        """What does {e} ask for?
        What does {e} want?
        On what does {e} insist?""",
        """[[Give]] {e} {v}.""",
    ),
    attribute(
        "rhythm",
        (event, crew, customer, product),
        "rhythm, frequency, schedule",
        RHYTHMS,
        """{e} [[happens]] {v}
        {e} is [[due]] {v}
        {e} [[comes round]] {v}
        {e} is [[visited]] {v}""",
        """How often does {e} come round?
        At what rhythm is {e} due?
        How frequent is {e}?""",
        """[[Plan]] {e} {v}.""",
    ),
    attribute(
        "language",
        (customer, event, order, crew),
        "language, working language",
        LANGUAGES_SPOKEN,
        """{e} [[speaks]] {v}
        the [[papers]] of {e} are in {v}
        {e} is [[held]] in {v}
        {e} has to be [[translated]] into {v}""",
        """In which language is {e}?
        What language does {e} use?
        Into which language does {e} have to be translated?""",
        """[[Write]] to {e} in {v}.""",
    ),
    attribute(
        "state",
        (order, event, product, thing),
        "status, outcome, result",
        VERDICTS,
        """{e} is {v} as for its [[status]]
        {e} [[stands]] as {v}
        the [[outcome]] for {e} was: {v}
        {e} [[counts]] as {v}
        the [[list]] has {e} as {v}""",
        """What became of {e}?
        How does {e} stand?
        What was the outcome for {e}?""",
        """[[Book]] {e} as {v}.""",
    ),
    attribute(
        "percentage",
        (product, customer, event, order),
        "share, rate, percentage",
        words.percentage,
        """{e} [[contributes]] {v}
        {e} is at {v} of the [[target]]
        {e} has a [[share]] of {v}
        the [[rate]] for {e} is {v}""",
        """What percentage goes with {e}?
        What is the share or rate of {e}?
        How many percent is it for {e}?""",
        """[[Grant]] {e} {v}.""",
    ),
    attribute(
        "year",
        (product, thing, customer, event),
        "year, founding year, year of make",
        words.year,
        """{e} [[dates]] from {v}
        {e} was [[built]] in {v}
        {e} has [[existed]] since {v}
        {v} is the [[year]] on {e}""",
        """From which year does {e} date?
        Since when has {e} existed?
        In what year was it for {e}?""",
    ),
)
