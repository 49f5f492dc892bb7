//! One ring of the kernel, and all the memory that the kernel has of it.
//!
//! Owns: the mapping, the order of its system calls, what is sent from and received into. Every
//! unsafe block of this crate is here.
//! Does not know: connections, listeners, lanes.
//!
//! **What keeps it sound.** The kernel is told addresses in the [`Arena`] of its ring, and no
//! others. Each part of the arena has one owner at any time: the kernel, from the submission that
//! names it to the completion of that submission, or whoever holds its token ([`Slot`],
//! [`Received`]), which only this module makes. The arena is freed when nothing is in flight any
//! more: dropping a ring cancels all and waits, and where that cannot be done the memory stays
//! taken for ever. So it does not matter when a connection is closed, or how a lane ends.
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    collections::VecDeque,
    io::{self, PipeReader, PipeWriter, pipe},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    panic::resume_unwind,
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::Duration,
};

use io_uring::{
    EnterFlags, IoUring, cqueue, opcode, squeue,
    types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec as PollTime, poll},
    io::Errno,
};

/// Bytes of a slot to send from, and of a buffer to receive into.
pub(super) const PIECE: usize = PIECE_LEN as usize;
const PIECE_LEN: u32 = 2048;
/// Slots. While none is free connections are written as under epoll.
const SLOTS: u16 = 256;
/// Buffers. While all hold what nobody has read, connections are read as under epoll.
const BUFFERS: u16 = 256;
const SUBMISSIONS: u32 = 512;
const COMPLETIONS: u32 = 4096;
/// Sockets that the kernel need not look up.
const FILES: u32 = 4096;
const GROUP: u16 = 0;

const PAGE: usize = 4096;
/// The kernel's ring of buffers comes first in the arena.
const ENTRIES: usize = BUFFERS as usize * size_of::<BufRingEntry>();
const BUFFERS_AT: usize = ENTRIES.next_multiple_of(PAGE);
const SLOTS_AT: usize = BUFFERS_AT + BUFFERS as usize * PIECE;
const ARENA: usize = SLOTS_AT + SLOTS as usize * PIECE;

const _: () = assert!(BUFFERS.is_power_of_two(), "the kernel takes such rings of buffers only");
const _: () = assert!(COMPLETIONS > SUBMISSIONS + 2 * SLOTS as u32, "few turns overflow");

/// What is asked of the kernel, and then told by it, together with a key of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum What {
    /// Bytes of a socket, or its end.
    Receive,
    /// The bytes of a slot.
    Send,
    /// A socket can be read.
    Readable,
    /// A socket can be written.
    Writable,
    /// A socket is broken.
    Broken,
    /// An eventfd was signalled. Told again and again.
    Signal,
    /// A listener has a connection. Told again and again.
    Door,
    /// The end of something else.
    Cancel,
}

const WHATS: [What; 8] = [
    What::Receive,
    What::Send,
    What::Readable,
    What::Writable,
    What::Broken,
    What::Signal,
    What::Door,
    What::Cancel,
];

/// Bytes to send, in memory of the ring.
#[derive(Debug)]
pub(super) struct Slot {
    number: u16,
    start: usize,
    end: usize,
}

impl Slot {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The first `bytes` were sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "{bytes} sent of {}", self.len());
        self.start += bytes;
    }
}

/// Bytes that came, in memory of the ring.
#[derive(Debug)]
pub(super) struct Received {
    buffer: u16,
    len: usize,
}

/// What the kernel tells.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) what: What,
    pub(super) key: u32,
    pub(super) result: Result<u32, Errno>,
    /// Nothing more is told of this submission.
    pub(super) is_last: bool,
    /// The socket has more to read.
    pub(super) has_more: bool,
    pub(super) slot: Option<Slot>,
    pub(super) received: Option<Received>,
}

/// A socket, as the kernel is told of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) socket: BorrowedFd<'a>,
    /// Its place among those that are registered.
    pub(super) place: Option<u32>,
}

pub(super) struct Ring {
    mapped: IoUring,
    arena: Arena,
    /// Slots that are free: the last one used first, since it is in the cache.
    free: Vec<u16>,
    /// Slots that the kernel has.
    away: Vec<Option<Slot>>,
    /// Where the next free buffer is put.
    tail: u16,
    /// Places for sockets; 0 where sockets are told by their numbers.
    files: u32,
    /// Submissions of which more will be told, those not handed over included.
    flight: usize,
    /// Sends that were not handed over: each completes while it is.
    instant: usize,
    arrived: VecDeque<Completion>,
}

