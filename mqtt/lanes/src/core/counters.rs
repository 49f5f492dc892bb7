//! What a lane has done, and what it dropped: every byte and event that is thrown away is counted.

/// Totals since the lane's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Turns made.
    pub turns: u64,
    /// Connections that came from listeners.
    pub accepted: u64,
    /// Connections that came from other lanes.
    pub adopted: u64,
    /// Connections that went to other lanes.
    pub departed: u64,
    /// Connections that ended here.
    pub closed: u64,
    /// Reads asked of the driver, empty ones included.
    pub reads: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes queued for sending, payloads by reference included.
    pub bytes_queued: u64,
    /// Writes asked of the driver.
    pub writes: u64,
    /// Bytes the driver took.
    pub bytes_out: u64,
    /// Writes of which the driver took a part or nothing.
    pub blocked: u64,
    /// Messages sent to other lanes.
    pub sent: u64,
    /// Messages given back because their ring was full.
    pub ring_full: u64,
    /// Messages received from other lanes.
    pub received: u64,
    /// Output dropped, in bytes: its connection ended first.
    pub dropped_output: u64,
    /// Input dropped, in bytes: read or kept, but its connection was closed here.
    pub dropped_input: u64,
    /// Times that a connection was not read until there was room for its packet.
    pub input_waits: u64,
    /// Connections that had room for a packet for too long.
    pub input_overdue: u64,
    /// Connections cut because they did not take their last output in time.
    pub linger_expired: u64,
    /// Events of connections that were gone.
    pub stale_events: u64,
    /// Connections that came from a listener while the lane was stopping, and were closed.
    pub refused: u64,
    /// Connections that a driver could not take, for want of memory or descriptors.
    pub add_failed: u64,
}

/// Bytes that a lane holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferTotals {
    /// Queued output, payloads by reference included.
    pub output: usize,
    /// Memory of it: the capacity of its buffers, and payloads by reference as often as they are
    /// queued.
    pub output_held: usize,
    /// Unconsumed input.
    pub input: usize,
    /// Memory of it: the capacity of its buffers, and what packets that have begun will take.
    pub input_held: usize,
    /// Idle buffers in the pool.
    pub pooled: usize,
    /// Memory that the driver holds of input and output, as of the lane's last turn: of TLS records
    /// that were not sent or not read as a whole.
    pub driver: usize,
}
