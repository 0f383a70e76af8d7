//! What is evaluated in place, and what goes to a worker.

use outlast_expressions::{Filter, Judgement};

const VARIABLES: [&str; 4] = ["context", "input", "ids", "workflow"];

const BOUNDED: &[&str] = &[
    ".",
    ".a.b.c",
    ".a[0].b?",
    ".items[].price",
    ".[1:3]",
    ".[$input.key]",
    "$context.order.id",
    "1 + 2 * 3 - 4 / 5 % 6",
    ".price * .quantity",
    ".total *= 2",
    "-.a",
    "\"id-\\(.id)-\\($workflow.id)\"",
    "@base64 \"\\(.user):\\(.password)\"",
    "{id: .id, name: .user.name, tags: [.tags[] | ascii_downcase]}",
    "{$context, a}",
    "{(.key): .value}",
    ".a == $input.b and .c != null or (.d | not)",
    "if .a > 1 then .b elif .c then .d else .e end",
    ".a // \"none\"",
    "try .a catch \"failed\"",
    "map(.price) | add",
    "map(select(.active)) | length",
    "map(.a |= . + 1)",
    "map_values(. + 1)",
    "[.[] | .[] | .x]",
    "keys",
    "has(\"a\")",
    "any(.[]; . > 3)",
    "all(.done)",
    "to_entries | map(.value) | from_entries?",
    "with_entries(.value |= tostring)",
    "sort_by(.age) | reverse | first",
    "group_by(.kind) | map({kind: .[0].kind, count: length})",
    "unique_by(.id) | map(.id)",
    "min_by(.price).name",
    "map(tostring) | join(\", \")",
    "split(\",\") | map(tonumber)",
    "test(\"^[a-z]+@[a-z.]+$\")",
    "capture(\"(?<year>\\\\d{4})-(?<month>\\\\d{2})\")",
    "sub(\"a+\"; \"b\")",
    "gsub(\" \"; \"-\")",
    "ltrimstr(\"a\") | rtrimstr(\"b\") | ascii_upcase | trim",
    "tojson | fromjson",
    ".a = 1 | .b += 2 | del(.c)",
    ".items[] |= (.total = .price * .quantity)",
    ".. | numbers",
    "[paths]",
    "[limit(3; .[])]",
    "first(.[] | select(.ok))",
    "reduce .[] as $x (0; . + $x)",
    "reduce .items[] as $item (0; . + $item.price * $item.quantity)",
    "reduce .[] as $x ([]; . + [$x.name])",
    "reduce .[] as $x ({}; .[$x.key] = $x.value)",
    "reduce .[] as $x ({}; .[$x.kind] += 1)",
    "reduce .[] as $x ([]; if $x.ok then . + [$x] else . end)",
    ". as {a: $a, b: [$b, $c]} | $a + $b + $c",
    "[.items[] as $i | {i: $i}]",
    ".text | contains(\"needle\")",
    "todate",
    "single(.a)",
    "type == \"array\"",
    "getpath([\"a\", \"b\"])",
    "getpath(\"a.b\" | split(\".\"))",
    "map(.a * .b) | add",
    "flatten | unique",
    "@uri \"q=\\(.q)\"",
];

const UNBOUNDED: &[(&str, &str)] = &[
    ("def f: f; f", "functions of its own"),
    ("def double: . + .; double", "functions of its own"),
    ("range(5)", "`range`"),
    ("[range(0; 10; 2)]", "`range`"),
    ("repeat(1)", "`repeat`"),
    ("[limit(3; repeat(1))]", "`repeat`"),
    ("until(. > 100; . * 2)", "`until`"),
    ("[while(. < 100; . + 1)]", "`while`"),
    ("recurse(.next)", "`recurse`"),
    ("[.[] | combinations]", "`combinations`"),
    ("walk(if type == \"object\" then . else . end)", "`walk`"),
    ("transpose", "`transpose`"),
    ("label $out | .[] | if . > 3 then break $out else . end", "a label"),
    ("foreach .[] as $x (0; . + $x)", "`foreach`"),
    ("reduce .[] as $x (.; . + .)", "a fold looks"),
    ("reduce .[] as $x (\"a\"; \"\\(.)\\(.)\")", "a fold"),
    ("reduce .[] as $x (2; . * .)", "a fold"),
    ("reduce .[] as $x (null; [.])", "a fold looks"),
    ("reduce .[] as $x (null; {next: .})", "a fold looks"),
    ("reduce .[] as $x (null; . | [.])", "a fold looks"),
    ("reduce .[] as $x (null; . as $y | [$y])", "a fold looks"),
    ("reduce .[] as $x ({}; .a = .)", "a fold doubles"),
    ("reduce .[] as $x ([1]; map(. + 1))", "a fold looks"),
    ("reduce .[] as $x (0; ., 1)", "several outputs"),
    ("reduce .[] as $x ([]; if . then . + . else . end)", "a fold looks"),
    ("[.[] as $a | .[] as $b | [$a, $b]]", "much larger"),
    ("[.a[] as $a | .b[] | select(.id == $a.id)]", "much larger"),
    ("map(select(.id | IN($ids[])))", "much larger"),
    ("map(. + $context)", "much larger"),
    ("[.[] | $context]", "much larger"),
    ("[.[], .[]] | map([., .]) | [.[] as $a | .[] as $b | $a]", "larger"),
    (".|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.|.+.", "much larger"),
    (
        "[., .] | [., .] | [., .] | [., .] | [., .] | [., .] | [., .] | [., .] | [., .] | [., .] | [., .]",
        "much larger",
    ),
    ("test($input.pattern)", "not a literal"),
    ("test(\"(a{100}){100}\")", "too often"),
    ("gsub(\"\\\\s+\"; \" \")", "all matches"),
    ("[match(\".*b|a\"; \"g\")]", "all matches"),
    (".. |= .", "plain path"),
    ("setpath($ids; 1)", "`setpath`"),
    ("delpaths($ids)", "`delpaths`"),
    ("getpath($ids) |= 1", "plain path"),
    ("contains($context)", "for each of many"),
    ("join($context.separator)", "much larger"),
    ("[splits(\", *\")]", "all matches"),
    ("pick(.a)", "`pick`"),
    ("[.[] | {a: $ids}]", "much larger"),
];

fn judgement(source: &str) -> Judgement {
    let filter = Filter::compile(source, &VARIABLES);
    filter.unwrap_or_else(|error| panic!("{source}: {error}")).judgement().clone()
}

#[test]
fn what_is_bounded_by_its_input_is_evaluated_in_place() {
    let wrong: Vec<String> = BOUNDED
        .iter()
        .filter_map(|source| match judgement(source) {
            Judgement::Bounded => None,
            Judgement::Unbounded(reason) => Some(format!("{source}: {reason}")),
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_may_run_or_grow_is_left_to_a_worker_with_the_reason() {
    let wrong: Vec<String> = UNBOUNDED
        .iter()
        .filter_map(|(source, expected)| match judgement(source) {
            Judgement::Unbounded(reason) if reason.contains(expected) => None,
            other => Some(format!("{source}: {other:?}")),
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
