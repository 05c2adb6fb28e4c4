"""Remarks that nobody needs later, as templates for talk_topics.choose: of the user, of both sides, of the "
"assistant."""

from __future__ import annotations

REMARKS: tuple[str, ...] = (
    "<I like|I do not like|I never liked|I quite enjoy> the {thing}<, to be honest|, but tastes differ||, that "
    "is all>.",
    "The {thing} <looks fine|looks tired|smells odd|makes me smile|has seen better days><| to me| from here|, I "
    "think>.",
    "<Who|Which of you> <moved|touched|photographed|dusted> the {thing}<|, I wonder|, by any chance>?",
    "<Everybody|Half the street|Nobody> <talks about|complains about|dreams of> the {thing}<| these days|, it seems>.",
    "<I dreamt|My cousin dreamt|Somebody dreamt> of <a|the> {thing} <made of {material}|in {town}|full of {food}>.",
    "<Once|Long ago> a {thing} <stood there|was here>, <now it is grass|today nobody knows|they say>.",
    "<Compared with|Next to> the {thing}, the {thing} is <child's play|a nightmare|nothing special>.",
    "<Maybe|Perhaps|Possibly> the {thing} <needs time|is not the problem|can wait|sorts itself out>.",
    "<We should talk about|Someone must look into|I keep postponing> the {topic} of the {thing}<|, one day|, sigh>.",
    "<I have no opinion|I am neutral|Do not ask me> on the {topic} of the {thing}.",
    "The {topic} of the {thing} <is a mystery|is anyone's guess|changes with the moon|was never my strength>.",
    "<If I were you|In your place>, I would <sleep on it|ask around|leave the {thing} alone|have {food}>.",
    "<Funny how|Strange that|It bugs me that> <nobody answers|it always rains|the {thing} gets all the attention>.",
    "<We|They|The others> <laughed|argued|sat> <for {duration}|until {clock}|the whole evening> <about a "
    "{thing}|over {food}>.",
    "<A friend of ours|Somebody I met|The {ordinal} guest> <swears by|cannot stand> <{plant}|{taste} food|the "
    "{instrument}>.",
    "<My phone|The screen|The tablet> says {clock}, <time flies|already|so late>.",
    "<On the way|At the corner|Near {town}> <I saw|there was> a {animal}<| and a {vehicle}|, quite tame>.",
    "<It is|It was> one of those days: {weather}, {weather}, and <then|on top> a {thing} <in the hall|on the phone>.",
    '<The quote|The saying|The poster> goes <"{plant} today, {plant} tomorrow"|"no {tool}, no {food}">.',
    "<Last time|Two years back|As a child> I <broke|lost|drew> <a|the> {thing}, <never again|still sorry|good times>.",
    "<Let me think|Give me a second|Where to begin>. <There is so much|One by one|Coffee first>.",
    "<Great|Lovely|Wonderful>, <that was|a> <quick answer|good tip|clear list>. <I am all ears|Carry on|Next>.",
    "<Was it|Were they> {colour} or {colour}? <I mix them up|No matter|Whatever>.",
    "<I am|We are> <halfway|nearly done|just starting>, <{percent} or so|roughly|by feeling>.",
    "<The kids|My colleagues|The guests> <ate|wanted|praised> {food} <again|and {food}|all week>.",
    "<Ignore|Skip|Forget> <the attachment|my last mail|the photo>, <wrong file|it was blurry|it shows {number} socks>.",
    "<He|She|The voice> said <something like|about> {number}, <or {number}|or so>, <the line broke|I did not "
    "catch it>.",
    "<Rumour has it|They claim|One hears> that {town} <gets|wants|sells> <a {thing}|{number} {vehicle}s>, "
    "<hm|who knows>.",
    "<The clock|The dog|The radio> <stopped|howled|crackled> at {clock}, <spooky|as if on cue|we jumped>.",
    "<This pen|This chair|My keyboard> is {colour} and <sticky|wobbly|loud>, <not that you care|just saying>.",
    "<Do|Did> you know the one about the {thing} and the {animal}? <Another time|Never mind|Too long>.",
    "<I counted sheep|I was awake> till {clock}; <the {thing} again|too much {ingredient}|{weather} outside>.",
    "<Ah, memories|Those were days>: {money} for a {thing}<| and change back|, imagine>.",
    "<Weather first|As for the weather>: {weather}, {celsius}, <later more|nothing unusual|typical {month}>.",
    "<On page|In chapter> {number} they <describe|praise|draw> a {thing}, <not ours|very old|poorly>.",
    "<Everyone has|People have> <a {topic}|a favourite {thing}|such days>, <right|no>?",
    "<Nothing|No news> from {role} <yet|so far>, <I am not worried|I gave up waiting|as usual>.",
    "<I looked at|We saw|They showed> {number} <samples|offers|photos>, <all the same|none good|forgot them all>.",
    "<Whatever the {topic}|Whichever {topic} it gets>, the {thing} <stays ours|will do|makes people talk>.",
    "<There is no|I see no> <rush|drama|need> <with|about> the {thing}.",
)

