"""What documents tell of: devices, rules, offers, courses and, with drawn names, parts of software.

The notation is that of talk_domains.
"""

PAPERS = """
= appliances in a manual
e pump unit, control box, charging station, rotary valve, smoke hood, steam iron, infusion set, cutting head
e dosing unit, label printer, air washer, gate drive, floor scale, hand dryer, thermal camera, mist fan, feed mixer
e wood stove, cooling plate, door closer, sewing head, sorting drum, fog lamp, milk frother, lifting table
e projector lens, water meter, hearing loop, safety switch
m compact, rear, two-stage, wall-mounted, portable, main, auxiliary, class B, outdoor, older, series 3, heated, twin
m sealed, export, stationary
a supply | supply | rating
s the {e} is to be [[connected]] to {v}
s [[supply]] the {e} with {v} only
s the {e} is [[designed for]] {v}
q What supply is the {e} made for?
q To what may the {e} be connected?
q Which rating is stated for the {e}?
a ambient temperature | celsius | temperature
s do not [[operate]] the {e} beyond {v}
s the {e} [[switches off]] at {v}
s the {e} [[withstands]] up to {v}
q What temperature is the limit for the {e}?
q How warm may it get at the {e}?
q At which temperature is it too much for the {e}?
a maintenance interval | interval | interval
s [[replace]] the filter of the {e} {v}
s the {e} must be [[greased]] {v}
s {v} the {e} has to be [[inspected]] by trained staff
q How often does the {e} need care?
q What maintenance rhythm is laid down for the {e}?
q At what interval is work on the {e} due?
a clearance | length | length
s [[keep]] {v} free around the {e}
s [[mount]] the {e} {v} above the floor
s a [[distance]] of {v} to the {e} is required
q How far from other things must the {e} be?
q What distance is required with the {e}?
q Which clearance does the {e} need?
a torque | torque | measure
s [[tighten]] the screws of the {e} with {v}
s the [[bolts]] on the {e} take {v}
s {v} is the [[tightening]] value at the {e}
q How tight do the screws of the {e} go?
q What tightening value is given for the {e}?
q With what are the bolts of the {e} fastened?
a run-in time | cooking | duration
s let the {e} [[warm up]] for {v}
s the {e} must [[cool]] for {v} before it is opened
s {v} after switching on, the {e} is [[ready]]
q How long does one wait with the {e}?
q What waiting time is stated for the {e}?
q After what time may one go on with the {e}?
a spare part | code | code
s the [[spare part]] for the {e} is no. {v}
s [[order]] {v} for the {e}
s the {e} [[uses]] cartridge {v}
q Which part is ordered for the {e}?
q What is the part number for the {e}?
q Which number do I order for the {e}?
a warning light | colour | colour
s the {e} [[signals]] an error in {v}
s a {v} light on the {e} means [[low water]]
s when the {e} is [[ready]], it lights up {v}
q Which colour does the {e} light up in?
q What colour is the sign on the {e}?
q In what colour does the {e} signal?
= rules and policies
e expense claim, overtime, sick note, visitor badge, key handover, home office day, travel request, parental leave
e purchase, complaint, accident report, photo permission, data export, clean desk, parking permit, sabbatical
e trial period, gift, side job, training day, company bike, laptop return, lost badge, night work, volunteer day
e room booking, pet at work, late delivery, catering order, petty cash
m foreign, regular, part-time, first, urgent, external, student, weekend, extended, internal, half-day, joint
m repeated, unpaid, seasonal, small
a approver | role | role
s the {e} must be [[approved]] by {v}
s {v} [[signs]] the {e}
s without a word from {v} no {e} is [[granted]]
q Who approves the {e}?
q Whose word is needed for the {e}?
q Who has to sign the {e}?
a deadline | period | duration
s the {e} has to be [[handed in]] within {v}
s [[announce]] the {e} {v} ahead
s after {v} the {e} [[lapses]]
q What time is laid down for the {e}?
q Within or after what time is it for the {e}?
q Which deadline holds for the {e}?
a limit | money | price
s the {e} is [[limited]] to {v}
s up to {v} the {e} [[needs no]] form
s for the {e} the house [[pays]] {v}
q Which sum is named for the {e}?
q How much money is the limit with the {e}?
q What amount applies to the {e}?
a form | code | code
s [[use]] form {v} for the {e}
s the {e} is [[filed]] with sheet {v}
s [[fill in]] {v} for the {e}
q Which form is there for the {e}?
q What sheet goes with the {e}?
q Which paper do I fill in for the {e}?
a retention | period | duration
s papers on the {e} are [[kept]] for {v}
s we [[delete]] records of the {e} after {v}
s the {e} is [[archived]] for {v}
q How long are papers on the {e} kept?
q When are records of the {e} deleted?
q For how long is the {e} on file?
a share | percent | share
s {v} of the {e} is [[refunded]]
s the {e} [[counts]] at {v}
s the [[own part]] with the {e} is {v}
q What percentage holds for the {e}?
q How much of the {e} is it in percent?
q Which part in percent goes with the {e}?
a ban | ban | rule
s on the {e} it is [[laid down]]: {v}
s the {e} has one [[condition]]: {v}
s {v}, as the text on the {e} [[demands]]
q What is the condition with the {e}?
q What does the text on the {e} demand?
q Which ban comes with the {e}?
= offers and courses
e pottery course, language course, first-aid class, dance evening, guided tour, audio guide, season ticket
e family card, boat licence, sewing class, sailing lesson, cooking class, tax advice, bike check, piano tuning
e garden design, wine seminar, child care, storage box, tent rental, sauna pass, climbing card, drum lesson
e dog school, skate rental, massage, hall rental, tool rental, window cleaning, chimney sweep, carpet wash
m beginners', evening, ten-part, basic, premium, senior, intensive, weekend, school, private, winter, trial, student
m online, group, monthly
a fee | money | price
s the {e} [[costs]] {v}
s the [[fee]] for the {e} is {v}
s {v} is [[due]] for the {e}
q How much is the {e}?
q What must be paid for the {e}?
q Which fee has the {e}?
a first day | date | date
s the {e} [[starts]] on {v}
s [[first]] day of the {e}: {v}
s the {e} is [[offered]] from {v}
q From when is the {e}?
q On what day does the {e} start?
q Which date opens the {e}?
a places | number | count
s the {e} [[takes]] {v} people
s there are {v} [[places]] in the {e}
s the {e} is [[full]] at {v}
q How many can take part in the {e}?
q How many places are in the {e}?
q At what number is the {e} full?
a room | room | place
s the {e} is [[given]] in {v}
s [[come]] to {v} for the {e}
s the {e} [[moved]] to {v}
q Where is the {e} given?
q Where must one come for the {e}?
q What room has the {e}?
a what to bring | tool | tool
s [[bring]] a {v} to the {e}
s for the {e} you [[need]] a {v} of your own
s a {v} is [[not included]] in the {e}
q What has one to bring to the {e}?
q What must one own for the {e}?
q Which thing does one take along to the {e}?
a cancelling | period | duration
s you can [[cancel]] the {e} up to {v} before
s with less than {v} [[notice]] the {e} is charged in full
s the {e} may be [[returned]] within {v}
q How long can one back out of the {e}?
q What is the time for giving up the {e}?
q Until how long before can the {e} be called off?
a reduction | percent | share
s members [[save]] {v} on the {e}
s the {e} is {v} [[cheaper]] for pupils
s early birds get {v} [[off]] the {e}
q What reduction is there for the {e}?
q How much does one save on the {e}?
q By what is the {e} cheaper for some?
a contact | extension | number
s [[register]] for the {e} on {v}
s [[questions]] about the {e}: {v}
s for the {e} [[dial]] {v}
q Which number is for the {e}?
q Where does one call about the {e}?
q What do I dial for the {e}?
"""

