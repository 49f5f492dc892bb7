//! What a seed is like: how many lanes and clients, which limits, which faults and how often. Drawn
//! once at its beginning, so that seeds differ in kind and not only in order.

mod clients;
mod faults;

use std::time::Duration;

use zzq_broker::{
    BrokerOptions, DeliverPolicy, GroupStrategy, LogPolicy, Qos0Full, QueueFull, Retention,
};
use zzq_lanes::Limits as LaneLimits;
use zzq_types::ProtocolVersion::{V31, V311};
use zzq_types::QoS;

pub use self::clients::{ClientPlan, Keeps};
pub use self::faults::Faults;
use crate::chance::Chance;
use crate::guard::GuardPlan;
use crate::network::Weather;

/// A seed's plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Lanes of the broker.
    pub lanes: u16,
    /// Slots of each ring between lanes, and how many of them are for receipts alone.
    pub ring: (usize, usize),
    /// Messages that a lane takes from each ring in one turn.
    pub messages_per_turn: usize,
    /// Lanes are held up while clients on others go on.
    pub holds_up: bool,
    /// Bytes of the log's largest group; a segment is eight of them.
    pub group_size: usize,
    /// There is no log.
    pub in_memory: bool,
    /// The broker's options.
    pub options: BrokerOptions,
    /// Somebody decides what clients may do.
    pub guard: Option<GuardPlan>,
    /// The network while things go wrong.
    pub weather: Weather,
    /// One for each client.
    pub clients: Vec<ClientPlan>,
    /// Client operations before everything heals.
    pub operations: u64,
    /// Faults, each once in so many client operations; 0: never.
    pub faults: Faults,
    /// At a start, queues of clients that are away stay in the image if their first entry there
    /// has so many bytes.
    pub leaves_from: usize,
    /// Once in so many times that time goes on, readers of the log have had nothing to do for long
    /// enough to let go the places in it that they keep.
    pub readers_rest: u64,
    /// There are files of others in the broker's directory.
    pub has_strangers: bool,
    /// Bytes of the disk, if it is small enough to become full of what is kept.
    pub disk_bytes: Option<u64>,
    /// The longest time a write takes, in ms.
    pub write_ms: u64,
    /// Parts in a million by which the wall clock drifts.
    pub drift: i64,
}