ADVICE: tuple[str, ...] = (
    "<For a {thing}|With a {thing}> <it helps to|one should|I would> <look at the {topic} first|write things "
    "down|measure "
    "twice>, <since|because> <surprises cost time|small errors add up|people forget>.",
    "<The {topic} matters most|Start with the {topic}>, <then|after that> the {topic}; <the rest follows|details "
    "later>.",
    "<Common mistakes|Pitfalls> with <a|the> {thing}: <too little light|no spare time|unclear roles>, <wrong "
    "order|cheap "
    "parts|missing forms>, <bad timing|no test run|too many cooks>.",
    "<Step one|First>: {step}. <Step two|Then>: {step}. <Finally|Last>: {step}. <That is one way|Adapt it freely|As an "
    "example only>.",
    "<Pros|For it>: <cheap|quick|quiet>, <easy to clean|known to all|light>. <Cons|Against it>: "
    "<ugly|heavy|needs care>, "
    "<hard to find|noisy|fades>. <Your call|I lean to yes|I lean to no|Both would work>.",
    "<People often ask|A typical question is> <how the {topic} of such a {thing} is found|what a {thing} is "
    "for>; <there "
    "is no single answer|it varies a lot|opinions differ>.",
    "<I cannot see|I do not have|I lack> <the {topic} here|that figure|such data>. <Could you look|Please "
    "check|Is there a "
    "note somewhere>?",
    "<As I understand it|If I read you right>, <the {thing} is one topic|you want an overview>, and <the other is|then "
    "comes> the {thing}. <Correct|Did I get that|Right>?",
    "<Shall we|Should we> <take the {thing} first|split the work|look at the {topic}>? <I have time|It will not take "
    "long|Either way is fine>.",
    "<A rough outline|My outline>:\n- <aim|goal>\n- <who does what|people>\n- <things to buy|material>\n- <what can go "
    "wrong|risks>\n<Shall I fill it|Tell me where to start|We can cut it later>.",
    "<Typical values|One often reads of values> <between {number} and {number}|near {number}|of {percent} and "
    "more>, <but "
    "yours may differ|but that says little|so do not rely on it>.",
    "<Let me rephrase|In other words>: <less is more|do the hard part first|keep it simple|one person, one task>.",
    "<I would not worry|No reason to panic> about the {thing}. <Most of it|It> <can be fixed|is routine|happens "
    "to all>.",
    "<You could compare|Compare> the {thing} with the {thing}: <same idea|other scale>, <other purpose|similar "
    "trouble>.",
    "<If the {thing} fails|In the worst case>, <there is always a plan B|borrow one|improvise>; <take a breath|call "
    "{role}|have {food}>.",
    '<Some words to use|For the text>: "<warm|bright|calm>", "<handmade|honest|local>", '
    '"<{plant}|{colour}|{material}>".',
    "<That depends|Hard to say>. <Tell me more about|What is known of> the {thing}, <above all|especially> its "
    "{topic}.",
    "<Good question|Fair point|I see the point>. <Both have merit|It is a matter of taste|There is no rule>.",
)
