//! The topic that a PUBLISH names: by its name, or by an alias of its connection.
//!
//! Owns: that each alias is defined and looked up in the order in which the publishes of its
//! connection came, whenever they are handed over.

use std::sync::Arc;

use zzq_codec::Publish;
use zzq_lanes::ConnId;
use zzq_types::{ReasonCode, TopicName};
use zzq_wal::disk::Disk;

use super::alias::Aliases;
use super::link::Link;
use super::{Flow, Io, Shell};
use crate::shared::Shared;

impl<D: Disk> Shell<D> {
    /// The topic of a publish that comes next on its connection, whose alias is defined if it has
    /// one; of one that is offered again it is the same. `memory` holds it where it has no name.
    pub(super) fn topic_of<'a>(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        publish: &Publish<'a>,
        memory: &'a mut String,
    ) -> Result<TopicName<'a>, Flow> {
        let shared = &self.shared;
        let Some(link) = self.links.up_mut(conn) else { return Err(Flow::End) };
        let reason = match (publish.topic, publish.topic_alias()) {
            (Some(name), None) => return Ok(name),
            (Some(name), Some(alias)) => match aliases(link, shared).define(alias.get(), name) {
                Ok(()) => return Ok(name),
                Err(reason) => reason,
            },
            (None, alias) => {
                memory.clear();
                match aliases(link, shared).resolve(alias.map_or(0, core::num::NonZero::get)) {
                    Ok(text) => {
                        memory.push_str(text);
                        return TopicName::new(memory).map_err(|_| Flow::End);
                    }
                    Err(reason) => reason,
                }
            }
        };
        Err(self.refuse_alias(io, conn, reason))
    }

    /// Ends a connection for an alias that it may not use, or has not defined.
    fn refuse_alias(&mut self, io: &mut Io<'_, D>, conn: ConnId, reason: ReasonCode) -> Flow {
        if reason == ReasonCode::TopicAliasInvalid {
            let most = self.shared.options.limits.topic_alias_maximum;
            let why = format!("topic aliases are at most {most}: --max-topic-aliases");
            return self.refuse(io, conn, reason, &why);
        }
        if reason == ReasonCode::QuotaExceeded {
            self.dismiss(io, conn, reason, "no room for topic aliases: --max-aliases-total");
            return Flow::End;
        }
        self.refuse(io, conn, reason, "a topic alias that it has not defined")
    }
}

/// The aliases that a client has defined.
fn aliases<'a>(link: &'a mut Link, shared: &Shared) -> &'a mut Aliases {
    let most = shared.options.limits.topic_alias_maximum;
    let new = || Box::new(Aliases::new(most, Arc::clone(&shared.alias_room)));
    link.aliases.get_or_insert_with(new)
}