impl Plan {
    /// The plan of a seed; `lanes` overrides what it would draw.
    pub fn new(seed: u64, lanes: Option<u16>) -> Self {
        let mut chance = Chance::new(seed, "plan");
        let drawn = *chance.pick(&[1, 2, 2, 3]);
        let mut options =
            BrokerOptions { sys_interval: Duration::ZERO, ..BrokerOptions::default() };
        if chance.once_in(3) {
            options.deliver = DeliverPolicy::Committed;
        }
        if chance.once_in(6) {
            options.log = LogPolicy::Everything;
        }
        options.limits.max_inflight = *chance.pick(&[2, 10, 1024, 1024]);
        let is_limited = chance.once_in(5);
        let few = usize::try_from(chance.within(10, 60)).unwrap_or(60);
        if is_limited {
            options.limits.max_queued_messages = few;
            options.limits.max_held_bytes = *chance.pick(&[200, 2000, 1 << 20]);
        }
        let weather = Weather {
            delay_ms: *chance.pick(&[1, 5, 40]),
            late_once_in: *chance.pick(&[0, 0, 300]),
            room: *chance.pick(&[700, 4096, 65_536, 65_536]),
            piece: *chance.pick(&[3, 50, 1 << 16, 1 << 16, 1 << 16]),
        };
        let count = chance.within(3, 6);
        let clients = (0..count).map(|at| ClientPlan::new(at, &mut chance));
        let mut clients: Vec<_> = clients.collect();
        if is_limited {
            limit_queues(&mut options, &mut clients, &mut Chance::new(seed, "full queues"));
        }
        draw_habits(&mut options, &mut clients, seed);
        let mut modes = Chance::new(seed, "modes");
        let in_memory = modes.once_in(8);
        if modes.once_in(5) {
            options.log = LogPolicy::Needed;
        }
        options.log_thread = !in_memory && Chance::new(seed, "log thread").once_in(6);
        if in_memory {
            for client in clients.iter_mut().filter(|client| client.version == V31) {
                // It is not told that its session is gone with the broker.
                (client.version, client.weights[8]) = (V311, 0);
            }
        }
        if !is_limited {
            draw_queue_total(&mut options, &mut clients, seed, in_memory);
        }
        draw_overload(&mut options, seed);
        // With the log alone there is a past, and with all of it one without gaps.
        if !in_memory && options.log != LogPolicy::Needed {
            draw_history(&mut options, &mut clients, seed);
        }
        draw_small_connects(&mut options, &mut clients, seed);
        draw_large_records(&mut clients, seed);
        draw_small_input(&mut options, &mut clients, seed);
        let guard = draw_guard(&mut clients, seed);
        let mut images = Chance::new(seed, "images");
        let mut crowd = Chance::new(seed, "crowd");
        let mut plan = Self {
            lanes: lanes.unwrap_or(drawn),
            ring: *crowd.pick(&[(1024, 256), (16, 4), (3, 1)]),
            messages_per_turn: *crowd.pick(&[1, 256]),
            holds_up: false,
            group_size: *chance.pick(&[32 * 1024, 64 * 1024]),
            in_memory,
            options,
            guard,
            weather,
            clients,
            operations: chance.within(450, 900),
            faults: Faults {
                image: *images.pick(&[0, 25, 60, 150]),
                in_image: *images.pick(&[0, 3, 8]),
                spoils_image: *images.pick(&[0, 0, 4]),
                damage: *Chance::new(seed, "how often to damage").pick(&[0, 6, 12]),
                copy: *Chance::new(seed, "how often to copy").pick(&[0, 0, 0, 100]),
                lane_sleeps: *crowd.pick(&[0, 10, 60]),
                sleep_ms: *crowd.pick(&[150, 150, 2500]),
                ..Faults::new(&mut chance)
            },
            leaves_from: *images.pick(&[0, 0, 40, usize::MAX]),
            readers_rest: *Chance::new(seed, "how often readers rest").pick(&[1, 20, 200]),
            has_strangers: !in_memory && Chance::new(seed, "strangers").once_in(4),
            disk_bytes: None,
            write_ms: *chance.pick(&[1, 10, 60, 200]),
            drift: *chance.pick(&[0, 0, 300, -300]),
        };
        let mut disk = Chance::new(seed, "small disk");
        if disk.once_in(3) && !in_memory && !plan.retains() {
            // In segments, of which nine or so are a reserve.
            plan.disk_bytes = Some(disk.within(10, 30) * 8 * plan.group_size as u64);
        }
        if in_memory {
            plan.faults = plan.faults.without_a_disk();
        } else if Chance::new(seed, "ahead").once_in(if plan.retains() { 2 } else { 4 }) {
            // Where history is read there are fewer ways to see it, and few such seeds.
            plan.run_ahead(seed);
        }
        plan.draw_crew(seed);
        plan.draw_guests(seed);
        plan.draw_joining(seed);
        plan.draw_holding_up(seed);
        plan.draw_sluggards(seed);
        plan
    }

    /// A group of which some members stay and others go, with what they were sent.
    fn draw_crew(&mut self, seed: u64) {
        let mut crew = Chance::new(seed, "crews");
        if !crew.once_in(10) {
            return;
        }
        self.clients.push(ClientPlan::of_crew(true, &mut crew));
        for _ in 0..crew.within(1, 2) {
            self.clients.push(ClientPlan::of_crew(false, &mut crew));
        }
    }

    /// Whom a broker serves whose log has failed.
    fn draw_guests(&mut self, seed: u64) {
        let mut guests = Chance::new(seed, "guest");
        let Faults { write_fails, step_fails, disk_full, disk_read_only, .. } = self.faults;
        let may_fail = write_fails + step_fails + disk_full + disk_read_only > 0;
        if may_fail && guests.once_in(4) {
            for _ in 0..guests.within(1, 2) {
                self.clients.push(ClientPlan::without_log(&mut guests));
            }
        }
    }

