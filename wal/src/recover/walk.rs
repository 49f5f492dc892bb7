//! From windows to groups: one segment, group by group, in order.
//!
//! Owns: groups that lie in more than one window. Does not know: whether groups follow one
//! another, and what it means when they end.

use std::io;

use super::window::{Body, Find, Span, Window, check_records};
use crate::disk::{BLOCK, DiskFile};
use crate::format::group::GroupHeader;
use crate::format::record::RecordFault;
use crate::format::segment::GROUPS_AT;

/// What lies at a place where a group may be.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// An intact group of this segment with all its bytes.
    Group {
        header: GroupHeader,
        bytes: &'a [u8],
        /// Each record is intact, too.
        records: Result<(), RecordFault>,
    },
    /// No such group; why, if remains of one are there.
    End(Option<&'static str>),
}

/// Where windows of one segment come from, in order.
pub(crate) trait Windows {
    type File: DiskFile;

    fn span(&self) -> &Span<Self::File>;

    /// The window that begins at `at`, in front of the span's limit. `least` bytes of it are wanted
    /// for certain.
    fn take(&mut self, at: u64, least: usize) -> io::Result<Window>;

    /// Its memory is not needed any more.
    fn give_back(&mut self, window: Window);
}

/// Goes through the groups of one segment.
pub(crate) struct Walk<W: Windows> {
    windows: W,
    at: u64,
    window: Option<Window>,
    /// A group of which an earlier window had the front.
    carry: Vec<u8>,
}

impl<W: Windows> Walk<W> {
    /// From `at` on.
    pub(crate) fn new(windows: W, at: u64) -> Self {
        assert!(at >= GROUPS_AT && at.is_multiple_of(GROUPS_AT), "groups begin at blocks");
        Self { windows, at, window: None, carry: Vec::new() }
    }

    /// Where the windows come from.
    pub(crate) fn windows(&mut self) -> &mut W {
        &mut self.windows
    }

    /// Where the next group may be.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The group at [`at`](Self::at), which then moves behind it.
    pub(crate) fn next(&mut self) -> io::Result<Step<'_>> {
        let Some(find) = self.look()? else { return Ok(Step::End(self.why_not())) };
        let (at, header) = (self.at, find.header);
        match find.body {
            Body::Torn => Ok(Step::End(Some(TORN_BODY))),
            Body::Intact(records) => {
                self.at += header.length as u64;
                let bytes = &self.bytes_from(at)[..header.length];
                Ok(Step::Group { header, bytes, records })
            }
            Body::Cut => self.gather(&header),
        }
    }

    /// All headers from here to the end of the segment, those of intact groups or not.
    pub(crate) fn remains(&mut self, mut seen: impl FnMut(&GroupHeader)) -> io::Result<()> {
        while self.at < self.windows.span().limit() {
            self.move_window(BLOCK)?;
            let Some(window) = &self.window else { return Ok(()) };
            window.finds_from(self.at).for_each(|find| seen(&find.header));
            if !window.goes_on(self.windows.span()) {
                return Ok(());
            }
            self.at = window.end();
        }
        Ok(())
    }

    /// The header at the place, if there is one.
    fn look(&mut self) -> io::Result<Option<Find>> {
        if self.at >= self.windows.span().limit() {
            return Ok(None);
        }
        self.move_window(BLOCK)?;
        let Some(window) = &self.window else { return Ok(None) };
        let span = self.windows.span();
        // A window's search may have passed over it only with bytes that no writer makes.
        let examined = || span.examine(self.at, window.from(self.at), window.goes_on(span));
        Ok(window.find(self.at).or_else(examined))
    }

    fn why_not(&self) -> Option<&'static str> {
        let span = self.windows.span();
        let torn = self.at < span.limit() && span.is_torn_header(self.bytes_from(self.at));
        torn.then_some(TORN_HEADER)
    }

    fn bytes_from(&self, at: u64) -> &[u8] {
        self.window.as_ref().map_or(&[], |window| window.from(at))
    }

    /// Makes the window the one with the place: the same, or the next, which begins there.
    fn move_window(&mut self, least: usize) -> io::Result<()> {
        if self.window.as_ref().is_some_and(|window| window.holds(self.at)) {
            return Ok(());
        }
        if let Some(window) = self.window.take() {
            self.windows.give_back(window);
        }
        self.window = Some(self.windows.take(self.at, least)?);
        Ok(())
    }

    /// A group whose end is in a later window is put together and checked here.
    fn gather(&mut self, header: &GroupHeader) -> io::Result<Step<'_>> {
        let start = self.at;
        let mut carry = std::mem::take(&mut self.carry);
        carry.clear();
        while carry.len() < header.length {
            let missing = header.length - carry.len();
            self.move_window(missing)?;
            let bytes = self.bytes_from(self.at);
            let wanted = bytes.len().min(missing);
            carry.extend_from_slice(&bytes[..wanted]);
            self.at += wanted as u64;
            // The file may end within the group, and within a block.
            let span = self.windows.span();
            if !self.window.as_ref().is_some_and(|window| window.goes_on(span)) {
                break;
            }
        }
        self.carry = carry;
        if !header.body_is_intact(&self.carry) {
            self.at = start;
            return Ok(Step::End(Some(TORN_BODY)));
        }
        let bytes = &self.carry[..];
        let records = check_records(header.records(bytes));
        Ok(Step::Group { header: *header, bytes, records })
    }
}

impl<W: Windows> Drop for Walk<W> {
    fn drop(&mut self) {
        if let Some(window) = self.window.take() {
            self.windows.give_back(window);
        }
    }
}

const TORN_HEADER: &str = "the header of a group is not whole";
const TORN_BODY: &str = "a group's bytes are not those that its header names";
