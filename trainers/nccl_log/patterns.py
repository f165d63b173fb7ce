"""The forms of NCCL's lines.

Every pattern is matched at one place or begins with a literal, and every repetition is of one
character class with an upper limit, so that none backtracks over more than one word.
"""

import re

NAME = r"NCCL_[A-Z0-9_]{1,64}"
COUNT = r"[0-9]{1,9}"
BYTES = r"[0-9]{1,19}"
WORD = r"[A-Za-z0-9_]{1,40}"
NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"

VERSION = re.compile(
    r"NCCL version ([0-9]{1,4}(?:\.[0-9]{1,4}){1,3}[0-9A-Za-z.-]{0,16})"
    r"(?:\+cuda([0-9]{1,3}(?:\.[0-9]{1,3}){0,2}))?"
)
TAKEN = re.compile(rf"({NAME}) set(?: by environment)? to(?: (.{{0,1024}}))?$")
INVALID_VALUE = re.compile(rf"Invalid value .{{0,256}} for ({NAME}), using default ")
REFUSED = (
    INVALID_VALUE,
    re.compile(rf"Invalid ({NAME}) "),
    re.compile(rf"({NAME}) -?{COUNT} is too low"),
    re.compile(rf"({NAME}) is greater than the maximum allowed"),
    re.compile(rf"the total number of sockets is greater than .{{0,64}}, setting ({NAME}) to "),
)
"""Each matched at the line's start, after a `NET/Socket : ` where there is one."""
NET_PREFIX = re.compile(r"NET/[A-Za-z]{1,16} ?: ")

INJECTED = (
    re.compile(r"Adding ([A-Z][A-Z0-9_]{1,64})=(.{0,512}) to environment$"),
    re.compile(r"Setting ([A-Z][A-Z0-9_]{1,64}) (?:environment variable )?to \"?([^\"]{0,512})"),
    re.compile(r"Setting ([A-Z][A-Z0-9_]{1,64})='?([^' ]{0,64})"),
)
"""Of the AWS plugin: 1.17 and newer, older ones, and those that force a protocol."""
FORCED_SIMPLE = re.compile(
    r"Need to force simple protocol|Setting NCCL_PROTO(?:=| to )['\"]?simple"
)
PLUGIN = re.compile(r"(?:Initializing|Using) (aws-ofi-nccl) ([0-9A-Za-z.+_-]{1,40})")
PROVIDER = re.compile(
    r"Selected [Pp]rovider is ([A-Za-z0-9;_.-]{1,64})"
    rf"(?:(?:, fabric is .{{1,128}})? \(found ({COUNT}) nics\))?"
)
NETWORK = re.compile(r"Using network ([A-Za-z0-9][A-Za-z0-9 _.-]{0,63})$")
DEVICE = re.compile(r"\[[0-9]{1,4}\]([A-Za-z0-9_.-]{1,64})[:@]")
SOCKETS = re.compile(rf"Using ({COUNT}) threads and ({COUNT}) sockets per thread")
P2P_CHUNK = re.compile(rf"P2P Chunksize set to ({BYTES})$")
NVLS = re.compile(r"NVLS multicast support is (not )?available on ")

COMMUNICATOR = re.compile(
    rf"(?:\[Rank {COUNT}\] )?(?:({WORD}) )?comm (0x[0-9a-fA-F]{{1,16}}) "
    rf"rank ({COUNT}) n[rR]anks ({COUNT})(?: |$)"
)
NODES = re.compile(rf" nNodes ({COUNT})(?: |$)")
LOCAL_RANKS = re.compile(rf" localRanks ({COUNT})(?: |$)")
IDENTITY = re.compile(r" commId (0x[0-9a-fA-F]{1,32})")
STAGE = re.compile(r"- (Init COMPLETE|Destroy COMPLETE|Abort COMPLETE)$")
CHANNELS = re.compile(
    rf"({COUNT}) coll channels,(?: ({COUNT}) collnet channels,)?(?: ({COUNT}) nvls channels,)?"
    rf" ({COUNT}) p2p channels, ({COUNT}) p2p channels per peer$"
)
PATTERN = re.compile(
    rf"Pattern ({COUNT}), crossNic ({COUNT}), nChannels ({COUNT}), "
    rf"(?:bw|speed) ({NUMBER})/({NUMBER}), type ({WORD})/({WORD}), sameChannels ([01])$"
)
CHOICE = re.compile(
    rf"(?:({WORD}): )?({BYTES}) Bytes -> Algo ({WORD}) proto ({WORD})"
    rf"(?: channel\{{Lo\.\.Hi\}}=\{{({COUNT})\.\.({COUNT})\}})?(?: time {NUMBER})?$"
)
INPUT = re.compile(rf"\.func = ({WORD}),.{{0,160}}?\.nBytes = ({BYTES}),")
BEST = re.compile(rf"\.algo = ({WORD}), \.proto = ({WORD}), \.symKernelId = ({WORD}),")
BEST_CHANNELS = re.compile(rf" \.?nChannels = ({COUNT}),")
NOTE = re.compile(
    rf"Comm config {WORD} reset to |m(?:in|ax)CTAs {COUNT} is |User asked for a m(?:in|ax)imum of "
    rf"|NCCL_[A-Z_]{{1,40}} -?{COUNT} is too low"
)
NO_ALGORITHM = re.compile(r"(?:Error : )?no algorithm/protocol ", re.IGNORECASE)
BAD_SELECTION = re.compile(
    r"Unrecognized (?:element|prefix) token |All entries except the first must have a prefix"
)