    /// Clients subscribe while others publish to the same, on lanes that are behind: so there is
    /// much in the rings between lanes, and much that was decided and is not in the log yet.
    fn draw_joining(&mut self, seed: u64) {
        let mut joining = Chance::new(seed, "joining");
        // Without a log lanes are held up instead; a delivery that waits for a lane is ahead of
        // nothing.
        let is_other = self.in_memory || self.runs_far_ahead();
        if self.lanes == 1 || is_other || !joining.once_in(4) {
            return;
        }
        for client in self.clients.iter_mut().filter(|client| !client.reads_history) {
            client.welcomes = true;
        }
        for _ in 0..joining.within(1, 3) {
            self.clients.push(ClientPlan::of_joiner(&mut joining));
        }
        self.ring = (1024, 256);
        self.messages_per_turn = *joining.pick(&[1, 1, 256]);
        let sleeps = (*joining.pick(&[10, 30]), *joining.pick(&[150, 2500]));
        (self.faults.lane_sleeps, self.faults.sleep_ms) = sleeps;
        self.write_ms = *joining.pick(&[10, 200, 200]);
        if joining.once_in(2) {
            self.faults = Faults { sleep_ms: 150, ..self.faults.rare() };
        }
    }

    /// Lanes are held up, each by itself: one gets no turn for a while, and then takes few messages
    /// of what others have filled its rings with, beside all that its own clients say. Disk and
    /// network are quick meanwhile. So what a lane does without having heard of the others shows:
    /// a subscription, or the last write to a topic.
    fn draw_holding_up(&mut self, seed: u64) {
        let mut holding = Chance::new(seed, "holding up");
        let joins = self.clients.iter().any(|client| client.joins);
        // What is in no log has no other order than that of the rings. There are few such seeds:
        // of half of them, none of 200 finds retained messages that are kept as they come.
        let once_in = if self.in_memory { 1 } else { 4 };
        if self.in_memory && holding.once_in(2) {
            self.guard = None;
            for client in &mut self.clients {
                (client.trespasses, client.authenticates) = (false, false);
            }
        }
        // Who asks about each message that is said has no end of asking.
        let is_free = self.lanes > 1 && self.guard.is_none() && !joins && !self.runs_far_ahead();
        if !is_free || !holding.once_in(once_in) {
            return;
        }
        self.holds_up = true;
        self.messages_per_turn = 1;
        self.ring = (1024, 256);
        self.weather = Weather { delay_ms: 1, late_once_in: 0, ..self.weather };
        self.write_ms = *holding.pick(&[1, 1, 10]);
        for client in self.clients.iter_mut().filter(|client| !client.reads_history) {
            client.welcomes = true;
            client.chats = if self.in_memory { 2 } else { 6 };
            client.retains = if self.in_memory { 1 } else { 2 };
            client.pause_ms = *holding.pick(&[5, 20]);
        }
        let joiners = if self.in_memory { (4, 6) } else { (2, 3) };
        for _ in 0..holding.within(joiners.0, joiners.1) {
            let joiner = ClientPlan { pause_ms: 20, ..ClientPlan::of_joiner(&mut holding) };
            self.clients.push(joiner);
        }
        for client in &mut self.clients {
            // Without a log what was said last to a topic tells all: it comes soon, or there were
            // others behind what came too late.
            client.joining_ms = if self.in_memory { 40 } else { 150 };
        }
        if self.in_memory {
            // Who chats says little else, and there are few such seeds. Its names for so many
            // topics take more than is free.
            self.operations *= 4;
            let usual = BrokerOptions::default().limits.max_alias_bytes_total;
            self.options.limits.max_alias_bytes_total = usual;
            for client in &mut self.clients {
                client.under_way = 20;
            }
        }
        self.faults = Faults {
            behind_delivery: 0,
            lane_sleeps: if self.in_memory { 3 } else { 6 },
            sleep_ms: *holding.pick(if self.in_memory { &[120, 300] } else { &[40, 120] }),
            ..self.faults.rare()
        };
    }

    /// Somebody takes little at a time of much that is published, and the log is let go meanwhile:
    /// what waits for a session that no image has is needed all the same, and memory keeps none of
    /// it. It is there for long, and nothing else excuses that it is cut off.
    fn draw_sluggards(&mut self, seed: u64) {
        let mut sluggards = Chance::new(seed, "sluggards");
        let is_other = self.holds_up || self.runs_far_ahead() || self.is_limited();
        if self.in_memory || self.retains() || is_other || !sluggards.once_in(3) {
            return;
        }
        for client in self.clients.iter_mut().filter(|client| !client.joins) {
            client.large = 4;
        }
        self.operations *= 3;
        for _ in 0..sluggards.within(1, 3) {
            self.clients.push(ClientPlan::of_sluggard(&mut sluggards));
        }
        self.options.limits.max_cached_bytes_total = 0;
        self.group_size = 32 * 1024;
        self.disk_bytes = None;
        self.readers_rest = 200;
        let faults = self.faults.rare().with_a_sound_disk();
        self.faults = Faults { power_cut: 0, image: 25, in_image: 0, ..faults };
    }

