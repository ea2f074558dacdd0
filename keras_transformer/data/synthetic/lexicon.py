"""The words of the built-in corpus: nouns, verbs, adjectives, endings."""

# Data only. Each English word has one German counterpart in its context, no English noun has equal
# singular and plural, and no word starts with a vowel letter that is not spoken as a vowel (so that
# "a" and "an" follow from the spelling).

from typing import NamedTuple


class Noun(NamedTuple):
    """A noun on both sides; an empty `plural` marks a mass noun."""

    english: str
    plural: str
    german: str
    gender: str  # "m", "f" or "n"
    german_plural: str
    genitive: str
    kind: str


class Adjective(NamedTuple):
    """An adjective: `german` as a predicate, `stem` before an ending."""

    english: str
    german: str
    stem: str
    kinds: tuple[str, ...]


class Verb(NamedTuple):
    """A verb: principal parts in both languages, its objects and its possible subjects.

    `cases` lists the German case of each object in order, `conjunction` opens a content clause.
    `scene` determines the places that may occur with the verb: "" none, "at" where something
    happens, "into" where something goes (always present), "water" where one swims; "state" allows
    no time either.
    """

    english: str
    past: str
    participle: str
    particle: str
    preposition: str
    prefix: str
    german: str  # the infinitive without a separable prefix
    german_present: str
    german_past: str
    german_participle: str
    auxiliary: str
    german_preposition: str
    cases: tuple[str, ...]
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    scene: str
    conjunction: str


class Determiner(NamedTuple):
    """A determiner; `endings` picks the declension of the adjectives after it."""

    english: str
    plural: str
    tag: str
    german: str
    endings: str  # "weak", "mixed" or "strong"
    definite: bool


class Pronoun(NamedTuple):
    """A personal pronoun; `agreement` is 0 (I), 1 (he, she) or 2 (we, they)."""

    english: str
    english_object: str
    german: dict[str, str]
    agreement: int


class Adverb(NamedTuple):
    """An adverb of frequency."""

    english: str
    german: str


class Time(NamedTuple):
    """A time phrase: its English tree, its German words and the tenses it goes with."""

    english: str
    german: str
    tenses: tuple[str, ...]


class Conjunction(NamedTuple):
    """A subordinating conjunction and the tenses of the main clause it goes with."""

    english: str
    german: str
    tenses: tuple[str, ...]


def _rows(text: str) -> list[list[str]]:
    return [
        ["" if cell == "-" else cell for cell in line.split()] for line in text.strip().splitlines()
    ]


# Groups of kinds, to be named as one in the tables below.
_GROUPS = {
    "living": ("person", "animal"),
    "goods": ("thing", "case", "wear", "vehicle", "text"),
}


def _kinds(names: str) -> tuple[str, ...]:
    return tuple(
        kind for name in names.split(",") if name != "-" for kind in _GROUPS.get(name, (name,))
    )


