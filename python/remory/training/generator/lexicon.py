"""The word lists that `words` draws from: plain English and the vocabulary of work, written for this project."""

from __future__ import annotations


def split_words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def split_phrases(text: str) -> tuple[str, ...]:
    """The parts of a text that semicolons divide."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(";") if phrase.strip())


NOUNS = split_words("""
    anchor apron archway atlas attic awning axle badge bakery balcony ballast bandage banner barge barn barrel basin
    basket bathtub beacon beam bearing bellows bench bicycle binder blanket blender boat boiler bolt bookcase bottle
    bowl bracket brake branch brick bridge broom brush bucket buckle bulb bumper bunker burner bus button cabin
    cabinet cable cafeteria calendar camera canal candle canoe canopy canvas caravan carousel carpet cart cartridge
    casing castle catalogue cave ceiling cellar ceramic chain chair chalk chamber chapel chart chimney chisel choir
    cistern clamp classroom clinic clock cloister closet coach coat cockpit collar column comb compass compost
    compressor concert conveyor cooker cooler copper cork corridor costume cottage couch counter courtyard cradle
    crane crate crossing crown cupboard curtain cushion cutter cylinder dam dashboard deck depot desk dial diary
    dishwasher dock dome door doorbell drawer dredger dresser drill drum dryer dustbin easel elevator engine
    envelope excavator exhibition factory fan farm faucet fence fern ferry festival fiddle filter fireplace flag
    flashlight float floor flute folder footbridge forge fork fountain frame freezer fridge funnel furnace fuse
    gallery garage garden gasket gate gauge gazebo generator glacier glove goblet gong granary grater greenhouse
    grill guitar gutter gym hallway hammer hammock hangar harbour harness harp hatch headlamp heater hedge helmet
    hinge hoist hook hopper horn hose hospital hostel hotel hut incubator inlet island jacket jar jetty jug kayak
    kennel kettle keyboard kiln kiosk kite kitchen knife label laboratory ladder ladle lamp lantern lathe laundry
    lawn ledger lens lever library lift lighthouse locker locomotive loft loom lorry machine magnet mailbox manual
    map market marquee mast mattress meadow menu meter microphone microscope mill mirror mitten mixer monument mop
    mosaic motor mug museum napkin necklace needle notebook notice nozzle nursery oak oar office orchard orchestra
    organ ornament oven paddle padlock painting pallet pan panel parachute parcel park parlour pavement pavilion
    pedal pencil pendulum piano pickaxe pier pillar pillow pipe pitcher planer plank plant plate platform playground
    pliers plough plumbing pocket podium pole pond porch poster pot pottery press printer prism projector pulley
    pump puppet pylon quarry quilt racket radiator radio raft rail ramp receipt recorder refinery reservoir
    restaurant ribbon ring river robot rocket roller roof rope rotor rowboat rucksack rudder rug ruler saddle sail
    sander satchel saucer saw scaffold scale scanner scarf school scooter screen screw scythe sensor shaft shed
    shelf shelter shovel shower shutter sieve signpost silo sink skate sledge sleeve sluice socket sofa solder spade
    spanner speaker spindle spire sponge spool spoon spring stable stadium stage staircase stamp statue steamer
    stencil stool stove studio submarine suitcase swing switch table tank tap tapestry teapot telescope tent terrace
    theatre thermometer thermostat thimble tile timer toaster toolbox torch tower track tractor trailer train tram
    trampoline tray treadmill trellis tripod trolley trombone trough trumpet tunnel turbine turnstile typewriter
    umbrella urn van vase vault vehicle ventilator veranda viaduct vineyard violin vise waggon wall wardrobe
    warehouse washer watch waterwheel weathervane weir well wharf wheel wheelbarrow whistle windmill window wire
    workbench workshop wreath yacht yard
