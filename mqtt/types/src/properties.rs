//! A block of properties as it stands on the wire: checked once, read lazily, forwarded as bytes.
//!
//! The block is held without its length prefix. Reading never fails: a block that was not checked
//! ends at its first fault.

use alloc::vec::Vec;

use thiserror::Error;

use crate::{
    Property, PropertyId, TextError, TopicError, TopicName, VarintError, check_text, read_varint,
    write_varint,
};

/// Where a block of properties stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the packets by their names, and the will of CONNECT")]
pub enum PropertyScope {
    Connect,
    Will,
    ConnAck,
    Publish,
    PubAck,
    PubRec,
    PubRel,
    PubComp,
    Subscribe,
    SubAck,
    Unsubscribe,
    UnsubAck,
    Disconnect,
    Auth,
}

/// Why a block of properties is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PropertyError {
    /// The block ends inside a property.
    #[error("a property is cut off")]
    Truncated,
    /// A length or number is no variable byte integer.
    #[error(transparent)]
    Varint(#[from] VarintError),
    /// No property has this identifier.
    #[error("unknown property 0x{0:02X}")]
    Unknown(u32),
    /// The property does not belong in this packet.
    #[error("property {0:?} does not belong in this packet")]
    Misplaced(PropertyId),
    /// The property stands twice.
    #[error("property {0:?} stands twice")]
    Repeated(PropertyId),
    /// A string is no MQTT string.
    #[error("property {0:?}: {1}")]
    Text(PropertyId, TextError),
    /// The value is outside its range.
    #[error("property {0:?} has a value that is not allowed")]
    Value(PropertyId),
    /// A response topic is no topic name.
    #[error("response topic: {0}")]
    ResponseTopic(TopicError),
    /// Authentication data without a method.
    #[error("authentication data without a method")]
    DataWithoutMethod,
    /// A value is too long to be written.
    #[error("property {0:?} is longer than 65535 bytes")]
    TooLong(PropertyId),
}

impl PropertyError {
    /// Whether the fault is a protocol error (0x82) rather than malformed bytes (0x81).
    pub const fn is_protocol_error(&self) -> bool {
        matches!(
            self,
            Self::Repeated(_)
                | Self::Value(_)
                | Self::ResponseTopic(_)
                | Self::DataWithoutMethod
                | Self::TooLong(_)
        )
    }
}

/// Encoded properties, without the length in front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties<'a>(&'a [u8]);

impl<'a> Properties<'a> {
    /// No property.
    pub const EMPTY: Self = Self(&[]);

    /// Checks a block: identifiers, places, repetitions, strings and ranges.
    //= MQTT5-1.5.7-1
    pub fn parse(block: &'a [u8], scope: PropertyScope) -> Result<Self, PropertyError> {
        Self::parse_each(block, scope, |_| {})
    }

    /// Checks a block and shows each property to `visit` on the way, so that what a packet needs
    /// to know of its properties takes no second pass.
    pub fn parse_each(
        block: &'a [u8],
        scope: PropertyScope,
        mut visit: impl FnMut(Property<'a>),
    ) -> Result<Self, PropertyError> {
        let mut seen = 0_u64;
        let mut cursor = Cursor(block);
        while !cursor.0.is_empty() {
            let property = cursor.property()?;
            let id = property.id();
            if !id.allowed_in(scope) {
                return Err(PropertyError::Misplaced(id));
            }
            let bit = 1_u64 << id.code();
            if seen & bit != 0 && !id.repeatable_in(scope) {
                return Err(PropertyError::Repeated(id));
            }
            seen |= bit;
            check_value(property)?;
            visit(property);
        }
        let has = |id: PropertyId| seen & 1 << id.code() != 0;
        if has(PropertyId::AuthData) && !has(PropertyId::AuthMethod) {
            return Err(PropertyError::DataWithoutMethod);
        }
        Ok(Self(block))
    }

    /// A block that was checked before, as records hold it. Reading one that was not is safe: it
    /// ends at its first fault.
    pub const fn from_checked(block: &'a [u8]) -> Self {
        Self(block)
    }

    /// The encoded bytes, without the length in front.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The properties in their order.
    pub const fn iter(self) -> PropertiesIter<'a> {
        PropertiesIter(Cursor(self.0))
    }

