//! Values: what goes in comes out, and what must not go in does not.

use proptest::prelude::*;

use super::*;

/// Any value there can be, exotic numbers and damaged texts included.
fn any_value() -> impl Strategy<Value = Value> {
    let digits = "-?[1-9][0-9]{0,40}";
    let decimal = "-?(0|[1-9][0-9]{0,3})\\.[0-9]{1,30}(e[+-]?[0-9]{1,3})?";
    let leaf = prop_oneof![
        Just(null()),
        any::<bool>().prop_map(boolean),
        any::<i64>().prop_map(integer),
        any::<f64>().prop_filter("not a number", |it| !it.is_nan()).prop_map(float),
        digits.prop_map(|text| parse(text).unwrap()),
        decimal.prop_map(|text| parse(text).unwrap()),
        ".*".prop_map(|text| string(&text)),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(Value::utf8_str),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(Value::byte_str),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(array),
            prop::collection::vec((".{0,8}", inner), 0..8).prop_map(|members| object(
                members.iter().map(|(name, value)| (name.as_str(), value.clone()))
            )),
        ]
    })
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::encode(value, &mut minicbor::Encoder::new(&mut bytes), &mut ()).unwrap();
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Value, minicbor::decode::Error> {
    codec::decode(&mut minicbor::Decoder::new(bytes), &mut ())
}

