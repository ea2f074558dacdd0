"""Common abbreviations that sentencex's lists lack, by language."""

from typing import NamedTuple


class Abbreviations(NamedTuple):
    """Words before whose period no sentence ends.

    Attributes:
        titles: words that stand before a name, so that no sentence ends after them.
        others: words in lowercase after which a sentence may end, but not before a lowercase letter
            or a number.
    """

    titles: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


# Words with a period inside, such as "t.ex.", and single letters need no list.
_LISTS = {
    "bg": ("д-р г-н г-жа", "гл ср ок макс"),
    "ca": ("Il·lm Mn", ""),
    "de": ("Hrn Frl Dipl", ""),
    "el": (
        "κκ Καθ Αγ",
        "δηλ βλ σελ αρ τηλ τόμ κεφ άρθρ εικ εκ δισ χιλ παρ περ",
    ),
    "en": ("Mx", "approx figs vol vols ch chap sect ed eds eq tel para est max incl excl resp"),
    "es": ("Dña Profa", "aprox núms ed cf ene feb"),
    "et": ("pr prl", "nt jne jms vrd lk tel kl umb sek tuh milj mld lg"),
    "fi": ("tri Tri hra rva nti", ""),
    "fr": (
        "M MM Mme Mmes Mlle Mlles Dr Drs Pr Me Mgr St Ste",
        "ch no nos ap max min janv févr juil sept oct nov déc c.-à-d réf",
    ),
    "hr": ("Mag doc gđa gđica sv", "cca npr tj tzv itd sl br str pogl tel ul maks mil mlrd čl god"),
    "hu": (
        "ifj özv Szt",
        "kb stb ún tel sz max min vö ld évf köt db du febr márc ápr máj jún júl szept okt",
    ),
    "it": ("Dott.ssa Prof.ssa", "pag pagg figg nn"),
    "lt": ("doc kun šv", "pvz kt psl tel pr val sek tūkst mln mlrd str pav žr plg"),
    "lv": ("doc sv", "piem utt apm lpp tel gs plkst sek tūkst milj mljrd sk att nod"),
    "nl": ("Mevr Mw Mej mevr mw", "afb tel incl excl ong feb mrt apr aug sept okt nov dec"),
    "no": (
        "fru",
        "dvs osv mv kl kap tlf jf inkl ekskl pga mht maks mill okt des evt hhv",
    ),
    "pl": (
        "Dr dr mgr Mgr inż Inż hab ks Ks gen płk ppłk św Św bp abp doc red",
        "ok tzw tj str nr tel pkt ust art rys tab zob por godz min maks mln mld tys wg ds al jw",
    ),
    "pt": (
        "Srta Profa Exma Pe Sta",
        "aprox etc pág págs pp núm vol cap arts tel ed máx mín cf av jan fev abr mai jun jul ago "
        "out nov dez",
    ),
    "ro": (
        "Dl dl Dna dna D-l D-na Sf sf",
        "aprox pag tel ed ex max str bl ap jud ian iun iul",
    ),
    "ru": (
        "г-н г-жа доц св",
        "напр ср рис табл гл коп млн млрд макс др ок ст изд экз чел ред",
    ),
    "sl": (
        "Mag mag doc inž gdč sv",
        "cca npr tj itd ipd št str sl pogl tel ul maks mio mrd tis čl odst prim",
    ),
    "sv": ("fru S:t", "osv kl sid kap tel jfr resp inkl exkl max milj okt"),
    "tr": (
        "Doç Yrd Av Sn Alb Öğr",
        "vb örn sf bkz bk çev böl mad tel sok cad mah şti dk sn yy krş",
    ),
    "uk": ("д-р", "рис табл гл тел макс"),
}
_LISTS["nb"] = _LISTS["nn"] = _LISTS["no"]

ABBREVIATIONS = {
    language: Abbreviations(*(frozenset(words.split()) for words in lists))
    for language, lists in _LISTS.items()
}
