"""Registry rows: people and teams, the audit chain, hardware, runtimes, workloads.

A runtime or workload has a slug and a version: once measured it does not change, an edit makes a new version.
"""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

MOST_TURNS = 50


class Role(models.TextChoices):
    VIEWER = "viewer", _("Viewer")
    OPERATOR = "operator", _("Operator")
    HOST_OWNER = "host_owner", _("Host owner")
    APPROVER = "approver", _("Approver")
    SIGNER = "signer", _("Signer")
    ADMINISTRATOR = "administrator", _("Administrator")


class Team(models.Model):
    name = models.CharField(max_length=80)
    slug = models.SlugField(unique=True)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One role of one person in one team; a person may hold several."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role.choices)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "team", "role"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.team}"


class Event(models.Model):
    """One link of the audit chain. Written only by `audit.record`; a trigger refuses UPDATE and DELETE."""

    sequence = models.PositiveBigIntegerField(unique=True)
    at = models.DateTimeField()
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT, related_name="+")
    actor = models.CharField(max_length=150)
    verb = models.CharField(max_length=60)
    subject = models.CharField(max_length=120)
    before_digest = models.CharField(max_length=64, blank=True)
    after_digest = models.CharField(max_length=64, blank=True)
    changes = models.JSONField(default=dict)
    reason = models.TextField(blank=True)
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering = ["-sequence"]
        indexes = [models.Index(fields=["subject"])]

    def __str__(self) -> str:
        return f"{self.sequence} {self.actor} {self.verb} {self.subject}"