NOUNS = tuple(
    Noun(*row)
    for row in _rows("""
man          men           Mann         m  Männer         Mannes        person
woman        women         Frau         f  Frauen         Frau          person
child        children      Kind         n  Kinder         Kindes        person
girl         girls         Mädchen      n  Mädchen        Mädchens      person
boy          boys          Junge        m  Jungen         Jungen        person
teacher      teachers      Lehrer       m  Lehrer         Lehrers       person
doctor       doctors       Arzt         m  Ärzte          Arztes        person
king         kings         König        m  Könige         Königs        person
queen        queens        Königin      f  Königinnen     Königin       person
farmer       farmers       Bauer        m  Bauern         Bauern        person
student      students      Student      m  Studenten      Studenten     person
neighbor     neighbors     Nachbar      m  Nachbarn       Nachbarn      person
friend       friends       Freund       m  Freunde        Freundes      person
grandmother  grandmothers  Großmutter   f  Großmütter     Großmutter    person
sister       sisters       Schwester    f  Schwestern     Schwester     person
brother      brothers      Bruder       m  Brüder         Bruders       person
uncle        uncles        Onkel        m  Onkel          Onkels        person
aunt         aunts         Tante        f  Tanten         Tante         person
witch        witches       Hexe         f  Hexen          Hexe          person
giant        giants        Riese        m  Riesen         Riesen        person
dog          dogs          Hund         m  Hunde          Hundes        animal
cat          cats          Katze        f  Katzen         Katze         animal
horse        horses        Pferd        n  Pferde         Pferdes       animal
bear         bears         Bär          m  Bären          Bären         animal
mouse        mice          Maus         f  Mäuse          Maus          animal
lion         lions         Löwe         m  Löwen          Löwen         animal
duck         ducks         Ente         f  Enten          Ente          animal
goose        geese         Gans         f  Gänse          Gans          animal
pig          pigs          Schwein      n  Schweine       Schweins      animal
fox          foxes         Fuchs        m  Füchse         Fuchses       animal
elephant     elephants     Elefant      m  Elefanten      Elefanten     animal
apple        apples        Apfel        m  Äpfel          Apfels        food
pear         pears         Birne        f  Birnen         Birne         food
egg          eggs          Ei           n  Eier           Eis           food
cake         cakes         Kuchen       m  Kuchen         Kuchens       food
tomato       tomatoes      Tomate       f  Tomaten        Tomate        food
cheese       -             Käse         m  -              Käses         food
soup         -             Suppe        f  -              Suppe         food
bread        -             Brot         n  -              Brotes        food
coffee       -             Kaffee       m  -              Kaffees       drink
milk         -             Milch        f  -              Milch         drink
water        -             Wasser       n  -              Wassers       drink
tea          -             Tee          m  -              Tees          drink
book         books         Buch         n  Bücher         Buches        text
letter       letters       Brief        m  Briefe         Briefes       text
poem         poems         Gedicht      n  Gedichte       Gedichts      text
story        stories       Geschichte   f  Geschichten    Geschichte    text
ball         balls         Ball         m  Bälle          Balls         thing
key          keys          Schlüssel    m  Schlüssel      Schlüssels    thing
lamp         lamps         Lampe        f  Lampen         Lampe         thing
picture      pictures      Bild         n  Bilder         Bildes        thing
flower       flowers       Blume        f  Blumen         Blume         thing
clock        clocks        Uhr          f  Uhren          Uhr           thing
box          boxes         Kiste        f  Kisten         Kiste         case
suitcase     suitcases     Koffer       m  Koffer         Koffers       case
gift         gifts         Geschenk     n  Geschenke      Geschenks     case
hat          hats          Hut          m  Hüte           Hutes         wear
crown        crowns        Krone        f  Kronen         Krone         wear
umbrella     umbrellas     Regenschirm  m  Regenschirme   Regenschirms  wear
basket       baskets       Korb         m  Körbe          Korbes        wear
car          cars          Auto         n  Autos          Autos         vehicle
bicycle      bicycles      Fahrrad      n  Fahrräder      Fahrrads      vehicle
boat         boats         Boot         n  Boote          Bootes        vehicle
garden       gardens       Garten       m  Gärten         Gartens       place
house        houses        Haus         n  Häuser         Hauses        place
kitchen      kitchens      Küche        f  Küchen         Küche         place
forest       forests       Wald         m  Wälder         Waldes        place
school       schools       Schule       f  Schulen        Schule        place
castle       castles       Schloss      n  Schlösser      Schlosses     place
village      villages      Dorf         n  Dörfer         Dorfes        place
bridge       bridges       Brücke       f  Brücken        Brücke        place
roof         roofs         Dach         n  Dächer         Daches        place
tree         trees         Baum         m  Bäume          Baumes        place
table        tables        Tisch        m  Tische         Tisches       place
bed          beds          Bett         n  Betten         Bettes        place
river        rivers        Fluss        m  Flüsse         Flusses       place
lake         lakes         See          m  Seen           Sees          place
window       windows       Fenster      n  Fenster        Fensters      place
""")
)
NOUN = {noun.english: noun for noun in NOUNS}
NOUNS_OF = {
    kind: tuple(noun for noun in NOUNS if noun.kind == kind)
    for kind in dict.fromkeys(noun.kind for noun in NOUNS)
}
# The people of whom one says "my".
KIN = ("sister", "brother", "uncle", "aunt", "grandmother")
RELATIONS = (*KIN, "child", "teacher", "doctor", "student", "neighbor", "friend")

