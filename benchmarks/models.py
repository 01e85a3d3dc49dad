"""All rows of the measuring side; the definitions stand in registry_models.py and grid_models.py."""

from benchmarks.grid_models import Attempt, Authorization, Cell, Conditions, Evidence, EvidenceChunk, Grid, PowerSource
from benchmarks.registry_models import (
    BatchingMode,
    Dialect,
    EndpointCheck,
    Event,
    Hardware,
    HardwareProbe,
    LengthClass,
    Membership,
    Role,
    Runtime,
    RuntimeKind,
    Team,
    Versioned,
    Workload,
)

__all__ = [
    "Attempt",
    "Authorization",
    "BatchingMode",
    "Cell",
    "Conditions",
    "Dialect",
    "EndpointCheck",
    "Event",
    "Evidence",
    "EvidenceChunk",
    "Grid",
    "Hardware",
    "HardwareProbe",
    "LengthClass",
    "Membership",
    "PowerSource",
    "Role",
    "Runtime",
    "RuntimeKind",
    "Team",
    "Versioned",
    "Workload",
]