impl Ring {
    /// A ring for the thread that will enable it. Made by a thread that ends: when the kernel takes
    /// a ring apart it tells who made it, which would break off what that thread waits for.
    pub(super) fn new() -> io::Result<Self> {
        on_a_thread_that_ends(Self::make)
    }

    /// Whether a ring of this kind can be made and used: another one shows that.
    pub(super) fn probe() -> io::Result<()> {
        on_a_thread_that_ends(|| Self::make()?.enable())
    }

    fn make() -> io::Result<Self> {
        let mapped = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_r_disabled()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let arena = Arena::new()?;
        let entries = arena.base.as_ptr().addr() as u64;
        // SAFETY: the arena begins with room for so many entries, and is freed after the ring.
        unsafe {
            mapped.submitter().register_buf_ring_with_flags(entries, BUFFERS, GROUP, 0)?;
        }
        // Without them sockets are told by their numbers.
        let files = mapped.submitter().register_files_sparse(FILES).map_or(0, |()| FILES);
        let mut ring = Self {
            mapped,
            arena,
            free: (0..SLOTS).rev().collect(),
            away: (0..SLOTS).map(|_| None).collect(),
            tail: 0,
            files,
            flight: 0,
            instant: 0,
            arrived: VecDeque::new(),
        };
        for buffer in 0..BUFFERS {
            ring.give_back(Received { buffer, len: 0 });
        }
        Ok(ring)
    }

    /// Binds the ring to the calling thread, and sees whether it may be used there, and how.
    pub(super) fn enable(&mut self) -> io::Result<()> {
        self.mapped.submitter().register_enable_rings()?;
        self.call(0, None)?;
        if !self.lets_go_at_once()? {
            self.forgo_places();
        }
        Ok(())
    }

    /// Whether what leaves its place is let go at once, whatever is asked of others: else the peer
    /// of a closed connection hears of it late. Before Linux 6.13 places are left in the order of
    /// what was asked, so that one idle connection holds up all that leave after it; before 6.4
    /// the kernel waits for a second besides. It is tried, since distributions mend old kernels.
    fn lets_go_at_once(&mut self) -> io::Result<bool> {
        if self.files == 0 {
            return Ok(false);
        }
        // Out of descriptors, perhaps: nothing is known, and sockets have numbers.
        let (Ok((idle, _open)), Ok((reader, writer))) = (pipe(), pipe()) else { return Ok(false) };
        let target = Target { socket: idle.as_fd(), place: self.register(0, idle.as_fd()) };
        self.poll(target, PollFlags::IN, false, What::Readable, 0);
        self.submit()?;
        let at_once = self.register(1, writer.as_fd()).is_some() && self.left(1, writer, &reader);
        self.cancel(What::Readable, 0);
        while self.flight > 0 {
            self.enter(1, None)?;
        }
        self.arrived.clear();
        Ok(self.leave(0).is_ok() && at_once)
    }

    /// Closes a pipe that has this place, and takes it away. True: nothing holds it any more.
    pub(super) fn left(&self, place: u32, writer: PipeWriter, reader: &PipeReader) -> bool {
        drop(writer);
        let at_once = PollTime { tv_sec: 0, tv_nsec: 0 };
        let mut ends = [PollFd::new(reader, PollFlags::empty())];
        self.leave(place).is_ok() && matches!(poll(&mut ends, Some(&at_once)), Ok(1))
    }

    /// Sockets are told by their numbers from here on.
    pub(super) fn forgo_places(&mut self) {
        self.files = 0;
    }

    fn leave(&self, place: u32) -> io::Result<()> {
        self.mapped.submitter().register_files_update(place, &[-1]).map(drop)
    }

    /// Saves looking the socket up. The place it got, if there is one.
    pub(super) fn register(&self, place: u32, socket: BorrowedFd<'_>) -> Option<u32> {
        let update = || self.mapped.submitter().register_files_update(place, &[socket.as_raw_fd()]);
        (place < self.files && update().is_ok()).then_some(place)
    }

    /// The kernel keeps the socket open no longer.
    ///
    /// # Panics
    /// It refuses. Kernels that need memory for this hold up who leaves as well, and get no places.
    pub(super) fn unregister(&self, place: u32) {
        let left = self.leave(place);
        assert!(left.is_ok(), "a place that was taken cannot be left: {left:?}");
    }

