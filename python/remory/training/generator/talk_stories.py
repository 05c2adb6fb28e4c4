"""Things told in longer sentences, with the circumstances around them, in the notation of talk_domains."""

STORIES = """
= moving house
e piano, wardrobe, aquarium, bookshelf, washing machine, grandfather clock, sofa bed, workbench, plant collection
e wine rack, chest freezer, filing cabinet, mirror, desk, mattress, record collection, cello case, rowing machine
m heavy, oak, upstairs, two-part, fragile, left, inherited, new, tall, awkward, cellar, family
a helpers | number | count
s last time two of us nearly dropped the {e} on the stairs, so this time {v} [[people]] have to carry it
s the movers looked at the {e}, shook their heads and asked for {v} [[carriers]] instead of the usual pair
s nobody touches the {e} unless there are {v} of us to [[lift]]
q How many carry the {e}?
q How many hands are needed to move the {e}?
q What number of people did we agree on for lifting the {e}?
a destination room | room | place
s it took an hour with the tape measure, and in the end the {e} [[goes into]] {v} as nowhere else it clears the door
s the plan on the wall is wrong about the {e}; have it [[put down]] in {v} straight away
s do not let them leave the {e} in the corridor, its [[place]] is {v}
q Into which room does the {e} go?
q Where should the movers put the {e}?
q What place did we find for the {e}?
a box label | code | code
s whoever packed the {e} wrote {v} on all the [[cartons]] that belong to it, and nothing else
s the parts of the {e} are scattered over the van, look for [[stickers]] with {v}
s I numbered everything, and the {e} ended up as {v} in the [[packing list]]
q What is written on the boxes of the {e}?
q How do I recognise the cartons of the {e}?
q What is the {e} in the packing list?
a insured sum | money | price
s the agent wanted photographs of the {e} and then [[insured]] it for {v}, which surprised me
s should the {e} fall, the company [[pays]] {v} and not a cent more
s in the papers the {e} stands with an insured [[value]] of {v}
q For how much is the {e} insured?
q What does the company pay if the {e} breaks?
q Which value do the papers give for the {e}?
= illness and care
e sore shoulder, rash, cough, twisted ankle, migraine, stiff neck, burn, stomach ache, fever, tooth, ear infection
e sprained wrist, insomnia, hay fever, nose bleed, blister, tennis elbow, cramp, dizzy spells, tired eyes
m old, left, right, child's, recurring, bad, grandmother's, new, mild, seasonal, stubborn, father's
a advice | remedy | remedy
s the practice called back about the {e} and their only [[advice]] was odd but clear: {v}
s what finally [[eased]] the {e} was something simple, {v}
s for the {e} the leaflet [[suggests]]: {v}
q What was the advice about the {e}?
q What eased the {e}?
q What is one supposed to do for the {e}?
a trigger | ingredient | trigger
s we kept a diary for weeks and it points to {v} as what [[sets off]] the {e}
s every time there is {v} on the table, the {e} [[comes back]]
s the {e} has less to do with stress than we thought, it is {v} that [[causes]] it
q What sets off the {e}?
q What is behind the {e}, according to the diary?
q After what does the {e} come back?
a follow-up | date | date
s they want to see the {e} once more, so keep {v} free for the [[check-up]]
s if the {e} is not gone by {v}, we are to [[come in]] again
s the [[next look]] at the {e} will be {v}, the slip is on the fridge
q When is the next check of the {e}?
q By what date should the {e} be gone or seen?
q Which day was set for looking at the {e} again?
a dose | portion | amount
s she first wrote a smaller amount and then crossed it out, for the {e} it is {v} of the [[tincture]]
s the pharmacist said that with the {e} {v} at bedtime is a good [[dose]]
s more than {v} of the [[drops]] would do the {e} no good
q How much is to be taken against the {e}?
q What dose was named for the {e}?
q How many drops or spoons does the {e} call for?
= letters and offices
e passport, residence permit, birth certificate, fishing licence, building permit, refund claim, parking fine
e change of address, pension form, visa, school application, tax appeal, marriage paper, dog tax, driving licence
e customs form, court letter, health card, trade licence, noise complaint
m renewed, lost, second, daughter's, urgent, temporary, translated, foreign, old, returned, joint, late
a office | room | place
s they sent me from door to door, and the {e} is in fact [[handled]] in {v} and nowhere else
s for the {e} ignore the desk at the entrance, [[go]] to {v}
s the clerk whispered that the {e} [[lies]] in {v}
q Where is the {e} handled?
q To which place do I go for the {e}?
q Where in the building is the {e} dealt with?
a file number | code | code
s without the [[number]] {v} nobody there will even look up the {e}
s on the second page of the {e}, in small print, stands {v}, which is what they [[ask for]]
s when you write to them about the {e}, [[quote]] {v} in the first line
q Which number must be quoted for the {e}?
q What do they ask for when it is about the {e}?
q What stands in small print on the {e}?
a missing paper | stuff | paper
s they sent the {e} back because we had not [[enclosed]] {v}
s all that is still [[missing]] for the {e} is {v}
s the {e} can only go on once they [[receive]] {v}
q What is still missing for the {e}?
q Why did the {e} come back, what was not in it?
q What do they have to receive for the {e}?
a waiting time | period | duration
s do not hold your breath, the {e} [[takes]] {v} at present
s the man at the counter said {v}, and he sounded sorry, for the {e} to [[come through]]
s the rule is to ask about the {e} [[only after]] {v}
q How long does the {e} take at present?
q How long did the counter say we wait for the {e}?
q After what time may one ask about the {e}?
= music practice and teaching
e sonata, scale exercise, trio, left-hand passage, cadenza, folk song, waltz, fugue, study, blues, ballad, canon
e march, lullaby, psalm, rondo, prelude, jig, serenade, chorus
m slow, second, G minor, student's, opening, hard, short, old, encore, choir's, Christmas, exam
a tempo | beats | tempo
s you were rushing again in the {e}; put the [[metronome]] to {v} and stay there for a week
s at the concert we took the {e} too fast, {v} is the [[speed]] we agreed on
s the composer wanted the {e} quicker, yet for the hall {v} is the [[tempo]]
q How fast is the {e} to be played?
q To what is the metronome set for the {e}?
q Which speed did we agree on for the {e}?
a tricky bar | bar | place
s we always fall apart in {v} of the {e}, so [[begin]] there
s circle {v} in the {e}, that is where the [[page turn]] goes wrong
s in the {e} {v} has a [[misprint]], the sharp is missing
q Where in the {e} is the trouble?
q Which spot of the {e} was named?
q What part of the {e} should be looked at?
a key | musickey | key
s the altos cannot reach it, so the {e} is [[sung or played]] in {v} from today
s we [[transposed]] the {e} to {v}
s the band only knows the {e} in {v}, so that is the [[key]]
q In which key do we do the {e}?
q To what was the {e} transposed?
q What is the key of the {e} for us?
a soloist | instrument | instrument
s after the try-out the {v} [[takes over]] the melody in the {e}
s the {e} [[lacks]] a {v}, somebody has to be found
s in the {e} the {v} must be [[quieter]] than written
q Which instrument was talked of for the {e}?
q What instrument matters in the {e}?
q On the {e}, which player's instrument is the point?
= weather station and sky
e rain gauge, wind vane, barometer, sky camera, dew sensor, snow stake, sunshine recorder, thermometer hut
e lightning counter, radio telescope, star chart, solar filter, tide gauge, soil probe, pollen trap, river gauge
m hilltop, old, roof, school's, second, coastal, automatic, valley, harbour, copper, north, borrowed
a offset | reading | measure
s compared with the official station our {e} is off by {v}, so [[subtract]] that from every figure
s in the log, everything before the repair of the {e} needs a [[correction]] of {v}
s the {e} has [[drifted]] by {v} since spring
q By how much is the {e} off?
q What correction do the figures of the {e} need?
q How far has the {e} drifted?
a record | reading | measure
s in the big storm the {e} showed {v}, the [[highest]] since we have had it
s the [[record]] of the {e} is {v}, somebody framed the printout
s we never saw more than {v} [[on]] the {e}
q What is the most that the {e} has shown?
q What is the record of the {e}?
q What did the {e} show at its height?
a reading hour | clock | time
s whoever has the week walks up and [[reads]] the {e} at {v}, rain or shine
s the {e} is [[noted]] at {v} because the society wants it that way
s if you miss {v}, leave the line of the {e} [[empty]]
q At what time is the {e} read?
q When does somebody note the {e}?
q What hour must not be missed with the {e}?
a keeper | role | role
s since the summer {v} has [[looked after]] the {e}, with great patience
s the spare batteries of the {e} are with {v}, who is the [[contact]]
s when the {e} fails, [[tell]] {v} first
q Who looks after the {e}?
q Whom do we tell when the {e} fails?
q Who is the contact for the {e}?
= team and office life
e stand-up, coffee kitty, plant rota, onboarding, meeting room, newsletter, desk move, handover, fire drill, printer
e retreat, kick-off, birthday card, shared calendar, visitor day, dishwasher rota, time sheet, office dog, quiet hour
e internship, mentoring, town hall talk, budget round, survey, away day, job advert, appraisal, lunch order
m weekly, monthly, third floor, sales, new, joint, spring, cancelled, shared, remote, design, first, annual, morning
a time | clock | time
s half of the team has school runs, so the {e} [[moves]] to {v}
s I know the invitation says otherwise, but the {e} will [[start]] at {v}
s please stop coming late, {v} is when the {e} [[begins]]
q When does the {e} begin?
q To what time does the {e} move?
q What is the real starting time of the {e}?
a owner | role | role
s as nobody stepped forward, {v} was [[volunteered]] for the {e}
s from next month the {e} is no longer mine, {v} [[takes]] it
s if something about the {e} is unclear, do not write to all, [[ask]] {v}
q Who does the {e} from now on?
q Who was volunteered for the {e}?
q Whom should one ask about the {e}?
a contribution | money | price
s everybody [[puts in]] {v} for the {e}, the envelope is with the front desk
s we talked about the {e} and fixed the [[share]] of each person at {v}
s the firm adds nothing to the {e}, so it is {v} [[each]]
q What does everybody pay towards the {e}?
q How much is the share of each for the {e}?
q How much goes into the envelope for the {e}?
a rule | ban | rule
s after the incident there is one [[new rule]] for the {e}: {v}
s people asked, and for the {e} we [[keep to]] {v}
s the only thing written down on the {e} is the [[line]] "{v}"
q What is the rule for the {e}?
q What do we keep to with the {e}?
q What was written down on the {e}?
a link or place | room | place
s the sign was never changed: the {e} [[takes place]] in {v}
s we gave up the big hall, so [[find us]] in {v} for the {e}
s {v} is [[booked]] for the {e} until the end of the year
q Where does the {e} take place?
q Which room is booked for the {e}?
q Where is one to go for the {e}?
= data and reports
e sales chart, quarterly report, customer list, stock table, dashboard, cost model, forecast, pivot sheet
e mailing list
e heat map, price index, audit file, registration form, poll, map layer, ledger export, training set, test set, labels
e scoring sheet, error budget, donor list, timetable file, parts list, benchmark, baseline, ablation, learning curve
m northern, cleaned, old, monthly, raw, public, second, internal, merged, draft, final, archived, small, weekly
a row count | number | count
s after dropping the doubles, {v} [[rows]] are left in the {e}, and that is the figure to cite
s they claim more, yet I [[counted]] {v} lines in the {e}
s the {e} has to [[have]] {v} entries, otherwise something got lost on the way
q How many rows has the {e}?
q How many entries must the {e} have?
q What number did the count of the {e} give?
a cut-off value | percent | share
s we argued for an hour about the {e} and then drew the [[line]] at {v}
s everything in the {e} that is below {v} gets [[dropped]]
s the [[threshold]] of the {e} was raised to {v} after the review
q Where was the line drawn in the {e}?
q Below what is something dropped from the {e}?
q What threshold does the {e} have?
a column | identifier | name
s the name is misleading, but the column to [[use]] in the {e} is {v}
s somebody renamed things, so in the {e} the [[key]] is now {v}
s do not [[touch]] {v} in the {e}, the finance people need it
q Which column of the {e} was talked of?
q What is the name of the column that matters in the {e}?
q In the {e}, what name must I know?
a outlier | town | town
s the odd spike in the {e} is {v}, which we [[leave out]]
s {v} [[skews]] the {e}, so it gets a footnote
s in the {e} we [[merged]] {v} with its neighbour
q Which place in the {e} is treated in a special way?
q What place skews the {e}?
q Which town gets different handling in the {e}?
a result | percent | share
s with the new settings the {e} [[reached]] {v}, better than anything before
s the [[error]] of the {e} came down to {v}
s do not quote the old slide, the {e} [[stands]] at {v}
q What did the {e} reach?
q At what figure does the {e} stand?
q Which percentage is the right one for the {e}?
= fiction and role play
e innkeeper, dragon, tower, amulet, ferry woman, desert city, old map, spy, lighthouse, silver door, oracle, river god
e robot, caravan, ghost, smuggler, castle, forest, moon base, sea witch, clock maker, outlaw, guild, prophecy
m blind, northern, fallen, hidden, one-armed, last, silent, cursed, young, green, ancient, wandering
a secret | reason | reason
s keep this for the last chapter: the {e} acts like this because {v}, that is the [[secret]]
s the reader must not know yet [[why]] the {e} is so: {v}
s in my notes on the {e} it says: {v}, as the [[motive]]
q What is the secret behind the {e}?
q Why is the {e} the way it is, in the story?
q What motive do the notes give for the {e}?
a name | pseudo | name
s for the rest of the story the {e} is [[called]] {v}
s I changed my mind, {v} is a better [[name]] for the {e}
s only the old people know that the {e} is [[named]] {v}
q What is the name of the {e}?
q How is the {e} called in the story?
q Which name did we find for the {e}?
a weakness | material | material
s nothing can hurt the {e} but {v}, which is its [[weakness]]
s the {e} [[fears]] {v}, which comes up again in the second part
s touch the {e} with {v} and it [[vanishes]]
q What is the weakness of the {e}?
q What does the {e} fear?
q What must one use against the {e}?
a possession | tool | tool
s everywhere the {e} goes there is a {v}, [[hidden]] but at hand
s the {e} [[trades]] everything for a {v} in chapter two
s the {v} of the {e} has to [[turn up]] again at the end
q Which object belongs to the {e}?
q What thing of the {e} comes up in the story?
q For what object is the {e} known?
a age | number | count
s although nobody believes it, the {e} is {v} [[years]] old
s I made the {e} {v} years of [[age]], please fix the earlier page
s the {e} has [[stood or lived]] for {v} years when we begin
q How old is the {e}?
q What age did I give to the {e}?
q How many years has the {e} at the start?
= saving and energy
e solar roof, heat pump, window front, cellar ceiling, street light, hot water tank, wood store, battery pack
e wind wheel
e induction hob, night storage heater, pond pump, car charger, attic floor, ventilation, greenhouse heater
e server cupboard
m south, new, leaky, neighbour's, second, planned, small, shared, farm's, school's, rented, flat
a yield or use | energy | energy
s on the app it looks like more, but over the year the {e} [[came to]] {v}
s I read the meter twice because I could not believe that the {e} [[uses]] {v}
s the adviser reckons {v} for the {e}, and that goes into the [[form]]
q What does the {e} come to over the year?
q What did the meter or the adviser say of the {e}?
q How much energy is it with the {e}?
a subsidy | money | price
s if we file before the work starts, the state [[adds]] {v} for the {e}
s the town [[grants]] {v} for the {e}, though only once
s we almost missed it: there is a [[bonus]] of {v} on the {e}
q How much support is there for the {e}?
q What does the state or the town give for the {e}?
q How high is the bonus on the {e}?
a switch-on hour | clock | time
s power is cheap at night, so the {e} [[comes on]] at {v}
s I set the [[timer]] of the {e} to {v} and covered it with tape
s the {e} may not [[run]] before {v} because of the noise
q At what hour does the {e} come on?
q To what is the timer of the {e} set?
q When may the {e} start to run?
a payback | period | duration
s even with luck it [[takes]] {v} until the {e} has paid for itself
s the seller said half of it, my own sum for the {e} gives {v} of [[payback]]
s after {v} the {e} is [[free]]
q When has the {e} paid for itself?
q What payback did the sum for the {e} give?
q How long until the {e} is free?
"""