""")

ADJECTIVES = split_words("""
    amber ancient angular annual arched bare beige bent big bitter blunt bold bottom brass bright brisk broad broken
    bronze brown bulky busy calm central cheap chilly chrome circular clean clever close cloudy coarse coastal cold
    common compact cool copper covered cracked creaky crisp crooked curved daily damp dark deep delicate dense dim
    distant double draughty dry dull dusty early eastern electric elegant empty enclosed faded faint famous fast
    felted fine firm flat flexible folding foreign formal fragile frail fresh front frosty full gentle glass glossy
    golden grand granite green grey hardy harsh heavy hidden high hollow huge humble humid idle inner iron ivory
    jagged large late lean left little local lonely long loose loud low lower lucky main marble marine massive
    mellow metal middle mild minor mobile modern modest moist motorised muddy narrow neat nervous new noisy northern
    novel oaken odd old open orange ornate outer oval painted pale patient patterned pink plain polished portable
    precious prime private proud public purple quick quiet rapid rare raw ready rear red regional remote rented
    right rigid ripe rough round royal rural rusty safe salty scarlet second secret sharp shiny short shy silent
    silver simple sleek slim slow small smooth soft solid southern spare square stale steady steep sticky stiff
    still stone stormy straight striped strong sturdy summer sunny tall tame temporary thick thin third tidy timber
    tiny top tough towed tranquil twin uneven upper urban used vacant vague vast velvet vivid warm weekly western
    wet white wide wild winter wooden woollen yellow young
""")

COLOURS = split_phrases("""
    red; blue; green; yellow; orange; purple; white; black; grey; brown; pink; turquoise; teal; crimson; scarlet;
    navy; olive; beige; cream; ivory; maroon; violet; indigo; lavender; mustard; ochre; rust; sand; silver; gold;
    bronze; copper; charcoal; slate; mint; sage; lime; coral; salmon; peach; plum; burgundy; magenta; cyan; khaki;
    dark green; light blue; pale yellow; deep red; sky blue; off-white; dove grey; signal orange; bottle green;
    petrol blue; brick red; lemon; chestnut; pearl; anthracite
""")

MATERIALS = split_phrases("""
    oak; pine; birch; walnut; beech; ash; cedar; maple; larch; plywood; bamboo; cork; steel; stainless steel;
    aluminium; copper; brass; zinc; tin; cast iron; lead; titanium; glass; frosted glass; concrete; sandstone;
    granite; limestone; slate; marble; clay; brick; terracotta; porcelain; linen; cotton; wool; felt; silk; velvet;
    leather; canvas; denim; jute; hemp; nylon; rubber; silicone; acrylic; polycarbonate; fibreglass; cardboard;
    straw; gypsum; chipboard; galvanised steel; recycled plastic; corrugated iron; reed; wax
""")

TEAMS = split_phrases("""
    the platform team; the billing team; the night shift; the search team; the data team; the release crew; the
    security group; the front desk; the storage team; the mobile team; the payments squad; the support desk; the
    warehouse crew; the design group; the research group; the network team; the finance office; the field team; the
    quality group; the identity team; the ingest team; the catering team; the maintenance crew; the legal desk; the
    tooling group; the infrastructure group; the analytics team; the accounts office; the purchasing office; the day
    shift; the documentation group; the hardware lab; the observability squad; the logistics desk; the press
    office; the training office; the build squad; the archive team; the early shift; the stage crew; the translation
    desk; the partner team; the growth squad; the on-call rota; the harbour office; the garden crew; the print shop;
    the weekend crew; the fraud desk; the pricing group; the catalogue team; the messaging squad; the compiler group
""")

ROLES = split_phrases("""
    the release manager; the head gardener; the night porter; the duty officer; the team lead; the product owner;
    the librarian; the treasurer; the caretaker; the site manager; the database administrator; the auditor; the
    architect; the chief engineer; the stage manager; the conductor; the head chef; the dispatcher; the electrician;
    the lab technician; the editor; the translator; the curator; the accountant; the plumber; the foreman; the
    surveyor; the receptionist; the driver; the coach; the nurse on duty; the intern; the secretary; the purchasing
    clerk; the incident commander; the reviewer on duty; the data steward; the security officer; the trainer; the
    captain; the baker; the carpenter; the florist; the photographer; the data protection officer; the tenant; the
    landlord; the school head; the warden; the quartermaster; the sound engineer; the deputy head; the shift
    supervisor
""")

PLACE_STARTS = split_words("""
    Alder Ash Bram Brook Cald Carr Cop Crane Dun East Elm Fal Fen Glen Gorse Hal Hazel Hol Kel Lang Lark Lin Loch
    Mar Mill Mor Nether North Oak Over Pen Quarry Raven Red Ross Sal Sand Shel Silver South Stan Stone Thorn Tor Ul
    Under Wal West Whin Willow Win Wyn Yar
""")

PLACE_ENDS = split_words("""
    beck bourne bridge burn bury by combe cote dale den fell field ford gate grove ham haven head hill holm hurst
    ley mere minster moor mouth port ridge stead stow thorpe ton vale wade water well wick wold wood worth