    /// A slot to fill, if one is free.
    pub(super) fn slot(&mut self) -> Option<Slot> {
        self.free.pop().map(|number| Slot { number, start: 0, end: 0 })
    }

    /// So many bytes can be added to a slot.
    pub(super) fn room(&self, slot: &Slot) -> usize {
        assert!(slot.end <= PIECE && usize::from(slot.number) < self.away.len(), "{slot:?}");
        PIECE - slot.end
    }

    /// Adds to a slot.
    pub(super) fn fill(&mut self, slot: &mut Slot, bytes: &[u8]) {
        let end = slot.end + bytes.len();
        assert!(end <= PIECE, "{end} bytes in a slot of {PIECE}");
        self.arena.slot_mut(slot)[slot.end..end].copy_from_slice(bytes);
        slot.end = end;
    }

    /// What is left to send of a slot.
    pub(super) fn unsent(&self, slot: &Slot) -> &[u8] {
        &self.arena.slot(slot)[slot.start..slot.end]
    }

    /// Takes a slot back.
    #[expect(clippy::needless_pass_by_value, reason = "the token goes")]
    pub(super) fn free(&mut self, slot: Slot) {
        self.free.push(slot.number);
    }

    /// What was received.
    pub(super) fn bytes(&self, received: &Received) -> &[u8] {
        &self.arena.buffer(received)[..received.len]
    }

    /// The buffer may be received into again.
    #[expect(clippy::needless_pass_by_value, reason = "the token goes")]
    pub(super) fn give_back(&mut self, received: Received) {
        self.arena.lend(self.tail, received.buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Tells once when the socket, or when `each` every time that a descriptor, is ready for one of
    /// these, or broken.
    pub(super) fn poll(
        &mut self,
        target: Target<'_>,
        flags: PollFlags,
        each: bool,
        what: What,
        key: u32,
    ) {
        let flags = u32::from(flags.bits());
        let entry = opcode::PollAdd::new(Fd(number(target)), flags).multi(each);
        self.push(&aimed(entry.build(), target), data(what, 0, key));
    }

    /// Receives once into a buffer, when there is something.
    pub(super) fn receive(&mut self, target: Target<'_>, key: u32) {
        let entry = opcode::Recv::new(Fd(number(target)), std::ptr::null_mut(), PIECE_LEN)
            .buf_group(GROUP)
            .ioprio(POLL_FIRST);
        let entry = entry.build().flags(squeue::Flags::BUFFER_SELECT);
        self.push(&aimed(entry, target), data(What::Receive, 0, key));
    }

    /// Sends what is in the slot, as far as the socket takes it at once.
    pub(super) fn send(&mut self, target: Target<'_>, slot: Slot, key: u32) {
        let start = self.unsent(&slot).as_ptr();
        let Ok(len) = u32::try_from(slot.len()) else { unreachable!("a slot is small") };
        let entry = opcode::Send::new(Fd(number(target)), start, len)
            .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        let number = slot.number;
        let place = &mut self.away[usize::from(number)];
        assert!(place.is_none(), "slot {number} is in flight twice");
        *place = Some(slot);
        self.instant += 1;
        self.push(&aimed(entry.build(), target), data(What::Send, number, key));
    }

    /// Ends what was asked for, unless it has ended. Either way it is told.
    pub(super) fn cancel(&mut self, what: What, key: u32) {
        let entry = opcode::AsyncCancel::new(data(what, 0, key)).build();
        self.push(&entry, data(What::Cancel, 0, key));
    }

    /// Puts a submission in line. A full line is handed over first.
    fn push(&mut self, entry: &squeue::Entry, data: u64) {
        while self.mapped.submission().is_full() {
            let entered = self.enter(0, None);
            assert!(entered.is_ok(), "a valid ring refuses submissions: {entered:?}");
        }
        let entry = entry.clone().user_data(data);
        // SAFETY: the addresses that an entry names lie in the arena, in a slot that `away` holds
        // or a buffer whose token nobody has, until `collect` has seen its completion; the arena
        // is not freed before.
        let pushed = unsafe { self.mapped.submission().push(&entry) };
        assert!(pushed.is_ok(), "there is room");
        self.flight += 1;
    }

    /// Hands over what is in line, and takes what has come. Nothing is waited for.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        self.enter(0, None)
    }

    /// The same, and waits until something has come, for so long; `None`: for ever.
    ///
    /// # Panics
    /// Sends are in line. What of them was not taken asks for more, so it is looked at first.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        assert!(self.arrived.is_empty(), "it would sleep over what has come");
        assert!(!self.has_sends(), "it would sleep over what was not sent");
        self.enter(1, timeout)
    }