ADJECTIVES = tuple(
    Adjective(english, german, stem, _kinds(kinds))
    for english, german, stem, kinds in _rows("""
old          alt          alt          living,goods,place
small        klein        klein        living,goods,place
big          groß         groß         animal,goods,place
young        jung         jung         living
tired        müde         müd          living
hungry       hungrig      hungrig      living
happy        glücklich    glücklich    living
sad          traurig      traurig      living
clever       klug         klug         living
lazy         faul         faul         living
friendly     freundlich   freundlich   living
strong       stark        stark        living
brave        mutig        mutig        living
curious      neugierig    neugierig    living
black        schwarz      schwarz      animal,thing,case,wear,vehicle
white        weiß         weiß         animal,thing,case,wear,vehicle
red          rot          rot          thing,case,wear,vehicle
blue         blau         blau         thing,case,wear,vehicle
green        grün         grün         thing,case,wear,vehicle
new          neu          neu          goods
expensive    teuer        teur         goods,food
cheap        billig       billig       goods,food
beautiful    schön        schön        goods,place
heavy        schwer       schwer       case
exciting     spannend     spannend     text
boring       langweilig   langweilig   text
funny        lustig       lustig       text,person
fresh        frisch       frisch       food,drink
warm         warm         warm         food,drink
cold         kalt         kalt         food,drink
good         gut          gut          food,drink,text
quiet        ruhig        ruhig        place
dark         dunkel       dunkl        place
""")
)


ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
ADJECTIVES_OF = {
    kind: tuple(adjective for adjective in ADJECTIVES if kind in adjective.kinds)
    for kind in NOUNS_OF
}


def _verb(row: str) -> Verb:
    english, german, subjects, objects, governs, scene = (cell.strip() for cell in row.split("|"))
    base, past, participle, *extra = english.split()
    infinitive, german_present, german_past, german_participle, *sein = german.split()
    prefix, _, stem = infinitive.rpartition("-")
    *german_preposition, cases = governs.split()
    particle = "".join(word for word in extra if word in ("up", "away"))
    conjunction = cases if cases in CONTENT else ""
    return Verb(
        english=base,
        past=past,
        participle=participle,
        particle=particle,
        preposition="" if particle else "".join(extra),
        prefix=prefix,
        german=stem,
        german_present=german_present,
        german_past=german_past,
        german_participle=prefix + german_participle,
        auxiliary="sein" if sein else "haben",
        german_preposition="".join(german_preposition),
        cases=() if conjunction or cases == "-" else tuple(cases.split("+")),
        subjects=_kinds(subjects),
        objects=_kinds(objects),
        scene=scene.strip("-"),
        conjunction=conjunction,
    )


# Conjunctions of content clauses.
CONTENT = {"that": "dass", "whether": "ob"}

