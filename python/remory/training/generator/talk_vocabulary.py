"""Words that values of talk_values are made of."""

from __future__ import annotations


def listed(text: str, mark: str = ",") -> tuple[str, ...]:
    """The parts of a text between the marks."""
    return tuple(text.split(mark))


DAYS = listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday", " ")
MONTHS = listed("January February March April May June July August September October November December", " ")
NUMBERS = listed("two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen", " ")
ORDINALS = listed("first second third fourth fifth sixth seventh eighth ninth tenth", " ")
COLOURS = listed(
    "red,blue,green,yellow,orange,purple,brown,grey,black,white,pink,teal,maroon,navy,olive,cream,ivory,"
    "turquoise,dark green,light blue,pale yellow,brick red,moss green,slate grey,sand,copper,rust,mint,lilac,ochre,"
    "anthracite,sky blue,dusty rose,mustard,charcoal,bottle green,off-white,coral,violet,bronze"
)
MATERIALS = listed(
    "oak,pine,beech,larch,ash,walnut,birch plywood,steel,stainless steel,brass,copper,aluminium,cast iron,slate,"
    "granite,limestone,marble,linen,wool,cotton,felt,leather,cork,bamboo,glass,acrylic,porcelain,clay,rubber,"
    "silicone,nylon,polyester,canvas,jute,rattan,concrete,terracotta,zinc,pewter,willow,hemp,cardboard,velvet,titanium"
)
ROOMS = listed(
    "cellar,attic,pantry,hallway,laundry room,garage,shed,study,guest room,boiler room,workshop,porch,greenhouse,"
    "conservatory,back office,storeroom,loft,utility room,library,kitchen,bathroom,landing,canteen,music room,"
    "sacristy,gymnasium,reception,archive,mail room,cloakroom,tool room,tea kitchen,annexe,vestibule"
)
SPOTS = listed(
    "top shelf,bottom drawer,left-hand cupboard,blue crate,tin box,second drawer,coat hook,window sill,grey cabinet,"
    "wicker basket,toolbox,glove compartment,filing cabinet,biscuit tin,red folder,bookcase,side table,key cupboard,"
    "meter box,umbrella stand,freezer drawer,sewing box,canvas bag,wall safe,cutlery tray,lower rack,cool box,"
    "first locker,shoe cabinet,linen chest,flour bin,magnet board"
)
PREPOSITIONS = ("in the", "on the", "behind the", "under the", "next to the", "beside the", "inside the", "above the")
SYLLABLES = listed(
    "ba be bo bri cal cor da del dra el fen fi gar gle hol ka ke kor la lin lo mar mel mi mo na nel no or pa "
    "per pli qua ra ren ri ro sa sel si so ta tel ti tor tri u va vel vi wen wi yo za zel zo",
    " ",
)
ENDINGS = listed("n r x sk th l nd rt m ck va na do ra la mo ta", " ")
ANIMALS = listed(
    "heron otter badger kestrel swift lynx hare wren plover marten stoat newt bittern curlew dormouse osprey "
    "magpie finch ibex puffin tern gecko hedgehog weasel raven jackdaw starling salmon pike",
    " ",
)
PLANTS = listed(
    "thyme sage mint basil chives dill fennel rosemary lavender marigold tulip aster dahlia poppy clover fern "
    "rhubarb beetroot leek carrot kale chard radish parsnip squash courgette bean pea lettuce onion garlic "
    "blackcurrant gooseberry quince medlar pear plum damson cherry hazel elder",
    " ",
)
FOODS = listed(
    "lentil soup,mushroom risotto,leek tart,potato gratin,barley stew,fish pie,chickpea curry,spinach dumplings,"
    "pea soup,onion quiche,beetroot salad,apple crumble,plum cake,rhubarb fool,bean chilli,cheese toast,"
    "pumpkin ravioli,rice pudding,carrot cake,vegetable lasagne,noodle broth,stuffed peppers,lemon tart,nut roast,"
    "cabbage rolls,semolina slices,walnut bread,pear compote,buckwheat pancakes,tomato salad"
)
INGREDIENTS = listed(
    "flour,sugar,butter,oats,rice,milk,cream,yeast,honey,salt,semolina,lentils,raisins,walnuts,almonds,cocoa,"
    "buttermilk,quark,yoghurt,polenta,chickpeas,lard,treacle,cornflour,sesame,vinegar,rapeseed oil,olive oil"
)
TOOLS = listed(
    "spirit level,rasp,torque wrench,chisel,spokeshave,bench vice,multimeter,soldering iron,hand plane,hacksaw,"
    "staple gun,heat gun,calipers,mallet,bow saw,awl,pipe cutter,feeler gauge,scraper,clamp,tin snips,hole saw,"
    "pruning shears,hoe,dibber,trowel,sickle,edger,grinding stone,tweezers,pipette,magnifier"
)
ROLES = listed(
    "treasurer,caretaker,landlord,librarian,lab manager,coach,secretary,baker,plumber,electrician,gardener,"
    "head cook,stage manager,conductor,bus driver,warden,dispatcher,accountant,ward nurse,dentist,vet,optician,"
    "beekeeper,carpenter,tiler,glazier,ticket office,night porter,duty officer,school office,quartermaster,"
    "technician,registrar,cashier,chair,deputy,lodger,neighbour,tutor,referee,lifeguard,miller,printer,tailor"
)
GROUPS = listed(
    "choir,rowing club,parents' council,allotment society,book circle,chess club,repair cafe,drama group,"
    "first-aid team,kitchen crew,night shift,sales desk,support desk,lab group,brass band,hiking group,quilt circle,"
    "youth fire brigade,museum friends,model railway club,film club,swim team,debating society,bird group,"
    "seed exchange,village hall committee,tenants' meeting,garden crew,stage crew,front desk,packing team"
)
REASONS = listed(
    "the old one leaked,it squeaks when warm,the paint was still wet,nobody could lift it,the cat kept opening it,"
    "the supplier stopped making it,it never fitted through the door,the smell gave people headaches,"
    "the insurance asks for it,the light is better there,it dries faster,the floor slopes,the neighbours complained,"
    "the battery swelled,the children are scared of it,it clogged twice,the roots need room,it costs half as much,"
    "the glue needs a warm room,the school bus comes early,the tap drips,the mice got in,the lease forbids it,"
    "the pump cannot lift that high,the fabric shrinks,the sun bleaches it,the lock freezes,the manual was wrong,"
    "two people are allergic,the hall is booked,the ferry does not run in winter,the old hinge broke,the dog eats it,"
    "it tastes of soap,the wire is too thin,the damp comes through the wall,the seat was too low,"
    "the spare parts are cheap,the view is blocked,the deposit would be lost,the printer smears on it,"
    "the seedlings rotted,the motor overheats,there is no signal in the valley,the exam is that week"
)
CAUSES = listed(
    "a cracked hose,a blown fuse,a loose belt,a blocked filter,a worn bearing,a stuck float,spider mites,root rot,"
    "a frozen pipe,a bent pin,a dead battery,too much lime,a slipped gasket,a mouse nest,dirty contacts,"
    "a kinked cable,low oil,overwatering,a wrong voltage setting,a missing washer,fungus gnats,salt in the soil,"
    "a broken spring,a leaking valve,a flat tyre,a clogged nozzle,a warped lid,mould behind the panel,draught,"
    "a tripped breaker,an expired cartridge,a torn membrane,a swollen door,thrips,a short in the plug,a swapped wire"
)
REMEDIES = listed(
    "descale it with vinegar,repot it in gritty soil,replace the seal,tighten the belt,bleed the radiator,"
    "swap the cartridge,prune it to three buds,grease the hinge,flush the line,reseat the cable,sand the edge,"
    "wipe it with soapy water,move it out of the sun,soak it overnight,recalibrate the sensor,trim the wick,"
    "wax the runners,turn it a quarter every week,dry it in rice,blow out the nozzle,lower the flame,shim the leg,"
    "dust it with sulphur,swap the two wires,rinse the felt,feed it seaweed,rewind the coil,patch the tube"
)
UNITS = {
    "length": ("cm", "mm", "m", "metres", "centimetres", "inches", "feet"),
    "weight": ("kg", "g", "grams", "kilos", "tonnes", "pounds"),
    "volume": ("ml", "litres", "l", "cups", "dl", "gallons"),
}
TITLES = listed(
    "The Glass Orchard,Salt and Thunder,A Lantern for Winter,The Last Ferry,Nine Quiet Rooms,The Clockmender,"
    "Harvest of Ash,Paper Rivers,The Long Meadow,Under the Slate Roof,The Blue Kettle,Small Tides,"
    "The Weather Keeper,Seven Bridges,Moths at Noon,An Island of Rust,The Copper Stair,Echoes in Wool,"
    "The Borrowed Hill,Night Train to Ormen,The Silent Weir,Bread and Smoke,The Tin Violin,Across the Fen"
)
INSTRUMENTS = listed(
    "cello,viola,oboe,tuba,harp,zither,clarinet,flute,trombone,accordion,banjo,mandolin,double bass,marimba,"
    "recorder,bassoon,french horn,lute,hammered dulcimer,ukulele,piccolo,snare drum"
)
VEHICLES = listed(
    "night train,ferry,cargo bike,minibus,tram line,shuttle bus,rental van,regional train,cable car,"
    "tandem,canal boat,coach,taxi,scooter,post bus,sleeper car,hire car,funicular"
)
WEATHER = listed("drizzle fog hail frost sleet sunshine thunder gusts haze snow showers", " ")
SETTINGS = listed(
    "low,medium,high,eco,gentle,turbo,silent,auto,manual,delicates,summer mode,night mode,level 2,level 3,stage 4,"
    "gas mark 3,gas mark 5,half power,slow,program 7,standby,economy,wool,boost,quarter turn,notch five"
)
PROMISES = listed(
    "no glitter,no nuts,no plastic cups,no phone calls,no shoes indoors,no candles,no printed flyers,no loud music,"
    "no bleach,no weekday rehearsals,no drilling before nine,no raw eggs,no lilies,no extra luggage,no card payments,"
    "no peat,no spray paint,no shouting,no overtime,no photographs,no tape on the walls,no garlic,no ladders,"
    "no open flames,no red ink,no second helpings,no wheels on the lawn,no metal spoons,no dogs,no perfumes"
)
COMPONENTS = listed(
    "hinge,lid,cable,label,motor,filter,seat,rope,handle,screen,valve,tile,belt,chain,hose,lens,switch,frame,plug,axle,"
    "knob,cover,bracket,pedal,rail,fan,cord,wick,seam,strap,gasket,spindle,latch,panel,nozzle,grille,tray,bolt,clip"
)
TROUBLES = listed(
    "sticks,leaks,squeaks,came loose,is too short,is worn out,wobbles,was the wrong size,got wet,blocks the way,"
    "scratches the floor,has no spare,rattles at night,cannot be cleaned,faded,is not ours,was recalled,smells,"
    "does not fit,jams,hums in the wall,cracked in the frost,is out of reach,draws too much,slips under load"
)
DAMAGES = listed(
    "cracked,loose,bent,missing,rusty,swollen,frayed,jammed,split,warped,dirty,melted,reversed,misaligned,brittle,"
    "torn,blocked,corroded,stripped,soaked,chewed,twisted,counterfeit,overheated,scratched"
)
ACTIVITIES = listed(
    "whistling,climbing,running,smoking,sampling,swapping,haggling,humming,parking,filming,sharing,trading,camping,"
    "shortcuts,refunds,substitutes,visitors,speeches,balloons,fireworks,latecomers,extensions,discounts,repeats"
)
HANDLINGS = listed(
    "clean,replace,tighten,loosen,oil,dry,turn,heat,cool,file,glue,rinse,brush,swap,shorten,straighten,unplug,sand,"
    "polish,drill out,tape,seal,soak,lift,pad,wedge,scrape,wrap,mark,reset"
)
STREET = listed("lane street road alley square row hill quay court walk yard rise", " ")
SHAPES = listed(
    "round oval square hexagonal heart-shaped star-shaped octagonal rectangular conical crescent-shaped", " "
)
TASTES = listed(
    "vegan,vegetarian,lactose-free,gluten-free,extra spicy,unsalted,sugar-free,half-sweet,decaffeinated,smoked,"
    "well done,lukewarm,oat milk,goat's cheese,wholegrain,sourdough,caraway,cardamom,ginger,elderflower,saffron"
)


