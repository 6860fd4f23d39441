"""Turns of phrase by which people say that they learned, decided or always do something.

Each row is a kind of flat memory, how much a sentence of it says, and by language what tells it.
Only phrases that hardly mean anything else are here: a sentence that is missed can still be found
in its session, and one that is taken for a lesson wrongly is told to the next session as one.
"""

import re

_CUES: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    (
        "learning",
        4,
        (
            r"\b(?:remember|note|important|lesson|takeaway|gotcha|caveat)\s*:",
            r"\b(?:root cause|turns out|turned out|(?:I|we) learned|discovered)\b",
            r"\bthe (?:problem|issue|bug|cause|fix|solution) (?:was|is)\b",
            r"\b(?:fixed (?:it )?by|solved by|resolved by|workaround)\b",
            # German
            r"\b(?:merke?|wichtig|achtung|hinweis|lehre)\s*:",
            r"\b(?:hat sich herausgestellt|stellte sich heraus|(?:ich habe|wir haben) gelernt)\b",
            r"\b(?:das problem|der fehler|die ursache|die lösung) (?:war|ist|lag)\b",
            # French
            r"\b(?:à retenir|important|attention|leçon|remarque)\s*:",
            r"\b(?:il s'avère|il s'est avéré|(?:j'ai|on a|nous avons) appris)\b",
            r"\b(?:le problème|l'erreur|la cause|la solution) (?:était|est|vient)\b",
            # Spanish and Portuguese
            r"\b(?:recuerda|recordar|lembre|lembrar|importante|ojo|atenção|lección|lição)\s*:",
            r"\b(?:resulta que|resultó que|hemos aprendido|aprendí que|acontece que|aprendemos)\b",
            r"\b(?:el|o) (?:problema|error|erro) (?:era|es|é|foi|fue)\b",
            r"\b(?:la|a) (?:causa|solución|solução) (?:era|es|é|foi|fue)\b",
            # Italian
            r"\b(?:ricorda|attenzione|nota|lezione)\s*:",
            r"\b(?:si è scoperto|è emerso|abbiamo imparato|ho imparato)\b",
            r"\b(?:il problema|l'errore|la causa|la soluzione) (?:era|è)\b",
            # Dutch
            r"\b(?:onthoud|let op|belangrijk)\s*:",
            r"\b(?:bleek dat|blijkt dat|(?:ik heb|we hebben) geleerd)\b",
            r"\b(?:het probleem|de fout|de oorzaak|de oplossing) (?:was|is)\b",
            # Russian
            r"\b(?:важно|запомни|урок|внимание)\s*:",
            r"\b(?:оказалось|выяснилось|мы узнали|я узнал)\b",
            r"\b(?:проблема|ошибка|причина) (?:была|был|в том)\b",
            # Chinese
            r"(?:记住|注意|重要|教训)[:\uff1a]",
            r"(?:原来是|事实证明|学到了|发现了?问题|根本原因)",
            r"(?:问题|原因|错误|解决办法|解决方法)(?:是|在于)",
            # Japanese
            r"(?:重要|注意|教訓|メモ)[:\uff1a]",
            r"(?:ことが(?:わか|分か)った|ことが(?:わか|分か)りました|根本原因|を学んだ|を学びました)",
            r"(?:問題|原因|解決策)は",
            # Korean
            r"(?:중요|주의|기억|교훈)\s*[:\uff1a]",
            r"(?:알고 보니|밝혀졌|배웠)",
            r"(?:문제는|원인은|해결책은)",
        ),
    ),
    (
        "learning",
        3,
        (
            r"\bbecause\b.*\b(?:fail|error|bug|wrong|broke|crash|slow|missing|need)",
            r"\bweil\b.*\b(?:fehl|falsch|langsam|abstürz|brauch)",
            r"\bparce qu['e].*\b(?:échou|erreur|lent|manqu|besoin)",
            r"\bporque\b.*\b(?:fall|falh|error|erro|lent|falta|necesit|precis)",
        ),
    ),
    (
        "decision",
        5,
        (
            r"\b(?:we|I|let's|they)\b.{0,20}\b(?:decided|agreed|chose|settled on)\b",
            r"\bdecision\s*:",
            r"\b(?:wir|ich)\b.{0,40}\b(?:beschlossen|entschieden|vereinbart|geeinigt)\b",
            r"\b(?:entscheidung|beschluss)\s*:",
            r"\b(?:on a|nous avons|j'ai) (?:décidé|choisi|convenu)\b",
            r"\bdécision\s*:",
            r"\b(?:hemos decidido|decidimos|acordamos|he decidido|concordamos)\b",
            r"\b(?:decisión|decisão|decisione|besluit)\s*:",
            r"\b(?:abbiamo deciso|ho deciso|abbiamo scelto)\b",
            r"\b(?:we hebben|ik heb)\b.{0,40}\b(?:besloten|gekozen|afgesproken)\b",
            r"\b(?:мы|я) (?:решили|решил|решила|договорились|выбрали)\b",
            r"(?:我们|我)?(?:已经)?决定(?:了|使用|用|采用)?",
            r"ことに(?:した|しました|決めた|決めました)|を採用(?:した|しました)",
            r"기로 (?:했|결정)",
        ),
    ),
    (
        "pattern",
        3,
        (
            r"\b(?:always|never|from now on|whenever|every time|must not|don't ever)\b",
            r"\b(?:prefers?|convention|should (?:always|never))\b",
            r"\b(?:immer|niemals|nie wieder|ab jetzt|von nun an|jedes mal)\b",
            r"\b(?:toujours|jamais|désormais|à partir de maintenant|chaque fois)\b",
            r"\b(?:siempre|nunca|a partir de ahora|cada vez|sempre|a partir de agora|toda vez)\b",
            r"\b(?:d'ora in poi|ogni volta)\b",
            r"\b(?:altijd|nooit|voortaan|vanaf nu)\b",
            r"\b(?:всегда|никогда|отныне|каждый раз)\b",
            r"(?:总是|永远不要|从现在起|以后都|每次|务必)",
            r"(?:必ず|決して|今後は|毎回)",
            r"(?:항상|절대|앞으로는|매번)",
        ),
    ),
    (
        "context",
        2,
        (
            r"\b(?:requires?|depends on|only works|is configured|lives in|default is)\b",
            r"\b(?:benötigt|hängt (?:von|davon) ab|funktioniert nur|ist konfiguriert)\b",
            r"\b(?:nécessite|dépend de|ne fonctionne qu|est configuré)",
            r"\b(?:requiere|depende de|solo funciona|está configurad|requer|só funciona)",
            r"\b(?:richiede|dipende da|funziona solo)\b",
            r"\b(?:vereist|hangt af van|werkt alleen)\b",
            r"\b(?:требует|зависит от|работает только)\b",
            r"(?:依赖于?|需要先|只能在|默认(?:值)?是)",
            r"(?:に依存|が必要|でのみ動|既定値は|デフォルトは)",
            r"(?:에 의존|필요하다|필요합니다|기본값은)",
        ),
    ),
)

_COMPILED = tuple(
    (re.compile("|".join(phrases), re.IGNORECASE), kind, worth) for kind, worth, phrases in _CUES
)


def kind_of(sentence: str) -> tuple[int, str] | None:
    """Return how much a sentence says and what kind of thing; None for nothing.

    Args:
        sentence: At most a few hundred characters: what is between two of its words may be long.
    """
    found = [(worth, kind) for cue, kind, worth in _COMPILED if cue.search(sentence)]
    return max(found) if found else None
