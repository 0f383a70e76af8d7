//! The Open Workflow language as shapes: 1.0.3 and what `main` added to it.

use super::calls;
use super::extension::{DOCUMENT_EXTENSION, TASK_EXTENSION};
use super::shape::{Key, Object, Shape, choice_object, may, must, object};

/// The keys that say what a task does.
pub(super) const TASK_KINDS: &[&str] = &[
    "call", "do", "emit", "for", "fork", "listen", "raise", "run", "set", "switch", "try", "wait",
];

pub(super) static TEXT: Shape = Shape::Text;
pub(super) static ANY: Shape = Shape::Any;
pub(super) static BOOLEAN: Shape = Shape::Boolean;
pub(super) static INTEGER: Shape = Shape::Integer(i64::MIN);
pub(super) static COUNT: Shape = Shape::Integer(0);
pub(super) static DURATION: Shape = Shape::Duration;
pub(super) static EXPRESSION: Shape = Shape::Expression;
pub(super) static WRAPPED: Shape = Shape::Wrapped;
pub(super) static URI: Shape = Shape::Uri;
pub(super) static TEXTS: Shape = Shape::List(&TEXT);
pub(super) static ANY_MAP: Shape = Shape::Map(&ANY);
pub(super) static TEXT_MAP: Shape = Shape::Map(&TEXT);
pub(super) static TASK: Shape = Shape::Task;
pub(super) static TASKS: Shape = Shape::Named("task", &TASK);
static VERSION: Shape = Shape::Version;
static LABEL: Shape = Shape::Label;
static READ: Shape = Shape::Choice(&["data", "envelope", "raw"]);

pub(super) static DOCUMENT: Object = Object {
    open: true,
    ..object(
        "a workflow",
        &[
            must("document", &Shape::Object(&HEADER)),
            may("input", &Shape::Object(&INPUT)),
            may("use", &Shape::Object(&USE)),
            must("do", &TASKS),
            may("timeout", &TIMEOUT_OR_NAME),
            may("output", &Shape::Object(&OUTPUT)),
            may("schedule", &Shape::Object(&SCHEDULE)),
            may("evaluate", &Shape::Object(&EVALUATE)),
        ],
    )
};

static HEADER: Object = object(
    "`document`",
    &[
        must("dsl", &VERSION),
        must("namespace", &LABEL),
        must("name", &LABEL),
        must("version", &VERSION),
        may("title", &TEXT),
        may("summary", &TEXT),
        may("tags", &ANY_MAP),
        may("metadata", &Shape::Metadata(&DOCUMENT_EXTENSION)),
    ],
);

static USE: Object = object(
    "`use`",
    &[
        may("authentications", &Shape::Map(&Shape::Object(&calls::AUTHENTICATION))),
        may("errors", &Shape::Map(&Shape::Object(&ERROR))),
        may("extensions", &Shape::Named("extension", &Shape::Object(&EXTENSION))),
        may("functions", &Shape::Map(&TASK)),
        may("retries", &Shape::Map(&Shape::Object(&RETRY))),
        may("secrets", &TEXTS),
        may("timeouts", &Shape::Map(&Shape::Object(&TIMEOUT))),
        may("catalogs", &Shape::Map(&Shape::Object(&CATALOG))),
    ],
);

static SCHEDULE: Object = object(
    "`schedule`",
    &[
        may("every", &Shape::CalendarDuration),
        may("cron", &TEXT),
        may("after", &Shape::CalendarDuration),
        may("on", &Shape::Object(&STRATEGY)),
        may("read", &READ),
    ],
);

static EVALUATE: Object = object(
    "`evaluate`",
    &[may("language", &TEXT), may("mode", &Shape::Choice(&["strict", "loose"]))],
);

static CATALOG: Object = object("a catalog", &[must("endpoint", &calls::ENDPOINT)]);

