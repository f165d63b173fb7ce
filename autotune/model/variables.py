"""Which environment variables a configuration may set, and to what.

Knob files, stored studies and best.yaml files come from other people too, so what they set must not
decide which code runs, where data goes, or what is read and written. A person can still set such
variables for a launch themselves.

Sources: glibc 2.40 sysdeps/generic/unsecvars.h, CPython 3.13 "Environment variables", bash 5.2,
NCCL 2.31 src/plugin and src/misc/param.cc, CUDA 13 CUPTI and NVTX 3, libfabric 2.3, rdma-core 57.
"""

import re

from autotune.model.secrets import is_secret_name, redacted

OWN_PREFIX = "AUTOTUNE_"
"""Variables that exports set from the settings themselves, and the launcher for its ranks."""
HINT = "set it yourself for the launch, if you mean it: it then holds in every trial"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_RANKS = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
    "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "NCCL_COMM_ID", "CUDA_VISIBLE_DEVICES",
}  # fmt: skip
_OF_RANKS_PREFIXES = (OWN_PREFIX, "TORCHELASTIC_", "PET_")
_CODE = {
    # programs, shells, interpreters
    "PATH", "IFS", "ENV", "BASH_ENV", "SHELL", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE",
    "PROMPT_COMMAND", "PS4", "EDITOR", "VISUAL", "PAGER", "BROWSER", "PERL5LIB", "PERL5OPT",
    "RUBYLIB", "RUBYOPT", "NODE_OPTIONS", "NODE_PATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS",
    "CC", "CXX", "NVCC", "CFLAGS", "CXXFLAGS", "LDFLAGS", "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    # the C library
    "GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "HOSTALIASES", "LOCALDOMAIN", "LOCPATH",
    "MALLOC_TRACE", "NIS_PATH", "NLSPATH", "RESOLV_HOST_CONF", "RES_OPTIONS", "TMPDIR", "TEMP",
    "TMP", "TZDIR", "HOME", "USER", "LOGNAME", "PWD", "OLDPWD",
    # drivers and tools by name
    "RDMAV_DRIVERS", "IBV_DRIVERS", "TORCH_DEVICE_BACKEND_AUTOLOAD",
}  # fmt: skip
_CODE_PREFIXES = ("LD_", "PYTHON", "BASH_FUNC_", "DYLD_", "GIT_", "SSH_", "OMPI_MCA_", "PMIX_MCA_")
_PLACES = re.compile(
    r"(^|_)(PATH|PRELOAD|LIB|LIBS|LIBRARY|LIBRARIES|PLUGIN|PLUGINS|FILE|FILES|DIR|DIRS|FOLDER|ROOT"
    r"|HOME|INJECTION64|PROXY|ENDPOINT|URL|URI|BUNDLE)$"
)
"""Last words of names whose value is a file, a library or an address."""
_NETWORKS = {"NCCL_IB_ADDR_RANGE"}
_NETWORK = re.compile(r"[0-9a-fA-F.:]+/[0-9]{1,3}")
"""An address and the bits of it that count, which only those variables may have."""
_NO_PLACE = ("none", "off", "")
"""What such a variable may have as its value: nothing is read then."""
_LONGEST = 4096
"""Characters of a value: 30 times what the longest real one has."""


def name_fault(name: str) -> str:
    """Why a configuration may not set the variable `name`, as a rule; empty if it may."""
    upper = name.upper()
    if not _NAME.fullmatch(name):
        return "has to be a variable's name: letters, digits and _, no digit first"
    if upper in _OF_RANKS or upper.startswith(_OF_RANKS_PREFIXES):
        return "is set by autotune or the launcher, for each rank"
    if upper in _CODE or upper.startswith(_CODE_PREFIXES):
        return "can't be set by a configuration: it decides what code runs, or where"
    if is_secret_name(name):
        return "can't be set by a configuration: it is named like a secret"
    return ""


def value_fault(name: str, value: str) -> str:
    """Why a configuration may not set `name` to `value`, as a rule; empty if it may."""
    if any(_is_control(character) for character in value):
        return "has to be one line without control characters"
    if len(value) > _LONGEST:
        return f"has to have at most {_LONGEST} characters"
    if _PLACES.search(name.upper()) and value.lower() not in _NO_PLACE:
        return "can't be set by a configuration: it names a file, a library or an address"
    is_network = name.upper() in _NETWORKS and _NETWORK.fullmatch(value)
    if "/" in value and not is_network:
        return "can't be set by a configuration: it is a path or an address"
    return "can't be set by a configuration: it looks like a secret" * (redacted(value) != value)


def _is_control(character: str) -> bool:
    # Lone surrogates stand for bytes that aren't UTF-8; no file of ours can hold them.
    return (character < " " and character != "\t") or "\x7f" <= character <= "\x9f" or (
        "\ud800" <= character <= "\udfff"
    )  # fmt: skip
