"""Guesses the language of a text, cheaply and carefully.

By script first, then by counting common words. It tells apart only what the tagger needs: the languages that have
rules, and a few neighbours that must not be taken for them. What a reader would not guess: a text of four words or
more without a single known word has no language at all, so that nothing is read into it.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

# Languages without rules; their words keep their texts from being read as one of ours.
_OTHERS = {
    "pt": "o os as um uma de do da dos das em no na nos nas que não é com para por mais mas foi ser ter está eu você "
    "ele ela nós isso este esta meu minha seu sua passada passado semana mês ano ontem hoje amanhã segunda terça "
    "quarta quinta sexta sábado domingo depois antes há dia dias semanas meses anos muito também já quando",
    "it": "il lo la gli le un una di del della dei delle in nel nella che non è con per più ma era essere avere ho "
    "hai ha io tu lui lei noi questo questa mio mia suo sua scorsa scorso settimana mese anno ieri oggi domani lunedì "
    "martedì mercoledì giovedì venerdì sabato domenica dopo prima fa giorni settimane mesi anni molto anche quando",
    "nl": "de het een en van in op dat die niet is met voor aan er maar was zijn heb hebben ik jij hij zij wij dit "
    "deze mijn vorige vorig week maand jaar gisteren vandaag morgen maandag dinsdag woensdag donderdag vrijdag "
    "zaterdag zondag na geleden dagen weken maanden jaren volgende ook wanneer naar ben ga om uur",
    "sv": "och att det som en ett är av på med för inte jag du han hon vi har var till från om men i den förra veckan "
    "månaden året igår idag imorgon måndag tisdag onsdag torsdag fredag lördag söndag efter dagar veckor nästa",
    "da": "og at det som en et er af på med for ikke jeg du han hun vi har var til fra om men i den sidste uge måned "
    "år går dag morgen mandag tirsdag onsdag torsdag fredag lørdag søndag efter dage uger næste",
    "pl": "i w na z do nie się to jest że jak ale był mam masz on ona my ten ta mój wczoraj dziś jutro tydzień "
    "miesiąc rok dni temu zeszły poniedziałek wtorek środa czwartek piątek sobota niedziela po przed",
    "tr": "ve bir bu için ile da de ben sen o biz ne var yok çok daha gibi ama geçen hafta ay yıl dün bugün yarın "
    "pazartesi salı çarşamba perşembe cuma cumartesi pazar sonra önce gün gelecek",
    "id": "yang dan di ke dari ini itu dengan untuk tidak adalah saya kamu dia kami akan sudah pada minggu bulan "
    "tahun lalu kemarin hari besok senin selasa rabu kamis jumat sabtu setelah sebelum depan",
    "fi": "ja on ei se että hän minä sinä me oli mutta kun viime ensi viikolla kuukausi vuosi eilen tänään huomenna "
    "maanantaina tiistaina keskiviikkona torstaina perjantaina lauantaina sunnuntaina jälkeen sitten",
}
_COMMON = {
    "en": "the of and to in is that it for was on are as with his they at be this have from or had by but what some "
    "we can out other were all there when up your how said an each she which do their if will about many then them "
    "would like so these her him has more could no than been now find my made did get may i you a he not just me "
    "our us am don got going know good great want really oh hey hi thanks yeah im back call meeting please up who "
    "where why any here let see go went ll ve re leave listen music meeting work home love time today new first last "
    "day days week people think made make take took come came back need feel feeling looks look talk tell said say "
    "help life been being having getting much such also even well still too way us nice cool awesome amazing sounds "
    "sure hope happy start started show sales happened happen during between since until before while trip years",
    "es": "el la los las un una unos unas de del en que no es con para por más pero fue ser estar está yo tú él ella "
    "nosotros esto este esta mi tu su se lo le al y o como cuando muy también ya hay son era tengo tiene hacer voy me "
    "te nos qué quién dónde porque si sí hola gracias mostrar ventas puede puedo puedes quiero reunión sobre hay estas "
    "entre desde hasta antes después durante hace vamos estoy eso otro otra todo todos nada algo bien mejor casa vida "
    "gente tiempo volveré saldré nuestro nuestra favor cómo ahora sólo solo han has he está estaba estuvo iré",
    "fr": "le la les un une des de du en que ne pas est avec pour par plus mais était être avoir ai as a je tu il elle "
    "nous vous ils elles ce cette ces mon ma mes son sa ses se au aux et ou comme quand très aussi déjà sont y qui où "
    "sur dans j c l d n s qu merci bonjour suis vais afficher ventes peut peux veux réunion entre depuis "
    "avant après pendant "
    "faire fait chez cela autre tout tous rien bien mieux maison vie gens temps nous notre leur votre plaît "
    "quel quelle "
    "comment maintenant seulement avons avez ont étais était reviendrai partirai serai retournerai avril",
    "de": "der die das den dem des ein eine einen einem einer und oder in im an am auf mit für von zu zum zur bei nach "
    "aus ist war sind waren sein haben habe hat ich du er sie es wir ihr nicht kein mein meine dein sich auch noch "
    "schon wie was wer wo wann warum wenn dass aber so nur sehr hallo danke werde wird zeige verkäufe kann kannst will "
    "treffen zwischen seit vor bis während machen gemacht bei diese dieser dieses anderer alles nichts gut besser haus "
    "leben leute zeit unser euer bitte jetzt komme zurück gehe lass uns mir mich dir dann doch immer wieder",
}
_WORD = re.compile(r"[^\W\d_]+")
_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u4e00-\u9fff]")
# Written without kana, these are Japanese all the same.
_JAPANESE = re.compile("曜|先週|来週|今週|先月|来月|昨日|明後日|一昨日|昨年|午後|午前|年間|週間|ヶ月")
_FOREIGN = re.compile("[\u0370-\u06ff\u0900-\u0dff\u0e00-\u0fff\uac00-\ud7af]")
_LATIN = re.compile("[a-z\u00c0-\u024f]")
_HEAD = 400


# A vote is a whole number in these parts, so that sums are exact and ties are ties.
_WHOLE = math.lcm(*range(1, 14))


def words_of(text: str) -> list[str]:
    """Returns the words of a text."""
    return _WORD.findall(text)


class Detector:
    """Guesses among the languages that it was given time words of."""

    def __init__(self, time_words: Mapping[str, Iterable[str]]) -> None:
        """Args:
        time_words: for each language with rules and blanks between words, its words of time.
        """
        votes: dict[str, set[str]] = {}
        lists = {lang: words.split() for lang, words in (_OTHERS | _COMMON).items()}
        for lang, words in time_words.items():
            lists[lang] = [*lists[lang], *(w for w in words if len(w) > 2)]
        for lang, words in lists.items():
            for word in words:
                votes.setdefault(word, set()).add(lang)
        # Many words speak for the same languages; they are counted together.
        self._speaks_for = {word: tuple(sorted(languages)) for word, languages in votes.items()}
        self._ours = frozenset(time_words)

    def detect(self, text: str, words: Sequence[str] | None = None) -> str | None:
        """Returns the language of a lower-case text, or None.

        Args:
            text: the text.
            words: its words, where they are known.
        """
        head = text[:_HEAD]
        if not text.isascii():
            if _KANA.search(head):
                return "ja"
            if _HAN.search(head):
                return "ja" if _JAPANESE.search(head) else "zh"
            if _FOREIGN.search(head) and not _LATIN.search(head):
                return None
        if words is None or len(text) > _HEAD:
            words = words_of(head)
        counts = Counter(map(self._speaks_for.get, words))
        counts.pop(None, 0)
        if not counts:
            return "en" if len(words) < 4 and head.isascii() else None
        scores: dict[str, int] = {}
        for languages, num in counts.items():
            # A word of several languages says less.
            vote = num * (_WHOLE // len(languages or ()))
            for language in languages or ():
                scores[language] = scores.get(language, 0) + vote
        best = max(scores.values())
        leaders = [language for language, score in scores.items() if score == best]
        # Where neighbours share all words, as in "esta semana", they mean the same.
        return next((lang for lang in ("en", "es", "fr", "de") if lang in leaders and lang in self._ours), None)