""")

SPOTS = split_phrases("""
    the left drawer; the top shelf; the cellar; the attic; the blue cabinet; the back office; the loading bay; the
    meeting room on the second floor; the north stairwell; the shed behind the workshop; the lobby; the old boiler
    room; the inner courtyard; the server room; the cloakroom; the glass case; the lower car park; the roof terrace;
    the tool cupboard; the reading room; the kitchen window; the back of the van; the safe; the third locker; the
    east wing; the press room; the annexe; the pump house; the corner by the lift; the boat house; the rear
    entrance; the small hall; the bottom drawer; the archive room; the key box; the spare desk; the bench by the
    door; the south gate; the mezzanine; the dark room; the storeroom; the garage; the first bay; the glasshouse
""")

TOOLS = split_phrases("""
    make; cmake; ninja; bazel; gradle; maven; cargo; pip; npm; yarn; docker; podman; terraform; ansible; helm;
    kubectl; rsync; curl; jq; sed; awk; grep; git; vim; emacs; nginx; haproxy; redis; postgres; sqlite; kafka;
    rabbitmq; grafana; prometheus; jenkins; pytest; ruff; mypy; eslint; prettier; webpack; vite; strace; perf; gdb;
    valgrind; tcpdump; wireshark; tmux; systemd; cron; logrotate; borg; restic; vault; consul; etcd; envoy; pandoc;
    ffmpeg; openssl; ssh
""")

ERRORS = split_words("""
    TimeoutError ConnectionResetError KeyError ValueError IndexError PermissionError FileNotFoundError OverflowError
    UnicodeDecodeError BrokenPipeError AssertionError RuntimeError TypeError ZeroDivisionError RecursionError ENOSPC
    EACCES ECONNREFUSED ETIMEDOUT EPIPE EMFILE ENOENT EAGAIN EADDRINUSE SIGSEGV SIGKILL SIGABRT OOMKilled
    CrashLoopBackOff ImagePullBackOff DeadlockDetected LeaderNotAvailable StaleLeaseError ChecksumMismatch
    SchemaMismatch QuotaExceeded TokenExpired CertificateExpired NullPointerException ClassCastException
    StackOverflowError IllegalStateException OutOfMemoryError NoSuchElementException InvalidCursor DuplicateKey
    RateLimited BadGateway GatewayTimeout UnknownHost HandshakeFailure PartialWrite TornPage LockTimeout
""")

UNITS = split_phrases("""
    kg; g; tonnes; litres; ml; metres; cm; mm; km; bar; kPa; degrees; kWh; watts; volts; amps; GB; MB; TB; KiB; MiB;
    pages; rows; requests per second; items; crates; boxes; sheets; seats; lines; workers; threads; replicas;
    shards; partitions; connections; retries; tickets; bottles; square metres; hectares; knots; lumens; decibels;
    rpm
""")

WEEKDAYS = split_words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = split_words("January February March April May June July August September October November December")
NUMERALS = split_words("""
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty
""")

REASONS = split_phrases("""
    the old one kept losing its connection; the disk filled up every night; nobody could read the reports; the
    licence     runs out in spring; the supplier raised the price; two customers complained; it was too slow under
    load; the cache     returned stale rows; the audit asked for it; the parser chokes on empty lines; the battery
    drains too fast; the roof leaks there; the clocks drift apart; the paint needs a day to dry; the tests were
    flaky on slow machines; the bus no longer stops there; the room is booked by the choir; the retry storm took the
    database down; the lock was     never released; the logs held private addresses; the floor cannot carry the
    weight; the driver does not support it; the certificate was issued for the wrong host; the queue grew without
    bound; the index no longer fits in memory; the road is closed for repairs; the seals had gone brittle; the
    format drops the time zone; the key was checked in     by mistake; the neighbours asked for quiet; the cable was
    too short; the pump drew air; the upload breaks off on     slow lines; the numbers did not add up; the scanner
    cannot read the label; the forecast says frost; the vendor     dropped the interface; the job ran twice; the
    translation came too late; the budget was cut; the rounding was off by     a cent; the cursor skips deleted
    rows; it duplicates work of another team; the door sticks in wet weather; the old name confused everybody; the
    fuse blew twice; the archive is read only; the feed has no stable order; half of the seats stayed empty; the
    hinges squeak; the migration locks the table; the mirror lags by an hour; the glue did not hold; the page took
    nine clicks; the pager went off for nothing; the schema had no version; the tide is too low then; the guests
    arrive by train; the sensor reads too high; the contract forbids it