# English parts (and particle or preposition) | German parts (and "ist" for the perfect with sein)
# | subjects | objects | what the German verb governs, or the content clause it opens | scene
VERBS = tuple(
    _verb(row)
    for row in """
sleep slept slept       | schlafen schläft schlief geschlafen | living | - | - | at
work worked worked      | arbeiten arbeitet arbeitete gearbeitet | person | - | - | at
sing sang sung          | singen singt sang gesungen | person | - | - | at
dance danced danced     | tanzen tanzt tanzte getanzt | living | - | - | at
swim swam swum          | schwimmen schwimmt schwamm geschwommen ist | living | - | - | water
wake woke woken up      | auf-wachen wacht wachte gewacht ist | living | - | - | at
arrive arrived arrived  | an-kommen kommt kam gekommen ist | person | - | - | at
go went gone            | gehen geht ging gegangen ist | living | - | - | into
run ran run             | rennen rennt rannte gerannt ist | living | - | - | into
come came come          | kommen kommt kam gekommen ist | living | - | - | into
see saw seen            | sehen sieht sah gesehen | living | living,goods | acc | at
find found found        | finden findet fand gefunden | living | living,goods | acc | at
love loved loved        | lieben liebt liebte geliebt | living | living | acc | state
know knew known         | kennen kennt kannte gekannt | person | living | acc | state
visit visited visited   | besuchen besucht besuchte besucht | person | person | acc | -
meet met met            | treffen trifft traf getroffen | living | living | acc | at
watch watched watched   | beobachten beobachtet beobachtete beobachtet | living | living | acc | at
chase chased chased     | jagen jagt jagte gejagt | animal | living | acc | at
wash washed washed      | waschen wäscht wusch gewaschen | person | animal,vehicle | acc | at
eat ate eaten           | essen isst aß gegessen | person | food | acc | at
drink drank drunk       | trinken trinkt trank getrunken | living | drink | acc | at
buy bought bought       | kaufen kauft kaufte gekauft | person | goods,food,drink | acc | at
sell sold sold          | verkaufen verkauft verkaufte verkauft | person | goods,food | acc | at
steal stole stolen      | stehlen stiehlt stahl gestohlen | living | goods,food | acc | -
read read read          | lesen liest las gelesen | person | text | acc | at
write wrote written     | schreiben schreibt schrieb geschrieben | person | text | acc | at
paint painted painted   | malen malt malte gemalt | person | living,thing | acc | at
carry carried carried   | tragen trägt trug getragen | person | thing,case,wear | acc | -
look looked looked for  | suchen sucht suchte gesucht | living | living,goods | acc | at
call called called      | an-rufen ruft rief gerufen | person | person | acc | -
invite invited invited  | ein-laden lädt lud geladen | person | person | acc | -
open opened opened      | auf-machen macht machte gemacht | person | case | acc | at
close closed closed     | zu-machen macht machte gemacht | person | case | acc | at
pick picked picked up   | auf-heben hebt hob gehoben | person | thing,case,wear | acc | at
throw threw thrown away | weg-werfen wirft warf geworfen | person | goods,food | acc | -
help helped helped      | helfen hilft half geholfen | living | living | dat | at
thank thanked thanked   | danken dankt dankte gedankt | person | living | dat | -
answer answered answered | antworten antwortet antwortete geantwortet | person | person | dat | -
trust trusted trusted   | vertrauen vertraut vertraute vertraut | living | living | dat | state
follow followed followed | folgen folgt folgte gefolgt ist | living | living | dat | -
listen listened listened to | zu-hören hört hörte gehört | living | person | dat | at
wait waited waited for  | warten wartet wartete gewartet | living | living | auf acc | at
laugh laughed laughed at | lachen lacht lachte gelacht | person | living | über acc | at
think thought thought of | denken denkt dachte gedacht | person | living,food | an acc | -
dream dreamed dreamed of | träumen träumt träumte geträumt | living | living,food | von dat | at
talk talked talked with | sprechen spricht sprach gesprochen | person | living | mit dat | at
play played played with | spielen spielt spielte gespielt | living | living,thing | mit dat | at
give gave given         | geben gibt gab gegeben | person | goods,food | dat+acc | -
show showed shown       | zeigen zeigt zeigte gezeigt | person | goods | dat+acc | at
bring brought brought   | bringen bringt brachte gebracht | living | goods,food | dat+acc | -
send sent sent          | schicken schickt schickte geschickt | person | goods | dat+acc | -
say said said           | sagen sagt sagte gesagt | person | - | that | -
believe believed believed | glauben glaubt glaubte geglaubt | person | - | that | -
hope hoped hoped        | hoffen hofft hoffte gehofft | person | - | that | -
ask asked asked         | fragen fragt fragte gefragt | person | - | whether | -
""".strip().splitlines()
)
VERB = {verb.english: verb for verb in VERBS}
VERBS_ABOUT = {kind: tuple(verb for verb in VERBS if kind in verb.objects) for kind in NOUNS_OF}