SOFTWARE = """
= options
e option, setting, key, field, parameter, property, attribute, argument, entry, variable
m -
a default | plain | setting
s the {e} [[defaults]] to {v}
s if the {e} is missing, {v} is [[assumed]]
s when not given, the {e} is [[taken as]] {v}
s {v} is what the {e} holds [[out of the box]]
q What is the {e} if nobody sets it?
q Which value does the {e} have from the start?
q What is assumed when the {e} is left out?
a upper limit | plain | limit
s the {e} [[accepts]] values up to {v}
s a value above {v} for the {e} is [[rejected]]
s the {e} is [[capped]] at {v}
q How high may the {e} go?
q What is the most the {e} takes?
q Above what is the {e} refused?
a unit | unit | unit
s the {e} is [[given]] in {v}
s the {e} is [[counted]] in {v}
s the number in the {e} [[means]] {v}
q In what unit is the {e}?
q What does the number in the {e} count?
q Which unit does the {e} use?
a version | acidity | version
s the {e} [[exists since]] {v}
s the {e} was [[added]] in {v}
s from {v} on the {e} has [[no effect]]
q Which release matters for the {e}?
q With which version did that come for the {e}?
q What version is tied to the {e}?
a successor | identifier | name
s the {e} is deprecated, [[use]] {v}
s the {e} has been [[replaced]] by {v}
s the {e} was [[renamed]] {v}
q What takes the place of the {e}?
q What should be used rather than the {e}?
q Under which name does the {e} go on?
a effect | effect | effect
s the {e} makes the program {v}, that is its [[purpose]]
s with the {e} the service will {v}, [[says]] the page
s [[setting]] the {e} lets it {v}
q What does the {e} do?
q What happens with the {e}?
q Which effect does the {e} have?
= commands and calls
e command, call, endpoint, method, job, hook, task, script, report, worker, step, plugin
m -
a time limit | shorttime | duration
s the {e} is [[aborted]] after {v}
s the {e} [[waits]] {v} at most
s [[allow]] {v} for the {e}
q How long may the {e} take?
q After what time is the {e} given up?
q What time is the {e} allowed?
a exit code | exitcode | code
s the {e} [[returns]] {v} on a conflict
s the {e} [[ends]] with {v} if nothing was found
s {v} from the {e} [[means]] that the input was empty
q What does the {e} give back in the special case?
q Which code does the {e} end with?
q What number comes from the {e}?
a rate limit | rate | limit
s the {e} may be [[called]] {v}
s the {e} [[allows]] {v}
s {v} is the [[quota]] of the {e}
q How often may the {e} be called?
q What is the quota of the {e}?
q How many times does the {e} work?
a page size | plain | count
s the {e} [[yields]] {v} rows a page
s [[ask]] the {e} for {v} items at once
s the {e} [[processes]] batches of {v}
q How many does the {e} handle at once?
q What is the batch or page of the {e}?
q How much comes at once from the {e}?
a output | format | format
s the {e} [[writes]] {v}
s the {e} [[answers]] in {v}
s what the {e} [[emits]] is {v}
q In which format does the {e} answer?
q What does the {e} write?
q What format comes out of the {e}?
a permission | scope | scope
s the {e} [[requires]] {v}
s only holders of {v} may [[run]] the {e}
s the {e} is [[guarded]] by {v}
q What is required for the {e}?
q Which permission guards the {e}?
q Who may run the {e}, by permission?
a retries | number | count
s the {e} is [[tried]] {v} times
s the {e} [[gives up]] after {v} failures
s {v} [[repeats]] of the {e} are normal
q How many tries has the {e}?
q How many failures does the {e} survive?
q How many times is the {e} repeated?
"""
