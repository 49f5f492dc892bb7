//! What is let go: images are made of what has come to rest, and then nothing is there but what
//! they need, or is to be kept for readers.
//!
//! Owns: when that is looked at. Does not know: how a broker finds what may go.

use zzq_types::QoS;

use super::World;
use crate::client::TOPICS;
use crate::history::Event;
use crate::images::needless;
use crate::node::Broker;

/// The log is let go behind two images; what the first of these needs may be older.
const IMAGES: usize = 4;

impl World {
    /// At the end of all. What is kept by age has no end that is known here.
    pub(super) fn look_at_what_stays(&mut self) {
        let retain = self.plan.options.retain_log;
        if self.plan.in_memory || retain.age.is_some() || self.is_unsettled {
            return;
        }
        for _ in 0..IMAGES {
            // An image is made of something new.
            let (client, mut desk) = self.client(0);
            client.probe(&mut desk, TOPICS[0], QoS::AtLeastOnce);
            self.send(0);
            self.settle();
            match self.node.image() {
                Some(Ok(true)) => self.note(Event::Imaged { outcome: Ok(()) }),
                Some(Err(why)) => self.note(Event::Imaged { outcome: Err(why) }),
                Some(Ok(false)) | None => return,
            }
            self.helper_waits = true;
            self.settle();
        }
        // Nobody has read for a while.
        self.node.broker.iter_mut().for_each(Broker::readers_rest);
        self.helper_waits = true;
        self.settle();
        let Some(log) = self.node.broker.as_ref().and_then(Broker::log) else { return };
        let found = needless(&self.node.device.disk, log, retain.bytes.unwrap_or(0));
        if let Ok((segments, cold)) = found {
            self.coverage.hit("looked at what stays");
            self.note(Event::Needless { segments, cold });
        }
    }
}
