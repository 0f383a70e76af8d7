//! What messages are made of, read off their bytes: tests lose some words and not others.

use minicbor::{Decoder, Encoder};

/// An execution as every replica must know it, by itself or before other words.
pub(crate) const BEGIN: u8 = 1;
pub(crate) const OTHERWISE: u8 = 11;
pub(crate) const DEFINITIONS_OFFERED: u8 = 18;
pub(crate) const HOLDS: u8 = WORD + 1;
pub(crate) const REPLICA: u8 = WORD + 2;
pub(crate) const PAXOS: u8 = WORD + 3;
pub(crate) const PAXOS_OF_HOLDERS: u8 = WORD + 4;
pub(crate) const FORGETTING: u8 = WORD + 5;
pub(crate) const HEARD: u8 = WORD + 6;

/// The envelope that has words on an execution in it.
const WORDS: u8 = 17;
/// The number of a word begins here, that of an envelope ends before.
const WORD: u8 = 100;

/// The kinds of all that a message is made of.
pub(crate) fn kinds_of(message: &[u8]) -> Vec<u8> {
    match words_of(message) {
        Some(Words { words, .. }) => words.into_iter().map(|(kind, _)| kind).collect(),
        None => vec![envelope_of(&mut Decoder::new(&message[1..]))],
    }
}

/// A message without its words of some kinds; nothing if nothing is left of it.
pub(crate) fn without(message: &[u8], is_lost: impl Fn(u8) -> bool) -> Option<Vec<u8>> {
    let Some(Words { before, words }) = words_of(message) else {
        return (!kinds_of(message).into_iter().any(is_lost)).then(|| message.to_vec());
    };
    let kept: Vec<&[u8]> =
        words.iter().filter(|(kind, _)| !is_lost(*kind)).map(|(_, word)| *word).collect();
    (!kept.is_empty()).then(|| message_of(before, &kept))
}

/// A message with its words of a kind twice.
pub(crate) fn twice(message: &[u8], kind: u8) -> Vec<u8> {
    let Words { before, words } = words_of(message).expect("there are words in it");
    let times = |it: u8| if it == kind { 2 } else { 1 };
    let said: Vec<&[u8]> =
        words.iter().flat_map(|(kind, word)| vec![*word; times(*kind)]).collect();
    message_of(before, &said)
}

fn message_of(before: &[u8], words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = before.to_vec();
    Encoder::new(&mut bytes).array(words.len() as u64).unwrap();
    bytes.extend(words.concat());
    bytes
}

/// Words on an execution: the bytes before their list, and each of them.
struct Words<'a> {
    before: &'a [u8],
    words: Vec<(u8, &'a [u8])>,
}

fn words_of(message: &[u8]) -> Option<Words<'_>> {
    let body = &message[1..];
    let mut decoder = Decoder::new(body);
    if envelope_of(&mut decoder) != WORDS {
        return None;
    }
    decoder.array().unwrap();
    decoder.skip().unwrap();
    let before = &message[..1 + decoder.position()];
    let count = decoder.array().unwrap().unwrap();
    let words = (0..count).map(|_| {
        let start = decoder.position();
        let number = envelope_of(&mut Decoder::new(&body[start..]));
        decoder.skip().unwrap();
        let kind = if number == 0 { BEGIN } else { WORD + number };
        (kind, &body[start..decoder.position()])
    });
    Some(Words { before, words: words.collect() })
}

/// Which variant it is: the first element of an array of two, or a number by itself.
fn envelope_of(decoder: &mut Decoder<'_>) -> u8 {
    if decoder.datatype().unwrap() == minicbor::data::Type::Array {
        decoder.array().unwrap();
    }
    decoder.u8().unwrap()
}
