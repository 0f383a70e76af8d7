//! The `metadata.outlast` block as shapes.

use super::grammar::{
    ANY, BOOLEAN, DURATION, EXPRESSION, RETRY_OR_NAME, TASKS, TEXT, TEXTS, TIMEOUT_OR_NAME,
};
use super::shape::{Key, Object, Shape, choice_object, may, must, object};

static POSITIVE: Shape = Shape::Integer(1);
static COUNT: Shape = Shape::Integer(0);
static NUMBER: Shape = Shape::Number;

/// `document.metadata.outlast`.
pub(super) static DOCUMENT_EXTENSION: Object = object(
    "the `outlast` block of a document",
    &[
        may("version", &TEXT),
        may("onFault", &Shape::Choice(&["leave", "compensate"])),
        may("survival", &Shape::Object(&SURVIVAL)),
        may("placement", &Shape::Object(&PLACEMENT)),
    ],
);

/// `metadata.outlast` of a task.
pub(super) static TASK_EXTENSION: Object = object("the `outlast` block of a task", TASK_KEYS);

static TASK_KEYS: &[Key] = &[
    may("scope", &BOOLEAN),
    may(
        "class",
        &Shape::Choice(&[
            "readonly",
            "compensatable",
            "retriable",
            "compensatable-retriable",
            "pivot",
        ]),
    ),
    may("compensation", &Shape::Object(&COMPENSATION)),
    may("idempotency", &Shape::Object(&IDEMPOTENCY)),
    may("alternatives", &TEXTS),
    may("survival", &Shape::Object(&SURVIVAL)),
    may("placement", &Shape::Object(&PLACEMENT)),
    may("join", &Shape::Object(&JOIN)),
    may("concurrency", &POSITIVE),
    may("stream", &Shape::Object(&STREAM)),
];

/// What undoing may cost.
pub(in super::super) const COST: &str =
    "a number of at least 0, or a jq expression in `${ }` that gives one";

static COMPENSATION: Object = choice_object(
    "`compensation`",
    &["use", "do", "none"],
    &[
        may("use", &TEXT),
        may("do", &TASKS),
        may("none", &BOOLEAN),
        may("capture", &Shape::MapOr(&ANY, &EXPRESSION)),
        may("cost", &Shape::Either(&NUMBER, &EXPRESSION, COST)),
        may("retry", &RETRY_OR_NAME),
        may("timeout", &TIMEOUT_OR_NAME),
        may("tolerant", &BOOLEAN),
    ],
);

static IDEMPOTENCY: Object =
    object("`idempotency`", &[may("key", &TEXT), may("header", &TEXT), may("none", &BOOLEAN)]);

static SURVIVAL: Object = object(
    "`survival`",
    &[
        must(
            "strategy",
            &Shape::Choice(&[
                "none",
                "passive",
                "active",
                "partition-tolerant",
                "backups",
                "ring",
                "monitors",
            ]),
        ),
        may("replicas", &POSITIVE),
        may("voteThreshold", &POSITIVE),
        may("backups", &COUNT),
        may("ring", &Shape::Object(&RING)),
        may("monitors", &Shape::Object(&MONITORS)),
        may("heartbeat", &DURATION),
        may("electionWait", &DURATION),
        may("acknowledge", &Shape::Choice(&["none", "majority"])),
        may("pivots", &Shape::Choice(&["anywhere"])),
        may("budget", &NUMBER),
    ],
);
static RING: Object = object("`ring`", &[may("copies", &POSITIVE), may("key", &TEXT)]);
static MONITORS: Object =
    object("`monitors`", &[may("count", &POSITIVE), may("suspectAfter", &DURATION)]);

static PLACEMENT: Object = object(
    "`placement`",
    &[
        may("requires", &TEXTS),
        may("prefers", &TEXTS),
        may("near", &TEXT),
        may("avoid", &TEXTS),
        may("spread", &Shape::Choice(&["node", "rack", "zone", "region"])),
    ],
);

static JOIN: Object = object(
    "`join`",
    &[
        may("primary", &TEXT),
        may("condition", &Shape::Either(&POSITIVE, &EXPRESSION, "a number, or a jq expression")),
    ],
);

static STREAM: Object = object(
    "`stream`",
    &[
        must("role", &Shape::Choice(&["source", "operator", "sink"])),
        may("inputs", &TEXTS),
        may("outputs", &TEXTS),
        may("order", &Shape::Choice(&["total", "per-key", "none"])),
        may("key", &EXPRESSION),
        may("delivery", &Shape::Choice(&["at-most-once", "at-least-once", "effectively-once"])),
        may("buffer", &POSITIVE),
        may("state", &Shape::Object(&STATE)),
    ],
);
static STATE: Object = object(
    "`state`",
    &[
        may("name", &TEXT),
        may("initial", &ANY),
        may("snapshot", &Shape::Choice(&["full", "delta"])),
        may("checkpoint", &Shape::Object(&CHECKPOINT)),
    ],
);
static CHECKPOINT: Object =
    object("`checkpoint`", &[may("every", &DURATION), may("items", &POSITIVE)]);
