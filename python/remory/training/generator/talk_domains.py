"""What people talk of at home and in free time, as text: things, what is told of them, ways to tell and to ask.

Lines: "=" field, "e" things, "m" what tells one from the other, "a" attribute | value | kind, "s" statement,
"q" question. Marked are {e}, {v} and what stands in [[ ]].
"""

HOME = """
= household
e freezer, boiler, washing machine, dryer, kettle, oven, dishwasher, fridge, cooker hood, water softener, radiator
e toaster, vacuum cleaner, sewing machine, iron, wall clock, doorbell, smoke alarm, blender, stove, humidifier
e coffee machine, extractor fan, heat pump, bread maker, sofa, armchair, bookcase, mattress, carpet, curtain, lamp
e mirror, wardrobe, ladder, bath tub, shower head
m old, new, cellar, upstairs, kitchen, spare, landlord's, grandmother's, small, guest room, attic, borrowed
m second-hand, neighbour's, white, holiday flat, hallway, repaired
a cleaning interval | interval | interval
s the {e} [[gets cleaned]] {v}
s we [[descale]] the {e} {v}
s please [[clean]] the {e} {v}, not more often
q How often does the {e} get cleaned?
q What rhythm do we have for cleaning the {e}?
q How frequently should somebody clean the {e}?
a setting | setting | setting
s the {e} [[runs on]] {v}
s leave the {e} [[set to]] {v}
s nobody should [[turn]] the {e} away from {v}
q What setting is the {e} left on?
q Which level or mode do we use for the {e}?
q How is the {e} set?
a price | money | price
s the {e} [[cost]] {v}
s we [[paid]] {v} for the {e}
s the shop wanted {v} [[for]] the {e} and we took it
s the {e} was [[bought for]] {v}
q How much did the {e} cost?
q What was paid for the {e}?
q What did we spend on the {e}?
a warranty | period | duration
s the [[warranty]] on the {e} lasts {v}
s for {v} the {e} is [[covered]] by the shop
s the {e} came with a [[guarantee]] of {v}
q How long is the {e} under warranty?
q For what time does the guarantee of the {e} run?
q How long is the {e} covered?
a place | spot | place
s the [[manual]] of the {e} lies {v}
s I put the [[papers]] for the {e} {v}
s the [[receipt]] for the {e} is kept {v}
q Where are the documents of the {e}?
q Where do I find the paper that belongs to the {e}?
q Where was the paperwork of the {e} put?
a make | brand | make
s the {e} is [[a]] {v}
s the {e} was [[made by]] {v}
s on the back of the {e} it says {v}, that is the [[maker]]
q Who made the {e}?
q What make is the {e}?
q Which model or maker is the {e}?
a repair day | weekday | day
s the {e} is [[repaired]] on {v}
s somebody [[comes]] for the {e} on {v}
s the [[mechanic]] looks at the {e} on {v}
q When is the {e} going to be repaired?
q On which day will the {e} be looked at?
q When does somebody come about the {e}?
a fault | cause | cause
s the {e} [[stopped]] because of {v}
s the [[trouble]] with the {e} was {v}
s it was {v} that [[broke]] the {e}
q What was wrong with the {e}?
q Why had the {e} stopped?
q What turned out to be the fault of the {e}?
a colour | colour | colour
s the {e} will be {v} [[in colour]]
s we [[paint]] the {e} {v}
s the {e} we ordered is [[coloured]] {v}
q What colour is the {e}?
q Which colour was taken for the {e}?
q In what shade do we want the {e}?
= garden
e bed, hedge, compost heap, lawn, pond, greenhouse, rose bush, apple tree, herb spiral, raised bed, trellis
e water butt, vine, berry patch, rockery, tomato row, potato plot, beehive, hen house, cold frame, orchard
e meadow strip, fig tree, lemon tree, orchid, fern, cactus, bonsai, bean frame, hydrangea, lavender border
e strawberry tower, wormery
m front, back, north, south, sunny, shady, lower, upper, neighbour's, school, balcony, roof, eastern, oldest
m terrace, walled, sunken, corner, communal, western
a watering | interval | interval
s the {e} [[needs water]] {v}
s [[water]] the {e} {v}
s the {e} is only to be [[watered]] {v}
s {v}, no more, does the {e} [[get water]]
q How often is the {e} watered?
q When does the {e} get water?
q At what interval do we water the {e}?
a planting month | month | month
s we [[plant]] the {e} in {v}
s the {e} gets [[replanted]] in {v}
s the [[new plants]] for the {e} go in, come {v}
q When is planting time for the {e}?
q In which month do we plant the {e}?
q When do new plants go into the {e}?
a crop | plant | plant
s this year {v} [[grows]] in the {e}
s the {e} is [[for]] {v}
s we [[sowed]] {v} at the {e}
q What grows at the {e}?
q Which plant did we choose for the {e}?
q What was put in at the {e}?
a acidity | acidity | measure
s the soil at the {e} has a [[pH]] of {v}
s I [[measured]] pH {v} at the {e}
s the strip showed {v} for the [[acidity]] by the {e}
q How acidic is the soil at the {e}?
q Which pH did the {e} show?
q What did the acidity test by the {e} give?
a distance | length | length
s in the {e} plants stand {v} [[apart]]
s keep a [[gap]] of {v} in the {e}
s the {e} needs {v} of [[space]] to the fence
q How much room does the {e} need?
q What spacing applies to the {e}?
q Which distance is kept at the {e}?
a disease | cause | cause
s the {e} is [[ill]] from {v}
s what [[harms]] the {e} is {v}
s the brown leaves of the {e} [[come from]] {v}
q What ails the {e}?
q What is the matter with the {e}?
q Why does the {e} look ill?
a yield | weight | weight
s we [[harvested]] {v} from the {e}
s the {e} [[gave]] {v} this year
s {v} [[came off]] the {e}
q How much did the {e} give?
q What was the harvest of the {e}?
q How much was picked from the {e}?
a treatment | remedy | remedy
s for the {e} the advice is: {v}, that is the [[cure]]
s to [[save]] the {e}, {v}
s the [[remedy]] for the {e}: {v}
q What helps the {e}?
q What are we to do to save the {e}?
q Which treatment was advised for the {e}?
= kitchen
e lentil stew, rye bread, plum cake, chutney, pickled cabbage, pizza dough, cheese sauce, fish soup, apple jelly
e sponge, meringue, granola, dumplings, gravy, custard, curry paste, hummus, pancakes, risotto, goulash, ginger beer
e elder syrup, marmalade, kimchi, yoghurt, brioche, noodles, salad dressing, nut loaf, trifle, broth, marzipan
e tart base, rice pudding, mustard, shortbread
m canteen's, wedding, Sunday, festive, children's, quick, aunt's, harvest, vegan, large, Christmas, picnic, weekday
m cheap, birthday, buffet, first, second
a baking time | cooking | duration
s the {e} [[takes]] {v} in the pot or the oven
s [[leave]] the {e} on the heat for {v}
s after {v} the {e} is [[done]]
s give the {e} {v} [[of heat]]
q How long does the {e} take?
q For how long does the {e} stay on the heat?
q After what time is the {e} ready?
a heat | celsius | temperature
s the {e} is [[cooked]] at {v}
s never take the {e} [[above]] {v}
s the {e} wants {v} [[in the middle]]
q Which temperature suits the {e}?
q How hot should the {e} be?
q At what heat is the {e} made?
a ingredient | ingredient | ingredient
s {v} is what the {e} is [[thickened with]]
s I [[swap]] the usual for {v} in the {e}
s for the {e} you need {v} as the [[secret]]
s {v} [[goes into]] the {e} last
q What goes into the {e}?
q Which ingredient is special about the {e}?
q What do we add to the {e}?
a amount of salt | portion | amount
s the {e} needs {v} of [[salt]]
s put {v} of [[salt]] into the {e}
s the {e} is [[salted]] with {v}
q How much salt belongs in the {e}?
q How is the {e} salted?
q What amount of salt does the {e} get?
a servings | persons | count
s the {e} has to [[feed]] {v}
s the {e} is [[enough for]] {v}
s we [[make]] the {e} to serve {v}
q For how many is the {e}?
q How many does the {e} feed?
q How much is needed of the {e}?
a resting time | duration | duration
s the {e} [[rests]] for {v}
s let the {e} [[stand]] {v} before you touch it
s {v} of [[rest]] do the {e} good
q How long does the {e} rest?
q What waiting time does the {e} need?
q For how long should the {e} stand?
a diet | taste | taste
s the {e} has to be {v} [[for the guests]]
s we [[make]] the {e} {v}
s somebody [[asked for]] the {e} to be {v}
q How should the {e} be made?
q What did the guests ask of the {e}?
q Which special wish holds for the {e}?
a shelf life | period | duration
s the {e} [[keeps]] {v}
s [[eat]] the {e} within {v}
s {v} is as long as the {e} [[stays good]]
q How long does the {e} keep?
q Within what time must the {e} be eaten?
q How long is the {e} still good?
= travel
e hike, ferry crossing, coach trip, museum visit, cabin, guesthouse, campsite, train ride, canal cruise, bike tour
e ski weekend, hostel, rental car, island day, city walk, castle tour, hot springs, lighthouse, beach house
e cave tour, airport transfer, sleeper cabin, luggage, tram pass, mountain hut, school trip, glacier walk
e wine tasting, vineyard stop, kayak tour, farm stay, border crossing
m first, last, autumn, spring, northern, southern, return, outward, grandparents', rainy day, group, cheap, early
m late, coastal, second, long, short
a departure | clock | time
s the {e} [[starts]] at {v}
s be there for the {e} [[by]] {v}
s the {e} [[leaves]] at {v} sharp
s {v} is when the {e} [[sets off]]
q When does the {e} start?
q At what hour is the {e}?
q By what time must one be there for the {e}?
a date | date | date
s the {e} is [[booked for]] {v}
s we [[moved]] the {e} to {v}
s the {e} [[takes place]] on {v}
q For which day is the {e} booked?
q When does the {e} take place?
q What date has the {e}?
a booking code | code | code
s the {e} was [[confirmed]] under {v}
s {v} is the [[booking number]] of the {e}
s at the desk you [[show]] {v} for the {e}
q Under which number is the {e} booked?
q What is the reservation code of the {e}?
q Which code do I show for the {e}?
a fare | money | price
s the {e} [[comes to]] {v} each
s they [[charge]] {v} for the {e}
s the {e} is {v} [[a head]]
q How much is the {e}?
q What do they charge for the {e}?
q What does a person pay for the {e}?
a meeting point | address | address
s for the {e} we [[meet]] at {v}
s the {e} is [[at]] {v}
s the taxi should [[drive]] to {v} for the {e}
q Where do we meet for the {e}?
q What address belongs to the {e}?
q Where is the {e}?
a stop | town | town
s the {e} [[breaks]] at {v}
s we [[change]] at {v} on the {e}
s on the {e} we have [[lunch]] in {v}
s the {e} goes [[via]] {v}
q Through which place does the {e} go?
q Where is the stop of the {e}?
q Which town lies on the way of the {e}?
a seat | position | position
s for the {e} we [[have]] {v}
s our [[reservation]] on the {e} is {v}
s on the {e} we [[go to]] {v}
q Where do we go on the {e}?
q What was reserved for us on the {e}?
q Which place do we have for the {e}?
a baggage limit | weight | weight
s on the {e} you may [[carry]] {v}
s no more than {v} of [[luggage]] on the {e}
s the {e} [[allows]] bags up to {v}
q How heavy may bags be on the {e}?
q How much luggage may come on the {e}?
q What is the limit for bags on the {e}?
a way there | vehicle | vehicle
s we [[take]] the {v} to the {e}
s one [[gets]] to the {e} by {v}
s the {e} is [[reached]] by {v}
q How do we get to the {e}?
q Which means of travel leads to the {e}?
q What do we take to the {e}?
= events
e party, wedding, concert, reception, street fair, jumble sale, open day, lantern walk, quiz night, farewell
e anniversary, barbecue, exhibition, puppet show, harvest supper, carol evening, workshop day, auction, marathon
e ball, charity run, flea market, reading, lecture, summer camp, parade, film night, christening, retirement do
e prize giving, fireworks, tea dance
m autumn, summer, children's, village, company, school, annual, club's, surprise, church, outdoor, choir's, library
m winter, student, members', spring, senior
a date | date | date
s the {e} [[is on]] {v}
s we [[fixed]] the {e} for {v}
s [[save]] {v} for the {e}
s the {e} had to [[move]], it is {v} now
q When is the {e}?
q For what day is the {e} fixed?
q Which date should be kept for the {e}?
a venue | room | place
s the {e} is [[held]] in {v}
s we [[got]] {v} for the {e}
s {v} is [[where]] the {e} happens
q Where is the {e} held?
q Which room did we get for the {e}?
q In what place does the {e} happen?
a guests | persons | count
s [[expect]] {v} at the {e}
s {v} [[signed up]] for the {e}
s the {e} is [[planned for]] {v}
q How many are expected at the {e}?
q What number do we plan for at the {e}?
q How large will the {e} be?
a budget | money | price
s the {e} may [[cost]] {v}
s we [[set aside]] {v} for the {e}
s there are {v} [[in the pot]] for the {e}
s do not [[spend]] more than {v} on the {e}
q What is the budget of the {e}?
q How much may be spent on the {e}?
q How much money is there for the {e}?
a food | food | food
s we [[serve]] {v} at the {e}
s there will be {v} [[to eat]] at the {e}
s the caterer [[brings]] {v} to the {e}
q What is served at the {e}?
q Which dish comes to the {e}?
q What do people eat at the {e}?
a music | instrument | instrument
s somebody [[plays]] the {v} at the {e}
s the {e} [[opens]] with a piece for {v}
s for the {e} we [[hired]] a player of the {v}
q Which instrument is heard at the {e}?
q What is played at the {e}?
q What music did we hire for the {e}?
a start | clock | time
s the {e} [[begins]] at {v}
s doors of the {e} [[open]] at {v}
s guests of the {e} [[come]] from {v}
q When does the {e} begin?
q From what time do people come to the {e}?
q At what hour do the doors open for the {e}?
a rule | ban | rule
s at the {e} [[it holds]]: {v}
s the hosts of the {e} want {v}, that is their [[rule]]
s {v} at the {e}, [[please]]
q What must be avoided at the {e}?
q Which rule holds at the {e}?
q What do the hosts of the {e} not want?
a dress | colour | colour
s at the {e} everybody [[wears]] {v}
s the [[flowers]] of the {e} are {v}
s [[napkins]] and ribbons for the {e} come in {v}
q Which colour belongs to the {e}?
q What shade was chosen for the {e}?
q In which colour is the {e} kept?
a helper | role | role
s {v} is [[in charge]] of the {e}
s for the {e} you [[ask]] {v}
s {v} [[looks after]] the {e}
q Who is in charge of the {e}?
q Whom do I ask about the {e}?
q Who looks after the {e}?
= games
e card game, chess match, puzzle hunt, board game, dice game, quiz round, league match, relay race, treasure hunt
e dart night, campaign, tournament, rematch, riddle, escape room, table tennis final, word game, domino round
e skittles evening, bowls match, strategy game, memory game, penalty round, go game, kite contest, rowing heat
m first, second, final, semi, junior, Friday, house, club, opening, replayed, long, blitz, mixed, autumn, family
m charity, ranked, lunch break
a score | score | score
s the {e} [[ended]] {v}
s we [[won]] the {e} {v}
s the {e} was [[lost]] {v}
s {v} was how the {e} [[went]]
q How did the {e} end?
q What was the result of the {e}?
q With which score did the {e} finish?
a house rule | ban | rule
s in the {e} we [[play with]] {v}
s for the {e}: {v}, [[agreed]] by all
s the [[special rule]] of the {e} is {v}
q What special rule does the {e} have?
q What did all agree on for the {e}?
q What is not allowed in the {e}?
a players | number | count
s the {e} [[needs]] {v} players
s {v} people [[play]] in the {e}
s without {v} players the {e} [[does not start]]
q How many play in the {e}?
q What number of players does the {e} need?
q How many people are necessary for the {e}?
a piece | animal | animal
s in the {e} I [[am]] the {v}
s the {v} is our [[token]] in the {e}
s our [[team]] in the {e} is called the {v}
q Which animal are we in the {e}?
q What do we go by in the {e}?
q Which animal stands for us in the {e}?
a time limit | cooking | duration
s a move in the {e} may [[take]] {v}
s the {e} is [[over]] after {v}
s we [[limit]] the {e} to {v}
q What limit of time does the {e} have?
q How long may it take in the {e}?
q After what time is the {e} over?
a solution | password | word
s the [[answer]] of the {e} is {v}
s the lock in the {e} [[opens]] with {v}
s {v} [[solved]] the {e}
q What was the answer in the {e}?
q What solved the {e}?
q Which solution did the {e} have?
a prize | tool | prize
s the [[winner]] of the {e} gets a {v}
s a {v} is the [[prize]] in the {e}
s whoever [[wins]] the {e} takes home the {v}
q What does the winner of the {e} get?
q What can be won in the {e}?
q What is the prize of the {e}?
= neighbourhood
e gate, playground, stairwell, lift, courtyard, bicycle room, letter box, recycling point, parking space, bus stop
e street lamp, community garden, laundry, fountain, footbridge, noticeboard, car share, corner shop, bakery
e post office, sauna, kindergarten, library, swimming pool, tool library, town hall, ice rink, football pitch
e dog park, clinic, pharmacy
m front, back, north, lower, upper, old, new, school, market, river, station, left, right, village, harbour, closed
m temporary
a opening hours | hours | hours
s the {e} is [[open]] {v}
s you [[find]] the {e} open {v}
s {v}, those are the [[hours]] of the {e}
q When is the {e} open?
q What hours does the {e} keep?
q During which time can one go to the {e}?
a entry code | password | code
s the {e} [[opens]] with {v}
s the [[code]] at the {e} is {v}
s [[type]] {v} at the {e}
q With what does one get into the {e}?
q What must I enter at the {e}?
q How is the {e} opened?
a closing | month | month
s the {e} is [[shut]] from {v}
s they [[close]] the {e}, starting {v}
s the {e} [[closes]] its doors, as of {v}
q When is the {e} going to shut?
q From when on is nobody let in at the {e}?
q Which part of the year sees the {e} close?
a keeper | role | role
s {v} [[has the key]] to the {e}
s the [[key]] of the {e} is with {v}
s if the {e} is locked, [[ring]] {v}
q Who has the key to the {e}?
q Who opens the {e}?
q Whom do I ring about the {e}?
a contact number | extension | number
s the {e} can be [[called]] on {v}
s [[dial]] {v} for the {e}
s for the {e} the [[number]] is {v}
q How can the {e} be called?
q Which number reaches the {e}?
q What do I dial for the {e}?
a reason | reason | reason
s the {e} is [[closed]] because {v}
s they [[moved]] the {e}, the reason being that {v}
s since {v}, the {e} is [[out of use]]
q Why can the {e} not be used as before?
q What is the reason given for the {e}?
q What explains the trouble about the {e}?
a quiet day | weekday | day
s the {e} is [[quietest]] on {v}
s [[nobody]] is at the {e} on {v}
s on {v} the {e} is [[ours]]
q On which day is there room at the {e}?
q When is the {e} free for us?
q What is the best day for the {e}?
= pets and animals
e cat, dog, rabbit, tortoise, pony, parrot, hamster, goat, hen, aquarium, guinea pig, donkey, goose, canary, lizard
e ferret, bee colony, sheep, budgie, calf, kitten, puppy, duck, snake, alpaca, ewe, foal, terrarium
m old, young, neighbour's, brown, white, spotted, rescued, one-eyed, lame, shy, farm's, school's, smallest, aunt's
m stray, grey, shelter's
a food amount | weight | weight
s the {e} [[gets]] {v} of food a day
s [[feed]] the {e} {v}
s {v} of [[feed]] is right for the {e}
q How much food does the {e} get?
q What amount is the {e} fed?
q How much should the {e} eat?
a vet visit | date | date
s the {e} [[sees the vet]] on {v}
s the [[appointment]] of the {e} is {v}
s the {e} gets its [[jab]] on {v}
q When is the {e} due at the vet?
q Which date was made for the {e}?
q When does the vet expect the {e}?
a medicine | portion | amount
s [[give]] the {e} {v} of the syrup
s the {e} takes {v} of its [[medicine]]
s the vet [[prescribed]] {v} for the {e}
q How much medicine does the {e} take?
q What dose did the {e} get?
q How much syrup is right for the {e}?
a sleeping place | room | place
s the {e} [[sleeps]] in {v}
s at night the {e} [[stays]] in {v}
s the [[basket]] of the {e} stands in {v}
q Where does the {e} sleep?
q Where is the {e} at night?
q In which place does the {e} stay overnight?
a allergy | ingredient | food
s the {e} [[must not]] have {v}
s the {e} gets [[ill]] from {v}
s [[never]] give {v} to the {e}
q What must the {e} not eat?
q What makes the {e} ill?
q Which food is forbidden for the {e}?
a feeding time | clock | time
s the {e} is [[fed]] at {v}
s [[dinner]] for the {e} is at {v}
s at {v} the {e} [[wants]] its bowl
q When is the {e} fed?
q At what time does the {e} eat?
q What is the feeding hour of the {e}?
= health and routine
e knee exercise, eye drops, inhaler, breathing practice, blood test, back massage, hearing test, sleep diary, splint
e compress, walk, vitamin course, stretching set, hearing aid, fasting day, physiotherapy, dental check, ointment
e iron tablets, hip training, rehab session, glasses, tea cure, insoles, bandage, yoga class, balance drill
m morning, evening, left, right, new, weekly, gentle, second, prescribed, doctor's, lighter, grandfather's, first
m daily, shorter, hospital's
a dose | portion | amount
s take {v} [[for]] the {e}
s the {e} [[is]] {v} each time
s with the {e} it is {v} [[at once]]
q How much belongs to the {e}?
q What amount is right with the {e}?
q How much is one go of the {e}?
a rhythm | interval | interval
s the {e} is [[done]] {v}
s {v} the {e} is [[due]]
s [[do]] the {e} {v}
q How often is the {e} due?
q In what rhythm is the {e} done?
q How frequently should the {e} happen?
a appointment | date | date
s the {e} is [[arranged]] for {v}
s on {v} there is the {e}, [[fixed]] with the practice
s they [[offered]] {v} for the {e} and we said yes
q When is the {e} arranged?
q What day did the practice give for the {e}?
q Which date holds for the {e}?
a result | technical | measure
s the {e} [[showed]] {v}
s [[at]] the {e} the reading was {v}
s the [[value]] from the {e} is {v}
q What did the {e} show?
q What reading came out of the {e}?
q Which value was found with the {e}?
a side effect | weather | word
s with the {e}, [[avoid]] {v}
s {v} makes the {e} [[harder]]
s no {e} [[during]] {v}
q In what weather is the {e} a bad idea?
q What makes the {e} harder?
q What should be avoided with the {e}?
"""
