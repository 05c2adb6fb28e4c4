"""What people talk of around money, stage, storage, building, sport and research, in the notation of talk_domains."""

SERVICES = """
= money and contracts
e rent, insurance, loan, phone contract, savings account, electricity bill, tax return, gym membership, car lease
e travel fund, deposit, pension plan, credit card, heating cost, pocket money, roof fund, hospital bill, grant
e inheritance, mortgage, broadband, water bill, legal fee, museum pass, donation, household budget, scholarship
e waste fee, parking permit, bonus, subscription
m monthly, new, old, joint, cancelled, student, business, parents', second, yearly, reduced, garage, provisional
m flat, open, quarterly, disputed, extra
a amount | money | price
s the {e} [[is]] {v}
s we [[pay]] {v} on the {e}
s {v} [[goes]] to the {e}
s the {e} [[rises]] to {v}
q How much is the {e}?
q What sum goes to the {e}?
q What do we pay on the {e}?
a due day | ordinal | day
s the {e} is [[due]] on the {v} of the month
s on the {v} the {e} is [[debited]]
s they [[collect]] the {e} on the {v}
q On which day of the month is the {e} due?
q When in the month is the {e} debited?
q What day of the month goes with the {e}?
a notice period | period | duration
s the {e} can be [[cancelled]] with {v} of notice
s the [[notice]] for the {e} is {v}
s tell them {v} [[ahead]] to end the {e}
q What notice does the {e} need?
q How long ahead is the {e} cancelled?
q How long is the notice for the {e}?
a interest | percent | share
s the {e} [[bears]] {v}
s the [[rate]] on the {e} is {v}
s they [[offer]] {v} on the {e}
q What rate does the {e} have?
q How much percent is there on the {e}?
q Which interest holds for the {e}?
a file number | code | code
s the {e} is [[filed]] as {v}
s {v} is our [[reference]] for the {e}
s [[write]] {v} on letters about the {e}
q What is the reference for the {e}?
q Which number do I write on letters about the {e}?
q How is the {e} filed?
a renewal | month | month
s the {e} is [[renewed]] in {v}
s the {e} [[ends]] in {v}
s in {v} the {e} [[comes up]] again
q When must the {e} be looked at again?
q Which month matters for the {e}?
q When does the {e} end or renew?
= stage, music and media
e overture, prologue, solo, second act, encore, curtain, spotlight, dress rehearsal, podcast, interview, cover photo
e exhibition poster, trailer, duet, finale, prop table, costume, sound check, radio play, album, booklet, newsletter
e mural, sculpture, short film, choir piece, backdrop, audition, photo shoot, recording, essay collection, comic
e translation
m opening, closing, Friday, revised, children's, main, guest, quiet, student, festival, summer, alternate, last, new
m radio, long, shortened, night
a length | cooking | duration
s the {e} [[lasts]] {v}
s we [[cut]] the {e} to {v}
s the {e} may not [[run]] over {v}
q How long is the {e}?
q To what length is the {e} held?
q How long may the {e} go on?
a title | title | title
s the {e} is [[named]] "{v}"
s we [[call]] the {e} "{v}"
s "{v}" is the [[title]] of the {e}
q What is the {e} called?
q Which name does the {e} bear?
q Under which title does the {e} go?
a instrument | instrument | instrument
s the {e} is [[for]] the {v}
s the {v} [[carries]] the {e}
s the {e} is [[rescored]] for {v}
q Which instrument is the {e} for?
q What is heard in the {e}?
q What instrument carries the {e}?
a colour | colour | colour
s the {e} is [[lit]] in {v}
s we [[keep]] the {e} {v}
s the {e} has to be {v} [[throughout]]
q In what colour is the {e}?
q Which colour did we choose for the {e}?
q What tint has the {e}?
a deadline | date | date
s the {e} must be [[finished]] on {v}
s [[submit]] the {e} by {v}
s the {e} is [[published]] on {v}
q When must the {e} be done or out?
q What date is tied to the {e}?
q By which day is the {e} wanted?
a size | size | size
s the {e} is [[printed]] or built at {v}
s the {e} [[comes]] in {v}
s we [[agreed on]] {v} for the {e}
q What size has the {e}?
q How large is the {e}?
q Which format was agreed for the {e}?
a cue | animal | word
s the {e} [[starts]] at the word "{v}"
s "{v}" is the [[cue]] for the {e}
s when somebody [[says]] "{v}", the {e} comes
q What is the cue for the {e}?
q Which word starts the {e}?
q After which word does the {e} come?
= storage and archive
e ledger, map, spare key, passport, photo album, seed tin, tent, sleeping bag, projector, first-aid box, paint pot
e drill set, winter coat, skis, flag, cable drum, cassette, deed, negative, uniform, tea service, chess clock
e extension lead, hymn book, mask, banner, tax folder, blueprint, microphone, lantern, picnic rug, cool bag
e fire blanket
m old, second, green, grandfather's, club's, small, torn, original, copied, borrowed, winter, missing, framed, spare
m unlabelled, heavy, numbered, yellow
a place | spot | place
s the {e} [[lies]] {v}
s I [[found]] the {e} {v}
s we [[keep]] the {e} {v}
s the {e} is [[hidden]] {v}
q Where is the {e}?
q Where do we keep the {e}?
q Where does one look for the {e}?
a room | room | place
s the {e} was [[carried]] to {v}
s the {e} [[went]] to {v}
s {v} is where the {e} [[ended up]]
q To which room did the {e} go?
q Where was the {e} carried?
q In what room is the {e} now?
a borrower | role | role
s {v} [[borrowed]] the {e}
s the {e} is [[on loan]] to {v}
s we [[lent]] the {e} to {v}
q Who has the {e} at the moment?
q To whom is the {e} lent?
q Who borrowed the {e}?
a number | code | code
s the {e} is [[marked]] {v}
s in the list the {e} [[has]] {v}
s the [[tag]] on the {e} says {v}
q How is the {e} marked?
q Which number does the {e} have in the list?
q What does the tag of the {e} say?
a condition | cause | cause
s the {e} has [[suffered]] from {v}
s what [[spoiled]] the {e} is {v}
s there is {v} [[on]] the {e}
q What harmed the {e}?
q What has the {e} suffered from?
q What did somebody notice about the {e}?
= hotel, cafe and canteen
e breakfast, table reservation, lunch menu, tasting, room service, brunch, banquet, coffee order, terrace, wine list
e buffet, house guest, dish of the day, tea time, picnic basket, private dining room, bar stool, tablecloth
e fruit delivery, egg order, dessert trolley, kids' menu, ice machine, espresso blend, bread order, dumbwaiter
e tip jar
m Sunday, late, window, weekday, group, wedding, garden, early, regular, staff, vegetarian, corner, evening, holiday
m upper, second, cheap, deluxe
a time | clock | time
s the {e} is [[from]] {v}
s the kitchen [[wants]] the {e} ready by {v}
s {v} is [[right]] for the {e}
q At what time is the {e}?
q When must the {e} be ready?
q What hour is right for the {e}?
a dish | food | food
s {v} [[comes with]] the {e}
s the {e} [[features]] {v}
s we [[took]] {v} off the list and onto the {e}
q Which dish goes with the {e}?
q What is there to eat in the {e}?
q What does the {e} feature?
a price | money | price
s the {e} [[costs]] {v}
s guests [[pay]] {v} for the {e}
s the {e} is [[charged]] at {v}
q How much do guests pay for the {e}?
q What is charged for the {e}?
q What does the {e} cost?
a table | position | position
s the {e} is [[at]] {v}
s {v} is [[laid]] for the {e}
s [[seat]] the {e} at {v}
q Where is the {e} seated?
q Where is it laid for the {e}?
q Which place has the {e}?
a guests | number | count
s the {e} is for {v} [[covers]]
s {v} persons [[come]] for the {e}
s we [[lay]] {v} places at the {e}
q How many persons come for the {e}?
q For how many is the {e} laid?
q What number of places has the {e}?
a wish | taste | taste
s the guest [[wants]] the {e} {v}
s the {e} must be {v} [[without fail]]
s [[remember]] that the {e} is {v}
q What wish is there about the {e}?
q How does the guest want the {e}?
q How must the {e} be?
= building and renovation
e roof, bathroom, facade, floor, ceiling, skylight, chimney, gutter, foundation, partition wall, kitchen worktop
e fireplace, balcony, carport, fence, terrace, drain, insulation, scaffold, skirting board, tile row, plaster coat
e window frame, front steps, wiring, handrail, pergola, cistern, threshold, porch, shutter, wall niche
m south, north, upper, ground floor, rear, old, children's, neighbour's, annexe, inner, barn's, front, planned
m sagging, rebuilt, common, east, school's
a material | material | material
s the {e} is [[done]] in {v}
s we [[chose]] {v} for the {e}
s the architect [[insists on]] {v} for the {e}
q What is the {e} done in?
q Which material has the {e}?
q What did we choose for the {e}?
a measure | length | length
s the {e} [[has]] {v}
s the {e} is {v} [[thick]] or long
s we [[raise]] the {e} by {v}
q What measure was given for the {e}?
q What length is it with the {e}?
q Which measurement belongs to the {e}?
a cost | money | price
s the {e} is [[estimated]] at {v}
s the [[bill]] for the {e} was {v}
s they [[offered]] {v} for doing the {e}
q What will the {e} cost?
q How high is the sum for the {e}?
q Which sum was named for the {e}?
a tradesman | role | role
s {v} [[does]] the {e}
s the {e} is [[left to]] {v}
s {v} [[signed]] for the {e}
q Who does the {e}?
q Whose job is the {e}?
q To whom is the {e} left?
a start | date | date
s work on the {e} [[starts]] {v}
s the {e} is [[begun]] on {v}
s the permit for the {e} [[holds]] from {v}
q When is work on the {e} to start?
q When is the {e} begun?
q Which date holds for the {e}?
a colour | colour | colour
s the {e} is [[painted]] {v}
s {v} is [[allowed]] for the {e}
s we [[order]] the {e} in {v}
q Which colour will the {e} have?
q What colour is allowed on the {e}?
q In which colour is the {e}?
= sport and training
e interval run, long ride, squat set, swim session, tempo run, rest day, hill climb, relay leg, warm-up
e rowing block, plank, final lap, half marathon, cool-down, sprint, ski trip, away game, penalty drill, bike fitting
e race entry, heart rate zone, kettlebell row, training camp, qualifying round, serve practice, goal kick, regatta
m Tuesday, Saturday, first, second, easy, hard, evening, uphill, indoor, recovery, team, solo, spring, regional
m last, early, advanced, weekly
a pace or time | cooking | duration
s the {e} is [[done]] in {v}
s I [[needed]] {v} for the {e}
s [[hold]] the {e} for {v}
q How long is the {e}?
q What time was it for the {e}?
q How much time belongs to the {e}?
a distance | length | length
s the {e} [[covers]] {v}
s we [[shorten]] the {e} to {v}
s {v} is the [[distance]] of the {e}
q How far is the {e}?
q What stretch does the {e} cover?
q Which distance has the {e}?
a repetitions | number | count
s the {e} is [[repeated]] {v} times
s do the {e} {v} [[times]]
s {v} [[rounds]] of the {e} are enough
q How many times is the {e} done?
q What number of rounds has the {e}?
q How many repetitions are there in the {e}?
a place | town | town
s the {e} [[happens]] in {v}
s we [[drive]] to {v} for the {e}
s {v} is [[host]] of the {e}
q Where do we go for the {e}?
q In which place is the {e}?
q What town belongs to the {e}?
a bib | code | code
s my [[bib]] in the {e} is {v}
s the {e} has me [[listed]] as {v}
s {v} is what I [[wear]] in the {e}
q What number do I have in the {e}?
q How am I listed for the {e}?
q What is on my back in the {e}?
a result | score | score
s the {e} [[finished]] {v}
s in the {e} we [[scored]] {v}
s it [[stood]] {v} after the {e}
q What was the result of the {e}?
q How did it stand after the {e}?
q What did we score in the {e}?
= craft and clothing
e scarf, cardigan, quilt, curtain, cushion, costume, hat, sock pair, baby blanket, tote bag, shirt, tapestry, dress
e apron, rug, mitten, lantern, candle, soap, mosaic, bowl, vase, necklace, ring, kite, puppet, wreath, paper star
e tablecloth, teapot, coat, waistcoat, pattern, patchwork, sail, tent repair
m striped, summer, gift, aunt's, second, Christmas, blue, thick, fitted, wedding, choir, market, knitted, felted
m winter, school play, custom, unfinished
a yarn or stuff | material | material
s the {e} is [[worked in]] {v}
s I [[take]] {v} for the {e}
s the {e} was to be {v}, it is [[decided]]
q What is the {e} worked in?
q Which stuff do we take for the {e}?
q What was decided as material of the {e}?
a size | size | size
s the {e} [[is]] {v}
s [[make]] the {e} in {v}
s the {e} will [[fit]] {v}
q What size is the {e}?
q How large do we make the {e}?
q Which measure does the {e} have?
a colour | colour | colour
s the {e} is [[dyed]] {v}
s {v} was [[wished]] for the {e}
s the {e} [[turns]] {v} in the bath
q Which colour does the {e} get?
q What colour was wished for the {e}?
q How is the {e} dyed?
a pieces | number | count
s the {e} [[needs]] {v} pieces
s [[cast on]] {v} stitches for the {e}
s there are {v} [[rows]] in the {e}
q How many are there in the {e}?
q What number belongs to the {e}?
q What count does the {e} have?
a washing heat | celsius | temperature
s the {e} may be [[washed]] at {v}
s [[fire]] or wash the {e} at {v}
s over {v} the {e} is [[ruined]]
q What temperature does the {e} stand?
q How hot may the {e} get?
q At which heat is the {e} treated?
a buyer | role | role
s the {e} is [[for]] {v}
s {v} [[ordered]] the {e}
s I [[promised]] the {e} to {v}
q Who gets the {e}?
q For whom is the {e}?
q Who is the {e} promised to?
= research and surveys
e questionnaire, interview round, pilot study, survey, census, water sample, bird count, noise map, follow-up
e control plot, reading test, traffic count, soil core, archive search, field trip, focus group, literature review
e sensor station, rainfall series, fossil find, vote count, excavation, telescope night, cohort, coding scheme
e tide table, poster session, transcript set, replication
m first, second, northern, student, long, winter, rural, harbour, repeated, small, urban, spring, blind, joint
m seasonal, old, open, failed
a sample size | persons | count
s the {e} [[covered]] {v}
s {v} [[took part]] in the {e}
s the {e} [[rests]] on {v}
q How large was the {e}?
q How many were part of the {e}?
q On how many does the {e} rest?
a share | percent | share
s in the {e} {v} [[agreed]]
s the {e} [[found]] {v}
s [[missing]] answers in the {e} were {v}
q What share did the {e} give?
q Which percentage came out of the {e}?
q How much percent was it in the {e}?
a site | town | town
s the {e} was [[done]] in {v}
s the {e} [[began]] at {v}
s {v} is the [[site]] of the {e}
q Where was the {e} done?
q At which place was the {e}?
q What is the site of the {e}?
a time frame | period | duration
s the {e} [[took]] {v}
s we [[plan]] {v} for the {e}
s the {e} [[ran over]] {v}
q How long was or is the {e}?
q What time is planned for the {e}?
q Over what time did the {e} run?
a sponsor | group | group
s {v} [[pays for]] the {e}
s the {e} is [[backed]] by {v}
s the money of the {e} [[comes from]] {v}
q Who pays for the {e}?
q Who is behind the {e}?
q Whose money is in the {e}?
a species | animal | animal
s the {e} [[centres]] on the {v}
s we [[saw]] one {v} during the {e}
s the {v} is [[missing]] from the {e}
q Which animal has to do with the {e}?
q What species is the point in the {e}?
q Which species was noted in the {e}?
a cut-off | date | date
s data of the {e} [[closed]] on {v}
s after {v} nothing [[enters]] the {e}
s the {e} [[counts]] until {v}
q Until when does the {e} count?
q What is the last day for the {e}?
q Which date closes the {e}?
= transport and warehouse
e lorry, night shift, container, bus line, loading ramp, tour, cold store, pallet rack, ferry slot, customs paper
e driver's break, courier, mail round, detour, barrier, fuel card, dock, empty run, ticket machine, bike lane
e bus driver's rota, tram stop, roadworks, weighbridge, cargo ship, freight train, depot
m northern, first, harbour, spare, Monday, express, refrigerated, westbound, airport, diverted, third, double, short
m leased, heavy, late, city, outer
a slot | clock | time
s the {e} has its [[slot]] at {v}
s the {e} [[comes through]] at {v}
s be [[ready]] for the {e} at {v}
q At what time is the {e}?
q When is the slot for the {e}?
q When does one have to be ready for the {e}?
a place | position | position
s the {e} is [[assigned]] {v}
s the {e} [[docks]] or waits at {v}
s we [[put]] the {e} at {v}
q Which place has the {e}?
q Where does the {e} wait?
q Where was the {e} put?
a goods | ingredient | goods
s the {e} is [[loaded]] with {v}
s {v} is what the {e} [[carries]]
s with the {e} we [[get]] the {v}
q What does the {e} carry?
q Which goods come with the {e}?
q What is loaded with the {e}?
a weight | weight | weight
s the {e} [[weighs]] {v}
s the scale [[gave]] {v} for the {e}
s the {e} is [[limited]] to {v}
q What weight has the {e}?
q How heavy is the {e}?
q What did the scale say for the {e}?
a seal | code | code
s the [[seal]] of the {e} is {v}
s the {e} [[goes by]] {v}
s {v} is [[entered]] for the {e}
q Which code has the {e}?
q What is entered for the {e}?
q Which number goes with the {e}?
a reason for delay | reason | reason
s the {e} is [[late]] because {v}
s {v}, that is why the {e} [[waits]]
s the {e} was [[cancelled]]: {v}
q Why is the {e} not on time?
q What holds up the {e}?
q What is the reason behind the trouble with the {e}?
"""