    /// What comes before it is durable is not answered at once, and then the power goes: what a
    /// crash takes has been seen.
    fn run_ahead(&mut self, seed: u64) {
        self.options.deliver = DeliverPolicy::Early;
        self.write_ms = 200;
        self.faults.behind_delivery = 8;
        for client in &mut self.clients {
            client.late_answer = 2;
        }
        let mut ahead = Chance::new(seed, "who runs ahead");
        // Where all send again what a crash took, it soon has the place again that it had.
        self.clients.push(ClientPlan::of_forgetful(&mut ahead));
        // What it has at QoS 0 it need not answer, and must not get again.
        self.clients.push(ClientPlan::of_listener(&mut ahead));
        if ahead.once_in(2) {
            self.run_far_ahead(&mut ahead);
        }
    }

    /// Little else goes wrong, and all is published at one level. At QoS 1 most of what is sent is
    /// ahead of the disk: what is behind a message at QoS 2 waits for it. At that level nothing is.
    fn run_far_ahead(&mut self, ahead: &mut Chance) {
        let level = if ahead.once_in(3) { QoS::ExactlyOnce } else { QoS::AtLeastOnce };
        if level == QoS::AtLeastOnce {
            self.clients.push(ClientPlan::of_forgetful(ahead));
        }
        let pauses = self.retains();
        if level == QoS::ExactlyOnce {
            self.clients.push(ClientPlan::of_listener(ahead));
        } else if pauses {
            // A message shows its place to who has come to the end of the past, and stays there.
            self.clients.push(ClientPlan::of_steady_reader());
            self.clients.push(ClientPlan::of_eager_reader());
        } else {
            self.clients.push(ClientPlan::of_holder(ahead));
        }
        for client in &mut self.clients {
            client.publishes_at = Some(level);
            // Where nobody pauses the past has no end.
            client.pauses |= pauses;
        }
        // A slow disk makes lives short of what they are for.
        self.operations *= 3;
        self.options.limits.max_inflight = 1024;
        self.guard = self.guard.map(|_| GuardPlan { late: 0, silent: 0 });
        self.weather = Weather { delay_ms: 1, late_once_in: 0, room: 65_536, piece: 1 << 16 };
        self.disk_bytes = None;
        self.faults = Faults {
            behind_delivery: if pauses { 8 } else { 4 },
            lane_sleeps: 0,
            ..self.faults.rare().with_a_sound_disk()
        };
    }

    /// Whether most of what is sent is ahead of the disk.
    fn runs_far_ahead(&self) -> bool {
        self.clients.iter().any(|client| client.publishes_at.is_some())
    }

    /// Whether some of the log is kept for who reads it.
    pub fn retains(&self) -> bool {
        self.options.retain_log != Retention::default()
    }

    /// The modes that it runs in, by their names in the coverage.
    pub fn modes(&self) -> impl Iterator<Item = &'static str> {
        let logged = match self.options.log {
            LogPolicy::All => None,
            LogPolicy::Everything => Some("mode log everything"),
            LogPolicy::Needed => Some("mode log needed"),
        };
        let waits = self.options.deliver == DeliverPolicy::Committed;
        let committed = waits.then_some("mode deliver committed");
        let thread = self.options.log_thread.then_some("mode log thread");
        let disk = [logged, committed, thread].into_iter().flatten();
        let modes = if self.in_memory { vec!["mode in memory"] } else { disk.collect() };
        modes.into_iter()
    }

    /// Whether a publish may be refused for a while.
    pub fn may_refuse(&self) -> bool {
        self.is_limited() || self.faults.disk_full > 0 || self.disk_bytes.is_some()
    }

    /// How long a packet may have room that others wait for.
    pub fn input_patience(&self) -> Duration {
        let usual = LaneLimits::default().input_patience;
        // Few connections are there for as long as usual.
        if self.lacks_input() { Duration::from_secs(5) } else { usual }
    }

    /// Whether there may be too little room for packets that have come in part.
    pub fn lacks_input(&self) -> bool {
        let usual = BrokerOptions::default().limits.max_input_bytes_total;
        self.options.limits.max_input_bytes_total < usual
    }

    /// Whether queues may become full, each by itself or all together.
    pub fn is_limited(&self) -> bool {
        let usual = BrokerOptions::default().limits.max_queued_messages;
        self.options.limits.max_queued_messages < usual || self.bounds_all_queues()
    }

    /// Whether they may all together, and none by itself.
    pub fn bounds_all_queues(&self) -> bool {
        self.options.limits.max_queued_bytes_total < u64::MAX
    }
}