static EXTENSION: Object = object(
    "an extension",
    &[
        must(
            "extend",
            &Shape::Choice(&[
                "call",
                "composite",
                "emit",
                "for",
                "listen",
                "raise",
                "run",
                "set",
                "switch",
                "try",
                "wait",
                "all",
            ]),
        ),
        may("when", &EXPRESSION),
        may("before", &TASKS),
        may("after", &TASKS),
    ],
);

/// The keys that every task may have.
pub(super) static BASE: &[Key] = &[
    may("if", &EXPRESSION),
    may("input", &Shape::Object(&INPUT)),
    may("output", &Shape::Object(&OUTPUT)),
    may("export", &Shape::Object(&EXPORT)),
    may("timeout", &TIMEOUT_OR_NAME),
    may("then", &TEXT),
    may("metadata", &Shape::Metadata(&TASK_EXTENSION)),
];

/// The keys of each kind of task, besides those of every task. `call` has its own table.
pub(super) fn kind_keys(kind: &str) -> &'static [Key] {
    match kind {
        "call" => CALL,
        "do" => DO,
        "emit" => EMIT,
        "for" => FOR,
        "fork" => FORK,
        "listen" => LISTEN,
        "raise" => RAISE,
        "run" => RUN,
        "set" => SET,
        "switch" => SWITCH,
        "try" => TRY,
        "wait" => WAIT,
        _ => &[],
    }
}

static CALL: &[Key] = &[must("call", &TEXT), may("with", &ANY_MAP)];
static DO: &[Key] = &[must("do", &TASKS)];
static WAIT: &[Key] = &[must("wait", &DURATION)];
static SET: &[Key] = &[must("set", &Shape::MapOr(&ANY, &TEXT))];
static EMIT: &[Key] = &[must("emit", &Shape::Object(&EMISSION))];
static EMISSION: Object = object("`emit`", &[must("event", &Shape::Object(&EVENT))]);
static EVENT: Object =
    Object { open: true, ..object("`event`", &[must("with", &Shape::Object(&EVENT_TO_EMIT))]) };
static EVENT_TO_EMIT: Object = Object {
    open: true,
    ..object("the attributes of an event", &[must("type", &TEXT), may("source", &TEXT)])
};

static FOR: &[Key] =
    &[must("for", &Shape::Object(&LOOP)), may("while", &EXPRESSION), must("do", &TASKS)];
static LOOP: Object = object(
    "`for`",
    &[may("each", &TEXT), must("in", &Shape::ListOr(&ANY, &EXPRESSION)), may("at", &TEXT)],
);

static FORK: &[Key] = &[must("fork", &Shape::Object(&BRANCHES))];
static BRANCHES: Object = object("`fork`", &[must("branches", &TASKS), may("compete", &BOOLEAN)]);

static LISTEN: &[Key] =
    &[must("listen", &Shape::Object(&LISTENER)), may("foreach", &Shape::Object(&FOREACH))];
static LISTENER: Object =
    object("`listen`", &[must("to", &Shape::Object(&STRATEGY)), may("read", &READ)]);
pub(super) static FOREACH: Object = object(
    "`foreach`",
    &[
        may("item", &TEXT),
        may("at", &TEXT),
        may("do", &TASKS),
        may("output", &Shape::Object(&OUTPUT)),
        may("export", &Shape::Object(&EXPORT)),
    ],
);
static STRATEGY: Object = choice_object(
    "an event strategy",
    &["all", "any", "one"],
    &[
        may("all", &Shape::List(&Shape::Object(&FILTER))),
        may("any", &Shape::List(&Shape::Object(&FILTER))),
        may("one", &Shape::Object(&FILTER)),
        may("until", &Shape::ObjectOr(&STRATEGY, &EXPRESSION, "a jq expression")),
    ],
);
static FILTER: Object = object(
    "an event filter",
    &[must("with", &ANY_MAP), may("correlate", &Shape::Map(&Shape::Object(&CORRELATION)))],
);
static CORRELATION: Object = Object {
    open: true,
    ..object("a correlation", &[must("from", &EXPRESSION), may("expect", &TEXT)])
};