""")

ACTIVITIES = split_phrases("""
    the stock count; the fire drill; the database move; the spring cleaning; the board meeting; the dress rehearsal;
    the release; the code freeze; the inventory; the inspection; the handover; the training day; the open day; the
    harvest; the audit; the restore test; the failover drill; the summer fair; the retrospective; the planning
    round; the index rebuild; the key rotation; the delivery; the survey; the penetration test; the photo shoot; the
    book sale; the flea market; the boat trip; the parents' evening; the office move; the tasting; the demo; the
    load test; the backup run; the choir practice; the repair of the lift; the staff party; the lecture; the
    walk-through
""")

SERVICE_TAILS = split_words("""
    relay gateway broker worker scheduler proxy cache store index queue ledger router daemon bridge monitor registry
    sync agent mailer archiver collector notifier loader crawler ranker planner mixer splitter vault beacon watcher
    resolver balancer exporter importer indexer runner sweeper tracker feeder
""")

SERVICE_HEADS = split_words("""
    amber cobalt copper crimson delta ember falcon fjord flint garnet harbor hazel heron hollow indigo iris jade
    juniper kestrel lantern lark lemon lunar maple marble meadow mistral nimbus north nova oak ochre onyx opal orbit
    osprey otter pebble pepper pine plover polar prism quartz quill raven reed ridge robin rowan saffron sable
    salmon shale silver slate sparrow spruce stone summit swift tern thistle tidal timber topaz tulip umber velvet
    violet walnut wren zephyr
""")

CODE_WORDS = split_words("""
    account adapter address alias amount archive array asset async attempt audit auth backoff backup balance batch
    billing block body bucket budget buffer bulk cache call channel check chunk client clock cluster code column
    commit config context cookie copy count coupon credit cursor customer daily data date deadline debug default
    delay delete delivery depth device diff digest disk dispatch document domain draft drain drop edge email empty
    encode entry error event expiry export fallback feature feed fetch field file filter final flag flush folder
    forward frame fresh gateway global grace grant graph group guard hash header health heap hidden history hook hot
    idle image import index inbox input insert invoice item job join journal key kind label lag last latency layer
    lease legacy length level limit link list load local lock log lookup loop mail main map mark mask max measure
    media member memory merge message meta metric min mode model mount name network next node note notice number
    object offset old open option order origin output owner package page pair panel parse part partial patch path
    payload peer pending permit ping plan pool port prefix price probe profile proxy pull purge push query queue
    quota random range rank rate raw read record region remote render replay report request reset resource response
    result retry review role root rotate route row rule run sample scale scan schema scope search secret segment
    send server session shadow shard share shift signal size skip slot snapshot soft sort source span split stage
    stale start state status step stock store stream strict sum swap switch sync table tag tail target task temp
    tenant test text thread throttle ticket tier time token total trace track trial trigger trim type unit update
    upload usage user value vendor verify version view visit volume wait warm watch weight widget window worker
    write zone
""")

FOLDERS = split_words("""
    src lib app core api bin cmd conf config data docs etc internal jobs modules opt packages pipelines pkg plugins
    proto scripts services share spool srv sql store tasks templates tests tools var web assets build cache deploy
    examples fixtures migrations notes reports schemas exports archive mnt home media ops charts
""")

EXTENSIONS = split_words("""
    py rs go ts js c h cpp java kt rb sh sql toml yaml yml json ini cfg conf md txt csv log proto html css lock tf
    xml parquet db bak tar.gz env service
""")

DOMAINS = split_words("internal.example example.net example.org lan.example corp.example dev.example ops.example local")

TROUBLES = split_phrases("""
    was too slow; kept failing; is out of stock; had no owner; leaks; was too expensive; was never tested; is too heavy;
    needs repair; does not fit; ran out; arrived late; is not insured; was locked; lost its settings; is worn out;
    could not be reached; was counted twice; broke last week; is on loan; clashes with the other one; had to be cleaned;
    got too hot; is not allowed there; fills up every weekend; blocks the door; was sold; has no spare parts;
    reported wrong numbers; depends on an old library; takes too much room; is being painted; made too much noise;
    had the wrong size; was missing from the list; does not scale; is hard to read; was replaced by the vendor
""")

OCCASIONS = split_words("""
    repair inspection auction workshop class tour move delivery clean-up competition test fair festival meeting
    installation survey photo-shoot handover replacement check
""")
