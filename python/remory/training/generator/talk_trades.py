"""What people talk of at work, in clubs and at school, as text in the notation of talk_domains."""

TRADES = """
= laboratory
e centrifuge, incubator, buffer, sample, pipette, fume hood, microscope, gel, reagent, culture, titration, dilution
e oven, column, calibration, spectrometer, freezer, water bath, shaker, electrode, filter, reference standard
e beaker set, stain, control group, assay, glove box, autoclave, mixture, solvent, batch of plates, sensor, chamber
m second, blue, external, backup, cold, diluted, untreated, pilot, teaching, large, spare, fresh, archived, rented
m northern, weekly, ground floor, sterile
a temperature | celsius | temperature
s the {e} is [[kept]] at {v}
s [[store]] the {e} at {v}
s we [[hold]] the {e} at {v} over night
s the {e} must never [[exceed]] {v}
q At what temperature is the {e} kept?
q How warm or cold must the {e} be?
q Which temperature holds for the {e}?
a ratio | ratio | ratio
s [[mix]] the {e} {v}
s the {e} was [[made up]] {v}
s for the {e} we [[go with]] {v}
q In which ratio is the {e} mixed?
q How is the {e} made up?
q What proportion was taken for the {e}?
a reading | reading | measure
s the {e} [[reads]] {v}
s we [[measured]] {v} at the {e}
s the display of the {e} [[settled]] at {v}
q What did the {e} read?
q Which value was measured at the {e}?
q What was seen on the {e}?
a waiting time | duration | duration
s the {e} [[needs]] {v} to settle
s [[wait]] {v} before opening the {e}
s the {e} [[runs]] for {v}
q How long does the {e} need?
q How long must one wait with the {e}?
q For what time is the {e} left alone?
a label | code | code
s the {e} is [[labelled]] {v}
s we [[filed]] the {e} under {v}
s the [[barcode]] on the {e} ends in {v}
q What is written on the {e}?
q Under which label is the {e} found?
q How is the {e} labelled?
a supplier | brand | maker
s the {e} [[comes from]] {v}
s we [[order]] the {e} at {v}
s {v} [[delivers]] the {e}
q Who delivers the {e}?
q Where is the {e} ordered?
q Which firm does the {e} come from?
a check | interval | interval
s the {e} is [[checked]] {v}
s {v} somebody [[signs off]] the {e}
s the {e} has to be [[verified]] {v}
q How often is the {e} checked?
q At what interval is the {e} verified?
q How frequently does somebody sign off the {e}?
a yield | percent | share
s the {e} gave a [[yield]] of {v}
s {v} was [[recovered]] from the {e}
s the [[loss]] at the {e} came to {v}
q What share did we find for the {e}?
q What percentage belongs to the {e}?
q How much in percent was it with the {e}?
= workshop
e table, stool, drawer front, shelf, frame, bench, door, window sill, railing, cabinet, guitar neck, bow, boat hull
e sledge, crate, picture frame, staircase, gate post, birdhouse, loom, clock case, violin, canoe, cupboard, lid
e hinge, axle, wheel, lathe, band saw, drill press, planer, grinder, spray booth, compressor, forge, kiln
e router table, press
m customer's, left, right, oak, repaired, long, narrow, museum's, folding, inner, outer, sample, damaged, children's
m third, heavy, church's, curved
a material | material | material
s the {e} is [[made of]] {v}
s we [[use]] {v} for the {e}
s the customer [[wants]] {v} for the {e}
s the {e} gets [[built]] in {v}
q What is the {e} made of?
q Which material was chosen for the {e}?
q What do we use for the {e}?
a width | length | length
s the {e} [[measures]] {v} across
s [[cut]] the {e} to {v}
s the {e} may be {v} [[wide]], no more
s at {v} the {e} just [[fits]]
q How wide is the {e}?
q To which measure is the {e} cut?
q What is the width of the {e}?
a finish | colour | colour
s the {e} is [[stained]] {v}
s we [[lacquer]] the {e} in {v}
s the {e} [[goes]] {v} in the end
q Which colour does the {e} get?
q How is the {e} finished?
q What colour did we settle on for the {e}?
a glue time | cooking | duration
s the {e} stays in the [[clamps]] for {v}
s the [[glue]] of the {e} sets in {v}
s {v} is what the {e} needs to [[dry]]
q How long does the {e} have to set?
q What drying time does the {e} have?
q How long is the {e} left alone to dry?
a tool | tool | tool
s for the {e} you [[need]] the {v}
s the {e} is [[trued]] with the {v}
s [[take]] the {v} to the {e}, nothing else
q Which tool is used on the {e}?
q What do I need for the {e}?
q What does one take to the {e}?
a price | money | price
s we [[quoted]] {v} for the {e}
s the {e} is [[sold]] at {v}
s the customer [[pays]] {v} for the {e}
q What does the customer pay for the {e}?
q Which sum was quoted for the {e}?
q For how much does the {e} go?
a due date | date | date
s the {e} has to be [[ready]] on {v}
s we [[promised]] the {e} for {v}
s {v} is when the {e} is [[picked up]]
q When must the {e} be ready?
q For what day was the {e} promised?
q When is the {e} picked up?
a speed | speed | measure
s the {e} [[runs]] at {v}
s do not [[drive]] the {e} beyond {v}
s the {e} is [[rated]] {v}
q What figure is the {e} rated at?
q What limit has the {e}?
q At what does the {e} run?
= shop
e order, invoice, return, voucher, window display, till, delivery, stock count, discount, loyalty card, parcel
e catalogue, bestseller, hamper, gift box, sample, refund, pallet, market stall, price tag, counter, pop-up
e pre-order, candle set, tea tin, scarf, notebook, mug, soap bar, lamp shade, kite, toy train, backpack, umbrella
e basket, rug
m Christmas, wholesale, online, hotel's, express, damaged, spring, school, standing, large, missing, club's, export
m summer, first, monthly, corner, second
a price | money | price
s the {e} [[sells]] at {v}
s we [[mark]] the {e} at {v}
s the {e} [[came to]] {v}
s from now on {v} is [[asked]] for the {e}
q What does the {e} come to?
q How much is asked for the {e}?
q What is the price of the {e}?
a discount | percent | share
s there is {v} [[off]] the {e}
s we [[grant]] {v} on the {e}
s the {e} is [[reduced]] by {v}
q What discount is there on the {e}?
q How much is taken off the {e}?
q By how much is the {e} reduced?
a number | code | code
s the {e} has the [[number]] {v}
s {v} is [[printed]] on the {e}
s look for {v}, that [[is]] the {e}
q What number has the {e}?
q Which code identifies the {e}?
q What do I look for to find the {e}?
a delivery day | weekday | day
s the {e} [[arrives]] on {v}
s the carrier [[brings]] the {e} on {v}
s the {e} [[goes out]] on {v}
q On which day does the {e} come or go?
q When is the carrier here for the {e}?
q What day is set for the {e}?
a quantity | count | count
s the {e} [[comprises]] {v}
s we [[ordered]] {v} with the {e}
s {v} were [[counted]] for the {e}
q How many does the {e} cover?
q What quantity is in the {e}?
q What number goes with the {e}?
a complaint | cause | cause
s the {e} came back because of {v}, says the [[complaint]]
s the customer of the {e} [[found]] {v}
s the {e} was [[refused]] over {v}
q What was wrong with the {e}?
q Why was there a complaint about the {e}?
q What did the customer object to with the {e}?
a shelf | position | position
s the {e} is [[stored]] at {v}
s you [[find]] the {e} at {v}
s the {e} [[moved]] to {v}
q Where is the {e} stored?
q Where do I find the {e}?
q Where did the {e} move to?
a payment term | period | duration
s the {e} is [[payable]] within {v}
s they [[have]] {v} to pay the {e}
s after {v} we [[remind]] them of the {e}
q How long do they have to pay for the {e}?
q When do we remind them about the {e}?
q Within what time is the {e} payable?
= school
e class trip, maths test, essay, science fair, spelling list, sports day, timetable, parents' evening, lab report
e oral exam, reading group, homework club, chemistry lesson, art project, geography quiz, school play
e orchestra rehearsal, detention, swimming lesson, thesis, seminar, lecture, tutorial, entrance exam, field course
e presentation, poster, dictation, workshop, assembly, lunch duty, vocabulary test
m year seven, evening, second, final, make-up, biology, history, beginners', morning, sixth form, spring term, upper
m French, exchange, pilot, online, advanced, short
a date | date | date
s the {e} is [[set for]] {v}
s [[hand in]] the {e} by {v}
s the {e} was [[put off]] to {v}
q On what date is the {e}?
q When is the {e} due?
q For which day is the {e} set?
a room | room | place
s the {e} [[happens]] in {v}
s we [[go]] to {v} for the {e}
s the {e} was [[moved]] to {v}
q Where does the {e} happen?
q Which room is the {e} in?
q Where do we go for the {e}?
a weight in the grade | percent | share
s the {e} [[counts]] {v}
s {v} of the [[grade]] come from the {e}
s the {e} [[makes up]] {v} of the mark
q How much does the {e} count?
q What part of the mark is the {e}?
q Which share of the grade does the {e} have?
a page limit | number | count
s the {e} may [[have]] {v} pages
s keep the {e} [[under]] {v} pages
s {v} pages are the [[most]] for the {e}
q How many pages may the {e} have?
q What is the limit on pages for the {e}?
q How long may the {e} be in pages?
a topic | title | title
s the {e} is [[about]] "{v}"
s we [[read]] "{v}" for the {e}
s the text for the {e} is [[called]] "{v}"
q Which title does the {e} deal with?
q What do we read for the {e}?
q What is the text of the {e} called?
a length | cooking | duration
s the {e} [[lasts]] {v}
s you [[get]] {v} for the {e}
s {v} are [[allowed]] in the {e}
q How long does the {e} last?
q How much time is there for the {e}?
q What time is allowed in the {e}?
a aid | tool | tool
s you may [[bring]] a {v} to the {e}
s a {v} is [[needed]] in the {e}
s the one [[aid]] permitted in the {e} is a {v}
q What may be brought to the {e}?
q Which thing is needed in the {e}?
q What aid is permitted in the {e}?
a supervisor | role | role
s {v} [[supervises]] the {e}
s {v} [[marks]] the {e}
s questions on the {e} [[go to]] {v}
q Who is responsible for the {e}?
q Who takes care of the {e}?
q To whom does one turn over the {e}?
= club and society
e membership fee, annual meeting, newsletter, boat shed, trophy, statute change, choir tour, spring concert
e practice night, training camp, tournament fee, club hut, flag, website, summer outing, deposit box, raffle
e minutes book, uniform, bus hire, beginner course, work day, hall rental, donation, sponsor contract, stage piano
e guest list, archive, sheet music, drum kit, election, jubilee book
m junior, senior, new, yearly, reduced, regional, old, family, guest, next, honorary, women's, veterans', shared
m winter, main, extra, previous
a amount | money | price
s the {e} [[amounts to]] {v}
s we [[voted]] {v} for the {e}
s the {e} was [[raised]] to {v}
q How high is the {e} in money?
q What sum was voted for the {e}?
q How much money is it for the {e}?
a date | date | date
s the {e} is [[scheduled]] on {v}
s {v} was [[chosen]] for the {e}
s the {e} [[follows]] on {v}
q When is the {e} scheduled?
q Which day was chosen for the {e}?
q What is the date for the {e}?
a person in charge | role | role
s {v} [[handles]] the {e}
s the meeting [[gave]] the {e} to {v}
s {v} was [[elected]] to mind the {e}
q Who handles the {e}?
q Who was given the {e}?
q Who minds the {e}?
a votes | number | count
s the {e} [[passed]] with {v} votes
s {v} members [[voted]] for the {e}
s there were {v} [[in favour]] of the {e}
q How many voted for the {e}?
q With what number of votes was the {e} decided?
q How large was the support for the {e}?
a partner | group | group
s we [[share]] the {e} with {v}
s {v} [[joins]] us for the {e}
s the {e} is run [[together]] with {v}
q With whom do we run the {e}?
q Which other group has part in the {e}?
q Who joins us for the {e}?
a reason | reason | reason
s the {e} was [[changed]] because {v}
s the board [[dropped]] the {e} as {v}
s {v}, so the {e} had to [[give way]]
q Why did the {e} not stay as planned?
q What was the reason in the matter of the {e}?
q What led to the decision on the {e}?
a place | town | town
s the {e} [[takes us]] to {v}
s the {e} is [[in]] {v}
s {v} [[hosts]] the {e}
q Where is the {e}?
q Which town has the {e}?
q In what place is the {e}?
= customer support
e router, subscription, ticket, account, hearing set, e-bike, heating app, printer, phone line, set-top box, scanner
e thermostat, contract, screen, charger, headset, car key, alarm panel, meter, smart lock, water filter, tablet
e lawn robot, card reader, till printer, baby monitor, solar inverter, wall box, doorbell camera, projector
e e-reader, scooter battery, vending machine
m customer's, second, replaced, refurbished, branch office, business, old, prepaid, leased, pensioner's, school's
m broken, upstairs, returned, annual, gold, basic, hotel's
a case number | code | code
s the {e} runs [[under]] {v}
s the [[case]] of the {e} is {v}
s please [[quote]] {v} about the {e}
q Under which number does the case of the {e} run?
q What must be quoted about the {e}?
q How is the case of the {e} numbered?
a cause | cause | cause
s we [[traced]] the trouble of the {e} to {v}
s the {e} [[failed]] from {v}
s [[inside]] the {e} there was {v}
q What was behind the failure of the {e}?
q What had happened to the {e}?
q Which defect did the {e} have?
a fix | remedy | remedy
s the {e} works again, one only has to {v}, says the [[workaround]]
s what [[helped]] with the {e}: {v}
s [[if]] the {e} sulks, {v}
q What gets the {e} going again?
q Which step helped with the {e}?
q What should be done when the {e} has trouble?
a call back | clock | time
s we [[ring]] about the {e} at {v}
s the customer of the {e} wants a [[call]] at {v}
s at {v} somebody [[phones]] because of the {e}
q When do we ring about the {e}?
q At what time is the phone call on the {e}?
q What hour was agreed for talking about the {e}?
a credit | money | price
s the customer [[gets]] {v} back for the {e}
s we [[credit]] {v} on the {e}
s the {e} was [[refunded]] with {v}
q How much is given back for the {e}?
q What is refunded for the {e}?
q Which sum is credited on the {e}?
a indicator | colour | colour
s the light of the {e} [[blinks]] {v}
s the {e} [[shows]] {v} when it is well
s if the lamp on the {e} [[turns]] {v}, wait
q Which colour does the light of the {e} have?
q What colour does the {e} show?
q How does the lamp of the {e} light up?
a reset | cooking | duration
s [[hold]] the button of the {e} for {v}
s [[unplug]] the {e} for {v}
s the {e} [[restarts]] after {v}
q How long must one wait with the {e}?
q What time does the restart of the {e} take?
q For how long is that done to the {e}?
a version | acidity | version
s the {e} is [[on]] firmware {v}
s we [[updated]] the {e} to {v}
s the {e} needs [[at least]] {v}
q Which version does the {e} have or need?
q What firmware is on the {e}?
q To what was the {e} updated?
= machines and vehicles
e pump, tractor, generator, van, forklift, conveyor, chain saw, mower, bicycle, trailer, boat engine, compressor
e crane, mill, sprayer, excavator, cement mixer, snow blower, sorting belt, packing line, oil press, cider press
e winch, ventilator, boiler, bus, minibus, ambulance, fire pump, camper, motorbike, harvester, turbine, gearbox
e barrier, hoist, baler
m old, red, spare, rented, big, second, farm's, municipal, north hall, hired, blue, portable, stationary, rear
m diesel, electric, borrowed, three-wheeled
a pressure or current | pressure | measure
s the {e} [[runs at]] {v}
s [[set]] the {e} to {v}
s the {e} [[draws]] {v}
q What figure is right for the {e}?
q To what value is the {e} set?
q At which value does the {e} run?
a service date | date | date
s the {e} goes to [[service]] on {v}
s the [[inspection]] of the {e} is due {v}
s the {e} was [[overhauled]] on {v}
q When is the date of service for the {e}?
q What day is tied to the inspection of the {e}?
q When does or did the {e} get its overhaul?
a oil | volume | volume
s the {e} [[takes]] {v} of oil
s [[fill]] {v} into the {e}
s the {e} [[burns]] {v} a day
q How much goes into the {e}?
q What amount does the {e} take?
q How much does one fill into the {e}?
a fault | cause | cause
s the {e} [[broke down]] with {v}
s the [[noise]] in the {e} is {v}
s {v} is [[what]] ails the {e}
q What is wrong with the {e}?
q What makes the {e} fail?
q What was found in the {e}?
a plate | code | code
s the [[plate]] of the {e} is {v}
s the {e} [[bears]] {v}
s the {e} is [[registered]] as {v}
q Which plate does the {e} have?
q What stands on the {e}?
q How is the {e} registered?
a load | weight | weight
s the {e} may [[lift]] or carry {v}
s [[load]] the {e} with at most {v}
s {v} is [[too much]] for the {e} already
q How much can be put on the {e}?
q What weight is the limit for the {e}?
q How heavy may a load be for the {e}?
a parking place | position | position
s the {e} [[stands]] at {v}
s [[leave]] the {e} at {v}
s the {e} [[belongs]] at {v}
q Where does the {e} stand?
q Where should I leave the {e}?
q Where does the {e} belong?
"""