/// What is done about full queues. MQTT 3.1 does not tell whether a session was ended.
fn limit_queues(options: &mut BrokerOptions, clients: &mut [ClientPlan], chance: &mut Chance) {
    use QueueFull::{DropNewest, DropOldest, EndSession, Refuse};
    let limits = &mut options.limits;
    limits.queue_full =
        *chance.pick(&[Refuse, Refuse, EndSession, DropOldest, DropNewest, DropNewest]);
    if chance.once_in(2) {
        limits.queue_grace = Duration::from_millis(*chance.pick(&[100, 1000, 5000]));
    }
    if chance.once_in(3) {
        limits.max_queued_bytes = chance.within(500, 3000);
    }
    for client in clients.iter_mut().filter(|client| client.version == V31) {
        client.version = V311;
        client.weights[8] = 0;
    }
    if limits.queue_full == DropNewest && !chance.once_in(3) {
        // Of what is dropped for all of them it is certain that nobody has it.
        for client in clients.iter_mut() {
            (client.keeps, client.certain) = (Keeps::Always, true);
        }
        if let [reader, writers @ ..] = clients
            && !chance.once_in(3)
        {
            // All that is dropped is, and much is.
            limits.max_queued_messages = 10;
            *reader = ClientPlan { certain: true, ..ClientPlan::of_absentee() };
            for writer in writers {
                (writer.weights[1], writer.weights[2]) = (0, 0);
            }
        }
    }
}

/// What all queues may take together: without a log messages, with one references to them.
fn draw_queue_total(
    options: &mut BrokerOptions,
    clients: &mut [ClientPlan],
    seed: u64,
    in_memory: bool,
) {
    let mut chance = Chance::new(seed, "queues total");
    if !chance.once_in(if in_memory { 3 } else { 6 }) {
        return;
    }
    let most = if in_memory { 10_000 } else { 1000 };
    let limits = &mut options.limits;
    limits.max_queued_bytes_total = *chance.pick(&[1, most / 10, most / 3, most]);
    limits.max_held_bytes = *chance.pick(&[200, 2000, 1 << 20]);
    if chance.once_in(2) {
        limits.queue_grace = Duration::from_millis(*chance.pick(&[100, 1000, 5000]));
    }
    for client in clients.iter_mut().filter(|client| client.version == V31) {
        // It is not told whether its session was ended.
        (client.version, client.weights[8]) = (V311, 0);
    }
}

/// The log is kept, and some clients read in it.
fn draw_history(options: &mut BrokerOptions, clients: &mut Vec<ClientPlan>, seed: u64) {
    let mut history = Chance::new(seed, "history");
    if !history.once_in(2) {
        return;
    }
    // Mostly all of it: what images let go excuses what is missing.
    options.retain_log = draw_retention(seed);
    if options.retain_log.bytes == Some(u64::MAX) && history.once_in(2) {
        clients.push(ClientPlan::of_seeker(&mut history));
    }
    clients.push(ClientPlan::of_reader(&mut history));
    // The step from the past to what is published now is made once each time.
    for _ in 0..history.below(3) {
        clients.push(ClientPlan::of_eager_reader());
    }
    let pauses = history.once_in(2);
    for client in clients {
        // History ends for who reads it where nothing comes behind it.
        client.pauses = pauses;
    }
}

/// How much of the log stays for who reads it: mostly all.
fn draw_retention(seed: u64) -> Retention {
    let mut chance = Chance::new(seed, "retention");
    match chance.below(6) {
        0 => Retention { bytes: Some(*chance.pick(&[1, 100_000, 400_000])), age: None },
        1 => Retention { bytes: None, age: Some(Duration::from_secs(*chance.pick(&[3, 15, 60]))) },
        _ => Retention { bytes: Some(u64::MAX), age: None },
    }
}