    /// The first property with this identifier.
    #[inline]
    pub fn find(self, id: PropertyId) -> Option<Property<'a>> {
        if self.is_empty() {
            return None;
        }
        self.iter().find(|property| property.id() == id)
    }

    /// The properties in their order, each with the bytes that encode it: for forwarding some.
    pub fn iter_encoded(self) -> impl Iterator<Item = (Property<'a>, &'a [u8])> {
        let mut iter = self.iter();
        core::iter::from_fn(move || {
            let before = iter.0.0;
            let property = iter.next()?;
            Some((property, &before[..before.len() - iter.0.0.len()]))
        })
    }
}

impl<'a> IntoIterator for Properties<'a> {
    type Item = Property<'a>;
    type IntoIter = PropertiesIter<'a>;

    fn into_iter(self) -> PropertiesIter<'a> {
        self.iter()
    }
}

/// The properties of a block in their order.
#[derive(Clone, Debug)]
pub struct PropertiesIter<'a>(Cursor<'a>);

impl<'a> Iterator for PropertiesIter<'a> {
    type Item = Property<'a>;

    fn next(&mut self) -> Option<Property<'a>> {
        let property = self.0.property().ok();
        if property.is_none() {
            self.0 = Cursor(&[]);
        }
        property
    }
}

/// A block under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertiesBuf(Vec<u8>);

impl PropertiesBuf {
    /// An empty block.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a property.
    ///
    /// # Errors
    /// [`PropertyError::TooLong`] for a string or binary above 65 535 bytes; nothing is appended.
    ///
    /// # Panics
    /// On a subscription identifier above [`crate::VARINT_MAX`].
    pub fn push(&mut self, property: Property<'_>) -> Result<(), PropertyError> {
        let start = self.0.len();
        self.0.push(property.id().code());
        let written = self.value(property);
        if written.is_err() {
            self.0.truncate(start);
        }
        written.map_err(|TooLong| PropertyError::TooLong(property.id()))
    }

    /// Appends a property that is already encoded.
    pub fn push_encoded(&mut self, encoded: &[u8]) {
        self.0.extend_from_slice(encoded);
    }