# Said of people, animals and things, always with an adjective.
BE = _verb("be was been | sein ist war gewesen ist | living,goods | - | - | -")

# Auxiliaries and irregular present tenses, by agreement: I; he, she; we, they.
ENGLISH_PRESENT = {
    "be": ("am", "is", "are"),
    "have": ("have", "has", "have"),
    "do": ("do", "does", "do"),
    "go": ("go", "goes", "go"),
}
ENGLISH_PAST = {"be": ("was", "was", "were")}
GERMAN_PRESENT = {
    "sein": ("bin", "ist", "sind"),
    "haben": ("habe", "hat", "haben"),
    "werden": ("werde", "wird", "werden"),
    "können": ("kann", "kann", "können"),
    "müssen": ("muss", "muss", "müssen"),
    "dürfen": ("darf", "darf", "dürfen"),
    "sollen": ("sollte", "sollte", "sollten"),
    "wollen": ("will", "will", "wollen"),
}

# Tenses: "present", "past", "perfect" and the modal verbs, "want" (to) among them.
MODALS = {
    "can": "können",
    "must": "müssen",
    "should": "sollen",
    "will": "werden",
    "want": "wollen",
}
PLANS = ("can", "must", "should", "will", "want")

DETERMINERS = {
    determiner.english: determiner
    for determiner in (
        Determiner("the", "the", "DT", "d", "weak", True),
        Determiner("this", "these", "DT", "dies", "weak", True),
        Determiner("every", "", "DT", "jed", "weak", False),
        Determiner("a", "", "DT", "ein", "mixed", False),
        Determiner("no", "no", "DT", "kein", "mixed", False),
        Determiner("my", "my", "PRP$", "mein", "mixed", True),
        Determiner("his", "his", "PRP$", "sein", "mixed", True),
        Determiner("her", "her", "PRP$", "ihr", "mixed", True),
        Determiner("our", "our", "PRP$", "unser", "mixed", True),
        Determiner("two", "two", "CD", "zwei", "strong", False),
        Determiner("three", "three", "CD", "drei", "strong", False),
        Determiner("", "", "", "", "strong", False),
    )
}

PRONOUNS = {
    pronoun.english: pronoun
    for pronoun in (
        Pronoun("I", "me", {"nom": "ich", "acc": "mich", "dat": "mir"}, 0),
        Pronoun("he", "him", {"nom": "er", "acc": "ihn", "dat": "ihm"}, 1),
        Pronoun("she", "her", {"nom": "sie", "acc": "sie", "dat": "ihr"}, 1),
        Pronoun("we", "us", {"nom": "wir", "acc": "uns", "dat": "uns"}, 2),
        Pronoun("they", "them", {"nom": "sie", "acc": "sie", "dat": "ihnen"}, 2),
    )
}