class Registered(models.Model):
    """What every registry row carries."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    slug = models.SlugField(max_length=60)
    name = models.CharField(max_length=120)
    notes = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Hardware(Registered):
    """A host that can be loaded. What a person declares stands here; what a worker saw stands in HardwareProbe."""

    place = models.CharField(
        max_length=120, blank=True, help_text=_("Room and building, as they should stand on a statement.")
    )
    cpu = models.CharField(_("CPU"), max_length=120, blank=True)
    ram_gib = models.FloatField(_("RAM, GiB"), null=True, blank=True, validators=[MinValueValidator(0.1)])
    gpu = models.CharField(_("GPU"), max_length=160, blank=True, help_text=_("Leave empty when the host has none."))
    gpu_count = models.PositiveSmallIntegerField(_("GPUs"), default=0)
    vram_gib = models.FloatField(_("VRAM of all GPUs, GiB"), null=True, blank=True, validators=[MinValueValidator(0.1)])
    power_cap_w = models.FloatField(_("Power cap, W"), null=True, blank=True, validators=[MinValueValidator(1)])
    worker_seen_at = models.DateTimeField(null=True, blank=True, editable=False)
    worker_name = models.CharField(max_length=200, blank=True, editable=False)
    offers = models.JSONField(
        default=dict, blank=True, editable=False,
        help_text=_("What the host's own file allows, as its worker last read it: targets, launch profiles, key names."),
    )  # fmt: skip

    class Meta:
        ordering = ["slug"]
        constraints = [models.UniqueConstraint(fields=["slug"], name="hardware_slug_once")]

    def get_absolute_url(self) -> str:
        return reverse("hardware-detail", args=[self.slug])


class HardwareProbe(models.Model):
    """Facts that a worker read on the host itself: beside the declared ones, never over them. Written once."""

    hardware = models.ForeignKey(Hardware, on_delete=models.PROTECT, related_name="probes")
    at = models.DateTimeField()
    worker = models.CharField(max_length=200)
    facts = models.JSONField(default=dict)
    digest = models.CharField(max_length=64)

    class Meta:
        ordering = ["-at"]

    def __str__(self) -> str:
        return f"{self.hardware_id} at {self.at:%Y-%m-%d %H:%M}"


class WorkerKey(models.Model):
    """One enrolment of a host's worker. The one-time key is shown once and kept as its digest only; with its use comes
    the public half of the key that the worker made for itself, by which its evidence is known."""

    hardware = models.ForeignKey(Hardware, on_delete=models.PROTECT, related_name="worker_keys")
    token_sha256 = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    worker = models.CharField(max_length=200, blank=True)
    public_key = models.CharField(max_length=64, blank=True, help_text=_("Ed25519, 32 bytes in base64."))
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["hardware"],
                condition=Q(used_at__isnull=False, revoked_at__isnull=True),
                name="one_live_worker_key_per_hardware",
            ),
            models.CheckConstraint(
                condition=Q(used_at__isnull=True) | ~Q(public_key=""), name="used_key_has_public_half"
            ),
        ]

    def __str__(self) -> str:
        return f"W-{self.pk}"


class BatchingMode(models.TextChoices):
    CONTINUOUS = "continuous", _("Dynamic, continuous")
    STATIC = "static", _("Static, offline")
    MICRO = "micro", _("Application micro-batching")


class RuntimeKind(models.TextChoices):
    SIMULATOR = "simulator", _("Headroom simulator")
    LLAMACPP = "llamacpp", _("llama.cpp")
    VLLM = "vllm", _("vLLM")
    SGLANG = "sglang", _("SGLang")
    OLLAMA = "ollama", _("Ollama")
    TGI = "tgi", _("Text Generation Inference")
    TRTLLM = "trtllm", _("TensorRT-LLM")
    TRITON = "triton", _("Triton")
    LMDEPLOY = "lmdeploy", _("LMDeploy")
    OTHER = "other", _("Other, OpenAI-compatible")


class Dialect(models.TextChoices):
    """How the load engine talks to a runtime; benchmarks.engine.dialects has a module for each."""

    OPENAI_CHAT = "openai_chat", _("OpenAI chat")
    OPENAI_COMPLETIONS = "openai_completions", _("OpenAI completions")
    OPENAI_EMBEDDINGS = "openai_embeddings", _("OpenAI embeddings")
    OLLAMA_CHAT = "ollama_chat", _("Ollama, native")
    LLAMACPP_COMPLETION = "llamacpp_completion", _("llama.cpp, native")


class Versioned(Registered):
    """A registry row whose measured versions stay as they were."""

    version = models.PositiveIntegerField(default=1, editable=False)
    digest = models.CharField(max_length=64, editable=False)

    class Meta:
        abstract = True


class Runtime(Versioned):
    """One serving configuration: runtime, version, flags, model, endpoint."""

    hardware = models.ForeignKey(Hardware, on_delete=models.PROTECT, related_name="runtimes")
    kind = models.CharField(max_length=20, choices=RuntimeKind.choices)
    runtime_version = models.CharField(_("Runtime version"), max_length=80, blank=True)
    endpoint = models.URLField(
        _("Endpoint"), max_length=300, help_text=_("Base address without /v1, such as http://127.0.0.1:8080")
    )
    api_key_name = models.CharField(
        max_length=60, blank=True, help_text=_("Name of the key on the GPU host, never the key itself.")
    )
    model_name = models.CharField(_("Model"), max_length=200)
    model_digest = models.CharField(_("Model digest, SHA-256"), max_length=80, blank=True)
    tokenizer_sha256 = models.CharField(
        _("Tokeniser, SHA-256"), max_length=64, blank=True,
        help_text=_("Digest of the model's tokenizer.json on the host: it counts tokens where the server counts none."),
    )  # fmt: skip
    flags = models.TextField(blank=True, help_text=_("The launch line or flags, as started."))
    dialect = models.CharField(
        max_length=24, choices=Dialect.choices, default=Dialect.OPENAI_CHAT, help_text=_("How requests are worded.")
    )
    batching_mode = models.CharField(max_length=20, choices=BatchingMode.choices, default=BatchingMode.CONTINUOUS)
    max_active_sequences = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Sequences the runtime advances per step."),
    )
    context_per_sequence_tokens = models.PositiveIntegerField(null=True, blank=True)
    metrics_url = models.URLField(
        _("Runtime metrics"),
        max_length=300,
        blank=True,
        help_text=_("Prometheus text, such as http://127.0.0.1:8080/metrics"),
    )
    gpu_metrics_url = models.URLField(
        _("GPU metrics"),
        max_length=300,
        blank=True,
        help_text=_("A DCGM exporter, where NVML is not read on the host itself."),
    )
    launch_profile = models.CharField(
        max_length=60, blank=True,
        help_text=_("Name of a profile in the host's own file, by which its worker starts this runtime itself."),
    )  # fmt: skip
    geometry = models.JSONField(
        null=True, blank=True, help_text=_("What decides the model's memory, read from its config.json or GGUF header.")
    )
    geometry_source = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["slug", "-version"]
        constraints = [models.UniqueConstraint(fields=["team", "slug", "version"], name="runtime_version_once")]

    def get_absolute_url(self) -> str:
        return reverse("runtime-detail", args=[self.slug, self.version])

    @property
    def simulated(self) -> bool:
        return self.kind == RuntimeKind.SIMULATOR


class EndpointCheck(models.Model):
    """A look at an endpoint, or one request to it, done by the host's worker on a person's request."""

    class Kind(models.TextChoices):
        LOOK = "look", _("Look at this endpoint")
        TEST = "test", _("Test with one request")

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    hardware = models.ForeignKey(Hardware, on_delete=models.PROTECT, related_name="checks")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    runtime_kind = models.CharField(max_length=20, choices=RuntimeKind.choices, default=RuntimeKind.OTHER)
    endpoint = models.URLField(max_length=300)
    model_name = models.CharField(max_length=200, blank=True)
    api_key_name = models.CharField(max_length=60, blank=True)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(auto_now_add=True)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    finished_at = models.DateTimeField(null=True)
    result = models.JSONField(default=dict)

    class Meta:
        ordering = ["-asked_at"]

    def __str__(self) -> str:
        return f"{self.kind} {self.endpoint}"


class Workload(Versioned):
    """What is sent: synthetic prompts from a seed, in length classes with weights."""

    seed = models.PositiveIntegerField(default=7)
    source = models.CharField(
        max_length=200, blank=True, help_text=_("Preset or trace that the lengths come from, with its licence.")
    )
    task = models.CharField(
        max_length=20,
        choices=[
            ("words", _("Words of a fixed vocabulary (right by construction)")),
            ("echo", _("Repeat a sentence")),
            ("arithmetic", _("Add two numbers")),
            ("json", _("One JSON object to a schema")),
            ("label", _("Choose one of four labels")),
        ],
        default="words",
    )
    shared_prefix_share = models.FloatField(
        _("Shared beginning"),
        default=0.0,
        validators=[MinValueValidator(0), MaxValueValidator(0.95)],
        help_text=_("Share of each prompt that is one text in all of them, such as a system prompt. Caches serve it."),
    )
    turns = models.PositiveSmallIntegerField(
        _("Turns of a conversation"),
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_TURNS)],
        help_text=_("Above 1, each request carries the conversation so far; lengths are those of one new message."),
    )
    think_s = models.FloatField(
        _("Pause between turns"),
        default=0.0,
        validators=[MinValueValidator(0), MaxValueValidator(3600)],
        help_text=_("Seconds from the end of an answer to the next turn of the same conversation."),
    )
    arrivals_s = models.JSONField(
        null=True, blank=True, editable=False, help_text=_("Arrivals of the trace, seconds after its first request.")
    )

    class Meta:
        ordering = ["slug", "-version"]
        constraints = [models.UniqueConstraint(fields=["team", "slug", "version"], name="workload_version_once")]

    def get_absolute_url(self) -> str:
        return reverse("workload-detail", args=[self.slug, self.version])


class LengthClass(models.Model):
    """One class of request lengths: how often it comes, how long its prompts and answers are (tokens).

    A distribution is {"kind": "fixed"|"uniform"|"normal"|"lognormal"|"quantiles", ...}; engine.lengths reads it. With
    pairs, [[prompt, output], ...], the two lengths are drawn together and the distributions only describe them.
    """

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="classes")
    position = models.PositiveSmallIntegerField(default=0)
    name = models.SlugField(max_length=30)
    weight = models.FloatField(validators=[MinValueValidator(0.0001)])
    prompt_tokens = models.JSONField()
    output_tokens = models.JSONField()
    pairs = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["workload", "name"], name="length_class_once"),
            models.CheckConstraint(condition=Q(weight__gt=0), name="length_class_weight_positive"),
        ]

    def __str__(self) -> str:
        return self.name
