//! Named values of a record, printed for people or as JSON.
//!
//! Owns: the two forms. Does not know: records.

use std::fmt;

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

use crate::escape::{hex, quoted};

/// Values with their names, in the order of the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(&'static str, Value)>);

/// A value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    /// Is set: its name alone says so.
    Set,
    /// One of our words.
    Word(&'static str),
    /// What somebody sent.
    Text(String),
    Bytes(Bytes),
    List(Vec<Value>),
    Fields(Fields),
}

/// Bytes that somebody sent, as far as they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes {
    len: usize,
    shown: Shown,
    /// There is more than is shown.
    cut: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    Text(String),
    Hex(String),
}

/// How much of payloads and bodies is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadForm {
    /// Their length.
    None,
    /// The first characters, or the first bytes in hexadecimal where they are no text.
    #[default]
    Preview,
    /// All bytes in hexadecimal.
    Hex,
    /// All of it, in hexadecimal where it is no text.
    Full,
}

/// Characters of a preview, or bytes in hexadecimal.
const PREVIEW: usize = 64;

impl Bytes {
    pub(crate) fn new(bytes: &[u8], form: PayloadForm) -> Self {
        let len = bytes.len();
        let (shown, cut) = match (form, std::str::from_utf8(bytes)) {
            (PayloadForm::None, _) => (Shown::Nothing, len > 0),
            (PayloadForm::Full, Ok(text)) => (Shown::Text(text.to_owned()), false),
            (PayloadForm::Full, Err(_)) | (PayloadForm::Hex, _) => (Shown::Hex(hex(bytes)), false),
            (PayloadForm::Preview, Ok(text)) => {
                let front: String = text.chars().take(PREVIEW).collect();
                let cut = front.len() < len;
                (Shown::Text(front), cut)
            }
            (PayloadForm::Preview, Err(_)) => {
                (Shown::Hex(hex(&bytes[..len.min(PREVIEW)])), len > PREVIEW)
            }
        };
        Self { len, shown, cut }
    }
}

impl Fields {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, name: &'static str, value: Value) {
        self.0.push((name, value));
    }

    pub(crate) fn number(&mut self, name: &'static str, number: impl Into<u64>) {
        self.add(name, Value::Number(number.into()));
    }

    pub(crate) fn some(&mut self, name: &'static str, number: Option<u64>) {
        if let Some(number) = number {
            self.number(name, number);
        }
    }

    pub(crate) fn set(&mut self, name: &'static str, is_set: bool) {
        if is_set {
            self.add(name, Value::Set);
        }
    }

    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        self.add(name, Value::Text(text.to_owned()));
    }

    pub(crate) fn list(&mut self, name: &'static str, items: impl Iterator<Item = Value>) {
        self.add(name, Value::List(items.collect()));
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (name, value)) in self.0.iter().enumerate() {
            let space = if nth > 0 { " " } else { "" };
            match value {
                Value::Set => write!(out, "{space}{name}")?,
                value => write!(out, "{space}{name}={value}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(out, "{number}"),
            Self::Set => out.write_str("true"),
            Self::Word(word) => out.write_str(word),
            Self::Text(text) => out.write_str(&quoted(text)),
            Self::Bytes(bytes) => write!(out, "{bytes}"),
            Self::Fields(fields) => write!(out, "{{{fields}}}"),
            Self::List(items) => {
                out.write_str("[")?;
                for (nth, item) in items.iter().enumerate() {
                    write!(out, "{}{item}", if nth > 0 { ", " } else { "" })?;
                }
                out.write_str("]")
            }
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.len)?;
        match &self.shown {
            Shown::Nothing => return Ok(()),
            Shown::Text(text) => write!(out, ":{}", quoted(text))?,
            Shown::Hex(digits) => write!(out, ":0x{digits}")?,
        }
        out.write_str(if self.cut { "..." } else { "" })
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Set => serializer.serialize_bool(true),
            Self::Word(word) => serializer.serialize_str(word),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => bytes.serialize(serializer),
            Self::Fields(fields) => fields.serialize(serializer),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
        }
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("bytes", &self.len)?;
        match &self.shown {
            Shown::Nothing => {}
            Shown::Text(text) => map.serialize_entry("text", text)?,
            Shown::Hex(digits) => map.serialize_entry("hex", digits)?,
        }
        if self.cut {
            map.serialize_entry("cut", &true)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Fields {
        let mut inner = Fields::new();
        inner.number("session", 7_u64);
        inner.set("retain", true);
        let mut fields = Fields::new();
        fields.text("topic", "a\x1bb");
        fields.add("qos", Value::Word("one"));
        fields.set("absent", false);
        fields.some("absent", None);
        fields.list("to", [Value::Fields(inner), Value::Number(2)].into_iter());
        fields
    }

    #[test]
    fn both_forms_tell_the_same() {
        let text = r#"topic="a\u{1b}b" qos=one to=[{session=7 retain}, 2]"#;
        assert_eq!(sample().to_string(), text);
        let json = r#"{"topic":"a\u001bb","qos":"one","to":[{"session":7,"retain":true},2]}"#;
        assert_eq!(serde_json::to_string(&sample()).unwrap(), json);
    }

    #[test]
    fn bytes_are_shown_as_wanted() {
        let long = "é".repeat(PREVIEW + 1);
        let shown = |bytes: &[u8], form| Bytes::new(bytes, form).to_string();
        assert_eq!(shown(b"abc", PayloadForm::None), "3");
        assert_eq!(shown(b"abc", PayloadForm::Preview), "3:\"abc\"");
        assert_eq!(shown(b"abc", PayloadForm::Hex), "3:0x616263");
        assert_eq!(shown(&[0xff, 0], PayloadForm::Full), "2:0xff00");
        let preview = format!("130:\"{}\"...", "é".repeat(PREVIEW));
        assert_eq!(shown(long.as_bytes(), PayloadForm::Preview), preview);
        assert_eq!(shown(long.as_bytes(), PayloadForm::Full), format!("130:\"{long}\""));
        let json = serde_json::to_string(&Bytes::new(&[0xff; 65], PayloadForm::Preview)).unwrap();
        assert_eq!(json, format!(r#"{{"bytes":65,"hex":"{}","cut":true}}"#, "ff".repeat(64)));
    }
}
