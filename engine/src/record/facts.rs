//! Records that state a fact under a key; an empty fact takes it back.

use crate::wire::{Reader, RecordError, put, put_bytes};

/// A setting that all nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config<'a> {
    /// Its name.
    pub key: &'a [u8],
    /// Its value; empty: not set.
    pub value: &'a [u8],
}

/// A topic that an MQTT-SN client and the gateway name by a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnTopic<'a> {
    /// The client.
    pub client: &'a str,
    /// The number.
    pub topic_id: u16,
    /// The topic; empty: not registered.
    pub topic: &'a str,
}

/// The user name under which a client opened its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The client.
    pub client: &'a str,
    /// The name; empty: none.
    pub user: &'a str,
}

/// A node of the cluster and what the replicator knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership<'a> {
    /// The node.
    pub id: u64,
    /// What the replicator says; empty: the node has left.
    pub bytes: &'a [u8],
}

/// Something that a later version names; kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature<'a> {
    /// Which.
    pub id: u64,
    /// Its state; empty: not in use.
    pub bytes: &'a [u8],
}

impl<'a> Config<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.key);
        put_bytes(out, self.value);
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        Ok(Self { key: reader.bytes()?, value: reader.bytes()? })
    }
}

impl<'a> SnTopic<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.client.as_bytes());
        put(out, u64::from(self.topic_id));
        put_bytes(out, self.topic.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        Ok(Self { client: reader.text()?, topic_id: reader.int16()?, topic: reader.text()? })
    }
}

impl<'a> Identity<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.client.as_bytes());
        put_bytes(out, self.user.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        Ok(Self { client: reader.text()?, user: reader.text()? })
    }
}

impl<'a> Membership<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.id);
        put_bytes(out, self.bytes);
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        Ok(Self { id: reader.int()?, bytes: reader.bytes()? })
    }
}

impl<'a> Feature<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.id);
        put_bytes(out, self.bytes);
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        Ok(Self { id: reader.int()?, bytes: reader.bytes()? })
    }
}