    /// Whether sends are in line.
    pub(super) fn has_sends(&self) -> bool {
        self.instant > 0
    }

    /// Whether a call would hand something over or bring something.
    pub(super) fn has_work(&mut self) -> bool {
        let line = self.mapped.submission();
        let work = !line.is_empty() || line.taskrun() || line.cq_overflow();
        drop(line);
        work || !self.mapped.completion().is_empty() || !self.arrived.is_empty()
    }

    /// The next of what has come.
    pub(super) fn next(&mut self) -> Option<Completion> {
        self.arrived.pop_front()
    }

    /// Whether something may still come that was not signalled again and again.
    #[cfg(test)]
    pub(super) fn flight(&self) -> usize {
        self.flight
    }

    /// An error is one that no later call would mend: of what the caller does wrong, or `EBADR`,
    /// when the kernel had no memory to keep a completion and has lost it.
    fn enter(&mut self, events: usize, timeout: Option<Duration>) -> io::Result<()> {
        let mut done = self.attempt(events, timeout)?;
        self.collect();
        // What is left there wakes the next call that waits, so it need not be tried again here.
        while done && self.mapped.submission().cq_overflow() {
            done = self.attempt(0, None)?;
            self.collect();
        }
        self.instant = self.instant.min(self.mapped.submission().len());
        Ok(())
    }

    /// False: the kernel asks for another call, later.
    fn attempt(&mut self, events: usize, timeout: Option<Duration>) -> io::Result<bool> {
        let Err(error) = self.call(events, timeout) else { return Ok(true) };
        match error.raw_os_error() {
            // Out of time, or cut short by a signal: as if nothing had come.
            Some(libc::ETIME | libc::EINTR) => Ok(false),
            // No memory for requests, or completions to be taken first: what was not handed over
            // stays in line for the next call.
            Some(libc::EAGAIN | libc::EBUSY) => {
                thread::yield_now();
                Ok(false)
            }
            _ => Err(error),
        }
    }

    /// The system call alone: what has come stays with the kernel.
    pub(super) fn call(&mut self, events: usize, timeout: Option<Duration>) -> io::Result<()> {
        let submit = self.mapped.submission().len();
        let (Ok(submit), Ok(events)) = (u32::try_from(submit), u32::try_from(events)) else {
            unreachable!("a ring is small")
        };
        let time = timeout.map(Timespec::from);
        let mut arguments = SubmitArgs::new();
        if let Some(time) = &time {
            arguments = arguments.timespec(time);
        }
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        // SAFETY: the arguments live until the call returns; what is handed over was pushed by
        // `push`, which says why that is sound.
        let entered = unsafe {
            self.mapped.submitter().enter(submit, events, flags.bits(), Some(&arguments))
        };
        entered.map(drop)
    }

    /// Whether there was no room for all that has come.
    #[cfg(test)]
    pub(super) fn overflows(&mut self) -> bool {
        self.mapped.submission().cq_overflow()
    }

    fn collect(&mut self) {
        let Self { mapped, away, arrived, flight, .. } = self;
        for entry in mapped.completion() {
            let (what, number, key) = parts(entry.user_data());
            let flags = entry.flags();
            let is_last = !cqueue::more(flags);
            let raw = entry.result();
            let result = u32::try_from(raw).map_err(|_| Errno::from_raw_os_error(-raw));
            let slot = (what == What::Send).then(|| away[usize::from(number)].take()).flatten();
            assert_eq!(slot.is_some(), what == What::Send, "a send completes once");
            let received = cqueue::buffer_select(flags).map(|buffer| {
                let len = result.map_or(0, |len| len as usize);
                assert!(buffer < BUFFERS && len <= PIECE, "{len} bytes in buffer {buffer}");
                Received { buffer, len }
            });
            *flight -= usize::from(is_last);
            let has_more = cqueue::sock_nonempty(flags);
            arrived.push_back(Completion { what, key, result, is_last, has_more, slot, received });
        }
    }
}

/// `IORING_RECVSEND_POLL_FIRST`: as a rule nothing has come yet, and an attempt would be for
/// nothing.
const POLL_FIRST: u16 = 1;