STEPS = listed(
    "rinse the jars,weigh the bags,ring the caretaker,move the chairs,oil the hinges,sort the post,soak the beans,"
    "label the boxes,charge the lamps,sweep the ramp,test the alarm,hang the signs,open the vents,count the cash,"
    "lock the shed,print the lists,wet the clay,fold the cloths,sand the edges,lay the cable,warm the oven,"
    "check the brakes,feed the hens,drain the hose,cut the paper,sign the sheet,tune the strings,air the hall,"
    "water the trays,stack the crates,brush the felt,empty the bins,mark the seams,taste the broth,pack the kit"
)
PARTS = listed(
    "max min retry batch queue cache row page log trace idle merge sync token index lease shard probe stream buffer "
    "depth window flush scan grace drain warm seed chunk label scope owner mirror quota replay digest",
    " ",
)
TAILS = listed(
    "size limit gap count path mode rate time level name age ratio hint order weight span format target", " "
)
EFFECTS = listed(
    "skip empty rows,keep the old file,ask before deleting,sort by age,merge twins,ignore case,stop at the first error,"
    "write a second copy,fold long lines,trim blanks,follow links,print the plan only,hash the names,reuse the socket,"
    "lock the folder,drop late events,mask the mail addresses,count bytes,reload on change,compress old parts,"
    "start without a window,hide warnings,load parts lazily,flush at midnight,reverse the order,join the halves"
)
STUFF = listed(
    "a copy of the lease,two photographs,the stamped envelope,proof of income,the old card,a doctor's note,form B,"
    "the floor plan,a signed consent,the birth record,a bank statement,the receipt of the fee,a translation,"
    "the vaccination card,the school report,a letter from the landlord,the registration slip,the power of attorney"
)
