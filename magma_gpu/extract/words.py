"""Word lists for the rules engine: what is no name, what is likely a person, a place or an organisation.

The lists are short on purpose: they steer rules that look at the words around, they are no dictionaries.
All entries are lower case.
"""

import re


def word_set(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


# Words that are no names even with a capital: they open sentences, greet, exclaim or belong to the calendar.
COMMON = word_set("""
a about above absolutely according across actually adding adopting after again against agreed ah aha ahh all
almost alone along already alright also although always am amazing amen an and animals another any anybody
anymore anyone anything anyway anyways apart apparently appreciate are aren't around art as ask at aw away
awesome aww awww back bad badly be beautiful because been before behind being believe below beside besides
best bet better between beyond big blessed bless books both boy bravo break breathe brilliant bring btw but
by bye came can can't cannot care catch certainly change check cheers chill choose classic clearly come
confidence congrats congratulations considering continue cool could couldn't count crazy creating creativity
curious currently cute dad daddy damn dang day days dear deep definitely depends did didn't different do
does doesn't doing don't done doubt down dream due during each early earlier easy eat either else embrace
enjoy enough especially even eventually ever every everybody everyone everything exactly excellent except
exciting excited excuse experience explore fair faith family fantastic far fascinating fast feel feels few
finally find fine finish first five focus folks follow for forget four friends friendship from full fun
funny fyi game games gather gee generally get gets getting girl give given gives glad go god goes going
gonna good goodbye goodness goodnight gorgeous gosh got gotcha gotta grab gradually grandma grandpa grateful
great greetings growing guess guys ha had hadn't haha hahaha half hang happily happy hard hardly has hasn't
hate have haven't having he health heard heck hello help helps her here hers hey hi high highly him his hit
hmm hold holy home honest honestly hooray hope hopefully hopes how however hows huge hugs huh hurray hurry i
i'd i'll i'm i've idea if im imagine impressed impressive in incredible indeed inspiring instead interesting
into is isn't it it'd it'll it's its ive jeez join just keep keeps kids kind kinda know kudos last late
lately later laughing laughter lead learn least leave lemme less let lets life like likewise listen little
live lmao lol long look looking looks lost lots love loved lovely loves loving low luck luckily lucky made
make makes making man many marketing maybe me meals mean meanwhile meet mentally message might mind mine
miss missed mistakes mm mmm mom mommy moments more morning most mostly move much mum music must my myself
nah name nature near nearly need neither never new next nice night no nobody none nope nor normally not note
nothing now nowadays obviously of off often oh ok okay old om omg on once one only oof oops open opening or
original other others otherwise ouch our ours out outside over overall own parents part partly past patience
peace people perfect perhaps personally pets phew photo pics place play playing please plenty plus positive
practice pretty previously probably proud push put quality quick quickly quiet quite rather ready real
really reading recently regarding relax remember remind reminds respect rest right rock same save saw say
says see seeing seem seems seen send seriously setbacks several shall share she should shouldn't show shure
sick side similar simple simply since sir six slow slowly small so solid some somebody somehow someone
something sometimes somewhere soon sorry sort sounds special spend spill stay still stop stuff such sunset
super support sure surely surprise surprisingly sweet tackle take takes taking talk talking team teamwork
tech tell ten than thank thankfully thanks thanx that that'd that'll that's the their theirs them then there
there's therefore these they they'd they'll they're they've thing things think this those though thoughts
three through thus thx tho till time times tiny to today together tomorrow tonight too took top totally
tough true truly trust truth try trying turn turns two ugh uh ultimately um under understand understood
unfortunately unless until up upon us use used usually various very video videos visit visiting wait waiting
wake wanna want wanted was wasn't watch watching way we we'd we'll we're we've weird welcome well went were
weren't what what'd what's whatever when whenever where whereas wherever whether which while who who's whoa
whoever whole whom whose why will win wish with within without woah won't wonderful woo woohoo words work
works working worry worth would wouldn't wow wrong y'all ya yay yea yeah year years yep yes yesterday yet
yikes yo you you'd you'll you're you've young your yours yourself yum yup yummy zero hm hmmm hah heh nvm tbh
imo imho idk brb asap ps eta aka etc eg ie vs re cc ok'd tv pc pm am pic q a.m p.m monday tuesday wednesday
thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun weekend january february march
april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov
dec spring summer autumn fall winter christmas easter thanksgiving halloween ramadan hanukkah diwali xmas
american british english french german spanish italian portuguese dutch swedish norwegian danish finnish
polish russian ukrainian greek turkish arabic arab hebrew jewish muslim christian catholic hindu buddhist
chinese japanese korean indian thai vietnamese mexican brazilian canadian australian african asian european
irish scottish welsh iranian persian latin internet mr mrs ms dr prof sr jr st http https www com org note
to-do faq diy rip fomo yolo smh np gg wtf lmk ttyl
""")

GREETINGS = word_set("""
hey hi hello hiya heya yo thanks thank thx thanx bye goodbye goodnight congrats congratulations sorry
welcome dear wow cheers morning yeah yep yes no nope sure oh aw aww awesome ok okay ah absolutely agreed
exactly definitely totally right well great cool nice woah whoa haha kudos yup nah please hmm lol night
afternoon evening there good
""")

# What may follow a greeting without saying anything; a turn of only such words mentions nobody.
SMALL_TALK = GREETINGS | word_set("""
bye hm mm mmm ha hah heh hehe lmao omg you so much very again too all welcome thx ty np k kk later see ya
cya ciao hola hallo salut bonjour moin servus merhaba ola yay ugh uh um hooray woohoo
""")

CALENDAR = word_set("""
mon tue tues wed thu thur thurs fri sat sun monday tuesday wednesday thursday friday saturday sunday january
february march april may june july august september october november december
""")

TITLES = word_set("""
dr doctor mr mrs ms miss mx prof professor sir madam lady lord captain capt sergeant sgt lieutenant colonel
general president senator judge father sister brother uncle aunt auntie aunty grandma grandpa coach pastor
reverend rev rabbi imam sheikh nurse chef officer detective dame king queen prince princess pope saint señor
señora herr frau monsieur madame
""")

# After these a full stop ends no sentence.
ABBREVIATED = word_set("dr mr mrs ms prof sr jr st capt sgt rev lt col gen mt ft no vs inc co ltd corp")

# A name after one of these is a person's (or a pet's).
KIN = word_set("""
sister brother mother father mom dad mum son daughter wife husband cousin uncle aunt niece nephew friend
friends boss colleague coworker roommate neighbor neighbour partner girlfriend boyfriend fiance fiancé
fiancee fiancée buddy pal teacher mentor coach manager classmate grandmother grandfather grandma grandpa
stepson stepdaughter twin bestie dog cat puppy kitten pup pet parrot named ex
""")

# A capitalised word before one of these is a person.
PERSON_VERBS = word_set("""
said says told tells asked asks thinks thought wants wanted loves loved likes liked hates bought sold went
came called calls got moved lives lived works worked met married texted emailed wrote gave invited helped
knows knew lent borrowed promised agreed replied joined visited quit cooked baked smiled laughed cried
hugged adopted hired suggested
""")

PLACE_BEFORE = word_set("in near to from around across toward towards outside visit visited visiting explore exploring")
PLACE_AFTER = word_set("""
street road avenue boulevard lane square park beach lake river mountain mountains island islands city town
village museum airport station bridge canyon forest valley bay harbor harbour cafe café restaurant bistro
diner bakery hotel inn plaza mall theater theatre stadium arena gallery library castle palace tower garden
gardens zoo county state province district coast desert falls creek hill hills market
""")
PLACE_START = word_set("mount mt lake san santa santo saint fort port cape los las north south east west rio isle st")

ORGANISATION_AFTER = word_set("""
inc inc. ltd ltd. llc gmbh corp corp. corporation company co co. university college school academy institute
bank hospital clinic club church foundation association society union party team studio studios agency
center centre group records press times post news airlines labs laboratory ministry department committee
council federation league sons bros brothers & charity shelter ag sa plc
""")

PLACES = word_set("""
argentina australia austria bangladesh belgium brazil bulgaria canada chile china colombia croatia cuba
denmark egypt england ethiopia finland france germany ghana greece hungary iceland india indonesia iran iraq
ireland israel italy jamaica japan kenya lebanon malaysia mexico morocco nepal netherlands nigeria norway
pakistan peru philippines poland portugal romania russia scotland serbia singapore slovakia slovenia spain
sudan sweden switzerland syria taiwan thailand tunisia turkey uganda ukraine uk usa us u.s u.s.a vietnam
wales zimbabwe europe africa asia america antarctica amsterdam ankara athens atlanta auckland baghdad bali
bangkok barcelona beijing berlin bogota boston brussels budapest cairo california chicago copenhagen dallas
delhi denver detroit dubai dublin edinburgh florida florence geneva hamburg hanoi hawaii havana helsinki
houston istanbul jakarta jerusalem johannesburg kyiv kyoto lagos lima lisbon london lyon madrid manchester
manila melbourne miami michigan milan montreal moscow mumbai munich nairobi naples nashville nyc ohio oregon
osaka oslo ottawa oxford paris philadelphia phoenix portland porto prague rome rotterdam santiago seattle
seoul shanghai sicily stockholm sydney texas tokyo toronto tuscany valencia vancouver venice vienna virginia
warsaw washington zurich brooklyn manhattan cambridge brighton bristol glasgow liverpool leeds lagos accra
""")

# Given names frequent enough that a capital at the start of a sentence can be trusted.
GIVEN_NAMES = word_set("""
aaron abby abigail adam ahmed aisha alan albert alex alexander alexandra ali alice alicia amanda amelia amy
ana andrea andreas andrew andy angela anita ann anna anne anthony antonio ashley barbara ben benjamin beth
betty bob brandon brenda brian bruno camila carl carla carlos carmen carol caroline catherine charles
charlie charlotte chloe chris christina christine christopher claire clara claudia colin cynthia daniel
daniela danny david deborah debra dennis derek diana diego dmitri donald donna dorothy edward elena eli
elijah elizabeth ella ellen emily emma eric erik ethan eva evelyn fatima felix fernando fiona francesca
francisco frank fred gabriel gabriela gary george gina giovanni hannah harold harry hassan heather helen
helena henry hugo ian ibrahim ines ingrid irene isaac isabel isabella ivan jacob jake james jamie jan jane
janet jason javier jean jeff jeffrey jennifer jenny jeremy jerry jessica jesus jim joan joanna joe joel
johan johannes john jon jonas jonathan jordan jorge jose josé joseph joshua juan judith julia julian julie
justin kai karen karl kate katherine kathleen katie kayla keith kelly kenneth kevin kim kyle larry laura
lauren lena leo leon leonardo liam lily linda lisa logan lorenzo louis louise lucas lucy luis luisa lukas
luke magdalena manuel marco margaret maria marie marina mario marta martha martin mary mateo matt matteo
matthew max megan melanie melissa mia michael michelle miguel mike mikhail mohamed mohammed monica muhammad
nancy natalia natalie natasha nathan nicholas nick nicole nikita nina noah nora olga oliver olivia omar
oscar pablo pamela patricia patrick paul paula pedro peter philip phillip pierre priya rachel ralph raj
rebecca richard riley rita rob robert roberto roger ron rosa ruth ryan sam samantha samuel sandra sara sarah
scott sean sergei seth sharon shirley simon sofia sophia sophie stefan stephanie stephen steve steven susan
sven svetlana sylvia tara teresa thomas tim timothy tina todd tom tomasz tony tyler vanessa veronica victor
victoria vincent vladimir walter wei wendy william yuki yusuf zach zoe
""")

# Short forms and the names they stand for (ours; common English use).
_NICKNAMES = """
abby: abigail | al: albert alan alfred alexander | alex: alexander alexandra alexandria alexis alejandro |
allie: alison alexandra | andy: andrew andrea | angie: angela | annie: anne ann anna | archie: archibald |
art: arthur | barb: barbara | becca: rebecca | becky: rebecca | bella: isabella | ben: benjamin benedict |
bert: albert herbert robert | bernie: bernard | bess: elizabeth | beth: elizabeth bethany | betsy: elizabeth
| betty: elizabeth | bill: william | billy: william | bob: robert | bobby: robert | brad: bradley | cal:
calvin | cam: cameron camila | caro: caroline carolina | cass: cassandra | cathy: catherine | charlie:
charles charlotte | chas: charles | chris: christopher christine christina christian | chrissy: christine
christina | chuck: charles | cindy: cynthia lucinda | connie: constance | dan: daniel | danny: daniel |
dave: david | davey: david | deb: deborah debra | debbie: deborah debra | dee: deborah diana | dick: richard
| don: donald | donny: donald | dot: dorothy | doug: douglas | drew: andrew | ed: edward edwin edmund |
eddie: edward edwin | ellie: eleanor ellen elizabeth | em: emily emma | evie: evelyn eve | fran: frances
francesca | frank: francis franklin | fred: frederick alfred | gabe: gabriel | gabby: gabriela gabrielle |
gene: eugene | geoff: geoffrey | gerry: gerald gerard | ginny: virginia | greg: gregory | gus: august
augustus gustavo | hal: harold henry | hank: henry | harry: harold henry harrison | izzy: isabel isabella |
jack: john jackson | jake: jacob | jamie: james | jan: janet janice | jeff: jeffrey | jen: jennifer | jenny:
jennifer | jerry: gerald jeremy jerome | jess: jessica jesse | jessie: jessica | jim: james | jimmy: james |
jo: joanna joanne josephine jolene joan | joe: joseph | joey: joseph | johnny: john jonathan | jon: jonathan
| josh: joshua | judy: judith | jules: julia julian julie | kate: katherine catherine katharina kathleen |
kathy: katherine kathleen catherine | katie: katherine kathleen catherine katharina | kat: katherine
katharina kathleen katrina | ken: kenneth | kenny: kenneth | kim: kimberly | kris: kristina kristopher |
larry: lawrence laurence | laurie: laura lauren | len: leonard | leo: leonard leonardo leon | lexi:
alexandra alexis | libby: elizabeth | lily: lillian elizabeth | liz: elizabeth | lizzie: elizabeth | lori:
laura | lou: louis louise | lucy: lucille lucia | maddie: madeline madison | maggie: margaret | mandy:
amanda | marge: margaret marjorie | marty: martin | matt: matthew | matty: matthew | meg: margaret megan |
mel: melanie melissa melinda | mick: michael | mike: michael | mikey: michael | millie: mildred millicent
amelia | mimi: miriam | mindy: melinda | mitch: mitchell | moe: moses mohammed | molly: mary margaret |
nancy: anne | nan: nancy | nat: nathan nathaniel natalie natasha | nate: nathan nathaniel | ned: edward |
nell: eleanor helen | nick: nicholas nicolas | nicky: nicholas nicole | nora: eleanor | ollie: oliver olivia
| pam: pamela | pat: patrick patricia | patty: patricia | peggy: margaret | penny: penelope | pete: peter |
phil: philip phillip | polly: mary | rafa: rafael | ray: raymond | rich: richard | rick: richard | ricky:
richard ricardo | rob: robert | robbie: robert | rod: rodney | ron: ronald | ronnie: ronald veronica |
rosie: rose rosemary rosa | russ: russell | sally: sarah | sam: samuel samantha | sammy: samuel samantha |
sandy: sandra alexander | seb: sebastian | shelly: michelle | sophie: sophia | stan: stanley | steph:
stephanie | steve: steven stephen | sue: susan susanna | susie: susan | tad: thaddeus | ted: edward theodore
| teddy: theodore edward | terry: terence theresa | tess: theresa | theo: theodore | tim: timothy | timmy:
timothy | tina: christina martina | toby: tobias | tom: thomas | tommy: thomas | tony: anthony antonio |
tori: victoria | trish: patricia | val: valerie valentina | vic: victor victoria | vicky: victoria | vince:
vincent | viv: vivian | walt: walter | wes: wesley | will: william | willie: william | winnie: winifred |
zach: zachary | zack: zachary | zoey: zoe
"""

NICKNAMES: dict[str, frozenset[str]] = {
    short.strip(): word_set(full) for short, full in (entry.split(":") for entry in _NICKNAMES.split("|"))
}

# Words too general to show that two clauses speak of the same thing.
FUNCTION_WORDS = word_set("""
a about after again all also always am an and any anything are around as at away back be because been before
being both but by can could did do does doing done down each even ever every few for from get gets getting
go goes going gone good got had has have having he her here hers him his how i if in into is it its just
kind know last later let like little long lot lots made make makes making many me more most much my myself
never new next no not now of off oh on once one only or other our out over own quite really right said same
say see seem seemed she should since so some something sometimes still such sure take than that the their
them then there these they thing things think this those though time times to today together too took two
under until up us use very want wanted was way we well went were what when where which while who why will
with without would yeah yes yet you your yours great nice happy love feel felt day days thank thanks it's
i'm i've i'd i'll that's don't didn't can't won't isn't
""")

# Past forms whose stem is not that of the present.
PRESENT: dict[str, str] = dict(
    pair.split(":")
    for pair in word_set("""
fell:fall fallen:fall broke:break broken:break bought:buy sold:sell left:leave lost:lose met:meet paid:pay
ran:run went:go gone:go came:come began:begin won:win stole:steal stolen:steal flew:fly drove:drive
wrote:write hurt:hurt died:die dying:die death:die caught:catch fought:fight taught:teach thought:think
burnt:burn froze:freeze frozen:freeze grew:grow shook:shake sank:sink tore:tear woke:wake threw:throw
slept:sleep spent:spend built:build sick:ill
""")
)


_LETTERS = re.compile(r"[^\W_]+")


def says_something(text: str) -> bool:
    """Whether a text holds a word that is not small talk."""
    for match in _LETTERS.finditer(text.lower()):
        word = match.group()
        if word not in SMALL_TALK and (len(word) > 1 or not word.isascii()):
            return True
    return False