static RAISE: &[Key] = &[must("raise", &Shape::Object(&RAISED))];
static RAISED: Object = object(
    "`raise`",
    &[must("error", &Shape::ObjectOr(&ERROR, &TEXT, "the name of an error in `use.errors`"))],
);
static ERROR: Object = object(
    "an error",
    &[
        must("type", &Shape::Either(&URI, &WRAPPED, "a URI, or a jq expression in `${ }`")),
        must("status", &INTEGER),
        may("instance", &TEXT),
        may("title", &TEXT),
        may("detail", &TEXT),
    ],
);

static RUN: &[Key] = &[must("run", &Shape::Object(&calls::PROCESS))];

static SWITCH: &[Key] = &[must("switch", &Shape::Named("case", &Shape::Object(&CASE)))];
static CASE: Object = object("a case", &[may("when", &EXPRESSION), must("then", &TEXT)]);

static TRY: &[Key] = &[must("try", &TASKS), must("catch", &Shape::Object(&CATCH))];
static CATCH: Object = object(
    "`catch`",
    &[
        may("errors", &Shape::Object(&CAUGHT)),
        may("as", &TEXT),
        may("when", &EXPRESSION),
        may("exceptWhen", &EXPRESSION),
        may("retry", &RETRY_OR_NAME),
        may("do", &TASKS),
        may("then", &TEXT),
    ],
);
static CAUGHT: Object = object("`errors`", &[may("with", &Shape::Object(&ERROR_FILTER))]);
static ERROR_FILTER: Object = object(
    "an error filter",
    &[
        may("type", &TEXT),
        may("status", &INTEGER),
        may("instance", &TEXT),
        may("title", &TEXT),
        may("detail", &TEXT),
    ],
);

pub(super) static RETRY_OR_NAME: Shape =
    Shape::ObjectOr(&RETRY, &TEXT, "the name of a policy in `use.retries`");
static RETRY: Object = object(
    "a retry policy",
    &[
        may("when", &EXPRESSION),
        may("exceptWhen", &EXPRESSION),
        may("delay", &DURATION),
        may("backoff", &Shape::Object(&BACKOFF)),
        may("limit", &Shape::Object(&LIMIT)),
        may("jitter", &Shape::Object(&JITTER)),
    ],
);
static BACKOFF: Object = choice_object(
    "`backoff`",
    &["constant", "exponential", "linear"],
    &[may("constant", &ANY_MAP), may("exponential", &ANY_MAP), may("linear", &ANY_MAP)],
);
static LIMIT: Object =
    object("`limit`", &[may("attempt", &Shape::Object(&ATTEMPT)), may("duration", &DURATION)]);
static ATTEMPT: Object = object("`attempt`", &[may("count", &COUNT), may("duration", &DURATION)]);
static JITTER: Object = object("`jitter`", &[must("from", &DURATION), must("to", &DURATION)]);

pub(super) static TIMEOUT_OR_NAME: Shape =
    Shape::ObjectOr(&TIMEOUT, &TEXT, "the name of a timeout in `use.timeouts`");
static TIMEOUT: Object = object("a timeout", &[must("after", &DURATION)]);

static INPUT: Object = object(
    "`input`",
    &[may("schema", &Shape::Object(&SCHEMA)), may("from", &Shape::MapOr(&ANY, &EXPRESSION))],
);
static OUTPUT: Object = object(
    "`output`",
    &[may("schema", &Shape::Object(&SCHEMA)), may("as", &Shape::MapOr(&ANY, &EXPRESSION))],
);
static EXPORT: Object = object(
    "`export`",
    &[may("schema", &Shape::Object(&SCHEMA)), may("as", &Shape::MapOr(&ANY, &EXPRESSION))],
);
static SCHEMA: Object = choice_object(
    "a schema",
    &["document", "resource"],
    &[
        may("format", &TEXT),
        may("document", &ANY),
        may("resource", &Shape::Object(&calls::RESOURCE)),
    ],
);
