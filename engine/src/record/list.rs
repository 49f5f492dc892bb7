//! Lists inside a record: items one behind the other up to the end, checked once, read lazily.

use core::fmt;
use core::marker::PhantomData;

use crate::wire::{Reader, RecordError};

/// What a list is made of. Sealed: only the records of this crate have lists.
pub trait Listed {
    /// One item.
    type Item<'a>;

    /// Reads one item.
    fn read<'a>(reader: &mut Reader<'a>) -> Result<Self::Item<'a>, RecordError>;

    /// Appends one item.
    fn write(item: &Self::Item<'_>, out: &mut Vec<u8>);
}

/// Checked items of a record.
pub struct List<'a, K>(&'a [u8], PhantomData<K>);

impl<'a, K: Listed> List<'a, K> {
    /// No item.
    pub const EMPTY: Self = Self(&[], PhantomData);

    /// Checks encoded items.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            K::read(&mut reader)?;
        }
        Ok(Self(bytes, PhantomData))
    }

    /// The encoded items.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The items in their order.
    pub const fn iter(self) -> ListIter<'a, K> {
        ListIter(Reader::new(self.0), PhantomData)
    }
}

impl<K> Clone for List<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for List<'_, K> {}

impl<K> PartialEq for List<'_, K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K> Eq for List<'_, K> {}

impl<'a, K: Listed<Item<'a>: fmt::Debug>> fmt::Debug for List<'a, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, K: Listed> IntoIterator for List<'a, K> {
    type Item = K::Item<'a>;
    type IntoIter = ListIter<'a, K>;

    fn into_iter(self) -> ListIter<'a, K> {
        self.iter()
    }
}

/// The items of a list in their order.
pub struct ListIter<'a, K>(Reader<'a>, PhantomData<K>);

impl<'a, K: Listed> Iterator for ListIter<'a, K> {
    type Item = K::Item<'a>;

    fn next(&mut self) -> Option<K::Item<'a>> {
        if self.0.is_empty() { None } else { K::read(&mut self.0).ok() }
    }
}

/// A list under construction; it is cleared and used again.
#[derive(Clone, Debug)]
pub struct ListBuf<K>(Vec<u8>, PhantomData<K>);

impl<K> Default for ListBuf<K> {
    fn default() -> Self {
        Self(Vec::new(), PhantomData)
    }
}

impl<K: Listed> ListBuf<K> {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an item.
    pub fn push(&mut self, item: &K::Item<'_>) {
        K::write(item, &mut self.0);
    }

    /// The encoded items, for those who append by parts.
    pub(super) const fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// The list so far.
    pub fn as_list(&self) -> List<'_, K> {
        List(&self.0, PhantomData)
    }

    /// Whether there is no item.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all items and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
