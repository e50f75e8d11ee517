"""English words that carry the form of a claim rather than its subject."""

from __future__ import annotations

import re

from adapters.llm.offline.schema import word_set

PLAIN = word_set(
    "late built builds build produced produces rose rises increased increases grew grows climbed "
    "fell falls decreased decreases declined dropped observation observations measurement "
    "measurements reading readings sample samples received together exactly "
    "left leave leaves leaving took take takes place stored appear appears ran run runs rank ranks "
    "come comes came ranked arrived arrive arrives started start starts ended end ends included "
    "includes include comprises comprise consists found if when where while then so such "
    "a an the of in on at to by for from with without within and or but than that which who "
    "whose is are was were be been being has have had having do does did its it they their "
    "there this these those as into out per each every all any some no not none only also "
    "both more most less least fewer fewest many much few number amount count total sum "
    "average mean median maximum minimum max min highest lowest largest smallest biggest "
    "longest shortest greatest higher lower larger smaller bigger longer shorter greater top "
    "bottom best worst peak peaked peaks distinct different unique share percent percentage "
    "proportion rate fraction half third quarter about around roughly approximately nearly "
    "almost over under above below between up down least exactly other others another second "
    "record records row rows entry entries data dataset database warehouse table tables "
    "column columns value values missing null nulls empty blank lack lacks lacking known "
    "recorded contains contained contain listed lists holds hold stands lies covers cover "
    "covered operated operates flew flown made makes make went goes go departed departs came "
    "comes served serves registered measured observed occurred occurs happened reached "
    "reaches common frequent frequently often busiest year month day hour week weekday time "
    "times period during across among overall whole entire level whether code name named "
    "called equal equals same one two three four five six seven eight nine ten eleven twelve "
    "zero accounts account accounted makes up group groups category categories kind type long "
    "high low large small big"
)
UNITS = word_set(
    "minutes minute hours hours seconds days years miles mile kilometres kilometers km feet "
    "foot metres meters degrees fahrenheit celsius mph knots dollars euros usd eur percent "
    "points inches"
)
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve"
NUMBER_WORDS = {name: i for i, name in enumerate(_NUMBERS.split())}
HINTS = {
    "late": "delay",
    "left": "departure",
    "leave": "departure",
    "leaves": "departure",
    "miles": "distance",
    "mile": "distance",
    "kilometres": "distance",
    "kilometers": "distance",
    "km": "distance",
    "fastest": "speed",
    "slowest": "speed",
    "heaviest": "weight",
    "oldest": "age",
    "dearest": "price",
    "cheapest": "price",
}
"""A unit or a superlative that speaks of a quantity without naming it."""

BEYOND_DATA = re.compile(
    r"\b(because|caus(?:e|es|ed|ing)|due to|thanks to|leads? to|result(?:s|ed)? in|owing to|"
    r"will|would|next (?:year|month|week)|future|forecast|expected to|going to|likely|probably|"
    r"should|prefers?|preferred|believes?|feels?|wants?|plans? to|reason|why|therefore|"
    r"in order to|intends?|hopes?|might|could|may (?=\w+ (?:have|be)))\b",
    re.IGNORECASE,
)
"""Causes, intentions, opinions and the future: rows cannot settle them."""

COMPARATIVE = re.compile(
    r"\b(more|fewer|less|higher|lower|longer|shorter|larger|greater|smaller|bigger|later|earlier|"
    r"older|younger|faster|slower|warmer|colder|hotter|windier|heavier|lighter|cheaper|busier)\b"
    r"(?P<middle>.*?)\bthan\b(?!\s+[\d$€£])",
    re.IGNORECASE,
)
DOWNWARD = word_set(
    "fewer less lower shorter smaller earlier younger slower colder lighter cheaper"
)

AGGREGATES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(average|mean|averages|averaged|on average)\b", re.I), "avg"),
    (re.compile(r"\bmedian\b", re.I), "median"),
    (re.compile(r"\b(maximum|max)\b", re.I), "max"),
    (re.compile(r"\b(minimum|min)\b", re.I), "min"),
    (re.compile(r"\b(total|sum|altogether|combined)\b", re.I), "sum"),
)
MISSING = re.compile(
    r"\b(missing|null|nulls|blank|lacks?|lacking|without (?:a|an|any)?|"
    r"ha(?:s|ve|d) no|no (?:recorded|known))\b",
    re.IGNORECASE,
)
MISSING_AT_ALL = re.compile(r"\b(?:is|are|was|were) not (?:null|missing|blank|known)\b", re.I)
NOTHING_MISSING = re.compile(
    r"\b(?:no|not any|zero|without any) (?:missing|null|nulls|blank)\b|"
    r"^no \w+ (?:has|have|had|lacks?)\b|\bnever (?:missing|null|blank)\b",
    re.IGNORECASE,
)
ROW_NOUNS = word_set("row record entry observation measurement reading sample")
LATE = re.compile(r"\blate\b", re.IGNORECASE)
EQUAL = re.compile(r"\b(?:the )?same (?:number|amount|count|average|total|median)\b", re.IGNORECASE)
RISES = re.compile(r"\b(rose|rises?|increased?s?|grew|grows?|climbed|went up)\b", re.IGNORECASE)
FALLS = re.compile(r"\b(fell|falls?|decreased?s?|declined?s?|dropped|went down)\b", re.IGNORECASE)
STEPWISE = re.compile(r"\b(?:every|each) (?:month|year)\b", re.IGNORECASE)
EVERY_HAS = re.compile(
    r"^(?:all|every|each)\b[^.,]*?\b(?:has|have|had) (?:an?|the|its|their)?"
    r"(?: (?:known|recorded))?",
    re.IGNORECASE,
)
EVERY = re.compile(r"\b(all|every|each)\b", re.IGNORECASE)
NEGATION = re.compile(
    r"\b(not|neither|nor|except|excluding|unless|besides|apart from)\b|n't\b", re.IGNORECASE
)
"""What the forms below cannot express; such a claim stays open."""
NEVER = re.compile(r"\b(none of|never)\b", re.IGNORECASE)
MAJORITY = re.compile(
    r"\b(most of|(?<!the )most(?= \w+s\b)|the majority of|more than half of)\b", re.I
)
EXTREME_HIGH = re.compile(
    r"\b(longest|highest|largest|biggest|greatest|maximum|latest|oldest|fastest|heaviest|most)\b",
    re.I,
)
EXTREME_LOW = re.compile(
    r"\b(shortest|lowest|smallest|minimum|earliest|slowest|lightest|cheapest|fewest|least)\b", re.I
)