# German endings by gender ("p" for the plural of all), in the order nom, acc, dat, gen.
CASES = ("nom", "acc", "dat", "gen")
DEFINITE_ARTICLE = {
    "m": ("der", "den", "dem", "des"),
    "f": ("die", "die", "der", "der"),
    "n": ("das", "das", "dem", "des"),
    "p": ("die", "die", "den", "der"),
}
RELATIVE_PRONOUN = {
    "m": ("der", "den", "dem", "dessen"),
    "f": ("die", "die", "der", "deren"),
    "n": ("das", "das", "dem", "dessen"),
    "p": ("die", "die", "denen", "deren"),
}
# Endings of the determiners themselves, by what they do to the adjective after them.
DETERMINER_ENDINGS = {
    "weak": {
        "m": ("er", "en", "em", "es"),
        "f": ("e", "e", "er", "er"),
        "n": ("es", "es", "em", "es"),
        "p": ("e", "e", "en", "er"),
    },
    "mixed": {
        "m": ("", "en", "em", "es"),
        "f": ("e", "e", "er", "er"),
        "n": ("", "", "em", "es"),
        "p": ("e", "e", "en", "er"),
    },
}
ADJECTIVE_ENDINGS = {
    "weak": {
        "m": ("e", "en", "en", "en"),
        "f": ("e", "e", "en", "en"),
        "n": ("e", "e", "en", "en"),
        "p": ("en", "en", "en", "en"),
    },
    "mixed": {
        "m": ("er", "en", "en", "en"),
        "f": ("e", "e", "en", "en"),
        "n": ("es", "es", "en", "en"),
        "p": ("en", "en", "en", "en"),
    },
    "strong": {
        "m": ("er", "en", "em", "en"),
        "f": ("e", "e", "er", "er"),
        "n": ("es", "es", "em", "en"),
        "p": ("e", "e", "en", "er"),
    },
}

# English preposition of place: German preposition and case.
PREPOSITIONS = {
    "in": ("in", "dat"),
    "into": ("in", "acc"),
    "on": ("auf", "dat"),
    "under": ("unter", "dat"),
    "behind": ("hinter", "dat"),
    "at": ("an", "dat"),
}
# The places that a verb may go with, by its scene.
SCENES = {
    "at": {
        "in": "garden house kitchen forest school castle village bed",
        "on": "bridge roof table bed",
        "under": "bridge tree table bed",
        "behind": "house castle tree school",
        "at": "river lake window table",
    },
    "into": {"into": "garden house kitchen forest school castle village"},
    "water": {"in": "river lake"},
}
CONTRACTIONS = {"in dem": "im", "an dem": "am", "von dem": "vom", "in das": "ins"}

FREQUENCIES = (
    Adverb("often", "oft"),
    Adverb("always", "immer"),
    Adverb("sometimes", "manchmal"),
    Adverb("never", "nie"),
)

TIMES = (
    Time("(NP (NN today))", "heute", ("present", "past", "perfect", *PLANS)),
    Time("(NP (NN yesterday))", "gestern", ("past",)),
    Time("(NP (NN tomorrow))", "morgen", PLANS),
    Time("(ADVP (RB now))", "jetzt", ("present",)),
    Time("(ADVP (RB soon))", "bald", ("will",)),
    Time(
        "(PP (IN in) (NP (DT the) (NN morning)))",
        "am Morgen",
        ("present", "past", *PLANS),
    ),
    Time(
        "(PP (IN in) (NP (DT the) (NN evening)))",
        "am Abend",
        ("present", "past", *PLANS),
    ),
    Time("(PP (IN on) (NP (NNP Sunday)))", "am Sonntag", ("past", *PLANS)),
    Time("(PP (IN in) (NP (NN winter)))", "im Winter", ("present", "past")),
    Time("(NP (DT every) (NN day))", "jeden Tag", ("present", "past")),
)

SUBORDINATORS = (
    Conjunction("because", "weil", ("present", "past", "perfect", *PLANS)),
    Conjunction("although", "obwohl", ("present", "past", "perfect", *PLANS)),
    Conjunction("while", "während", ("present", "past")),
    Conjunction("when", "wenn", ("present",)),
    Conjunction("when", "als", ("past",)),
    Conjunction("if", "wenn", ("present", "can", "must", "should", "will")),
)
COORDINATORS = {"and": "und", "but": "aber"}
