//! What workload and recovery say to the rig, a line each.
//!
//! Owns: the words. Does not know: who is right.

use std::fmt;
use std::str::FromStr;

use crate::body::Body;

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The log is open: all up to this LSN is there, and what had been behind it never was.
    Started {
        /// Last LSN.
        last: u64,
    },
    /// A record was given an LSN.
    Appended {
        /// Its LSN.
        lsn: u64,
        /// Whose it is.
        body: Body,
    },
    /// All up to this LSN is durable: whoever waited for it has been told.
    Durable {
        /// Last LSN.
        lsn: u64,
    },
    /// A lane was told that its records up to this number are durable.
    Acknowledged {
        /// The lane.
        lane: u64,
        /// The lane's count.
        number: u64,
    },
    /// What is below may be gone from now on.
    Trimming {
        /// First LSN that is kept.
        below: u64,
    },
    /// The term in `meta` may be this from now on.
    TermBegun {
        /// The term.
        term: u64,
    },
    /// The term in `meta` is at least this.
    Term {
        /// The term.
        term: u64,
    },
    /// Recovery has shown a record.
    Found {
        /// Its LSN.
        lsn: u64,
        /// Whose it is.
        body: Body,
    },
    /// Something is wrong, whatever was promised.
    Wrong(String),
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = |out: &mut fmt::Formatter<'_>, word: &str, lsn: u64, body: Body| {
            write!(out, "{word} {lsn} {} {} {}", body.life, body.lane, body.number)
        };
        match self {
            Self::Started { last } => write!(out, "started {last}"),
            Self::Appended { lsn, body } => record(out, "appended", *lsn, *body),
            Self::Durable { lsn } => write!(out, "durable {lsn}"),
            Self::Acknowledged { lane, number } => write!(out, "acknowledged {lane} {number}"),
            Self::Trimming { below } => write!(out, "trimming {below}"),
            Self::TermBegun { term } => write!(out, "term-begun {term}"),
            Self::Term { term } => write!(out, "term {term}"),
            Self::Found { lsn, body } => record(out, "found", *lsn, *body),
            Self::Wrong(what) => write!(out, "wrong {}", what.replace('\n', " ")),
        }
    }
}

impl FromStr for Note {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        if word == "wrong" {
            return Ok(Self::Wrong(rest.to_owned()));
        }
        let numbers = rest.split_whitespace().map(str::parse);
        let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
        Ok(match (word, numbers.as_slice()) {
            ("started", &[last]) => Self::Started { last },
            ("appended", &[lsn, life, lane, number]) => {
                Self::Appended { lsn, body: Body { life, lane, number } }
            }
            ("durable", &[lsn]) => Self::Durable { lsn },
            ("acknowledged", &[lane, number]) => Self::Acknowledged { lane, number },
            ("trimming", &[below]) => Self::Trimming { below },
            ("term-begun", &[term]) => Self::TermBegun { term },
            ("term", &[term]) => Self::Term { term },
            ("found", &[lsn, life, lane, number]) => {
                Self::Found { lsn, body: Body { life, lane, number } }
            }
            _ => anyhow::bail!("no note: {text:?}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let body = Body { life: 1, lane: 2, number: 3 };
        let notes = [
            Note::Started { last: 4 },
            Note::Appended { lsn: 5, body },
            Note::Durable { lsn: 6 },
            Note::Acknowledged { lane: 0, number: 7 },
            Note::Trimming { below: 8 },
            Note::TermBegun { term: 9 },
            Note::Term { term: 10 },
            Note::Found { lsn: 11, body },
            Note::Wrong("a b".to_owned()),
        ];
        for note in notes {
            assert_eq!(note.to_string().parse::<Note>().unwrap(), note);
        }
        assert!("durable x".parse::<Note>().is_err() && "".parse::<Note>().is_err());
    }
}