proptest! {
    #[test]
    fn records_keep_every_digit_and_the_order_of_members(value in any_value()) {
        // The rendering for debugging tells 1 from 1.0 and shows members in their order.
        let again = decoded(&encoded(&value)).unwrap();
        prop_assert_eq!(format!("{again:?}"), format!("{value:?}"));
    }

    #[test]
    fn text_is_always_json_and_reads_back(value in any_value()) {
        let text = to_text(&value);
        serde_json::from_str::<serde_json::Value>(&text).map(drop).or_else(|error| {
            // serde_json refuses numbers beyond floating point, which JSON allows.
            if error.to_string().contains("out of range") { Ok(()) } else { Err(error) }
        }).unwrap();
        let again = parse(&text).unwrap();
        prop_assert_eq!(&text, &to_text(&again));
        prop_assert_eq!(to_text(&parse(pretty(&value)).unwrap()), text);
    }

    #[test]
    fn reading_damaged_records_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        // What can be read over can be read, and nothing else can.
        let read = decoded(&bytes);
        let passed = codec::skip(&mut minicbor::Decoder::new(&bytes));
        prop_assert_eq!(read.is_ok(), passed.is_ok());
        drop(parse(&bytes));
    }

    #[test]
    fn what_is_read_when_it_is_looked_at_is_the_same(value in any_value()) {
        let bytes = encoded(&value);
        let deferred: Deferred = minicbor::decode(&bytes).unwrap();
        prop_assert_eq!(&minicbor::to_vec(&deferred).unwrap(), &bytes);
        prop_assert_eq!(format!("{:?}", deferred.value()), format!("{value:?}"));
        prop_assert_eq!(&minicbor::to_vec(Deferred::from(value)).unwrap(), &bytes);
        prop_assert!(deferred.is_same(&deferred.clone()) || matches!(deferred.value(), Value::Num(_) | Value::BStr(_)));
    }

    #[test]
    fn bytes_that_are_off_by_a_bit_are_read_over_as_they_are_read(
        value in any_value(),
        place in any::<prop::sample::Index>(),
        bit in 0..8,
    ) {
        let mut bytes = encoded(&value);
        let place = place.index(bytes.len());
        bytes[place] ^= 1_u8 << bit;
        let (mut one, mut other) = (minicbor::Decoder::new(&bytes), minicbor::Decoder::new(&bytes));
        let (read, passed) = (codec::decode(&mut one, &mut ()), codec::skip(&mut other));
        prop_assert_eq!(read.is_ok(), passed.is_ok());
        prop_assert!(read.is_err() || one.position() == other.position());
    }

    #[test]
    fn a_cut_record_is_refused(value in any_value(), cut in any::<prop::sample::Index>()) {
        let bytes = encoded(&value);
        prop_assert!(decoded(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn equal_values_have_one_canonical_form(value in any_value()) {
        let again = parse(to_text(&value)).unwrap();
        if equal(&value, &again) {
            prop_assert_eq!(canonical_bytes(&value), canonical_bytes(&again));
        }
    }

    #[test]
    fn weight_is_near_the_length_of_the_text(value in any_value()) {
        let (weight, length) = (weight(&value, usize::MAX), to_text(&value).len());
        prop_assert!(weight <= 6 * length + 8 && length <= 6 * weight + 400, "{weight} {length}");
    }
}

#[test]
fn a_text_round_trips() {
    for text in
        ["null", "[1,2.50,\"a\\n\",{\"b\":true}]", "123456789012345678901234567890", "1e400"]
    {
        assert_eq!(to_text(&parse(text).unwrap()), text);
    }
    assert_eq!(as_str(&parse(r#""\ud83d\ude00\u00e9\/""#).unwrap()), Some("😀é/"));
}

#[test]
fn refuses_what_is_not_json_and_says_where() {
    for (text, offset) in [
        ("", 0),
        ("[1,]", 3),
        ("{\"a\" 1}", 5),
        ("{a:1}", 1),
        ("01", 1),
        ("1 2", 2),
        ("NaN", 0),
        ("\"\n\"", 1),
        ("\"a", 2),
        ("[1}", 2),
        ("+1", 0),
        ("// x\n1", 0),
        ("\"\\x\"", 3),
        ("tru", 0),
    ] {
        assert_eq!(parse(text).unwrap_err().offset, offset, "{text}");
    }
}

#[test]
fn refuses_what_is_too_deep_too_long_or_too_precise() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(nested(DEPTH_MAX)).is_ok());
    assert!(parse(nested(100_000)).is_err());
    assert!(parse(" ".repeat(TEXT_BYTES_MAX + 1)).is_err());
    assert!(parse("9".repeat(100_000)).is_err());
    assert!(decoded(&[0x81; 100_000]).is_err());
    // An array that claims more elements than there are bytes costs nothing.
    assert!(decoded(&[0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_err());
}

#[test]
fn one_and_one_point_zero_are_equal_and_have_one_canonical_form() {
    let forms =
        ["[1,{\"a\":2,\"b\":0.5}]", "[1.0,{\"b\":5e-1,\"a\":2.000}]"].map(|it| parse(it).unwrap());
    assert!(equal(&forms[0], &forms[1]));
    assert_eq!(canonical_bytes(&forms[0]), canonical_bytes(&forms[1]));
    assert_ne!(canonical_bytes(&string("1")), canonical_bytes(&integer(1)));
}

#[test]
fn what_is_no_number_is_written_as_null() {
    let values = [float(f64::NAN), float(f64::INFINITY), float(-0.0), float(1e300)];
    assert_eq!(to_text(&array(values)), "[null,null,-0.0,1e300]");
}

#[test]
fn json_trees_are_taken_over_and_given_back() {
    let json = serde_json::json!({"a": [1, -2.5, 18446744073709551615_u64, "x", null, true]});
    assert_eq!(to_json(&from_json(json.clone())), json);
}

#[test]
fn questions_about_values_are_answered() {
    let value = parse(r#"{"a":{"b":3.0},"c":false}"#).unwrap();
    assert_eq!(get(&value, "a").and_then(|it| get(it, "b")).and_then(as_i64), Some(3));
    assert_eq!(get(&value, "missing"), None);
    assert_eq!(as_i64(&float(0.5)), None);
    assert!(!truthy(get(&value, "c").unwrap()) && truthy(&integer(0)));
    assert_eq!(members(&value).map(|(name, _)| name).collect::<Vec<_>>(), ["a", "c"]);
    assert!(check(&value).is_ok());
    let odd = Value::obj([(integer(1), null())].into_iter().collect());
    assert_eq!(check(&odd).unwrap_err(), "the key of an object must be a string, not a number");
}

#[test]
fn weighing_stops_early() {
    let large = array((0..100_000).map(integer));
    assert!(weight(&array([large.clone(), large]), 10) < 200_000);
}

#[test]
fn a_member_is_found_among_few_and_among_many() {
    let of = |count: usize| {
        let names: Vec<_> = (0..count).map(|number| format!("m{number}")).collect();
        object(names.iter().map(|name| (name.as_str(), string(name))))
    };
    for count in [1, FEW, FEW + 1] {
        let value = of(count);
        let last = format!("m{}", count - 1);
        assert_eq!(get(&value, &last).and_then(as_str), Some(last.as_str()));
        assert_eq!(get(&value, "m"), None);
    }
}

#[test]
fn only_what_is_the_same_to_the_last_digit_is_known_to_be() {
    let values = || ["null", "true", "7", "\"t\"", "[1]", "{\"a\":1}"].map(|it| parse(it).unwrap());
    for value in values() {
        assert!(same(&value, &value.clone()), "{value}");
    }
    // What is equal to jq may be written in another way.
    let unlike = [("1", "1.0"), ("0.5", "0.50"), ("1e2", "100"), ("[]", "{}"), ("null", "false")];
    for (left, right) in unlike {
        assert!(!same(&parse(left).unwrap(), &parse(right).unwrap()), "{left} and {right}");
    }
    // Nobody looks into what two hold that were made apart.
    assert!(!same(&values()[5], &values()[5]));
}

#[test]
fn what_is_put_away_comes_back_the_same() {
    for text in ["null", "\"a\"", "[]", r#"{"b":[1,2.50,{"a":null}],"a":"é"}"#] {
        let value = parse(text).unwrap();
        assert_eq!(to_text(Deferred::put_away(value).value()), text);
    }
    let too_deep = (0..DEPTH_MAX + 2).fold(null(), |inner, _| array([inner]));
    assert_eq!(Deferred::put_away(too_deep.clone()).value(), &too_deep);
}