    /// The block so far.
    pub fn as_properties(&self) -> Properties<'_> {
        Properties(&self.0)
    }

    /// Forgets all properties and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn value(&mut self, property: Property<'_>) -> Result<(), TooLong> {
        use Property as P;
        match property {
            P::PayloadFormat(value)
            | P::RequestProblemInfo(value)
            | P::RequestResponseInfo(value)
            | P::MaximumQoS(value)
            | P::RetainAvailable(value)
            | P::WildcardAvailable(value)
            | P::SubscriptionIdAvailable(value)
            | P::SharedAvailable(value) => self.0.push(value),
            P::MessageExpiry(value)
            | P::SessionExpiry(value)
            | P::WillDelay(value)
            | P::MaximumPacketSize(value) => self.0.extend_from_slice(&value.to_be_bytes()),
            P::ContentType(value)
            | P::ResponseTopic(value)
            | P::AssignedClientId(value)
            | P::AuthMethod(value)
            | P::ResponseInfo(value)
            | P::ServerReference(value)
            | P::ReasonString(value) => self.text(value)?,
            P::CorrelationData(value) | P::AuthData(value) => self.binary(value)?,
            P::SubscriptionId(value) => write_varint(&mut self.0, value),
            P::ServerKeepAlive(value)
            | P::ReceiveMaximum(value)
            | P::TopicAliasMaximum(value)
            | P::TopicAlias(value) => self.0.extend_from_slice(&value.to_be_bytes()),
            P::UserProperty(name, value) => {
                self.text(name)?;
                self.text(value)?;
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), TooLong> {
        self.binary(text.as_bytes())
    }

    fn binary(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let len = u16::try_from(bytes.len()).map_err(|_| TooLong)?;
        self.0.extend_from_slice(&len.to_be_bytes());
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

struct TooLong;

/// The ranges that the types do not hold.
//= MQTT5-3.3.2-13
//= MQTT5-3.3.2-14
//= MQTT5-3.3.2-19
fn check_value(property: Property<'_>) -> Result<(), PropertyError> {
    use Property as P;
    let good = match property {
        P::PayloadFormat(value)
        | P::RequestProblemInfo(value)
        | P::RequestResponseInfo(value)
        | P::MaximumQoS(value)
        | P::RetainAvailable(value)
        | P::WildcardAvailable(value)
        | P::SubscriptionIdAvailable(value)
        | P::SharedAvailable(value) => value <= 1,
        P::SubscriptionId(value) | P::MaximumPacketSize(value) => value != 0,
        P::ReceiveMaximum(value) => value != 0,
        P::ResponseTopic(topic) => {
            TopicName::new(topic).map_err(PropertyError::ResponseTopic)?;
            true
        }
        _ => true,
    };
    if good { Ok(()) } else { Err(PropertyError::Value(property.id())) }
}

#[derive(Clone, Copy, Debug)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn property(&mut self) -> Result<Property<'a>, PropertyError> {
        let code = self.varint()?;
        let id = PropertyId::from_code(code).ok_or(PropertyError::Unknown(code))?;
        self.value(id)
    }

    fn value(&mut self, id: PropertyId) -> Result<Property<'a>, PropertyError> {
        use Property as P;
        use PropertyId as I;
        let cursor = self;
        Ok(match id {
            I::PayloadFormat => P::PayloadFormat(cursor.byte()?),
            I::MessageExpiry => P::MessageExpiry(cursor.u32()?),
            I::ContentType => P::ContentType(cursor.text(id)?),
            I::ResponseTopic => P::ResponseTopic(cursor.text(id)?),
            I::CorrelationData => P::CorrelationData(cursor.binary()?),
            I::SubscriptionId => P::SubscriptionId(cursor.varint()?),
            I::SessionExpiry => P::SessionExpiry(cursor.u32()?),
            I::AssignedClientId => P::AssignedClientId(cursor.text(id)?),
            I::ServerKeepAlive => P::ServerKeepAlive(cursor.u16()?),
            I::AuthMethod => P::AuthMethod(cursor.text(id)?),
            I::AuthData => P::AuthData(cursor.binary()?),
            I::RequestProblemInfo => P::RequestProblemInfo(cursor.byte()?),
            I::WillDelay => P::WillDelay(cursor.u32()?),
            I::RequestResponseInfo => P::RequestResponseInfo(cursor.byte()?),
            I::ResponseInfo => P::ResponseInfo(cursor.text(id)?),
            I::ServerReference => P::ServerReference(cursor.text(id)?),
            I::ReasonString => P::ReasonString(cursor.text(id)?),
            I::ReceiveMaximum => P::ReceiveMaximum(cursor.u16()?),
            I::TopicAliasMaximum => P::TopicAliasMaximum(cursor.u16()?),
            I::TopicAlias => P::TopicAlias(cursor.u16()?),
            I::MaximumQoS => P::MaximumQoS(cursor.byte()?),
            I::RetainAvailable => P::RetainAvailable(cursor.byte()?),
            I::UserProperty => P::UserProperty(cursor.text(id)?, cursor.text(id)?),
            I::MaximumPacketSize => P::MaximumPacketSize(cursor.u32()?),
            I::WildcardAvailable => P::WildcardAvailable(cursor.byte()?),
            I::SubscriptionIdAvailable => P::SubscriptionIdAvailable(cursor.byte()?),
            I::SharedAvailable => P::SharedAvailable(cursor.byte()?),
        })
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], PropertyError> {
        let (head, tail) = self.0.split_at_checked(len).ok_or(PropertyError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PropertyError> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(PropertyError::Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, PropertyError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, PropertyError> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, PropertyError> {
        self.array().map(u32::from_be_bytes)
    }

    fn varint(&mut self) -> Result<u32, PropertyError> {
        let (value, len) = read_varint(self.0)?;
        self.take(len)?;
        Ok(value)
    }

    fn binary(&mut self) -> Result<&'a [u8], PropertyError> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }

    fn text(&mut self, id: PropertyId) -> Result<&'a str, PropertyError> {
        check_text(self.binary()?).map_err(|error| PropertyError::Text(id, error))
    }
}

#[cfg(test)]
mod tests;