/// What clients take, refuse, and how much they say at once.
fn draw_habits(options: &mut BrokerOptions, clients: &mut [ClientPlan], seed: u64) {
    let mut aliases = Chance::new(seed, "aliases");
    options.limits.topic_alias_maximum = *aliases.pick(&[64, 64, 3, 1, 0]);
    // What clients define is far below what is free: only the broker's own lack room.
    options.limits.max_alias_bytes_total = *aliases.pick(&[256 << 20, 256 << 20, 120, 0]);
    for client in clients.iter_mut().filter(|client| client.version.is_v5()) {
        client.aliases = *aliases.pick(&[0, 1, 2, 10]);
        client.names = *aliases.pick(&[0, 1, 3]);
    }
    let large = *Chance::new(seed, "large messages").pick(&[40, 40, 8]);
    for client in clients.iter_mut() {
        client.large = large;
    }
    let mut refusals = Chance::new(seed, "refusals");
    for client in clients.iter_mut().filter(|client| client.version.is_v5()) {
        client.refuses = *refusals.pick(&[0, 0, 4, 20]);
    }
}

/// Whether records are as large as segments: where the log was let go behind one that begins in one
/// segment and ends in the next, it begins within a record if another one begins there.
fn draw_large_records(clients: &mut [ClientPlan], seed: u64) {
    if Chance::new(seed, "large records").once_in(25) {
        for client in clients.iter_mut() {
            (client.large, client.largest) = (4, 200_000);
        }
    }
}

/// Whether a CONNECT may be larger than the broker takes. Those of this run have some hundred bytes
/// without a will.
fn draw_small_connects(options: &mut BrokerOptions, clients: &mut [ClientPlan], seed: u64) {
    if Chance::new(seed, "small connects").once_in(5) {
        options.limits.max_connect_size = 300;
        for client in clients.iter_mut().filter(|client| !client.reads_history) {
            client.large_wills = 3;
        }
    }
}

/// Whether clients stand in line for room for what they have begun to say: one packet of more than
/// 4 KiB at a time, or a few.
fn draw_small_input(options: &mut BrokerOptions, clients: &mut [ClientPlan], seed: u64) {
    let mut input = Chance::new(seed, "small input");
    if input.once_in(5) {
        options.limits.max_input_bytes_total = *input.pick(&[1, 60_000]);
        for client in clients.iter_mut() {
            (client.large, client.largest) = (8, 40_000);
        }
    }
}

/// Whether somebody decides what clients may do, and how he answers.
fn draw_guard(clients: &mut [ClientPlan], seed: u64) -> Option<GuardPlan> {
    let mut chance = Chance::new(seed, "guard");
    if !chance.once_in(3) {
        return None;
    }
    for client in clients.iter_mut().filter(|client| !client.reads_history) {
        client.trespasses = chance.once_in(2);
    }
    for client in clients.iter_mut().filter(|client| client.version.is_v5()) {
        client.authenticates = chance.once_in(2);
    }
    Some(GuardPlan { late: *chance.pick(&[0, 2, 5, 20]), silent: *chance.pick(&[0, 5, 20]) })
}

/// How receivers that do not keep up are treated, and how groups choose.
fn draw_overload(options: &mut BrokerOptions, seed: u64) {
    let mut output = Chance::new(seed, "output");
    options.limits.max_output_bytes = *output.pick(&[1 << 20, 1 << 20, 20_000]);
    let mut cached = Chance::new(seed, "cached");
    options.limits.max_cached_bytes_total = *cached.pick(&[64 << 20, 64 << 20, 3000, 0]);
    options.qos0_full = *output.pick(&[Qos0Full::Slow, Qos0Full::Slow, Qos0Full::Drop]);
    options.shared.others = *Chance::new(seed, "groups").pick(&[
        GroupStrategy::RoundRobin,
        GroupStrategy::LeastInflight,
        GroupStrategy::Sticky,
        GroupStrategy::HashClient,
        GroupStrategy::HashTopic,
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_repeat_and_somebody_always_keeps_a_session() {
        for seed in 0..50 {
            let plan = Plan::new(seed, None);
            assert_eq!(format!("{plan:?}"), format!("{:?}", Plan::new(seed, None)));
            assert_eq!(plan.clients[0].keeps, Keeps::Always);
            assert!(plan.faults.kill > 0);
        }
        assert_eq!(Plan::new(1, Some(3)).lanes, 3);
    }
}
