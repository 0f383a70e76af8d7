//! The arguments of the built-in functions, processes, endpoints and authentication.

use super::grammar::{
    ANY, ANY_MAP, BOOLEAN, COUNT, DURATION, FOREACH, INTEGER, TEXT, TEXT_MAP, TEXTS, URI, WRAPPED,
};
use super::shape::{Object, Shape, choice_object, may, must, object};

/// The arguments of a built-in function; nothing for functions that documents or catalogs define.
pub(super) fn arguments(function: &str) -> Option<&'static Object> {
    Some(match function {
        "http" => &HTTP,
        "openapi" => &OPENAPI,
        "grpc" => &GRPC,
        "asyncapi" => &ASYNCAPI,
        "a2a" => &A2A,
        "mcp" => &MCP,
        _ => return None,
    })
}

static HTTP_OUTPUT: Shape = Shape::Choice(&["raw", "content", "response"]);

static HTTP: Object = object(
    "the arguments of `http`",
    &[
        must("method", &TEXT),
        must("endpoint", &ENDPOINT),
        may("headers", &Shape::MapOr(&TEXT, &WRAPPED)),
        may("body", &ANY),
        may("query", &Shape::MapOr(&TEXT, &WRAPPED)),
        may("output", &HTTP_OUTPUT),
        may("redirect", &BOOLEAN),
    ],
);

static OPENAPI: Object = object(
    "the arguments of `openapi`",
    &[
        must("document", &Shape::Object(&RESOURCE)),
        must("operationId", &TEXT),
        may("parameters", &ANY_MAP),
        may("authentication", &Shape::Object(&AUTHENTICATION_OR_USE)),
        may("output", &HTTP_OUTPUT),
        may("redirect", &BOOLEAN),
    ],
);

static GRPC: Object = object(
    "the arguments of `grpc`",
    &[
        must("proto", &Shape::Object(&RESOURCE)),
        must("service", &Shape::Object(&GRPC_SERVICE)),
        must("method", &TEXT),
        may("arguments", &ANY_MAP),
    ],
);
static GRPC_SERVICE: Object = object(
    "a grpc service",
    &[
        must("name", &TEXT),
        must("host", &TEXT),
        may("port", &COUNT),
        may("authentication", &Shape::Object(&AUTHENTICATION_OR_USE)),
    ],
);

static ASYNCAPI: Object = choice_object(
    "the arguments of `asyncapi`",
    &["message", "subscription"],
    &[
        must("document", &Shape::Object(&RESOURCE)),
        may("channel", &TEXT),
        may("operation", &TEXT),
        may("server", &Shape::Object(&ASYNCAPI_SERVER)),
        may(
            "protocol",
            &Shape::Choice(&[
                "amqp",
                "amqp1",
                "anypointmq",
                "googlepubsub",
                "http",
                "ibmmq",
                "jms",
                "kafka",
                "mercure",
                "mqtt",
                "mqtt5",
                "nats",
                "pulsar",
                "redis",
                "sns",
                "solace",
                "sqs",
                "stomp",
                "ws",
            ]),
        ),
        may("message", &Shape::Object(&ASYNCAPI_MESSAGE)),
        may("subscription", &Shape::Object(&SUBSCRIPTION)),
        may("authentication", &Shape::Object(&AUTHENTICATION_OR_USE)),
    ],
);
static ASYNCAPI_SERVER: Object =
    object("an asyncapi server", &[must("name", &TEXT), may("variables", &ANY_MAP)]);
static ASYNCAPI_MESSAGE: Object =
    object("a message", &[may("payload", &ANY_MAP), may("headers", &ANY_MAP)]);
static SUBSCRIPTION: Object = object(
    "a subscription",
    &[
        may("filter", &WRAPPED),
        must("consume", &Shape::Object(&CONSUMPTION)),
        may("foreach", &Shape::Object(&FOREACH)),
    ],
);
static CONSUMPTION: Object = choice_object(
    "`consume`",
    &["amount", "while", "until"],
    &[
        may("for", &DURATION),
        may("amount", &INTEGER),
        may("while", &WRAPPED),
        may("until", &WRAPPED),
    ],
);

static A2A: Object = object(
    "the arguments of `a2a`",
    &[
        may("agentCard", &Shape::Object(&RESOURCE)),
        may("server", &ENDPOINT),
        must(
            "method",
            &Shape::Choice(&[
                "message/send",
                "message/stream",
                "tasks/get",
                "tasks/list",
                "tasks/cancel",
                "tasks/resubscribe",
                "tasks/pushNotificationConfig/set",
                "tasks/pushNotificationConfig/get",
                "tasks/pushNotificationConfig/list",
                "tasks/pushNotificationConfig/delete",
                "agent/getAuthenticatedExtendedCard",
            ]),
        ),
        may("parameters", &Shape::MapOr(&ANY, &TEXT)),
    ],
);