fn number(target: Target<'_>) -> i32 {
    match target.place {
        Some(place) => i32::try_from(place).unwrap_or(i32::MAX),
        None => target.socket.as_raw_fd(),
    }
}

fn aimed(entry: squeue::Entry, target: Target<'_>) -> squeue::Entry {
    if target.place.is_some() { entry.flags(squeue::Flags::FIXED_FILE) } else { entry }
}

fn on_a_thread_that_ends<T: Send>(what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| match thread::Builder::new().spawn_scoped(scope, what)?.join() {
        Ok(done) => done,
        Err(panic) => resume_unwind(panic),
    })
}

fn data(what: What, slot: u16, key: u32) -> u64 {
    u64::from(key) << 32 | u64::from(slot) << 8 | what as u64
}

fn parts(data: u64) -> (What, u16, u32) {
    let [what, low, high, _, key @ ..] = data.to_le_bytes();
    (WHATS[usize::from(what)], u16::from_le_bytes([low, high]), u32::from_le_bytes(key))
}

impl Drop for Ring {
    /// Cancels and awaits what is in flight: the kernel may write to the arena until then.
    fn drop(&mut self) {
        let handed_over = self.flight - self.mapped.submission().len();
        if handed_over == 0 {
            return;
        }
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any().all()).build();
        self.push(&entry, data(What::Cancel, 0, 0));
        while self.flight > 0 {
            self.arrived.clear();
            if self.enter(1, None).is_err() {
                // Another thread's ring, or one that is refused by now.
                self.arena.is_kept = true;
                return;
            }
        }
    }
}

/// The memory that the kernel knows.
struct Arena {
    base: NonNull<u8>,
    /// It is never freed: the kernel may have it for as long as the process runs.
    is_kept: bool,
}

// SAFETY: it is memory that nothing else points to, except the kernel's ring beside it, which goes
// where it goes.
unsafe impl Send for Arena {}

impl Arena {
    fn layout() -> io::Result<Layout> {
        Layout::from_size_align(ARENA, PAGE).map_err(io::Error::other)
    }

    fn new() -> io::Result<Self> {
        let layout = Self::layout()?;
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) });
        let base = base.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, is_kept: false })
    }

    /// The memory at `offset`, in bounds.
    fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= ARENA - PIECE, "{offset} is no offset of a piece");
        // SAFETY: the offset is in the allocation.
        unsafe { self.base.add(offset) }
    }

    fn slot(&self, slot: &Slot) -> &[u8] {
        let start = self.at(SLOTS_AT + usize::from(slot.number) * PIECE);
        // SAFETY: zeroed when it was allocated; the token shows that the kernel has not got it and
        // nobody else refers to it.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), PIECE) }
    }

    fn slot_mut(&mut self, slot: &Slot) -> &mut [u8] {
        let start = self.at(SLOTS_AT + usize::from(slot.number) * PIECE);
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), PIECE) }
    }

    fn buffer(&self, received: &Received) -> &[u8] {
        let start = self.at(BUFFERS_AT + usize::from(received.buffer) * PIECE);
        // SAFETY: as above; the kernel gets it again by `lend`, which takes the token.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), PIECE) }
    }

    /// Gives a buffer to the kernel, as the entry of this number since the start.
    fn lend(&mut self, entry: u16, buffer: u16) {
        let start = self.at(BUFFERS_AT + usize::from(buffer) * PIECE).as_ptr().addr() as u64;
        let entries = self.base.cast::<BufRingEntry>();
        // SAFETY: the arena begins with so many entries, aligned to a page. The kernel reads those
        // before the tail only, and this one is behind it until the store.
        let place = unsafe { entries.add(usize::from(entry % BUFFERS)).as_mut() };
        place.set_addr(start);
        place.set_len(PIECE_LEN);
        place.set_bid(buffer);
        // SAFETY: the first entry is there; its last field is the tail, which the kernel reads as
        // an atomic, and nobody else writes.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries.as_ptr()).cast_mut()) };
        tail.store(entry.wrapping_add(1), Ordering::Release);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let (false, Ok(layout)) = (self.is_kept, Self::layout()) {
            // SAFETY: allocated by `new` with this layout, and nothing is in flight.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { files, flight, .. } = self;
        let mut ring = formatter.debug_struct("Ring");
        ring.field("files", files).field("flight", flight).finish_non_exhaustive()
    }
}