static MCP: Object = Object {
    open: true,
    ..object(
        "the arguments of `mcp`",
        &[must("method", &TEXT), must("transport", &Shape::Object(&MCP_TRANSPORT))],
    )
};
static MCP_TRANSPORT: Object = choice_object(
    "`transport`",
    &["http", "stdio"],
    &[may("http", &ANY_MAP), may("stdio", &ANY_MAP), may("options", &TEXT_MAP)],
);

/// `run`.
pub(super) static PROCESS: Object = choice_object(
    "`run`",
    &["container", "script", "shell", "workflow"],
    &[
        may("await", &BOOLEAN),
        may("return", &Shape::Choice(&["stdout", "stderr", "code", "all", "none"])),
        may("container", &Shape::Object(&CONTAINER)),
        may("script", &Shape::Object(&SCRIPT)),
        may("shell", &Shape::Object(&SHELL)),
        may("workflow", &Shape::Object(&WORKFLOW)),
    ],
);
static CONTAINER: Object = object(
    "a container",
    &[
        must("image", &TEXT),
        may("name", &TEXT),
        may("command", &TEXT),
        may("ports", &ANY_MAP),
        may("volumes", &ANY_MAP),
        may("environment", &ANY_MAP),
        may("stdin", &TEXT),
        may("arguments", &TEXTS),
        may("lifetime", &Shape::Object(&LIFETIME)),
        may("pullPolicy", &Shape::Choice(&["ifNotPresent", "always", "never"])),
    ],
);
static LIFETIME: Object = object(
    "`lifetime`",
    &[must("cleanup", &Shape::Choice(&["always", "never", "eventually"])), may("after", &DURATION)],
);
static SCRIPT: Object = choice_object(
    "a script",
    &["code", "source"],
    &[
        must("language", &TEXT),
        may("code", &TEXT),
        may("source", &Shape::Object(&RESOURCE)),
        may("stdin", &TEXT),
        may("arguments", &TEXTS),
        may("environment", &ANY_MAP),
    ],
);
static SHELL: Object = object(
    "a shell command",
    &[
        must("command", &TEXT),
        may("stdin", &TEXT),
        may("arguments", &TEXTS),
        may("environment", &ANY_MAP),
    ],
);
static WORKFLOW: Object = object(
    "a workflow to run",
    &[
        must("namespace", &TEXT),
        must("name", &TEXT),
        must("version", &TEXT),
        may("input", &ANY_MAP),
    ],
);

pub(super) static RESOURCE: Object =
    object("an external resource", &[may("name", &TEXT), must("endpoint", &ENDPOINT)]);

static URI_OR_EXPRESSION: Shape =
    Shape::Either(&URI, &WRAPPED, "a URI, or a jq expression in `${ }`");
pub(super) static ENDPOINT: Shape =
    Shape::ObjectOr(&ENDPOINT_OBJECT, &URI_OR_EXPRESSION, "a URI, a jq expression in `${ }`");
static ENDPOINT_OBJECT: Object = object(
    "an endpoint",
    &[
        must("uri", &URI_OR_EXPRESSION),
        may("authentication", &Shape::Object(&AUTHENTICATION_OR_USE)),
    ],
);

static AUTHENTICATION_OR_USE: Object = choice_object(
    "authentication",
    &["use", "basic", "bearer", "digest", "oauth2", "oidc"],
    &[
        may("use", &TEXT),
        may("basic", &Shape::Object(&PASSWORD)),
        may("bearer", &Shape::Object(&TOKEN)),
        may("digest", &Shape::Object(&PASSWORD)),
        may("oauth2", &ANY_MAP),
        may("oidc", &ANY_MAP),
    ],
);
pub(super) static AUTHENTICATION: Object = Object {
    one_of: &["basic", "bearer", "digest", "oauth2", "oidc"],
    open: false,
    what: "authentication",
    keys: &[
        may("basic", &Shape::Object(&PASSWORD)),
        may("bearer", &Shape::Object(&TOKEN)),
        may("digest", &Shape::Object(&PASSWORD)),
        may("oauth2", &ANY_MAP),
        may("oidc", &ANY_MAP),
    ],
};
static PASSWORD: Object = choice_object(
    "a user name and a password",
    &["use", "username"],
    &[may("use", &TEXT), may("username", &TEXT), may("password", &TEXT)],
);
static TOKEN: Object =
    choice_object("a token", &["use", "token"], &[may("use", &TEXT), may("token", &TEXT)]);
